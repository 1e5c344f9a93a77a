/*
 * The script's data. Rows are arrays, to be small: what each number is, page_data.js says, which reads them.
 * Values and addresses are hex texts, since the numbers of JavaScript have 53 bits.
 */
#include <string.h>

#include "watchctl/view/event/replay.h"
#include "watchctl/view/page/page_impl.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"

#define WHOLE_REGS 64 /* every so many-th row of registers is reported in full */

static void put_processes(struct page *p, struct json *j)
{
	struct page_room room;
	bool fits = true;
	size_t i;

	page_room_begin(&room, j, PAGE_ROOM_PROCESSES);
	json_open(j, "processes", '[');
	for (i = 0; fits && i < p->nprocesses; i++) {
		const struct page_process *q = &p->process[i];

		page_row_begin(&room);
		json_open(j, NULL, '{');
		json_signed(j, "pid", q->pid);
		json_text_if(j, "comm", q->comm);
		json_text_if(j, "exe", q->exe);
		json_text_if(j, "cmdline", q->cmdline);
		json_text_if(j, "host", q->host);
		json_number(j, "ns", q->ns);
		json_close(j, '}');
		fits = page_row_end(&room);
	}
	json_close(j, ']');
}

static void put_notes(struct page *p, struct json *j)
{
	struct page_room room;
	bool fits = true;
	size_t i, reported = 0;

	page_room_begin(&room, j, PAGE_ROOM_NOTES);
	json_open(j, "notes", '[');
	for (i = 0; fits && i < p->nnotes; i++) {
		page_row_begin(&room);
		json_open(j, NULL, '{');
		json_number(j, "ns", p->note[i].ns);
		json_text(j, "text", p->note[i].text);
		if (p->note[i].is_loss)
			json_number(j, "lost", p->note[i].count);
		json_close(j, '}');
		fits = page_row_end(&room);
		reported += fits;
	}
	json_close(j, ']');
	json_number(j, "notes_left_out", p->notes_left_out + p->nnotes - reported);
}

static void put_tags(struct page *p, struct page_reported *reported, struct json *j)
{
	struct page_room room;
	size_t i;

	page_room_begin(&room, j, PAGE_ROOM_TAGS);
	json_open(j, "tags", '[');
	for (i = 0; i < p->ntags; i++) {
		page_row_begin(&room);
		json_open(j, NULL, '{');
		json_text(j, "name", p->tag[i]->text);
		json_number(j, "captures", p->tag[i]->captures);
		json_close(j, '}');
		if (!page_row_end(&room))
			break;
	}
	json_close(j, ']');
	reported->tags = (uint32_t)i;
	if (p->has_capture_summary)
		page_summary_json(j, "capture_summary", &p->capture_summary);
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

static void put_details(const struct page *p, const struct page_reported *reported, struct json *j)
{
	size_t i;

	json_open(j, "reg_names", '[');
	for (i = 0; i < WREG_COUNT; i++)
		json_text(j, NULL, text_reg_name((int)i));
	json_close(j, ']');
	json_number(j, "whole_regs", WHOLE_REGS);
	if (p->regs_withheld)
		json_bool(j, "regs_withheld", true);
	json_open(j, "regs", '[');
	for (i = 0; i < reported->ndetails; i++)
		put_regs(j, &reported->detail[i]->regs,
			 i % WHOLE_REGS ? &reported->detail[i - 1]->regs : NULL);
	json_close(j, ']');
}

/* Texts that are one row: what is too long for a page is not there. */
static void put_long_text(struct json *j, const char *name, const char *text)
{
	struct page_room room;

	page_room_begin(&room, j, PAGE_ROOM_HEAD / 4);
	page_row_begin(&room);
	json_text(j, name, text);
	if (!page_row_end(&room))
		json_text(j, name, "");
}

static void put_head(struct page *p, const struct page_reported *reported, struct json *j)
{
	json_text(j, "version", WATCHCTL_VERSION);
	put_long_text(j, "log", p->opt.log);
	page_clock_json(&p->clock, j);
	json_number(j, "accesses", p->accesses);
	json_number(j, "captures", p->captures);
	json_number(j, "calls", p->calls);
	json_number(j, "steps", p->steps);
	if (p->recording)
		put_long_text(j, "recording", p->recording);
	page_ending_json(reported->ending, j);
	json_bool(j, "no_source", p->opt.no_source);
	json_number(j, "details", reported->ndetails);
}

/* Of accesses and captures: how many are not distinguished by what found no room, here or when it was collected.
 */
static void put_left_out(const struct page *p, const struct page_reported *reported, struct json *j)
{
	uint64_t sites = p->sites_left_out, tags = 0;
	uint64_t threads = p->tables.threads_left_out, stacks = p->tables.stacks_left_out;
	size_t i;

	for (i = 0; i < p->tables.ncombos; i++) {
		const struct page_combo *c = &p->tables.combo[i];

		if (c->capture)
			tags += c->place >= reported->tags ? c->n : 0;
		else if (c->place != PAGE_REST && c->place >= reported->sites)
			sites += c->n;
		if (c->thread != PAGE_REST && c->thread >= reported->threads)
			threads += c->n;
		if (c->stack != PAGE_REST && c->stack >= reported->stacks)
			stacks += c->n;
	}
	json_number(j, "sites_left_out", sites);
	json_number(j, "tags_left_out", tags);
	json_number(j, "threads_left_out", threads);
	json_number(j, "stacks_left_out", stacks);
	json_number(j, "combos_left_out", p->tables.combos_left_out);
	json_bool(j, "pictures_left_out", reported->pictures_left_out);
}

bool page_json(struct page *p, struct page_reported *reported, struct json *j)
{
	json_open(j, NULL, '{');
	put_head(p, reported, j);
	put_processes(p, j);
	page_watches_json(p, reported, j);
	put_notes(p, j);
	put_tags(p, reported, j);
	page_sites_json(p, reported, j);
	page_tables_json(p, reported, j);
	put_left_out(p, reported, j);
	put_details(p, reported, j);
	return !j->line.failed;
}

bool page_json_end(struct page *p, const struct page_reported *reported, struct json *j)
{
	json_number(j, "events", reported->nevents);
	json_number(j, "stride", p->events.stride);
	json_close(j, '}');
	return !j->line.failed;
}
