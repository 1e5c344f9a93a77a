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
	.text
	.globl handler_entry, handler_restorer, remote_syscall, remote_read, remote_rewrite

	/* By these bytes other controllers, and the guard, know a handler of ours: see struct wire_doorplate. */
	.balign	16
	.long	wire_control_page - .
	.long	0
	.ascii	"watchctl handler"

	/* rsp is 16n + 8 on entry, as after any call (psABI 3.2.2); the return address is the restorer. */
handler_entry:
	push	%rbx
	push	%rdi
	push	%rsi
	push	%rdx
	mov	%rsp, %rbx
	lea	32(%rsp), %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rax, %rdx
	and	$-16, %rsp
	call	handler_main
	mov	%rbx, %rsp
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rbx
	test	%rax, %rax
	jnz	1f
	ret
1:	jmp	*%rax

handler_restorer:
	mov	$15, %eax
	syscall

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
