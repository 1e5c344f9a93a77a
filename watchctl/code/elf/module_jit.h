/*
 * module_jit - code that a program made while it runs: executable memory that no ELF file is behind.
 *
 * It is a module like others, named MODULE_JIT, without a file, a build id or a bias. One is a run of such
 * mappings that touch each other, from its first executable page to its last.
 */
#ifndef WATCHCTL_CODE_ELF_MODULE_JIT_H
#define WATCHCTL_CODE_ELF_MODULE_JIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "watchctl/code/elf/module.h"

#define MODULE_JIT "[jit]"

bool module_is_jit(const struct module *m);

/*
 * Whether a mapping of that path holds what the program itself filled in: anonymous memory, or memory under a
 * name of its own (a memfd, /dev/shm).
 */
bool module_jit_may_be(const char *path);

/*
 * Adds those of @pid to @l, which holds its other modules as module_list_read() found them just now. A
 * process that has ended has none. An error is want of memory; what @l holds then is whole.
 */
struct wc_error *module_list_add_jit(pid_t pid, struct module_list *l);

#endif
