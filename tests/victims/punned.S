/* build libpunned.so: gcc -shared */
/*
 * Loops whose body is an instruction of fewer than 5 bytes between two targets of jumps, so that only a punned jump fits. Each runs its
 * body @rdi times (1..4096) and returns what it has counted with it: 3 for each.
 */
	.section .text.punned, "ax", @progbits
	.fill 256, 1, 0xf4 /* hlt: no padding of the compiler's is within reach of a short jump */

	.macro loop name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	mov %edi, %ecx
	mov $3, %edx
	xor %eax, %eax
	jmp 2f
	.endm

	.macro done name
	.cfi_endproc
	.size \name, . - \name
	.balign 16, 0xf4
	.endm

/* One byte of the displacement is the program's: ff. */
	loop pun_of_4
1:	lea 3(%rax), %rax
2:	dec %ecx
	jns 1b
	ret
	done pun_of_4

/* Two: ff c9. */
	loop pun_of_3
1:	lea (%rax, %rdx), %eax
2:	dec %ecx
	jns 1b
	ret
	done pun_of_3

/* Three: ff c9 79. */
	loop pun_of_2
1:	add %edx, %eax
2:	dec %ecx
	jns 1b
	ret
	done pun_of_2

/* All four: ff c9 79 fb. It counts by what it stores into @rsi. */
	.globl pun_of_1
	.type pun_of_1, @function
pun_of_1:
	.cfi_startproc
	mov %edi, %ecx
	mov %rsi, %rdi
	jmp 2f
1:	stosb
2:	dec %ecx
	jns 1b
	mov %edi, %eax
	sub %esi, %eax
	lea (%rax, %rax, 2), %eax
	ret
	done pun_of_1

/* Two instructions that move together; one byte is the program's. */
	loop pun_of_two
1:	inc %eax
	inc %eax
2:	dec %ecx
	jns 1b
	lea (%rax, %rax, 2), %eax
	shr %eax
	ret
	done pun_of_two

/* The last instruction, which a jump leads to: what is behind it belongs to nobody that runs. */
	.globl pun_of_ret
	.type pun_of_ret, @function
pun_of_ret:
	.cfi_startproc
	lea (%rdi, %rdi, 2), %eax
	test %edi, %edi
	js 1f
	jmp 1f
	.byte 0xe8, 0, 0, 0, 0xff
1:	ret
	.byte 0x48, 0xb8, 0x11, 0xf0, 0, 0, 0, 0, 0, 0 /* mov: the displacement is 0xf011b848 */
	done pun_of_ret

	.fill 256, 1, 0xf4

	.section .note.GNU-stack, "", @progbits
