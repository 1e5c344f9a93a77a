/* module_code - the bytes of a module's code from its file, for when the process is gone. */
#ifndef WATCHCTL_CODE_ELF_MODULE_CODE_H
#define WATCHCTL_CODE_ELF_MODULE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/module.h"

struct module_code;

/* Copies what it needs of @m. NULL: no memory. */
struct module_code *module_code_new(const struct module *m);
void module_code_free(struct module_code *c); /* accepts NULL */

/* All @len bytes at runtime address @addr, as the file has them; false: not in one of its segments. */
bool module_code_read(struct module_code *c, uint64_t addr, void *buf, size_t len);

#endif
