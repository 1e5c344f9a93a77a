/* Children that outlive the program, as a daemon does who started it: they have its patches, which do nothing there. */
#include "watchctl/monitor/patch/patch_session_impl.h"
#include "watchctl/target/proc/proc.h"

struct heirs {
	const struct probe_place *place;
	pid_t first;
	unsigned int n;
};

static bool look(void *ctx, pid_t pid)
{
	struct heirs *h = ctx;
	const struct memory_view mem = proc_memory(&pid);
	struct probe_home home;

	if (pid == h->place->pid || !memory_read(&mem, h->place->home, &home, sizeof(home)) ||
	    home.magic != PROBE_HOME_MAGIC || home.cookie != h->place->cookie || home.start != h->place->home)
		return true;
	h->first = h->n++ ? h->first : pid;
	return true;
}

struct wc_error *session_report_heirs(struct patch_session *s)
{
	struct heirs h = { .place = &s->place };
	char name[64];

	if (!s->place.home)
		return NULL;
	proc_each(look, &h);
	if (!h.n)
		return NULL;
	proc_describe(h.first, name, sizeof(name));
	if (h.n == 1)
		return session_note(
			s,
			"the process has ended, but %s, which it forked, goes on: what runs there was neither "
			"counted nor recorded. Patch it itself: watchctl patch -p %d",
			name, (int)h.first);
	return session_note(
		s,
		"the process has ended, but %u processes that it forked go on, %s the first: what runs there was "
		"neither counted nor recorded. Patch them themselves: watchctl patch -p %d",
		h.n, name, (int)h.first);
}
