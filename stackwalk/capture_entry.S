/*
 * The entry points, and the note by which a collector finds the descriptor.
 *
 * Each entry takes the registers as they are in the caller, before any compiler has touched them, as a struct
 * self_regs on the stack: rip is the return address, rsp what it will be after the return.
 */
	.text

/* On entry rsp + 8 is a multiple of 16, as behind every call (psABI 3.2.2); 72 bytes make it one again. */
	.macro take_registers
	subq	$72, %rsp
	.cfi_adjust_cfa_offset 72
	movq	72(%rsp), %rax
	movq	%rax, (%rsp)
	leaq	80(%rsp), %rax
	movq	%rax, 8(%rsp)
	movq	%rbp, 16(%rsp)
	movq	%rbx, 24(%rsp)
	movq	%r12, 32(%rsp)
	movq	%r13, 40(%rsp)
	movq	%r14, 48(%rsp)
	movq	%r15, 56(%rsp)
	.endm

	.macro give_back
	addq	$72, %rsp
	.cfi_adjust_cfa_offset -72
	ret
	.endm

	.macro entry name
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	take_registers
	.endm

	.macro leave name, to
	call	\to
	give_back
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.hidden	capture_record
	entry	stackwalk_capture
	xorl	%esi, %esi		/* value */
	xorl	%edx, %edx		/* flags */
	movq	%rsp, %rcx
	leave	stackwalk_capture, capture_record

	entry	stackwalk_capture_value
	movl	$2, %edx		/* CAPTURE_HAS_VALUE */
	movq	%rsp, %rcx
	leave	stackwalk_capture_value, capture_record

	.hidden	capture_named
	entry	stackwalk_capture_tag
	xorl	%esi, %esi
	movl	$1, %edx		/* CAPTURE_NAMED */
	movq	%rsp, %rcx
	leave	stackwalk_capture_tag, capture_named

	entry	stackwalk_capture_tag_value
	movl	$3, %edx
	movq	%rsp, %rcx
	leave	stackwalk_capture_tag_value, capture_named

	.hidden	capture_frames
	entry	stackwalk_frames
	movq	%rsp, %rcx
	leave	stackwalk_frames, capture_frames

	.hidden	capture_descriptor
	.section .note.stackwalk, "a", @note
	.p2align 2
	.long	2f - 1f			/* namesz */
	.long	4f - 3f			/* descsz */
	.long	1			/* CAPTURE_NOTE */
1:	.asciz	"stackwalk"
2:	.p2align 2
3:	.quad	capture_descriptor - 3b
4:	.p2align 2

	.section .note.GNU-stack, "", @progbits
