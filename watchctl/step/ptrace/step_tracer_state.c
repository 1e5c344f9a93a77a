#include <cpuid.h>
#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/user_regs.h"

/* The legacy part of an xsave image: Intel SDM vol. 1, 13.4.1. The header says which others are in use. */
#define X87_AT 32u
#define XMM_AT 160u
#define COMPONENT_YMM 2u
#define COMPONENT_ZMM 6u
#define COMPONENT_ZMM_HIGH 7u
#define VECTOR_REGS 32u

size_t step_state_copy(const struct step_tracer *k, uint64_t addr, void *buf, size_t len)
{
	return proc_read_some(k->vm_tid, addr, buf, len);
}

bool step_state_read(const struct step_tracer *k, uint64_t addr, void *buf, size_t len)
{
	return step_state_copy(k, addr, buf, len) == len;
}

struct memory_view step_state_memory(const struct step_tracer *k)
{
	return proc_memory(&k->vm_tid);
}

void step_state_regs(const struct step_thread *t, struct regs *ret)
{
	user_regs_read(&t->user, ret);
}

void step_state_set_regs(struct step_thread *t, const struct regs *regs)
{
	struct user_regs_struct *u = &t->user;
	const uint64_t *r = regs->r;

	u->rax = r[WREG_RAX];
	u->rdx = r[WREG_RDX];
	u->rcx = r[WREG_RCX];
	u->rbx = r[WREG_RBX];
	u->rsi = r[WREG_RSI];
	u->rdi = r[WREG_RDI];
	u->rbp = r[WREG_RBP];
	u->rsp = r[WREG_RSP];
	u->r8 = r[WREG_R8];
	u->r9 = r[WREG_R9];
	u->r10 = r[WREG_R10];
	u->r11 = r[WREG_R11];
	u->r12 = r[WREG_R12];
	u->r13 = r[WREG_R13];
	u->r14 = r[WREG_R14];
	u->r15 = r[WREG_R15];
	u->rip = r[WREG_RIP];
	u->eflags = r[WREG_RFLAGS];
	t->dirty = true;
}

/* Vector registers */

struct vectors {
	struct step_tracer *k;
	const struct step_thread *t;
};

static bool load_xstate(struct step_tracer *k, const struct step_thread *t)
{
	struct iovec io = { k->xstate, sizeof(k->xstate) };

	if (k->xstate_len)
		return true;
	if (held_ptrace(PTRACE_GETREGSET, t->tid, NT_X86_XSTATE, &io))
		return false;
	k->xstate_len = io.iov_len;
	return true;
}

/* @n bytes of register @i of a component; false: the CPU has none, or the kernel does not tell. */
static bool component(const struct step_tracer *k, unsigned int which, unsigned int i, uint8_t *to, size_t n)
{
	unsigned int size, offset, c, d;

	__cpuid_count(0xd, which, size, offset, c, d);
	if (!size || (i + 1) * n > size || offset + (i + 1) * n > k->xstate_len)
		return false;
	memcpy(to, k->xstate + offset + i * n, n);
	return true;
}

static bool vector(void *ctx, unsigned int reg, uint8_t ret[64])
{
	const struct vectors *v = ctx;

	if (reg >= VECTOR_REGS || !load_xstate(v->k, v->t))
		return false;
	memset(ret, 0, 64);
	if (reg >= 16)
		return component(v->k, COMPONENT_ZMM_HIGH, reg - 16, ret, 64);
	memcpy(ret, v->k->xstate + XMM_AT + 16u * reg, 16);
	component(v->k, COMPONENT_YMM, reg, ret + 16, 16);
	component(v->k, COMPONENT_ZMM, reg, ret + 32, 32);
	return true;
}

static bool x87(void *ctx, unsigned int reg, uint8_t ret[10])
{
	const struct vectors *v = ctx;

	if (reg >= 8 || !load_xstate(v->k, v->t))
		return false;
	memcpy(ret, v->k->xstate + X87_AT + 16u * reg, 10);
	return true;
}

void step_state_fetch(struct step_tracer *k, struct step_thread *t, const struct fetch_list *l,
		      uint64_t entry_sp, struct fetched *ret)
{
	struct vectors v = { k, t };
	struct regs regs;
	struct fetch_source s = {
		.regs = &regs,
		.entry_sp = entry_sp,
		.memory = step_state_memory(k),
		.vector = vector,
		.x87 = x87,
		.ctx = &v,
	};
	int64_t errno_offset = __atomic_load_n(&k->box->errno_offset, __ATOMIC_RELAXED);

	step_state_regs(t, &regs);
	k->xstate_len = 0;
	if (errno_offset && t->user.fs_base)
		s.errno_address = t->user.fs_base + (uint64_t)errno_offset;
	fetch_run(l, &s, ret);
}

void step_state_stack(const struct step_tracer *k, uint64_t addr, uint64_t *start, uint64_t *end)
{
	struct proc_map m;

	*start = *end = 0;
	if (!proc_map_at(k->vm_tid, addr, &m))
		return;
	*start = m.start;
	*end = m.end;
}
