#include "watchctl/engine/intake/kernel_access.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/map64.h"
#include "watchctl/code/insn/access.h"
#include "watchctl/engine/perf/kernel_symbols.h"
#include "watchctl/engine/plan/dregs.h"

struct kernel_access {
	struct memory_view kernel;
	struct kernel_symbols *symbols;
	struct map64 facts; /* rip -> struct code_fact, owned */
};

struct kernel_access *kernel_access_new(struct memory_view kernel)
{
	struct kernel_access *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->kernel = kernel;
	k->symbols = kernel_symbols_new();
	if (k->symbols)
		return k;
	free(k);
	return NULL;
}

void kernel_access_free(struct kernel_access *k)
{
	if (!k)
		return;
	map64_deinit_values(&k->facts, free);
	kernel_symbols_free(k->symbols);
	free(k);
}

/* NULL: no memory. */
static const struct code_fact *fact_at(struct kernel_access *k, uint64_t pc)
{
	struct code_fact *fact = map64_get(&k->facts, pc);
	uint64_t start = 0;

	if (fact)
		return fact;
	fact = calloc(1, sizeof(*fact));
	if (!fact)
		return NULL;
	kernel_symbols_find(k->symbols, pc - 1, &start);
	code_fact_fill(fact, pc, start, &k->kernel);
	if (map64_put(&k->facts, pc, fact))
		return fact;
	free(fact);
	return NULL;
}

static const struct wire_kernel *kernel_part(const struct wire_record *r)
{
	const char *at = (const char *)(r + 1) + 8 * (size_t)r->nframes;

	if (r->walk_end == WALK_END_UNKNOWN_PC)
		at += sizeof(struct regs) + r->raw_len;
	return (const struct wire_kernel *)at;
}

/*
 * The way back to user mode comes after the system call: what is done there (a signal's frame, the thread's
 * rseq area, task work) is not its doing, though its number is still in the registers.
 */
static bool is_on_the_way_out(struct kernel_access *k, const struct wire_kernel *kernel)
{
	static const char *const after[] = { "exit_to_user_mode_loop", "arch_do_signal_or_restart",
					     "__rseq_handle_notify_resume", "syscall_exit_to_user_mode" };

	for (uint32_t i = 1; i < kernel->nframes && i < WIRE_KERNEL_FRAMES; i++) {
		const char *name = kernel_symbols_find(k->symbols, kernel->frame[i] - 1, NULL);

		for (size_t n = 0; name && n < sizeof(after) / sizeof(*after); n++)
			if (!strcmp(name, after[n]))
				return true;
	}
	return false;
}

static void kernel_access_resolve(struct kernel_access *k, const struct watchpoint *w,
				  const struct wire_record *r, const struct access_event *a,
				  struct access_verdict *ret)
{
	const struct wire_kernel *kernel = kernel_part(r);
	bool whole = w->want_size == w->size;
	struct access_query q = {
		.regs = &kernel->regs,
		.addr = r->addr ? r->addr : w->addr,
		.size = w->size,
		.armed = w->access == ACCESS_WRITE ? ACCESS_WRITE : ACCESS_READWRITE,
		.steps_trap = dregs_steps_trap(),
		.has_old = a->has_old && !a->old_uncertain && whole,
		.has_new = a->has_new && whole,
		.old_value = a->old_value,
		.new_value = a->new_value,
		.pc = fact_at(k, kernel->regs.r[WREG_RIP]),
	};

	access_resolve(&q, ret);
}

void kernel_access_fill(struct kernel_access *k, const struct watchpoint *w, const struct wire_record *r,
			struct access_event *a, struct access_verdict *ret)
{
	const struct wire_kernel *kernel = kernel_part(r);

	*ret = (struct access_verdict){ 0 };
	if (k) {
		kernel_access_resolve(k, w, r, a, ret);
		a->kernel_function = kernel_symbols_find(k->symbols, kernel->regs.r[WREG_RIP] - 1, NULL);
		if (a->syscall >= 0 && is_on_the_way_out(k, kernel))
			a->syscall = -1;
	}
	if (!ret->kind && (w->access == ACCESS_WRITE ||
			   (a->has_old && !a->old_uncertain && a->has_new && a->old_value != a->new_value)))
		ret->kind = ACCESS_WRITE;
	a->kernel_kind = (uint8_t)ret->kind;
}

bool kernel_access_goes_on(struct kernel_access *k, const struct watchpoint *w, const struct wire_record *r)
{
	const struct regs *regs = &kernel_part(r)->regs;
	const struct code_fact *fact = k && regs->r[WREG_RCX] ? fact_at(k, regs->r[WREG_RIP]) : NULL;
	uint64_t addr = r->addr ? r->addr : w->addr;
	struct insn insn;

	if (!fact || !fact->at_len || !insn_decode(fact->at, fact->at_len, fact->pc, &insn) || !insn.is_rep)
		return false;
	for (unsigned int i = 0; i < insn.nmem; i++) {
		const struct insn_mem *m = &insn.mem[i];
		uint64_t next = m->base >= 0 ? regs->r[m->base] : 0;

		if (next < addr + w->size && addr < next + m->size &&
		    (w->access != ACCESS_WRITE || (m->kind & ACCESS_WRITE)))
			return true;
	}
	return false;
}
