/*
 * locate_index - the variables of one file, by name; private to watchctl/code/.
 *
 * What a program calls a variable has up to three parts: a scope ("ns::Class", "function"), the name,
 * and the source file. A query matches an entry exactly, or as the end of its qualified name.
 */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_INDEX_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/symbols/locate_match.h"
#include "watchctl/code/symbols/symbols.h"

/* Why a variable has, or has not, an address of its own. */
enum variable_place {
	PLACE_ADDRESS,
	PLACE_DECLARATION, /* defined elsewhere */
	PLACE_OPTIMISED,   /* no location at all */
	PLACE_CONSTANT,	   /* only its value is known */
	PLACE_TLS,	   /* each thread has its own */
	PLACE_STACK,	   /* in a frame, or moving between places while its function runs */
	PLACE_REGISTER,
	PLACE_DISCARDED, /* the linker left it out */
	PLACE_COMPLEX,	 /* a computation that needs more than an address */
};

struct variable_entry {
	const char *name;  /* as declared; of a variable template "limit<int>" */
	const char *bare;  /* of that: "limit", which means it too; NULL of all others */
	const char *scope; /* "ns::Class" or "function"; NULL: none */
	Dwarf_Die die;
	uint32_t unit;
	uint32_t next; /* of the same last component; internal */
	bool declaration;
	bool ignores_case; /* as its language does */
	/* The COMMON block that it is in, an outer name, too; or its scope without inline namespaces, which
	 * may be "". NULL: neither. */
	const char *block;
};

struct locate_index;

struct locate_index *locate_index_new(const struct module *m); /* NULL: no memory */
void locate_index_free(struct locate_index *x);

struct elffile *locate_index_file(struct locate_index *x);

/* Its debug information, as elffile_dwarf(). */
Dwarf *locate_index_dwarf(struct locate_index *x, uint64_t *bias);

/* A file address minus one of the debug information; 0 unless the file was prelinked. */
uint64_t locate_index_bias(struct locate_index *x);

/* The symbol table; NULL: no memory. */
struct symbols *locate_index_symbols(struct locate_index *x);

bool locate_index_has_dwarf(struct locate_index *x);

/* A sentence on the debug information that is split off and could not be read, malloc'd; NULL: all was. */
char *locate_index_missing(struct locate_index *x);

/*
 * Whether a variable inside a function may have a name that no symbol contains as it is: of a COMMON block,
 * or in a language that ignores case.
 */
bool locate_index_hides_locals(struct locate_index *x);

/*
 * Calls @each for every variable, and declaration of one, that @query fits: those outside functions, or
 * with @local those inside them. @each returns false to stop.
 */
void locate_index_find(struct locate_index *x, const char *query, bool local,
		       bool (*each)(void *ctx, const struct variable_entry *e, enum name_fit fit), void *ctx);

/* Whether the index is not whole, because no memory was left when it was made. */
bool locate_index_lacks_memory(const struct locate_index *x);

/* All variables outside functions. */
const struct variable_entry *locate_index_all(struct locate_index *x, size_t *n);

/* The entry of the unit, and the source file that the user would call it by ("src/file.c"). */
Dwarf_Die *locate_index_unit(struct locate_index *x, uint32_t unit);
size_t locate_index_nunits(struct locate_index *x);

/*
 * Where @die lives; *@ret is the file address for PLACE_ADDRESS, the offset in the module's block of
 * thread-local variables for PLACE_TLS.
 */
enum variable_place locate_index_place(struct locate_index *x, Dwarf_Die *die, uint64_t *ret);

/*
 * The definition of the struct, class, union or enum that @die only declares; false: nowhere in the file.
 * What was found is remembered.
 */
bool locate_index_complete_type(struct locate_index *x, Dwarf_Die *die, Dwarf_Die *ret);

#endif
