/*
 * symbolizer - address -> function, file, line, inlined callers. Cached by address.
 *
 * Works from module files alone (path, build id, bias): the process may be gone. Where debug information is
 * looked for is symbol_search's business; without any, .gnu_debugdata and symbol tables give names. A file on
 * disk whose build id differs from the module's is not used for names; locations in it are flagged. Instead
 * of the files, or beside them, somebody may say what is at an address: a log does, after `watchctl
 * symbolize`.
 *
 * A lookup reads files in this process, and one at a time. For many addresses, and for files that cannot
 * be trusted, put the lookups off (symbolizer_defer) and resolve them together.
 */
#ifndef WATCHCTL_CODE_SYMBOLS_SYMBOLIZER_H
#define WATCHCTL_CODE_SYMBOLS_SYMBOLIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/symbol_search.h"

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

/* How much the files of a module tell. */
enum symbol_detail {
	SYMBOL_DETAIL_NONE,
	SYMBOL_DETAIL_EXPORTED, /* only what the module exports has a name */
	SYMBOL_DETAIL_SYMBOLS,	/* functions */
	SYMBOL_DETAIL_LINES,	/* debug information */
};

enum symbol_source_state {
	SYMBOL_SOURCE_OK,
	SYMBOL_SOURCE_DEBUG_ONLY, /* the module's file is gone, its debug file was found */
	SYMBOL_SOURCE_STALE,	  /* what lies at its path has another build id */
	SYMBOL_SOURCE_MISSING,	  /* cannot be opened, or is no 64-bit ELF file */
};

/* A file that addresses were looked up in. */
struct symbol_source {
	const char *module; /* path */
	const uint8_t *build_id;
	uint8_t build_id_len;
	enum symbol_source_state state;
	enum symbol_detail detail;
	bool damaged;		/* it, or its debug information, cannot be read without harm */
	const char *debug_path; /* of the separate file; NULL: none */
};

/* An answer from elsewhere. Copied. */
struct symbol_reported {
	const char *module; /* path */
	const uint8_t *build_id;
	uint8_t build_id_len; /* 0: goes by the path */
	uint64_t address;     /* in the file: runtime address minus bias */
	uint64_t start;	      /* of the function, in the file; 0: unknown */
	size_t nframes;	      /* at least 1 */
	const struct frame_name *frame;
};

struct symbol_progress {
	void (*report)(void *ctx, size_t done, size_t total);
	void *ctx;
};

struct symbolizer *symbolizer_new(void); /* NULL: no memory */

/* Before the first module. @search outlives the symbolizer. */
void symbolizer_set_search(struct symbolizer *s, const struct symbol_search *search);
void symbolizer_free(struct symbolizer *s);

/*
 * From now on the file of each new module is opened when the module is reported, and kept open, so that it can still
 * be read when it has been removed or replaced. Of very many modules the later ones are not.
 */
void symbolizer_hold_files(struct symbolizer *s);

/*
 * Looks which files that @s keeps cannot be found by path and build id any more. False: all can. Then
 * symbolizer_is_lost() tells of one; modules without a build id are never lost, as nothing proves it.
 */
bool symbolizer_find_lost(struct symbolizer *s);
bool symbolizer_is_lost(const struct symbolizer *s, const struct module *m);

/* Before the first module. Files that @from keeps are read in place of those at their paths; it outlives @s. */
void symbolizer_borrow_files(struct symbolizer *s, const struct symbolizer *from);

/*
 * Reports that @m is mapped from now on; copies what it needs. An older module that overlaps is
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

/* True if a lookup of @addr will not have to read the module's files. */
bool symbolizer_knows(const struct symbolizer *s, uint64_t addr);

/*
 * Bounds of the contiguous part of the function that holds @addr, from debug information or symbols: false
 * when neither knows (a stripped file: ask cfi_function()).
 */
bool symbolizer_function(struct symbolizer *s, uint64_t addr, uint64_t *start, uint64_t *end);

/* "name+0x10" / "name" for the data or code symbol that covers @addr; false: none. */
bool symbolizer_data_name(struct symbolizer *s, uint64_t addr, char *buf, size_t len);

/*
 * Code that no file holds is named from the perf map of @pid from now on (module MODULE_JIT):
 * /tmp/perf-PID.map, where the process sees it or we do. The file is read when an address needs it, and again
 * when it has grown.
 * @known_ns: a moment (CLOCK_REALTIME) at which the process was there, so that a later one of the same number
 * is distinguished. @until_ns: a moment until which it was recorded, to use what it left when it ended; 0: its
 * map is only used while it lives. False: no memory.
 */
bool symbolizer_add_process(struct symbolizer *s, pid_t pid, uint64_t known_ns, uint64_t until_ns);

/* False: no memory. Answers with lines make that the module's files are not even opened. */
bool symbolizer_report(struct symbolizer *s, const struct symbol_reported *reported);

/*
 * From now on a lookup whose answer is not there yet gives a location without names, in the same place that
 * symbolizer_resolve() fills in later.
 */
void symbolizer_defer(struct symbolizer *s);

/*
 * Resolves what was put off, in processes of their own: several at a time, and damaged files cannot hurt this
 * one.
 * @progress (may be NULL) is reported every now and then. Do not call it while other threads may hold locks that
 * names need (malloc is fine). False: no memory.
 */
bool symbolizer_resolve(struct symbolizer *s, const struct symbol_progress *progress);

/* Calls @report for each file that was looked into. */
void symbolizer_sources(struct symbolizer *s, void (*report)(void *ctx, const struct symbol_source *src),
			void *ctx);

#endif
