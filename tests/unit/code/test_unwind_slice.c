/*
 * Functions whose tables say what no unwind_rule can, in assembly: each stops at a trap, where its registers and a
 * slice of its stack are recorded, and is walked when it has long returned. What is right comes from the code:
 * labels behind its calls, and the return address that it found on its stack when it was entered.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wait.h"
#include "watchctl/code/unwind/cfi.h"

#define DEPTH 64
#define SLICE (48u << 10)

/* clang-format off */
#define BEGIN(name) \
	".globl " #name ", " #name "_back\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n"
#define END ".cfi_endproc\nint3\n"
#define TELL "mov (%rsp), %rax\nmov %rax, told(%rip)\n"

/* Calls @callee in a frame that is found by rbx alone: 16 below it. */
#define BY_RBX(name, callee) \
	BEGIN(name) TELL "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset rbx, -16\nmov %rsp, %rbx\n" \
	".cfi_def_cfa rbx, 16\ncall " callee "\n" #name "_back: pop %rbx\n.cfi_def_cfa rsp, 8\n.cfi_restore rbx\n" \
	"ret\n" END

__asm__(".text\n.balign 16\n"
	/* A trap in a frame that any rule describes. */
	".type trap, @function\ntrap:\n.cfi_startproc\nint3\nret\n" END

	/* The return address in rcx, and nothing on the stack. */
	BEGIN(in_rcx) "pop %rcx\n.cfi_adjust_cfa_offset -8\n.cfi_register rip, rcx\nint3\njmp *%rcx\n" END
	BY_RBX(call_in_rcx, "in_rcx")

	/* ... but rcx is said to have had another value in the caller. */
	BEGIN(in_rcx_twice) "pop %rcx\n.cfi_adjust_cfa_offset -8\n.cfi_register rip, rcx\n.cfi_offset rcx, -8\n"
	"int3\njmp *%rcx\n" END
	BY_RBX(call_in_rcx_twice, "in_rcx_twice")

	/* The return address in rcx, while another function runs, which may change rcx. */
	BEGIN(lost_rcx) "pop %rcx\n.cfi_adjust_cfa_offset -8\n.cfi_register rip, rcx\nmov %rcx, %rdx\ncall trap\n"
	"lost_rcx_back: jmp *%rdx\n" END
	BY_RBX(call_lost_rcx, "lost_rcx")

	/* ... in r12, which it must give back. */
	BEGIN(in_r12) "mov %r12, %r8\npop %r12\n.cfi_adjust_cfa_offset -8\n.cfi_register rip, r12\npush %r8\n"
	".cfi_adjust_cfa_offset 8\n.cfi_offset r12, -8\ncall trap\nin_r12_back: pop %r8\n"
	"mov %r12, %rax\nmov %r8, %r12\njmp *%rax\n" END
	BEGIN(in_r12_alone) "mov %r12, %r8\npop %r12\n.cfi_adjust_cfa_offset -8\n.cfi_register rip, r12\npush %r8\n"
	".cfi_adjust_cfa_offset 8\ncall trap\nin_r12_alone_back: pop %r8\nmov %r12, %rax\nmov %r8, %r12\njmp *%rax\n" END
	BY_RBX(call_in_r12_alone, "in_r12_alone")
	BY_RBX(call_in_r12, "in_r12")

	/* CFA = rsp + rbx, innermost and not. */
	BEGIN(sum) "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset rbx, -16\nmov $16, %ebx\n"
	".cfi_escape 0x0f, 5, 0x77, 0, 0x73, 0, 0x22\nint3\ncall trap\nsum_back: pop %rbx\n.cfi_def_cfa rsp, 8\n"
	".cfi_restore rbx\nret\n" END
	BY_RBX(call_sum, "sum")

	/* The caller's rbx is rbx ^ 0x55. */
	BEGIN(masked) "xor $0x55, %rbx\n.cfi_escape 0x16, 3, 5, 0x73, 0, 0x08, 0x55, 0x27\ncall trap\n"
	"masked_back: xor $0x55, %rbx\n.cfi_restore rbx\nret\n" END
	BY_RBX(call_masked, "masked")

	/* rbx at rsp + 4 */
	BEGIN(unaligned) "sub $16, %rsp\n.cfi_adjust_cfa_offset 16\nmov %rbx, 4(%rsp)\n"
	".cfi_escape 0x10, 3, 2, 0x77, 4\nxor %ebx, %ebx\ncall trap\nunaligned_back: mov 4(%rsp), %rbx\n"
	".cfi_restore rbx\nadd $16, %rsp\n.cfi_adjust_cfa_offset -16\nret\n" END
	BY_RBX(call_unaligned, "unaligned")

	/* What must not be believed: rsp by a rule of its own; an expression that does not end; one that asks for rip;
	   one that leads to no code; one that leads to code that nothing called. */
	BEGIN(other_stack) ".cfi_escape 0x16, 7, 2, 0x73, 0\nint3\nret\n" END
	BY_RBX(call_other_stack, "other_stack")
	BEGIN(endless) ".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff\nint3\nret\n" END
	BY_RBX(call_endless, "endless")
	BEGIN(by_rip) ".cfi_escape 0x0f, 9, 0x77, 8, 0x80, 0, 0x80, 0, 0x1c, 0x22, 0x96\nint3\nret\n" END
	BY_RBX(call_by_rip, "by_rip")
	/* rbx = CFA - 8, in a form that libunwind 1.6 takes for other instructions. */
	BEGIN(by_distance) ".cfi_escape 0x14, 3, 1\nint3\nret\n" END
	BY_RBX(call_by_distance, "by_distance")
	BEGIN(to_data) ".cfi_escape 0x16, 16, 2, 0x77, 0\nint3\nret\n" END
	BY_RBX(call_to_data, "to_data")
	BEGIN(to_start) "lea to_start(%rip), %rcx\n.cfi_register rip, rcx\nint3\nret\n" END
	BY_RBX(call_to_start, "to_start")
	/* Down the stack, with a return address that is one. */
	BEGIN(down) ".cfi_escape 0x0f, 4, 0x77, 0x78, 0x23, 0\n.cfi_escape 0x16, 16, 3, 0x77, 0, 0x06\nint3\nret\n" END
	BY_RBX(call_down, "down")

	BEGIN(call_vfork) TELL "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset rbx, -16\npushfq\norq $0x100, (%rsp)\n"
	"popfq\ncall vfork@PLT\ncall_vfork_back: test %eax, %eax\njnz 1f\nxor %edi, %edi\nmov $60, %eax\nsyscall\n"
	"1: pushfq\nandq $~0x100, (%rsp)\npopfq\npop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\nret\n" END);
/* clang-format on */

#define SHAPE(name)                                            \
	extern const char name##_back[], call_##name##_back[]; \
	void call_##name(void)
SHAPE(in_rcx);
SHAPE(in_rcx_twice);
SHAPE(lost_rcx);
SHAPE(in_r12);
SHAPE(in_r12_alone);
SHAPE(sum);
SHAPE(masked);
SHAPE(unaligned);
SHAPE(other_stack);
SHAPE(endless);
SHAPE(by_rip);
SHAPE(by_distance);
SHAPE(to_data);
SHAPE(to_start);
SHAPE(down);
void call_vfork(void);
extern const char call_vfork_back[];
extern void *__libc_stack_end;
uint64_t told; /* what the outermost function of assembly found as its return address */

struct record {
	struct regs regs;
	uint64_t start, len;
	uint8_t bytes[SLICE];
};

#define RECORDS 48

static struct record record[RECORDS];
static unsigned int records;
static uint64_t from, to; /* only what stops there is recorded */
static long own_pid;
static struct cfi *cfi, *rules;
static struct module_list modules;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	static const int order[] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
				     REG_RBP, REG_RSP, REG_R8,	REG_R9,	 REG_R10, REG_R11,
				     REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };
	const greg_t *greg = ((const ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t rip = (uint64_t)greg[REG_RIP], rsp = (uint64_t)greg[REG_RSP];
	struct record *r = &record[records];

	/* vfork's child is here, too. */
	if (rip < from || rip >= to || records == RECORDS || syscall(SYS_getpid) != own_pid)
		return;
	records++;
	for (unsigned int i = 0; i <= WREG_RIP; i++)
		r->regs.r[i] = (uint64_t)greg[order[i]];
	r->start = rsp;
	r->len = (uintptr_t)__libc_stack_end + 64 - rsp;
	if (r->len > SLICE)
		r->len = SLICE;
	/* By the kernel: AddressSanitizer keeps parts of the stack from us. */
	if (process_vm_readv((pid_t)own_pid, &(struct iovec){ r->bytes, r->len }, 1,
			     &(struct iovec){ (void *)(uintptr_t)rsp, r->len }, 1, 0) != (ssize_t)r->len)
		r->len = 0;
}

static bool read_slice(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct record *r = ctx;

	if (addr < r->start || addr - r->start > r->len || len > r->len - (addr - r->start))
		return false;
	memcpy(buf, r->bytes + (addr - r->start), len);
	return true;
}

static void run(void (*shape)(void), uint64_t start, uint64_t end)
{
	struct sigaction act = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, old;

	from = start;
	to = end;
	records = 0;
	own_pid = syscall(SYS_getpid);
	sigaction(SIGTRAP, &act, &old);
	shape();
	sigaction(SIGTRAP, &old, NULL);
}

static unsigned int walk(struct cfi *by, unsigned int i, uint64_t *frame, enum walk_end *why)
{
	const struct memory_view mem = { read_slice, &record[i] };

	assert_true(i < records);
	return cfi_walk(by, &record[i].regs, &mem, frame, DEPTH, why);
}

/* @inner, then the caller, then who called that, to the end; and by rules alone the first @before of them. */
static void assert_stack(unsigned int i, const char *inner, const char *back, unsigned int before)
{
	uint64_t frame[DEPTH];
	enum walk_end why;
	unsigned int n = walk(cfi, i, frame, &why), at = 1;

	assert_int_equal(why, WALK_END_COMPLETE);
	assert_int_equal(frame[0], record[i].regs.r[WREG_RIP]);
	assert_true(n > 4);
	if (inner)
		assert_int_equal(frame[at++], (uintptr_t)inner);
	assert_int_equal(frame[at++], (uintptr_t)back);
	assert_int_equal(frame[at], told);
	assert_int_equal(walk(rules, i, frame, &why), before);
	assert_int_equal(why, WALK_END_NO_RULE);
}

/* Both ways end after @n frames. */
static void assert_ends(unsigned int i, unsigned int n)
{
	uint64_t frame[DEPTH];
	enum walk_end why;

	assert_int_equal(walk(cfi, i, frame, &why), n);
	assert_int_equal(why, WALK_END_NO_RULE);
	assert_int_equal(walk(rules, i, frame, &why), n);
	assert_int_equal(why, WALK_END_NO_RULE);
}

static void run_any(void (*shape)(void), unsigned int stops)
{
	run(shape, 0, UINT64_MAX);
	assert_int_equal(records, stops);
}

static void a_return_address_in_a_register(void **state)
{
	run_any(call_in_rcx, 1);
	assert_stack(0, NULL, call_in_rcx_back, 1);
	run_any(call_in_r12_alone, 1);
	assert_stack(0, in_r12_alone_back, call_in_r12_alone_back, 2);
}

static void a_register_that_a_callee_may_change_is_not_known_outside_of_it(void **state)
{
	run_any(call_lost_rcx, 1);
	assert_ends(0, 2);
}

/* By DWARF it is the value here that counts; libunwind 1.6 takes the caller's. */
static void a_register_with_a_rule_of_its_own_keeps_nothing(void **state)
{
	run_any(call_in_rcx_twice, 1);
	assert_ends(0, 1);
	run_any(call_in_r12, 1);
	assert_ends(0, 2);
}

static void a_frame_that_an_expression_finds(void **state)
{
	run_any(call_sum, 2);
	assert_stack(0, NULL, call_sum_back, 1);
	assert_stack(1, sum_back, call_sum_back, 2);
}

/* The caller's frame hangs on rbx: it shows whether that is right. */
static void a_register_that_an_expression_restores(void **state)
{
	run_any(call_masked, 1);
	assert_stack(0, masked_back, call_masked_back, 2);
	run_any(call_unaligned, 1);
	assert_stack(0, unaligned_back, call_unaligned_back, 2);
}

static void what_leads_nowhere_is_no_frame(void **state)
{
	run_any(call_other_stack, 1);
	assert_ends(0, 1);
	run_any(call_by_rip, 1);
	assert_ends(0, 1);
	run_any(call_by_distance, 1);
	assert_ends(0, 1);
	run_any(call_to_data, 1);
	assert_ends(0, 1);
	run_any(call_to_start, 1);
	assert_ends(0, 1);
	run_any(call_down, 1);
	assert_ends(0, 1);
}

static void an_expression_without_end_is_left(void **state)
{
	uint64_t begin = cpu_ns();

	run_any(call_endless, 1);
	assert_ends(0, 1);
	assert_in_range(cpu_ns() - begin, 0, wait_ns() / 30);
}

/* What the slice does not hold is not taken from anywhere else, though the process is ourselves. */
static void nothing_outside_of_the_slice_is_read(void **state)
{
	uint64_t frame[DEPTH];
	enum walk_end why;

	run_any(call_unaligned, 1);
	/* The trap's return address, and half of the rbx above it. */
	record[0].len = 16;
	assert_int_equal(walk(cfi, 0, frame, &why), 2);
	assert_int_equal(why, WALK_END_NO_RULE);
}

/* libc's own: the return address is in rdi around the system call. */
static void every_instruction_of_vfork(void **state)
{
	uint64_t start, end, frame[DEPTH];
	unsigned int beyond = 0;
	enum walk_end why;

	if (!cfi_function(cfi, (uintptr_t)vfork, &start, &end))
		skip();
	run(call_vfork, start, end);
	assert_true(records > 3);
	for (unsigned int i = 0; i < records; i++) {
		bool table_only = cfi_has_table_only(cfi, record[i].regs.r[WREG_RIP]);

		assert_true(walk(cfi, i, frame, &why) > 4);
		assert_int_equal(why, WALK_END_COMPLETE);
		assert_int_equal(frame[1], (uintptr_t)call_vfork_back);
		assert_int_equal(frame[2], told);
		assert_int_equal(walk(rules, i, frame, &why) == 1, table_only);
		beyond += table_only;
	}
	assert_true(beyond > 0);
}

static int add_own_modules(void **state)
{
	struct wc_error *err = module_list_read(getpid(), &modules);

	cfi = cfi_new();
	rules = cfi_new();
	if (err || !cfi || !rules)
		return -1;
	cfi_use_rules_only(rules);
	for (size_t i = 0; i < modules.n; i++)
		if (!cfi_add(cfi, &modules.v[i]) || !cfi_add(rules, &modules.v[i]))
			return -1;
	return 0;
}

static int drop_own_modules(void **state)
{
	cfi_free(cfi);
	cfi_free(rules);
	module_list_deinit(&modules);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_return_address_in_a_register),
		cmocka_unit_test(a_register_that_a_callee_may_change_is_not_known_outside_of_it),
		cmocka_unit_test(a_register_with_a_rule_of_its_own_keeps_nothing),
		cmocka_unit_test(a_frame_that_an_expression_finds),
		cmocka_unit_test(a_register_that_an_expression_restores),
		cmocka_unit_test(what_leads_nowhere_is_no_frame),
		cmocka_unit_test(an_expression_without_end_is_left),
		cmocka_unit_test(nothing_outside_of_the_slice_is_read),
		cmocka_unit_test(every_instruction_of_vfork),
	};

	return cmocka_run_group_tests(tests, add_own_modules, drop_own_modules);
}
