/* reg_names - registers by the names that gdb has for them. */
#ifndef WATCHCTL_CODE_REG_NAMES_H
#define WATCHCTL_CODE_REG_NAMES_H

#include <stdbool.h>

#include "watchctl/code/regs.h"

struct reg_name {
	enum reg reg;
	bool half;	 /* its lower 32 bits, signed */
	bool is_address; /* compared without a sign */
};

/* "rdi", "edi", "pc"; without the $. False: there is none of that name. */
bool reg_by_name(const char *name, struct reg_name *ret);

#endif
