/* tag_names - the tags of a stream, by their ids in it. */
#ifndef WATCHCTL_VIEW_EVENT_TAG_NAMES_H
#define WATCHCTL_VIEW_EVENT_TAG_NAMES_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

/* Zero-initialised is empty. */
struct tag_names {
	struct map64 by_id; /* -> struct view_tag */
};

/* Takes in what the stream reported. A tag re-emitted keeps its place. False: no memory. */
bool tag_names_add(struct tag_names *t, const struct tag_event *e);

/* The tag @id; one that was never told is made up ("tag 7"), so that its captures are not lost. NULL: no
 * memory. */
struct view_tag *tag_names_get(struct tag_names *t, uint32_t id);

void tag_names_deinit(struct tag_names *t);

/* True if @text is what a user calls @tag: its name, or its number in decimal, octal or hexadecimal. */
bool tag_is(const struct view_tag *tag, const char *text);

#endif
