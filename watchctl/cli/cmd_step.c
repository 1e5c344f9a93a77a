/* cmd_step - `watchctl step`: the command's words. The work is done by watchctl-step. */
#include "watchctl/cli/command.h"
#include "watchctl/cli/request/step_options.h"
#include "watchctl/cli/request/step_worker.h"

static struct wc_error *cmd_step_run(int argc, char **argv)
{
	struct step_command c;
	struct wc_error *err = step_options_parse(argc, argv, &c);

	return err ? err : step_worker_run("step", STEP_WORKER, argv);
}

const struct command cmd_step = {
	.name = "step",
	.args = "[--from CODE] [--to CODE] [options] -o LOG -- PROGRAM [ARGS]\n"
		"[--from CODE] [--to CODE] [options] -o LOG -p PID",
	.summary = "record every call in a range, with parameters, results and stacks",
	.help = "Record a run that works and one that does not, then ask `watchctl diff GOOD BAD`.\n"
		"Libraries of the system (libc, libm, ld.so, libstdc++ ...) are stepped over: a call of\n"
		"them is one event. Ctrl-C ends the recording and leaves the program running.\n",
	.options = step_options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_step_run,
};
