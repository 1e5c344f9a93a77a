#include "watchctl/step/ptrace/step_target.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/translated.h"
#include "watchctl/target/stop/launch.h"
#include "watchctl/target/stop/run_to_entry.h"

static struct wc_error *go_to_entry(struct step_target *t, bool random)
{
	const bool has_loader = run_to_entry_has_loader(t->pid);
	struct wc_error *err;

	if (!random && !has_loader)
		t->addresses = same_addresses_take_back(&t->held);
	err = run_to_entry(&t->held);
	if (!err && !random && has_loader)
		t->addresses = same_addresses_take_back(&t->held);
	return err;
}

struct wc_error *step_target_open(pid_t pid, char *const argv[], bool random, struct step_target *ret)
{
	struct step_target t = { .pid = pid, .launched = argv };
	struct wc_error *err = NULL;

	if (argv)
		err = launch_start(argv, random ? LAUNCH_RANDOM : LAUNCH_SAME, &t.held);
	if (err)
		return err;
	if (argv)
		t.pid = t.held.pid;
	err = proc_check(t.pid);
	if (!err)
		err = proc_check_translated(t.pid, "none of its calls can be recorded");
	if (!err && argv)
		err = go_to_entry(&t, random);
	if (err) {
		step_target_abandon(&t);
		return err;
	}
	*ret = t;
	return NULL;
}

struct tracee *step_target_held(struct step_target *t)
{
	return t->held.tid ? &t->held : NULL;
}

void step_target_abandon(struct step_target *t)
{
	if (!t->launched)
		return;
	kill(t->pid, SIGKILL);
	if (t->held.tid)
		tracee_release(&t->held);
	waitpid(t->pid, NULL, __WALL);
	memset(t, 0, sizeof(*t));
}

void step_target_close(struct step_target *t)
{
	if (t->held.tid)
		tracee_release(&t->held);
	if (t->launched)
		waitpid(t->pid, NULL, WNOHANG);
	memset(t, 0, sizeof(*t));
}
