/*
 * probe_with_vector_ - calls a function that may use vector registers. rdi: the struct probe, rsi: the function; all general registers are
 * the caller's to keep.
 *
 * The program's state of them is saved on the stack, as XSAVE lays it out (Intel SDM vol. 1, 13.4), and restored from there: a function
 * that is to change it does so there. While the function runs, no floating-point exception traps.
 */

/* Offsets in struct probe_shared */
#define VECTOR_BYTES 28
#define VECTOR_MASK 32

#define LEGACY 512 /* bytes that FXSAVE has, and where XSAVE's header begins */
/* State components, in the mask and in the header */
#define X87 1
#define AVX 4

	.section .rodata
	.balign 4
default_mxcsr:
	.long	0x1f80

	.text
	.hidden probe_with_vector_
	.globl probe_with_vector_
	.type probe_with_vector_, @function
probe_with_vector_:
	push	%rbp
	mov	%rsp, %rbp
	push	%rbx
	push	%r12
	mov	%rsi, %r12
	mov	probe_shared(%rip), %rbx
	mov	VECTOR_BYTES(%rbx), %eax
	sub	%rax, %rsp
	and	$-64, %rsp
	mov	VECTOR_MASK(%rbx), %rax
	test	%rax, %rax
	jz	.Lfxsave
	xor	%ecx, %ecx
	.irp	at, 0, 8, 16, 24, 32, 40, 48, 56
	mov	%rcx, LEGACY + \at(%rsp)
	.endr
	mov	VECTOR_MASK + 4(%rbx), %edx
	xsave64	(%rsp)
	testb	$AVX, %al
	jz	1f
	vzeroupper
1:	testb	$X87, LEGACY(%rsp)	/* in use, as the header says; else it is as fninit makes it, which takes long */
	jz	.Lsaved
	fninit
	jmp	.Lsaved
.Lfxsave:
	fxsave64 (%rsp)
	fninit
.Lsaved:
	ldmxcsr	default_mxcsr(%rip)
	mov	%rsp, %rsi
	call	*%r12
	mov	VECTOR_MASK(%rbx), %rax
	test	%rax, %rax
	jz	.Lfxrstor
	mov	VECTOR_MASK + 4(%rbx), %edx
	xrstor64 (%rsp)
	jmp	.Ldone
.Lfxrstor:
	fxrstor64 (%rsp)
.Ldone:
	lea	-16(%rbp), %rsp
	pop	%r12
	pop	%rbx
	pop	%rbp
	ret
	.size probe_with_vector_, . - probe_with_vector_

	.section .note.GNU-stack, "", @progbits
