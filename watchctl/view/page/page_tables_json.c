/* The tables of the page's data: texts once each, rows that refer to them and to each other by number. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/page/page_impl.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"

/* Texts, by their address; those of the symbolizer are often the same one. */
struct texts {
	struct map64 index; /* hash -> number + 1 */
	const char **v;
	size_t n, cap;
	bool failed;
};

/* -1: none. */
static int64_t text_number_of(struct texts *t, const char *s)
{
	uint64_t h;
	void *known;

	if (!s)
		return -1;
	for (h = hash_text(HASH_START, s); (known = map64_get(&t->index, h)); h++)
		if (!strcmp(t->v[(uintptr_t)known - 1], s))
			return (int64_t)((uintptr_t)known - 1);
	if (!vec_push(t->v, t->n, t->cap, s) || !map64_put(&t->index, h, (void *)(uintptr_t)t->n)) {
		t->failed = true;
		return -1;
	}
	return (int64_t)t->n - 1;
}

static void put_new_text(struct texts *t, const char *s, struct json *j)
{
	size_t n = t->n;

	text_number_of(t, s);
	if (t->n > n)
		json_text(j, NULL, s);
}

/* The texts of the frames, and which of these are reported: all up to the first whose texts find no room. */
static size_t put_texts(const struct page_tables *t, struct texts *texts, struct json *j)
{
	struct page_room room;
	size_t i;

	page_room_begin(&room, j, PAGE_ROOM_TEXTS);
	json_open(j, "texts", '[');
	for (i = 0; i < t->nframes; i++) {
		const struct view_frame *f = &t->frame[i];

		page_row_begin(&room);
		put_new_text(texts, f->function, j);
		put_new_text(texts, f->file, j);
		put_new_text(texts, f->module, j);
		if (!page_row_end(&room))
			break;
	}
	json_close(j, ']');
	return i;
}

static size_t put_frames(const struct page_tables *t, struct texts *texts, size_t n, struct json *j)
{
	struct page_room room;
	size_t i;

	page_room_begin(&room, j, PAGE_ROOM_FRAMES);
	json_open(j, "frames", '[');
	for (i = 0; i < n; i++) {
		const struct view_frame *f = &t->frame[i];

		page_row_begin(&room);
		json_open(j, NULL, '[');
		json_signed(j, NULL, text_number_of(texts, f->function));
		json_signed(j, NULL, text_number_of(texts, f->file));
		json_number(j, NULL, f->line);
		json_signed(j, NULL, text_number_of(texts, f->module));
		json_number(j, NULL, f->function ? f->offset : f->module_offset);
		json_hex(j, NULL, f->ip);
		json_number(j, NULL, f->inlined | f->after << 1 | f->signal << 2);
		json_close(j, ']');
		if (!page_row_end(&room))
			break;
	}
	json_close(j, ']');
	return i;
}

/* False: it has a frame that is not reported. */
static bool put_stack(const struct page_tables *t, const struct page_stack *s, size_t nframes, struct json *j)
{
	bool known = true;
	size_t k;

	json_open(j, NULL, '[');
	json_number(j, NULL, s->end);
	for (k = 0; k < s->n; k++) {
		uint32_t frame = t->frame_of_stack[s->first + k];

		known &= frame < nframes;
		json_number(j, NULL, frame);
	}
	json_close(j, ']');
	return known;
}

static size_t put_stacks(const struct page_tables *t, size_t nframes, struct json *j)
{
	struct page_room room;
	size_t i, n;

	page_room_begin(&room, j, PAGE_ROOM_STACKS);
	json_open(j, "stacks", '[');
	for (n = 0; n < t->nstacks; n++) {
		page_row_begin(&room);
		if (!put_stack(t, &t->stack[n], nframes, j))
			room.left = 0;
		if (!page_row_end(&room))
			break;
	}
	json_close(j, ']');
	json_open(j, "stack_ends", '[');
	for (i = WALK_END_COMPLETE; i <= WALK_END_LOST; i++) {
		const char *why = text_walk_end((enum walk_end)i);

		json_text(j, NULL, why ? why : "");
	}
	json_close(j, ']');
	return n;
}

/* Of the @n that are reported. */
static void put_index(struct json *j, uint32_t i, size_t n)
{
	json_signed(j, NULL, i < n ? (int64_t)i : -1);
}

static void put_combos(const struct page_tables *t, const struct page_reported *reported, struct json *j)
{
	size_t i;

	/* One flat list, five numbers each: parsed in no time. */
	json_open(j, "combos", '[');
	for (i = 0; i < t->ncombos; i++) {
		const struct page_combo *c = &t->combo[i];

		json_number(j, NULL, c->capture);
		put_index(j, c->place, c->capture ? reported->tags : reported->sites);
		put_index(j, c->thread, reported->threads);
		put_index(j, c->stack, reported->stacks);
		json_number(j, NULL, c->n);
	}
	json_close(j, ']');
}

static size_t put_threads(const struct page_tables *t, struct json *j)
{
	struct page_room room;
	size_t i;

	page_room_begin(&room, j, PAGE_ROOM_THREADS);
	json_open(j, "threads", '[');
	for (i = 0; i < t->nthreads; i++) {
		const struct page_thread *h = &t->thread[i];

		page_row_begin(&room);
		json_open(j, NULL, '[');
		json_signed(j, NULL, h->pid);
		json_signed(j, NULL, h->tid);
		json_text(j, NULL, h->comm ? h->comm : "");
		json_number(j, NULL, h->accesses);
		json_number(j, NULL, h->captures);
		json_close(j, ']');
		if (!page_row_end(&room))
			break;
	}
	json_close(j, ']');
	return i;
}

void page_tables_json(struct page *p, struct page_reported *reported, struct json *j)
{
	struct texts texts = { 0 };

	reported->threads = (uint32_t)put_threads(&p->tables, j);
	reported->frames = (uint32_t)put_texts(&p->tables, &texts, j);
	reported->frames = (uint32_t)put_frames(&p->tables, &texts, reported->frames, j);
	reported->stacks = (uint32_t)put_stacks(&p->tables, reported->frames, j);
	put_combos(&p->tables, reported, j);
	j->line.failed |= texts.failed;
	map64_deinit(&texts.index);
	free(texts.v);
}
