/*
 * Values that change without an access: another process writes to shared memory, a debugger or the kernel by a way of its
 * own. No debug register sees that, so the variable is looked at, some times a second and at the end.
 *
 * A value that differs from that of the last access is no proof: an access may be under way to us. But the CPU counts those
 * (the kernel asks the CPU that runs a thread, which has taken the trap by then): when the value is read first, and all
 * that is counted afterwards has come, then the value is none of theirs.
 */
#include <stdio.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/trace/change_note.h"

#define NOTES 3u		     /* of one watch; further ones are counted */
#define LATE_NS 200000000ull	     /* accesses of two threads may come in the other order, by so much */
#define LOOKS 3u		     /* that differ, where the CPU's counts say less */
#define FUTEX_OWNER_DIED 0x40000000u /* include/uapi/linux/futex.h */

static bool has_one_value(const struct monitor *m, unsigned int i)
{
	const struct monitored *w = &m->watch[i];

	return w->armed && !w->disabled && w->reported && w->nparts == 1 && w->size >= 1 && w->size <= 8 &&
	       !monitor_is_per_thread(w) && m->options.watch[i].access != ACCESS_EXECUTE;
}

static bool read_value(struct monitor *m, unsigned int i, struct seen_value *ret)
{
	const struct monitored *w = &m->watch[i];
	struct memory_view mem = proc_memory(&m->pid);

	*ret = (struct seen_value){ .ns = monotonic_ns() };
	return !proc_page_waits(m->pid, w->part[0].want_addr) &&
	       memory_read(&mem, w->part[0].want_addr, &ret->value, w->size);
}

/* Of the bytes that are watched; they may be others than the variable's. */
static const struct value_type *type_of(const struct monitored *w)
{
	static const struct value_type unknown = { .kind = VALUE_UNKNOWN };

	return w->size == w->variable.size ? &w->variable.type : &unknown;
}

static bool is_same(const struct monitored *w, uint64_t a, uint64_t b)
{
	return value_is_same(type_of(w), w->size, a, b);
}

static uint64_t dropped_of(const struct engine_counts *c)
{
	return c->filtered + c->lost_full;
}

/* All that the CPU has counted has come to us. */
static bool has_all_come(const struct monitored *w, const struct engine_counts *c)
{
	return c->counted <= c->recorded + dropped_of(c) && w->forwarded == w->past.recorded + c->recorded;
}

static void adopt(struct value_seen *s, const struct seen_value *v, const struct engine_counts *c)
{
	s->known = true;
	s->last = *v;
	s->nbefore = 0;
	s->looks = 0;
	s->corrects = false;
	s->dropped = dropped_of(c);
}

void monitor_look_first(struct monitor *m, unsigned int i, const struct arm_report *report)
{
	struct value_seen *s = &m->watch[i].seen;
	struct engine_counts c;
	struct seen_value v;

	s->partial = report->threads_armed < report->threads;
	s->kernel = report->kernel || !report->kernel_refusal;
	s->known = s->has_final = false;
	if (!has_one_value(m, i) || !read_value(m, i, &v))
		return;
	m->ops->counts(m->engine, m->watch[i].id, &c);
	adopt(s, &v, &c);
	s->known = has_all_come(&m->watch[i], &c);
}

/* The note */

static void put_time(uint64_t ns, char *buf, size_t cap)
{
	uint64_t real = ns + (clock_ns(CLOCK_REALTIME) - monotonic_ns());
	time_t second = (time_t)(real / 1000000000u);
	struct tm tm;
	size_t n = localtime_r(&second, &tm) ? strftime(buf, cap, "%H:%M:%S", &tm) : 0;

	snprintf(buf + n, cap - n, ".%06u", (unsigned int)(real % 1000000000u / 1000u));
}

static bool is_like_a_threads_end(const struct monitored *w, uint64_t from, uint64_t to)
{
	return w->size == 4 && (!to || (!(from & FUTEX_OWNER_DIED) && (to & FUTEX_OWNER_DIED)));
}

static size_t put_reason(char *buf, size_t cap, size_t n, const char *reason)
{
	int len = n < cap ? snprintf(buf + n, cap - n, "%s%s", n ? "; " : "", reason) : 0;

	return n + (size_t)len;
}

/* Reasons that are particular to this program and value; without them, those that there may always be. */
static void put_reasons(const struct monitor *m, const struct monitored *w, uint64_t from, uint64_t to,
			char *buf, size_t cap)
{
	struct proc_status s;
	char tracer[80];
	size_t n = 0;

	buf[0] = '\0';
	if (w->seen.shared)
		n = put_reason(
			buf, cap, n,
			"its memory is shared: by another process, or through another mapping of the page");
	if (w->seen.partial)
		n = put_reason(buf, cap, n, "by a thread that is not armed");
	if (!w->seen.kernel)
		n = put_reason(buf, cap, n, "by the kernel for this process, which is not seen here");
	if (is_like_a_threads_end(w, from, to))
		n = put_reason(buf, cap, n,
			       "by the kernel as a thread ended (set_tid_address, robust mutex)");
	if (m->ops != &engine_ptrace && proc_status_read(m->pid, m->pid, &s) && s.tracer) {
		snprintf(tracer, sizeof(tracer), "by process %d, which traces it", s.tracer);
		n = put_reason(buf, cap, n, tracer);
	}
	if (!n)
		put_reason(
			buf, cap, n,
			"by process_vm_writev, /proc/PID/mem or a debugger; by a device or the kernel in another way "
			"(O_DIRECT, io_uring); or its page was emptied or mapped anew");
}

static struct wc_error *report_change(struct monitor *m, unsigned int i, const struct seen_value *to)
{
	struct monitored *w = &m->watch[i];
	const struct value_type *type = type_of(w);
	const struct seen_value *from = &w->seen.last;
	char was[160], is[160], after[32], before[32], reasons[500];
	bool shown = !m->options.watch[i].withheld;
	struct change_note note = {
		m->options.watch[i].expr, shown ? was : NULL, shown ? is : NULL, after, before, reasons
	};
	scoped(freep) char *text = NULL;

	if (w->seen.changes++ >= NOTES)
		return NULL;
	value_format(type, w->size, from->value, NULL, was, sizeof(was));
	value_format(type, w->size, to->value, NULL, is, sizeof(is));
	put_time(from->ns, after, sizeof(after));
	put_time(to->ns, before, sizeof(before));
	put_reasons(m, w, from->value, to->value, reasons, sizeof(reasons));
	text = change_note_text(&note);
	return text ? monitor_note(m, "%s", text) : &wc_enomem;
}

struct wc_error *monitor_report_changes(struct monitor *m, unsigned int i)
{
	uint64_t changes = m->watch[i].seen.changes;

	return changes > NOTES
		       ? monitor_note(m, "%s changed %llu more time%s without an access by this process",
				      m->options.watch[i].expr, (unsigned long long)(changes - NOTES),
				      changes - NOTES == 1 ? "" : "s")
		       : NULL;
}

/* Looks */

/* The threads' order may have been another one. */
static bool is_another_threads(const struct value_seen *s, uint64_t value)
{
	for (unsigned int k = 0; k < s->nbefore; k++)
		if (s->before[k].value == value && s->before[k].ns + LATE_NS > s->last.ns)
			return true;
	return false;
}

/* Whether the engine's count is the CPU's count of this very watch. */
static bool counts_prove(const struct monitor *m, const struct engine_counts *c)
{
	unsigned int i, n = 0;

	for (i = 0; i < MONITOR_WATCHES; i++)
		n += m->watch[i].used;
	return c->has_counted && (m->ops == &engine_ring || (m->ops == &engine_handler && n == 1));
}

static struct wc_error *judge(struct monitor *m, unsigned int i, const struct seen_value *v,
			      const struct engine_counts *c)
{
	struct value_seen *s = &m->watch[i].seen;
	struct seen_value to = *v;
	struct wc_error *err;

	if (dropped_of(c) != s->dropped || is_another_threads(s, v->value)) {
		adopt(s, v, c);
		return NULL;
	}
	if (!counts_prove(m, c) && !s->has_final) {
		if (!s->looks || s->counted != c->counted)
			s->looks = 0;
		if (!s->looks)
			s->differs = *v;
		s->counted = c->counted;
		if (++s->looks < LOOKS)
			return NULL;
		to = s->differs;
	}
	err = report_change(m, i, &to);
	adopt(s, &to, c);
	s->corrects = true;
	return err;
}

static struct wc_error *look_at(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];
	struct value_seen *s = &w->seen;
	struct engine_counts c;
	struct seen_value v;

	if (!read_value(m, i, &v)) {
		s->known = false;
		return NULL;
	}
	if (s->known && is_same(w, s->last.value, v.value)) {
		s->last.value = v.value;
		s->last.ns = v.ns;
		s->looks = 0;
		return NULL;
	}
	m->ops->counts(m->engine, w->id, &c);
	if (!has_all_come(w, &c))
		return NULL;
	if (s->known)
		return judge(m, i, &v, &c);
	adopt(s, &v, &c);
	return NULL;
}

/* Children that are followed write to memory that they share, which is an access as well. */
static bool may_look_at(const struct monitor *m, unsigned int i)
{
	return has_one_value(m, i) && !(m->watch[i].seen.shared && m->options.follow_fork);
}

struct wc_error *monitor_look_at_values(struct monitor *m)
{
	struct wc_error *err = NULL;

	for (unsigned int i = 0; i < MONITOR_WATCHES && m->engine && !m->at_hook && !err; i++)
		if (may_look_at(m, i))
			err = look_at(m, i);
	return err;
}

void monitor_look_last(struct monitor *m, unsigned int i)
{
	struct value_seen *s = &m->watch[i].seen;

	s->has_final = m->engine && may_look_at(m, i) && s->known && read_value(m, i, &s->final);
}

struct wc_error *monitor_judge_last(struct monitor *m, unsigned int i, const struct engine_counts *c)
{
	const struct monitored *w = &m->watch[i];
	const struct value_seen *s = &w->seen;

	if (!s->has_final || !s->known || s->last.ns >= s->final.ns ||
	    is_same(w, s->last.value, s->final.value) || !has_all_come(w, c) || c->lost_merged)
		return NULL;
	return judge(m, i, &s->final, c);
}

/* Accesses */

static void keep_before(struct value_seen *s, pid_t tid)
{
	if (!s->known || !s->last.tid || s->last.tid == tid)
		return;
	for (unsigned int k = SEEN_BEFORE - 1; k > 0; k--)
		s->before[k] = s->before[k - 1];
	s->before[0] = s->last;
	s->nbefore += s->nbefore < SEEN_BEFORE;
}

static struct monitored *watch_of(struct monitor *m, uint32_t id)
{
	for (unsigned int i = 0; i < MONITOR_WATCHES; i++)
		if (m->watch[i].used && m->watch[i].id == id)
			return &m->watch[i];
	return NULL;
}

const struct trace_event *monitor_see_access(struct monitor *m, const struct trace_event *e,
					     struct trace_event *corrected)
{
	const struct access_event *a = &e->access;
	struct monitored *w = watch_of(m, a->watch);
	struct value_seen *s = w ? &w->seen : NULL;

	if (!s || (a->pid != m->pid && !s->shared))
		return e;
	if (s->known && s->corrects && e->time_ns > s->last.ns && a->has_old && !a->old_told &&
	    a->old_value != s->last.value) {
		*corrected = *e;
		corrected->access.old_value = s->last.value;
		corrected->access.old_uncertain = true;
		e = corrected;
	}
	keep_before(s, a->tid);
	s->known = a->has_new && a->size == w->size;
	s->last = (struct seen_value){ a->new_value, e->time_ns, a->tid };
	s->corrects = false;
	s->looks = 0;
	return e;
}
