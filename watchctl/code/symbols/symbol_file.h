/*
 * symbol_file - the names in the file of a module: from its debug information where there is some, and from
 * the symbol tables otherwise; private to watchctl/code/. Addresses are file addresses.
 */
#ifndef WATCHCTL_CODE_SYMBOLS_SYMBOL_FILE_H
#define WATCHCTL_CODE_SYMBOLS_SYMBOL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/strings.h"
#include "watchctl/code/symbols/symbolizer.h"

/* What is at an address. Lives as long as the strings it was made in. */
struct symbol_answer {
	uint64_t start; /* of the function; 0: unknown */
	uint32_t nframes;
	bool from_file; /* the module's files were asked for it; else somebody told it */
	struct frame_name frame[];
};

/* One that holds copies of @frame; NULL: no memory. */
struct symbol_answer *symbol_answer_new(struct strings *pool, uint64_t start, const struct frame_name *frame,
					size_t nframes);

/* The one that says more; of equal ones @a. Both may be NULL. */
struct symbol_answer *symbol_answer_better(struct symbol_answer *a, struct symbol_answer *b);

struct symbol_facts {
	enum symbol_source_state state;
	enum symbol_detail detail;
	bool damaged;		/* reading it ended a worker: what did that is left alone */
	const char *debug_path; /* lives as long as the file; NULL: no separate one */
};

struct symbol_file;

/* Opens nothing yet. NULL: no memory. */
struct symbol_file *symbol_file_new(const struct module *m, const struct symbol_search *search);
void symbol_file_free(struct symbol_file *f);

/* As elffile_hold() and elffile_is_in_place(). */
bool symbol_file_hold(struct symbol_file *f);
bool symbol_file_is_in_place(const struct symbol_file *f);

bool symbol_file_is_for(const struct symbol_file *f, const struct module *m);

/* What is known about the file; opens it, unless symbol_file_set_facts() told it. */
const struct symbol_facts *symbol_file_facts(struct symbol_file *f);

/* The same, but only whether what lies at its path is another file: cheaper. */
bool symbol_file_is_stale(struct symbol_file *f);

/* Reports what another process found out. False: no memory. */
bool symbol_file_set_facts(struct symbol_file *f, const struct symbol_facts *facts);

/* The file did harm to whoever read it: first its debug information is left alone, then all of it. */
void symbol_file_did_harm(struct symbol_file *f);

/* Never says nothing: a place without a name has one frame without one. NULL: no memory. */
struct symbol_answer *symbol_file_resolve(struct symbol_file *f, uint64_t vaddr, struct strings *pool);

/* Bounds of the contiguous part of the function. False: not known. */
bool symbol_file_function(struct symbol_file *f, uint64_t vaddr, uint64_t *start, uint64_t *end);

/* The name of the data or code there, malloc'd, and where it starts; NULL: none. */
char *symbol_file_data_name(struct symbol_file *f, uint64_t vaddr, uint64_t *start);

#endif
