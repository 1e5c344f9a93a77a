/* The sites of the page's data, each with what stands around it as long as there is room. */
#include "watchctl/base/syscall_name.h"
#include "watchctl/view/page/page_impl.h"
#include "watchctl/view/words/json.h"

static void put_listing(struct json *j, const char *name, const struct listing *l)
{
	size_t i;

	json_open(j, name, '{');
	if (l->why)
		json_text(j, "why", l->why);
	if (l->newer)
		json_bool(j, "newer", true);
	json_open(j, "lines", '[');
	for (i = 0; i < l->n; i++) {
		json_open(j, NULL, '[');
		if (l->v[i].ip)
			json_hex(j, NULL, l->v[i].ip);
		else
			json_number(j, NULL, l->v[i].line);
		json_text(j, NULL, l->v[i].text);
		json_number(j, NULL, l->v[i].here);
		json_close(j, ']');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static const char *syscall_text(int32_t number)
{
	const char *name = number >= 0 ? syscall_name(number) : NULL;

	return number == -2 ? "several system calls" : name;
}

static void put_place(struct json *j, const struct site *s)
{
	const struct location *l = s->key.location;
	const struct frame_name *real = &l->frame[l->nframes - 1];

	json_text_if(j, "module", l->module);
	if (l->module)
		json_hex(j, "module_offset", l->module_offset);
	json_text_if(j, "function", real->function);
	if (real->function)
		json_number(j, "offset", l->offset);
	if (l->nframes > 1)
		json_text_if(j, "inlined", l->frame[0].function);
	json_text_if(j, "file", l->frame[0].file);
	if (l->frame[0].line)
		json_number(j, "line", l->frame[0].line);
}

static void put_row(struct page *p, struct json *j, const struct page_site *ps)
{
	const struct site *s = ps->site;

	json_number(j, "watch", ps->watch);
	json_number(j, "kind", s->key.kind);
	json_bool(j, "kernel", s->key.origin == ORIGIN_KERNEL);
	json_text_if(j, "syscall", syscall_text(ps->syscall));
	json_bool(j, "after", s->key.after);
	json_hex(j, "ip", s->key.ip);
	json_text_if(j, "insn", s->key.insn);
	put_place(j, s);
	json_number(j, "count", s->count);
	json_number(j, "threads", s->tids.n);
	json_number(j, "first_ns", page_clock_past_ns(&p->clock, s->first));
	json_number(j, "last_ns", page_clock_past_ns(&p->clock, s->last));
	if (s->has_old)
		json_hex(j, "old", s->old_value);
	if (s->old_uncertain)
		json_bool(j, "old_uncertain", true);
	if (s->has_new)
		json_hex(j, "new", s->new_value);
}

/* Without room, as if it were one of those beyond PAGE_LISTINGS. */
static void put_listings(struct page *p, struct page_room *room, const struct page_site *ps)
{
	if (!ps->listed)
		return;
	page_row_begin(room);
	put_listing(room->j, "code", &ps->code);
	if (!p->opt.no_source && ps->site->key.location->frame[0].file)
		put_listing(room->j, "source", &ps->source);
	page_row_end(room);
}

void page_sites_json(struct page *p, struct page_reported *reported, struct json *j)
{
	struct page_room rows, listings;
	size_t i;

	page_room_begin(&rows, j, PAGE_ROOM_SITES);
	page_room_begin(&listings, j, PAGE_ROOM_LISTINGS);
	json_open(j, "sites", '[');
	for (i = 0; i < p->nsites && p->site[i].watch < reported->watches; i++) {
		page_row_begin(&rows);
		json_open(j, NULL, '{');
		put_row(p, j, &p->site[i]);
		if (!page_row_end(&rows))
			break;
		put_listings(p, &listings, &p->site[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
	reported->sites = (uint32_t)i;
}
