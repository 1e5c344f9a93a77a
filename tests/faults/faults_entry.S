/*
 * faults_entry - takes the place of each function of faults_list.h, whatever its arguments: asks fault_decide(),
 * and goes on into the real one with every argument register as it was, or returns what the list says.
 */
	.text
	.type	enter, @function
/* r10: the function's number; on top of the stack, the place that called. */
enter:
	.cfi_startproc
	sub	$184, %rsp
	.cfi_def_cfa_offset 192
	mov	%rdi, 0(%rsp)
	mov	%rsi, 8(%rsp)
	mov	%rdx, 16(%rsp)
	mov	%rcx, 24(%rsp)
	mov	%r8, 32(%rsp)
	mov	%r9, 40(%rsp)
	mov	%r10, 48(%rsp)
	movups	%xmm0, 56(%rsp)
	movups	%xmm1, 72(%rsp)
	movups	%xmm2, 88(%rsp)
	movups	%xmm3, 104(%rsp)
	movups	%xmm4, 120(%rsp)
	movups	%xmm5, 136(%rsp)
	movups	%xmm6, 152(%rsp)
	movups	%xmm7, 168(%rsp)
	mov	%r10, %rdi
	mov	184(%rsp), %rsi
	mov	%rsp, %rdx
	call	fault_decide
	mov	%rax, %r11
	mov	0(%rsp), %rdi
	mov	8(%rsp), %rsi
	mov	16(%rsp), %rdx
	mov	24(%rsp), %rcx
	mov	32(%rsp), %r8
	mov	40(%rsp), %r9
	mov	48(%rsp), %r10
	movups	56(%rsp), %xmm0
	movups	72(%rsp), %xmm1
	movups	88(%rsp), %xmm2
	movups	104(%rsp), %xmm3
	movups	120(%rsp), %xmm4
	movups	136(%rsp), %xmm5
	movups	152(%rsp), %xmm6
	movups	168(%rsp), %xmm7
	mov	$8, %eax	/* of a variadic function: as many vector registers as there may be */
	add	$184, %rsp
	.cfi_def_cfa_offset 8
	test	%r11, %r11
	jz	1f
	jmp	*%r11
1:	/* It fails. */
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
	mov	%r10, %rdi
	call	fault_result
	add	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	enter, . - enter

.macro fault name
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	mov	$number, %r10d
	jmp	enter
	.cfi_endproc
	.size	\name, . - \name
	.set	number, number + 1
.endm

	.set	number, 0
#define FAULT(name, error, result) fault name;
#define FAULT_AFTER(name, error, result) fault name;
#include "tests/faults/faults_list.h"

	.section .note.GNU-stack, "", @progbits
