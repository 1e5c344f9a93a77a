/* frames - the recorded addresses of a stack -> frames with names, inlined functions as frames too. */
#ifndef WATCHCTL_VIEW_EVENT_FRAMES_H
#define WATCHCTL_VIEW_EVENT_FRAMES_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/trampolines.h"
#include "watchctl/view/event/view.h"

struct frames {
	struct symbolizer *symbolizer;
	const struct map64 *code; /* pc -> struct code_fact */
	const struct trampolines *trampolines;
	/* address -> its frames, named once. Return addresses and exact ones differ: see frames.c */
	struct map64 exact, returns;
	struct view_frame *v; /* of the last stack */
	size_t n, cap;
};

/* All must outlive @f. */
void frames_init(struct frames *f, struct symbolizer *s, const struct map64 *code,
		 const struct trampolines *t);

/* Forgets all names: the modules have changed. */
void frames_flush(struct frames *f);
void frames_deinit(struct frames *f);

/* Fills f->v, f->n; valid until the next call. False: no memory. */
bool frames_expand(struct frames *f, const struct access_event *a, const struct access_verdict *verdict);

/* The same for @n >= 1 addresses: that of an instruction, and the return addresses of its callers. */
bool frames_expand_at(struct frames *f, const uint64_t *addr, uint32_t n);

/* The same for @n return addresses, innermost first; none is allowed. */
bool frames_expand_returns(struct frames *f, const uint64_t *addr, uint32_t n);

#endif
