#include "watchctl/view/diff/diff_marks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/progress.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/diff/base/diff_hash.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/words/view_words.h"

#define STACK_TEXT 8192

/* One log on its way in. */
struct intake {
	struct diff_marks *m;
	const struct diff_marks_options *o;
	struct map64 *texts;  /* hash -> index + 1 */
	struct map64 streams; /* hash of the name -> index + 1; shared by both logs */
	bool is_b;
	bool over; /* what comes is behind a gap */
	bool no_memory;
	struct event_sink to;
	struct map64 thread_numbers; /* tid -> its number among those of one name, plus 1 */
	struct map64 thread_names;   /* hash of a name -> how many */
};

static uint32_t intern(struct intake *in, const char *text)
{
	uint64_t h = diff_mix_text(5, text);
	uintptr_t index = (uintptr_t)map64_get(in->texts, h);
	char *copy;

	if (index && !strcmp(in->m->text[index - 1], text))
		return (uint32_t)index - 1;
	copy = strdup(text);
	if (!copy || !vec_push(in->m->text, in->m->ntexts, in->m->texts_cap, copy)) {
		free(copy);
		in->no_memory = true;
		return 0;
	}
	in->no_memory |= !map64_put(in->texts, h, (void *)(uintptr_t)in->m->ntexts);
	return (uint32_t)in->m->ntexts - 1;
}

static struct diff_stream *stream_of(struct intake *in, const char *name, bool is_tag)
{
	uint64_t h = diff_mix_text(is_tag ? 7 : 6, name);
	uintptr_t index = (uintptr_t)map64_get(&in->streams, h);
	struct diff_stream s = { .is_tag = is_tag };

	if (index)
		return &in->m->v[index - 1];
	s.name = strdup(name);
	if (!s.name || !vec_push(in->m->v, in->m->n, in->m->cap, s) ||
	    !map64_put(&in->streams, h, (void *)(uintptr_t)in->m->n)) {
		in->no_memory = true;
		return NULL;
	}
	return &in->m->v[in->m->n - 1];
}

static void diff_marks_add(struct intake *in, struct diff_stream *s, const struct diff_mark *mark)
{
	bool ok;

	if (!s)
		return;
	ok = in->is_b ? vec_push(s->b, s->nb, s->b_cap, *mark) : vec_push(s->a, s->na, s->a_cap, *mark);
	in->no_memory |= !ok;
}

/* Texts */

static void frame_text(const struct intake *in, const struct view_frame *f, char *buf, size_t cap)
{
	if (in->o->by_name && f->function)
		snprintf(buf, cap, "%s", f->function);
	else
		text_place(f->module, f->module_offset, f->function, f->offset, f->ip, buf, cap);
}

/* One frame a line; where it lies in the source stands behind it. */
static void stack_text(const struct intake *in, const struct view_frame *f, size_t n, char *buf, size_t cap)
{
	char place[CELL_TEXT], source[CELL_TEXT];
	size_t used = 0, i;

	buf[0] = '\0';
	for (i = 0; i < n && used + 1 < cap; i++) {
		frame_text(in, &f[i], place, sizeof(place));
		text_source(f[i].file, f[i].line, source, sizeof(source));
		used += (size_t)snprintf(buf + used, cap - used, "%s#%zu %s%s%s", i ? "\n" : "", i, place,
					 *source ? "  " : "", source);
	}
}

/* Return addresses of stacks in code that ASLR moves are not equal: their places are. */
static uint64_t stack_hash(const struct intake *in, const struct view_frame *f, size_t n)
{
	char place[CELL_TEXT];
	uint64_t h = 8;
	size_t i;

	for (i = 0; i < n; i++) {
		frame_text(in, &f[i], place, sizeof(place));
		h = diff_mix_text(h, place);
	}
	return h;
}

/* "worker #2": the second thread of that name. */
static void thread_text(struct intake *in, int32_t tid, const char *comm, char *buf, size_t cap)
{
	uintptr_t number = (uintptr_t)map64_get(&in->thread_numbers, (uint32_t)tid), count;
	uint64_t h = diff_mix_text(9, comm ? comm : "");

	if (!number) {
		count = (uintptr_t)map64_get(&in->thread_names, h) + 1;
		number = count;
		in->no_memory |= !map64_put(&in->thread_names, h, (void *)count) ||
				 !map64_put(&in->thread_numbers, (uint32_t)tid, (void *)number);
	}
	snprintf(buf, cap, "%s #%" PRIuPTR, comm && *comm ? comm : "thread", number);
}

static uint32_t fold32(uint64_t h)
{
	return (uint32_t)(h ^ h >> 32);
}

/* Views */

static uint64_t value_hash(const struct view_access *a)
{
	const struct access_event *e = a->raw;
	bool pointer = a->watch->e.type.kind == VALUE_POINTER;
	bool has_old = e->has_old && !e->old_uncertain;
	uint64_t h = e->has_new + 2 * has_old;

	/* Another run's addresses are others. */
	h = diff_mix(h, has_old ? (pointer ? e->old_value != 0 : e->old_value) : 0);
	return diff_mix(h, e->has_new ? (pointer ? e->new_value != 0 : e->new_value) : 0);
}

/* It is compared, but not to be shown. */
static bool is_hidden(const struct intake *in, const char *name, bool (*names)(const char *, const char *))
{
	const struct redact_rules *r = &in->o->redact;
	size_t i;

	for (i = 0; !r->all && i < r->n && !names(r->name[i], name); i++)
		;
	return r->all || i < r->n;
}

static void note_withheld(struct diff_stream *s, bool withheld)
{
	if (s && withheld)
		s->withheld = true;
}

static void on_access(void *ctx, const struct view_access *a)
{
	char text[STACK_TEXT], value[CELL_TEXT];
	struct intake *in = ctx;
	const char *name = a->watch->e.full_name ? a->watch->e.full_name : a->watch->e.name;
	struct diff_mark mark = { .time_ns = a->time.mono_ns };
	struct diff_stream *stream;
	uint64_t key;

	if (in->over)
		return;
	if (a->nframes) {
		frame_text(in, &a->frame[0], text, sizeof(text));
	} else {
		snprintf(text, sizeof(text), "0x%" PRIx64, a->ip);
	}
	snprintf(value, sizeof(value), "%s by %.400s%s", text_kind(a->kind), text,
		 a->origin == ORIGIN_KERNEL ? " (the kernel)" : "");
	mark.place = intern(in, value);
	key = diff_mix_text(1, value);
	text_change(a->kind, a->old_text, a->new_text,
		    text_step_of(&a->watch->e.type, a->raw->size, a->raw->has_old && a->raw->has_new,
				 a->raw->old_uncertain, a->raw->old_value, a->raw->new_value),
		    value, sizeof(value));
	if (is_hidden(in, a->watch->e.name, redact_names_watch) ||
	    (a->watch->e.full_name && is_hidden(in, a->watch->e.full_name, redact_names_watch)))
		snprintf(value, sizeof(value), "%s", view_withheld);
	mark.value = intern(in, value);
	stack_text(in, a->frame, a->nframes, text, sizeof(text));
	mark.stack = intern(in, text);
	thread_text(in, a->raw->tid, a->comm, value, sizeof(value));
	mark.thread = intern(in, value);
	mark.item.key = mark.item.shape = fold32(key);
	mark.item.exact = diff_mix(key, value_hash(a));
	stream = stream_of(in, name ? name : "?", false);
	note_withheld(stream, a->raw->withheld & WITHHELD_VALUES);
	diff_marks_add(in, stream, &mark);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	char text[STACK_TEXT], thread[CELL_TEXT], name[2 * CELL_TEXT];
	struct intake *in = ctx;
	struct diff_mark mark = { .time_ns = c->time.mono_ns };
	uint64_t key = stack_hash(in, c->frame, c->nframes);
	struct diff_stream *stream;

	if (in->over)
		return;
	stack_text(in, c->frame, c->nframes, text, sizeof(text));
	mark.stack = intern(in, text);
	text[strcspn(text, "\n")] = '\0';
	mark.place = intern(in, text[0] ? text + 3 : "?");
	if (c->raw->withheld || (c->raw->has_value && is_hidden(in, c->tag->text, redact_names_tag)))
		snprintf(text, sizeof(text), "%s", view_withheld);
	else if (c->raw->has_value)
		text_number(c->raw->value, text, sizeof(text));
	else
		text[0] = '\0';
	mark.value = intern(in, text);
	thread_text(in, c->raw->tid, c->comm, thread, sizeof(thread));
	mark.thread = intern(in, thread);
	mark.item.key = mark.item.shape = fold32(key);
	mark.item.exact = diff_mix(key, c->raw->has_value ? c->raw->value + 1 : 0);
	snprintf(name, sizeof(name), "%s, thread %s", c->tag->text, thread);
	stream = stream_of(in, name, true);
	note_withheld(stream, c->raw->withheld);
	diff_marks_add(in, stream, &mark);
}

/* What comes behind a gap is not compared. */
static void on_missing(void *ctx, const struct view_event *e)
{
	struct intake *in = ctx;

	in->over |= e->raw->missing.bytes != 0;
}

static struct wc_error *diff_marks_put(void *ctx, const struct trace_event *e)
{
	struct intake *in = ctx;

	return e->type == EVENT_SYMBOL && in->o->no_names ? NULL : in->to.put(in->to.ctx, e);
}

static struct wc_error *read_log(struct intake *in, const char *path)
{
	static const struct view_subscription events[] = {
		{ EVENT_MISSING, on_missing },
		{ 0 },
	};
	static const struct view_ops ops = { .access = on_access, .capture = on_capture, .events = events };
	scoped(annotate_freep) struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT);
	scoped(reorder_freep) struct reorder *order = NULL;
	struct replay_ending ending;
	struct wc_error *err;

	if (!a)
		return &wc_enomem;
	annotate_add_view(a, (struct view){ &ops, in });
	order = reorder_new(annotate_sink(a));
	if (!order)
		return &wc_enomem;
	if (in->o->progress)
		progress_phase(in->o->progress,
			       in->is_b ? "reading the accesses of the bad run" : "reading the accesses");
	in->over = false;
	in->to = reorder_sink(order);
	err = replay_shown(path, (struct event_sink){ diff_marks_put, in }, stdout, in->o->progress, &ending);
	if (!err)
		err = reorder_flush(order);
	map64_deinit(&in->thread_numbers);
	map64_deinit(&in->thread_names);
	return err ? err : in->no_memory ? &wc_enomem : NULL;
}

/* Comparing */

static void first(struct diff_stream *s, uint32_t a, uint32_t b)
{
	if (s->has_first)
		return;
	s->has_first = true;
	s->first_a = a;
	s->first_b = b;
}

/* [a0, a1) and [b0, b1) have no mates. */
static void gap(struct diff_stream *s, uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1)
{
	if (a0 == a1 && b0 == b1)
		return;
	s->only_a += a1 - a0;
	s->only_b += b1 - b0;
	first(s, a0 < a1 ? a0 : NO_MATE, b0 < b1 ? b0 : NO_MATE);
}

static bool align(struct diff_stream *s, const struct diff_marks_options *o)
{
	const struct diff_sequence a = { .base = s->a, .stride = sizeof(*s->a), .n = (uint32_t)s->na },
				   b = { .base = s->b, .stride = sizeof(*s->b), .n = (uint32_t)s->nb };
	scoped(freep) uint32_t *mate = malloc((s->na + 1) * sizeof(*mate));
	uint32_t a0 = 0, b0 = 0, i;

	for (i = 0; s->withheld && i < s->na; i++)
		s->a[i].item.exact = s->a[i].item.key;
	for (i = 0; s->withheld && i < s->nb; i++)
		s->b[i].item.exact = s->b[i].item.key;
	if (!mate || !diff_align(&a, &b, mate))
		return false;
	for (i = 0; i < s->na; i++) {
		if (mate[i] == NO_MATE)
			continue;
		gap(s, a0, i, b0, mate[i]);
		if (s->a[i].item.exact != s->b[mate[i]].item.exact) {
			s->values++;
			first(s, i, mate[i]);
		}
		a0 = i + 1;
		b0 = mate[i] + 1;
	}
	if (o->cut_b)
		s->na = a0;
	if (o->cut_a)
		s->nb = b0;
	gap(s, a0, (uint32_t)s->na, b0, (uint32_t)s->nb);
	return true;
}

static bool count(struct diff_stream *s, struct map64 *rows, uint32_t place, bool is_b)
{
	uintptr_t index = (uintptr_t)map64_get(rows, place);

	if (!index) {
		if (!vec_push(s->row, s->nrows, s->rows_cap, (struct diff_marks_row){ .place = place }) ||
		    !map64_put(rows, place, (void *)(uintptr_t)s->nrows))
			return false;
		index = s->nrows;
	}
	*(is_b ? &s->row[index - 1].b : &s->row[index - 1].a) += 1;
	return true;
}

static uint64_t distance(const struct diff_marks_row *r)
{
	return r->a > r->b ? r->a - r->b : r->b - r->a;
}

static int by_distance(const void *x, const void *y)
{
	uint64_t a = distance(x), b = distance(y);

	return a > b ? -1 : a < b;
}

/* The places whose counts differ. */
static bool make_rows(struct diff_stream *s)
{
	struct map64 rows = { 0 };
	size_t i, kept = 0;
	bool ok = true;

	for (i = 0; ok && i < s->na; i++)
		ok = count(s, &rows, s->is_tag ? s->a[i].stack : s->a[i].place, false);
	for (i = 0; ok && i < s->nb; i++)
		ok = count(s, &rows, s->is_tag ? s->b[i].stack : s->b[i].place, true);
	for (i = 0; i < s->nrows; i++)
		if (s->row[i].a != s->row[i].b)
			s->row[kept++] = s->row[i];
	s->nrows = kept;
	if (kept)
		qsort(s->row, kept, sizeof(*s->row), by_distance);
	map64_deinit(&rows);
	return ok;
}

struct wc_error *diff_marks_run(const char *a, const char *b, const struct diff_marks_options *o,
				struct diff_marks *ret)
{
	struct map64 texts = { 0 };
	struct intake in = { .m = ret, .o = o, .texts = &texts };
	struct wc_error *err = read_log(&in, a);
	size_t i;

	in.is_b = true;
	if (!err)
		err = read_log(&in, b);
	for (i = 0; !err && i < ret->n; i++) {
		struct diff_stream *s = &ret->v[i];

		if (!align(s, o) || !make_rows(s))
			err = &wc_enomem;
		ret->differences += s->only_a + s->only_b + s->values;
		ret->withheld += s->withheld;
	}
	map64_deinit(&texts);
	map64_deinit(&in.streams);
	return err;
}

void diff_marks_deinit(struct diff_marks *m)
{
	size_t i;

	for (i = 0; i < m->n; i++) {
		free(m->v[i].name);
		free(m->v[i].a);
		free(m->v[i].b);
		free(m->v[i].row);
	}
	for (i = 0; i < m->ntexts; i++)
		free(m->text[i]);
	free(m->v);
	free(m->text);
	*m = (struct diff_marks){ 0 };
}
