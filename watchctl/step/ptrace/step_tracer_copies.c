/*
 * Copies of instructions, in pages of ours in the program, near enough to the code for addresses relative to
 * rip. One thread of the program is made to map them (target/remote.h), and to unmap them at the end.
 *
 * Behind each copy stands a jump to what follows the original: a thread that is let go of in the middle,
 * because we were killed, comes home alone. That is why the pages are read-only and stay then.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/proc/proc.h"

#define AREA_SIZE 0x10000u
#define AREAS_MAX 32u
#define SLOT 32u
#define REACH (2000ull << 20) /* of a displacement of 32 bits, but for the length of code */
#define MARGIN (16ull << 20)  /* away from what may grow */
#define LOWEST (1ull << 20)

struct area {
	uint64_t start, next;
};

struct step_copies {
	struct area area[AREAS_MAX];
	unsigned int n;
	bool given_up;
};

/* Where */

struct gap_search {
	uint64_t low, high; /* within reach */
	uint64_t end;	    /* of the mapping before */
	uint64_t found;
};

static bool look_at_gap(void *ctx, const struct proc_map *m)
{
	struct gap_search *s = ctx;
	uint64_t from = s->end + MARGIN > s->low ? s->end + MARGIN : s->low;
	uint64_t to = m->start < s->high ? m->start : s->high;

	s->end = m->end;
	if (to < MARGIN || from + AREA_SIZE > to - MARGIN)
		return true;
	s->found = (to - MARGIN - AREA_SIZE) & ~(uint64_t)(AREA_SIZE - 1);
	return s->found < from;
}

static uint64_t find_gap(const struct step_tracer *k, uint64_t near)
{
	struct gap_search s = { .low = near > REACH + LOWEST ? near - REACH : LOWEST, .high = near + REACH };

	proc_maps(k->vm_tid, look_at_gap, &s);
	return s.found;
}

static struct wc_error *call_in(struct step_tracer *k, struct step_thread *t, long nr, const uint64_t arg[6],
				long *ret)
{
	struct stopped_call at;
	struct wc_error *err = step_remote_open(k, t, &at);

	err = err ? err : remote_syscall(&at.remote, nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5], ret);
	step_remote_close(k, t, &at);
	return err;
}

static struct wc_error *map_area(struct step_tracer *k, struct step_thread *t, uint64_t near)
{
	uint64_t arg[6] = { find_gap(k, near),	   AREA_SIZE,
			    PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			    (uint64_t)-1,	   0 };
	struct step_copies *c = k->copies;
	struct wc_error *err;
	long result = 0;

	if (!arg[0] || c->n == AREAS_MAX)
		return wc_error_new(WC_ENOTSUP, "there is no room near the code");
	err = call_in(k, t, SYS_mmap, arg, &result);
	if (err)
		return err;
	if (result < 0 || (uint64_t)result != arg[0])
		return wc_error_errno(WC_ENOTSUP, result < 0 ? (int)-result : 0,
				      "it cannot map memory for code");
	c->area[c->n++] = (struct area){ arg[0], arg[0] };
	return NULL;
}

static struct area *area_near(struct step_copies *c, uint64_t near)
{
	unsigned int i;

	for (i = 0; i < c->n; i++) {
		struct area *a = &c->area[i];
		uint64_t away = a->start > near ? a->start - near : near - a->start;

		if (away <= REACH + MARGIN && a->next + SLOT <= a->start + AREA_SIZE)
			return a;
	}
	return NULL;
}

/* Without them every such instruction is lifted, which is slow where there are many threads, and right. */
static void give_up(struct step_tracer *k, struct wc_error *err)
{
	k->copies->given_up = true;
	if (k->nthreads > 1)
		step_report_note(
			k,
			"some breakpoints are slower, because instructions cannot be copied into the "
			"program: %s",
			err->text);
	wc_error_free(err);
}

static bool write_copy(struct step_tracer *k, struct step_break *b, uint64_t at)
{
	static const uint8_t jump[6] = { 0xff, 0x25 }; /* jmp *0(%rip) */
	uint64_t home = b->address + b->move.len;
	uint8_t code[SLOT], copy[INSN_MAX];

	if (!insn_copy(&b->move, b->address, at, copy, &b->copy_len))
		return false;
	memset(code, 0xcc, sizeof(code));
	memcpy(code, copy, b->copy_len);
	memcpy(code + b->copy_len, jump, sizeof(jump));
	memcpy(code + b->copy_len + sizeof(jump), &home, sizeof(home));
	return pwrite(k->mem_fd, code, sizeof(code), (off_t)at) == sizeof(code);
}

bool step_copies_get(struct step_tracer *k, struct step_thread *t, struct step_break *b)
{
	struct step_copies *c = k->copies;
	struct area *a;
	struct wc_error *err = NULL;

	if (b->copy || b->no_copy)
		return b->copy;
	b->no_copy = true;
	if (c->given_up || t->guest)
		return false;
	a = area_near(c, b->address);
	if (!a) {
		err = map_area(k, t, b->address);
		a = area_near(c, b->address);
	}
	if (err)
		give_up(k, err);
	if (!a || !write_copy(k, b, a->next))
		return false;
	b->copy = a->next;
	b->no_copy = false;
	a->next += SLOT;
	return true;
}

void step_copies_unmap(struct step_tracer *k, struct step_thread *t)
{
	struct step_copies *c = k->copies;

	while (c->n && step_threads_load(t)) {
		const uint64_t arg[6] = { c->area[--c->n].start, AREA_SIZE };
		long result;

		wc_error_free(
			call_in(k, t, SYS_munmap, arg, &result)); /* it is ending, and its memory with it */
	}
}

bool step_copies_init(struct step_tracer *k)
{
	k->copies = calloc(1, sizeof(*k->copies));
	return k->copies;
}
