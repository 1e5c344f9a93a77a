/* The measured code, with frame pointers or, compiled again with NO_FP, without. */
#include "tests/bench/captures.h"

#include "stackwalk/stackwalk.h"
#include "tests/bench/captures_chain.h"

#ifdef NO_FP
#define NAME(x) x##_nofp
#else
#define NAME(x) x##_fp
#endif

static void capture(void *arg)
{
	const struct burst *b = arg;
	unsigned long i;

	for (i = 0; i < b->n; i++)
		stackwalk_capture(i);
}

static void loop(void *arg)
{
	const struct burst *b = arg;
	unsigned long i;

	for (i = 0; i < b->n; i++)
		__asm__ volatile("" : : "r"(i));
}

#ifndef NO_FP
/* The least that a frame pointer walk can be: no check of anything. Also stores a time stamp and a tag, as a
 * record has. */
static __attribute__((noinline)) void rbp_loop(uint64_t *to, uint64_t tag)
{
	const uint64_t *bp = __builtin_frame_address(0);
	int i;

	to[0] = __builtin_ia32_rdtsc();
	to[1] = tag;
	for (i = 0; i < BENCH_FRAMES; i++) {
		to[2 + i] = bp[1];
		bp = (const uint64_t *)bp[0];
	}
}

static void bare(void *arg)
{
	static __thread uint64_t to[BENCH_FRAMES + 2];
	const struct burst *b = arg;
	unsigned long i;

	for (i = 0; i < b->n; i++) {
		rbp_loop(to, i);
		__asm__ volatile("" : : "r"(to) : "memory");
	}
}

void run_bare(struct burst *b)
{
	f16(bare, b);
}
#endif

void NAME(run_capture)(struct burst *b)
{
	f16(capture, b);
}

void NAME(run_loop)(struct burst *b)
{
	f16(loop, b);
}
