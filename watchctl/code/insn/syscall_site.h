/* syscall_site - the number of a system call in the code that makes it. */
#ifndef WATCHCTL_CODE_INSN_SYSCALL_SITE_H
#define WATCHCTL_CODE_INSN_SYSCALL_SITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "watchctl/code/memory_view.h"

/* Of "mov $number, %eax; syscall", as C libraries have it, that ends at @end. False: other code is there. */
static inline bool syscall_site_number(const struct memory_view *mem, uint64_t end, uint64_t *ret)
{
	uint8_t code[7];
	uint32_t number;

	if (!memory_read(mem, end - sizeof(code), code, sizeof(code)) || code[0] != 0xb8 || code[5] != 0x0f ||
	    code[6] != 0x05)
		return false;
	memcpy(&number, code + 1, sizeof(number));
	*ret = number;
	return true;
}

#endif
