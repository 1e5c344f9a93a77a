#include "watchctl/view/export/export_calls.h"

#include <assert.h>
#include <stdlib.h>

#include "watchctl/base/vec.h"

struct export_thread *export_thread_get(struct export_threads *t, int32_t pid, int32_t tid)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	struct export_thread *th = map64_get(&t->by_key, key);

	if (th)
		return th;
	th = calloc(1, sizeof(*th));
	if (!th || !vec_reserve((void **)&t->v, &t->cap, t->n + 1, sizeof(struct export_thread *)) ||
	    !map64_put(&t->by_key, key, th)) {
		free(th);
		return NULL;
	}
	th->pid = pid;
	th->tid = tid;
	t->v[t->n++] = th;
	return th;
}

size_t export_calls_ended_by(const struct export_thread *th, const struct view_call *c)
{
	return th->nopen > c->depth ? th->nopen - c->depth : 0;
}

size_t export_calls_ended_with(const struct export_thread *th, uint64_t number)
{
	size_t n;

	for (n = 1; n <= th->nopen; n++)
		if (th->open[th->nopen - n].call == number)
			return n;
	return 0;
}

void export_calls_pop(struct export_threads *t, struct export_thread *th)
{
	assert(th->nopen);
	th->nopen--;
	t->nopen--;
}

bool export_calls_push(struct export_threads *t, struct export_thread *th, const struct view_call *c)
{
	const struct export_open_call open = { .call = c->raw->call, .function = c->function };

	if (!vec_push(th->open, th->nopen, th->cap, open))
		return false;
	t->nopen++;
	return true;
}

uint64_t export_thread_time(struct export_thread *th, uint64_t time_ns)
{
	if (time_ns > th->last_ns)
		th->last_ns = time_ns;
	return th->last_ns;
}

const struct view_frame *export_calls_frames(const struct export_thread *th, size_t max,
					     struct view_frame **buf, size_t *cap)
{
	size_t n = th->nopen < max ? th->nopen : max, i;

	if (!vec_reserve((void **)buf, cap, n, sizeof(**buf)))
		return NULL;
	for (i = 0; i < n; i++) {
		const struct view_function *f = th->open[th->nopen - 1 - i].function;

		(*buf)[i] = (struct view_frame){ .module = f->e.module,
						 .module_offset = f->e.address,
						 .function = f->text,
						 .file = f->e.file,
						 .line = f->e.line };
	}
	return *buf;
}

void export_threads_deinit(struct export_threads *t)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		free(t->v[i]->open);
		free(t->v[i]->user);
		free(t->v[i]);
	}
	free(t->v);
	map64_deinit(&t->by_key);
}
