/*
 * core_file - the memory of a dead program, from the core file that the kernel or gdb's gcore has written: x86-64, little
 * endian. Nothing in it is believed: each address and length is checked, and a part that is not there is not read.
 *
 * A core has what the program could have written. Of what it could not, code and constants, there is only the first page
 * of each module: the rest is in the module's file, which may have been replaced since.
 */
#ifndef WATCHCTL_CODE_ELF_CORE_FILE_H
#define WATCHCTL_CODE_ELF_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"

struct core_file;

/* True for a regular file that begins as a core does, of whatever machine. */
bool core_file_is(const char *path);

/* WC_ELOG: it cannot be read, is another machine's, or ends before its table of segments or its notes do. */
struct wc_error *core_file_open(const char *path, struct core_file **ret);
void core_file_close(struct core_file *c); /* accepts NULL */
void core_file_closep(struct core_file **c);

struct core_process {
	pid_t pid, tid; /* the process; the thread that died, or is named first; 0: not known */
	int signal;	/* of which it died; 0: none, or not known */
	char comm[17];
	char args[81];	/* the beginning of its command line */
	char exe[4096]; /* "": not known */
};

const struct core_process *core_file_process(const struct core_file *c);

/* True if bytes are missing at its end. */
bool core_file_is_cut(const struct core_file *c);

/* False: not all of it is in the core. */
bool core_file_read(const struct core_file *c, uint64_t address, void *buf, size_t len);

/* How many segments, and the part of one that is in the core and was writable; false: it was not, or is not there. */
size_t core_file_segments(const struct core_file *c);
bool core_file_writable(const struct core_file *c, size_t segment, uint64_t *address, uint64_t *len);

/* Whether a file was mapped there. */
bool core_file_is_of_file(const struct core_file *c, uint64_t address);

enum core_module_state {
	CORE_MODULE_SAME,      /* by its build id, or else by its first page */
	CORE_MODULE_UNCHECKED, /* the core does not have its first page */
	CORE_MODULE_OTHER,     /* another file is at its path now */
	CORE_MODULE_MISSING,   /* it cannot be read */
};

/* The executable or library that is mapped at an address. */
struct core_module {
	const char *path;
	enum core_module_state state;
	uint64_t start; /* address of its first page */
	uint64_t bias;	/* address minus that in the file */
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: not known */
};

/* NULL: no file was mapped there, or there is no memory to say so. It lives as long as @c does. */
const struct core_module *core_file_module(struct core_file *c, uint64_t address);

/* Reads constants: from the core, or from the file of the module there, unless that is another one now. */
bool core_file_read_constant(struct core_file *c, uint64_t address, void *buf, size_t len);

/* The same for a string of less than @cap bytes. */
bool core_file_read_string(struct core_file *c, uint64_t address, char *buf, size_t cap);

#endif
