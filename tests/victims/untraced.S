/* build: gcc -no-pie */
/* build libuntraced.so: gcc -shared */
/*
 * untraced - functions that a jump fits into, and functions that it does not. Linked at a fixed, low address: a jump whose upper bytes stand
 * in the code and make it negative leads nowhere. Nothing but code that runs is within reach of a short jump.
 */
	.text
	.globl main, seen
	.type main, @function
main:
	sub $8, %rsp
	mov $3, %edi
	call blind
	mov $3, %edi
	call deaf
	mov $3, %edi
	call seen
	.rept 60
	mov $1, %edx
	.endr
	xor %eax, %eax
	add $8, %rsp
	ret
	.size main, . - main

/* Its loop begins within the five bytes of a jump. */
	.type blind, @function
blind:
	test %edi, %edi
1:	dec %edi
	test %edi, %edi
	jne 1b
	.rept 60
	mov $1, %edx
	.endr
	mov $0x80808080, %eax
	ret
	.size blind, . - blind

/* Two returns side by side: a jump over the first would cover the second, to which a branch leads. */
	.type deaf, @function
deaf:
	mov $7, %eax
	mov $8, %ecx
	test %edi, %edi
	js 2f
	.rept 60
	mov $1, %edx
	.endr
	js 2f
	ret
2:	ret
	.size deaf, . - deaf

	.type seen, @function
seen:
	mov $0x80808080, %eax
	.rept 60
	mov $1, %edx
	.endr
	ret
	.size seen, . - seen
	.section .note.GNU-stack, "", @progbits
