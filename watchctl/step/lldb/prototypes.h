/*
 * prototypes - what the most used functions of the C and C++ runtimes take and return, for where there is no
 * debug information about them. Written from their manual pages and the standards.
 */
#ifndef WATCHCTL_STEP_LLDB_PROTOTYPES_H
#define WATCHCTL_STEP_LLDB_PROTOTYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/trace/event.h"

#define PROTOTYPE_PARAMS_MAX 8u
#define PROTOTYPE_TEXT_MAX 48u

struct prototype_type {
	enum type_kind kind;
	uint32_t size;
	char name[PROTOTYPE_TEXT_MAX]; /* "const char *" */
};

/* By what result it says that it failed, and errno has the reason. */
enum prototype_fails { PROTOTYPE_FAILS_NEVER, PROTOTYPE_FAILS_MINUS_ONE, PROTOTYPE_FAILS_NULL };

struct prototype {
	struct prototype_type result; /* TYPE_VOID: none */
	enum prototype_fails fails;
	unsigned int nparams; /* named ones: what "..." stands for is not known */
	struct {
		char name[PROTOTYPE_TEXT_MAX];
		struct prototype_type type;
	} param[PROTOTYPE_PARAMS_MAX];
};

/* By the linker's name, whatever its version. False: it is not in the list. */
bool prototype_find(const char *name, struct prototype *ret);

/* The name of entry @i, in order; NULL: there are no more. */
const char *prototype_name(unsigned int i);

#endif
