/*
 * trampolines - which addresses are code that a signal handler returns to. The name of that code is only
 * known where the libc has a symbol table; its bytes are those the kernel's interface demands, and in the
 * module's file.
 */
#ifndef WATCHCTL_VIEW_EVENT_TRAMPOLINES_H
#define WATCHCTL_VIEW_EVENT_TRAMPOLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/module.h"

struct trampoline_module;

/* Zero-initialised is empty. */
struct trampolines {
	struct trampoline_module *v;
	size_t n, cap;
};

/* @m is mapped from now on, instead of what overlaps it. False: no memory. */
bool trampolines_add(struct trampolines *t, const struct module *m);

/* Forgets modules that overlap [start, end). */
void trampolines_remove(struct trampolines *t, uint64_t start, uint64_t end);

/* True if @code, @len bytes, begins as a trampoline does. */
bool trampoline_code(const uint8_t *code, size_t len);

/* True if the file of the module at @addr has a trampoline there; a file that has changed since has none. */
bool trampolines_has(const struct trampolines *t, uint64_t addr);

void trampolines_deinit(struct trampolines *t);

#endif
