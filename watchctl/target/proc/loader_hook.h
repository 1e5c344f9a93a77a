/*
 * loader_hook - the place where a dynamic loader announces what it has mapped: the function that
 * debuggers are told to put a breakpoint on (r_brk of struct r_debug in <link.h>; glibc and musl
 * call it _dl_debug_state). It is called after mapping and before constructors run.
 */
#ifndef WATCHCTL_TARGET_PROC_LOADER_HOOK_H
#define WATCHCTL_TARGET_PROC_LOADER_HOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/elf/module.h"

/* 0: the program has no dynamic loader that we know. */
uint64_t loader_hook_address(pid_t pid, const struct module_list *modules);

/* Of r_state of the loader's struct r_debug, an enum: RT_CONSISTENT once what changed can be looked at. 0:
 * not known. */
uint64_t loader_hook_state_address(pid_t pid, const struct module_list *modules);

/* Whether the libraries that it was linked with are mapped: r_state is consistent, or there is no loader. */
bool loader_hook_startup_done(pid_t pid);

#endif
