/*
 * The script's data. Rows are arrays, to be small: what each number is, page_data.js says, which reads them.
 * Values and addresses are hex texts, since the numbers of JavaScript have 53 bits.
 */
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/view/page_impl.h"
#include "watchctl/view/printer_impl.h"
#include "watchctl/view/replay.h"

#define WHOLE_REGS 64 /* every so many-th row of registers is told in full */

static void put_summary(struct json *j, const char *name, const struct view_summary *s)
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
	print_json_text(j, "name", t->name);
	json_bool(j, "signed", t->kind == VALUE_SIGNED || (t->kind == VALUE_ENUM && t->enum_signed));
	json_number(j, "bit_offset", t->bit_offset);
	json_number(j, "bit_size", t->bit_size);
	json_open(j, "enum", '[');
	for (size_t i = 0; i < t->nenumerators; i++) {
		json_open(j, NULL, '[');
		json_text(j, NULL, t->enumerators[i].name);
		json_hex(j, NULL, (uint64_t)t->enumerators[i].value);
		json_close(j, ']');
	}
	json_close(j, ']');
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

static void put_lanes(struct json *j, const struct page_watch *w)
{
	size_t i;

	json_open(j, "lanes", '[');
	for (i = 0; i < PAGE_LANES; i++) {
		if (!w->lane[i].n)
			continue;
		json_open(j, NULL, '{');
		json_number(j, "thread", i);
		put_parts(j, "parts", &w->lane[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_texts(struct json *j, const struct page_watch *w)
{
	size_t i;

	json_open(j, "texts", '[');
	for (i = 0; i < w->texts.cap; i++) {
		if (!w->texts.slot[i].used)
			continue;
		json_open(j, NULL, '[');
		json_hex(j, NULL, w->texts.slot[i].key);
		json_text(j, NULL, w->texts.slot[i].value);
		json_close(j, ']');
	}
	json_close(j, ']');
}

static const char *access_text(uint32_t access)
{
	static const char *const name[] = { "unknown", "r", "w", "rw", "x" };

	return name[access < PAGE_KINDS ? access : 0];
}

static void put_watch(struct json *j, const struct page_watch *w)
{
	const struct watch_event *e = &w->w->e;

	json_open(j, NULL, '{');
	json_text(j, "name", e->name);
	print_json_text(j, "full_name", e->full_name);
	if (w->w->known) {
		json_hex(j, "addr", e->addr);
		json_number(j, "size", e->size);
		json_text(j, "access", access_text(e->access));
		print_json_text(j, "engine", e->engine);
		print_json_text(j, "why", e->why);
		print_json_text(j, "filter", e->filter);
		print_json_text(j, "module", e->module);
		json_bool(j, "per_thread", e->per_thread);
		json_number(j, "threads", e->threads);
		json_number(j, "threads_armed", e->threads_armed);
		json_bool(j, "verified", e->verified);
		json_bool(j, "kernel", e->kernel);
		if (e->has_value)
			json_hex(j, "value", e->value);
	}
	put_type(j, &e->type);
	json_number(j, "accesses", w->accesses);
	if (w->has_summary)
		put_summary(j, "summary", &w->summary);
	put_texts(j, w);
	if (w->has_parts)
		put_parts(j, "parts", &w->parts);
	put_lanes(j, w);
	json_close(j, '}');
}

static void put_processes(struct page *p, struct json *j)
{
	size_t i;

	json_open(j, "processes", '[');
	for (i = 0; i < p->nprocesses; i++) {
		const struct page_process *q = &p->process[i];

		json_open(j, NULL, '{');
		json_signed(j, "pid", q->pid);
		print_json_text(j, "comm", q->comm);
		print_json_text(j, "exe", q->exe);
		print_json_text(j, "cmdline", q->cmdline);
		print_json_text(j, "host", q->host);
		json_number(j, "ns", q->ns);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_notes(struct page *p, struct json *j)
{
	size_t i;

	json_open(j, "notes", '[');
	for (i = 0; i < p->nnotes; i++) {
		json_open(j, NULL, '{');
		json_number(j, "ns", p->note[i].ns);
		json_text(j, "text", p->note[i].text);
		if (p->note[i].is_loss)
			json_number(j, "lost", p->note[i].count);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_number(j, "notes_left_out", p->notes_left_out);
}

static void put_tags(struct page *p, struct json *j)
{
	size_t i;

	json_open(j, "tags", '[');
	for (i = 0; i < p->ntags; i++) {
		json_open(j, NULL, '{');
		json_text(j, "name", p->tag[i]->text);
		json_number(j, "captures", p->tag[i]->captures);
		json_close(j, '}');
	}
	json_close(j, ']');
	if (p->has_capture_summary)
		put_summary(j, "capture_summary", &p->capture_summary);
}

/* "12,,7f00": hex, nothing where it is as in the row before. */
static void put_regs(struct json *j, const struct regs *r, const struct regs *before)
{
	char text[WREG_COUNT * 17 + 1];
	size_t used = 0, i;

	for (i = 0; i < WREG_COUNT; i++) {
		if (i)
			text[used++] = ',';
		if (!before || r->r[i] != before->r[i])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%lx",
						 (unsigned long)r->r[i]);
	}
	text[used] = '\0';
	json_text(j, NULL, text);
}

static void put_details(const struct page_told *told, struct json *j)
{
	size_t i;

	json_open(j, "reg_names", '[');
	for (i = 0; i < WREG_COUNT; i++)
		json_text(j, NULL, printer_reg_name((int)i));
	json_close(j, ']');
	json_number(j, "whole_regs", WHOLE_REGS);
	json_open(j, "regs", '[');
	for (i = 0; i < told->ndetails; i++)
		put_regs(j, &told->detail[i]->regs, i % WHOLE_REGS ? &told->detail[i - 1]->regs : NULL);
	json_close(j, ']');
}

static void put_head(struct page *p, const struct page_told *told, struct json *j)
{
	json_text(j, "version", WATCHCTL_VERSION);
	json_text(j, "log", p->opt.log);
	json_number(j, "made_ms", clock_ns(CLOCK_REALTIME) / 1000000);
	if (p->begin.real_ns)
		json_number(j, "begin_real_us", p->begin.real_ns / 1000);
	json_number(j, "end_ns", p->end_ns);
	json_number(j, "accesses", p->accesses);
	json_number(j, "captures", p->captures);
	json_number(j, "calls", p->calls);
	json_number(j, "steps", p->steps);
	print_json_text(j, "recording", p->recording);
	if (told->ending && told->ending->why) {
		json_text(j, "truncated", told->ending->why);
		json_number(j, "ignored", told->ending->ignored);
	}
	json_bool(j, "no_source", p->opt.no_source);
	json_number(j, "events", told->nevents);
	json_number(j, "stride", p->events.stride);
	json_number(j, "details", told->ndetails);
	json_number(j, "threads_left_out", p->tables.threads_left_out);
	json_number(j, "stacks_left_out", p->tables.stacks_left_out);
	json_number(j, "sites_left_out", p->sites_left_out);
}

bool page_json(struct page *p, const struct page_told *told, struct json *j)
{
	size_t i;

	json_open(j, NULL, '{');
	put_head(p, told, j);
	put_processes(p, j);
	json_open(j, "watches", '[');
	for (i = 0; i < p->nwatches; i++)
		put_watch(j, p->watch[i]);
	json_close(j, ']');
	put_notes(p, j);
	put_tags(p, j);
	page_tables_json(p, j);
	page_sites_json(p, j);
	put_details(told, j);
	json_close(j, '}');
	return !j->failed;
}
