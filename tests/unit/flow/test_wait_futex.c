/* Real locks of our own process; the threads that wait for them, and their stacks, are made by hand but for a few. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/flow/explain/call_target.h"
#include "watchctl/flow/explain/wait_futex.h"
#include "watchctl/target/proc/proc.h"

#define LIBC "libc.so.6"
#define FUTEX_WAIT_PRIVATE_OP (FUTEX_WAIT | FUTEX_PRIVATE_FLAG)
#define WAITER 4100001 /* no thread has such a number: it is above the most that there can be */
#define OTHER 4100002
#define GONE 4100003

struct named_frame {
	const char *function, *module;
	bool signal;
	uint64_t ip;
};

struct fake_thread {
	struct look_thread t;
	struct look_frame frame[12];
	struct location at[12];
	struct frame_name name[12];
};

struct look {
	struct look_process p, other;
	struct look_thread *list[4], *others[2];
	struct fake_thread thread[4], foreign;
	struct wait w;
};

/* ---- look.h, of the scene. ---- */

struct look_process *look_process(struct look *l, pid_t pid)
{
	return pid == l->p.pid ? &l->p : pid && pid == l->other.pid ? &l->other : NULL;
}

struct look_thread *look_thread(const struct look_process *p, pid_t tid)
{
	for (size_t i = 0; i < p->nthreads; i++)
		if (p->thread[i]->tid == tid)
			return p->thread[i];
	return NULL;
}

struct look_thread *look_thread_inside(const struct look_process *p, pid_t tid)
{
	return look_thread(p, tid);
}

void look_stack(struct look *l, struct look_process *p, struct look_thread *t)
{
	t->walked = true;
}

const char *look_function(const struct look_thread *t, unsigned int i)
{
	return t->frame[i].at->frame[0].function;
}

const char *look_module(const struct look_thread *t, unsigned int i)
{
	return t->frame[i].at->module;
}

/* ---- */

static bool read_own(void *ctx, uint64_t addr, void *buf, size_t len)
{
	return proc_read_some(getpid(), addr, buf, len) == len;
}

static void frames(struct fake_thread *f, const struct named_frame *named, unsigned int n)
{
	assert_true(n <= 12);
	f->t.frame = f->frame;
	f->t.nframes = n;
	for (unsigned int i = 0; i < n; i++) {
		f->name[i].function = named[i].function;
		f->at[i] = (struct location){ .module = named[i].module, .nframes = 1, .frame = &f->name[i] };
		f->frame[i] =
			(struct look_frame){ .ip = named[i].ip, .at = &f->at[i], .signal = named[i].signal };
	}
}

#define AT(name, in, ...)                                         \
	{                                                         \
		.function = (name), .module = (in), ##__VA_ARGS__ \
	}
#define FRAMES(thread, ...)                                         \
	frames(thread, (const struct named_frame[]){ __VA_ARGS__ }, \
	       sizeof((const struct named_frame[]){ __VA_ARGS__ }) / sizeof(struct named_frame))

static struct fake_thread *add(struct look *l, pid_t tid)
{
	struct fake_thread *f = &l->thread[l->p.nthreads];

	f->t = (struct look_thread){ .pid = getpid(), .tid = tid, .state = 'S' };
	f->t.frame = f->frame;
	l->list[l->p.nthreads++] = &f->t;
	return f;
}

/* Thread WAITER sleeps, and there is the main thread, which is real. */
static void begin(struct look *l)
{
	*l = (struct look){ .p = { .pid = getpid(), .mem = { read_own, NULL } } };
	l->p.thread = l->list;
	l->other.thread = l->others;
	add(l, WAITER);
	add(l, gettid());
}

static void in_futex(struct fake_thread *f, const volatile void *uaddr, int op, uint32_t val)
{
	f->t.in_syscall = true;
	f->t.number = SYS_futex;
	f->t.arg[0] = (uintptr_t)uaddr;
	f->t.arg[1] = (uint64_t)op;
	f->t.arg[2] = val;
}

static const struct wait *ask(struct look *l)
{
	wait_deinit(&l->w);
	wait_futex(l, &l->p, &l->thread[0].t, &l->w);
	return &l->w;
}

static const struct wait *waits_in(struct look *l, const char *function, const volatile void *uaddr,
				   uint32_t val)
{
	in_futex(&l->thread[0], uaddr, FUTEX_WAIT_PRIVATE_OP, val);
	FRAMES(&l->thread[0], AT(NULL, LIBC), AT(function, LIBC), AT("work", "program"),
	       AT("main", "program"));
	return ask(l);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void assert_held_by(const struct wait *w, pid_t tid)
{
	assert_int_equal(w->kind, WAIT_LOCK);
	assert_int_equal(w->ender, ENDER_THREADS);
	assert_int_equal(w->n, 1);
	assert_int_equal(w->whom[0].tid, tid);
	assert_false(w->whom[0].guessed);
}

static void init_mutex(pthread_mutex_t *m, int type, int robust, int protocol, int shared)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, type);
	pthread_mutexattr_setrobust(&a, robust);
	pthread_mutexattr_setprotocol(&a, protocol);
	pthread_mutexattr_setpshared(&a, shared);
	assert_int_equal(pthread_mutex_init(m, &a), 0);
	pthread_mutexattr_destroy(&a);
}

static void mutexes_name_their_owner(void **state)
{
	static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
				     PTHREAD_MUTEX_ADAPTIVE_NP };
	struct look l;

	begin(&l);
	for (int i = 0; i < 16; i++) {
		pthread_mutex_t m;
		const struct wait *w;

		init_mutex(&m, types[i % 4], i & 4 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED,
			   PTHREAD_PRIO_NONE, i & 8 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
		pthread_mutex_lock(&m);
		w = waits_in(&l, "pthread_mutex_lock", &m, 2);
		assert_held_by(w, gettid());
		assert_int_equal(w->object, (uintptr_t)&m);
		assert_has(w->what, "the mutex 0x");
		assert_has(w->evidence, "and the wait is in pthread_mutex_lock");
		assert_false(w->has_limit);
		pthread_mutex_unlock(&m);
		pthread_mutex_destroy(&m);
	}
	wait_deinit(&l.w);
}

static void names_are_known_with_all_their_decoration(void **state)
{
	static const char *const names[] = { "___pthread_mutex_lock",
					     "__GI___pthread_mutex_lock",
					     "pthread_mutex_lock@@GLIBC_2.2.5",
					     "__pthread_mutex_lock_full.part.0",
					     "__pthread_mutex_clocklock_common.constprop.0",
					     "pthread_mutex_timedlock64",
					     "mtx_lock",
					     "__pthread_mutex_cond_lock" };
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct look l;

	begin(&l);
	pthread_mutex_lock(&m);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_held_by(waits_in(&l, names[i], &m, 2), gettid());
	pthread_mutex_unlock(&m);
	wait_deinit(&l.w);
}

static void priority_inheritance_is_the_kernels_word(void **state)
{
	pthread_mutex_t m;
	struct look l;

	begin(&l);
	init_mutex(&m, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT,
		   PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_lock(&m);
	in_futex(&l.thread[0], &m, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0);
	FRAMES(&l.thread[0], AT("own_lock", "program"));
	assert_held_by(ask(&l), gettid());
	pthread_mutex_unlock(&m);
	wait_deinit(&l.w);
}

/* A stripped libc: pthread_mutex_lock() has jumped to a function without a name. */
static void robust_mutex_is_known_without_names(void **state)
{
	pthread_mutex_t m;
	struct look l;

	begin(&l);
	init_mutex(&m, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE,
		   PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_lock(&m);
	assert_held_by(waits_in(&l, NULL, &m, (uint32_t)gettid() | FUTEX_WAITERS), gettid());
	pthread_mutex_unlock(&m);
	wait_deinit(&l.w);
}

static void who_locks_twice_waits_for_itself(void **state)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct look l;

	begin(&l);
	m.__data.__lock = 2;
	m.__data.__owner = WAITER;
	m.__data.__nusers = 1;
	assert_held_by(waits_in(&l, "pthread_mutex_lock", &m, 2), WAITER);
	assert_has(l.w.evidence, "it locks a mutex that it holds itself");
	FRAMES(&l.thread[0], AT("pthread_mutex_lock", LIBC), AT("on_term", "program"),
	       AT(NULL, LIBC, .signal = true), AT("work", "program"));
	assert_held_by(ask(&l), WAITER);
	assert_has(l.w.evidence, "from signal handler on_term");
	wait_deinit(&l.w);
}

static void own_locks_name_nobody(void **state)
{
	static const struct named_frame made_by[][3] = {
		{ AT("syscall", LIBC), AT("my_lock", "program"), AT("main", "program") },
		{ AT("runtime.futex", "program"), AT("runtime.lock2", "program"), AT("main", "program") },
		{ AT("syscall", LIBC), AT("std::sys::sync::mutex::futex::Mutex::lock_contended", "program"),
		  AT("main", "program") },
		/* Outside the code at the wait. */
		{ AT("syscall", LIBC), AT("my_lock", "program"), AT("pthread_mutex_lock", LIBC) },
	};
	static const enum wait_kind kinds[] = { WAIT_UNKNOWN, WAIT_LOCK, WAIT_LOCK, WAIT_UNKNOWN };
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct look l;

	begin(&l);
	pthread_mutex_lock(&m);
	for (size_t i = 0; i < 4; i++) {
		in_futex(&l.thread[0], &m, FUTEX_WAIT_PRIVATE_OP, 2);
		frames(&l.thread[0], made_by[i], 3);
		assert_int_equal(ask(&l)->n, 0);
		assert_int_equal(l.w.ender, ENDER_UNKNOWN);
		assert_int_equal(l.w.kind, kinds[i]);
	}
	pthread_mutex_unlock(&m);
	wait_deinit(&l.w);
}

static void no_owner_where_the_words_are_no_mutex(void **state)
{
	uint32_t word[10] = { 2, 0, (uint32_t)gettid(), 1, 0x77000000 };
	struct look l;

	begin(&l);
	assert_int_equal(waits_in(&l, "pthread_mutex_lock", word, 2)->n, 0);
	assert_int_equal(waits_in(&l, "pthread_mutex_lock", (void *)8, 2)->n, 0);
	assert_has(l.w.evidence, "no mutex of glibc's can be read");
	wait_deinit(&l.w);
}

static void owner_that_is_no_thread_has_ended_or_was_left_in_the_parent(void **state)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct look l;

	begin(&l);
	m.__data.__lock = 2;
	m.__data.__owner = GONE;
	m.__data.__nusers = 1;
	assert_int_equal(waits_in(&l, "pthread_mutex_lock", &m, 2)->ender, ENDER_NOBODY);
	assert_int_equal(l.w.n, 0);
	assert_has(l.w.evidence, "has ended without unlocking it");

	l.foreign.t = (struct look_thread){ .pid = 77, .tid = GONE, .state = 'S' };
	l.others[0] = &l.foreign.t;
	l.other.pid = l.p.parent = 77;
	l.other.nthreads = 1;
	assert_int_equal(ask(&l)->ender, ENDER_NOBODY);
	assert_int_equal(l.w.n, 0);
	assert_has(l.w.evidence, "a lock copied by fork: its owner is thread 4100003 of the parent 77");

	m.__data.__owner = gettid();
	l.thread[1].t.state = 'Z';
	assert_int_equal(ask(&l)->ender, ENDER_NOBODY);
	assert_has(l.w.evidence, "has ended without unlocking it");
	wait_deinit(&l.w);
}

static pid_t child_that_locks(pthread_mutex_t *m)
{
	pid_t child = fork();

	if (!child) {
		pthread_mutex_lock(m);
		for (;;)
			pause();
	}
	while (!__atomic_load_n(&m->__data.__owner, __ATOMIC_ACQUIRE))
		sched_yield();
	return child;
}

static void shared_mutex_may_be_held_by_another_process(void **state)
{
	pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct look l;
	pid_t child;

	begin(&l);
	init_mutex(m, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED);
	child = child_that_locks(m);
	l.foreign.t = (struct look_thread){ .pid = child, .tid = child, .state = 'S' };
	l.others[0] = &l.foreign.t;
	l.other.pid = child;
	l.other.nthreads = 1;
	assert_held_by(waits_in(&l, "pthread_mutex_lock", m, 2), child);
	assert_int_equal(l.w.whom[0].pid, child);

	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(ask(&l)->ender, ENDER_NOBODY);
	munmap(m, 4096);
	wait_deinit(&l.w);
}

static void wakeup_of_a_free_lock_may_be_stuck_in_a_handler(void **state)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct look l;

	begin(&l);
	assert_int_equal(waits_in(&l, "pthread_mutex_lock", &m, 2)->ender, ENDER_NOBODY);
	l.thread[0].t.ran_ns = 1;
	assert_int_equal(ask(&l)->ender, ENDER_UNKNOWN);
	l.thread[0].t.ran_ns = 0;
	FRAMES(add(&l, OTHER), AT("read", LIBC), AT("on_term", "program"), AT(NULL, LIBC, .signal = true),
	       AT(NULL, LIBC), AT("pthread_mutex_lock", LIBC), AT("work", "program"));
	assert_int_equal(ask(&l)->n, 1);
	assert_int_equal(l.w.whom[0].tid, OTHER);
	assert_true(l.w.whom[0].guessed);
	assert_has(l.w.evidence, "the wake-up went to a thread that is stuck in a signal handler");
	wait_deinit(&l.w);
}

static void rwlock_names_its_writer(void **state)
{
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
	struct look l;

	begin(&l);
	pthread_rwlock_wrlock(&rw);
	assert_held_by(waits_in(&l, "pthread_rwlock_rdlock", (char *)&rw + 8, 3), gettid());
	assert_int_equal(l.w.object, (uintptr_t)&rw);
	assert_held_by(waits_in(&l, "__pthread_rwlock_wrlock", (char *)&rw + 12, 3), gettid());
	assert_int_equal(l.w.object, (uintptr_t)&rw);
	assert_has(l.w.what, "(to write)");
	pthread_rwlock_unlock(&rw);
	wait_deinit(&l.w);
}

/* A stack of hand-made words, in the thread's registers. */
static void on_stack(struct fake_thread *f, const uint64_t *word)
{
	f->t.has_regs = true;
	f->t.regs.r[WREG_RSP] = (uintptr_t)word;
}

static void readers_are_guessed_by_their_stacks(void **state)
{
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
	static uint64_t reader[8192], waiter[8192];
	struct look l;

	begin(&l);
	pthread_rwlock_rdlock(&rw);
	on_stack(add(&l, OTHER), reader);
	reader[100] = (uintptr_t)&rw;
	assert_int_equal(waits_in(&l, "pthread_rwlock_wrlock", (char *)&rw + 8, 2)->ender, ENDER_UNKNOWN);
	assert_int_equal(l.w.n, 1);
	assert_int_equal(l.w.whom[0].tid, OTHER);
	assert_true(l.w.whom[0].guessed);
	assert_has(l.w.evidence, "1 readers hold it");

	/* Above the stack lies the argument that its thread was started with. */
	l.thread[2].t.clear_child = (uintptr_t)&reader[90];
	assert_int_equal(ask(&l)->n, 0);

	/* It reads already, and a writer waits: but only where the address lies outside the call. */
	l.p.nthreads = 2;
	in_futex(&l.thread[0], (char *)&rw + 8, FUTEX_WAIT_PRIVATE_OP, 3);
	FRAMES(&l.thread[0], AT("pthread_rwlock_rdlock", LIBC, .ip = 0x1000),
	       AT("inner", "program", .ip = 0x2000), AT("outer", "program", .ip = 0x3000),
	       AT("main", "program", .ip = 0x4000));
	on_stack(&l.thread[0], waiter);
	waiter[2] = (uintptr_t)&rw;
	waiter[10] = 0x2000;
	waiter[12] = (uintptr_t)&rw;
	waiter[20] = 0x3000;
	waiter[24] = (uintptr_t)&rw;
	waiter[30] = 0x4000;
	assert_int_equal(ask(&l)->n, 0);
	in_futex(add(&l, OTHER), (char *)&rw + 8, FUTEX_WAIT_PRIVATE_OP, 2);
	FRAMES(&l.thread[2], AT("pthread_rwlock_wrlock", LIBC), AT("main", "program"));
	assert_int_equal(ask(&l)->n, 1);
	assert_int_equal(l.w.whom[0].tid, WAITER);
	waiter[24] = 0;
	assert_int_equal(ask(&l)->n, 0);
	pthread_rwlock_unlock(&rw);
	wait_deinit(&l.w);
}

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	volatile pid_t tid;
	bool go;
} sleeper = { .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static __attribute__((noinline)) void *sleep_for_signal(void *arg)
{
	pthread_mutex_lock(&sleeper.mutex);
	sleeper.tid = gettid();
	while (!sleeper.go)
		pthread_cond_wait(&sleeper.cond, &sleeper.mutex);
	pthread_mutex_unlock(&sleeper.mutex);
	return NULL;
}

/* The system call of our thread, as /proc tells it, and the first return address to @function on its stack. */
static void see_sleep(struct fake_thread *f, void *(*function)(void *))
{
	unsigned long long v[9] = { 0 };
	char path[64], line[256];
	const uint64_t *sp;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", f->t.tid);
	for (;;) {
		FILE *in = fopen(path, "r");

		assert_non_null(in);
		assert_non_null(fgets(line, sizeof(line), in));
		fclose(in);
		if (sscanf(line, "%llu %llx %llx %llx %llx %llx %llx %llx %llx", v, v + 1, v + 2, v + 3,
			   v + 4, v + 5, v + 6, v + 7, v + 8) == 9 &&
		    v[0] == SYS_futex && (v[2] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
			break;
		sched_yield();
	}
	for (int i = 0; i < 6; i++)
		f->t.arg[i] = v[i + 1];
	f->t.in_syscall = true;
	f->t.number = SYS_futex;
	sp = (const uint64_t *)(uintptr_t)v[7];
	on_stack(f, sp);
	while (*sp - (uintptr_t)function > 400)
		sp++;
	FRAMES(f, AT("pthread_cond_wait", LIBC, .ip = v[8]), AT("sleep_for_signal", "program", .ip = *sp),
	       AT(NULL, LIBC, .ip = 1));
}

static void condition_is_found_with_its_mutex(void **state)
{
	pthread_t thread;
	struct look l;

	begin(&l);
	assert_int_equal(pthread_create(&thread, NULL, sleep_for_signal, NULL), 0);
	while (!sleeper.tid)
		sched_yield();
	l.thread[0].t.tid = sleeper.tid;
	see_sleep(&l.thread[0], sleep_for_signal);
	assert_int_equal(ask(&l)->kind, WAIT_CONDITION);
	assert_int_equal(l.w.ender, ENDER_UNKNOWN);
	assert_int_equal(l.w.object, (uintptr_t)&sleeper.cond);
	assert_int_equal(l.w.n, 0);
	assert_has(l.w.evidence, "whoever signals it");

	pthread_mutex_lock(&sleeper.mutex);
	assert_int_equal(ask(&l)->n, 1);
	assert_int_equal(l.w.whom[0].tid, gettid());
	assert_true(l.w.whom[0].guessed);
	assert_has(l.w.whom[0].why, "the condition's mutex");
	sleeper.go = true;
	pthread_cond_signal(&sleeper.cond);
	pthread_mutex_unlock(&sleeper.mutex);
	pthread_join(thread, NULL);
	wait_deinit(&l.w);
}

static void condition_locks_its_mutex_again(void **state)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct look l;

	begin(&l);
	pthread_mutex_lock(&m);
	assert_held_by(waits_in(&l, "pthread_cond_timedwait", &m, 2), gettid());
	assert_has(l.w.evidence, "which locks it again");
	pthread_mutex_unlock(&m);
	wait_deinit(&l.w);
}

static void join_is_the_kernels_word(void **state)
{
	uint32_t tid_word = OTHER, thread_list_lock = 1;
	struct look l;

	begin(&l);
	add(&l, OTHER)->t.clear_child = (uintptr_t)&tid_word;
	assert_int_equal(waits_in(&l, "anything", &tid_word, OTHER)->kind, WAIT_THREAD);
	assert_int_equal(l.w.whom[0].tid, OTHER);
	assert_has(l.w.evidence, "clear_child_tid");

	l.thread[2].t.clear_child = 0;
	assert_int_equal(waits_in(&l, "__pthread_clockjoin_ex", &tid_word, OTHER)->whom[0].tid, OTHER);

	/* musl's is the same for all. */
	for (int i = 0; i < 3; i++)
		l.thread[i].t.clear_child = (uintptr_t)&thread_list_lock;
	assert_int_not_equal(waits_in(&l, NULL, &thread_list_lock, 1)->kind, WAIT_THREAD);
	wait_deinit(&l.w);
}

static void musl_names_owners_of_types_that_store_one(void **state)
{
	uint32_t word[10] = { 0, 16 | 0x80000000u };
	struct look l;

	begin(&l);
	in_futex(&l.thread[0], &word[1], FUTEX_WAIT_PRIVATE_OP, word[1]);
	FRAMES(&l.thread[0], AT("__timedwait_cp", "ld-musl-x86_64.so.1"),
	       AT("pthread_mutex_timedlock", "ld-musl-x86_64.so.1"), AT("main", "program"));
	assert_int_equal(ask(&l)->n, 0);
	assert_has(l.w.evidence, "does not store its owner");
	word[0] = PTHREAD_MUTEX_ERRORCHECK_NP;
	word[1] = (uint32_t)gettid() | 0x80000000u;
	assert_held_by(ask(&l), gettid());
	assert_int_equal(l.w.object, (uintptr_t)word);
	wait_deinit(&l.w);
}

static void musl_joins_by_the_words_of_the_thread(void **state)
{
	uint64_t thread[8] = { (uintptr_t)thread, [6] = OTHER, [7] = 2 };
	struct look l;

	begin(&l);
	add(&l, OTHER);
	in_futex(&l.thread[0], &thread[7], FUTEX_WAIT_PRIVATE_OP, 2);
	FRAMES(&l.thread[0], AT("pthread_join", "ld-musl-x86_64.so.1"), AT("main", "program"));
	assert_int_equal(ask(&l)->kind, WAIT_THREAD);
	assert_int_equal(l.w.n, 1);
	assert_int_equal(l.w.whom[0].tid, OTHER);
	thread[0] = 0;
	assert_int_equal(ask(&l)->n, 0);
	wait_deinit(&l.w);
}

static void malloc_in_a_handler_waits_for_itself(void **state)
{
	uint32_t arena = 2;
	struct look l;

	begin(&l);
	waits_in(&l, "malloc", &arena, 2);
	assert_int_equal(l.w.n, 0);
	assert_has(l.w.what, "a lock of malloc's");
	FRAMES(&l.thread[0], AT("__lll_lock_wait_private", LIBC), AT("malloc", LIBC),
	       AT("on_term", "program"), AT("__restore_rt", LIBC, .signal = true), AT("_int_free", LIBC),
	       AT("free", LIBC), AT("main", "program"));
	assert_held_by(ask(&l), WAITER);
	assert_has(l.w.evidence, "it took the lock before signal handler on_term interrupted it");
	FRAMES(add(&l, OTHER), AT("_int_malloc", LIBC), AT("calloc", LIBC), AT("main", "program"));
	assert_int_equal(ask(&l)->n, 2);
	assert_int_equal(l.w.ender, ENDER_UNKNOWN);
	assert_true(l.w.whom[0].guessed && l.w.whom[1].guessed);
	wait_deinit(&l.w);
}

static void stream_names_the_thread_that_locked_it(void **state)
{
	FILE *out = fopen("/dev/null", "w");
	struct look l;

	assert_non_null(out);
	begin(&l);
	flockfile(out);
	assert_held_by(waits_in(&l, "fwrite", out->_lock, 2), gettid());
	l.thread[1].t.has_regs = true;
	l.thread[1].t.regs.r[WREG_FS_BASE] = (uintptr_t)pthread_self();
	assert_held_by(waits_in(&l, "_IO_puts", out->_lock, 2), gettid());
	funlockfile(out);
	assert_int_equal(ask(&l)->n, 0);
	fclose(out);
	wait_deinit(&l.w);
}

pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static void locks_have_their_names(void **state)
{
	struct symbolizer *s = symbolizer_new();
	struct look l;
	void *rtld;

	begin(&l);
	assert_non_null(s);
	assert_null(module_list_read(getpid(), &l.p.modules));
	for (size_t i = 0; i < l.p.modules.n; i++)
		assert_true(symbolizer_add(s, &l.p.modules.v[i]));
	l.p.symbolizer = s;
	pthread_mutex_lock(&table_lock);
	assert_held_by(waits_in(&l, "pthread_mutex_lock", &table_lock, 2), gettid());
	assert_has(l.w.what, "the mutex table_lock (0x");
	pthread_mutex_unlock(&table_lock);
	rtld = dlsym(RTLD_DEFAULT, "_rtld_global");
	for (uint32_t *word = rtld; word && word < (uint32_t *)rtld + 1024; word += 2) {
		/* Two recursive mutexes one behind the other. */
		if (word[4] != PTHREAD_MUTEX_RECURSIVE_NP || word[14] != PTHREAD_MUTEX_RECURSIVE_NP)
			continue;
		assert_has(waits_in(&l, "pthread_mutex_lock", word, 2)->what,
			   "the loader's lock (dlopen, dlclose)");
		assert_has(waits_in(&l, "pthread_mutex_lock", word + 10, 2)->what, "(_dl_load_write_lock");
		break;
	}
	module_list_deinit(&l.p.modules);
	symbolizer_free(s);
	wait_deinit(&l.w);
}

/* Bytes of code, in front of each return address. */
static void call_goes_to_a_function_through_the_plt(void **state)
{
	static struct {
		uint8_t call[6], indirect[6], plt[16], plt_with_bnd[16], other[6];
		uint64_t got;
	} __attribute__((packed)) code = {
		.call = { 0x90, 0xe8, 6, 0, 0, 0 },
		.indirect = { 0xff, 0x15, 38, 0, 0, 0 },
		.plt = { 0xff, 0x25, 32, 0, 0, 0 },
		.plt_with_bnd = { 0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 11, 0, 0, 0 },
		.other = { 0xff, 0xd0, 0x90, 0x90, 0x90, 0x90 },
		.got = 0x7f0012345678,
	};
	const struct memory_view mem = { read_own, NULL };

	assert_int_equal(call_target(&mem, (uintptr_t)code.call + 6), code.got);
	assert_int_equal(call_target(&mem, (uintptr_t)code.indirect + 6), code.got);
	code.call[2] = 22;
	assert_int_equal(call_target(&mem, (uintptr_t)code.call + 6), code.got);
	code.call[2] = 38; /* no PLT entry */
	assert_int_equal(call_target(&mem, (uintptr_t)code.call + 6), (uintptr_t)code.other);
	assert_int_equal(call_target(&mem, (uintptr_t)code.other + 6), 0);
	assert_int_equal(call_target(&mem, 16), 0);
}

static void python_lock_is_held_by_the_one_other_in_python(void **state)
{
	uint32_t word = 0;
	struct look l;

	begin(&l);
	in_futex(&l.thread[0], &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0);
	l.thread[0].t.arg[3] = 0x1000;
	FRAMES(&l.thread[0], AT(NULL, LIBC), AT("pthread_cond_timedwait", LIBC), AT("take_gil", "python3"),
	       AT("PyEval_RestoreThread", "python3"), AT("_PyEval_EvalFrameDefault", "python3"));
	FRAMES(&l.thread[1], AT("spin", "module.so"), AT("_PyEval_EvalFrameDefault", "python3"));
	assert_int_equal(ask(&l)->kind, WAIT_LOCK);
	assert_has(l.w.what, "Python's global interpreter lock");
	assert_int_equal(l.w.n, 1);
	assert_true(l.w.whom[0].guessed);
	assert_false(l.w.has_limit);
	wait_deinit(&l.w);
}

static void static_variable_that_needs_itself(void **state)
{
	uint64_t guard = 0x10100;
	struct look l;

	begin(&l);
	in_futex(&l.thread[0], &guard, FUTEX_WAIT, 0x10100);
	FRAMES(&l.thread[0], AT("syscall", LIBC), AT("__cxa_guard_acquire", "libstdc++.so.6"),
	       AT("table", "program"), AT("Table::Table", "program"), AT("table", "program"),
	       AT("main", "program"));
	assert_int_equal(ask(&l)->n, 1);
	assert_int_equal(l.w.whom[0].tid, WAITER);
	l.thread[0].name[4].function = "work";
	FRAMES(&l.thread[1], AT("nanosleep", LIBC), AT("Table::Table", "program"), AT("table", "program"));
	assert_int_equal(ask(&l)->n, 1);
	assert_int_equal(l.w.whom[0].tid, gettid());
	assert_true(l.w.whom[0].guessed);
	wait_deinit(&l.w);
}

static void barrier_counts_who_is_there(void **state)
{
	pthread_barrier_t b;
	struct look l;

	begin(&l);
	pthread_barrier_init(&b, NULL, 3);
	((uint32_t *)&b)[0] = 2;
	waits_in(&l, "pthread_barrier_wait", (char *)&b + 4, 0);
	assert_int_equal(l.w.kind, WAIT_CONDITION);
	assert_has(l.w.evidence, "2 of 3 threads are there");
	wait_deinit(&l.w);
}

static void other_waits_end_by_anyone(void **state)
{
	uint32_t word = 0;
	struct look l;

	begin(&l);
	assert_int_equal(waits_in(&l, "sem_clockwait", &word, 0)->kind, WAIT_CONDITION);
	assert_has(l.w.what, "the semaphore");
	l.thread[0].t.arg[3] = 0x1000;
	assert_true(ask(&l)->has_limit);
	l.thread[0].t.number = 449;
	assert_has(ask(&l)->evidence, "futex_waitv");
	l.thread[0].t.number = SYS_futex;
	l.thread[0].t.nframes = 0;
	assert_int_equal(ask(&l)->kind, WAIT_UNKNOWN);
	wait_deinit(&l.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutexes_name_their_owner),
		cmocka_unit_test(names_are_known_with_all_their_decoration),
		cmocka_unit_test(priority_inheritance_is_the_kernels_word),
		cmocka_unit_test(robust_mutex_is_known_without_names),
		cmocka_unit_test(who_locks_twice_waits_for_itself),
		cmocka_unit_test(own_locks_name_nobody),
		cmocka_unit_test(no_owner_where_the_words_are_no_mutex),
		cmocka_unit_test(owner_that_is_no_thread_has_ended_or_was_left_in_the_parent),
		cmocka_unit_test(shared_mutex_may_be_held_by_another_process),
		cmocka_unit_test(wakeup_of_a_free_lock_may_be_stuck_in_a_handler),
		cmocka_unit_test(rwlock_names_its_writer),
		cmocka_unit_test(readers_are_guessed_by_their_stacks),
		cmocka_unit_test(condition_is_found_with_its_mutex),
		cmocka_unit_test(condition_locks_its_mutex_again),
		cmocka_unit_test(join_is_the_kernels_word),
		cmocka_unit_test(musl_names_owners_of_types_that_store_one),
		cmocka_unit_test(musl_joins_by_the_words_of_the_thread),
		cmocka_unit_test(malloc_in_a_handler_waits_for_itself),
		cmocka_unit_test(stream_names_the_thread_that_locked_it),
		cmocka_unit_test(locks_have_their_names),
		cmocka_unit_test(call_goes_to_a_function_through_the_plt),
		cmocka_unit_test(python_lock_is_held_by_the_one_other_in_python),
		cmocka_unit_test(static_variable_that_needs_itself),
		cmocka_unit_test(barrier_counts_who_is_there),
		cmocka_unit_test(other_waits_end_by_anyone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
