/*
 * An owner is claimed only where one of these says so: the kernel (the word that it writes when a thread ends, the word of
 * a PI futex), or a lock of the C library's, when the wait was made by that library's function for it and the words there
 * are those of such a lock. Any other futex may have anything at its sides.
 */
#include "watchctl/flow/explain/wait_futex.h"

#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/flow/explain/futex_guess.h"
#include "watchctl/flow/explain/futex_owner.h"
#include "watchctl/flow/explain/futex_site.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

#define WAITV 449	/* futex_waitv: younger than the headers that this must compile with */
#define RWLOCK_SIZE 56u /* pthread_rwlock_t */
#define RWLOCK_READER_SHIFT 3
#define RWLOCK_WRITE_PHASE 1u
#define GLIBC_THREAD_SELF 0x10u /* tcbhead_t.self of struct pthread */
#define GLIBC_THREAD_TID 0x2d0u /* struct pthread.tid: behind the 704 bytes of its header, and a list */
#define MUSL_THREAD_TID 0x30u	/* of struct pthread, whose first word points to itself */
#define MUSL_DETACH_STATE 0x38u
#define FOREIGN_FRAMES 5u

/* ---- By the kernel: joins, PI futexes. ---- */

/* The kernel writes 0 there when thread @q ends. musl gives all threads one address, that of a lock of its own. */
static struct look_thread *thread_that_clears(struct futex_call *f)
{
	struct look_thread *found = NULL;

	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];

		if (q->clear_child != f->uaddr)
			continue;
		if (found || q == f->t)
			return NULL;
		found = q;
	}
	return found;
}

/* The thread whose number is the value that is waited for, in glibc; musl waits at detach_state, 8 bytes behind tid. */
static struct look_thread *joined_thread(struct futex_call *f)
{
	uint64_t thread = f->uaddr - MUSL_DETACH_STATE, self;
	uint32_t tid = f->val;

	if (f->site.musl && (!memory_read(&f->p->mem, thread, &self, sizeof(self)) || self != thread ||
			     !memory_read(&f->p->mem, thread + MUSL_THREAD_TID, &tid, sizeof(tid))))
		return NULL;
	return look_thread_inside(f->p, (pid_t)tid);
}

static void say_thread(struct futex_call *f, const struct look_thread *q)
{
	f->ret->kind = WAIT_THREAD;
	f->ret->ender = ENDER_THREADS;
	snprintf(f->ret->what, sizeof(f->ret->what), "the end of thread %d", q->tid);
}

static bool say_join(struct futex_call *f)
{
	struct look_thread *q = f->uaddr ? thread_that_clears(f) : NULL;

	if (q) {
		say_thread(f, q);
		futex_evidence(f, "the kernel will write there when thread %d ends (clear_child_tid)",
			       q->tid);
		wait_add(f->ret, f->p->pid, q->tid, false, "its end clears the word that is waited at");
		return true;
	}
	if (f->site.role != FUTEX_JOIN)
		return false;
	q = joined_thread(f);
	if (!q || q == f->t) {
		f->ret->kind = WAIT_THREAD;
		snprintf(f->ret->what, sizeof(f->ret->what), "the end of another thread");
		futex_evidence(f, "the wait is in %s; which thread it joins is not known", f->site.function);
		return true;
	}
	say_thread(f, q);
	futex_evidence(f, "the wait is in %s, at a word of that thread's", f->site.function);
	wait_add(f->ret, f->p->pid, q->tid, false, "it is joined");
	return true;
}

/* The waiter sleeps at a condition, and the kernel will queue it for the mutex at @mutex once it is signalled. */
static void say_requeue(struct futex_call *f, uint64_t mutex)
{
	struct look_thread *q;
	uint32_t word;

	f->ret->kind = WAIT_CONDITION;
	futex_what(f, "the condition variable", f->uaddr);
	futex_evidence(f, "whoever signals it; it has no owner");
	if (!memory_read(&f->p->mem, mutex, &word, sizeof(word)))
		return;
	q = look_thread_inside(f->p, (pid_t)(word & FUTEX_TID_MASK));
	if (q && q != f->t)
		wait_add(f->ret, f->p->pid, q->tid, true, "it holds the condition's mutex");
}

static bool say_pi(struct futex_call *f)
{
	if (f->cmd == FUTEX_WAIT_REQUEUE_PI) {
		say_requeue(f, f->t->arg[4]);
		return true;
	}
	if (f->cmd != FUTEX_LOCK_PI && f->cmd != FUTEX_LOCK_PI2)
		return false;
	futex_what(f, "the mutex", f->site.musl ? f->uaddr - 4 : f->uaddr);
	futex_owner_pi(f, f->uaddr);
	return true;
}

/* ---- Locks of the C library's. ---- */

/*
 * The loader has up to three recursive mutexes in _rtld_global, one behind the other: _dl_load_lock, _dl_load_write_lock,
 * _dl_load_tls_lock (since glibc 2.35). Which one it is: as many as lie before it.
 */
static unsigned int loader_locks_before(struct futex_call *f)
{
	struct glibc_mutex m;
	unsigned int n = 0;

	while (n < 2 && glibc_mutex_read(&f->p->mem, f->uaddr - (n + 1) * GLIBC_MUTEX_SIZE, &m) &&
	       m.kind == GLIBC_MUTEX_RECURSIVE)
		n++;
	return n;
}

static bool say_loader(struct futex_call *f)
{
	static const char *const locks[] = { "(dlopen, dlclose)",
					     "(_dl_load_write_lock: dl_iterate_phdr, exceptions)", "(TLS)" };
	char name[128];

	if (!f->p->symbolizer || !symbolizer_data_name(f->p->symbolizer, f->uaddr, name, sizeof(name)) ||
	    strncmp(name, "_rtld_global", strlen("_rtld_global")) != 0)
		return false;
	snprintf(f->ret->what, sizeof(f->ret->what), "the loader's lock %s", locks[loader_locks_before(f)]);
	return true;
}

static void say_mutex(struct futex_call *f)
{
	f->ret->kind = WAIT_LOCK;
	if (f->site.musl) {
		futex_what(f, "the mutex", f->uaddr - 4);
		if (!futex_owner_musl(f))
			futex_evidence(f, "the wait is in %s, but no mutex of musl's can be read there",
				       f->site.function);
		return;
	}
	if (!say_loader(f))
		futex_what(f, "the mutex", f->uaddr);
	futex_owner_glibc(f);
}

/*
 * pthread_cond_wait() locks its mutex again before it returns: by FUTEX_WAIT for a value that is not 0. Its waits for a
 * signal are FUTEX_WAIT_BITSET or, before glibc 2.34, FUTEX_WAIT for 0.
 */
static bool is_relock(struct futex_call *f)
{
	struct glibc_mutex m;

	return !f->site.musl && f->cmd == FUTEX_WAIT && f->val &&
	       glibc_mutex_read(&f->p->mem, f->uaddr, &m) &&
	       look_thread_inside(f->p, (pid_t)glibc_mutex_owner(&m));
}

static void guess_mutex_holder(struct futex_call *f, uint64_t mutex)
{
	struct look_thread *q;
	struct glibc_mutex m;

	if (!glibc_mutex_read(&f->p->mem, mutex, &m) || !glibc_mutex_owner(&m))
		return;
	q = look_thread_inside(f->p, (pid_t)glibc_mutex_owner(&m));
	if (q && q != f->t)
		wait_add(f->ret, f->p->pid, q->tid, true, "it holds the condition's mutex");
}

static bool say_python(struct futex_call *f)
{
	if (!futex_waits_for_python(f->p, f->t, &f->site))
		return false;
	f->ret->kind = WAIT_LOCK;
	f->ret->object = f->uaddr & ~7ull; /* one of two words of its condition variable */
	f->ret->has_limit = false;	   /* it asks again every few milliseconds, until it has it */
	snprintf(f->ret->what, sizeof(f->ret->what), "Python's global interpreter lock");
	futex_evidence(f, "the wait is in Python's code for it, which does not say who holds it");
	futex_guess_python(f);
	return true;
}

static void say_condition(struct futex_call *f)
{
	uint64_t cond = f->uaddr, mutex = 0;

	if (is_relock(f)) {
		say_mutex(f);
		futex_evidence(f, ", which locks it again");
		return;
	}
	if (say_python(f))
		return;
	f->ret->kind = WAIT_CONDITION;
	if (!f->site.musl && futex_guess_condition(f, &cond, &mutex))
		guess_mutex_holder(f, mutex);
	/* Waiters sleep at one of two words, by turns. */
	f->ret->object = cond == f->uaddr && !f->site.musl ? cond & ~7ull : cond;
	futex_what(f, "the condition variable", cond);
	futex_evidence(f, "whoever signals it; it has no owner");
}

/*
 * A reader waits at __readers (+0) or __wrphase_futex (+8), a writer at __wrphase_futex or __writers_futex (+12). __readers
 * counts in eights; the other two are below.
 */
static uint64_t rwlock_base(const struct futex_call *f)
{
	if (f->site.musl)
		return f->uaddr;
	if (f->uaddr % 8)
		return f->uaddr - 12;
	return f->val >> RWLOCK_READER_SHIFT ? f->uaddr : f->uaddr - 8;
}

static void say_readers(struct futex_call *f, uint64_t base)
{
	uint32_t readers;

	if (f->site.musl || !memory_read(&f->p->mem, base, &readers, sizeof(readers)))
		futex_evidence(f, "it does not say who holds it");
	else if (readers & RWLOCK_WRITE_PHASE || !(readers >> RWLOCK_READER_SHIFT))
		futex_evidence(f, "its words name no holder: it is just being locked or unlocked");
	else
		futex_evidence(f, "%u readers hold it, and it does not store which",
			       readers >> RWLOCK_READER_SHIFT);
	futex_guess_by_address(f, base, RWLOCK_SIZE);
	futex_guess_itself_reads(f, base, RWLOCK_SIZE);
}

static void say_rwlock(struct futex_call *f)
{
	uint64_t base = rwlock_base(f);

	f->ret->kind = WAIT_LOCK;
	f->ret->object = base;
	futex_what(f, f->site.role == FUTEX_RDLOCK ? "the rwlock (to read)" : "the rwlock (to write)", base);
	if (f->site.musl || !futex_owner_rwlock(f, base))
		say_readers(f, base);
}

static void say_semaphore(struct futex_call *f)
{
	static const char *const python[] = { "PyThread_acquire_lock", NULL };

	if (say_python(f))
		return;
	f->ret->kind = WAIT_CONDITION;
	if (futex_frame_find(f->t, f->site.end, f->site.end + 2, python) < f->t->nframes)
		futex_what(f, "a Python lock (threading.Lock and the like)", f->uaddr);
	else
		futex_what(f, "the semaphore", f->uaddr);
	futex_evidence(f, "whoever posts it; it has no owner");
}

/* glibc's struct pthread_barrier { in, current_round, count, ... }; the futex is current_round. */
static void say_barrier(struct futex_call *f)
{
	uint32_t word[3];

	f->ret->kind = WAIT_CONDITION;
	if (f->site.musl || !memory_read(&f->p->mem, f->uaddr - 4, word, sizeof(word)) || !word[2] ||
	    word[0] - word[1] >= word[2]) {
		futex_what(f, "the barrier", f->uaddr);
		futex_evidence(f, "the threads that are missing; it does not say which");
		return;
	}
	f->ret->object = f->uaddr - 4;
	futex_what(f, "the barrier", f->ret->object);
	futex_evidence(f, "%u of %u threads are there; it does not say which are missing", word[0] - word[1],
		       word[2]);
}

static void say_once(struct futex_call *f)
{
	f->ret->kind = WAIT_LOCK;
	futex_what(f, "the end of the initialiser of pthread_once", f->uaddr);
	futex_evidence(f, "it is in progress; who runs it is not stored");
	futex_guess_initialiser(f, f->uaddr);
}

/* The code that a signal handler interrupted was in malloc, and the handler is now: its frame, or 0. */
static unsigned int interrupted_malloc(const struct futex_call *f)
{
	unsigned int signal = futex_signal_frame(f->t);

	/* The innermost frames of what was interrupted; further out malloc would have called something outside. */
	for (unsigned int i = signal + 1; i < f->t->nframes && i <= signal + 8; i++)
		if (futex_frame_has_role(f->t, i, FUTEX_MALLOC))
			return signal;
	return 0;
}

static void say_malloc(struct futex_call *f)
{
	unsigned int signal = interrupted_malloc(f);
	size_t others;

	f->ret->kind = WAIT_LOCK;
	futex_what(f, "a lock of malloc's", f->uaddr);
	others = futex_guess_in_malloc(f);
	if (!signal) {
		futex_evidence(f, "the wait is in %s; the lock does not store its owner", f->site.function);
		return;
	}
	wait_add(f->ret, f->p->pid, f->t->tid, others > 0, "it was in malloc when the signal came");
	if (!others)
		f->ret->ender = ENDER_THREADS;
	futex_evidence(f, "it took the lock before signal handler %s interrupted it",
		       futex_handler_name(f->t, signal));
}

/* The thread that glibc knows as @self (pthread_self()). */
static struct look_thread *thread_of_self(struct futex_call *f, uint64_t self)
{
	uint64_t there;
	uint32_t tid;

	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];

		if (self && q->has_regs && q->regs.r[WREG_FS_BASE] == self)
			return q;
	}
	if (!self || !memory_read(&f->p->mem, self + GLIBC_THREAD_SELF, &there, sizeof(there)) ||
	    there != self || !memory_read(&f->p->mem, self + GLIBC_THREAD_TID, &tid, sizeof(tid)))
		return NULL;
	return look_thread_inside(f->p, (pid_t)tid);
}

/* musl's FILE has the number of the thread in the futex. */
static struct look_thread *thread_in_word(struct futex_call *f)
{
	uint32_t word;

	if (!memory_read(&f->p->mem, f->uaddr, &word, sizeof(word)) || !(word & FUTEX_TID_MASK))
		return NULL;
	return look_thread_inside(f->p, (pid_t)(word & FUTEX_TID_MASK));
}

static void say_stream_holder(struct futex_call *f, const struct look_thread *q, const char *owner)
{
	f->ret->ender = ENDER_THREADS;
	wait_add(f->ret, f->p->pid, q->tid, false, "the lock's words name it");
	futex_evidence(f, "its owner is %sthread %d, and the wait is in %s", owner, q->tid, f->site.function);
}

/* _IO_lock_t { int lock; int cnt; void *owner; }, recursive. */
static void say_stdio(struct futex_call *f)
{
	struct {
		int32_t lock, cnt;
		uint64_t owner;
	} word, again;
	struct look_thread *q = NULL;

	f->ret->kind = WAIT_LOCK;
	futex_what(f, "the lock of a stdio stream", f->uaddr);
	if (f->site.musl)
		q = thread_in_word(f);
	else if (memory_read(&f->p->mem, f->uaddr, &word, sizeof(word)) && word.cnt > 0)
		q = thread_of_self(f, word.owner);
	if (!q || q == f->t)
		futex_evidence(f, "the wait is in %s; who holds it could not be read", f->site.function);
	else if (f->site.musl)
		say_stream_holder(f, q, "");
	else if (!memory_read(&f->p->mem, f->uaddr, &again, sizeof(again)) || again.owner != word.owner)
		futex_evidence(f, "it changes hands while it is looked at");
	else
		say_stream_holder(f, q, "the pthread_self() of ");
}

/*
 * Without debug symbols nothing names the function that pthread_mutex_lock() jumps to for robust and protected mutexes. The
 * kind word, the value that is waited for and an owner that lives say it as surely; robust ones have the owner twice.
 */
static bool is_robust_or_protected(struct futex_call *f)
{
	struct glibc_mutex m;

	if (f->site.musl || f->site.function || f->cmd != FUTEX_WAIT ||
	    !glibc_mutex_read(&f->p->mem, f->uaddr, &m) || !m.owner || !m.nusers)
		return false;
	if (m.kind & GLIBC_MUTEX_ROBUST)
		return m.owner == (m.lock & FUTEX_TID_MASK) && (m.lock | FUTEX_WAITERS) == f->val;
	return m.kind & GLIBC_MUTEX_PROTECT && m.lock == f->val && look_thread_inside(f->p, (pid_t)m.owner);
}

static void say_internal(struct futex_call *f)
{
	if (is_robust_or_protected(f)) {
		say_mutex(f);
	} else if (!f->site.function) {
		futex_what(f, "a futex of the C library's", f->uaddr);
		futex_evidence(f, "the wait is in a function of the C library without a name");
	} else {
		f->ret->kind = WAIT_LOCK;
		futex_what(f, "a lock of the C library's", f->uaddr);
		futex_evidence(f, "the wait is in %s; the lock does not store its owner", f->site.function);
	}
}

/* ---- Code that calls futex(2) by itself. ---- */

struct foreign {
	const char *part; /* of a function's name */
	enum wait_kind kind;
	const char *noun;
};

static const struct foreign foreign[] = {
	{ "__cxa_guard_acquire", WAIT_LOCK, "the end of a static variable's initialiser:" },
	{ "Condvar", WAIT_CONDITION, "the condition variable (Rust)" },
	{ "Parker", WAIT_CONDITION, "being unparked (Rust), at" },
	{ "thread::park", WAIT_CONDITION, "being unparked (Rust), at" },
	{ "RwLock", WAIT_LOCK, "the RwLock (Rust)" },
	{ "Mutex::lock", WAIT_LOCK, "the Mutex (Rust)" },
	{ "Mutex>::lock", WAIT_LOCK, "the Mutex (Rust)" },
	{ "futex::Once", WAIT_LOCK, "the end of the initialiser of the Once (Rust)" },
	{ "parking_lot", WAIT_LOCK, "a lock of parking_lot's" },
	{ "absl::CondVar", WAIT_CONDITION, "the condition variable (absl)" },
	{ "absl::Mutex", WAIT_LOCK, "the Mutex (absl)" },
	{ "absl::", WAIT_LOCK, "a lock of absl's" },
	{ "folly::", WAIT_LOCK, "a lock of folly's" },
	{ "__platform_wait", WAIT_CONDITION, "the atomic variable" },
	{ "__atomic_wait", WAIT_CONDITION, "the atomic variable" },
	{ "std::latch", WAIT_CONDITION, "the latch" },
	{ "runtime.notesleep", WAIT_CONDITION, "the Go scheduler's wake-up (no goroutine to run), at" },
	{ "runtime.notetsleep", WAIT_CONDITION, "the Go scheduler's wake-up, at" },
	{ "runtime.lock", WAIT_LOCK, "a lock of the Go runtime's" },
};

static const struct foreign *find_foreign(const struct look_thread *t, unsigned int from, unsigned int *frame)
{
	for (*frame = from; *frame < t->nframes && *frame < from + FOREIGN_FRAMES; ++*frame)
		for (size_t k = 0; k < sizeof(foreign) / sizeof(*foreign); k++)
			if (futex_frame_names(t, *frame, foreign[k].part))
				return &foreign[k];
	return NULL;
}

static void say_foreign(struct futex_call *f)
{
	unsigned int frame;
	const struct foreign *known = find_foreign(f->t, f->site.end, &frame);
	const char *function = known ? look_function(f->t, frame) : NULL;

	if (!known) {
		futex_what(f, "the futex", f->uaddr);
		futex_evidence(f, "a futex that is no lock of libc's: it does not say who holds it");
		return;
	}
	f->ret->kind = known->kind;
	futex_what(f, known->noun, f->uaddr);
	if (known == foreign) {
		futex_evidence(f, "it is in progress; who runs it is not stored");
		futex_guess_initialiser(f, f->uaddr);
		return;
	}
	futex_evidence(f, "the wait is in %.120s, and its word does not say who ends it",
		       function ? function : known->part);
	/* A guard on the holder's stack refers to the lock. */
	if (known->kind == WAIT_LOCK)
		futex_guess_by_address(f, f->uaddr, 4);
}

/* ---- */

static void say_waitv(struct futex_call *f)
{
	struct {
		uint64_t val, uaddr;
		uint32_t flags, reserved;
	} first;

	f->ret->object = 0;
	if (memory_read(&f->p->mem, f->t->arg[0], &first, sizeof(first)))
		f->ret->object = first.uaddr;
	snprintf(f->ret->what, sizeof(f->ret->what), "one of %llu futexes, the first %#llx",
		 (unsigned long long)f->t->arg[1], (unsigned long long)f->ret->object);
	futex_evidence(f, "futex_waitv: any of them ends it, and none says who holds it");
}

static void say_by_role(struct futex_call *f)
{
	static void (*const say[])(struct futex_call *) = {
		[FUTEX_FOREIGN] = say_foreign,	   [FUTEX_INTERNAL] = say_internal,
		[FUTEX_MUTEX] = say_mutex,	   [FUTEX_CONDITION] = say_condition,
		[FUTEX_RDLOCK] = say_rwlock,	   [FUTEX_WRLOCK] = say_rwlock,
		[FUTEX_SEMAPHORE] = say_semaphore, [FUTEX_BARRIER] = say_barrier,
		[FUTEX_ONCE] = say_once,	   [FUTEX_MALLOC] = say_malloc,
		[FUTEX_STDIO] = say_stdio,	   [FUTEX_JOIN] = say_internal,
	};

	say[f->site.role](f);
}

void wait_futex(struct look *l, struct look_process *p, struct look_thread *t, struct wait *ret)
{
	struct futex_call f = {
		.l = l,
		.p = p,
		.t = t,
		.uaddr = t->arg[0],
		.val = (uint32_t)t->arg[2],
		.cmd = (uint32_t)t->arg[1] & (uint32_t)FUTEX_CMD_MASK,
		.ret = ret,
	};

	ret->object = f.uaddr;
	ret->has_limit = t->arg[3] != 0;
	futex_site_find(l, p, t, &f.site);
	if (t->number == WAITV)
		say_waitv(&f);
	else if (!say_pi(&f) && !say_join(&f))
		say_by_role(&f);
	if (f.site.by_stack)
		futex_evidence(&f, " (by a return address on its stack, which cannot be walked)");
}
