/*
 * library_plan - what is to be done in a process that has loaded a drop-in library: the library that is meant, patterns with the
 * functions that run there, and the compiled probes. It lies in the drop-in's file, and any file may say that it has one.
 */
#ifndef WATCHCTL_PATCH_LIBRARY_LIBRARY_PLAN_H
#define WATCHCTL_PATCH_LIBRARY_LIBRARY_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/code/elf/module.h"

struct library_rule {
	const char *pattern, *function;
	unsigned int when; /* enum probe_when */
};

struct library_plan {
	const char *soname;
	uint8_t build_id[BUILD_ID_MAX]; /* of the original */
	unsigned int build_id_len;	/* 0: it has none, and is known by: */
	uint64_t size, hash;		/* of its file */
	const char *only;		/* a glob of functions; NULL: in any */
	uint32_t slots, stack_bytes, frames;
	struct library_rule *rule; /* owned; the texts are not */
	size_t nrules, rule_cap;
	const uint8_t *probes; /* the shared object, aligned to 8 in the written plan; not owned */
	size_t probes_size;
};

/* @to->failed: no memory. */
void library_plan_write(const struct library_plan *p, struct text_buf *to);

/* Of any bytes; @bytes must be aligned to 8 and stay. WC_ENAME: they are no plan, or one of another watchctl. */
struct wc_error *library_plan_read(const uint8_t *bytes, size_t size, struct library_plan *ret);

void library_plan_deinit(struct library_plan *p); /* accepts zeros */

#endif
