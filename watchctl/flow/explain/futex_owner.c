/*
 * The number in a lock is the thread's in the pid namespace of the process that locked it, and it is read while threads run:
 * the words are read again after the owner was looked up. A thread that sleeps for a lock which changes hands all the time
 * is no hang; that the words differ is said.
 *
 * No thread of the process may have the number: then the lock was copied by fork(), lies in memory shared with the process
 * that holds it, or its owner has ended.
 */
#include "watchctl/flow/explain/futex_owner.h"

#include <linux/futex.h>

#include "watchctl/target/proc/proc.h"

#define KIND_TYPE 3u
#define KIND_ERRORCHECK 2u
#define KIND_PI 32u
#define KIND_KNOWN (KIND_TYPE | GLIBC_MUTEX_ROBUST | KIND_PI | GLIBC_MUTEX_PROTECT | 128u | 256u | 512u)
#define TID_MOST (1u << 22) /* PID_MAX_LIMIT */

#define MUSL_TYPE 15u	/* 0: a mutex that stores no owner */
#define MUSL_KNOWN 143u /* and pshared */

static bool is_word_tid(const struct glibc_mutex *m)
{
	return m->kind & (GLIBC_MUTEX_ROBUST | KIND_PI);
}

bool glibc_mutex_read(const struct memory_view *mem, uint64_t addr, struct glibc_mutex *ret)
{
	struct glibc_mutex m;

	if (addr % 4 || !memory_read(mem, addr, &m, sizeof(m)))
		return false;
	if (m.kind & ~KIND_KNOWN || m.nusers > TID_MOST)
		return false;
	if (!is_word_tid(&m) && !(m.kind & GLIBC_MUTEX_PROTECT) && m.lock > 2)
		return false;
	*ret = m;
	return true;
}

uint32_t glibc_mutex_owner(const struct glibc_mutex *m)
{
	return is_word_tid(m) ? m->lock & FUTEX_TID_MASK : m->lock ? m->owner : 0;
}

static void end_nobody(struct futex_call *f)
{
	f->ret->ender = ENDER_NOBODY;
}

static void say_itself(struct futex_call *f)
{
	unsigned int signal = futex_signal_frame(f->t);

	f->ret->ender = ENDER_THREADS;
	wait_add(f->ret, f->p->pid, f->t->tid, false, "it holds the lock itself");
	futex_evidence(f, "it locks a %s that it holds itself",
		       f->site.role == FUTEX_RDLOCK || f->site.role == FUTEX_WRLOCK ? "lock" : "mutex");
	if (signal < f->t->nframes)
		futex_evidence(f, ", from signal handler %s", futex_handler_name(f->t, signal));
}

static bool has_ended(const struct look_thread *t)
{
	return t->state == 'Z' || t->state == 'X';
}

static void say_ended(struct futex_call *f, uint32_t tid)
{
	end_nobody(f);
	futex_evidence(f, "its owner, thread %u, has ended without unlocking it", tid);
}

/* Locks that fork() has copied name a thread of the parent, or of its parent. */
static bool say_copied(struct futex_call *f, uint32_t tid, const struct proc_status *s)
{
	struct look_process *parent = look_process(f->l, f->p->parent);
	pid_t pid = 0;

	if (parent && look_thread_inside(parent, (pid_t)tid))
		pid = parent->pid;
	else if (s && s->tgid && proc_descends_from(f->p->pid, s->tgid))
		pid = s->tgid;
	if (!pid)
		return false;
	end_nobody(f);
	futex_evidence(
		f,
		"a lock copied by fork: its owner is thread %u of the parent %d; nobody in this process can unlock it",
		tid, pid);
	return true;
}

static void say_in_shared_memory(struct futex_call *f, uint32_t tid, const struct proc_status *s)
{
	struct look_process *q = s && s->tgid ? look_process(f->l, s->tgid) : NULL;
	struct look_thread *holder = q ? look_thread_inside(q, (pid_t)tid) : NULL;

	if (!holder || has_ended(holder)) {
		say_ended(f, tid);
		return;
	}
	f->ret->ender = ENDER_THREADS;
	wait_add(f->ret, q->pid, holder->tid, false, "the lock's words name it");
	futex_evidence(f, "its owner word is %u, a thread of process %d, and the lock lies in shared memory",
		       tid, q->pid);
}

/* No thread of the process has the number @tid. */
static void say_stranger(struct futex_call *f, uint64_t lock, uint32_t tid)
{
	struct proc_status own, other;
	/* Numbers of another pid namespace cannot be looked up in our /proc. */
	bool ours = proc_status_read(f->p->pid, f->p->pid, &own) && own.depth == 0;
	const struct proc_status *s =
		ours && proc_status_read((pid_t)tid, (pid_t)tid, &other) ? &other : NULL;
	struct proc_map map;
	bool mapped = proc_map_at(f->p->pid, lock, &map);
	/* A child of vfork(), or of clone() with CLONE_VM, has the same locks. */
	bool shared = (mapped && map.shared) ||
		      (s && s->tgid && proc_shares_memory(f->p->pid, s->tgid) == PROC_SHARED);

	if (!mapped) {
		futex_evidence(
			f,
			"its owner word is %u, no thread of this process, and its memory cannot be looked at",
			tid);
	} else if (!shared) {
		if (!say_copied(f, tid, s))
			say_ended(f, tid);
	} else if (!ours) {
		futex_evidence(
			f,
			"its owner word is %u, a number of another pid namespace, and the lock lies in shared memory",
			tid);
	} else {
		say_in_shared_memory(f, tid, s);
	}
}

/* The word of the lock that is called @word names thread @tid. */
static void say_owner(struct futex_call *f, uint64_t lock, const char *word, uint32_t tid)
{
	struct look_thread *holder = look_thread_inside(f->p, (pid_t)tid);

	if (tid > TID_MOST) {
		futex_evidence(f, "its %s is %u, which is no thread's number", word, tid);
	} else if (holder == f->t) {
		say_itself(f);
	} else if (holder && has_ended(holder)) {
		say_ended(f, tid);
	} else if (holder) {
		f->ret->ender = ENDER_THREADS;
		wait_add(f->ret, f->p->pid, holder->tid, false, "the lock's words name it");
		futex_evidence(f, "its %s is %u, and the wait is in %s", word, tid,
			       f->site.function ? f->site.function : "the C library");
	} else {
		say_stranger(f, lock, tid);
	}
}

/* The thread was interrupted in pthread_mutex_lock(), maybe already woken for the lock, and its handler has not returned. */
static bool is_stuck_in_handler(struct futex_call *f, struct look_thread *q)
{
	unsigned int i;

	look_stack(f->l, f->p, q);
	for (i = futex_signal_frame(q) + 1; i < q->nframes; i++)
		if (futex_frame_has_role(q, i, FUTEX_MUTEX))
			return true;
	return false;
}

static void say_free(struct futex_call *f)
{
	if (f->t->ran_ns) {
		futex_evidence(f, "the lock is free, and the thread ran a moment ago: it is about to get it");
		return;
	}
	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];

		if (q != f->t && is_stuck_in_handler(f, q))
			wait_add(
				f->ret, f->p->pid, q->tid, true,
				"a signal handler interrupted it in pthread_mutex_lock and has not returned");
	}
	if (f->ret->n) {
		f->ret->ender = ENDER_SOME;
		futex_evidence(
			f,
			"the lock is free; the wake-up went to a thread that is stuck in a signal handler");
		return;
	}
	end_nobody(f);
	futex_evidence(f, "the lock is free, and no thread is seen that could pass a wake-up on");
}

static void say_glibc(struct futex_call *f, const struct glibc_mutex *m)
{
	uint32_t tid = glibc_mutex_owner(m);
	uint32_t type = m->kind & KIND_TYPE;

	if (is_word_tid(m) && m->lock & FUTEX_OWNER_DIED) {
		futex_evidence(
			f,
			"its owner has ended; the kernel has marked it, and the next that locks it gets it");
	} else if (!m->lock) {
		say_free(f);
	} else if (!tid) {
		futex_evidence(f, "its owner word is 0: it is just being locked or unlocked");
	} else if (!is_word_tid(m) && (type == GLIBC_MUTEX_RECURSIVE || type == KIND_ERRORCHECK) &&
		   look_thread_inside(f->p, (pid_t)tid) == f->t) {
		futex_evidence(f, "it has just got it");
	} else {
		say_owner(f, f->uaddr, is_word_tid(m) ? "lock word" : "owner word", tid);
	}
}

static void forget_answer(struct futex_call *f)
{
	f->ret->ender = ENDER_UNKNOWN;
	f->ret->evidence[0] = '\0';
	f->ret->n = 0;
}

void futex_owner_glibc(struct futex_call *f)
{
	struct glibc_mutex before, after;

	f->ret->kind = WAIT_LOCK;
	for (int tries = 0; tries < 2; tries++) {
		forget_answer(f);
		if (!glibc_mutex_read(&f->p->mem, f->uaddr, &before)) {
			futex_evidence(f, "the wait is in %s, but no mutex of glibc's can be read there",
				       f->site.function);
			return;
		}
		say_glibc(f, &before);
		if (glibc_mutex_read(&f->p->mem, f->uaddr, &after) &&
		    glibc_mutex_owner(&after) == glibc_mutex_owner(&before) && !after.lock == !before.lock)
			return;
	}
	forget_answer(f);
	futex_evidence(f, "it changes hands while it is looked at");
}

bool futex_owner_musl(struct futex_call *f)
{
	uint32_t word[2]; /* _m_type, _m_lock */

	if (!memory_read(&f->p->mem, f->uaddr - 4, word, sizeof(word)) || word[0] & ~MUSL_KNOWN)
		return false;
	f->ret->kind = WAIT_LOCK;
	f->ret->object = f->uaddr - 4;
	if (!(word[0] & MUSL_TYPE))
		futex_evidence(f, "a mutex of musl's of the normal type, which does not store its owner");
	else if (!(word[1] & FUTEX_TID_MASK))
		futex_evidence(f, "its lock word names no owner: it is just being locked or unlocked");
	else
		say_owner(f, f->uaddr, "lock word", word[1] & FUTEX_TID_MASK);
	return true;
}

bool futex_owner_rwlock(struct futex_call *f, uint64_t base)
{
	uint32_t writer, again;

	if (!memory_read(&f->p->mem, base + 24, &writer, sizeof(writer)) || !writer || writer > TID_MOST)
		return false;
	say_owner(f, base, "writer word", writer);
	if (memory_read(&f->p->mem, base + 24, &again, sizeof(again)) && again == writer)
		return true;
	forget_answer(f);
	futex_evidence(f, "it changes hands while it is looked at");
	return true;
}

void futex_owner_pi(struct futex_call *f, uint64_t addr)
{
	uint32_t word;

	f->ret->kind = WAIT_LOCK;
	if (!memory_read(&f->p->mem, addr, &word, sizeof(word)))
		futex_evidence(f, "a priority-inheritance futex whose word cannot be read");
	else if (word & FUTEX_OWNER_DIED)
		futex_evidence(f, "its owner has ended; the kernel hands it on");
	else if (!(word & FUTEX_TID_MASK))
		futex_evidence(f, "its word names no owner: it is just being locked or unlocked");
	else
		say_owner(f, addr, "priority-inheritance word", word & FUTEX_TID_MASK);
}
