#include "watchctl/view/event/last_capture.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

struct kept {
	struct view_capture capture; /* raw and frame point to what follows */
	struct capture_event raw;    /* without its frames */
	struct view_frame *frame;    /* names live as long as the symbolizer */
	size_t cap;
	bool valid;
};

static uint64_t thread_key(int32_t pid, int32_t tid)
{
	return (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
}

static struct kept *kept_of(struct last_captures *l, uint64_t key)
{
	struct kept *k = map64_get(&l->by_thread, key);

	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (k && !map64_put(&l->by_thread, key, k)) {
		free(k);
		return NULL;
	}
	return k;
}

void last_captures_put(struct last_captures *l, const struct view_capture *c)
{
	struct kept *k = kept_of(l, thread_key(c->raw->pid, c->raw->tid));

	if (!k)
		return;
	k->valid = vec_reserve((void **)&k->frame, &k->cap, c->nframes, sizeof(*k->frame));
	if (!k->valid)
		return;
	if (c->nframes)
		memcpy(k->frame, c->frame, c->nframes * sizeof(*k->frame));
	k->raw = *c->raw;
	k->raw.frame = NULL;
	k->raw.nframes = 0;
	k->capture = *c;
	k->capture.raw = &k->raw;
	k->capture.comm = NULL; /* may be replaced */
	k->capture.frame = k->frame;
}

const struct view_capture *last_captures_get(const struct last_captures *l, const struct view_access *a)
{
	const struct kept *k = map64_get(&l->by_thread, thread_key(a->raw->pid, a->raw->tid));

	return k && k->valid && k->capture.time.mono_ns <= a->time.mono_ns ? &k->capture : NULL;
}

void last_captures_deinit(struct last_captures *l)
{
	size_t i;

	for (i = 0; i < l->by_thread.cap; i++) {
		struct kept *k = l->by_thread.slot[i].used ? l->by_thread.slot[i].value : NULL;

		if (k) {
			free(k->frame);
			free(k);
		}
	}
	map64_deinit(&l->by_thread);
}
