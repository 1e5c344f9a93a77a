#include "watchctl/monitor/calls/call_files.h"

#include <stdlib.h>

#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/calls/call_writer.h"

struct thread_file {
	pid_t tid;
	struct call_stream stream;
	uint64_t *open; /* calls, outermost first */
	size_t n, cap;
};

struct call_files {
	struct call_writer *writer;
	pid_t pid;
	struct map64 by_tid;
	struct thread_file **thread;
	size_t n, cap;
	struct thread_file *last;
};

struct wc_error *call_files_open(const char *log, pid_t pid, struct call_files **ret)
{
	struct call_files *f = calloc(1, sizeof(*f));
	struct wc_error *err;

	if (!f)
		return &wc_enomem;
	f->pid = pid;
	err = call_writer_open(log, &f->writer);
	if (err)
		free(f);
	else
		*ret = f;
	return err;
}

static struct wc_error *new_file(struct call_files *f, pid_t tid, struct thread_file **ret)
{
	struct thread_file *t = calloc(1, sizeof(*t));
	struct wc_error *err;

	if (!t)
		return &wc_enomem;
	t->tid = tid;
	err = call_stream_open(f->writer, f->pid, tid, &t->stream);
	if (err) {
		free(t);
		return err;
	}
	if (!vec_push(f->thread, f->n, f->cap, t) || !map64_put(&f->by_tid, (uint64_t)tid, t))
		return &wc_enomem;
	*ret = f->last = t;
	return NULL;
}

static struct thread_file *find(struct call_files *f, pid_t tid)
{
	if (!f->last || f->last->tid != tid)
		f->last = map64_get(&f->by_tid, (uint64_t)tid);
	return f->last;
}

static uint32_t values_len(uint32_t len)
{
	return len <= CALL_BESIDES_MAX - sizeof(int32_t) ? len : 0;
}

struct wc_error *call_files_enter(struct call_files *f, const struct call_event *c, uint64_t time_ns)
{
	struct thread_file *t = find(f, c->tid);
	struct wc_error *err = t ? NULL : new_file(f, c->tid, &t);
	const uint8_t flags = c->flags & (CALL_TAIL | CALL_SIGNAL);

	if (err)
		return err;
	if (!vec_push(t->open, t->n, t->cap, c->call))
		return &wc_enomem;
	if (!flags && !c->values_len) {
		call_stream_put(&t->stream, CALL_ENTRY, time_ns, c->function);
		return NULL;
	}
	const struct call_besides b = { .mark = flags ? call_mark(flags, 0, c->function) : 0,
					.values = c->values,
					.values_len = values_len(c->values_len) };

	call_stream_put_with(&t->stream, CALL_ENTRY, time_ns, c->function, &b);
	return NULL;
}

struct wc_error *call_files_end(struct call_files *f, const struct return_event *r, uint64_t time_ns)
{
	const enum call_what what = r->how == RETURN_RETURNED ? CALL_EXIT : CALL_EXIT_UNSEEN;
	struct thread_file *t = find(f, r->tid);
	struct call_besides b = { .values = r->values,
				  .values_len = values_len(r->values_len),
				  .has_error = r->has_error,
				  .error = r->error };
	size_t i;

	if (!t)
		return NULL;
	i = t->n;
	while (i && t->open[i - 1] != r->call)
		i--;
	/* So deep in others that it cannot be said: it never comes to that. */
	if (!i || t->n - i > CALL_MARK_INSIDE_MAX)
		return NULL;
	if (what != CALL_EXIT || i != t->n)
		b.mark = call_mark(what == CALL_EXIT ? 0 : r->how, (uint32_t)(t->n - i), r->function);
	if (b.mark || b.values_len || b.has_error)
		call_stream_put_with(&t->stream, what, time_ns, r->function, &b);
	else
		call_stream_put(&t->stream, what, time_ns, r->function);
	for (; i < t->n; i++)
		t->open[i - 1] = t->open[i];
	t->n--;
	return NULL;
}

struct wc_error *call_files_flush(struct call_files *f)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < f->n; i++)
		err = wc_error_first(err, call_stream_flush(&f->thread[i]->stream));
	return err;
}

static struct wc_error *close_file(struct thread_file *t)
{
	struct wc_error *err = call_stream_close(&t->stream);

	free(t->open);
	free(t);
	return err;
}

struct wc_error *call_files_end_thread(struct call_files *f, pid_t tid)
{
	struct thread_file *t = find(f, tid);
	size_t i = 0;

	if (!t)
		return NULL;
	while (f->thread[i] != t)
		i++;
	f->thread[i] = f->thread[--f->n];
	f->last = NULL;
	map64_put(&f->by_tid, (uint64_t)tid, NULL);
	return close_file(t);
}

struct wc_error *call_files_close(struct call_files *f)
{
	struct wc_error *err = NULL;

	if (!f)
		return NULL;
	for (size_t i = 0; i < f->n; i++)
		err = wc_error_first(err, close_file(f->thread[i]));
	free(f->thread);
	map64_deinit(&f->by_tid);
	call_writer_close(f->writer);
	free(f);
	return err;
}
