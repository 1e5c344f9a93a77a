/*
 * lldb_shim - what LLDB knows about the functions and types of a program, in plain C.
 *
 * lldb_shim.cc wraps LLDB's SB API (14 to 19); lldb_shim_none.c stands in where there is no LLDB. No type of
 * LLDB leaves lldb_shim*.cc, and no C++ exception.
 *
 * Addresses are those of the file (runtime address minus bias), so that nothing here depends on a process.
 * All strings and objects that are handed out live as long as the session. One thread at a time.
 */
#ifndef WATCHCTL_STEP_LLDB_LLDB_SHIM_H
#define WATCHCTL_STEP_LLDB_LLDB_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/trace/event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lldb_session; /* a debugger and a target; the process, if any, is lldb_shim_process.h's */
struct lldb_module;  /* a file of the session */
struct lldb_type;

/* "LLDB 19.1.7"; without LLDB "none". Constant. */
const char *lldb_shim_version(void);

/* WC_ENOTSUP: there is no LLDB, and what to install. @exe: a path that we can open; no process is made. */
struct wc_error *lldb_session_open(const char *exe, struct lldb_session **ret);
void lldb_session_close(struct lldb_session *s); /* accepts NULL */

/*
 * The file of @m, opened by its open_path if need be; the vdso is our own image of it. NULL in *ret: LLDB
 * cannot read it. The same file gives the same lldb_module.
 */
struct wc_error *lldb_session_module(struct lldb_session *s, const struct module *m,
				     struct lldb_module **ret);

/* A symbol of code. */
struct lldb_symbol {
	uint64_t address;
	uint64_t size; /* 0: not known */
	/* As the linker knows it (mangled, perhaps with "@VERSION"); NULL: LLDB has it from .eh_frame alone.
	 */
	const char *name;
	bool is_resolver; /* of an indirect function: code that chooses the function */
};

/* Calls @each for all, in no order; stops with an error when @each says false (no memory). */
struct wc_error *lldb_module_symbols(struct lldb_module *m,
				     bool (*each)(void *ctx, const struct lldb_symbol *symbol), void *ctx);

enum lldb_language {
	LLDB_LANGUAGE_OTHER,
	LLDB_LANGUAGE_C,
	LLDB_LANGUAGE_CPP,
	LLDB_LANGUAGE_RUST,
	LLDB_LANGUAGE_GO
};

struct lldb_param {
	const char *name; /* NULL: it has none */
	const struct lldb_type *type;
};

/* A function that has debug information. */
struct lldb_function {
	const char *name; /* as the linker knows it (mangled), where that is known */
	const char *file; /* path; NULL: not known */
	uint32_t line;	  /* 0: not known */
	enum lldb_language language;
	const struct lldb_type *result; /* of kind TYPE_VOID: none; NULL: not known */
	uint32_t nparams;
	const struct lldb_param *param; /* `this` and other hidden ones included */
};

/* The function whose code holds @address; NULL in *ret: there is no debug information about it. */
struct wc_error *lldb_module_function(struct lldb_module *m, uint64_t address,
				      const struct lldb_function **ret);

/* The type of the variable @name at @address; NULL in *ret: there is no debug information about it. */
struct wc_error *lldb_module_variable(struct lldb_module *m, const char *name, uint64_t address,
				      const struct lldb_type **ret);

/* The same of one that is declared in the function whose code holds @function. */
struct wc_error *lldb_module_static(struct lldb_module *m, uint64_t function, uint64_t address,
				    const struct lldb_type **ret);

struct lldb_member {
	const char *name; /* "": base class, or anonymous */
	const struct lldb_type *type;
	uint32_t offset;	      /* bytes */
	uint8_t bit_offset, bit_size; /* as in struct type_member */
	bool is_base;
};

/* What a type is. Typedefs keep their name and are otherwise what they stand for. */
struct lldb_type_info {
	enum type_kind kind;
	uint32_t size; /* bytes; 0: none, or not known */
	const char *name;
	bool is_signed;			/* TYPE_ENUM */
	bool is_vector;			/* TYPE_ARRAY that stands for a SIMD vector */
	bool is_complex;		/* TYPE_ARRAY of two floats that stands for a _Complex */
	bool is_incomplete;		/* TYPE_STRUCT, _UNION: only declared */
	const struct lldb_type *target; /* TYPE_POINTER, _STRING, _ARRAY; NULL: void, or not known */
	uint32_t nmembers;
	const struct lldb_member *member;
	uint32_t nenumerators;
	const struct enumerator *enumerator;
};

/* Made when it is first asked for. Never NULL: what cannot be known is TYPE_UNKNOWN. */
const struct lldb_type_info *lldb_type_info(const struct lldb_type *t);

#ifdef __cplusplus
}
#endif

#endif
