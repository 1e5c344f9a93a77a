/*
 * probe_entry - where trampolines go. rcx: the struct probe_site. On the stack: the return address, the program's rcx,
 * and 0x80 bytes of the program's own below what its stack pointer was.
 *
 * Builds struct probe_regs and struct probe, counts, and calls the probe, which by its attribute keeps all registers but the
 * flags. What is used here is put back from where the probe does not reach it; or, for a probe that runs instead of the
 * instruction, all registers and flags become what the probe has made of them. Flags are restored without popfq, which takes
 * as long as all else, unless one is set that only popfq restores.
 */

#define REGS_SIZE 144
#define PROBE_SITE (REGS_SIZE + 0) /* struct probe */
#define PROBE_REGS (REGS_SIZE + 8)
#define KEPT_RAX (REGS_SIZE + 16)
#define KEPT_RBX (REGS_SIZE + 24)
#define KEPT_RBP (REGS_SIZE + 32)
#define KEPT_RDI (REGS_SIZE + 40)
#define FRAME (REGS_SIZE + 48)
/* Offsets in struct probe_regs */
#define R15 0
#define R14 8
#define R13 16
#define R12 24
#define R11 32
#define R10 40
#define R9 48
#define R8 56
#define RDI 64
#define RSI 72
#define RBP 80
#define RBX 88
#define RDX 96
#define RCX 104
#define RAX 112
#define FLAGS 120
#define RSP 128
#define RIP 136
#define SAVED_RCX (FRAME + 8)
#define PROGRAM_RSP (FRAME + 16 + 0x80)
/* Offsets in struct probe_site */
#define SITE_RIP 8
#define SITE_FUNCTION 16
#define SITE_FLAGS 36

#include "probe/record_offsets.h"

#define INSTEAD 2 /* PROBE_INSTEAD */

#define FLAG_DF 0x400
#define FLAG_NT 0x4000
#define FLAG_AC 0x40000

	.text
	.hidden probe_entry
	.globl probe_entry
	.type probe_entry, @function
	.balign 64
probe_entry:
	lea	-FRAME(%rsp), %rsp
	mov	%rax, RAX(%rsp)
	mov	%rax, KEPT_RAX(%rsp)
	mov	%rbx, RBX(%rsp)
	mov	%rbx, KEPT_RBX(%rsp)
	pushfq
	pop	%rbx
	mov	%rdi, RDI(%rsp)
	mov	%rdi, KEPT_RDI(%rsp)
	mov	%rbp, RBP(%rsp)
	mov	%rbp, KEPT_RBP(%rsp)
	/* In the thread's own tally: one instruction, so that a signal's handler cannot come between. */
	mov	probe_shared(%rip), %rax
	testl	$TALLIED, SHARED_FLAGS(%rax)
	jz	.Lcount_shared
	movslq	SHARED_TID_AT(%rax), %rdi
	mov	%fs:(%rdi), %edi
	mov	SHARED_TALLY_MASK(%rax), %ebp
	and	%edi, %ebp
	shl	$TALLY_SHIFT, %ebp
	lea	SHARED_TALLY(%rax,%rbp), %rbp
	cmp	%rdi, (%rbp)
	jne	.Ltake_tally
.Ltally:
	mov	SITE_ID(%rcx), %edi
	mov	TALLY_COUNT_AT(%rbp), %rax
	incq	(%rax,%rdi,8)
.Lcounted:
	cmpq	$0, SITE_FUNCTION(%rcx)
	je	.Lcalled		/* it is only counted */
	mov	%rdx, RDX(%rsp)
	mov	%rsi, RSI(%rsp)
	mov	%r8, R8(%rsp)
	mov	%r9, R9(%rsp)
	mov	%r10, R10(%rsp)
	mov	%r11, R11(%rsp)
	mov	%r12, R12(%rsp)
	mov	%r13, R13(%rsp)
	mov	%r14, R14(%rsp)
	mov	%r15, R15(%rsp)
	mov	%rbx, FLAGS(%rsp)
	mov	SAVED_RCX(%rsp), %rax
	mov	%rax, RCX(%rsp)
	lea	PROGRAM_RSP(%rsp), %rax
	mov	%rax, RSP(%rsp)
	mov	SITE_RIP(%rcx), %rax
	mov	%rax, RIP(%rsp)
	test	$(FLAG_DF | FLAG_NT | FLAG_AC), %ebx
	jnz	.Lplain_flags
.Lready:
	mov	%rsp, %rbp
	mov	%rcx, PROBE_SITE(%rsp)
	mov	%rsp, PROBE_REGS(%rsp)
	lea	PROBE_SITE(%rsp), %rdi
	and	$-16, %rsp
	call	*SITE_FUNCTION(%rcx)
	mov	%rbp, %rsp
	testb	$INSTEAD, SITE_FLAGS(%rcx)
	jnz	.Lprobes_own
.Lcalled:
	/* rbx still holds the flags as they were. */
	test	$(FLAG_DF | FLAG_NT | FLAG_AC), %ebx
	jnz	.Lall_flags
	mov	%ebx, %eax
	shr	$4, %eax
	and	$0x80, %al
	mov	%bl, %ah
	add	$0x80, %al		/* overflows if the flag was set */
	sahf
	mov	KEPT_RAX(%rsp), %rax
	mov	KEPT_RBX(%rsp), %rbx
	mov	KEPT_RBP(%rsp), %rbp
	mov	KEPT_RDI(%rsp), %rdi
	lea	FRAME(%rsp), %rsp
	ret

.Lall_flags:
	push	%rbx
	popfq
	mov	KEPT_RAX(%rsp), %rax
	mov	KEPT_RBX(%rsp), %rbx
	mov	KEPT_RBP(%rsp), %rbp
	mov	KEPT_RDI(%rsp), %rdi
	lea	FRAME(%rsp), %rsp
	ret

	/* The first of those whose it may be has it for good. */
.Ltake_tally:
	mov	$-1, %rax		/* PROBE_TALLY_FREE */
	cmp	%rax, (%rbp)
	jne	.Lcount_shared
	lock cmpxchg %rdi, (%rbp)
	je	.Ltally
.Lcount_shared:
	mov	SITE_COUNTER(%rcx), %rax
	lock incq (%rax)
	jmp	.Lcounted

	/* Flags under which C code would go wrong: DF, and AC, which makes it fault. */
.Lplain_flags:
	mov	%ebx, %eax
	and	$~(FLAG_DF | FLAG_NT | FLAG_AC), %eax
	push	%rax
	popfq
	jmp	.Lready

.Lprobes_own:
	mov	RCX(%rsp), %rax
	mov	%rax, SAVED_RCX(%rsp)
	mov	RDX(%rsp), %rdx
	mov	RSI(%rsp), %rsi
	mov	RDI(%rsp), %rdi
	mov	R8(%rsp), %r8
	mov	R9(%rsp), %r9
	mov	R10(%rsp), %r10
	mov	R11(%rsp), %r11
	mov	R12(%rsp), %r12
	mov	R13(%rsp), %r13
	mov	R14(%rsp), %r14
	mov	R15(%rsp), %r15
	mov	RBX(%rsp), %rbx
	mov	RBP(%rsp), %rbp
	/* Of the flags those that a program may set by itself: no TF. */
	pushfq
	pop	%rax
	and	$~(0x8d5 | FLAG_DF | FLAG_NT | FLAG_AC), %eax
	push	%rcx
	mov	FLAGS + 8(%rsp), %rcx
	and	$(0x8d5 | FLAG_DF | FLAG_NT | FLAG_AC), %ecx
	or	%rcx, %rax
	pop	%rcx
	push	%rax
	popfq
	mov	RAX(%rsp), %rax
	lea	FRAME(%rsp), %rsp
	ret
	.size probe_entry, . - probe_entry

	.section .note.GNU-stack, "", @progbits
