/*
 * chaos_access - threads that access the watched variables, counting exactly what they do, in the midst of
 * registers that they know.
 */
#include "tests/chaos/chaos.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

enum access { ACCESS_WRITE, ACCESS_EXCHANGE, ACCESS_READ, ACCESS_NONE };
enum { RAX, RCX, RDX, RBX, RSP };

#define USER_FLAGS 0xcd5ull /* CF PF AF ZF SF DF OF */
#define FLAG_AC 0x40000ull
#define ALL_USER_FLAGS (USER_FLAGS | FLAG_AC | 0x200000ull) /* and ID */
#define STATE_WORDS 256

/* The layouts that chaos_stretch.S knows. */
struct chaos_registers {
	uint64_t in[16], flags, red, turns_after, access;
	uint64_t out[16], flags_after, red_after[16];
};
struct vector_state {
	uint8_t vector[32][64];
	uint64_t mask[8];
	uint8_t x87[8][16];
	uint16_t control, status;
	uint32_t mxcsr;
};
struct chaos_vectors {
	struct vector_state in;
	volatile uint64_t *variable;
	uint64_t value, turns, access, unused[3];
	struct vector_state out;
};
_Static_assert(offsetof(struct chaos_registers, red_after) == 296, "chaos_stretch.S");
_Static_assert(offsetof(struct chaos_vectors, out) == 2304, "chaos_stretch.S");

void chaos_registers(struct chaos_registers *r);
void chaos_vectors_sse(struct chaos_vectors *v);
void chaos_vectors_avx(struct chaos_vectors *v);
void chaos_vectors_avx512(struct chaos_vectors *v);

struct worker {
	unsigned int number;
	struct chaos_variable *variable;
	uint64_t random, next;
	uint64_t state[STATE_WORDS], sum; /* its own data: sum is that of state */
};

/* How long a stretch is on each side of the access: mostly short, at times so long that a stop falls into it.
 */
static uint64_t some_turns(struct worker *w)
{
	return 1 + next_random(&w->random) % (next_random(&w->random) % 16 ? 200 : 200000);
}

static void check_registers(struct worker *w, enum access access)
{
	struct chaos_registers r = { .red = next_random(&w->random) * 0x9e3779b97f4a7c15u, .access = access };
	uint64_t expected;
	unsigned int i;

	for (i = 0; i < 16; i++)
		r.in[i] = next_random(&w->random) * 0xda942042e4dd58b5u;
	r.flags = next_random(&w->random) & USER_FLAGS;
	if (next_random(&w->random) % 4 == 0)
		r.flags |= FLAG_AC;
	r.in[RCX] = some_turns(w);
	r.in[RDX] = w->next;
	r.in[RBX] = (uintptr_t)&w->variable->value;
	r.turns_after = some_turns(w);
	chaos_registers(&r);
	for (i = 0; i < 16; i++) {
		expected = i == RCX ? 0 : i == RDX && access == ACCESS_EXCHANGE ? w->next - 1 : r.in[i];
		if (i != RSP && r.out[i] != expected && !(i == RDX && access == ACCESS_READ))
			fail("general register %u is %#lx instead of %#lx after access %d", i, r.out[i],
			     expected, access);
		if (r.red_after[i] != r.red + i)
			fail("the red zone's word %u is %#lx instead of %#lx", i, r.red_after[i], r.red + i);
	}
	if ((r.flags_after & (USER_FLAGS | FLAG_AC)) != r.flags)
		fail("the flags are %#lx instead of %#lx", r.flags_after, r.flags);
}

/* Registers that SSE and AVX do not have are not looked at. */
static void check_vector_bytes(const struct chaos_vectors *v, unsigned int vectors, unsigned int bytes)
{
	unsigned int i;

	for (i = 0; i < vectors; i++)
		if (memcmp(v->in.vector[i], v->out.vector[i], bytes))
			fail("vector register %u (of %u bytes) was changed", i, bytes);
	for (i = 0; i < 8; i++) {
		if (bytes == 64 && v->in.mask[i] != v->out.mask[i])
			fail("mask register %u is %#lx instead of %#lx", i, v->out.mask[i], v->in.mask[i]);
		if (memcmp(v->in.x87[i], v->out.x87[i], 10))
			fail("x87 register %u was changed", i);
	}
	if (v->in.control != v->out.control)
		fail("the x87 control word is %#x instead of %#x", v->out.control, v->in.control);
	if (v->out.status & 0x3f)
		fail("the x87 status word is %#x", v->out.status);
	if (v->in.mxcsr != v->out.mxcsr)
		fail("MXCSR is %#x instead of %#x", v->out.mxcsr, v->in.mxcsr);
}

static void check_vectors(struct worker *w, enum access access)
{
	struct chaos_vectors v = {
		.variable = &w->variable->value, .value = w->next, .turns = some_turns(w), .access = access
	};
	unsigned int i, k;

	for (i = 0; i < 32; i++)
		for (k = 0; k < 64; k += 4)
			*(uint32_t *)(void *)(v.in.vector[i] + k) = (uint32_t)next_random(&w->random);
	for (i = 0; i < 8; i++) {
		v.in.mask[i] = next_random(&w->random) * 0xda942042e4dd58b5u;
		*(uint64_t *)(void *)v.in.x87[i] = 1ull << 63 | next_random(&w->random)
									<< 20; /* a normal number */
		*(uint16_t *)(void *)(v.in.x87[i] + 8) = (uint16_t)(0x3f00 + next_random(&w->random) % 0x200);
	}
	v.in.control = (uint16_t)(0x7f | (next_random(&w->random) % 4) << 10 |
				  (2 + next_random(&w->random) % 2) << 8);
	/* All exceptions masked, some raised; rounding, flush to zero, denormals are zero. */
	v.in.mxcsr = (uint32_t)(0x1f80 | (next_random(&w->random) & 0xe07f));
	if (__builtin_cpu_supports("avx512bw")) {
		chaos_vectors_avx512(&v);
		check_vector_bytes(&v, 32, 64);
	} else if (__builtin_cpu_supports("avx")) {
		chaos_vectors_avx(&v);
		check_vector_bytes(&v, 16, 32);
	} else {
		chaos_vectors_sse(&v);
		check_vector_bytes(&v, 16, 16);
	}
}

static void check_state(struct worker *w)
{
	uint64_t sum = 0, old;
	unsigned int i;

	for (i = 0; i < STATE_WORDS; i++)
		sum += w->state[i];
	if (sum != w->sum)
		fail("the sum over its own data is %#lx instead of %#lx", sum, w->sum);
	i = (unsigned int)next_random(&w->random) % STATE_WORDS;
	old = w->state[i];
	w->state[i] = next_random(&w->random) * 0xda942042e4dd58b5u;
	w->sum += w->state[i] - old;
}

/* One access, in surroundings that are drawn by lot, and errno with it. */
static void access_once(struct worker *w, enum access access)
{
	int error = (int)(1 + next_random(&w->random) % 4000);

	errno = error;
	if (next_random(&w->random) % 2)
		check_registers(w, access);
	else
		check_vectors(w, access);
	if (errno != error)
		fail("errno is %d instead of %d", errno, error);
}

static void pause_between(struct worker *w)
{
	uint32_t us = __atomic_load_n(&shared->pause_us, __ATOMIC_RELAXED);
	struct timespec t = { 0, (long)us * 1000 };
	int error = errno;

	if (us && next_random(&w->random) % 4 == 0 && nanosleep(&t, NULL))
		fail("nanosleep() between two accesses");
	errno = error;
}

static void begin(struct worker *w, unsigned int number, unsigned int variable)
{
	*w = (struct worker){ .number = number,
			      .variable = variable_number(variable),
			      .random = number * 0x9e3779b97f4a7c15u + 1,
			      .next = 1 };
}

void write_and_check(unsigned int variable)
{
	struct worker w;
	bool exchange;

	for (begin(&w, variable, variable); turn(); w.next++) {
		exchange = next_random(&w.random) % 4 == 0;
		access_once(&w, exchange ? ACCESS_EXCHANGE : ACCESS_WRITE);
		if (exchange)
			self->variable[variable].exchanges++;
		else
			self->variable[variable].writes++;
		if (next_random(&w.random) % 4 == 0) {
			chaos_function();
			self->calls++;
		}
		check_state(&w);
		access_once(&w, ACCESS_NONE);
		pause_between(&w);
	}
}

void read_and_check(unsigned int number)
{
	unsigned int variable;
	struct worker w;

	for (begin(&w, CHAOS_VARIABLES + number, 0); turn();) {
		variable = (unsigned int)next_random(&w.random) % CHAOS_VARIABLES;
		w.variable = variable_number(variable);
		access_once(&w, ACCESS_READ);
		self->variable[variable].reads++;
		check_state(&w);
		pause_between(&w);
	}
}
