/*
 * __calltrace_turn - a call that changes no register but r11, into C. See calltrace/abi.h.
 *
 * General registers are pushed below the frame pointer; behind them, aligned to 64 bytes, the vector state is stored by
 * xsave, or by fxsave where calltrace_vectors.mask is 0. Arguments stay where they are: edi and esi.
 */
	.text

	.hidden	calltrace_turn
	.hidden	calltrace_vectors
	.globl	__calltrace_turn
	.type	__calltrace_turn, @function
	.p2align 4
__calltrace_turn:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	subq	calltrace_vectors(%rip), %rsp		/* .size */
	andq	$-64, %rsp
	movl	calltrace_vectors+8(%rip), %eax		/* .mask */
	testl	%eax, %eax
	jz	1f

	/* The header: xsave writes its first word, xrstor wants the others to be 0. */
	xorl	%edx, %edx
	movq	%rdx, 512(%rsp)
	movq	%rdx, 520(%rsp)
	movq	%rdx, 528(%rsp)
	movq	%rdx, 536(%rsp)
	movq	%rdx, 544(%rsp)
	movq	%rdx, 552(%rsp)
	movq	%rdx, 560(%rsp)
	movq	%rdx, 568(%rsp)
	xsave64	(%rsp)
	call	calltrace_turn
	movl	calltrace_vectors+8(%rip), %eax
	xorl	%edx, %edx
	xrstor64 (%rsp)
	jmp	2f
1:
	fxsave64 (%rsp)
	call	calltrace_turn
	fxrstor64 (%rsp)
2:
	leaq	-72(%rbp), %rsp
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%rax
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	__calltrace_turn, . - __calltrace_turn

	.section .note.GNU-stack, "", @progbits
