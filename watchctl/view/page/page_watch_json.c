/* The watches of the page's data: a row each and, as long as there is room, their values over time and by
 * name. */
#include "watchctl/view/page/page_impl.h"
#include "watchctl/view/words/json.h"

void page_summary_json(struct json *j, const char *name, const struct view_summary *s)
{
	json_open(j, name, '{');
	if (s->e.has_counted)
		json_number(j, "counted", s->e.counted);
	json_number(j, "recorded", s->e.recorded);
	json_number(j, "lost", s->e.lost);
	json_number(j, "filtered", s->e.filtered);
	json_bool(j, "complete", s->complete);
	json_close(j, '}');
}

static void put_type(struct json *j, const struct value_type *t)
{
	json_open(j, "type", '{');
	json_number(j, "kind", t->kind);
	json_text_if(j, "name", t->name);
	json_bool(j, "signed", t->kind == VALUE_SIGNED || (t->kind == VALUE_ENUM && t->enum_signed));
	json_number(j, "bit_offset", t->bit_offset);
	json_number(j, "bit_size", t->bit_size);
	json_close(j, '}');
}

static void put_parts(struct json *j, const char *name, const struct page_buckets *b)
{
	size_t i, k;

	json_open(j, name, '{');
	json_number(j, "width", b->width_ns);
	json_open(j, "rows", '[');
	for (i = 0; i < b->n; i++) {
		const struct page_bucket *p = &b->v[i];
		uint64_t sum = 0;

		for (k = 0; k < PAGE_KINDS; k++)
			sum += p->n[k];
		if (!sum)
			continue;
		json_open(j, NULL, '[');
		json_number(j, NULL, i);
		for (k = 0; k < PAGE_KINDS; k++)
			json_number(j, NULL, p->n[k]);
		json_number(j, NULL, p->changes);
		if (p->has_value) {
			json_hex(j, NULL, p->first);
			json_hex(j, NULL, p->last);
			json_hex(j, NULL, p->min);
			json_hex(j, NULL, p->max);
		}
		json_close(j, ']');
	}
	json_close(j, ']');
	json_close(j, '}');
}

/* False: no room. */
static bool put_picture(const struct page_watch *w, struct page_room *room)
{
	if (!w->has_parts)
		return true;
	page_row_begin(room);
	put_parts(room->j, "parts", &w->parts);
	return page_row_end(room);
}

static bool put_lanes(const struct page_watch *w, struct page_room *room)
{
	struct json *j = room->j;
	bool fits = true;
	size_t i;

	json_open(j, "lanes", '[');
	for (i = 0; i < PAGE_LANES; i++) {
		if (!w->lane[i].n)
			continue;
		page_row_begin(room);
		json_open(j, NULL, '{');
		json_number(j, "thread", i);
		put_parts(j, "parts", &w->lane[i]);
		json_close(j, '}');
		fits &= page_row_end(room);
	}
	json_close(j, ']');
	return fits;
}

static bool put_texts(const struct page_watch *w, struct page_room *room)
{
	struct json *j = room->j;
	bool fits = true;
	size_t i;

	json_open(j, "texts", '[');
	for (i = 0; i < w->texts.cap; i++) {
		if (!w->texts.slot[i].used)
			continue;
		page_row_begin(room);
		json_open(j, NULL, '[');
		json_hex(j, NULL, w->texts.slot[i].key);
		json_text(j, NULL, w->texts.slot[i].value);
		json_close(j, ']');
		fits &= page_row_end(room);
	}
	json_close(j, ']');
	return fits;
}

static const char *access_text(uint32_t access)
{
	static const char *const name[] = { "unknown", "r", "w", "rw", "x" };

	return name[access < PAGE_KINDS ? access : 0];
}

static void put_row(struct json *j, const struct page_watch *w)
{
	const struct watch_event *e = &w->w->e;

	json_text(j, "name", e->name);
	json_text_if(j, "full_name", e->full_name);
	if (w->w->known) {
		json_hex(j, "addr", e->addr);
		json_number(j, "size", e->size);
		json_text(j, "access", access_text(e->access));
		json_text_if(j, "engine", e->engine);
		json_text_if(j, "why", e->why);
		json_text_if(j, "filter", e->filter);
		json_text_if(j, "module", e->module);
		json_bool(j, "per_thread", e->per_thread);
		json_number(j, "threads", e->threads);
		json_number(j, "threads_armed", e->threads_armed);
		json_bool(j, "verified", e->verified);
		json_bool(j, "kernel", e->kernel);
		if (e->has_value)
			json_hex(j, "value", e->value);
		if (e->withheld)
			json_bool(j, "withheld", true);
	}
	put_type(j, &e->type);
	json_number(j, "accesses", w->accesses);
	if (w->has_summary)
		page_summary_json(j, "summary", &w->summary);
}

void page_watches_json(struct page *p, struct page_reported *reported, struct json *j)
{
	struct page_room rows, pictures;
	size_t i;

	page_room_begin(&rows, j, PAGE_ROOM_WATCHES);
	page_room_begin(&pictures, j, PAGE_ROOM_PICTURES);
	json_open(j, "watches", '[');
	for (i = 0; i < p->nwatches; i++) {
		const struct page_watch *w = p->watch[i];
		bool all;

		page_row_begin(&rows);
		json_open(j, NULL, '{');
		put_row(j, w);
		if (!page_row_end(&rows))
			break;
		all = put_texts(w, &pictures);
		all &= put_picture(w, &pictures);
		all &= put_lanes(w, &pictures);
		reported->pictures_left_out |= !all;
		json_close(j, '}');
	}
	json_close(j, ']');
	reported->watches = (uint32_t)i;
}
