/* Whether code wants a result, and whether a function gives one: small pieces in assembly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/code/insn/result_use.h"

#define FUNCTION(name) ".globl set_" #name "\nset_" #name ":\n"
#define END(name) ".globl set_" #name "_end\nset_" #name "_end:\n"

__asm__(".text\n"
	".globl use_code\n"
	"use_code:\n"

	".globl use_test\nuse_test:\n"
	"	mov %rbx, %rdi\n"
	"	test %eax, %eax\n"
	"	je 1f\n"
	"1:	ret\n"

	".globl use_overwritten\nuse_overwritten:\n"
	"	mov %rbx, %rdi\n"
	"	mov $0, %eax\n"
	"	add %eax, %ebx\n"
	"	ret\n"

	".globl use_cleared\nuse_cleared:\n"
	"	xor %eax, %eax\n"
	"	ret\n"

	".globl use_part\nuse_part:\n" /* sets al, and reads that alone */
	"	cmp $1, %ebx\n"
	"	sete %al\n"
	"	movzbl %al, %eax\n"
	"	ret\n"

	".globl use_rest\nuse_rest:\n" /* sets al, and reads more */
	"	sete %al\n"
	"	mov %eax, %ebx\n"
	"	ret\n"

	".globl use_one_way\nuse_one_way:\n" /* reads it on one of two ways */
	"	test %ebx, %ebx\n"
	"	je 1f\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	"1:	mov %rax, (%rbx)\n"
	"	xor %eax, %eax\n"
	"	ret\n"

	".globl use_loop\nuse_loop:\n"
	"1:	dec %ebx\n"
	"	jne 1b\n"
	"	mov $1, %eax\n"
	"	ret\n"

	".globl use_chosen\nuse_chosen:\n" /* keeps it if rbx is 0 */
	"	test %ebx, %ebx\n"
	"	cmovne %ebx, %eax\n"
	"	ret\n"

	".globl use_returned\nuse_returned:\n"
	"	add $8, %rsp\n"
	"	pop %rbx\n"
	"	ret\n"

	".globl use_tail\nuse_tail:\n" /* the other function sets it */
	"	pop %rbx\n"
	"	jmp set_constant\n"

	".globl use_tail_void\nuse_tail_void:\n" /* ... leaves it */
	"	jmp set_nothing\n"

	".globl use_stub\nuse_stub:\n"
	"	jmp *1f(%rip)\n"
	"1:	.quad 0\n"

	".globl use_switch\nuse_switch:\n"
	"	jmp *(%rbx,%rcx,8)\n"

	".globl use_call\nuse_call:\n"
	"	call set_constant\n"
	"	mov %eax, %ebx\n"
	"	ret\n"

	".globl use_kept\nuse_kept:\n" /* the callee is known to leave rax alone */
	"	call set_nothing\n"
	"	mov %eax, %ebx\n"
	"	ret\n"

	".globl use_pointer\nuse_pointer:\n"
	"	call *%rax\n"
	"	ret\n"

	".globl use_elsewhere\nuse_elsewhere:\n"
	"	call *%rbx\n"
	"	mov %eax, %ebx\n"
	"	ret\n"

	".globl use_syscall\nuse_syscall:\n"
	"	mov $39, %al\n"
	"	syscall\n"
	"	ret\n"

	".globl use_stop\nuse_stop:\n"
	"	mov %rbx, %rdi\n"
	"	ud2\n"

	".globl use_nonsense\nuse_nonsense:\n"
	"	mov %rbx, %rdi\n"
	"	.byte 0x06, 0x06\n"

	".globl use_vector\nuse_vector:\n"
	"	mov %eax, %ebx\n"
	"	pxor %xmm0, %xmm0\n"
	"	ret\n"

	".globl use_vector_read\nuse_vector_read:\n"
	"	xor %eax, %eax\n"
	"	movsd %xmm0, (%rbx)\n"
	"	ret\n"

	".globl use_vector_joined\nuse_vector_joined:\n" /* the low half is kept */
	"	movhps (%rbx), %xmm0\n"
	"	movaps %xmm0, (%rbx)\n"
	"	pxor %xmm0, %xmm0\n"
	"	xor %eax, %eax\n"
	"	ret\n"

	FUNCTION(constant) /* return -1 */
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov $-1, %eax\n"
	"	leave\n"
	"	ret\n" END(constant)

		FUNCTION(nothing) "	movl $5, (%rdi)\n"
				  "	ret\n" END(nothing)

					  FUNCTION(ways) /* a != 0 ? b : 1 */
	"	mov $1, %eax\n"
	"	test %edi, %edi\n"
	"	je 1f\n"
	"	mov %esi, %eax\n"
	"1:	ret\n" END(ways)

		FUNCTION(one_way) /* only if a != 0 */
	"	test %edi, %edi\n"
	"	je 1f\n"
	"	mov %esi, %eax\n"
	"1:	ret\n" END(one_way)

		FUNCTION(temporary) /* *p = a + b, without optimisation */
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov -4(%rbp), %eax\n"
	"	add %edx, %eax\n"
	"	mov %eax, -8(%rbp)\n"
	"	nop\n"
	"	pop %rbp\n"
	"	ret\n" END(temporary)

		FUNCTION(compared) /* for (...) */
	"1:	add $1, %ecx\n"
	"	mov (%rdi), %eax\n"
	"	cmp %eax, %ecx\n"
	"	jl 1b\n"
	"	ret\n" END(compared)

		FUNCTION(
			by_call) "	mov $0, %eax\n"
				 "	call set_constant\n"
				 "	ret\n" END(by_call)

					 FUNCTION(
						 behind_call) "	call set_constant\n"
							      "	add $1, %eax\n"
							      "	ret\n" END(behind_call)

								      FUNCTION(
									      chosen) "	xor %eax, %eax\n"
										      "	cmp %edi, %esi\n"
										      "	cmovg %esi, %eax\n"
										      "	ret\n" END(chosen)

											      FUNCTION(
												      wider) /* long from int */
	"	mov (%rdi), %eax\n"
	"	cltq\n"
	"	ret\n" END(wider)

		FUNCTION(boolean) "	cmp %edi, %esi\n"
				  "	sete %al\n"
				  "	ret\n" END(boolean)

					  FUNCTION(remainder) /* *p = a % b */
	"	mov %edi, %eax\n"
	"	cltd\n"
	"	idiv %esi\n"
	"	mov %edx, (%rcx)\n"
	"	ret\n" END(remainder)

		FUNCTION(exchanged) /* an atomic store */
	"	mov $1, %eax\n"
	"	xchg %eax, (%rdi)\n"
	"	ret\n" END(exchanged)

		FUNCTION(stops) /* the other way ends in a call that does not return */
	"	test %edi, %edi\n"
	"	je 1f\n"
	"	mov $1, %eax\n"
	"	ret\n"
	"1:	call set_nothing\n" END(stops)

		FUNCTION(
			jumps_out) "	mov $1, %eax\n"
				   "	jmp set_nothing\n" END(jumps_out)

					   FUNCTION(
						   never) "	mov $1, %eax\n"
							  "1:	jmp 1b\n" END(never)

								  FUNCTION(
									  number) "	cvtsi2sd %edi, %xmm0\n"
										  "	ret\n" END(number)

											  FUNCTION(
												  number_used) "	cvtsi2sd %edi, %xmm0\n"
													       "	movsd %xmm0, (%rsi)\n"
													       "	ret\n" END(
														       number_used)

														       ".globl use_end\n"
														       "use_end:\n");

extern const uint8_t use_code[], use_end[];

static size_t own_code(void *ctx, uint64_t addr, const uint8_t **ret)
{
	(void)ctx;
	if (addr < (uintptr_t)use_code || addr >= (uintptr_t)use_end)
		return 0;
	*ret = (const uint8_t *)(uintptr_t)addr;
	return (uintptr_t)use_end - addr;
}

static const struct code_view view = { own_code, NULL };

#define CHECK_USE(name, vector, expected)                                                          \
	do {                                                                                       \
		extern const uint8_t use_##name[];                                                 \
		assert_int_equal(result_use_find(&view, (uintptr_t)use_##name, vector), expected); \
	} while (0)

#define CHECK_SET(name, vector, expected)                                                        \
	do {                                                                                     \
		extern const uint8_t set_##name[], set_##name##_end[];                           \
		assert_int_equal(result_is_set(&view, (uintptr_t)set_##name,                     \
					       (size_t)(set_##name##_end - set_##name), vector), \
				 expected);                                                      \
	} while (0)

static void what_is_read_before_it_is_written_is_wanted(void **state)
{
	(void)state;
	CHECK_USE(test, false, RESULT_READ);
	CHECK_USE(one_way, false, RESULT_READ);
	CHECK_USE(rest, false, RESULT_READ);
	CHECK_USE(pointer, false, RESULT_READ);
	CHECK_USE(syscall, false, RESULT_READ);
}

static void what_is_overwritten_is_not_wanted(void **state)
{
	(void)state;
	CHECK_USE(overwritten, false, RESULT_UNUSED);
	CHECK_USE(cleared, false, RESULT_UNUSED);
	CHECK_USE(part, false, RESULT_UNUSED);
	CHECK_USE(loop, false, RESULT_UNUSED);
	CHECK_USE(stop, false, RESULT_UNUSED);
}

static void a_call_overwrites_it_if_the_callee_may(void **state)
{
	(void)state;
	CHECK_USE(call, false, RESULT_UNUSED);
	CHECK_USE(elsewhere, false, RESULT_UNUSED);
	CHECK_USE(kept, false, RESULT_READ);
}

static void what_the_caller_returns_with_is_passed_on(void **state)
{
	(void)state;
	CHECK_USE(returned, false, RESULT_PASSED);
	CHECK_USE(chosen, false, RESULT_PASSED);
	CHECK_USE(tail_void, false, RESULT_PASSED);
	CHECK_USE(tail, false, RESULT_UNUSED);
	CHECK_USE(stub, false, RESULT_UNUSED);
}

static void what_cannot_be_known_is_wanted(void **state)
{
	(void)state;
	CHECK_USE(switch, false, RESULT_READ);
	CHECK_USE(nonsense, false, RESULT_READ);
	assert_int_equal(result_use_find(&view, 16, false), RESULT_READ);
}

static void vectors_are_looked_at_alone(void **state)
{
	(void)state;
	CHECK_USE(vector, true, RESULT_UNUSED);
	CHECK_USE(vector, false, RESULT_READ);
	CHECK_USE(vector_read, true, RESULT_READ);
	CHECK_USE(vector_read, false, RESULT_UNUSED);
	CHECK_USE(vector_joined, true, RESULT_READ);
}

static void a_value_that_was_put_there_last_is_a_result(void **state)
{
	(void)state;
	CHECK_SET(constant, false, true);
	CHECK_SET(ways, false, true);
	CHECK_SET(behind_call, false, true);
	CHECK_SET(chosen, false, true);
	CHECK_SET(wider, false, true);
	CHECK_SET(boolean, false, true);
	CHECK_SET(stops, false, true);
	CHECK_SET(number, true, true);
}

static void a_left_over_is_none(void **state)
{
	(void)state;
	CHECK_SET(nothing, false, false);
	CHECK_SET(one_way, false, false);
	CHECK_SET(temporary, false, false);
	CHECK_SET(compared, false, false);
	CHECK_SET(by_call, false, false);
	CHECK_SET(remainder, false, false);
	CHECK_SET(exchanged, false, false);
	CHECK_SET(number, false, false);
	CHECK_SET(number_used, true, false);
}

static void what_is_not_known_of_a_function_is_no_result(void **state)
{
	extern const uint8_t set_constant[];

	(void)state;
	CHECK_SET(jumps_out, false, false);
	CHECK_SET(never, false, false);
	assert_false(result_is_set(&view, (uintptr_t)set_constant, 0, false));
	assert_false(result_is_set(&view, 16, 100, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read_before_it_is_written_is_wanted),
		cmocka_unit_test(what_is_overwritten_is_not_wanted),
		cmocka_unit_test(a_call_overwrites_it_if_the_callee_may),
		cmocka_unit_test(what_the_caller_returns_with_is_passed_on),
		cmocka_unit_test(what_cannot_be_known_is_wanted),
		cmocka_unit_test(vectors_are_looked_at_alone),
		cmocka_unit_test(a_value_that_was_put_there_last_is_a_result),
		cmocka_unit_test(a_left_over_is_none),
		cmocka_unit_test(what_is_not_known_of_a_function_is_no_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
