#include "watchctl/target/inject/trap_known.h"

#include "watchctl/base/clock.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"

#define IGNORE 1u

static bool is_handler(const struct wire_sigaction *a)
{
	return a->handler > IGNORE;
}

void trap_known_ask(pid_t pid, struct trap_known *ret)
{
	struct proc_status s;
	struct wc_error *err;

	*ret = (struct trap_known){ 0 };
	if (!proc_status_read(pid, pid, &s) || s.tracer || s.seccomp || !(s.caught & PROC_SIGTRAP))
		return;
	err = trap_action_ask(pid, &ret->action);
	ret->has_action = !err && is_handler(&ret->action);
	wc_error_free(err);
}

void trap_known_learn(struct trap_known *k, struct remote *r, struct wc_error *err)
{
	struct wire_sigaction now;

	err = err ? err : trap_action_read(r, &now);
	k->looked_ns = monotonic_ns();
	/* A hit that is still to be looked at may have removed it. */
	if (!err && !(k->has_action && trap_action_is_removed(&now, &k->action))) {
		k->action = now;
		k->has_action = is_handler(&now);
	}
	wc_error_free(err);
}

bool trap_known_give_back(struct trap_known *k, struct remote *r, struct wc_error *err)
{
	bool done = false;

	err = err ? err : trap_action_give_back(r, &k->action, &done);
	k->has_action = done;
	k->given_back += done;
	wc_error_free(err);
	return done;
}
