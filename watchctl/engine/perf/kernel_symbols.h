/*
 * kernel_symbols - the kernel's functions, from /proc/kallsyms. Read at the first question. Where the kernel
 * hides its addresses (kernel.kptr_restrict, without CAP_SYSLOG), there are none.
 */
#ifndef WATCHCTL_ENGINE_PERF_KERNEL_SYMBOLS_H
#define WATCHCTL_ENGINE_PERF_KERNEL_SYMBOLS_H

#include <stdint.h>

struct kernel_symbols;

struct kernel_symbols *kernel_symbols_new(void); /* NULL: no memory */
void kernel_symbols_free(struct kernel_symbols *s);

/* The function that holds @addr; NULL: not known. The name lives as long as @s. *start: may be NULL. */
const char *kernel_symbols_find(struct kernel_symbols *s, uint64_t addr, uint64_t *start);

#endif
