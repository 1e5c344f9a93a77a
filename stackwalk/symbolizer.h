/*
 * symbolizer - address -> function, file, line, inlined callers. Cached by address.
 *
 * Works from module files alone (path, build id, bias): the process may be gone. Finds separate
 * debug information by build id, debuglink and, where the user configured it, debuginfod; reads
 * .gnu_debugdata and symbol tables when there is none. A file on disk whose build id differs from
 * the module's is not used for names; locations in it are flagged.
 */
#ifndef STACKWALK_SYMBOLIZER_H
#define STACKWALK_SYMBOLIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stackwalk/module.h"

struct symbolizer;

/* One function at an address. Strings belong to the symbolizer and live as long as it does. */
struct frame_name {
	const char *function; /* demangled with parameters, without version suffix; NULL: unknown */
	const char *file;     /* NULL: unknown */
	unsigned int line;    /* 0: unknown */
};

struct location {
	const char *module; /* path, or NULL where no module holds the address */
	const uint8_t *build_id;
	uint8_t build_id_len;
	uint64_t module_offset;	 /* addr - bias */
	uint64_t function_start; /* runtime address; 0: unknown. Of the real function, or of the part of it
				    split off */
	uint64_t offset;	 /* addr - function_start */
	bool stale;		 /* the file on disk is not the one that was mapped */
	size_t nframes;		 /* at least 1; frame[0] is innermost; all but the last are inlined */
	const struct frame_name *frame; /* frame[nframes-1] is the real function; offset is relative to it */
};

struct symbolizer *symbolizer_new(void); /* NULL: no memory */
void symbolizer_free(struct symbolizer *s);

/*
 * Tells that @m is mapped from now on; copies what it needs. An older module that overlaps is
 * dropped (its names are no longer given; strings already handed out stay valid). False: no memory.
 */
bool symbolizer_add(struct symbolizer *s, const struct module *m);

/* Forgets modules that overlap [start, end). */
void symbolizer_remove(struct symbolizer *s, uint64_t start, uint64_t end);

/*
 * What is at @addr. For a return address pass addr - 1 and add the 1 back to offset yourself.
 * Never NULL: an unknown place has module NULL and one frame without a name. The result lives
 * as long as @s.
 */
const struct location *symbolizer_lookup(struct symbolizer *s, uint64_t addr);

/*
 * Bounds of the contiguous part of the function that holds @addr, from debug information or symbols: false
 * when neither knows (a stripped file: ask cfi_function()).
 */
bool symbolizer_function(struct symbolizer *s, uint64_t addr, uint64_t *start, uint64_t *end);

/* "name+0x10" / "name" for the data or code symbol that covers @addr; false: none. */
bool symbolizer_data_name(struct symbolizer *s, uint64_t addr, char *buf, size_t len);

#endif
