/* trigger_impl - what the compiler of triggers and their evaluation share: the condition as a tree. */
#ifndef WATCHCTL_VIEW_TRIGGER_TRIGGER_IMPL_H
#define WATCHCTL_VIEW_TRIGGER_TRIGGER_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/base/condition.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/code/reg_names.h"
#include "watchctl/view/trigger/trigger.h"

#define WATCHES_MAX 8u

/* What a word stands for, or a value. */
enum meaning_kind {
	MEANS_NOTHING, /* the node is an operator, or a constant */
	MEANS_NUMBER,  /* true, false, NULL */
	MEANS_NEW,
	MEANS_OLD,
	MEANS_SIZE,
	MEANS_THREAD,
	MEANS_HIT,   /* the name of the watch that was hit */
	MEANS_WATCH, /* index: its place in names */
	MEANS_KIND,  /* index: enum access_kind */
	MEANS_KERNEL,
	MEANS_REGISTER,	  /* reg */
	MEANS_ENUMERATOR, /* of the watch that it is compared with */
};

struct meaning {
	enum meaning_kind kind;
	size_t index;
	int64_t number;
	struct reg_name reg;
};

struct trigger {
	struct condition tree;
	struct meaning *means; /* of each node */
	char *name[WATCHES_MAX];
	unsigned int nnames;
	bool stack;
	bool of_access; /* it asks about the access, not only about the state after it */

	struct {
		bool known;
		const struct view_watch *watch;
		uint64_t raw;
		unsigned int size;
	} last[WATCHES_MAX];
	bool held;
	const char *unknown_word;
	void (*fire)(void *ctx, const struct view_access *a);
	void *ctx;
};

static inline bool trigger_means(const struct trigger *t, size_t i, enum meaning_kind kind)
{
	return t->means[i].kind == kind;
}

/* Which watch has the name @start; nnames: none. */
size_t trigger_watch(const struct trigger *t, const char *start, size_t n);

#endif
