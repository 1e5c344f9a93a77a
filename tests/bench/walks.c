/*
 * walks - what a stack of 16 frames costs the program that looks at itself: our walk, a bare loop over saved
 * frame pointers, glibc's backtrace(), libunwind's unw_backtrace() and unw_step(), all at the same place of
 * the same stacks, one of functions with frame pointers, one of functions without.
 *
 *	walks [ROUNDS]
 *
 * Prints "STACK WALKER FRAMES ALONE ALONE_A_FRAME BACK_TO_BACK BACK_TO_BACK_A_FRAME", in nanoseconds, medians
 * of ROUNDS (31), each walker in its turn in every round; then "first-sight LIBRARY ADDRESSES MEAN LONGEST":
 * what it costs to work a rule out at an address not met before, the clock's own cost included.
 */
#include <dlfcn.h>
#include <err.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "stackwalk/self_modules.h"
#include "stackwalk/self_rules.h"
#include "stackwalk/self_walk.h"
#include "watchctl/code/unwind/eh_frame.h"

#define FRAMES 16
#define DEPTH 24 /* functions of the chain */
#define ROUNDS_MAX 1001

struct here {
	struct self_regs regs;
	unw_context_t unw;
};

typedef unsigned int (*walker)(const struct here *here, uint64_t *frame);

static int (*libc_backtrace)(void **, int);
static unsigned int rounds = 31;
static volatile int sink;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static __attribute__((noinline)) unsigned int walk_self(const struct here *here, uint64_t *frame)
{
	enum walk_end why;

	return self_walk(&here->regs, false, frame, FRAMES, &why);
}

/* Nothing but the loads and the stores. Only for functions that keep a frame pointer. */
static __attribute__((noinline)) unsigned int walk_rbp(const struct here *here, uint64_t *frame)
{
	const uint64_t *rbp = (const uint64_t *)(uintptr_t)here->regs.rbp;
	unsigned int n;

	frame[0] = here->regs.rip;
	for (n = 1; n < FRAMES; n++) {
		frame[n] = rbp[1];
		rbp = (const uint64_t *)(uintptr_t)rbp[0];
	}
	return n;
}

static __attribute__((noinline)) unsigned int walk_backtrace(const struct here *here, uint64_t *frame)
{
	return (unsigned int)libc_backtrace((void **)frame, FRAMES);
}

static __attribute__((noinline)) unsigned int walk_unw_backtrace(const struct here *here, uint64_t *frame)
{
	return (unsigned int)unw_backtrace((void **)frame, FRAMES);
}

static __attribute__((noinline)) unsigned int walk_unw_step(const struct here *here, uint64_t *frame)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unsigned int n = 0;
	unw_word_t ip;

	unw_getcontext(&context);
	if (unw_init_local(&cursor, &context) != 0)
		return 0;
	do {
		unw_get_reg(&cursor, UNW_REG_IP, &ip);
		frame[n++] = ip;
	} while (n < FRAMES && unw_step(&cursor) > 0);
	return n;
}

static const struct {
	const char *name;
	walker walk;
	unsigned int reps;
	bool needs_rbp;
} walkers[] = {
	{ "rbp-loop", walk_rbp, 20000, true },
	{ "self_walk", walk_self, 20000, false },
	{ "unw_backtrace", walk_unw_backtrace, 4000, false },
	{ "backtrace", walk_backtrace, 2000, false },
	{ "unw_step", walk_unw_step, 200, false },
};

#define WALKERS (sizeof(walkers) / sizeof(*walkers))

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * @alone: each walk waits for the end of the one before, as a walk in a program waits for what came before
 * it. Otherwise the CPU works on several walks at a time: how much of it a walk takes.
 */
static double time_walks(const struct here *at, size_t w, bool alone, unsigned int *frames)
{
	uint64_t frame[FRAMES], start = now_ns(), zero;
	struct here here = *at;

	for (unsigned int i = 0; i < walkers[w].reps; i++) {
		*frames = walkers[w].walk(&here, frame);
		zero = alone ? frame[FRAMES - 1] : 0;
		__asm__ volatile("and $0, %0" : "+r"(zero)::"memory");
		here.regs.rbp += zero;
		here.regs.rsp += zero;
	}
	return (double)(now_ns() - start) / walkers[w].reps;
}

static __attribute__((noinline)) void measure(const char *stack, const struct here *here, bool has_rbp)
{
	static double ns[2][WALKERS][ROUNDS_MAX];
	unsigned int frames[WALKERS] = { 0 };

	for (unsigned int r = 0; r < rounds; r++)
		for (size_t w = 0; w < 2 * WALKERS; w++)
			if (has_rbp || !walkers[w / 2].needs_rbp)
				ns[w % 2][w / 2][r] = time_walks(here, w / 2, w % 2, &frames[w / 2]);
	for (size_t w = 0; w < WALKERS; w++) {
		if (!frames[w])
			continue;
		qsort(ns[0][w], rounds, sizeof(double), by_value);
		qsort(ns[1][w], rounds, sizeof(double), by_value);
		printf("%s\t%s\t%u\t%.1f\t%.2f\t%.1f\t%.2f\n", stack, walkers[w].name, frames[w],
		       ns[1][w][rounds / 2], ns[1][w][rounds / 2] / frames[w], ns[0][w][rounds / 2],
		       ns[0][w][rounds / 2] / frames[w]);
	}
}

/* Where this expands: rip, rsp and the registers that calls preserve. */
#define TAKE_HERE(h)                                                                                        \
	__asm__ volatile("lea 0(%%rip), %%rax\nmov %%rax, 0(%0)\nmov %%rsp, 8(%0)\nmov %%rbp, 16(%0)\n"     \
			 "mov %%rbx, 24(%0)\nmov %%r12, 32(%0)\nmov %%r13, 40(%0)\nmov %%r14, 48(%0)\nmov " \
			 "%%r15, 56(%0)" ::"r"(&(h)->regs)                                                  \
			 : "rax", "memory")

/*
 * Functions like those of ordinary programs, with some registers to save and some room: no two alike, so that
 * no two frames are. The last one measures.
 */
#define LINK(kind, i, next, room, attributes)                                    \
	static __attribute__((noinline)) attributes int kind##i(int n)           \
	{                                                                        \
		volatile char local[room];                                       \
		int a = n * 3, b = sink;                                         \
                                                                                 \
		local[0] = (char)n;                                              \
		return next(n + 1) + a * b + local[0] + ((room) % 3 ? sink : 0); \
	}

#define CHAIN(kind, end, attributes)              \
	LINK(kind, 0, end, 8, attributes)         \
	LINK(kind, 1, kind##0, 24, attributes)    \
	LINK(kind, 2, kind##1, 40, attributes)    \
	LINK(kind, 3, kind##2, 16, attributes)    \
	LINK(kind, 4, kind##3, 100, attributes)   \
	LINK(kind, 5, kind##4, 8, attributes)     \
	LINK(kind, 6, kind##5, 64, attributes)    \
	LINK(kind, 7, kind##6, 200, attributes)   \
	LINK(kind, 8, kind##7, 8, attributes)     \
	LINK(kind, 9, kind##8, 32, attributes)    \
	LINK(kind, 10, kind##9, 72, attributes)   \
	LINK(kind, 11, kind##10, 16, attributes)  \
	LINK(kind, 12, kind##11, 8, attributes)   \
	LINK(kind, 13, kind##12, 128, attributes) \
	LINK(kind, 14, kind##13, 48, attributes)  \
	LINK(kind, 15, kind##14, 24, attributes)  \
	LINK(kind, 16, kind##15, 8, attributes)   \
	LINK(kind, 17, kind##16, 56, attributes)

static __attribute__((noinline, optimize("no-omit-frame-pointer"))) int end_with(int n)
{
	struct here here;

	TAKE_HERE(&here);
	measure("with-fp", &here, true);
	return n;
}

static __attribute__((noinline, optimize("omit-frame-pointer"))) int end_without(int n)
{
	struct here here;

	TAKE_HERE(&here);
	measure("without-fp", &here, false);
	return n;
}

CHAIN(with, end_with, __attribute__((optimize("no-omit-frame-pointer"))))
CHAIN(without, end_without, __attribute__((optimize("omit-frame-pointer"))))

/* Every function of one library, in its middle, none of them seen before. */
static void first_sight(const char *name, const void *symbol)
{
	uint64_t functions = 0, pc, start, end, begun, took, sum = 0, longest = 0;
	struct self_seen seen = { .n = 0 };
	struct self_module m;

	if (!symbol || self_module_find((uintptr_t)symbol, &m) != SELF_MODULE) {
		printf("first-sight\t%s\tnot here\n", name);
		return;
	}
	for (pc = m.code; pc < m.code_end; pc = end) {
		if (!eh_frame_function(&m.image, pc, &start, &end)) {
			end = pc + 16;
			continue;
		}
		begun = now_ns();
		sink += (int)self_form(start + (end - start) / 2, false, &seen);
		took = now_ns() - begun;
		sum += took;
		if (took > longest)
			longest = took;
		functions++;
	}
	printf("first-sight\t%s\t%lu\t%.0f\t%lu\n", name, functions, (double)sum / (double)functions,
	       longest);
}

int main(int argc, char **argv)
{
	void *libcrypto, *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	if (argc > 1)
		rounds = (unsigned int)atoi(argv[1]);
	if (!rounds || rounds > ROUNDS_MAX)
		errx(2, "usage: walks [ROUNDS]");
	/* libunwind has a backtrace() of its own. */
	*(void **)&libc_backtrace = libc ? dlsym(libc, "backtrace") : NULL;
	if (!libc_backtrace)
		errx(1, "no backtrace() in libc");
	self_walk_setup();
	sink = with17(1);
	sink = without17(1);
	first_sight("libc", dlsym(libc, "qsort"));
	libcrypto = dlopen("libcrypto.so.3", RTLD_NOW);
	first_sight("libcrypto", libcrypto ? dlsym(libcrypto, "SHA256_Init") : NULL);
	return 0;
}
