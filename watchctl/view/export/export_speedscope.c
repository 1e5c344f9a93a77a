/*
 * speedscope's file format (its file-format-schema.json): the stacks of each watch and each tag as a
 * "sampled" profile, whose weights are how often they were seen; the calls of each thread as an "evented"
 * one, in nanoseconds since the first call.
 *
 * The events of all threads come mixed and must be written thread by thread: they wait in a temporary file.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/export/export_spill.h"
#include "watchctl/view/export/export_text.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/stack_tree.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/table/probe_stacks.h"

#define CLOSES 0x80000000u /* in spill_record.what, beside the frame */

struct frame {
	struct frame *same_hash;
	char *name;
	const char *file; /* NULL: not known; the symbolizer's */
	uint32_t index;
};

struct thread_profile {
	struct spill_list events;
	char comm[COMM_LEN + 1];
	uint64_t last_ns;
};

struct speedscope_writer {
	struct export_writer w;
	struct probe_stacks probes;
	struct stack_trees trees;
	struct export_threads threads; /* user: struct thread_profile */
	struct spill *spill;
	struct map64 by_function; /* struct view_function -> struct frame */
	struct map64 by_hash;	  /* -> struct frame */
	struct frame **frame;
	size_t nframes, cap;
	struct text_buf text;
	struct json json;
	bool comma;
	uint64_t first_ns; /* of all calls */
	bool has_calls;
};

/* Frames */

static struct frame *frame_of(struct speedscope_writer *s, const char *name, const char *file)
{
	uint64_t hash = hash_text(hash_text(HASH_START, name), file ? file : "");
	struct frame *first = map64_get(&s->by_hash, hash), *f;

	for (f = first; f; f = f->same_hash)
		if (!strcmp(f->name, name) && !strcmp(f->file ? f->file : "", file ? file : ""))
			return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	*f = (struct frame){
		.same_hash = first, .name = strdup(name), .file = file, .index = (uint32_t)s->nframes
	};
	if (!f->name || s->nframes >= CLOSES || !vec_push(s->frame, s->nframes, s->cap, f)) {
		free(f->name);
		free(f);
		return NULL;
	}
	return map64_put(&s->by_hash, hash, f) ? f : NULL;
}

static struct frame *frame_of_function(struct speedscope_writer *s, const struct view_function *v)
{
	struct frame *f = map64_get(&s->by_function, (uintptr_t)v);

	if (f)
		return f;
	f = frame_of(s, v->text, v->e.file);
	return f && map64_put(&s->by_function, (uintptr_t)v, f) ? f : NULL;
}

/* As the folded form names it. */
static struct frame *frame_of_node(struct speedscope_writer *s, const struct stack_node *n)
{
	const struct view_frame *f = &n->frame;

	text_buf_empty(&s->text);
	if (n->is_end)
		text_buf_printf(&s->text, "[%s]", text_walk_end_name(n->end));
	else if (f->signal)
		text_buf_add(&s->text, "[signal]");
	else if (f->function && *f->function)
		export_text_clean(&s->text, f->function);
	else if (f->module && *f->module && text_base_name(f->module)[0] == '[')
		export_text_clean(&s->text, text_base_name(f->module));
	else if (f->module && *f->module) {
		text_buf_add(&s->text, "[");
		export_text_clean(&s->text, text_base_name(f->module));
		text_buf_add(&s->text, "]");
	} else
		text_buf_add(&s->text, "[unknown]");
	return s->text.failed ? NULL : frame_of(s, text_buf_text(&s->text), f->function ? f->file : NULL);
}

/* Events */

static void on_access(void *ctx, const struct view_access *a)
{
	struct speedscope_writer *s = ctx;

	stack_trees_add_access(&s->trees, a);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct speedscope_writer *s = ctx;

	stack_trees_add_capture(&s->trees, c);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct speedscope_writer *s = ctx;

	probe_stacks_add(&s->probes, &s->trees, p);
}

static struct export_thread *thread_of(struct speedscope_writer *s, int32_t pid, int32_t tid,
				       const char *comm)
{
	struct export_thread *th = export_thread_get(&s->threads, pid, tid);
	struct thread_profile *p;

	if (!th)
		return NULL;
	if (!th->user)
		th->user = calloc(1, sizeof(*p));
	p = th->user;
	if (p && comm && *comm)
		snprintf(p->comm, sizeof(p->comm), "%s", comm);
	return p ? th : NULL;
}

static void put_event(struct speedscope_writer *s, struct export_thread *th, const struct view_function *f,
		      uint32_t what, uint64_t time_ns)
{
	struct thread_profile *p = th->user;
	struct frame *frame = frame_of_function(s, f);
	struct spill_record r = { .time_ns = export_thread_time(th, time_ns) };

	if (!frame) {
		export_fail(&s->w, &wc_enomem);
		return;
	}
	if (!s->has_calls || r.time_ns < s->first_ns)
		s->first_ns = r.time_ns;
	s->has_calls = true;
	p->last_ns = r.time_ns;
	r.what = frame->index | what;
	export_fail(&s->w, spill_put(s->spill, &p->events, &r));
}

static void close_calls(struct speedscope_writer *s, struct export_thread *th, size_t n, uint64_t time_ns)
{
	for (; n; n--) {
		put_event(s, th, th->open[th->nopen - 1].function, CLOSES, time_ns);
		export_calls_pop(&s->threads, th);
	}
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct speedscope_writer *s = ctx;
	struct export_thread *th = thread_of(s, c->raw->pid, c->raw->tid, c->comm);

	if (th)
		close_calls(s, th, export_calls_ended_by(th, c), c->time.mono_ns);
	if (!th || !export_calls_push(&s->threads, th, c)) {
		export_fail(&s->w, &wc_enomem);
		return;
	}
	put_event(s, th, c->function, 0, c->time.mono_ns);
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct speedscope_writer *s = ctx;
	struct export_thread *th = thread_of(s, r->raw->pid, r->raw->tid, r->comm);

	if (th)
		close_calls(s, th, export_calls_ended_with(th, r->raw->call), r->time.mono_ns);
	else
		export_fail(&s->w, &wc_enomem);
}

/* The file */

/* The object in s->json, without its last bracket if it is @open. */
static void put_json(struct speedscope_writer *s, bool open)
{
	struct json *j = &s->json;

	if (j->line.failed)
		export_fail(&s->w, &wc_enomem);
	else
		fwrite(j->line.bytes, 1, j->line.len - open, export_out_file(s->w.out));
	json_empty(j);
}

static void begin_profile(struct speedscope_writer *s, const char *type, const char *name, const char *unit,
			  uint64_t end)
{
	struct json *j = &s->json;

	fputs(s->comma ? ",\n" : "\n", export_out_file(s->w.out));
	s->comma = true;
	json_open(j, NULL, '{');
	json_text(j, "type", type);
	json_text(j, "name", name);
	json_text(j, "unit", unit);
	json_number(j, "startValue", 0);
	json_number(j, "endValue", end);
	json_close(j, '}');
	put_json(s, true);
}

static struct wc_error *put_sample(struct speedscope_writer *s, const struct stack_node *leaf, bool first)
{
	scoped(freep) const struct stack_node **path = NULL;
	FILE *out = export_out_file(s->w.out);
	size_t n = 0, cap = 0;

	for (; leaf->parent; leaf = leaf->parent)
		if (!vec_push(path, n, cap, leaf))
			return &wc_enomem;
	fputs(first ? "\n[" : ",\n[", out);
	while (n) {
		struct frame *f = frame_of_node(s, path[--n]);

		if (!f)
			return &wc_enomem;
		fprintf(out, "%" PRIu32 "%s", f->index, n ? "," : "");
	}
	putc(']', out);
	return NULL;
}

static struct wc_error *put_tree(struct speedscope_writer *s, struct stack_tree *tree)
{
	FILE *out = export_out_file(s->w.out);
	struct wc_error *err = NULL;
	const char *comma = "";
	struct stack_node *n;
	bool first = true;

	begin_profile(s, "sampled", tree->tag ? tree->tag->text : tree->watch->e.name, "none",
		      tree->root.count);
	fputs(",\"samples\":[", out);
	for (n = &tree->root; n && !err; n = stack_node_next(&tree->root, n))
		if (n->self) {
			err = put_sample(s, n, first);
			first = false;
		}
	fputs("],\n\"weights\":[", out);
	for (n = &tree->root; n && !err; n = stack_node_next(&tree->root, n))
		if (n->self) {
			fprintf(out, "%s%" PRIu64, comma, n->self);
			comma = ",";
		}
	fputs("]}", out);
	return err;
}

struct event_line {
	const struct speedscope_writer *s;
	bool comma;
};

static void put_evented(void *ctx, const struct spill_record *r)
{
	struct event_line *l = ctx;

	fprintf(export_out_file(l->s->w.out),
		"%s\n{\"type\":\"%c\",\"at\":%" PRIu64 ",\"frame\":%" PRIu32 "}", l->comma ? "," : "",
		r->what & CLOSES ? 'C' : 'O', r->time_ns - l->s->first_ns, r->what & ~CLOSES);
	l->comma = true;
}

static struct wc_error *put_thread(struct speedscope_writer *s, struct export_thread *th)
{
	struct thread_profile *p = th->user;
	struct event_line line = { .s = s };
	struct wc_error *err;
	char name[64];

	close_calls(s, th, th->nopen, p->last_ns);
	if (!p->events.total)
		return NULL;
	snprintf(name, sizeof(name), "%s %d/%d", *p->comm ? p->comm : "thread", th->pid, th->tid);
	begin_profile(s, "evented", name, "nanoseconds", p->last_ns - s->first_ns);
	fputs(",\"events\":[", export_out_file(s->w.out));
	err = spill_each(s->spill, &p->events, put_evented, &line);
	fputs("]}", export_out_file(s->w.out));
	return err;
}

static void put_frames(struct speedscope_writer *s)
{
	FILE *out = export_out_file(s->w.out);
	size_t i;

	fputs("\n],\n\"shared\":{\"frames\":[", out);
	for (i = 0; i < s->nframes; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_open(&s->json, NULL, '{');
		json_text(&s->json, "name", s->frame[i]->name);
		json_text_if(&s->json, "file", s->frame[i]->file);
		json_close(&s->json, '}');
		put_json(s, false);
	}
	fputs("\n]}}\n", out);
}

static struct wc_error *export_speedscope_finish(struct export_writer *w)
{
	struct speedscope_writer *s = (struct speedscope_writer *)w;
	struct wc_error *err = s->trees.incomplete ? &wc_enomem : NULL;
	struct json *j = &s->json;
	size_t i;

	json_open(j, NULL, '{');
	json_text(j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_text(j, "exporter", "watchctl " WATCHCTL_VERSION);
	json_text(j, "name", w->log);
	json_close(j, '}');
	put_json(s, true);
	fputs(",\n\"profiles\":[", export_out_file(w->out));
	stack_trees_sort(&s->trees);
	for (i = 0; i < s->trees.n && !err; i++)
		err = put_tree(s, s->trees.v[i]);
	for (i = 0; i < s->threads.n && !err; i++)
		err = put_thread(s, s->threads.v[i]);
	if (!err)
		put_frames(s);
	return err;
}

static void speedscope_free(struct export_writer *w)
{
	struct speedscope_writer *s = (struct speedscope_writer *)w;
	size_t i;

	for (i = 0; i < s->threads.n; i++)
		if (s->threads.v[i]->user)
			spill_list_deinit(&((struct thread_profile *)s->threads.v[i]->user)->events);
	export_threads_deinit(&s->threads);
	stack_trees_deinit(&s->trees);
	probe_stacks_deinit(&s->probes);
	spill_free(s->spill);
	for (i = 0; i < s->nframes; i++) {
		free(s->frame[i]->name);
		free(s->frame[i]);
	}
	free(s->frame);
	map64_deinit(&s->by_function);
	map64_deinit(&s->by_hash);
	text_buf_deinit(&s->text);
	json_deinit(&s->json);
	free(s);
}

struct export_writer *export_speedscope_new(void)
{
	static const struct view_ops ops = {
		.access = on_access,
		.capture = on_capture,
		.probe = on_probe,
		.call = on_call,
		.ret = on_return,
	};
	struct speedscope_writer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->w = (struct export_writer){ .ops = &ops,
				       .finish = export_speedscope_finish,
				       .free = speedscope_free };
	s->trees.merge = MERGE_MODULES;
	s->spill = spill_new();
	if (!s->spill) {
		speedscope_free(&s->w);
		return NULL;
	}
	return &s->w;
}
