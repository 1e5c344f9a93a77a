/* The tables of the page's data: texts once each, rows that refer to them and to each other by number. */
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/syscall_name.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/page_impl.h"
#include "watchctl/view/printer_impl.h"

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

static void put_frames(const struct page_tables *t, struct texts *texts, struct json *j)
{
	size_t i;

	json_open(j, "frames", '[');
	for (i = 0; i < t->nframes; i++) {
		const struct view_frame *f = &t->frame[i];

		json_open(j, NULL, '[');
		json_signed(j, NULL, text_number_of(texts, f->function));
		json_signed(j, NULL, text_number_of(texts, f->file));
		json_number(j, NULL, f->line);
		json_signed(j, NULL, text_number_of(texts, f->module));
		json_number(j, NULL, f->function ? f->offset : f->module_offset);
		json_hex(j, NULL, f->ip);
		json_number(j, NULL, f->inlined | f->after << 1 | f->signal << 2);
		json_close(j, ']');
	}
	json_close(j, ']');
}

static void put_stacks(const struct page_tables *t, struct json *j)
{
	size_t i, k;

	json_open(j, "stacks", '[');
	for (i = 0; i < t->nstacks; i++) {
		const struct page_stack *s = &t->stack[i];

		json_open(j, NULL, '[');
		json_number(j, NULL, s->end);
		for (k = 0; k < s->n; k++)
			json_number(j, NULL, t->frame_of_stack[s->first + k]);
		json_close(j, ']');
	}
	json_close(j, ']');
	json_open(j, "stack_ends", '[');
	for (i = WALK_END_COMPLETE; i <= WALK_END_UNKNOWN_PC; i++) {
		const char *why = text_walk_end((enum walk_end)i);

		json_text(j, NULL, why ? why : "");
	}
	json_close(j, ']');
}

static void put_index(struct json *j, uint32_t i)
{
	json_signed(j, NULL, i == PAGE_REST ? -1 : (int64_t)i);
}

static void put_combos(const struct page_tables *t, struct json *j)
{
	size_t i;

	/* One flat list, five numbers each: parsed in no time. */
	json_open(j, "combos", '[');
	for (i = 0; i < t->ncombos; i++) {
		json_number(j, NULL, t->combo[i].capture);
		put_index(j, t->combo[i].place);
		put_index(j, t->combo[i].thread);
		put_index(j, t->combo[i].stack);
		json_number(j, NULL, t->combo[i].n);
	}
	json_close(j, ']');
}

static void put_threads(const struct page_tables *t, struct json *j)
{
	size_t i;

	json_open(j, "threads", '[');
	for (i = 0; i < t->nthreads; i++) {
		const struct page_thread *h = &t->thread[i];

		json_open(j, NULL, '[');
		json_signed(j, NULL, h->pid);
		json_signed(j, NULL, h->tid);
		json_text(j, NULL, h->comm ? h->comm : "");
		json_number(j, NULL, h->accesses);
		json_number(j, NULL, h->captures);
		json_close(j, ']');
	}
	json_close(j, ']');
}

void page_tables_json(struct page *p, struct json *j)
{
	struct texts texts = { 0 };
	size_t i;

	put_threads(&p->tables, j);
	put_frames(&p->tables, &texts, j);
	put_stacks(&p->tables, j);
	put_combos(&p->tables, j);
	json_open(j, "texts", '[');
	for (i = 0; i < texts.n; i++)
		json_text(j, NULL, texts.v[i]);
	json_close(j, ']');
	j->failed |= texts.failed;
	map64_deinit(&texts.index);
	free(texts.v);
}

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
	const struct location *l = s->location;
	const struct frame_name *real = &l->frame[l->nframes - 1];

	print_json_text(j, "module", l->module);
	if (l->module)
		json_hex(j, "module_offset", l->module_offset);
	print_json_text(j, "function", real->function);
	if (real->function)
		json_number(j, "offset", l->offset);
	if (l->nframes > 1)
		print_json_text(j, "inlined", l->frame[0].function);
	print_json_text(j, "file", l->frame[0].file);
	if (l->frame[0].line)
		json_number(j, "line", l->frame[0].line);
}

static void put_site(struct page *p, struct json *j, const struct page_site *ps)
{
	const struct site *s = ps->site;

	json_open(j, NULL, '{');
	json_number(j, "watch", ps->watch);
	json_number(j, "kind", s->kind);
	json_bool(j, "kernel", s->origin == ORIGIN_KERNEL);
	print_json_text(j, "syscall", syscall_text(ps->syscall));
	json_bool(j, "after", s->after);
	json_hex(j, "ip", s->ip);
	print_json_text(j, "insn", s->insn);
	put_place(j, s);
	json_number(j, "count", s->count);
	json_number(j, "threads", s->tids.n);
	json_number(j, "first_ns",
		    s->first.mono_ns > p->begin.mono_ns ? s->first.mono_ns - p->begin.mono_ns : 0);
	json_number(j, "last_ns",
		    s->last.mono_ns > p->begin.mono_ns ? s->last.mono_ns - p->begin.mono_ns : 0);
	if (s->has_old)
		json_hex(j, "old", s->old_value);
	if (s->has_new)
		json_hex(j, "new", s->new_value);
	if (ps->listed) {
		put_listing(j, "code", &ps->code);
		if (!p->opt.no_source && s->location->frame[0].file)
			put_listing(j, "source", &ps->source);
	}
	json_close(j, '}');
}

void page_sites_json(struct page *p, struct json *j)
{
	size_t i;

	json_open(j, "sites", '[');
	for (i = 0; i < p->nsites; i++)
		put_site(p, j, &p->site[i]);
	json_close(j, ']');
}
