/*
 * call_entry - where trampolines of `watchctl trace` go, in place of probe_entry: it counts and records by itself what
 * probe_record_call() would, with a third of the time and of the stack. rcx: the struct probe_site. On the stack: the return address, the
 * program's rcx, and 0x80 bytes of the program's own below what its stack pointer was.
 *
 * What it cannot do (a C library that keeps no thread number, a ring that the reader has given up) probe_entry does.
 */

#define FRAME 48
#define KEPT_RAX 0
#define KEPT_RDX 8
#define KEPT_RSI 16
#define KEPT_RDI 24
#define KEPT_R8 32
#define KEPT_FLAGS 40
#define PROGRAM_RSP (FRAME + 16 + 0x80)
#include "probe/record_offsets.h"

#define KIND_CALL (4 << 16)   /* PROBE_RECORD_CALL; no slots follow */

	.text
	.globl probe_fn.call_entry
	.type probe_fn.call_entry, @function
	.balign 64
probe_fn.call_entry:
	lea	-FRAME(%rsp), %rsp
	mov	%rax, KEPT_RAX(%rsp)
	mov	%rdx, KEPT_RDX(%rsp)
	mov	%rsi, KEPT_RSI(%rsp)
	mov	%rdi, KEPT_RDI(%rsp)
	mov	%r8, KEPT_R8(%rsp)
	lahf
	seto	%al
	mov	%rax, KEPT_FLAGS(%rsp)
	mov	probe_shared(%rip), %rdi
	testl	$FAST_CALLS, SHARED_FLAGS(%rdi)
	jz	.Lslow
	testl	$HAS_RDPID, SHARED_FLAGS(%rdi)
	jz	.Lof_thread
	rdpid	%rsi
.Lring:
	mov	SHARED_NRINGS(%rdi), %eax
	dec	%eax
	and	%eax, %esi
	mov	%esi, %r8d
	shl	$RING_SHIFT, %r8
	lea	SHARED_RING(%rdi,%r8), %r8
	cmpl	$0, RING_RETIRED(%r8)
	jne	.Lslow
	mov	SITE_COUNTER(%rcx), %rdx
	mov	$1, %eax
	lock xadd %rax, (%rdx)
	mov	COUNTER_UNTIL(%rdx), %rdx
	test	%rdx, %rdx
	jz	.Lreserve
	cmp	%rdx, %rax
	jae	.Ldone
.Lreserve:
	mov	(%r8), %rax
.Lagain:
	mov	%rax, %rdx
	sub	RING_TAIL(%r8), %rdx
	cmp	SHARED_SLOTS(%rdi), %edx
	jae	.Lfull
	lea	1(%rax), %rdx
	lock cmpxchg %rdx, (%r8)
	jne	.Lagain
	/* The slot: ring * slots + (head & (slots - 1)). */
	mov	SHARED_SLOTS(%rdi), %edx
	imul	%rdx, %rsi
	dec	%edx
	and	%eax, %edx
	add	%rdx, %rsi
	shl	$SLOT_SHIFT, %rsi
	add	SHARED_SLOT_AT(%rdi), %rsi
	lea	1(%rax), %r8d
	rdtsc
	shl	$32, %rdx
	or	%rdx, %rax
	mov	%rax, SLOT_TIME(%rsi)
	movl	$KIND_CALL, SLOT_KIND_WORD(%rsi)
	movslq	SHARED_TID_AT(%rdi), %rax
	mov	%fs:(%rax), %eax
	mov	%eax, SLOT_TID(%rsi)
	mov	SITE_ID(%rcx), %eax
	mov	%eax, SLOT_SITE(%rsi)
	movq	$0, SLOT_RESERVED(%rsi)
	lea	PROGRAM_RSP(%rsp), %rax
	mov	%rax, SLOT_WORDS(%rsi)
	mov	(%rax), %rax
	mov	%rax, SLOT_WORDS + 8(%rsi)
	mov	KEPT_RAX(%rsp), %rax
	mov	%rax, SLOT_WORDS + 16(%rsi)
	/* Last: it is complete. */
	mov	%r8d, (%rsi)
.Ldone:
	mov	KEPT_FLAGS(%rsp), %rax
	add	$127, %al		/* overflows if the flag was set */
	sahf
	mov	KEPT_R8(%rsp), %r8
	mov	KEPT_RDI(%rsp), %rdi
	mov	KEPT_RSI(%rsp), %rsi
	mov	KEPT_RDX(%rsp), %rdx
	mov	KEPT_RAX(%rsp), %rax
	lea	FRAME(%rsp), %rsp
	ret

	/* The ring is the thread's, where asking for the CPU takes long. */
.Lof_thread:
	movslq	SHARED_TID_AT(%rdi), %rsi
	mov	%fs:(%rsi), %esi
	jmp	.Lring

.Lfull:
	mov	SITE_COUNTER(%rcx), %rdx
	lock incq COUNTER_LOST(%rdx)
	jmp	.Ldone

.Lslow:
	mov	KEPT_FLAGS(%rsp), %rax
	add	$127, %al
	sahf
	mov	KEPT_R8(%rsp), %r8
	mov	KEPT_RDI(%rsp), %rdi
	mov	KEPT_RSI(%rsp), %rsi
	mov	KEPT_RDX(%rsp), %rdx
	mov	KEPT_RAX(%rsp), %rax
	lea	FRAME(%rsp), %rsp
	jmp	probe_entry
	.size probe_fn.call_entry, . - probe_fn.call_entry

	.section .note.GNU-stack, "", @progbits
