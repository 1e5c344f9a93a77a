/*
 * module_image - a file mapped by a process: whether it is an ELF file, whether it is still what lies at
 * its path, and how to open it; private to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_ELF_MODULE_IMAGE_H
#define WATCHCTL_CODE_ELF_MODULE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/elf/module_elf.h"

/* One line of /proc/PID/maps. */
struct module_mapping {
	uint64_t start, end, offset, dev, ino;
	bool executable;
	char *path;
};

/* Of @line, which it changes and @ret->path points into. False: it is of no file. */
bool module_mapping_parse(char *line, struct module_mapping *ret);

struct module_image {
	uint64_t dev, ino;
	char *maps_path; /* as maps says, perhaps with " (deleted)" */
	bool is_elf, deleted;
	char *path, *open_path; /* as in struct module */
	struct module_elf head; /* if is_elf */
};

/*
 * Looks at the file behind @m, a mapping of @pid. @mem_fd is its /proc/PID/mem, or -1. A file that is no
 * ELF file is a result too. False: no memory.
 */
bool module_image_init(struct module_image *ret, pid_t pid, int mem_fd, const struct module_mapping *m);
void module_image_deinit(struct module_image *img);

#endif
