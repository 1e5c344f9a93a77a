/*
 * code_image - all that a module's file says about its code: sections with their bytes, functions by symbols and unwind
 * tables, pointers that lead into code, landing pads, stubs. Addresses are those of the file.
 */
#ifndef WATCHCTL_CODE_SYMBOLS_CODE_IMAGE_H
#define WATCHCTL_CODE_SYMBOLS_CODE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/symbols/code_entry.h"

struct code_section {
	uint64_t start;
	const uint8_t *bytes;
	size_t len;
	bool is_stubs; /* .plt and the like: made by the linker */
};

struct code_function {
	uint64_t start, end;
	const char *name; /* as its symbol has it; NULL: only the unwind tables know it */
};

struct code_image;

/*
 * Reads the file of @m; with @mem (may be NULL) the bytes of its code are those of a process, where it can be read. WC_ENAME: it is
 * no ELF file for x86-64, is gone, or has no code.
 */
struct wc_error *code_image_open(const struct module *m, const struct memory_view *mem,
				 struct code_image **ret);
void code_image_free(struct code_image *c); /* accepts NULL */

/* By address. All that is handed out lives as long as @c. */
const struct code_section *code_image_sections(const struct code_image *c, size_t *n);

/* In no order; one function may be there twice, or lie in another. */
const struct code_function *code_image_functions(const struct code_image *c, size_t *n);

const struct code_stub *code_image_stubs(const struct code_image *c, size_t *n);

/*
 * Addresses of code that data holds: what the dynamic linker relocates, or, in a program that is not relocated, every
 * aligned word that may be such an address.
 */
void code_image_pointers(const struct code_image *c, void (*each)(void *ctx, uint64_t addr), void *ctx);

/* Where exceptions land. */
void code_image_pads(const struct code_image *c, void (*each)(void *ctx, uint64_t addr), void *ctx);

/* The bytes from @vaddr to the end of its segment, and how many; NULL: none. */
const uint8_t *code_image_data(const struct code_image *c, uint64_t vaddr, size_t *len);

/* Where its segments begin and end. */
void code_image_span(const struct code_image *c, uint64_t *start, uint64_t *end);

/* It runs at the addresses of its file. */
bool code_image_is_fixed(const struct code_image *c);

/* It is the dynamic loader, by its name for others ("ld-linux-x86-64.so.2"). */
bool code_image_is_loader(const struct code_image *c);

/*
 * Whether a function of the linker's name @symbol is one that @glob stands for: the name as it is, without its version,
 * and of C++ and Rust as the source has it, without parameters.
 */
bool code_image_name_fits(const char *symbol, const char *glob);

/* @symbol for people, malloc'd; NULL: no memory. */
char *code_image_name_shown(const char *symbol);

#endif
