/* last_capture - of each thread, the last of some captures. */
#ifndef WATCHCTL_VIEW_EVENT_LAST_CAPTURE_H
#define WATCHCTL_VIEW_EVENT_LAST_CAPTURE_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

/* Zero-initialised is empty. */
struct last_captures {
	struct map64 by_thread;
};

/* Keeps @c instead of its thread's last one. Where there is no memory for it, the thread has none. */
void last_captures_put(struct last_captures *l, const struct view_capture *c);

/* The last one by @a's thread, unless it is younger than @a; NULL: none. Valid until the next put. */
const struct view_capture *last_captures_get(const struct last_captures *l, const struct view_access *a);

void last_captures_deinit(struct last_captures *l);

#endif
