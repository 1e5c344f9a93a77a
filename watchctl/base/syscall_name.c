#include "watchctl/base/syscall_name.h"

#include <stddef.h>

const char *syscall_name(int number)
{
	static const char *const name[] = {
#define SYSCALL(n, text) [n] = #text,
#include "syscall_names.h"
#undef SYSCALL
	};

	if (number < 0 || (size_t)number >= sizeof(name) / sizeof(name[0]))
		return NULL;
	return name[number];
}
