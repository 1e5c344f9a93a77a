/*
 * locate - an expression -> address, size and type of a variable of a live process.
 *
 *	expr	= [file ":" [file ":"]] sum | "0x..." [":" size]
 *	file	= a source file ("file.c:name") or a module ("libc.so.6:name", "/usr/bin/x:name")
 *		  or both: "libx.so:file.c:name"; in quotes where it has a ':' or the like: "'a:b.c':name"
 *	sum	= product { ( "+" | "-" ) product }
 *	product	= slice { ( "*" | "/" ) slice }
 *	slice	= unary [ "@" unary ]
 *	unary	= ( "*" | "&" | "-" | cast ) unary | "sizeof" ( unary | "(" type ")" ) | postfix
 *	cast	= "(" type ")"
 *	type	= [ "struct" | "class" | "union" | "enum" ] ( name | "'" name "'" ) { "*" } [ "&" ], with const and
 *		  the like anywhere but in the quotes. One of a function is "f::local", "'f(int)::local'", or
 *		  "'file.c::f::local'", or plain "local" where no other is called so.
 *	postfix	= primary { "." member | "%" member | "->" member | index | "^" }
 *	index	= "[" sum { "," sum } "]" | "(" sum { "," sum } ")"
 *	primary	= [ file "::" ] name | "'" name "'" | number | "(" sum ")"
 *	name	= C identifier, or C++ qualified "ns::Class::member", Rust "crate::NAME", Go "main.counter";
 *		  a static variable of a function is "function::name", or plain "name" where that is unique.
 *		  Two of one name in one function are told apart by their symbols: "'f.hits.1'", "'hits.2'".
 *		  The end of a qualified name will do where it is unique, and inline and anonymous namespaces
 *		  may be left out.
 *
 * A whole expression begins with no number but an address, and "-" negates in an index and on the right of an
 * operator only. Brackets hold a type if that ends in "*" or "&", has a word like "struct" or "unsigned" in
 * front, or if a value follows: "(conn_t *)p", "(long)i".
 *
 * "->", "*" and "[n]" applied to a pointer read the pointer from the live process, once; so do arithmetic and
 * casts. Variables in an index, behind "+", "@" and so on are read once, too, and are numbers from then on:
 * nothing follows them. "p+n" goes on by n of what p points to, "x@n" is n objects from x on. A cast between
 * classes of which one derives from the other goes to the part, or to the whole. "*" and "->" go through
 * std::unique_ptr and std::shared_ptr. An expression that is an address or a number ("&x", "p+3", "sizeof x")
 * is one to show, and no place to watch.
 *
 * What an index and a member mean is the language's matter: bounds, the order of dimensions, whether "." follows pointers,
 * whether case counts. In Fortran a pointer or allocatable variable is what it stands for. Of languages
 * whose rules are not known here only whole variables are found.
 *
 * The executable's variables win over those of libraries, and what a library exports over what it has for
 * itself. One that the executable once had, and that was optimised out, is not taken for another of that
 * name. Functions are no variables: see code_name.h. A bit field gives the smallest aligned unit that holds
 * it. Types come from DWARF, in the file or in separate debug files; without DWARF a plain name is looked up
 * in the symbol tables and the size is the symbol's.
 */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_H
#define WATCHCTL_CODE_LOCATE_LOCATE_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/tls/tls.h"

/* More pointers on one path than debug registers to follow them with. */
#define LOCATE_POINTERS 8

struct variable {
	uint64_t addr; /* 0 if thread_local_storage */
	uint64_t size; /* of the whole object; 0: unknown (a raw address without size) */
	struct value_type type;
	char *name;   /* canonical, for people: "file.c:flag", "main_arena.system_mem" */
	char *module; /* path of the module that defines it, or that a raw address lies in; NULL: in none */
	char *decl_file; /* where it is declared; NULL: unknown */
	unsigned int decl_line;
	/* Members or elements to choose from, for an aggregate larger than a debug register; else NULL. */
	char *members; /* "state, count, next", "(0,3) .. (4,6)" */
	/* Every thread has its own copy: tls_address() shows where. Paths through pointers end in shared
	 * memory. */
	bool thread_local_storage;
	struct tls_place tls;
	/*
	 * Addresses of the 8 byte pointers that were read on the way by "->", "*" and "[n]" (also a C++
	 * reference's and a Go slice's), outermost first: when one of them changes, @expr means another
	 * place. Of more than LOCATE_POINTERS only the first are reported.
	 */
	uint64_t pointer[LOCATE_POINTERS];
	unsigned int npointers;
	/*
	 * Bit k: pointer[k] is no pointer, but a place that is written when the bounds of an array are, which
	 * may be after its pointer. Whoever follows does well to watch it, too, and else looks again later.
	 */
	unsigned int bounds;
	/*
	 * Of a function: its copies elsewhere (inlined into callers, cloned for some of them), which do not
	 * come by here when they run.
	 */
	unsigned int copies;
	/* The path ends at the last of these pointers, which is null or leads to memory that is not mapped.
	 */
	bool null_pointer;
};

void variable_deinit(struct variable *v);

struct locator; /* where names are looked for: watchctl/code/lookup/locator.h */

/*
 * Finds @expr. Errors, all WC_ENAME unless said otherwise, each a complete sentence with what to try:
 *  - malformed (WC_EUSAGE): what was expected at which column, with the text and a caret below it;
 *  - unknown: near misses are offered, best first, at most five;
 *  - ambiguous: the candidates are listed, in the form that selects each;
 *  - a function: says how its code is watched;
 *  - optimised out, has no address, register-only: says which;
 *  - a path that follows a thread-local pointer: it would lead to another place in every thread;
 *  - no such member: those there are; index past the end of the array: its bounds; not allocated;
 *  - a member or element in a language whose rules are not known: its name;
 *  - null or unreadable pointer on the path;
 *  - an address or a number instead of a place: says how the place is written;
 *  - a type that is not known, or several of one name; a cast from a virtual base class;
 *  - module not loaded: says which modules are, when few, or similar names.
 * *@missing_module (may be NULL) is set to true when the only trouble is that a module, named as
 * "lib:name", is not loaded (yet): a launched program may still load it. Or that a library has lost a
 * variable of that name, which another that is not loaded yet may have.
 * *@ret is written on success; and of a path that ends at a null pointer, its pointer, npointers and
 * null_pointer are: a caller that waits for the pointer to be set watches those cells.
 */
struct wc_error *locate(struct locator *l, const char *expr, const struct module_list *modules,
			const struct memory_view *mem, struct variable *ret, bool *missing_module);

#endif
