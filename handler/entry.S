/*
 * entry - the image's fixed doors. Freestanding, position independent.
 *
 *	handler_entry		the SIGTRAP handler: (signo, siginfo, ucontext) in rdi, rsi, rdx
 *	handler_restorer	its way back (SA_RESTORER)
 *	remote_syscall		where the controller runs a system call in a stopped thread. When the controller
 *				dies, at any instant, the thread goes on by itself: it finishes the call and
 *				returns through the signal frame at rsp to where it was stopped. The loop is for
 *				a controller that died just after it made the kernel skip the rt_sigreturn.
 *	remote_read		as remote_syscall, but reads the byte at rdi (self-test of a read watch)
 *	remote_rewrite		as remote_syscall, but writes the byte at rdi back, atomically (of a write watch)
 */
#include "handler/entry.h"

#define FLAG_AC 0x40000

	.text
	.globl handler_entry, handler_restorer, remote_syscall, remote_read, remote_rewrite

	/* By these bytes other controllers, and the guard, know a handler of ours: see struct wire_signature. */
	.balign	16
	.long	wire_control_page - .
	.long	0
	.ascii	"watchctl handler"

	/*
	 * rsp is 16n + 8 on entry, as after any call (psABI 3.2.2); the return address is the restorer. What is pushed
	 * is struct delivery of main.c, where the program's own handler may be given another frame than ours; and the
	 * flags. All of it, and what handler_main needs, must lie where nothing is watched: a hit of our own would be the
	 * next trap. So rax, where that begins, goes below each watched word that is less than ENTRY_ROOM below it.
	 */
handler_entry:
	mov	%rsp, %rax
	lea	wire_control_page(%rip), %r8
1:	mov	ENTRY_NWATCHES(%r8), %ecx
	mov	$ENTRY_WATCHES, %r9d
	cmp	%r9d, %ecx
	cmova	%r9d, %ecx
	lea	ENTRY_WATCH(%r8), %r9
	lea	-ENTRY_ROOM - 7(%rax), %r10
	jmp	3f
2:	mov	(%r9), %r11
	sub	%r10, %r11
	cmp	$ENTRY_ROOM + 7, %r11
	jb	4f
	add	$ENTRY_WATCH_SIZE, %r9
3:	sub	$1, %ecx
	jnc	2b
	xchg	%rax, %rsp
	push	%rbx
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rax
	pushfq
	mov	%rsp, %rbx
	lea	8(%rsp), %rdi
	and	$-16, %rsp
	/* The kernel leaves a program's alignment check on; ours are not aligned, and a SIGBUS would be the end. */
	testl	$FLAG_AC, (%rbx)
	jz	5f
	pushfq
	andl	$~FLAG_AC, (%rsp)
	popfq
5:	call	handler_main
	mov	%rbx, %rsp
	test	%rax, %rax
	jnz	6f
	/* Home, without a look at the return address. */
	mov	8(%rsp), %rsp
	add	$8, %rsp
handler_restorer:
	mov	$15, %eax
	syscall
4:	mov	(%r9), %rax
	and	$-16, %rax
	jmp	1b
	/* The program's own handler: everything is as the kernel would have left it. */
6:	popfq
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rbx
	mov	%rcx, %rsp
	jmp	*%rax

remote_read:
	mov	(%rdi), %al
	jmp	remote_return
remote_rewrite:
	lock orb $0, (%rdi)
	jmp	remote_return
remote_syscall:
	syscall
remote_return:
	mov	$15, %eax
	syscall
	jmp	remote_return

	.section .note.GNU-stack, "", @progbits
