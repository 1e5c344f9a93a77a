/* probe_caller - comes to a probe as a program does: by the trampoline's way, with any registers and flags. */
#ifndef TESTS_UNIT_PATCH_PROBE_CALLER_H
#define TESTS_UNIT_PATCH_PROBE_CALLER_H

#include <stdint.h>

struct caller_regs {
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, flags;
	uint64_t rsp; /* only out */
	uint64_t red_zone
		[2]; /* only out: the highest and the lowest word of it, which were 0x1111 and 0x2222 */
};

/* See probe/entry.S for what probe_entry, at @entry, expects. The stack at *@out.rsp begins with @entry, @site and @out. */
void caller_run(const struct caller_regs *in, struct caller_regs *out, const void *site, const void *entry);

__asm__(".text\n"
	".type caller_run, @function\n"
	"caller_run:\n"
	"	push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
	"	push %rsi; push %rdx; push %rcx\n"
	"	mov %rdi, %rax\n"
	"	mov 8(%rax), %rbx; mov 16(%rax), %rcx; mov 24(%rax), %rdx; mov 32(%rax), %rsi\n"
	"	mov 40(%rax), %rdi; mov 48(%rax), %rbp; mov 56(%rax), %r8; mov 64(%rax), %r9\n"
	"	mov 72(%rax), %r10; mov 80(%rax), %r11; mov 88(%rax), %r12; mov 96(%rax), %r13\n"
	"	mov 104(%rax), %r14; mov 112(%rax), %r15\n"
	"	push 120(%rax); popfq\n"
	"	mov (%rax), %rax\n"
	"	movq $0x1111, -8(%rsp); movq $0x2222, -0x80(%rsp)\n"
	/* The trampoline. */
	"	lea -0x80(%rsp), %rsp\n"
	"	push %rcx\n"
	"	mov 0x90(%rsp), %rcx\n"
	"	call *0x88(%rsp)\n"
	"	pop %rcx\n"
	"	lea 0x80(%rsp), %rsp\n"
	/* What is there now. */
	"	xchg %rax, 16(%rsp)\n" /* out; rax is kept in its place */
	"	mov %rcx, 16(%rax)\n"
	"	mov -8(%rsp), %rcx; mov %rcx, 136(%rax)\n"
	"	mov -0x80(%rsp), %rcx; mov %rcx, 144(%rax)\n"
	"	mov 16(%rsp), %rcx; mov %rcx, (%rax)\n"
	"	mov %rax, 16(%rsp)\n"
	"	pushfq; pop 120(%rax)\n"
	"	push $0x202; popfq\n"
	"	mov %rbx, 8(%rax); mov %rdx, 24(%rax); mov %rsi, 32(%rax)\n"
	"	mov %rdi, 40(%rax); mov %rbp, 48(%rax); mov %r8, 56(%rax); mov %r9, 64(%rax)\n"
	"	mov %r10, 72(%rax); mov %r11, 80(%rax); mov %r12, 88(%rax); mov %r13, 96(%rax)\n"
	"	mov %r14, 104(%rax); mov %r15, 112(%rax); mov %rsp, 128(%rax)\n"
	"	add $24, %rsp\n"
	"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
	"	ret\n"
	".size caller_run, . - caller_run\n");

#endif
