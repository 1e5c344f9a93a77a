/*
 * preload_oracle - compares libstackwalk's walk of the own stack with libunwind's and libgcc's (which is what
 * backtrace() uses), inside any program that it is preloaded into.
 *
 * Points to compare at are made in three ways: every so many calls of malloc() and its like, read() and
 * write(); where a timer interrupts a thread; and single steps from there on (the trap flag), which meet
 * prologues, epilogues and stubs. At the latter two the walk begins with the interrupted registers; and,
 * through the handler's own frame, the ordinary walk must give the same.
 *
 * Environment:
 *	PRELOAD_ORACLE		file that takes the results (struct results), made by run-preload-oracle;
 * shared by a program and its children PRELOAD_ORACLE_EVERY	a point at each so many calls; 0: none
 *	PRELOAD_ORACLE_STEPS	single steps after each interruption; without it, no timer
 *	PRELOAD_ORACLE_ALTSTACK	anything: handlers run on a stack of their own
 *
 * What the program does must not depend on being watched: libunwind is loaded privately, since it defines the
 * functions that C++ exceptions are made of; nothing here allocates while it compares; steps end at a system
 * call, since a blocked trap would end the program.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <stackwalk.h>

#define API __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline, noclone))
#define FRAMES 128
#define CLASHES 256
#define PLACES (1u << 20)
#define TRAP_FLAG 0x100
#define ALTSTACK (64 << 10)

enum way { WAY_CALL, WAY_TIMER, WAY_STEP, WAYS };

enum verdict {
	AS_BOTH,
	AS_LIBUNWIND, /* and not as libgcc */
	AS_LIBGCC,
	LONGER,	  /* both end earlier, with the same frames up to there */
	NO_TABLE, /* libgcc ends there or earlier, libunwind guesses on by rbp; no module has a table for our
		     last frame */
	LANDING,  /* interrupted in libgcc, which writes an exception's landing pad into its own frame: no
		     unwinder can tell */
	AGAINST_BOTH,
	VERDICTS,
};

struct place {
	uint64_t offset;
	char module[40];
};

/* A kind of disagreement: what was judged, and the last frame that is the same in all. */
struct clash {
	uint64_t key, count;
	uint32_t verdict, way, why, ours, libunwind, libgcc, common, padding;
	struct place innermost, last_common, our_next, libunwind_next, libgcc_next;
};

struct results {
	uint64_t points[WAYS][VERDICTS];
	uint64_t ends[8];
	uint64_t frames, places, skipped;
	uint64_t handler_differs; /* the walk through the handler's own frame */
	uint64_t errno_changed;
	struct clash clash[CLASHES];
	uint8_t seen[PLACES / 8];
};

struct stack {
	uint64_t pc[FRAMES];
	uint32_t n;
};

static struct results *results;
static unsigned int every, steps;
static bool with_timer, with_altstack;
static struct {
	uint64_t start, end;
} loader, libc, gcc;
static int timer_signal;

static __typeof__(unw_init_local2) *init_local2;
static __typeof__(unw_step) *step;
static __typeof__(unw_get_reg) *get_reg;
static int (*get_context)(unw_context_t *);
static const void *(*find_fde)(void *pc, void **bases); /* libgcc's */
static __typeof__(pthread_create) *real_pthread_create;
static __typeof__(read) *real_read;
static __typeof__(write) *real_write;

static __thread struct {
	uint32_t busy, calls, left;
	uint64_t random;
	timer_t timer;
	bool ready;
} own __attribute__((tls_model("initial-exec")));

void *__libc_malloc(size_t n);
void __libc_free(void *p);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

/* Walks. */

static void walk_libunwind(void *context, bool interrupted, struct stack *ret)
{
	unw_cursor_t c;

	ret->n = 0;
	if (init_local2(&c, context, interrupted ? UNW_INIT_SIGNAL_FRAME : 0) < 0)
		return;
	do {
		unw_word_t pc = 0;

		get_reg(&c, UNW_REG_IP, &pc);
		if (!pc)
			break;
		ret->pc[ret->n++] = pc;
	} while (ret->n < FRAMES && step(&c) > 0);
}

/* From the frame with @first on, which is among the innermost few. */
static void walk_libgcc(uint64_t first, struct stack *ret)
{
	void *pc[FRAMES + 16];
	int n = backtrace(pc, FRAMES + 16), i;

	ret->n = 0;
	for (i = 0; i < n && i < 16; i++)
		if ((uintptr_t)pc[i] == first)
			break;
	if (i == 16)
		return;
	for (; i < n && ret->n < FRAMES && pc[i]; i++)
		ret->pc[ret->n++] = (uintptr_t)pc[i];
}

/* What was counted. */

static void add(uint64_t *at, uint64_t n)
{
	__atomic_fetch_add(at, n, __ATOMIC_RELAXED);
}

static void describe(uint64_t pc, struct place *ret)
{
	struct dl_find_object o;
	const char *name, *slash;

	*ret = (struct place){ .offset = pc };
	if (!pc)
		return;
	if (_dl_find_object((void *)(uintptr_t)pc, &o) != 0) {
		memcpy(ret->module, "no module", 10);
		return;
	}
	ret->offset = pc - (o.dlfo_link_map->l_addr);
	name = o.dlfo_link_map->l_name;
	slash = strrchr(name, '/');
	name = slash ? slash + 1 : *name ? name : "program";
	strncpy(ret->module, name, sizeof(ret->module) - 1);
}

static uint32_t common(const struct stack *a, const struct stack *b)
{
	uint32_t n = 0;

	while (n < a->n && n < b->n && a->pc[n] == b->pc[n])
		n++;
	return n;
}

static bool same(const struct stack *a, const struct stack *b)
{
	return a->n == b->n && common(a, b) == a->n;
}

static uint64_t next_of(const struct stack *s, uint32_t n)
{
	return n < s->n ? s->pc[n] : 0;
}

/* @key 0 is an empty entry. */
static struct clash *clash_for(uint64_t key)
{
	unsigned int i;

	for (i = 0; i < CLASHES; i++) {
		struct clash *c = &results->clash[(key + i) % CLASHES];
		uint64_t was = 0;

		if (__atomic_compare_exchange_n(&c->key, &was, key, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) ||
		    was == key)
			return c;
	}
	return NULL;
}

static void report_clash(enum way way, enum verdict verdict, enum stackwalk_end why, const struct stack *ours,
			 const struct stack *theirs, const struct stack *libgcc)
{
	uint32_t n = common(ours, theirs), m = common(ours, libgcc);
	struct place at = { 0 };
	struct clash *c;

	/* The nearer of the two is the one to look at, unless it is the same. */
	if (verdict == AS_LIBGCC || (verdict != AS_LIBUNWIND && n > m))
		m = n;
	if (m)
		describe(ours->pc[m - 1], &at);
	c = clash_for((at.offset * 8 + verdict + 1) * 0x9e3779b97f4a7c15u | 1);
	if (!c || __atomic_fetch_add(&c->count, 1, __ATOMIC_RELAXED))
		return;
	c->verdict = verdict;
	c->way = way;
	c->why = why;
	c->ours = ours->n;
	c->libunwind = theirs->n;
	c->libgcc = libgcc->n;
	c->common = m;
	c->last_common = at;
	describe(ours->pc[0], &c->innermost);
	describe(next_of(ours, m), &c->our_next);
	describe(next_of(theirs, m), &c->libunwind_next);
	describe(next_of(libgcc, m), &c->libgcc_next);
}

static bool in_libgcc(uint64_t pc)
{
	return pc >= gcc.start && pc < gcc.end;
}

/* By libgcc's search. */
static bool has_no_table(const struct stack *s)
{
	void *bases[3];

	return s->n && !find_fde((void *)(uintptr_t)(s->pc[s->n - 1] - (s->n > 1)), bases);
}

static void judge(enum way way, enum stackwalk_end why, const struct stack *ours, const struct stack *theirs,
		  const struct stack *libgcc)
{
	bool as_theirs = same(ours, theirs), as_libgcc = same(ours, libgcc);
	enum verdict verdict = AGAINST_BOTH;
	uint64_t bit = (ours->pc[0] ^ ours->pc[0] >> 20) % PLACES;

	if (as_theirs && as_libgcc)
		verdict = AS_BOTH;
	else if (way != WAY_CALL && ours->n > 1 && in_libgcc(ours->pc[0]))
		verdict = LANDING;
	else if (as_theirs)
		verdict = AS_LIBUNWIND;
	else if (as_libgcc)
		verdict = AS_LIBGCC;
	else if (common(ours, theirs) == theirs->n && common(ours, libgcc) == libgcc->n)
		verdict = LONGER;
	else if (common(ours, theirs) == ours->n && common(ours, libgcc) == libgcc->n && has_no_table(ours))
		verdict = NO_TABLE;
	add(&results->points[way][verdict], 1);
	add(&results->ends[why & 7], 1);
	add(&results->frames, ours->n);
	if (!(__atomic_fetch_or(&results->seen[bit / 8], 1u << bit % 8, __ATOMIC_RELAXED) >> bit % 8 & 1))
		add(&results->places, 1);
	if (verdict != AS_BOTH)
		report_clash(way, verdict, why, ours, theirs, libgcc);
}

/* Under dlopen() the list of modules, which libunwind reads, may be half changed: a frame of libc calls the
 * loader. */
static bool in_dlopen(const struct stack *s)
{
	uint32_t i;

	for (i = 0; i + 1 < s->n; i++)
		if (s->pc[i] >= loader.start && s->pc[i] < loader.end && s->pc[i + 1] >= libc.start &&
		    s->pc[i + 1] < libc.end)
			return true;
	return false;
}

/* Points at calls: the frames outside this one. */
static NOINLINE void compare_here(void)
{
	struct stack ours, theirs, libgcc;
	enum stackwalk_end why;
	unw_context_t context;
	int before = errno;

	errno = 4711;
	ours.n = stackwalk_frames(ours.pc, FRAMES, &why);
	if (errno != 4711)
		add(&results->errno_changed, 1);
	get_context(&context);
	walk_libunwind(&context, false, &theirs);
	if (ours.n > 1 && theirs.n > 1) {
		ours.pc[0] = theirs.pc[0] = 0; /* two places in this function */
		memmove(ours.pc, ours.pc + 1, --ours.n * 8);
		memmove(theirs.pc, theirs.pc + 1, --theirs.n * 8);
		walk_libgcc(ours.pc[0], &libgcc);
		if (ours.n == FRAMES - 1 && libgcc.n == FRAMES)
			libgcc.n--;
		judge(WAY_CALL, why, &ours, &theirs, &libgcc);
	}
	errno = before;
}

static bool enter(void)
{
	if (!results || !own.ready || own.busy)
		return false;
	own.busy = 1;
	return true;
}

static void leave(void)
{
	own.busy = 0;
}

static inline void at_call(void)
{
	if (!every || !own.ready || own.busy || ++own.calls < every || !enter())
		return;
	own.calls = 0;
	compare_here();
	leave();
}

/* Points at interruptions. */

static NOINLINE void compare_interrupted(enum way way, ucontext_t *context)
{
	struct stack ours, through, theirs, libgcc;
	enum stackwalk_end why, ignored;
	uint32_t i;

	ours.n = stackwalk_frames_from(context, ours.pc, FRAMES, &why);
	if (in_dlopen(&ours)) {
		add(&results->skipped, 1);
		return;
	}
	through.n = stackwalk_frames(through.pc, FRAMES, &ignored);
	for (i = 0; i < through.n && i < 16 && through.pc[i] != ours.pc[0]; i++)
		;
	memmove(through.pc, through.pc + i, (through.n - i) * 8);
	through.n -= i;
	if (common(&ours, &through) != through.n || (through.n != ours.n && through.n + i < FRAMES))
		add(&results->handler_differs, 1);
	walk_libunwind(context, true, &theirs);
	/* libgcc faults when it meets such a frame, as its own does. */
	if (in_libgcc(ours.pc[0]) || (ours.n > 1 && in_libgcc(ours.pc[1])))
		libgcc = theirs;
	else
		walk_libgcc(ours.pc[0], &libgcc);
	judge(way, why, &ours, &theirs, &libgcc);
}

static void arm_timer(void)
{
	struct itimerspec next = { 0 };

	own.random = own.random * 6364136223846793005u + 1442695040888963407u;
	next.it_value.tv_nsec = 200000 + (long)(own.random >> 44);
	timer_settime(own.timer, 0, &next, NULL);
}

static bool at_syscall(const ucontext_t *u)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP];

	return p[0] == 0x0f && (p[1] == 0x05 || p[1] == 0x34);
}

static void set_steps(ucontext_t *u, uint32_t n)
{
	if (n && !at_syscall(u) && !sigismember(&u->uc_sigmask, SIGTRAP)) {
		own.left = n;
		u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
		return;
	}
	u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	own.left = 0;
	arm_timer();
}

static void on_timer(int sig, siginfo_t *info, void *context)
{
	int before = errno;

	if (enter()) {
		compare_interrupted(WAY_TIMER, context);
		leave();
		set_steps(context, steps);
	} else {
		arm_timer();
	}
	errno = before;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	int before = errno;

	if (own.left && enter()) {
		compare_interrupted(WAY_STEP, context);
		leave();
		set_steps(context, own.left - 1);
	} else if (own.left) {
		set_steps(context, 0);
	} else {
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	}
	errno = before;
}

/* Threads. */

static void begin_thread(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = timer_signal };
	struct stack s;
	unw_context_t here;
	stack_t alt = { .ss_size = ALTSTACK };

	own.busy = 1;
	own.random = (uint64_t)syscall(SYS_gettid) * 2654435761u;
	get_context(&here);
	walk_libunwind(&here, false, &s);
	walk_libgcc(0, &s);
	own.busy = 0;
	own.ready = true;
	if (!with_timer)
		return;
	if (with_altstack) {
		alt.ss_sp = mmap(NULL, ALTSTACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (alt.ss_sp != MAP_FAILED)
			sigaltstack(&alt, NULL);
	}
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &own.timer) == 0)
		arm_timer();
}

struct begin {
	void *(*run)(void *);
	void *arg;
};

static void *run_thread(void *arg)
{
	struct begin b = *(struct begin *)arg;

	__libc_free(arg);
	begin_thread();
	arg = b.run(b.arg);
	own.ready = false;
	if (with_timer)
		timer_delete(own.timer);
	return arg;
}

API int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	struct begin *b;

	if (!results || !real_pthread_create || !(b = __libc_malloc(sizeof(*b))))
		return real_pthread_create ? real_pthread_create(t, attr, run, arg) : EAGAIN;
	*b = (struct begin){ run, arg };
	return real_pthread_create(t, attr, run_thread, b);
}

/* The functions that everybody calls. */

API void *malloc(size_t n)
{
	at_call();
	return __libc_malloc(n);
}

API void free(void *p)
{
	at_call();
	__libc_free(p);
}

API void *calloc(size_t n, size_t size)
{
	at_call();
	return __libc_calloc(n, size);
}

API void *realloc(void *p, size_t n)
{
	at_call();
	return __libc_realloc(p, n);
}

API ssize_t read(int fd, void *p, size_t n)
{
	at_call();
	return real_read ? real_read(fd, p, n) : syscall(SYS_read, fd, p, n);
}

API ssize_t write(int fd, const void *p, size_t n)
{
	at_call();
	return real_write ? real_write(fd, p, n) : syscall(SYS_write, fd, p, n);
}

/* The beginning. */

static unsigned int number(const char *name)
{
	const char *text = getenv(name);

	return text ? (unsigned int)strtoul(text, NULL, 10) : 0;
}

static int note_spans(struct dl_phdr_info *info, size_t size, void *data)
{
	bool is_loader = strstr(info->dlpi_name, "/ld-linux"), is_libc = strstr(info->dlpi_name, "/libc.so");
	bool is_gcc = strstr(info->dlpi_name, "/libgcc_s");
	uint64_t end = 0;
	unsigned int i;

	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
	if (is_loader)
		loader.start = info->dlpi_addr, loader.end = end;
	if (is_libc)
		libc.start = info->dlpi_addr, libc.end = end;
	if (is_gcc)
		gcc.start = info->dlpi_addr, gcc.end = end;
	return 0;
}

static bool load_libunwind(void)
{
	void *lib = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	__typeof__(unw_set_caching_policy) *policy;

	if (!lib)
		return false;
	init_local2 = dlsym(lib, "_ULx86_64_init_local2");
	step = dlsym(lib, "_ULx86_64_step");
	get_reg = dlsym(lib, "_ULx86_64_get_reg");
	get_context = dlsym(lib, "_Ux86_64_getcontext");
	policy = dlsym(lib, "_ULx86_64_set_caching_policy");
	if (!init_local2 || !step || !get_reg || !get_context || !policy)
		return false;
	/* A cache would outlive the modules that it is about, and has locks that a fork may leave taken. */
	policy(*(unw_addr_space_t *)dlsym(lib, "_ULx86_64_local_addr_space"), UNW_CACHE_NONE);
	return true;
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };

	if (with_altstack)
		sa.sa_flags |= SA_ONSTACK;
	sigfillset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

static __attribute__((constructor)) void begin(void)
{
	const char *path = getenv("PRELOAD_ORACLE");
	struct stack primes;
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at;

	real_read = dlsym(RTLD_NEXT, "read");
	real_write = dlsym(RTLD_NEXT, "write");
	real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED || !load_libunwind())
		return;
	walk_libgcc(0, &primes); /* loads libgcc */
	find_fde = dlsym(dlopen("libgcc_s.so.1", RTLD_NOW), "_Unwind_Find_FDE");
	if (!find_fde)
		return;
	dl_iterate_phdr(note_spans, NULL);
	every = number("PRELOAD_ORACLE_EVERY");
	with_timer = getenv("PRELOAD_ORACLE_STEPS");
	with_altstack = getenv("PRELOAD_ORACLE_ALTSTACK");
	steps = number("PRELOAD_ORACLE_STEPS");
	timer_signal = SIGRTMAX - 5;
	results = at;
	if (with_timer) {
		handle(timer_signal, on_timer);
		handle(SIGTRAP, on_step);
	}
	begin_thread();
}
