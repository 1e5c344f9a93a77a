/*
 * module_report - a module from what the kernel told about one mapping of it, when it was made: by then its
 * process may have ended, and only the file on disk is left to ask.
 */
#ifndef WATCHCTL_CODE_ELF_MODULE_REPORT_H
#define WATCHCTL_CODE_ELF_MODULE_REPORT_H

#include "watchctl/code/elf/module.h"

/* A mapping that may be executed. */
struct module_report {
	uint64_t start, end, offset; /* offset: in the file */
	const char *path; /* as the process names it; "[vdso]"; of a file without a name "PATH (deleted)" */
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: not reported */
	uint64_t realtime_ns; /* CLOCK_REALTIME when it was made */
};

/*
 * The module that @r is a part of, as module_list_read() would list it. @root_fd: the root directory of @pid,
 * open, for when that has ended; -1: none. Where no build id was reported, the file on disk must not have changed
 * since. *ret_found false, *ret untouched: it is no ELF file, cannot be had any more, or is another one by
 * now. False: no memory.
 */
bool module_from_report(pid_t pid, int root_fd, const struct module_report *r, struct module *ret,
			bool *ret_found);

/* Of the same file, loaded at the same place. A path may be named in two ways; a build id may be unknown. */
bool module_is_same_place(const struct module *a, const struct module *b);

#endif
