/*
 * probe_image - compiled probes, as they are to lie in a program: read from a shared object that probe_build() has made, or
 * that the user has. Knows no process.
 */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_IMAGE_H
#define WATCHCTL_PATCH_PROBE_PROBE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

struct probe_function {
	const char *name;
	uint64_t at; /* offset in the image */
};

/* The 8 bytes at offset @at of the image hold base + @addend. */
struct probe_relocation {
	uint64_t at, addend;
};

struct probe_image {
	uint8_t *bytes;			 /* code_size + data_size, not relocated: as for base 0; owned */
	size_t code_size;		 /* text and constants: readable and executable; whole pages */
	size_t data_size;		 /* variables, readable and writable; whole pages, may be 0 */
	struct probe_function *function; /* that PROBE() defines, by name */
	size_t nfunctions;
	struct probe_relocation *relocation;
	size_t nrelocations;
	uint64_t entry_at;  /* offset of probe_entry, to which trampolines go */
	uint64_t shared_at; /* offset of the variable probe_shared, a pointer to struct probe_shared */
	char *names;	    /* owned; what function[].name points into */
};

/*
 * WC_EUSAGE: it is no such object, or has what nothing in the program would provide: undefined symbols (all are named),
 * thread-local variables, constructors, relocations that are not relative, needed libraries, vector registers in code.
 */
struct wc_error *probe_image_open(const char *path, struct probe_image *ret);
void probe_image_deinit(struct probe_image *i); /* accepts zeros */

/* The same of such a file's @size bytes. Any bytes are fit for it; aligned to 8. In what it says, the probes are called @name. */
struct wc_error *probe_image_read(const uint8_t *bytes, size_t size, const char *name,
				  struct probe_image *ret);

/* NULL: there is no such function. */
const struct probe_function *probe_image_function(const struct probe_image *i, const char *name);

struct probe_image_format {
	const char *text; /* in the image */
	unsigned int nargs;
	unsigned int strings, doubles; /* bit n: argument n is one */
};

/* The struct probe_format at offset @at. False: there is none, for a program may write anything into a record. */
bool probe_image_format(const struct probe_image *i, uint64_t at, struct probe_image_format *ret);

/* The image as it is to lie at @base, in @to (code_size + data_size bytes). */
void probe_image_relocate(const struct probe_image *i, uint64_t base, uint8_t *to);

#endif
