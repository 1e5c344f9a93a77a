/*
 * Text as `perf script --ns` prints it, for the tools that read that: a line for each access, captured stack and call, as for
 * a tracepoint, and its stack below it, innermost frame first.
 *
 *	worker   77/78    1000.000002000: watchctl:access: watch=flag kind=write old=41 new=42
 *	          401130 set_flag+0x2 (/usr/bin/app)
 *
 * Those tools split lines by patterns: no word holds a blank, a name of a thread does not begin with a '#' (a
 * comment), that of a function not with a '(' (a process, which stackcollapse leaves out).
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/export/export_text.h"
#include "watchctl/view/words/view_words.h"

#define ANONYMOUS "(anonymous namespace)"
#define DEEPEST 1024 /* frames of a call: as in export_stacks */

struct perf_writer {
	struct export_writer w;
	struct text_buf t;
	struct export_threads threads;
	struct view_frame *frame;
	size_t cap;
};

/* Clean, and one word. */
static void put_word(struct text_buf *t, const char *s)
{
	const char *plain = s;
	char buf[8];
	size_t n;

	while ((unsigned char)*plain > 0x20 && (unsigned char)*plain < 0x7f)
		plain++;
	text_buf_put(t, s, (size_t)(plain - s));
	while ((n = export_clean_char(&plain, buf))) {
		/* U+00A0 and its like are blanks to some readers. */
		bool blank = *buf == ' ' || (n == 2 && !memcmp(buf, "\xc2\xa0", 2)) ||
			     (n == 3 && (!memcmp(buf, "\xe2\x80", 2) || !memcmp(buf, "\xe3\x80\x80", 3) ||
					 !memcmp(buf, "\xe1\x9a\x80", 3) || !memcmp(buf, "\xe2\x81\x9f", 3)));

		text_buf_put(t, blank ? "_" : buf, blank ? 1 : n);
	}
}

static void export_perf_begin(struct perf_writer *p, int32_t pid, int32_t tid, const char *comm,
			      struct view_time time, const char *event)
{
	text_buf_empty(&p->t);
	if (!comm || !*comm)
		text_buf_printf(&p->t, ":%d", tid);
	else if (*comm == '#')
		text_buf_char(&p->t, '_');
	put_word(&p->t, comm ? comm : "");
	text_buf_printf(&p->t, " %7d/%-7d %5llu.%09llu: watchctl:%s:", pid, tid,
			(unsigned long long)(time.mono_ns / 1000000000u),
			(unsigned long long)(time.mono_ns % 1000000000u), event);
}

static void put_field(struct perf_writer *p, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	text_buf_printf(&p->t, " %s=", name);
	put_word(&p->t, value);
}

static void put_function(struct text_buf *t, const char *name)
{
	if (!strncmp(name, ANONYMOUS, strlen(ANONYMOUS))) {
		text_buf_add(t, "{anonymous}");
		name += strlen(ANONYMOUS);
	} else if (*name == '(') {
		text_buf_char(t, '{');
		name++;
	}
	export_text_clean(t, name);
}

static void put_frame(struct perf_writer *p, const struct view_frame *f)
{
	struct text_buf *t = &p->t;

	text_buf_char(t, '\t');
	text_buf_hex(t, f->ip, 16);
	text_buf_char(t, ' ');
	if (f->signal)
		text_buf_add(t, "[signal]");
	else if (!f->function || !*f->function)
		text_buf_add(t, "[unknown]");
	else
		put_function(t, f->function);
	if (f->function && *f->function && !f->inlined && !f->signal && f->ip) {
		text_buf_add(t, "+0x");
		text_buf_hex(t, f->offset, 0);
	}
	text_buf_add(t, " (");
	put_word(t, f->inlined ? "inlined" : f->module && *f->module ? f->module : "[unknown]");
	text_buf_add(t, ")\n");
}

static void export_perf_end(struct perf_writer *p, const struct view_frame *frame, size_t nframes,
			    enum walk_end why)
{
	size_t i;

	text_buf_char(&p->t, '\n');
	for (i = 0; i < nframes; i++)
		put_frame(p, &frame[i]);
	/* In place of the frames that are missing, so that it is not taken for a whole one. */
	if (why != WALK_END_COMPLETE)
		text_buf_printf(&p->t, "\t%16x [%s] ([unknown])\n", 0, text_walk_end_name(why));
	text_buf_char(&p->t, '\n');
	if (p->t.failed)
		export_fail(&p->w, &wc_enomem);
	else
		fwrite(p->t.bytes, 1, p->t.len, export_out_file(p->w.out));
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct perf_writer *p = ctx;

	export_perf_begin(p, a->raw->pid, a->raw->tid, a->comm, a->time, "access");
	put_field(p, "watch", a->watch->e.name);
	put_field(p, "kind", text_kind_name(a->kind));
	put_field(p, "old", a->old_text);
	put_field(p, "new", a->new_text);
	text_buf_printf(&p->t, " addr=0x%llx", (unsigned long long)a->raw->addr);
	export_perf_end(p, a->frame, a->nframes, a->walk_end);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct perf_writer *p = ctx;

	export_perf_begin(p, c->raw->pid, c->raw->tid, c->comm, c->time, "stack");
	put_field(p, "tag", c->tag->text);
	if (c->raw->has_value)
		text_buf_printf(&p->t, " value=0x%llx", (unsigned long long)c->raw->value);
	else if (c->raw->withheld)
		text_buf_printf(&p->t, " value=%s", view_withheld);
	export_perf_end(p, c->frame, c->nframes, c->walk_end);
}

static void on_probe(void *ctx, const struct view_probe *v)
{
	struct perf_writer *p = ctx;

	export_perf_begin(p, v->raw->pid, v->raw->tid, v->comm, v->time, "probe");
	put_field(p, "probe", v->site->probe);
	put_field(p, "text", v->text);
	export_perf_end(p, v->frame, v->nframes, v->walk_end);
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct perf_writer *p = ctx;
	struct export_thread *th = export_thread_get(&p->threads, c->raw->pid, c->raw->tid);
	const struct view_frame *frame = NULL;
	size_t n;

	if (th) {
		for (n = export_calls_ended_by(th, c); n; n--)
			export_calls_pop(&p->threads, th);
		if (export_calls_push(&p->threads, th, c))
			frame = export_calls_frames(th, DEEPEST, &p->frame, &p->cap);
	}
	if (!frame) {
		export_fail(&p->w, &wc_enomem);
		return;
	}
	export_perf_begin(p, c->raw->pid, c->raw->tid, c->comm, c->time, "call");
	text_buf_printf(&p->t, " call=%llu", (unsigned long long)c->raw->call);
	export_perf_end(p, frame, th->nopen < DEEPEST ? th->nopen : DEEPEST,
			th->nopen <= DEEPEST ? WALK_END_COMPLETE : WALK_END_DEPTH);
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct perf_writer *p = ctx;
	struct export_thread *th = export_thread_get(&p->threads, r->raw->pid, r->raw->tid);
	size_t n = th ? export_calls_ended_with(th, r->raw->call) : 0;

	for (; n; n--)
		export_calls_pop(&p->threads, th);
}

static void perf_free(struct export_writer *w)
{
	struct perf_writer *p = (struct perf_writer *)w;

	text_buf_deinit(&p->t);
	export_threads_deinit(&p->threads);
	free(p->frame);
	free(p);
}

struct export_writer *export_perf_new(void)
{
	static const struct view_ops ops = {
		.access = on_access,
		.capture = on_capture,
		.probe = on_probe,
		.call = on_call,
		.ret = on_return,
	};
	struct perf_writer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->w = (struct export_writer){ .ops = &ops, .free = perf_free };
	return &p->w;
}
