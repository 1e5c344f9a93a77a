/* Made of struct slots alone: nothing about the process is looked up here. */
#include <stdarg.h>
#include <stdio.h>

#include "watchctl/base/utf8.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/cli/output/slots_print.h"

#define COMMAND_TEXT 160u
#define TIDS_REPORTED 6u

static void line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void line(const char *fmt, ...)
{
	va_list ap;

	fputs("  ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* " (8740, 8741)": the threads that @like(t, example) holds for; "" where they are all or too many to name.
 */
static void tids_text(const struct slots *s, const struct slot_thread *example, slots_like *like, char *buf,
		      size_t cap)
{
	size_t i, n = 0, len = 0;

	buf[0] = '\0';
	for (i = 0; i < s->nthreads; i++)
		n += like(&s->thread[i], example);
	if (n == s->nthreads || n > TIDS_REPORTED)
		return;
	for (i = 0; i < s->nthreads; i++)
		if (like(&s->thread[i], example) && len < cap)
			len += (size_t)snprintf(buf + len, cap - len, "%s%d", len ? ", " : " (",
						s->thread[i].tid);
	if (len < cap)
		snprintf(buf + len, cap - len, ")");
}

static bool uses_as_many(const struct slot_thread *a, const struct slot_thread *b)
{
	return a->used == b->used;
}

static void print_used(const struct slots *s)
{
	const char *lead = "";
	char tids[128];
	size_t i, n;

	for (i = 0; i < s->nthreads; i++) {
		const struct slot_thread *t = &s->thread[i];

		if (!slots_is_first(s, i, uses_as_many, &n))
			continue;
		tids_text(s, t, uses_as_many, tids, sizeof(tids));
		if (t->used < 0)
			printf("%sthe number of debug registers in use is not known (perf events are not permitted on "
			       "it, or this machine has none)",
			       lead);
		else
			printf("%s%d of %u debug registers in use", lead, t->used, SLOTS);
		if (n < s->nthreads)
			printf(" in %zu thread%s%s", n, plural(n), tids);
		else if (n > 1 && t->used > 0)
			fputs(" in each", stdout);
		lead = ", ";
	}
	putchar('\n');
}

static void watch_text(const struct slots *s, const struct slot_watch *w, char *buf, size_t cap)
{
	char name[SLOT_NAME];

	slots_what(buf, cap, w->access, slots_name(s, w->addr, name) ? name : NULL, w->addr, w->size);
}

static void session_name(const struct slot_session *one, char *buf, size_t cap)
{
	char owner[32];

	snprintf(owner, sizeof(owner), one->owner ? "watchctl %d" : "a watchctl in another PID namespace",
		 one->owner);
	snprintf(buf, cap, "%s, %s engine%s", owner, slots_engine(one->engine), one->lives ? "" : ", killed");
}

/* Some thread still has in a register what it armed by -i. */
static bool has_left_registers(const struct slot_session *one)
{
	unsigned int k;

	for (k = 0; k < one->nwatches; k++)
		if (one->watch[k].by_ptrace && one->watch[k].slot >= 0)
			return true;
	return false;
}

static void print_left_session(const struct slots *s, const struct slot_session *one, const char *name)
{
	if (one->other_version)
		line("a handler of a different version of watchctl (%u): only that version knows what it watches",
		     one->placed->version);
	else if (one->engine == SLOT_PTRACE)
		line("%s: its tracer, process %d, is about to end", name, one->own_tracer);
	else
		line("%s: its handler is still in the process, and %s; `watchctl clear -p %d` removes it",
		     name,
		     has_left_registers(one) ? "handles the hits of registers that are still armed"
					     : "only passes signals on",
		     s->pid);
}

static void print_watches(const struct slots *s, const struct slot_session *one, const char *name)
{
	char what[SLOTS_TEXT], in[32] = "";
	unsigned int k;

	for (k = 0; k < one->nwatches; k++) {
		const struct slot_watch *w = &one->watch[k];

		watch_text(s, w, what, sizeof(what));
		if (w->slot >= 0)
			snprintf(in, sizeof(in), "DR%d, ", w->slot);
		line("%s: %s%s%s", name, w->slot >= 0 ? in : "", what,
		     w->for_itself
			     ? ", for itself: to detect changed pointers, loaded libraries or new threads"
			     : "");
	}
}

/* -1: not known. */
static int most_used(const struct slots *s)
{
	int most = 0;
	size_t i;

	for (i = 0; i < s->nthreads; i++) {
		if (s->thread[i].used < 0)
			return -1;
		most = s->thread[i].used > most ? s->thread[i].used : most;
	}
	return most;
}

static void print_session(const struct slots *s, const struct slot_session *one)
{
	char name[128], command[COMMAND_TEXT + 1];

	session_name(one, name, sizeof(name));
	if (!one->lives)
		print_left_session(s, one, name);
	else if (one->placed && (one->placed->control->flags & WIRE_TAKEN_OVER))
		line("%s: will remove what a killed watchctl has left", name);
	else if (!one->knows_watches && most_used(s) == 0)
		line("%s: holds none at the moment", name);
	else if (!one->knows_watches)
		line("%s: the registers it holds are not known: %s", name,
		     one->command ? utf8_clean(one->command, command, sizeof(command)) : "");
	else if (one->inherited_from && !one->follows_children)
		line("%s: watches process %d, from which this one was forked; its handler is inactive here",
		     name, one->inherited_from);
	else if (!one->nwatches)
		line("%s: nothing is armed now", name);
	else
		print_watches(s, one, name);
}

struct sighting {
	unsigned int slot;
	const struct slot_register *reg;
};

static bool same_register(const struct slot_register *a, const struct slot_register *b)
{
	return a->armed && b->armed && a->addr == b->addr && a->size == b->size && a->access == b->access;
}

/* In how many threads; 0: an earlier thread has the same. */
static size_t count_register(const struct slots *s, size_t i, unsigned int slot)
{
	size_t k, n = 0;

	for (k = 0; k < s->nthreads; k++) {
		if (!same_register(&s->thread[k].reg[slot], &s->thread[i].reg[slot]))
			continue;
		if (k < i)
			return 0;
		n++;
	}
	return n;
}

static void print_register(const struct slots *s, const struct slot_register *r, unsigned int slot,
			   size_t threads)
{
	char what[SLOTS_TEXT], name[SLOT_NAME], in[64] = "";

	slots_what(what, sizeof(what), r->access, slots_name(s, r->addr, name) ? name : NULL, r->addr,
		   r->size);
	if (threads < s->nthreads)
		snprintf(in, sizeof(in), " in %zu of %zu threads", threads, s->nthreads);
	if (r->session >= 0)
		line("DR%u%s: %s: left armed by watchctl %d, which was killed; `watchctl clear -p %d` clears "
		     "it",
		     slot, in, what, s->session[r->session].owner, s->pid);
	else
		line("DR%u%s: %s: armed through ptrace by a process that no longer exists: a hit may kill the "
		     "process; `watchctl clear -p %d --register %u` clears it",
		     slot, in, what, s->pid, slot);
}

static void print_registers(const struct slots *s)
{
	unsigned int n;
	size_t i;

	for (n = 0; n < SLOTS; n++) {
		for (i = 0; i < s->nthreads; i++) {
			const struct slot_register *r = &s->thread[i].reg[n];
			size_t threads = r->armed ? count_register(s, i, n) : 0;

			if (threads && !(r->session >= 0 && s->session[r->session].lives))
				print_register(s, r, n, threads);
		}
	}
}

static unsigned int most_unexplained(const struct slots *s, bool at_least)
{
	unsigned int most = 0;
	size_t i;

	for (i = 0; i < s->nthreads; i++) {
		const struct slot_thread *t = &s->thread[i];
		unsigned int n = at_least ? t->unexplained_min : t->unexplained_max;

		most = n > most ? n : most;
	}
	return most;
}

/* "1 register", "up to 2 registers", "registers". */
static void unexplained_text(const struct slots *s, char *buf, size_t cap)
{
	unsigned int min = most_unexplained(s, true), max = most_unexplained(s, false);

	if (!max)
		snprintf(buf, cap, "registers");
	else
		snprintf(buf, cap, "%s%u register%s", max > min ? "up to " : "", max, plural(max));
}

static void print_others(const struct slots *s)
{
	unsigned int min = most_unexplained(s, true), max = most_unexplained(s, false);
	char held[48], command[COMMAND_TEXT + 1], name[32];
	bool unknown = s->thread[0].used < 0;
	size_t i;

	unexplained_text(s, held, sizeof(held));
	utf8_clean(s->tracer_name, name, sizeof(name));
	if (s->tracer && (max || unknown))
		line("%s (process %d) traces it, and may hold %s: meanwhile their contents cannot be read",
		     name, s->tracer, held);
	else if (s->tracer)
		line("%s (process %d) traces it, and holds none", name, s->tracer);
	for (i = 0; i < s->nperf; i++)
		line("%s (process %d) may hold %s: it has %u perf event%s, whose targets cannot be determined: %s",
		     utf8_clean(s->perf[i]->name, name, sizeof(name)), s->perf[i]->pid, held,
		     s->perf[i]->perf_events, plural(s->perf[i]->perf_events),
		     utf8_clean(s->perf[i]->command, command, sizeof(command)));
	if (min && !s->tracer && !s->nperf)
		line("%u register%s: held by a perf event of an unknown owner, or cleared, but reserved by the kernel "
		     "for ptrace, which has used it before, until the thread ends",
		     min, plural(min));
}

static void print_unseen(const struct slots *s)
{
	size_t i, busy = 0, denied = 0;

	for (i = 0; i < s->nthreads; i++) {
		busy += s->thread[i].sight == SLOT_BUSY;
		denied += s->thread[i].sight == SLOT_DENIED;
	}
	if (busy)
		line("%zu thread%s could not be examined: it did not stop in time", busy, plural(busy));
	if (denied)
		line("%zu thread%s could not be examined: not permitted (kernel.yama.ptrace_scope, or another user's)",
		     denied, plural(denied));
}

static void print_thread(const struct slots *s, const struct slot_thread *t)
{
	char what[SLOTS_TEXT], name[SLOT_NAME], clean[32];
	unsigned int n;

	printf("  thread %d (%s): ", t->tid, utf8_clean(t->name, clean, sizeof(clean)));
	if (t->used < 0)
		fputs("number in use not known", stdout);
	else
		printf("%d in use", t->used);
	for (n = 0; n < SLOTS; n++) {
		const struct slot_register *r = &t->reg[n];

		if (!r->armed)
			continue;
		slots_what(what, sizeof(what), r->access, slots_name(s, r->addr, name) ? name : NULL, r->addr,
			   r->size);
		printf("; DR%u: %s", n, what);
	}
	putchar('\n');
}

void slots_print_text(const struct slots *s, bool threads)
{
	char clean[32];
	size_t i;

	printf("process %d (%s)", s->pid, utf8_clean(s->name, clean, sizeof(clean)));
	if (s->nthreads > 1)
		printf(", %zu threads", s->nthreads);
	fputs(": ", stdout);
	print_used(s);
	for (i = 0; threads && i < s->nthreads; i++)
		print_thread(s, &s->thread[i]);
	for (i = 0; i < s->nsessions; i++)
		print_session(s, &s->session[i]);
	print_registers(s);
	print_others(s);
	print_unseen(s);
}
