#include "watchctl/cli/request/step_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/step/model/step_globals.h"

#define STRING_DEFAULT 80
#define POINTEE_DEFAULT 64
#define STACK_BYTES (32u << 10)
#define INPUT_DEFAULT 4096
#define FUNCTIONS_SHOWN 20

static struct wc_error *add_pattern(const struct option_match *m, void *to)
{
	char **list = to;
	size_t n = 0;

	while (list[n])
		n++;
	if (n == STEP_PATTERNS)
		return wc_error_new(WC_EUSAGE, "%s can be given at most %u times", m->option->name,
				    STEP_PATTERNS);
	list[n] = (char *)m->value;
	return NULL;
}

#define MOST_NS 1e18 /* 31 years: still a number of nanoseconds */

/* "5s", "500ms", "2min", "0.5". */
static struct wc_error *set_time(const struct option_match *m, void *to)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "", 1e9 },     { "s", 1e9 },  { "ms", 1e6 },  { "us", 1e3 },
		      { "min", 60e9 }, { "m", 60e9 }, { "h", 3600e9 } };
	char *end;
	double n = strtod(m->value, &end);
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]) && strcmp(end, units[i].unit) != 0; i++)
		;
	if (end == m->value || i == sizeof(units) / sizeof(units[0]) || !(n > 0) || n * units[i].ns > MOST_NS)
		return wc_error_new(WC_EUSAGE, "%s %s: give a time greater than 0, like 5s, 500ms or 2min",
				    m->option->name, m->value);
	*(uint64_t *)to = (uint64_t)(n * units[i].ns);
	return NULL;
}

static struct wc_error *set_pid(const struct option_match *m, void *to)
{
	pid_t *pid = to;
	uint64_t n;
	struct wc_error *err = option_number(m, 1, INT32_MAX, &n);

	if (!err && *pid)
		err = wc_error_new(WC_EUSAGE, "-p was given twice: one process can be recorded at a time");
	if (!err)
		*pid = (pid_t)n;
	return err;
}

const struct option step_options[] = {
	{ "-p", "--pid", "PID", "record in this running process", COMPLETE_PID, NULL, .set = set_pid,
	  .at = offsetof(struct step_command, request.pid) },
	{ "--from", NULL, "CODE",
	  "begin where CODE is reached: a function, file.c:123, function+0x12, 0x... (default: at once)",
	  COMPLETE_FUNCTION, NULL, OPTION_TEXT(struct step_command, request.from) },
	{ "--to", NULL, "CODE", "end where CODE is reached (default: when the function --from has ended)",
	  COMPLETE_FUNCTION, NULL, OPTION_TEXT(struct step_command, request.to) },
	{ "--from-watch", NULL, "LOG",
	  "take --from from a watch log: the innermost function that all its accesses were made under",
	  COMPLETE_DIRECTORY, NULL, OPTION_TEXT(struct step_command, from_watch) },
	{ "--occurrence", NULL, "N", "record from the Nth time on that the range is entered (default 1)",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct step_command, request.occurrence, 1, UINT32_MAX) },
	{ "--count", NULL, "N", "record N times (default 1; 0: all)", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct step_command, request.count, 0, UINT32_MAX) },
	{ "--only", NULL, "PATTERN", "record only functions of such a name, like 'net_*'; may be repeated",
	  COMPLETE_FUNCTION, NULL, .set = add_pattern, .at = offsetof(struct step_command, only) },
	{ "--module", NULL, "LIB", "record only functions of this module, like libfoo.so; may be repeated",
	  COMPLETE_NOTHING, NULL, .set = add_pattern, .at = offsetof(struct step_command, modules) },
	{ "--step-over", NULL, "PATTERN",
	  "do not look into this module or these functions: one event a call; may be repeated",
	  COMPLETE_FUNCTION, NULL, .set = add_pattern, .at = offsetof(struct step_command, over) },
	{ "--step-into", NULL, "PATTERN", "but look into these, like libm.so; may be repeated",
	  COMPLETE_FUNCTION, NULL, .set = add_pattern, .at = offsetof(struct step_command, into) },
	{ "--skip", NULL, "PATTERN",
	  "leave these functions alone: no event of their own, and no stop; may be repeated",
	  COMPLETE_FUNCTION, NULL, .set = add_pattern, .at = offsetof(struct step_command, skip) },
	{ "--threads", NULL, "WHICH",
	  "all (default), range (the one that entered it, and those it makes), or one", COMPLETE_WORDS,
	  "all range one", OPTION_CHOICE(struct step_command, request.threads) },
	{ "--depth", NULL, "N", "record calls down to this depth", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct step_command, request.depth, 1, UINT32_MAX) },
	{ "--events", NULL, "N", "end after N calls", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct step_command, request.events, 1, UINT64_MAX) },
	{ "--stuck-after", NULL, "TIME",
	  "end when nothing has happened for so long (5s, 500ms), and record where each thread stands",
	  COMPLETE_NOTHING, NULL, .set = set_time, .at = offsetof(struct step_command, request.stuck_ns) },
	{ "-t", "--time", "SECONDS", "end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL,
	  .set = set_time, .at = offsetof(struct step_command, limits.time_ns) },
	{ "--stepper", "--mover", "STEPPER",
	  "ptrace (default); patch: functions record by themselves, a thousand times faster; or lldb: LLDB's own breakpoints, slower",
	  COMPLETE_WORDS, "ptrace lldb patch", OPTION_CHOICE(struct step_command, stepper) },
	{ "--every-instruction", NULL, NULL, "record each instruction of the recorded functions too", 0, NULL,
	  OPTION_FLAG(struct step_command, request.instructions) },
	{ "--string", NULL, "N", "bytes of a string, 1 to 1024 (default 80)", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct step_command, request.plans.string_max, 1, PLANNER_POINTEE_MAX) },
	{ "--pointee", NULL, "N",
	  "bytes of what a pointer points to, 0 to 1024 (default 64; 0: pointers are not followed)",
	  COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct step_command, request.plans.pointee_max, 0, PLANNER_POINTEE_MAX) },
	{ "--globals", NULL, "N",
	  "bytes of the program's variables whose changes by each call are recorded, 0 to 16777216 (default 65536; 0: none)",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct step_command, request.globals, 0, GLOBALS_MAX) },
	{ "--bytes", NULL, "N", "bytes of each input, like a read of a file, 0 to 1048576 (default 4096)",
	  COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct step_command, request.input_bytes, 0, INPUT_BYTES_MAX) },
	{ "--no-inputs", NULL, NULL,
	  "do not record what files, pipes, sockets, the environment deliver: fewer stops of the program", 0,
	  NULL, OPTION_FLAG(struct step_command, request.no_inputs) },
	{ "--aslr", NULL, NULL,
	  "a launched program has random addresses, as ever (default: the same each time, so that runs can be compared)",
	  0, NULL, OPTION_FLAG(struct step_command, aslr) },
	{ "-o", "--log", "LOG", "record into the new log LOG; calls are then not printed", COMPLETE_DIRECTORY,
	  NULL, OPTION_TEXT(struct step_command, output.log) },
	{ "--force", NULL, NULL, "with -o: replace LOG where it exists", 0, NULL,
	  OPTION_FLAG(struct step_command, output.force) },
	{ "--echo", NULL, NULL, "with -o: print them all the same", 0, NULL,
	  OPTION_FLAG(struct step_command, echo) },
	{ "--program-output", NULL, "FILE",
	  "the standard output of a launched program goes to FILE; what is printed then has ours",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct step_command, output.program_output) },
	{ "--output", NULL, "FILE",
	  "print to FILE (default: standard output; with a launched program, standard error)", COMPLETE_FILE,
	  NULL, OPTION_TEXT(struct step_command, output.file) },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL,
	  OPTION_FLAG(struct step_command, output.json) },
	{ "--no-stack", NULL, NULL, "do not print the callers", 0, NULL,
	  OPTION_FLAG(struct step_command, output.print.no_stack) },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL,
	  OPTION_FLAG(struct step_command, output.print.utc) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct step_command, output.colour) },
	OPTIONS_IN(struct step_command, ready, ready_options),
	OPTIONS_IN(struct step_command, redact, redact_options),
	{ "-q", "--quiet", NULL, "print no calls: only the summary", 0, NULL,
	  OPTION_FLAG(struct step_command, quiet) },
	{ "--verbose", NULL, NULL, "report what is being done", 0, NULL,
	  OPTION_FLAG(struct step_command, verbose) },
	{ 0 },
};

static struct wc_error *step_options_check(const struct step_command *c)
{
	if (c->request.pid && c->argv)
		return wc_error_new(
			WC_EUSAGE,
			"-p PID records in a running process, -- PROGRAM starts one: give one of them");
	if (!c->request.pid && !c->argv)
		return wc_error_new(WC_EUSAGE,
				    "record in which process? Give -p PID, or -- PROGRAM to start one");
	if (c->request.pid == getpid())
		return wc_error_new(WC_EUSAGE, "process %d is watchctl itself", c->request.pid);
	if (c->from_watch && c->request.from)
		return wc_error_new(WC_EUSAGE,
				    "--from and --from-watch both say where the range begins: give one");
	if (c->stepper == STEP_STEPPER_PATCH && c->request.instructions)
		return wc_error_new(
			WC_EUSAGE,
			"--stepper patch sees functions, no single instructions: --every-instruction goes with --stepper ptrace");
	if (c->stepper == STEP_STEPPER_PATCH && c->request.stuck_ns)
		return wc_error_new(
			WC_EUSAGE,
			"--stepper patch stops no threads to see where they stand: --stuck-after goes with --stepper ptrace");
	if (c->stepper == STEP_STEPPER_PATCH && c->request.threads == STEPPER_THREADS_RANGE)
		return wc_error_new(
			WC_EUSAGE,
			"--stepper patch does not see which thread made another: --threads range goes with --stepper ptrace");
	if (c->output.program_output && !c->argv)
		return wc_error_new(WC_EUSAGE, "--program-output needs a program to launch: -- PROGRAM");
	if (c->aslr && !c->argv)
		return wc_error_new(
			WC_EUSAGE,
			"--aslr needs a program to launch: the addresses of one that runs are what they are");
	if (c->output.force && !c->output.log)
		return wc_error_new(WC_EUSAGE, "--force goes with -o LOG, which it replaces");
	if (c->echo && !c->output.log)
		return wc_error_new(WC_EUSAGE,
				    "--echo goes with -o LOG: without it, calls are printed anyway");
	return NULL;
}

static void set_defaults(struct step_command *c)
{
	*c = (struct step_command){ .request = { .occurrence = 1,
						 .count = 1,
						 .stack_bytes = STACK_BYTES,
						 .input_bytes = INPUT_DEFAULT,
						 .globals = GLOBALS_DEFAULT,
						 .plans = { .string_max = STRING_DEFAULT,
							    .pointee_max = POINTEE_DEFAULT } } };
	c->output.print.functions_max = FUNCTIONS_SHOWN;
	c->request.selection = (struct step_selection){ c->only, c->modules, c->over, c->into, c->skip };
}

static struct wc_error *take_word(void *request, const char *word)
{
	return wc_error_new(WC_EUSAGE, "\"%s\" is no option: a program to start follows --", word);
}

struct wc_error *step_options_parse(int argc, char **argv, struct step_command *ret)
{
	struct wc_error *err;

	set_defaults(ret);
	err = option_parse_launch(argc, argv, step_options, ret, take_word, &ret->argv);
	if (err)
		return err;
	ret->output.launched = ret->argv;
	ret->output.no_events = ret->quiet || (ret->output.log && !ret->echo);
	ret->output.redact = redact_ask_rules(&ret->redact);
	return step_options_check(ret);
}
