# How a form is entered and left. All of its registers, and the state that xsave knows, are set before and kept after.

	.intel_syntax noprefix
	.text
	.globl	truth_invoke, truth_back
	.type	truth_invoke, @function
truth_invoke:
	push	rbx
	push	rbp
	push	r12
	push	r13
	push	r14
	push	r15
	mov	[rip + truth_sp], rsp
	mov	[rip + truth_fn], rdi
	mov	eax, -1
	mov	edx, -1
	xrstor64 [rip + truth_xstate]
	mov	rax, [rip + truth_in]
	mov	rcx, [rip + truth_in + 8]
	mov	rdx, [rip + truth_in + 16]
	mov	rbx, [rip + truth_in + 24]
	mov	rbp, [rip + truth_in + 32]
	mov	rsi, [rip + truth_in + 40]
	mov	rdi, [rip + truth_in + 48]
	mov	r8, [rip + truth_in + 56]
	mov	r9, [rip + truth_in + 64]
	mov	r10, [rip + truth_in + 72]
	mov	r11, [rip + truth_in + 80]
	mov	r12, [rip + truth_in + 88]
	mov	r13, [rip + truth_in + 96]
	mov	r14, [rip + truth_in + 104]
	mov	r15, [rip + truth_in + 112]
	# Arithmetic flags as they are after comparing equal numbers.
	cmp	rsp, rsp
	call	[rip + truth_fn]
truth_back:
	mov	[rip + truth_out], rax
	mov	[rip + truth_out + 8], rcx
	mov	[rip + truth_out + 16], rdx
	mov	[rip + truth_out + 24], rbx
	mov	[rip + truth_out + 32], rbp
	mov	[rip + truth_out + 40], rsi
	mov	[rip + truth_out + 48], rdi
	mov	[rip + truth_out + 56], r8
	mov	[rip + truth_out + 64], r9
	mov	[rip + truth_out + 72], r10
	mov	[rip + truth_out + 80], r11
	mov	[rip + truth_out + 88], r12
	mov	[rip + truth_out + 96], r13
	mov	[rip + truth_out + 104], r14
	mov	[rip + truth_out + 112], r15
	mov	[rip + truth_out + 120], rsp
	mov	rsp, [rip + truth_sp]
	pushfq
	pop	qword ptr [rip + truth_out + 128]
	cld
	mov	eax, -1
	mov	edx, -1
	xsave64	[rip + truth_xout]
	fninit
	ldmxcsr	[rip + truth_mxcsr]
	vzeroupper
	pop	r15
	pop	r14
	pop	r13
	pop	r12
	pop	rbp
	pop	rbx
	ret
	.size	truth_invoke, . - truth_invoke

	.section .rodata
	.balign	16
	.globl	truth_mask_bytes, truth_land_pointer, truth_far_pointer
truth_mask_bytes:
	.byte	0, 0x80, 0xff, 0, 0, 0x7f, 0x80, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0
truth_land_pointer:
	.quad	truth_land
truth_far_pointer:
	.long	truth_land
	.short	0x33
truth_mxcsr:
	.long	0x1f80

	.bss
	.balign	64
	.globl	truth_in, truth_out, truth_xstate, truth_xout, truth_own_sp, truth_resume, truth_stack_top
truth_xstate:
	.zero	16384
truth_xout:
	.zero	16384
truth_in:
	.zero	128
truth_out:
	.zero	136
truth_sp:
	.zero	8
truth_fn:
	.zero	8
truth_own_sp:
	.zero	8
truth_resume:
	.zero	8
	.balign	64
	.zero	4096
truth_stack_top:
	.zero	256
	.section .note.GNU-stack,"",@progbits
