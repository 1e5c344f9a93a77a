/* trigger_impl - what the parser of triggers and their evaluation share: the condition as a tree. */
#ifndef WATCHCTL_VIEW_TRIGGER_TRIGGER_IMPL_H
#define WATCHCTL_VIEW_TRIGGER_TRIGGER_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/trigger/trigger.h"

#define WATCHES_MAX 8u

enum node_kind {
	/* Truths */
	NODE_EITHER,
	NODE_BOTH,
	NODE_NOT,
	NODE_COMPARE,
	NODE_CALLER,
	NODE_KIND, /* of access: .number.u is an enum access_kind */
	NODE_KERNEL,
	NODE_HOLDS, /* a value that is not 0 */
	/* Values */
	NODE_NUMBER,
	NODE_TEXT,
	NODE_WORD, /* an enumerator of the watch that it is compared with */
	NODE_NEW,
	NODE_OLD,
	NODE_SIZE,
	NODE_THREAD,
	NODE_HIT,   /* the name of the watch that was hit */
	NODE_WATCH, /* .number.u is its place in names */
};

enum compare_op { EQUAL, NOT_EQUAL, LESS, NOT_GREATER, GREATER, NOT_LESS };

struct node {
	enum node_kind kind;
	enum compare_op op;
	size_t a, b;		    /* operands: places in nodes */
	struct value_number number; /* NODE_NUMBER */
	size_t index;		    /* NODE_WATCH, NODE_KIND */
	char *text;		    /* NODE_CALLER, NODE_TEXT, NODE_WORD */
};

struct trigger {
	char *text;
	const char *at; /* while it is parsed */
	unsigned int depth;
	struct wc_error *err;

	struct node *v;
	size_t n, cap, root;
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

static inline bool trigger_is(const struct trigger *t, size_t i, enum node_kind kind)
{
	return t->v[i].kind == kind;
}

/* Which watch has the name @start; nnames: none. */
size_t trigger_watch(const struct trigger *t, const char *start, size_t n);

#endif
