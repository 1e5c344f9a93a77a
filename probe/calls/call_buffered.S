/*
 * call_buffered - where trampolines of `watchctl trace` go with what they do not record by themselves: the event of a thread that has no
 * chunk, or whose chunk is full; and of a place that is switched off. rcx: the struct probe_site. On the stack: the return address, the
 * program's rcx, and 0x80 bytes of the program's own below what its stack pointer was.
 */

#define FRAME 144
#define KEPT_RAX 0	/* the general registers, by DWARF's numbers */
#define KEPT_RDX 8
#define KEPT_RCX 16
#define KEPT_RBX 24
#define KEPT_RSI 32
#define KEPT_RDI 40
#define KEPT_RBP 48
#define KEPT_RSP 56
#define KEPT_R8 64
#define KEPT_R9 72
#define KEPT_R10 80
#define KEPT_R11 88
#define KEPT_R12 96
#define KEPT_R13 104
#define KEPT_R14 112
#define KEPT_R15 120
#define KEPT_FLAGS 128
#define RCX_AT (FRAME + 8)		/* the program's rcx, from our stack pointer */
#define SITE_AT (FRAME + 16 + 0x80)	/* its stack pointer */
#include "probe/calls/call_offsets.h"
#include "probe/record_offsets.h"

#define FLAG_DF 0x400
#define FLAG_NT 0x4000
#define FLAG_AC 0x40000

	.text
	.globl probe_fn.call_buffered
	.type probe_fn.call_buffered, @function
	.balign 64
probe_fn.call_buffered:
	lea	-FRAME(%rsp), %rsp
	mov	%rax, KEPT_RAX(%rsp)
	mov	%rdx, KEPT_RDX(%rsp)
	lahf
	seto	%al
	mov	%rax, KEPT_FLAGS(%rsp)
	mov	probe_shared(%rip), %rdx
	mov	SHARED_CALLS_AT(%rdx), %rdx
	mov	SITE_ID(%rcx), %eax
	cmpb	$CALL_OFF_IGNORED, CALL_OFF_AT(%rdx,%rax)
	je	.Ldone
	cmpb	$CALL_OFF_VALUED, CALL_OFF_AT(%rdx,%rax)
	je	.Lrecord
	cmpb	$0, CALL_OFF_AT(%rdx,%rax)
	je	.Lrecord
	mov	SITE_COUNTER(%rcx), %rdx
	lock incq (%rdx)
.Ldone:
	mov	KEPT_FLAGS(%rsp), %rax
	add	$127, %al		/* overflows if the flag was set */
	sahf
	mov	KEPT_RDX(%rsp), %rdx
	mov	KEPT_RAX(%rsp), %rax
	lea	FRAME(%rsp), %rsp
	ret

.Lrecord:
	mov	%rsi, KEPT_RSI(%rsp)
	mov	%rdi, KEPT_RDI(%rsp)
	mov	%r8, KEPT_R8(%rsp)
	mov	%r9, KEPT_R9(%rsp)
	mov	%r10, KEPT_R10(%rsp)
	mov	%r11, KEPT_R11(%rsp)
	mov	%rbp, KEPT_RBP(%rsp)
	mov	%rbx, KEPT_RBX(%rsp)
	mov	%r12, KEPT_R12(%rsp)
	mov	%r13, KEPT_R13(%rsp)
	mov	%r14, KEPT_R14(%rsp)
	mov	%r15, KEPT_R15(%rsp)
	mov	RCX_AT(%rsp), %rax
	mov	%rax, KEPT_RCX(%rsp)
	lea	SITE_AT(%rsp), %rax
	mov	%rax, KEPT_RSP(%rsp)
	mov	%rdx, %rdi
	mov	%rcx, %rsi
	mov	%rsp, %rdx
	mov	%rsp, %rbp
	/* Flags under which C code would go wrong: DF, and AC, which makes it fault. */
	pushfq
	testl	$(FLAG_DF | FLAG_NT | FLAG_AC), (%rsp)
	jnz	.Lplain_flags
	and	$-16, %rsp
	call	call_record
.Lrecorded:
	mov	%rbp, %rsp
	mov	KEPT_RSI(%rsp), %rsi
	mov	KEPT_RDI(%rsp), %rdi
	mov	KEPT_R8(%rsp), %r8
	mov	KEPT_R9(%rsp), %r9
	mov	KEPT_R10(%rsp), %r10
	mov	KEPT_R11(%rsp), %r11
	mov	KEPT_RBP(%rsp), %rbp
	jmp	.Ldone

.Lplain_flags:
	mov	(%rsp), %rax
	mov	%rax, -16(%rbp)		/* below what the pushed ones take */
	lea	-16(%rbp), %rsp
	and	$~(FLAG_DF | FLAG_NT | FLAG_AC), %eax
	push	%rax
	popfq
	and	$-16, %rsp
	call	call_record
	lea	-16(%rbp), %rsp
	popfq
	jmp	.Lrecorded
	.size probe_fn.call_buffered, . - probe_fn.call_buffered

	.section .note.GNU-stack, "", @progbits
