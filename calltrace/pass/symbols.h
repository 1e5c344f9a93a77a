/*
 * symbols - a line of JSON for each function of a module: whether it is traced, and why. For people and for jq; watchctl
 * needs none of it, as the table in the program has what it needs.
 *
 *	{"id":"8c1f3e0a5d2b9f01","module":"app.c","linkage_name":"_Z4workv","demangled_name":"work()","file":"/src/app.c",
 *	 "line":12,"ir_instruction_count":40,"instrumented":false,"reason":"[[block]] small ones"}
 *
 * "file" and "line" are left out where they are not known.
 */
#ifndef CALLTRACE_PASS_SYMBOLS_H
#define CALLTRACE_PASS_SYMBOLS_H

#include "calltrace/pass/choice.h"
#include "watchctl/base/text_buf.h"

/* FNV-1a, 32 bits of it: half of a function's id. */
uint32_t symbol_hash(const char *text, size_t len);

/* The same in every build of the same source: the module's half, and the function's. */
static inline uint64_t symbol_id(uint32_t module, const struct choice *c, size_t name_len)
{
	return (uint64_t)module << 32 | symbol_hash(c->linkage_name, name_len);
}

/* Appends the lines of @c to @t. */
void symbols_put(struct text_buf *t, const struct choices *c, const char *module);

/* Writes @t to the file @path: in place of what is there, or (@append) behind it, at once. WC_EFAIL: it cannot. */
struct wc_error *symbols_write(const char *path, const struct text_buf *t, bool append);

#endif
