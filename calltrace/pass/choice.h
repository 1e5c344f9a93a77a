/* choice - which functions of a module are traced, and why, before any of them is changed. */
#ifndef CALLTRACE_PASS_CHOICE_H
#define CALLTRACE_PASS_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llvm-c/Core.h>

#include "calltrace/config/settings.h"
#include "watchctl/base/map64.h"

/* A function with a body. */
struct choice {
	LLVMValueRef function;	  /* NULL: wherever it was called it is inlined */
	const char *linkage_name; /* LLVM's, or that of its mark */
	char *name;		  /* demangled */
	char *file;	/* where it is declared; NULL: without debug information that is not known */
	uint32_t line;	/* 0: not known */
	uint32_t insns; /* of IR */
	bool is_traced;
	bool has_marks;		       /* its events are made of these */
	const struct capture *capture; /* its values; NULL: none. The settings' */
	char *why;
};

/* Zero-initialised is empty. */
struct choices {
	struct choice *choice; /* in the order of the module; then those that are inlined */
	size_t n;
	struct map64 of; /* a function, its choice */
	struct marked *marked;
	size_t nmarked;
	bool can_trace; /* one of them can be traced, whether it is chosen or not */
};

/* False: no memory. */
bool choices_make(struct choices *c, LLVMModuleRef m, const struct settings *s);
void choices_deinit(struct choices *c);

/* Functions of @m whose values are wanted are not to be inlined. True: something has changed. */
bool choices_keep_apart(LLVMModuleRef m, const struct settings *s);

static inline bool choices_has(const struct choices *c, LLVMValueRef f)
{
	const struct choice *found = map64_get(&c->of, (uint64_t)(uintptr_t)f);

	return found && found->is_traced;
}

#endif
