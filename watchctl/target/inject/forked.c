#include "watchctl/target/inject/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/task.h"
#include "watchctl/base/urgent.h"
#include "watchctl/base/vec.h"

#define FORK_NO_EXEC 0x40u	  /* PF_FORKNOEXEC of include/linux/sched.h */
#define QUIET_LOOKS 3u		  /* without anybody, where none of them is a proof */
#define PATIENCE_NS 1000000000ull /* for those that cannot let go of it just now */
#define LONGEST_NS 20000000000ull
#define PAUSE_NS 5000000
#define NAMED 8u
#define CHASED \
	4u /* so few may be ones that fork another one and end, again and again: they must be met at once */

/* Looking */

enum sight { NOTHING, CARRIES, NOT_PERMITTED };

static bool is_ours(const struct forked *f, const struct wire_control *c)
{
	return c->magic == WIRE_MAGIC && c->cookie == f->cookie && c->code_start == f->inj.base;
}

/* The code may be there without the control block: it comes first, and goes last. */
static enum sight look_at(const struct forked *f, pid_t pid)
{
	struct memory_view mem = proc_memory(&pid);
	struct wire_control c;
	struct proc_map m;
	uint8_t code;

	errno = 0;
	if (!proc_read_some(pid, f->inj.base, &code, 1))
		return errno == EPERM ? NOT_PERMITTED : NOTHING;
	if (memory_read(&mem, f->inj.control, &c, offsetof(struct wire_control, owner_start)) &&
	    is_ours(f, &c))
		return CARRIES;
	if (proc_map_at(pid, f->inj.base, &m))
		return m.start == f->inj.base && m.exec && !m.write && !m.name[0] ? CARRIES : NOTHING;
	return errno ? NOT_PERMITTED : NOTHING;
}

bool forked_has(const struct forked *f, pid_t pid)
{
	return look_at(f, pid) == CARRIES;
}

/* A child of ours that we cannot look at: made since, and it has executed nothing. */
static bool may_carry(const struct forked *f, pid_t pid)
{
	char text[1024];
	unsigned int flags;
	const char *stat = task_stat(pid, pid, text, sizeof(text));

	return stat && sscanf(stat, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & FORK_NO_EXEC &&
	       proc_start_time(pid) >= f->placed && proc_descends_from(pid, f->inj.pid);
}

struct look {
	const struct forked *f;
	struct forked_search s;
};

static bool look_at_one(void *ctx, pid_t pid)
{
	struct look *l = ctx;
	struct forked_search *s = &l->s;

	if (pid == l->f->inj.pid)
		return true;
	switch (look_at(l->f, pid)) {
	case CARRIES:
		if (!l->f->kept || proc_shares_memory(l->f->inj.pid, pid) == PROC_SEPARATE)
			s->no_memory |= !vec_push(s->found.v, s->found.n, s->found.cap, pid);
		break;
	case NOT_PERMITTED:
		if (may_carry(l->f, pid))
			s->no_memory |= !vec_push(s->unseen.v, s->unseen.n, s->unseen.cap, pid);
		break;
	case NOTHING:
		break;
	}
	return true;
}

/* 0: not known. */
static pid_t last_pid(void)
{
	char text[128] = "";
	const char *last;

	scoped(closep) int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || !(last = strrchr(text, ' ')))
		return 0;
	return (pid_t)strtol(last, NULL, 10);
}

void forked_look(const struct forked *f, struct forked_search *ret)
{
	struct look l = { .f = f, .s.first_pid = last_pid() };

	proc_each(look_at_one, &l);
	l.s.last_pid = last_pid();
	*ret = l.s;
}

void forked_search_deinit(struct forked_search *s)
{
	thread_ids_deinit(&s->found);
	thread_ids_deinit(&s->unseen);
}

bool forked_is_proof(const struct forked_search *before, const struct forked_search *now)
{
	return !before->found.n && !now->found.n && !now->no_memory && before->first_pid > 0 &&
	       before->first_pid <= before->last_pid && before->last_pid <= now->first_pid &&
	       now->first_pid <= now->last_pid;
}

/* Taking out */

static void forget_left(struct forked_report *r)
{
	size_t i;

	for (i = 0; i < r->nleft; i++)
		wc_error_free(r->left[i].why);
	r->nleft = 0;
}

static void note_left(struct forked_report *r, pid_t pid, struct wc_error *why)
{
	const struct forked_left left = { pid, why };

	if (vec_push(r->left, r->nleft, r->left_cap, left))
		return;
	wc_error_free(why);
	r->gave_up = true;
}

/* Returns how many are rid of it: they do not have it any more, by us or because they have ended. */
static size_t leave_all(struct forked *f, const struct forked_search *s, const struct thread_ids *only,
			struct forked_report *r)
{
	size_t i, rid = 0;

	for (i = 0; i < s->found.n; i++) {
		pid_t pid = s->found.v[i];
		struct wc_error *err;

		if (only && !thread_ids_have(only, pid))
			continue;
		err = forked_leave_one(f, pid, &s->found);
		if (err && forked_has(f, pid)) {
			note_left(r, pid, err);
			continue;
		}
		r->cleared += !err;
		rid++;
		wc_error_free(err);
	}
	return rid;
}

static void note_unseen(const struct forked_search *s, struct forked_report *r)
{
	size_t i;

	for (i = 0; i < s->unseen.n; i++)
		note_left(r, s->unseen.v[i],
			  wc_error_new(WC_EPERM, "not permitted to read process %d: run as root",
				       s->unseen.v[i]));
}

/* Seen, but not tried any more. */
static void note_rest(const struct forked_search *s, const struct thread_ids *only, struct forked_report *r)
{
	const size_t tried = r->nleft;
	size_t i, k;

	for (i = 0; i < s->found.n; i++) {
		pid_t pid = s->found.v[i];

		for (k = 0; k < tried && r->left[k].pid != pid; k++)
			;
		if (k == tried && (!only || thread_ids_have(only, pid)))
			note_left(r, pid, wc_error_new(WC_EFAIL, "process %d was forked meanwhile", pid));
	}
}

static bool copy_ids(const struct thread_ids *from, struct thread_ids *to)
{
	size_t i;

	for (i = 0; i < from->n; i++)
		if (!vec_push(to->v, to->n, to->cap, from->v[i]))
			return false;
	return true;
}

void forked_leave(struct forked *f, struct forked_report *ret)
{
	const uint64_t end = monotonic_ns() + LONGEST_NS;
	uint64_t patient_until = monotonic_ns() + PATIENCE_NS;
	struct thread_ids first = { 0 };
	const struct thread_ids *only = f->kept ? &first : NULL;
	struct forked_search before, now;
	struct forked_report r = { 0 };
	struct urgent urgent = { 0 };
	unsigned int quiet = 0;
	bool done = false;

	forked_look(f, &before);
	r.gave_up = !copy_ids(&before.found, &first);
	while (!done && !r.gave_up) {
		forget_left(&r);
		if (leave_all(f, &before, only, &r))
			patient_until = monotonic_ns() + PATIENCE_NS;
		else if (r.nleft)
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
		urgent_end(&urgent);
		if (before.found.n && before.found.n <= CHASED)
			urgent_begin(&urgent);
		forked_look(f, &now);
		quiet = now.found.n || now.no_memory ? 0 : quiet + 1;
		done = forked_is_proof(&before, &now) || quiet == QUIET_LOOKS ||
		       (r.nleft ? monotonic_ns() > patient_until : f->kept);
		r.gave_up = !done && monotonic_ns() > end;
		forked_search_deinit(&before);
		before = now;
	}
	urgent_end(&urgent);
	note_rest(&before, only, &r);
	note_unseen(&before, &r);
	forked_search_deinit(&before);
	thread_ids_deinit(&first);
	*ret = r;
}

void forked_report_deinit(struct forked_report *r)
{
	forget_left(r);
	free(r->left);
	*r = (struct forked_report){ 0 };
}

void forked_undo(const struct injection *tried, uint64_t cookie)
{
	struct forked f = { .inj = *tried, .cookie = cookie, .placed = task_ticks_now() };
	struct forked_report r;

	if (!tried->base)
		return;
	f.inj.stale_base = f.inj.stale_size = 0;
	forked_leave(&f, &r);
	forked_report_deinit(&r);
}

/* "12, 13 and 40 more" */
static void name_them(const struct forked_report *r, char *buf, size_t len)
{
	size_t i, at = 0;

	for (i = 0; i < r->nleft && i < NAMED; i++)
		at += (size_t)snprintf(buf + at, len - at, "%s%d", i ? ", " : "", r->left[i].pid);
	if (r->nleft > NAMED)
		snprintf(buf + at, len - at, " and %zu more", r->nleft - NAMED);
}

struct wc_error *forked_report_error(struct forked_report *r, pid_t parent)
{
	char names[NAMED * 13 + 32] = "";
	struct wc_error *err = NULL;

	name_them(r, names, sizeof(names));
	if (r->nleft) {
		struct wc_error *first = r->left[0].why;

		err = wc_error_new(
			first->kind,
			"the handler is left in %zu process%s forked by process %d (%s), where it only "
			"passes signals on (watchctl clear -p %d --children removes it when that is "
			"possible): %s",
			r->nleft, r->nleft == 1 ? "" : "es", parent, names, parent, first->text);
	} else if (r->gave_up) {
		err = wc_error_new(
			WC_EFAIL,
			"children of process %d fork faster than the handler can be removed from them: "
			"some may still have it (remove it later with watchctl clear -p %d --children)",
			parent, parent);
	}
	forked_report_deinit(r);
	return err;
}
