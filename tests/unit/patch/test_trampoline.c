/*
 * Trampolines executed: each snippet below runs as it is and patched, from the same registers, flags and memory, and has to
 * leave the same. How often its instructions are reached, and with what in rcx and rsp, a single-stepped run tells.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#include "probe/calls/call_wire.h"
#include "watchctl/patch/plan/trampoline.h"

/* Where all of it lies: the trampoline far from the code, but within 2 GB. */
#define CODE_AT 0x5a0000000000u
#define TRAMPOLINE_AT 0x5a0060000000u
#define DATA_AT 0x5b0000000000u
#define CODE_SIZE 0x1000u
#define DATA_SIZE 0x1000u
#define STACK_AT (DATA_AT + DATA_SIZE)
#define STACK_SIZE 0x2000u
#define RSP_AT (STACK_AT + 0x1800u)
#define RED_ZONE 128u

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

struct machine {
	uint64_t r[16], flags;
};

/* The first members are known to test_entry. */
struct site {
	uint64_t hits, rcx, rsp;
	uint64_t add; /* to rcx and to rax: of a probe that changes registers */
};

struct near_data {
	uint64_t on; /* struct probe_switch */
	uint64_t entry;
	struct site site[2 * TRAMPOLINE_INSNS];
};

#define NEAR ((struct near_data *)(TRAMPOLINE_AT + CODE_SIZE))

struct machine run_machine; /* of run_code: before, and after */
uint64_t run_target, run_own_rsp;
void run_code(void);
void run_exit(void);
void test_entry(void);

__asm__(".text\n"
	"run_code:\n"
	"	push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"	mov %rsp, run_own_rsp(%rip)\n"
	"	push run_machine+128(%rip); popfq\n"
	"	mov run_machine+0(%rip), %rax; mov run_machine+8(%rip), %rcx\n"
	"	mov run_machine+16(%rip), %rdx; mov run_machine+24(%rip), %rbx\n"
	"	mov run_machine+32(%rip), %rsp; mov run_machine+40(%rip), %rbp\n"
	"	mov run_machine+48(%rip), %rsi; mov run_machine+56(%rip), %rdi\n"
	"	mov run_machine+64(%rip), %r8; mov run_machine+72(%rip), %r9\n"
	"	mov run_machine+80(%rip), %r10; mov run_machine+88(%rip), %r11\n"
	"	mov run_machine+96(%rip), %r12; mov run_machine+104(%rip), %r13\n"
	"	mov run_machine+112(%rip), %r14; mov run_machine+120(%rip), %r15\n"
	"	jmp *run_target(%rip)\n"
	"run_exit:\n"
	"	mov %rax, run_machine+0(%rip); mov %rcx, run_machine+8(%rip)\n"
	"	mov %rdx, run_machine+16(%rip); mov %rbx, run_machine+24(%rip)\n"
	"	mov %rsp, run_machine+32(%rip); mov %rbp, run_machine+40(%rip)\n"
	"	mov %rsi, run_machine+48(%rip); mov %rdi, run_machine+56(%rip)\n"
	"	mov %r8, run_machine+64(%rip); mov %r9, run_machine+72(%rip)\n"
	"	mov %r10, run_machine+80(%rip); mov %r11, run_machine+88(%rip)\n"
	"	mov %r12, run_machine+96(%rip); mov %r13, run_machine+104(%rip)\n"
	"	mov %r14, run_machine+112(%rip); mov %r15, run_machine+120(%rip)\n"
	"	mov run_own_rsp(%rip), %rsp\n"
	"	pushfq; pop run_machine+128(%rip)\n"
	"	push $0x202; popfq\n"
	"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"	ret\n"
	/* rcx is the site; the saved one lies above the return address. */
	"test_entry:\n"
	"	push %rax\n"
	"	mov (%rcx), %rax; lea 1(%rax), %rax; mov %rax, (%rcx)\n"
	"	lea 0x98(%rsp), %rax; mov %rax, 16(%rcx)\n"
	"	mov 16(%rsp), %rax; mov %rax, 8(%rcx)\n"
	"	push %rdx; mov 24(%rcx), %rdx\n"
	"	lea (%rax, %rdx), %rax; mov %rax, 24(%rsp)\n"
	"	mov 8(%rsp), %rax; lea (%rax, %rdx), %rax\n"
	"	pop %rdx; lea 8(%rsp), %rsp\n"
	"	mov $0x1337, %ecx\n"
	"	ret\n");

/* Snippets: the group is what lies between @before and @behind. */

struct snippet {
	const char *name;
	const uint8_t *start, *group, *behind, *end;
	bool repeats; /* a step of it is not always an instruction */
};

#define MORE_NOPS "nop; nop; nop; nop\n"
/* clang-format off */
#define CONDITIONS(X, prefix, form) \
	X(prefix##o, form("jo")) X(prefix##no, form("jno")) X(prefix##b, form("jb")) X(prefix##ae, form("jae")) \
	X(prefix##e, form("je")) X(prefix##ne, form("jne")) X(prefix##be, form("jbe")) X(prefix##a, form("ja")) \
	X(prefix##s, form("js")) X(prefix##ns, form("jns")) X(prefix##p, form("jp")) X(prefix##np, form("jnp")) \
	X(prefix##l, form("jl")) X(prefix##ge, form("jge")) X(prefix##le, form("jle")) X(prefix##g, form("jg"))
/* clang-format on */

/* before, group, behind */
#define SHORT_JCC(cc) "", cc " 1f; mov $7, %eax", "lea 3(%rdx), %rdx; 1:"
#define LONG_JCC(cc) "", cc " 1f; lea 1(%rax), %rax", "lea 3(%rdx), %rdx; jmp 1f; .skip 200, 0x90; 1:"
#define COUNT_JUMP(insn) "", insn " 1f; mov $7, %eax", "lea 3(%rdx), %rdx; 1:"
#define COUNT_LOOP(insn) \
	"mov $3, %ecx; xor %eax, %eax", "1: lea 1(%rax), %rax; " insn " 1b", "lea 3(%rdx), %rdx"

#define CALLEE "jmp 2f; 1: mov (%rsp), %r9; lea 5(%rax), %rax; ret; 2:"

#define SNIPPETS(X)                                                                                        \
	CONDITIONS(X, short_j, SHORT_JCC)                                                                  \
	CONDITIONS(X, long_j, LONG_JCC)                                                                    \
	X(loop, COUNT_JUMP("loop"))                                                                        \
	X(loope, COUNT_JUMP("loope"))                                                                      \
	X(loopne, COUNT_JUMP("loopne"))                                                                    \
	X(jrcxz, COUNT_JUMP("jrcxz"))                                                                      \
	X(jecxz, COUNT_JUMP("jecxz"))                                                                      \
	X(loop32, COUNT_JUMP("addr32 loop"))                                                               \
	X(loop_back, COUNT_LOOP("loop"))                                                                   \
	X(loopne_back, COUNT_LOOP("loopne"))                                                               \
	X(loop_self, "mov $4, %ecx", "1: loop 1b; mov $1, %r8d", "")                                       \
	X(jump_short, "", "jmp 1f; " MORE_NOPS, "lea 3(%rdx), %rdx; 1:")                                   \
	X(jump_long, "", "jmp 1f", ".skip 200, 0x90; 1:")                                                  \
	X(jump_reg, "lea 1f(%rip), %r10", "nop; nop; jmp *%r10", "lea 3(%rdx), %rdx; 1:")                  \
	X(jump_mem, "lea 1f(%rip), %r10; mov %r10, 3f(%rip)", "jmp *3f(%rip)", "3: .quad 0; 1:")           \
	X(jump_notrack, "lea 1f(%rip), %r10; mov %r10, -24(%rsp)", "notrack jmp *-24(%rsp)",               \
	  "lea 3(%rdx), %rdx; 1:")                                                                         \
	X(back_to_start, "mov $3, %r8d", "1: lea 1(%rax), %rax; dec %r8d; jnz 1b", "")                     \
	X(back_inside, "mov $3, %r8d", "nop; 1: lea 1(%rax), %rax; dec %r8d; jnz 1b", "")                  \
	X(ahead_inside, "", "jc 1f; lea 1(%rax), %rax; 1: lea 2(%rdx), %rdx", "")                          \
	X(load, "", "mov 1f(%rip), %rax", "jmp 2f; 1: .quad 0x1122334455667788; 2:")                       \
	X(store, "", "mov %rdx, 1f(%rip)", "mov 1f(%rip), %r9; jmp 2f; 1: .quad 1; 2:")                    \
	X(store_imm, "", "movl $0x12345678, 1f(%rip)", "mov 1f(%rip), %r9d; jmp 2f; 1: .quad 1; 2:")       \
	X(store_imm8, "", "movb $0x12, 1f(%rip)", "mov 1f(%rip), %r9d; jmp 2f; 1: .quad 1; 2:")            \
	X(store_imm16, "", "movw $0x1234, 1f(%rip)", "mov 1f(%rip), %r9d; jmp 2f; 1: .quad 1; 2:")         \
	X(address, "", "lea 1f(%rip), %rax; lea 1f(%rip), %r15", "1:")                                     \
	X(own_address, "", "1: lea 1b(%rip), %rax", "")                                                    \
	X(compare, "", "cmpl $5, 1f(%rip); lea 1(%rax), %rax", "jmp 2f; 1: .quad 5; 2:")                   \
	X(compare_reg, "", "cmp %rdx, 1f(%rip)", "jmp 2f; 1: .quad 5; 2:")                                 \
	X(locked, "", "lock xadd %rdx, 1f(%rip)", "mov 1f(%rip), %r9; jmp 2f; 1: .quad 5; 2:")             \
	X(vector, "", "movdqu 1f(%rip), %xmm5; movq %xmm5, %r9", "jmp 2f; 1: .quad 5, 6; 2:")              \
	X(shift, "", "shlq $3, 1f(%rip); sbb %rdx, %rdx", "mov 1f(%rip), %r9; jmp 2f; 1: .quad -1; 2:")    \
	X(call, "", "call 1f", CALLEE)                                                                     \
	X(call_behind, "", "lea 1(%rax), %rax; push %rdx; pop %r8; call 1f", CALLEE)                       \
	X(call_reg, "lea 1f(%rip), %r10", "nop; nop; call *%r10", CALLEE)                                  \
	X(call_rax, "lea 1f(%rip), %rax", "nop; nop; nop; call *%rax", CALLEE)                             \
	X(call_r12, "lea 1f(%rip), %r12", "nop; nop; call *%r12", CALLEE)                                  \
	X(call_mem, "lea 1f(%rip), %r10; mov %r10, (%rdi)", "nop; nop; nop; call *(%rdi)", CALLEE)         \
	X(call_mem_r12, "lea 1f(%rip), %r10; lea 64(%rdi), %r12; mov %r10, 16(%r12)", "call *16(%r12)",    \
	  CALLEE)                                                                                          \
	X(call_index, "lea 1f(%rip), %r10; xor %r8, %r8; mov %r10, 64(%rdi)", "call *64(%rdi, %r8, 8)",    \
	  CALLEE)                                                                                          \
	X(call_rip, "lea 1f(%rip), %r10; mov %r10, 3f(%rip)", "call *3f(%rip)",                            \
	  CALLEE "jmp 4f; 3: .quad 0; 4:")                                                                 \
	X(call_rsp, "lea 1f(%rip), %r10; mov %r10, (%rsp)", "nop; nop; call *(%rsp)", CALLEE)              \
	X(call_rsp8, "lea 1f(%rip), %r10; mov %r10, 8(%rsp)", "nop; call *8(%rsp)", CALLEE)                \
	X(call_rsp124, "lea 1f(%rip), %r10; mov %r10, 124(%rsp)", "nop; call *124(%rsp)", CALLEE)          \
	X(call_rsp300, "lea 1f(%rip), %r10; mov %r10, 300(%rsp)", "call *300(%rsp)", CALLEE)               \
	X(call_below, "lea 1f(%rip), %r10; mov %r10, -32(%rsp)", "nop; call *-32(%rsp)", CALLEE)           \
	X(call_rsp_index, "lea 1f(%rip), %r10; mov $2, %r8d; mov %r10, 24(%rsp)", "call *8(%rsp, %r8, 8)", \
	  CALLEE)                                                                                          \
	X(call_data16, "lea 1f(%rip), %r10; mov %r10, 3f(%rip)", "data16 rex.W call *3f(%rip)",            \
	  CALLEE "jmp 4f; 3: .quad 0; 4:")                                                                 \
	X(call_red_zone, "mov %rdx, -16(%rsp); mov %rax, -128(%rsp)", "call 1f",                           \
	  "jmp 2f; 1: mov -8(%rsp), %r8; mov -120(%rsp), %r9; ret; 2:")                                    \
	X(ret, "call 1f; jmp 2f; 1:", "lea 1(%rax), %rax; ret", "2:")                                      \
	X(ret_pops, "push %rdx; call 1f; jmp 2f; 1:", "nop; nop; ret $8", "2:")                            \
	X(push_pop, "", "push %rax; push %rsp; pop %r8; pop %r9; push %rbx; pop %r10", "")                 \
	X(push_mem, "mov %rdx, 16(%rsp)", "pushq 16(%rsp); popq -40(%rsp); push $-5; pop %r8", "")         \
	X(flags, "", "pushfq; pop %r8; lahf; adc $3, %r9; sbb %rbx, %rdx", "")                             \
	X(frame, "", "enter $32, $0; leave; nop", "")                                                      \
	X(exchange_stack, "lea -256(%rsp), %r8", "xchg %rsp, %r8; push %rax; xchg %rsp, %r8", "")          \
	X(red_zone, "mov %rdx, -8(%rsp); mov %rbx, -128(%rsp)",                                            \
	  "add -8(%rsp), %rax; xor -128(%rsp), %rbx; mov %rax, -64(%rsp)", "mov -64(%rsp), %r9")           \
	X(set_conditions, "", "cmovc %rdx, %rax; setp %r8b; cmovle %r9, %r10", "")                         \
	X(uses_rcx, "", "mov %rcx, %r8; shl %cl, %rax; lea 1(%rcx), %rcx; inc %ecx", "")                   \
	X(syscall, "mov $39, %eax", "syscall; mov %rcx, %r9; mov %r11, %r10", "")                          \
	X(syscall_last, "", "mov $39, %eax; syscall", "")                                                  \
	X(endbr, "", "endbr64; nop", "")                                                                   \
	X(nops, "", ".byte 0x0f, 0x1f, 0x44, 0, 0", "")                                                    \
	X(string, "lea 8(%rsi), %rsi", "movsb; lodsw; std; stosq; cld; nop", "")

#define REPEATED(X)                                                 \
	X(rep_move, "mov $9, %ecx", "rep movsb; nop; nop; nop", "") \
	X(rep_compare, "", "repe cmpsb; nop; nop; nop", "")         \
	X(rep_store, "std; mov $9, %ecx", "rep stosq; cld; nop", "")

#define EMIT(name, ...) EMIT_TEXT(name, __VA_ARGS__)
#define EMIT_TEXT(name, before, group, behind)   \
	__asm__(".section .rodata\n"             \
		"snip_" #name "_0: " before "\n" \
		"snip_" #name "_1: " group "\n"  \
		"snip_" #name "_2: " behind "\n" \
		"jmp *9f(%rip); 9: .quad 0\n"    \
		"snip_" #name "_3: .text\n");    \
	extern const uint8_t snip_##name##_0[], snip_##name##_1[], snip_##name##_2[], snip_##name##_3[];
#define ENTRY(name, ...) { #name, snip_##name##_0, snip_##name##_1, snip_##name##_2, snip_##name##_3, false },
#define REPEATED_ENTRY(name, ...) \
	{ #name, snip_##name##_0, snip_##name##_1, snip_##name##_2, snip_##name##_3, true },

SNIPPETS(EMIT)
REPEATED(EMIT)

static const struct snippet snippets[] = { SNIPPETS(ENTRY) REPEATED(REPEATED_ENTRY) };
#define NSNIPPETS (sizeof(snippets) / sizeof(*snippets))

/* Running */

struct outcome {
	struct machine machine;
	uint8_t code[CODE_SIZE], data[DATA_SIZE], stack[STACK_SIZE];
};

/* What a run begins with. */
static void put_all(const struct snippet *s)
{
	size_t len = (size_t)(s->end - s->start);
	uint64_t out = (uint64_t)run_exit;

	memset((void *)CODE_AT, 0xcc, CODE_SIZE);
	memcpy((void *)CODE_AT, s->start, len);
	memcpy((void *)(CODE_AT + len - 8), &out, 8);
	for (unsigned int i = 0; i < DATA_SIZE; i++)
		((uint8_t *)DATA_AT)[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned int i = 0; i < STACK_SIZE; i++)
		((uint8_t *)STACK_AT)[i] = (uint8_t)(i * 5 + i / 256);
}

static struct machine machine_of(uint64_t flags, uint64_t rcx)
{
	struct machine m = { .flags = flags };

	for (unsigned int i = 0; i < 16; i++)
		m.r[i] = 0x0101010101010101u * (i + 1) + i;
	m.r[RCX] = rcx;
	m.r[RSP] = RSP_AT;
	m.r[RBP] = DATA_AT + 0x800;
	m.r[RSI] = DATA_AT + 0x400;
	m.r[RDI] = DATA_AT + 0x600;
	return m;
}

static void run(const struct machine *m, struct outcome *ret)
{
	run_machine = *m;
	run_target = CODE_AT;
	run_code();
	ret->machine = run_machine;
	memcpy(ret->code, (void *)CODE_AT, CODE_SIZE);
	memcpy(ret->data, (void *)DATA_AT, DATA_SIZE);
	memcpy(ret->stack, (void *)STACK_AT, STACK_SIZE);
}

#define check(s, claim)                                        \
	do {                                                   \
		if (!(claim))                                  \
			fail_msg("%s: %s", (s)->name, #claim); \
	} while (0)

/* @len bytes of the group are patched. What lies deeper than the red zone is nobody's. */
static void check_same(const struct snippet *s, const struct outcome *a, const struct outcome *b, size_t len)
{
	uint64_t low = a->machine.r[RSP] - RED_ZONE - STACK_AT;
	size_t group = (size_t)(s->group - s->start), end = group + len;

	check(s, !memcmp(a->machine.r, b->machine.r, sizeof(a->machine.r)));
	check(s, a->machine.flags == b->machine.flags);
	check(s, !memcmp(a->data, b->data, DATA_SIZE));
	check(s, !memcmp(a->stack + low, b->stack + low, STACK_SIZE - low));
	check(s, !memcmp(a->code, b->code, group));
	check(s, !memcmp(a->code + end, b->code + end, CODE_SIZE - end));
}

/* A run in single steps */

static struct {
	uint64_t start, end, last;
	bool repeats;
	struct site site[TRAMPOLINE_INSNS]; /* by offset */
} steps;

static void on_step(int signal, siginfo_t *info, void *context)
{
	const ucontext_t *c = context;
	uint64_t rip = (uint64_t)c->uc_mcontext.gregs[REG_RIP], offset = rip - steps.start;
	bool again = steps.repeats && rip == steps.last;

	steps.last = rip;
	if (rip == (uint64_t)run_exit)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
	if (rip < steps.start || rip >= steps.end || offset >= TRAMPOLINE_INSNS || again)
		return;
	steps.site[offset].hits++;
	steps.site[offset].rcx = (uint64_t)c->uc_mcontext.gregs[REG_RCX];
	steps.site[offset].rsp = (uint64_t)c->uc_mcontext.gregs[REG_RSP];
}

static void run_steps(const struct snippet *s, const struct machine *m)
{
	struct machine stepped = *m;
	static struct outcome ignored;

	memset(&steps, 0, sizeof(steps));
	steps.start = CODE_AT + (uint64_t)(s->group - s->start);
	steps.end = CODE_AT + (uint64_t)(s->behind - s->start);
	steps.repeats = s->repeats;
	stepped.flags |= 0x100;
	put_all(s);
	run(&stepped, &ignored);
}

/* The processor takes no step behind a system call: that what follows it is reached is known without. */
static uint64_t wanted_hits(const struct snippet *s, size_t offset)
{
	bool behind = !strcmp(s->name, "syscall") && offset == 2;

	return behind ? 1 : steps.site[offset].hits;
}

/* Patching */

static void jump_to(uint64_t from, uint64_t to)
{
	int32_t d = (int32_t)(to - from - 5);

	*(uint8_t *)from = 0xe9;
	memcpy((uint8_t *)from + 1, &d, 4);
}

/* Of all that are made. */
static const struct trampoline_record *use_record;

static struct trampoline_request request_of(const struct snippet *s, const struct trampoline_probe *probe,
					    size_t n)
{
	return (struct trampoline_request){
		.addr = CODE_AT + (uint64_t)(s->group - s->start),
		.bytes = s->group,
		.moved = (size_t)(s->behind - s->group),
		.probe = probe,
		.nprobes = n,
		.at = TRAMPOLINE_AT,
		.switch_at = (uint64_t)&NEAR->on,
		.entry_at = (uint64_t)&NEAR->entry,
		.record = use_record,
	};
}

/* The snippet is in place; its group is patched. */
static void patch(const struct snippet *s, const struct trampoline_probe *probe, size_t n,
		  struct trampoline *ret)
{
	struct trampoline_request q = request_of(s, probe, n);

	memset(NEAR, 0, sizeof(*NEAR));
	NEAR->entry = (uint64_t)test_entry;
	NEAR->on = 1;
	assert_int_equal(trampoline_make(&q, ret), TRAMPOLINE_OK);
	memset((void *)TRAMPOLINE_AT, 0xcc, CODE_SIZE);
	memcpy((void *)TRAMPOLINE_AT, ret->code, ret->len);
	jump_to(q.addr, TRAMPOLINE_AT);
}

static struct trampoline_probe probe_at(size_t offset, enum trampoline_when when, size_t site)
{
	return (struct trampoline_probe){ (uint16_t)offset, when, (uint64_t)&NEAR->site[site],
					  (uint32_t)site };
}

/* One probe before each instruction; the site's number is the offset. */
static size_t probes_everywhere(const struct snippet *s, struct trampoline_probe *ret)
{
	struct trampoline_request q = request_of(s, NULL, 0);
	struct trampoline t;
	size_t n = 0;

	assert_int_equal(trampoline_make(&q, &t), TRAMPOLINE_OK);
	for (size_t i = 0; i < TRAMPOLINE_INSNS; i++)
		if (t.copy[i] != TRAMPOLINE_NONE)
			ret[n++] = probe_at(i, PROBE_RUNS_BEFORE, i);
	return n;
}

static void compare_runs(const struct snippet *s, const struct machine *m)
{
	struct trampoline_probe probe[TRAMPOLINE_INSNS];
	size_t n = probes_everywhere(s, probe);
	static struct outcome plain, patched;
	struct trampoline t;

	assert_true(s->behind - s->group >= 5);
	run_steps(s, m);
	put_all(s);
	run(m, &plain);
	for (int on = 1; on >= 0; on--) {
		put_all(s);
		patch(s, probe, n, &t);
		NEAR->on = (uint64_t)on;
		run(m, &patched);
		check_same(s, &plain, &patched, 5);
		for (unsigned int i = 0; i < TRAMPOLINE_INSNS; i++) {
			const struct site *found = &NEAR->site[i], *wanted = &steps.site[i];

			check(s, found->hits == (on ? wanted_hits(s, i) : 0));
			check(s, !found->hits || !wanted->hits ||
					 (found->rcx == wanted->rcx && found->rsp == wanted->rsp));
		}
	}
}

static const uint64_t some_flags[] = { 0x202, 0x203, 0x206, 0x212, 0x242, 0x282, 0xa02, 0xa82, 0x243, 0xad7 };
static const uint64_t some_counts[] = { 0, 1, 2, 5, 0x100000000u };
#define NFLAGS (sizeof(some_flags) / sizeof(*some_flags))
#define NCOUNTS (sizeof(some_counts) / sizeof(*some_counts))

static void copies_do_what_the_instructions_did(void **state)
{
	for (size_t i = 0; i < NSNIPPETS; i++) {
		for (size_t k = 0; k < NFLAGS * NCOUNTS; k++) {
			struct machine m = machine_of(some_flags[k / NCOUNTS], some_counts[k % NCOUNTS]);

			if (snippets[i].repeats && m.r[RCX] > 5)
				continue;
			compare_runs(&snippets[i], &m);
		}
	}
}

/* Probes after each instruction that allows them. */
static void compare_after(const struct snippet *s, const struct machine *m)
{
	struct trampoline_probe all[TRAMPOLINE_INSNS], probe[TRAMPOLINE_INSNS];
	size_t nall = probes_everywhere(s, all), n = 0;
	static struct outcome plain, patched;
	struct trampoline t;

	for (size_t i = 0; i < nall; i++) {
		struct trampoline_probe p = probe_at(all[i].offset, PROBE_RUNS_AFTER, all[i].offset);
		struct trampoline_request q = request_of(s, &p, 1);
		enum trampoline_error err = trampoline_make(&q, &t);

		assert_true(err == TRAMPOLINE_OK || err == TRAMPOLINE_NOT_AFTER);
		if (err == TRAMPOLINE_OK)
			probe[n++] = p;
	}
	run_steps(s, m);
	put_all(s);
	run(m, &plain);
	put_all(s);
	patch(s, probe, n, &t);
	run(m, &patched);
	check_same(s, &plain, &patched, 5);
	for (size_t i = 0; i < n; i++)
		check(s, NEAR->site[probe[i].offset].hits == wanted_hits(s, probe[i].offset));
}

static void probes_after_count_as_well(void **state)
{
	struct machine m = machine_of(0x202, 5);

	for (size_t i = 0; i < NSNIPPETS; i++)
		compare_after(&snippets[i], &m);
}

static const struct snippet *snippet_named(const char *name)
{
	for (size_t i = 0; i < NSNIPPETS; i++)
		if (!strcmp(snippets[i].name, name))
			return &snippets[i];
	fail_msg("no snippet %s", name);
	return NULL;
}

/* Probes that record by themselves */

#define SLOTS 200u

static _Thread_local uint32_t own_number = 0x12345;
static struct call_shared *calls;

static int32_t from_fs(const void *p)
{
	uint64_t fs;

	__asm__("mov %%fs:0, %0" : "=r"(fs));
	return (int32_t)((uint64_t)p - fs);
}

static struct call_slot *slots(void)
{
	return (struct call_slot *)(void *)((char *)calls + sizeof(*calls));
}

/* The thread has a chunk in which @room slots are free. */
static void give_room(uint32_t room)
{
	struct call_thread_place *p = &calls->place[own_number % CALL_PLACES];

	memset(slots(), 0, (SLOTS + 1) * sizeof(struct call_slot));
	p->tid = own_number;
	p->last = (uint64_t)&slots()[SLOTS - 1];
	p->next = (uint64_t)&slots()[SLOTS - room];
}

static uint64_t recorded(const struct snippet *s, uint32_t id)
{
	uint64_t n = 0;

	for (size_t i = 0; i < SLOTS; i++) {
		const struct call_slot *slot = &slots()[i];

		if (!slot->place || call_slot_site(slot->place) != id)
			continue;
		n++;
		check(s, slot->tsc && (!i || !slots()[i - 1].place || slot->tsc >= slots()[i - 1].tsc));
		check(s, steps.site[id].hits != 1 || call_slot_sp(slot->place) == steps.site[id].rsp);
	}
	return n;
}

enum way { RECORDS, HAS_NO_ROOM, IS_ANOTHERS, IS_OFF, NOTHING, WAYS };

#define AT_ONCE 3u /* that record by themselves */

static void compare_way(const struct snippet *s, const struct machine *m,
			const struct trampoline_probe *probe, size_t n, enum way way,
			const struct outcome *plain)
{
	static struct outcome patched;
	struct trampoline t;

	put_all(s);
	patch(s, probe, n, &t);
	give_room(way == HAS_NO_ROOM ? 0 : SLOTS);
	memset(calls->off, way == IS_OFF, 4 * TRAMPOLINE_INSNS);
	own_number += way == IS_ANOTHERS;
	NEAR->on = way == NOTHING ? 0 : (uint64_t)calls;
	run(m, &patched);
	own_number -= way == IS_ANOTHERS;
	check_same(s, plain, &patched, 5);
	for (size_t i = 0; i < n; i++) {
		const uint64_t wanted = wanted_hits(s, probe[i].id);

		check(s, recorded(s, probe[i].id) == (way == RECORDS ? wanted : 0));
		check(s, NEAR->site[probe[i].id].hits == (way == RECORDS || way == NOTHING ? 0 : wanted));
	}
	check(s, !slots()[SLOTS].place);
}

static void compare_recorded(const struct snippet *s, const struct machine *m)
{
	struct trampoline_probe probe[TRAMPOLINE_INSNS];
	const struct trampoline_record *record = use_record;
	static struct outcome plain;
	size_t n, some;

	use_record = NULL;
	n = probes_everywhere(s, probe);
	use_record = record;
	run_steps(s, m);
	put_all(s);
	run(m, &plain);
	for (size_t i = 0; i < n; i += some) {
		some = n - i < AT_ONCE ? n - i : AT_ONCE;
		for (enum way way = RECORDS; way < WAYS; way++)
			compare_way(s, m, probe + i, some, way, &plain);
	}
}

static void probes_that_record_change_nothing_and_leave_the_rest_to_the_entry(void **state)
{
	const struct trampoline_record record = { from_fs(&own_number), (SLOTS - 1) * CALL_SLOT_SIZE };

	calls = mmap(NULL, sizeof(*calls) + (SLOTS + 1) * sizeof(struct call_slot), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(calls != MAP_FAILED);
	use_record = &record;
	for (size_t i = 0; i < NSNIPPETS; i++)
		for (size_t k = 0; k < NFLAGS * NCOUNTS; k++) {
			struct machine m = machine_of(some_flags[k / NCOUNTS], some_counts[k % NCOUNTS]);

			if (m.r[RCX] <= 5)
				compare_recorded(&snippets[i], &m);
		}
	use_record = NULL;
	munmap(calls, sizeof(*calls) + (SLOTS + 1) * sizeof(struct call_slot));
}

/* As after a signal's handler that has come between: the slot that was taken is of a chunk that the thread has no more. */
static void a_slot_of_another_chunk_is_not_written(void **state)
{
	const struct snippet *s = snippet_named("nops");
	const struct trampoline_record record = { from_fs(&own_number), (SLOTS - 1) * CALL_SLOT_SIZE };
	struct trampoline_probe p = probe_at(0, PROBE_RUNS_BEFORE, 0);
	struct machine m = machine_of(0x202, 5);
	static struct outcome out;
	struct trampoline t;

	calls = mmap(NULL, sizeof(*calls) + (SLOTS + 1) * sizeof(struct call_slot), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(calls != MAP_FAILED);
	use_record = &record;
	for (int below = 0; below < 2; below++) {
		put_all(s);
		patch(s, &p, 1, &t);
		give_room(SLOTS);
		/* next is in a chunk that lies above, or below, that of last. */
		calls->place[own_number % CALL_PLACES].last +=
			below ? CALL_CHUNK_MOST : -(uint64_t)CALL_CHUNK_MOST;
		NEAR->on = (uint64_t)calls;
		run(&m, &out);
		assert_int_equal(NEAR->site[0].hits, 1);
		assert_int_equal(slots()[0].place, 0);
	}
	use_record = NULL;
	munmap(calls, sizeof(*calls) + (SLOTS + 1) * sizeof(struct call_slot));
}

/* What would be an endless loop, or run off, with one instruction less. */
static bool needs_all(const struct snippet *s)
{
	return strstr(s->name, "back") || !strcmp(s->name, "loop_self") || !strcmp(s->name, "frame") ||
	       !strcmp(s->name, "exchange_stack") || !strcmp(s->name, "jump_mem") || s->repeats;
}

static size_t insn_len(const struct snippet *s, const struct trampoline_probe *all, size_t n, size_t i)
{
	return (i + 1 < n ? all[i + 1].offset : (size_t)(s->behind - s->group)) - all[i].offset;
}

static void compare_instead(const struct snippet *s, const struct machine *m)
{
	size_t group = (size_t)(s->group - s->start);
	struct trampoline_probe all[TRAMPOLINE_INSNS];
	size_t n = probes_everywhere(s, all);
	static struct outcome plain, without, patched;
	struct trampoline t;

	put_all(s);
	run(m, &plain);
	for (size_t i = 0; i < n; i++) {
		struct trampoline_probe p = probe_at(all[i].offset, PROBE_RUNS_INSTEAD, 0);

		put_all(s);
		memset((uint8_t *)CODE_AT + group + all[i].offset, 0x90, insn_len(s, all, n, i));
		run(m, &without);
		put_all(s);
		patch(s, &p, 1, &t);
		run(m, &patched);
		check_same(s, &without, &patched, (size_t)(s->behind - s->group));
		put_all(s);
		patch(s, &p, 1, &t);
		NEAR->on = 0;
		run(m, &patched);
		check_same(s, &plain, &patched, 5);
		assert_int_equal(NEAR->site[0].hits, 0);
	}
}

static void a_probe_instead_replaces_the_instruction(void **state)
{
	struct machine m = machine_of(0x202, 5);

	for (size_t i = 0; i < NSNIPPETS; i++)
		if (!needs_all(&snippets[i]))
			compare_instead(&snippets[i], &m);
}

static void a_probe_instead_may_change_registers(void **state)
{
	const struct snippet *s = snippet_named("syscall");
	struct trampoline_probe p = probe_at(0, PROBE_RUNS_INSTEAD, 0);
	struct machine m = machine_of(0x202, 5);
	static struct outcome out;
	struct trampoline t;

	put_all(s);
	patch(s, &p, 1, &t);
	NEAR->site[0].add = 100;
	run(&m, &out);
	assert_int_equal(out.machine.r[RAX], 139);
	assert_int_equal(out.machine.r[RCX], 105);
	assert_int_equal(out.machine.r[9], 105);
}

static void a_probe_after_a_syscall_sees_the_old_address(void **state)
{
	const struct snippet *s = snippet_named("syscall");
	struct trampoline_probe p = probe_at(0, PROBE_RUNS_AFTER, 0);
	struct machine m = machine_of(0x202, 5);
	static struct outcome out;
	struct trampoline t;

	put_all(s);
	patch(s, &p, 1, &t);
	run(&m, &out);
	assert_int_equal(NEAR->site[0].hits, 1);
	assert_true(NEAR->site[0].rcx == CODE_AT + (uint64_t)(s->group - s->start) + 2);
}

/* Refusals */

#define CODE(...) ((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ })

static enum trampoline_error make(const uint8_t *code, size_t len, uint64_t at,
				  const struct trampoline_probe *p, size_t n)
{
	const struct trampoline_request q = { .addr = CODE_AT,
					      .bytes = code,
					      .moved = len,
					      .len = 5,
					      .probe = p,
					      .nprobes = n,
					      .at = at,
					      .switch_at = at + 0x1000,
					      .entry_at = at + 0x1008 };
	struct trampoline t;

	return trampoline_make(&q, &t);
}

static enum trampoline_error make_plain(const uint8_t *code, size_t len)
{
	return make(code, len, TRAMPOLINE_AT, NULL, 0);
}

static void what_depends_on_its_place_is_refused(void **state)
{
	/* xbegin; jmp with 66h; int3; int1; sysenter; call *%rsp; call *-8(%rsp); lcall *(%rax); callw *%ax */
	assert_int_equal(make_plain(CODE(0xc7, 0xf8, 0, 0, 0, 0)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0x66, 0xe9, 1, 2, 3, 4)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0xcc, 0x90, 0x90, 0x90, 0x90)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0xf1, 0x90, 0x90, 0x90, 0x90)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0x0f, 0x34, 0x90, 0x90, 0x90)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0x90, 0x90, 0x90, 0xff, 0xd4)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0x90, 0xff, 0x54, 0x24, 0xf8)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0x90, 0x90, 0x90, 0xff, 0x18)), TRAMPOLINE_CANNOT_MOVE);
	assert_int_equal(make_plain(CODE(0x90, 0x90, 0x66, 0xff, 0xd0)), TRAMPOLINE_CANNOT_MOVE);
	/* A jump into the middle of an instruction of the group. */
	assert_int_equal(make_plain(CODE(0xb8, 1, 0, 0, 0, 0xeb, 0xfb)), TRAMPOLINE_CANNOT_MOVE);
}

static void a_call_is_the_last_one(void **state)
{
	assert_int_equal(make_plain(CODE(0xe8, 1, 0, 0, 0, 0x90)), TRAMPOLINE_CALL_INSIDE);
	assert_int_equal(make_plain(CODE(0xff, 0xd0, 0x90, 0x90, 0x90)), TRAMPOLINE_CALL_INSIDE);
	assert_int_equal(make_plain(CODE(0x90, 0xe8, 1, 0, 0, 0)), TRAMPOLINE_OK);
}

static void what_is_too_far_or_too_long_is_refused(void **state)
{
	struct trampoline_probe p[40];

	for (size_t i = 0; i < 40; i++)
		p[i] = probe_at(0, PROBE_RUNS_BEFORE, 0);
	/* mov 0x7fffffff(%rip), %eax: 2 GB from here, more from there. */
	assert_int_equal(make(CODE(0x8b, 0x05, 0xff, 0xff, 0xff, 0x7f), CODE_AT - 0x1000, NULL, 0),
			 TRAMPOLINE_TOO_FAR);
	assert_int_equal(make(CODE(0x8b, 0x05, 0xff, 0xff, 0xff, 0x7f), CODE_AT + 0x1000, NULL, 0),
			 TRAMPOLINE_OK);
	assert_int_equal(make(CODE(0xb8, 1, 2, 3, 4), CODE_AT + 0x80001000u, NULL, 0), TRAMPOLINE_TOO_FAR);
	assert_int_equal(make(CODE(0xb8, 1, 2, 3, 4), CODE_AT + 0x1000, p, 1), TRAMPOLINE_OK);
	assert_int_equal(make(CODE(0xb8, 1, 2, 3, 4), CODE_AT + 0x1000, p, 40), TRAMPOLINE_TOO_LONG);
	assert_int_equal(make_plain(CODE(0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
					 0x90, 0x90, 0x90, 0x90, 0x90, 0x90)),
			 TRAMPOLINE_TOO_LONG);
}

static void probes_after_what_does_not_go_on_are_refused(void **state)
{
	const struct trampoline_probe first = probe_at(0, PROBE_RUNS_AFTER, 0);
	const struct trampoline_probe middle = probe_at(1, PROBE_RUNS_BEFORE, 0);
	const struct trampoline_probe instead = probe_at(2, PROBE_RUNS_INSTEAD, 0);

	assert_int_equal(make(CODE(0xe9, 1, 0, 0, 0), TRAMPOLINE_AT, &first, 1), TRAMPOLINE_NOT_AFTER);
	assert_int_equal(make(CODE(0xe8, 1, 0, 0, 0), TRAMPOLINE_AT, &first, 1), TRAMPOLINE_NOT_AFTER);
	assert_int_equal(make(CODE(0xc3), TRAMPOLINE_AT, &first, 1), TRAMPOLINE_NOT_AFTER);
	assert_int_equal(make(CODE(0x74, 1, 0x90, 0x90, 0x90), TRAMPOLINE_AT, &first, 1),
			 TRAMPOLINE_NOT_AFTER);
	assert_int_equal(make(CODE(0xb8, 1, 0, 0, 0), TRAMPOLINE_AT, &middle, 1), TRAMPOLINE_CANNOT_MOVE);
	/* xor %eax, %eax; ret; and two bytes of padding under the jump: to these nothing may go. */
	assert_int_equal(make(CODE(0x31, 0xc0, 0xc3), TRAMPOLINE_AT, NULL, 0), TRAMPOLINE_OK);
	assert_int_equal(make(CODE(0x31, 0xc0, 0xc3), TRAMPOLINE_AT, &instead, 1), TRAMPOLINE_NOT_AFTER);
	assert_int_equal(make(CODE(0x31, 0xc0, 0x90), TRAMPOLINE_AT, NULL, 0), TRAMPOLINE_CANNOT_MOVE);
}

static int map(uint64_t at, size_t len)
{
	void *got = mmap((void *)at, len, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return got == (void *)at ? 0 : -1;
}

static int set_up(void **state)
{
	static uint8_t stack[1 << 16];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction act = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (sigaltstack(&alt, NULL) || sigaction(SIGTRAP, &act, NULL))
		return -1;
	return map(CODE_AT, CODE_SIZE) || map(TRAMPOLINE_AT, 3 * CODE_SIZE) ||
	       map(DATA_AT, DATA_SIZE + STACK_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_do_what_the_instructions_did),
		cmocka_unit_test(probes_after_count_as_well),
		cmocka_unit_test(probes_that_record_change_nothing_and_leave_the_rest_to_the_entry),
		cmocka_unit_test(a_slot_of_another_chunk_is_not_written),
		cmocka_unit_test(a_probe_instead_replaces_the_instruction),
		cmocka_unit_test(a_probe_instead_may_change_registers),
		cmocka_unit_test(a_probe_after_a_syscall_sees_the_old_address),
		cmocka_unit_test(what_depends_on_its_place_is_refused),
		cmocka_unit_test(a_call_is_the_last_one),
		cmocka_unit_test(what_is_too_far_or_too_long_is_refused),
		cmocka_unit_test(probes_after_what_does_not_go_on_are_refused),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
