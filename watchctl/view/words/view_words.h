/*
 * view_words - the words and numbers that every view shows alike: kinds of access, places, sources, values, durations, the
 * ends of walks, registers. What is stored in @buf is cut to @cap bytes, its NUL included.
 */
#ifndef WATCHCTL_VIEW_WORDS_VIEW_WORDS_H
#define WATCHCTL_VIEW_WORDS_VIEW_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/regs.h"
#include "watchctl/trace/event.h"

#define CELL_TEXT 512

const char *text_kind(enum access_kind kind);

/* As formats for programs name it: "read", "write", "readwrite", "execute", "unknown". */
const char *text_kind_name(enum access_kind kind);

/* What a watch is for, in words: "reads", "reads and writes" ... */
const char *text_access(uint32_t access);

/* "set_flag+26", "libfoo.so+0x1234", "0x7f..". */
void text_place(const char *module, uint64_t module_offset, const char *function, uint64_t offset,
		uint64_t ip, char *buf, size_t cap);

/* "app.c:17"; "" when not known. */
void text_source(const char *file, unsigned int line, char *buf, size_t cap);

/* How the old value of an access stands to the new one. */
enum text_step {
	STEP_CHANGES, /* or one of them is not known */
	STEP_SAME,
	STEP_UNCERTAIN, /* access_event.old_uncertain */
};

enum text_step text_step_of(const struct value_type *t, unsigned int size, bool has_both, bool uncertain,
			    uint64_t old_value, uint64_t new_value);

/* "41 -> 42", "42" for reads, "42 (same)", "~41 -> 42" where the old value is uncertain, "?" for what is not known. */
void text_change(enum access_kind kind, const char *old_text, const char *new_text, enum text_step step,
		 char *buf, size_t cap);

/* "42"; what is too large to be a number that people read, in hexadecimal. */
void text_number(uint64_t v, char *buf, size_t cap);

/* "12.3 us" */
void text_duration(uint64_t ns, char *buf, size_t cap);

/* "libc.so.6" */
const char *text_base_name(const char *path);

/* Why there are no more frames, as a sentence; NULL: there are no more. */
const char *text_walk_end(enum walk_end why);

/* As formats for programs name it: "complete", "depth", "no_rule" ... */
const char *text_walk_end_name(enum walk_end why);

/* "rax", "fs_base" ... */
const char *text_reg_name(enum reg r);

#endif
