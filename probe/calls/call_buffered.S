/*
 * call_buffered - where trampolines of `watchctl trace` go with what they do not record by themselves: the event of a thread that has no
 * chunk, or whose chunk is full; and of a place that is switched off. rcx: the struct probe_site. On the stack: the return address, the
 * program's rcx, and 0x80 bytes of the program's own below what its stack pointer was.
 */

#define FRAME 80
#define KEPT_RAX 0
#define KEPT_RDX 8
#define KEPT_RSI 16
#define KEPT_RDI 24
#define KEPT_R8 32
#define KEPT_R9 40
#define KEPT_R10 48
#define KEPT_R11 56
#define KEPT_RBP 64
#define KEPT_FLAGS 72
#define SITE_AT (FRAME + 16 + 0x80)	/* the program's stack pointer, from ours */
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
	mov	%rdx, %rdi
	mov	%rcx, %rsi
	lea	SITE_AT(%rsp), %rdx
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
