/* tag_host - what the collector of captures knows of its surroundings: the program's memory, and where events go. */
#ifndef WATCHCTL_TRACE_TAGS_TAG_HOST_H
#define WATCHCTL_TRACE_TAGS_TAG_HOST_H

#include <stdint.h>
#include <sys/types.h>

#include "watchctl/trace/event.h"
#include "watchctl/trace/tags/tag_ring.h"
#include "watchctl/trace/tags/tag_table.h"

struct tag_thread {
	pid_t pid, tid;
	char comm[COMM_LEN + 1];
};

/* What a collector needs of whoever made it. All of it must outlive the collector. */
struct tag_host {
	struct tag_memory memory;
	struct event_sink sink;
	struct tag_table *tags;
	/*
	 * Called before a capture with a stack not seen of late is put: makes known the modules that hold its
	 * code. NULL: no need.
	 */
	struct wc_error *(*know)(void *ctx, const uint64_t *frame, uint32_t n, uint64_t time_ns);
	/*
	 * Called in each poll when captures have been taken, before they are put: what it finds mapped is
	 * what they saw, or younger. NULL: no need.
	 */
	struct wc_error *(*taken)(void *ctx);
	/*
	 * The thread that has the id @owner in the program, as the log is to name it. @ret->comm is preset
	 * with what the program says, "" when it says nothing.
	 */
	void (*thread)(void *ctx, uint32_t owner, struct tag_thread *ret);
	void *ctx; /* of both */
};

#endif
