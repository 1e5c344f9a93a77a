/*
 * probe_put_value - what probe_value() calls: p in rdi, the value in rsi. Keeps all registers but the flags, so that a probe that calls
 * nothing else saves none, and writes the record by itself, in a third of the time that C code takes. What it cannot do (a C
 * library that keeps no thread number, a ring that the reader has given up) probe_record_value() does.
 */

#include "probe/record_offsets.h"

#define PROBE_SITE 0 /* struct probe */
#define AHEAD 512
#define KIND_VALUE (1 << 16)  /* PROBE_RECORD_VALUE; no slots follow */

	.text
	.hidden probe_put_value
	.globl probe_put_value
	.type probe_put_value, @function
	.balign 64
probe_put_value:
	push	%rax
	push	%rcx
	push	%rdx
	push	%r8
	push	%r9
	push	%r10
	mov	probe_shared(%rip), %r8
	testl	$FAST_CALLS, SHARED_FLAGS(%r8)
	jz	.Lslow
	testl	$HAS_RDPID, SHARED_FLAGS(%r8)
	jz	.Lof_thread
	rdpid	%r10
.Lring:
	mov	SHARED_NRINGS(%r8), %eax
	dec	%eax
	and	%eax, %r10d
	mov	%r10d, %r9d
	shl	$RING_SHIFT, %r9
	lea	SHARED_RING(%r8,%r9), %r9
	cmpl	$0, RING_RETIRED(%r9)
	jne	.Lslow
	mov	SHARED_SLOTS(%r8), %edx
	mov	(%r9), %rax
.Lagain:
	mov	%rax, %rcx
	sub	RING_TAIL(%r9), %rcx
	cmp	%edx, %ecx
	jae	.Lfull
	lea	1(%rax), %rcx
	lock cmpxchg %rcx, (%r9)
	jne	.Lagain
	/* The slot: ring * slots + (head & (slots - 1)). */
	imul	%rdx, %r10
	dec	%edx
	and	%eax, %edx
	lea	(%r10,%rdx), %r9
	shl	$SLOT_SHIFT, %r9
	add	SHARED_SLOT_AT(%r8), %r9
	/* The reader's processor has had the slots: they come back while others are written. Beyond the ring it does no harm. */
	prefetchw	AHEAD(%r9)
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	mov	%rax, SLOT_TIME(%r9)
	movl	$KIND_VALUE, SLOT_KIND_WORD(%r9)
	movslq	SHARED_TID_AT(%r8), %rax
	mov	%fs:(%rax), %eax
	mov	%eax, SLOT_TID(%r9)
	mov	PROBE_SITE(%rdi), %rax
	mov	SITE_ID(%rax), %eax
	mov	%eax, SLOT_SITE(%r9)
	movq	$0, SLOT_RESERVED(%r9)
	mov	%rsi, SLOT_WORDS(%r9)
	/* Last: it is complete. */
	mov	%ecx, (%r9)
.Ldone:
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdx
	pop	%rcx
	pop	%rax
	ret

	/* The ring is the thread's, where asking for the CPU takes long. */
.Lof_thread:
	movslq	SHARED_TID_AT(%r8), %rax
	mov	%fs:(%rax), %r10d
	jmp	.Lring

.Lfull:
	mov	PROBE_SITE(%rdi), %rax
	mov	SITE_COUNTER(%rax), %rax
	lock incq COUNTER_LOST(%rax)
	jmp	.Ldone

	/* C code keeps neither these nor rdi, rsi and r11, and wants its stack aligned. */
.Lslow:
	push	%rdi
	push	%rsi
	push	%r11
	push	%rbp
	mov	%rsp, %rbp
	and	$-16, %rsp
	call	probe_record_value
	mov	%rbp, %rsp
	pop	%rbp
	pop	%r11
	pop	%rsi
	pop	%rdi
	jmp	.Ldone
	.size probe_put_value, . - probe_put_value

	.section .note.GNU-stack, "", @progbits
