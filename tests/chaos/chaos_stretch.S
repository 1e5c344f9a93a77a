/*
 * chaos_stretch - stretches of code in which every register has a value that is known, with one access of a
 * watched variable in the middle and some time on both sides for a stop to fall into.
 *
 *	chaos_registers(struct chaos_registers *)	general registers, flags, red zone
 *	chaos_vectors_sse, _avx, _avx512(struct chaos_vectors *)	vectors, masks, x87, MXCSR
 *
 * struct chaos_registers: 0 in[16] (by number: rax rcx rdx rbx - rbp rsi rdi r8..r15; rbx: the variable, rcx: turns
 * before, rdx: what is written), 128 flags, 136 red (the first word below rsp, each next one more), 144 turns after, 152 access
 * (0 mov to, 1 xchg, 2 mov from, 3 none), 160 out[16], 288 flags after, 296 red zone after [16].
 */
	.text
	.globl	chaos_registers, chaos_vectors_sse, chaos_vectors_avx, chaos_vectors_avx512
	.globl	chaos_function
	.type	chaos_registers, @function
	.type	chaos_vectors_sse, @function
	.type	chaos_vectors_avx, @function
	.type	chaos_vectors_avx512, @function
	.type	chaos_function, @function

	.set	SAVED, 512
	.macro	fill_red_zone
	mov	136(%rdi), %rax
	.set	i, 1
	.rept	16
	mov	%rax, -8 * i(%rsp)
	lea	1(%rax), %rax
	.set	i, i + 1
	.endr
	.endm

	/* No instruction from popfq to pushfq changes a flag, but a wrong return from a trap. */
chaos_registers:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	pushfq
	.cfi_offset rbx, -24
	.cfi_offset r12, -32
	.cfi_offset r13, -40
	.cfi_offset r14, -48
	.cfi_offset r15, -56
	sub	$SAVED, %rsp
	/* rbp gets a value of its own: from here on the frame is found from rsp. */
	.cfi_def_cfa rsp, SAVED + 64
	mov	%rdi, 496(%rsp)
	mov	152(%rdi), %rax
	mov	%rax, 488(%rsp)
	mov	144(%rdi), %rax
	mov	%rax, 480(%rsp)
	mov	128(%rdi), %rax
	push	%rax
	.cfi_adjust_cfa_offset 8
	popfq
	.cfi_adjust_cfa_offset -8
	fill_red_zone
	mov	0(%rdi), %rax
	mov	8(%rdi), %rcx
	mov	16(%rdi), %rdx
	mov	24(%rdi), %rbx
	mov	40(%rdi), %rbp
	mov	48(%rdi), %rsi
	mov	64(%rdi), %r8
	mov	72(%rdi), %r9
	mov	80(%rdi), %r10
	mov	88(%rdi), %r11
	mov	96(%rdi), %r12
	mov	104(%rdi), %r13
	mov	112(%rdi), %r14
	mov	120(%rdi), %r15
	mov	56(%rdi), %rdi
1:	loop	1b
	/* jrcxz is the one branch that looks at no flag. */
	mov	488(%rsp), %rcx
	jrcxz	.Lwrite
	lea	-1(%rcx), %rcx
	jrcxz	.Lexchange
	lea	-1(%rcx), %rcx
	jrcxz	.Lread
	jmp	.Laccessed
.Lwrite:
	mov	%rdx, (%rbx)
	jmp	.Laccessed
.Lexchange:
	xchg	%rdx, (%rbx)
	jmp	.Laccessed
.Lread:
	mov	(%rbx), %rdx
.Laccessed:
	mov	480(%rsp), %rcx
1:	loop	1b
	mov	%rax, 0(%rsp)
	mov	%rcx, 8(%rsp)
	mov	%rdx, 16(%rsp)
	mov	%rbx, 24(%rsp)
	mov	%rsp, 32(%rsp)
	mov	%rbp, 40(%rsp)
	mov	%rsi, 48(%rsp)
	mov	%rdi, 56(%rsp)
	mov	%r8, 64(%rsp)
	mov	%r9, 72(%rsp)
	mov	%r10, 80(%rsp)
	mov	%r11, 88(%rsp)
	mov	%r12, 96(%rsp)
	mov	%r13, 104(%rsp)
	mov	%r14, 112(%rsp)
	mov	%r15, 120(%rsp)
	.set	i, 1
	.rept	16
	mov	-8 * i(%rsp), %rax
	mov	%rax, 128 + 8 * i(%rsp)
	.set	i, i + 1
	.endr
	pushfq
	.cfi_adjust_cfa_offset 8
	pop	128(%rsp)
	.cfi_adjust_cfa_offset -8
	pushq	SAVED(%rsp)
	.cfi_adjust_cfa_offset 8
	popfq
	.cfi_adjust_cfa_offset -8
	mov	496(%rsp), %rdi
	mov	%rsp, %rsi
	add	$160, %rdi
	mov	$33, %ecx
	rep movsq
	add	$SAVED + 8, %rsp
	.cfi_adjust_cfa_offset -(SAVED + 8)
	pop	%r15
	.cfi_adjust_cfa_offset -8
	pop	%r14
	.cfi_adjust_cfa_offset -8
	pop	%r13
	.cfi_adjust_cfa_offset -8
	pop	%r12
	.cfi_adjust_cfa_offset -8
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	chaos_registers, . - chaos_registers

	/*
	 * struct chaos_vectors: 0 in[32][64], 2048 mask[8], 2112 x87[8] (16 bytes each), 2240 control word, 2244 MXCSR, 2248 variable,
	 * 2256 value, 2264 turns, 2272 access (as above), 2304 out, as from 0 on: [32][64], 4352 mask[8],
	 * 4416 x87[8], 4544 control word, 4546 status word, 4548 MXCSR.
	 */
	.set	OUT, 2304
	.macro	begin
	.cfi_startproc
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	fnstcw	(%rsp)
	stmxcsr	4(%rsp)
	fninit
	.set	i, 0
	.rept	8
	fldt	2112 + 16 * i(%rdi)
	.set	i, i + 1
	.endr
	fldcw	2240(%rdi)
	ldmxcsr	2244(%rdi)
	.endm
	.macro	access
	mov	2248(%rdi), %rsi
	mov	2256(%rdi), %rdx
	mov	2264(%rdi), %rcx
	mov	2272(%rdi), %rax
1:	loop	1b
	cmp	$1, %eax
	je	2f
	cmp	$2, %eax
	je	3f
	ja	4f
	mov	%rdx, (%rsi)
	jmp	4f
2:	xchg	%rdx, (%rsi)
	jmp	4f
3:	mov	(%rsi), %rdx
4:	mov	2264(%rdi), %rcx
1:	loop	1b
	.endm
	.macro	end
	fnstcw	OUT + 2240(%rdi)
	fnstsw	OUT + 2242(%rdi)
	stmxcsr	OUT + 2244(%rdi)
	.set	i, 7
	.rept	8
	fstpt	OUT + 2112 + 16 * i(%rdi)
	.set	i, i - 1
	.endr
	fninit
	fldcw	(%rsp)
	ldmxcsr	4(%rsp)
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.endm

	.macro	all_16 op, kind, base
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	.ifc	\op, load
	load_\kind \n
	.else
	store_\kind \n
	.endif
	.endr
	.endm
	.macro	load_sse n
	movups	64 * \n(%rdi), %xmm\n
	.endm
	.macro	store_sse n
	movups	%xmm\n, OUT + 64 * \n(%rdi)
	.endm
	.macro	load_avx n
	vmovups	64 * \n(%rdi), %ymm\n
	.endm
	.macro	store_avx n
	vmovups	%ymm\n, OUT + 64 * \n(%rdi)
	.endm
	.macro	load_avx512 n
	vmovups	64 * \n(%rdi), %zmm\n
	.endm
	.macro	store_avx512 n
	vmovups	%zmm\n, OUT + 64 * \n(%rdi)
	.endm

chaos_vectors_sse:
	begin
	all_16	load, sse
	access
	all_16	store, sse
	end
	.size	chaos_vectors_sse, . - chaos_vectors_sse

chaos_vectors_avx:
	begin
	all_16	load, avx
	access
	all_16	store, avx
	vzeroupper
	end
	.size	chaos_vectors_avx, . - chaos_vectors_avx

chaos_vectors_avx512:
	begin
	all_16	load, avx512
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	load_avx512 \n
	.endr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	2048 + 8 * \n(%rdi), %k\n
	.endr
	access
	all_16	store, avx512
	.irp	n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	store_avx512 \n
	.endr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq	%k\n, OUT + 2048 + 8 * \n(%rdi)
	.endr
	vzeroupper
	end
	.size	chaos_vectors_avx512, . - chaos_vectors_avx512

	/* Watched with -x: two instructions, the first of which is executed once a call. */
chaos_function:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size	chaos_function, . - chaos_function

	.section .note.GNU-stack, "", @progbits
