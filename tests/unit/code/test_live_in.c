/* Which argument registers code reads: small functions in assembly, whose parameters their text shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/code/insn/live_in.h"

#define RDI 1u
#define RSI 2u
#define RDX 4u
#define RCX 8u
#define R8 16u
#define R9 32u

__asm__(".text\n"
	".globl live_code\n"
	"live_code:\n"

	".globl live_two\n"
	"live_two:\n"
	"	endbr64\n"
	"	lea (%rdi,%rsi,4), %rax\n"
	"	ret\n"

	".globl live_written\n" /* what is written first, is cleared or filled is no parameter */
	"live_written:\n"
	"	xor %esi, %esi\n"
	"	or $-1, %rdx\n"
	"	mov $1, %ecx\n"
	"	pxor %xmm0, %xmm0\n"
	"	cvtsi2sd %rdi, %xmm1\n"
	"	addsd %xmm1, %xmm0\n"
	"	add %rsi, %rcx\n"
	"	add %rdx, %rcx\n"
	"	ret\n"

	".globl live_halves\n" /* ints, and one pointer */
	"live_halves:\n"
	"	lea (%rdi,%rsi,2), %eax\n"
	"	movslq %edx, %rdx\n"
	"	add (%rcx,%rdx,8), %eax\n"
	"	ret\n"

	".globl live_pushed\n" /* room is made by pushing whatever register */
	"live_pushed:\n"
	"	push %rcx\n"
	"	mov %rdi, %rax\n"
	"	pop %rcx\n"
	"	ret\n"

	".globl live_branches\n" /* each on one way only */
	"live_branches:\n"
	"	test %edi, %edi\n"
	"	je 1f\n"
	"	mov %rsi, %rax\n"
	"	mov $0, %edx\n"
	"	jmp 2f\n"
	"1:	mov %rcx, %rax\n"
	"2:	add %rdx, %rax\n"
	"	ret\n"

	".globl live_loop\n"
	"live_loop:\n"
	"1:	add (%rdi), %rax\n"
	"	dec %r8\n"
	"	jne 1b\n"
	"	movsd %xmm0, (%rdi)\n"
	"	mulsd %xmm3, %xmm0\n"
	"	ret\n"

	".globl live_passes\n" /* rdi is passed through, rsi is set, rdx is changed by the callee */
	"live_passes:\n"
	"	mov $5, %esi\n"
	"	call live_two\n"
	"	mov %rdx, %rax\n"
	"	ret\n"

	".globl live_tail\n"
	"live_tail:\n"
	"	mov $5, %edi\n"
	"	jmp live_two\n"

	".globl live_unknown_call\n"
	"live_unknown_call:\n"
	"	mov %rdi, %rbx\n"
	"	call *%rax\n"
	"	mov %rsi, %rax\n"
	"	ret\n"

	".globl live_variadic\n"
	"live_variadic:\n"
	"	sub $0xd8, %rsp\n"
	"	mov %rsi, 0x28(%rsp)\n"
	"	mov %rdx, 0x30(%rsp)\n"
	"	mov %rcx, 0x38(%rsp)\n"
	"	mov %r8, 0x40(%rsp)\n"
	"	mov %r9, 0x48(%rsp)\n"
	"	test %al, %al\n"
	"	je 1f\n"
	"	movaps %xmm0, 0x50(%rsp)\n"
	"	movaps %xmm1, 0x60(%rsp)\n"
	"1:	mov (%rdi), %rax\n"
	"	add $0xd8, %rsp\n"
	"	ret\n"

	".globl live_plain\n" /* without optimisation all parameters are stored first */
	"live_plain:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov %edi, -0x14(%rbp)\n"
	"	mov %rsi, -0x20(%rbp)\n"
	"	movsd %xmm0, -0x28(%rbp)\n"
	"	mov -0x14(%rbp), %eax\n"
	"	pop %rbp\n"
	"	ret\n"

	".globl live_parts\n" /* a register of which a part was set */
	"live_parts:\n"
	"	test %rdi, %rdi\n"
	"	sete %cl\n"
	"	movzbl %cl, %eax\n"
	"	ret\n"

	".globl live_round\n" /* calls itself for ever */
	"live_round:\n"
	"	call live_round\n"
	"	jmp live_round\n"

	".globl live_nonsense\n"
	"live_nonsense:\n"
	"	mov %rdi, %rax\n"
	"	.byte 0x06, 0x06\n"
	"	mov %rsi, %rax\n"

	".globl live_end\n"
	"live_end:\n");

#define CODE(name) extern const uint8_t live_##name[]

CODE(code);
CODE(end);
CODE(two);
CODE(written);
CODE(halves);
CODE(pushed);
CODE(branches);
CODE(loop);
CODE(passes);
CODE(tail);
CODE(unknown_call);
CODE(variadic);
CODE(plain);
CODE(parts);
CODE(round);
CODE(nonsense);

static size_t own_code(void *ctx, uint64_t addr, const uint8_t **ret)
{
	(void)ctx;
	if (addr < (uintptr_t)live_code || addr >= (uintptr_t)live_end)
		return 0;
	*ret = (const uint8_t *)(uintptr_t)addr;
	return (uintptr_t)live_end - addr;
}

static void check(const uint8_t *code, unsigned int gprs, unsigned int xmms)
{
	struct live_in l = live_in_find(&(struct code_view){ own_code, NULL }, (uintptr_t)code);

	assert_int_equal(l.gprs, gprs);
	assert_int_equal(l.xmms, xmms);
}

static void what_is_read_first_is_a_parameter(void **state)
{
	(void)state;
	check(live_two, RDI | RSI, 0);
	check(live_loop, RDI | R8, 1u << 0 | 1u << 3);
}

/* The rest of the register may be anything. */
static void what_is_read_of_a_register_is_reported(void **state)
{
	struct code_view view = { own_code, NULL };

	(void)state;
	assert_int_equal(live_in_find(&view, (uintptr_t)live_two).wide, RDI | RSI);
	assert_int_equal(live_in_find(&view, (uintptr_t)live_halves).gprs, RDI | RSI | RDX | RCX);
	assert_int_equal(live_in_find(&view, (uintptr_t)live_halves).wide, RCX);
	assert_int_equal(live_in_find(&view, (uintptr_t)live_plain).wide, RSI);
	assert_int_equal(live_in_find(&view, (uintptr_t)live_passes).wide, RDI);
}

static void what_is_written_first_is_none(void **state)
{
	(void)state;
	check(live_written, RDI, 0);
	check(live_parts, RDI, 0);
}

static void pushing_is_no_reading(void **state)
{
	(void)state;
	check(live_pushed, RDI, 0);
}

static void each_way_counts(void **state)
{
	(void)state;
	check(live_branches, RDI | RSI | RDX | RCX, 0);
}

static void a_register_is_passed_on_to_code_that_reads_it(void **state)
{
	(void)state;
	check(live_passes, RDI, 0);
	check(live_tail, RSI, 0);
	check(live_unknown_call, RDI, 0);
}

static void what_a_variadic_function_saves_is_not_counted(void **state)
{
	(void)state;
	check(live_variadic, RDI, 0);
}

static void what_plain_code_stores_is_counted(void **state)
{
	(void)state;
	check(live_plain, RDI | RSI, 1);
}

static void odd_code_ends_the_walk(void **state)
{
	(void)state;
	check(live_round, 0, 0);
	check(live_nonsense, RDI, 0);
	check(live_end, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read_first_is_a_parameter),
		cmocka_unit_test(what_is_read_of_a_register_is_reported),
		cmocka_unit_test(what_is_written_first_is_none),
		cmocka_unit_test(pushing_is_no_reading),
		cmocka_unit_test(each_way_counts),
		cmocka_unit_test(a_register_is_passed_on_to_code_that_reads_it),
		cmocka_unit_test(what_a_variadic_function_saves_is_not_counted),
		cmocka_unit_test(what_plain_code_stores_is_counted),
		cmocka_unit_test(odd_code_ends_the_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
