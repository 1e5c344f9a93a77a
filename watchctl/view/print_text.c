/*
 * The form for people: a line an access, the callers indented below it.
 *
 *	12:34:56.789012  worker/1234  write  flag  41 -> 42  set_flag+26  app.c:17  mov ...
 *	    #1  main+18        app.c:40
 */
#include "watchctl/view/printer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/view/utf8.h"

#define STACK_PLACE_WIDTH 34

static const struct {
	size_t min, max;
} column_bounds[COLUMNS] = {
	[COLUMN_WHO] = { 12, 24 },   [COLUMN_WATCH] = { 4, 48 },   [COLUMN_VALUE] = { 10, 36 },
	[COLUMN_PLACE] = { 14, 40 }, [COLUMN_SOURCE] = { 10, 28 },
};

static size_t fit(struct printer *p, enum column c, const char *text)
{
	size_t need = utf8_columns(text);

	if (need > column_bounds[c].max)
		need = column_bounds[c].max;
	if (need > p->width[c])
		p->width[c] = need;
	return p->width[c];
}

static void cell(struct printer *p, enum column c, enum style style, const char *text)
{
	text_cell(p, style, text, fit(p, c, text));
	fputs("  ", p->out);
}

static void plain_cell(struct printer *p, enum column c, const char *text)
{
	size_t width = fit(p, c, text), columns = utf8_columns(text);

	fprintf(p->out, "%s%*s  ", text, columns < width ? (int)(width - columns) : 0, "");
}

static void print_who(struct printer *p, const struct view_access *a)
{
	char comm[64], who[96];

	utf8_clean(a->comm && *a->comm ? a->comm : "?", comm, sizeof(comm));
	snprintf(who, sizeof(who), "%s/%d", comm, a->raw->tid);
	plain_cell(p, COLUMN_WHO, who);
}

static void print_place(struct printer *p, const struct view_access *a)
{
	const struct location *l = a->location;
	uint64_t ip = a->ip ? a->ip : a->raw->regs.r[WREG_RIP];
	char place[CELL_TEXT], text[CELL_TEXT + 16], source[300];

	text_place(l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset, ip, place,
		   sizeof(place));
	snprintf(text, sizeof(text), "%s%s", a->ip ? "" : "then ", place);
	cell(p, COLUMN_PLACE, STYLE_PLACE, text);
	text_source(l->frame[0].file, l->frame[0].line, source, sizeof(source));
	plain_cell(p, COLUMN_SOURCE, source);
}

static void print_insn(struct printer *p, const struct view_access *a)
{
	char text[200];

	utf8_clean(a->insn ? a->insn : "(instruction not known)", text, sizeof(text));
	text_cell(p, STYLE_DIM, text, 0);
	if (a->raw->displaced)
		text_cell(p, STYLE_ALERT,
			  "  (seen late: the program blocked SIGTRAP; registers and stack are of a later "
			  "moment)",
			  0);
	if (a->origin == ORIGIN_KERNEL)
		text_cell(p, STYLE_UPDATE, "  (by the kernel)", 0);
	fputc('\n', p->out);
}

static void print_frame(struct printer *p, size_t i, const struct view_frame *f)
{
	char place[CELL_TEXT], source[300];

	if (f->inlined)
		utf8_clean(f->function ? f->function : "?", place, sizeof(place));
	else
		text_place(f->module, f->module_offset, f->function, f->offset, f->ip, place, sizeof(place));
	text_source(f->file, f->line, source, sizeof(source));
	if (!source[0] && f->function && f->module)
		text_source(f->module, 0, source, sizeof(source));
	fprintf(p->out, "    #%-2zu ", i);
	if (!source[0] && !f->inlined && !f->signal) {
		text_cell(p, STYLE_PLACE, place, 0);
	} else {
		text_cell(p, STYLE_PLACE, place, STACK_PLACE_WIDTH);
		fprintf(p->out, "  %s", source);
	}
	if (f->inlined)
		fputs("  (inlined)", p->out);
	if (f->signal)
		fputs("  (signal handler called)", p->out);
	fputc('\n', p->out);
}

static const char *walk_end_text(enum walk_end why)
{
	switch (why) {
	case WALK_END_COMPLETE:
		return NULL;
	case WALK_END_DEPTH:
		return "more frames were not recorded";
	case WALK_END_UNREADABLE:
		return "the stack could not be read further";
	case WALK_END_NO_RULE:
		return "no unwind information for the code of the last frame";
	case WALK_END_NOT_ASCENDING:
		return "the next frame lies below this one: another stack, or a damaged one";
	case WALK_END_UNKNOWN_PC:
		return "the code of the last frame was not known when it was recorded";
	}
	return "for a reason this version does not know";
}

static void print_stack(struct printer *p, const struct view_access *a)
{
	/* Frame 0 is on the access's own line, unless functions were inlined into it. */
	size_t i = a->nframes && !a->frame[0].inlined ? 1 : 0;
	const char *why = walk_end_text(a->walk_end);

	for (; i < a->nframes; i++)
		print_frame(p, i, &a->frame[i]);
	if (why && a->nframes) {
		fputs("    ", p->out);
		text_cell(p, STYLE_DIM, "... ", 0);
		text_cell(p, STYLE_DIM, why, 0);
		fputc('\n', p->out);
	}
}

static void print_regs(struct printer *p, const struct regs *regs)
{
	int i;

	for (i = 0; i < WREG_COUNT; i++)
		fprintf(p->out, "%s%-7s %016llx%s", i % 4 ? "  " : "    ", printer_reg_name(i),
			(unsigned long long)regs->r[i], i % 4 == 3 || i + 1 == WREG_COUNT ? "\n" : "");
}

static void print_access(void *ctx, const struct view_access *a)
{
	struct printer *p = ctx;
	bool same = a->raw->has_old && a->raw->has_new && a->raw->old_value == a->raw->new_value;
	char text[CELL_TEXT];

	text_time(p, a->time, text, sizeof(text));
	text_cell(p, STYLE_DIM, text, 0);
	fputs("  ", p->out);
	print_who(p, a);
	text_cell(p, text_kind_style(a->kind), text_kind(a->kind), 5);
	fputs("  ", p->out);
	utf8_clean(a->watch->e.name, text, sizeof(text));
	cell(p, COLUMN_WATCH, STYLE_WATCH, text);
	text_change(a->kind, a->old_text, a->new_text, same, text, sizeof(text));
	plain_cell(p, COLUMN_VALUE, text);
	print_place(p, a);
	print_insn(p, a);
	if (p->opt.regs)
		print_regs(p, &a->raw->regs);
	if (!p->opt.no_stack)
		print_stack(p, a);
}

static void print_process(void *ctx, const struct process_event *e, struct view_time time)
{
	struct printer *p = ctx;
	char comm[64], host[256], command[CELL_TEXT], day[64] = "";
	time_t clock = time.real_ns / 1000000000u;
	const char *line = e->cmdline && *e->cmdline ? e->cmdline : e->exe;
	struct tm tm;

	utf8_clean(e->comm ? e->comm : "", comm, sizeof(comm));
	utf8_clean(line ? line : "", command, sizeof(command));
	utf8_clean(e->host ? e->host : "", host, sizeof(host));
	if (time.real_ns && (p->opt.utc ? gmtime_r(&clock, &tm) : localtime_r(&clock, &tm)))
		strftime(day, sizeof(day), p->opt.utc ? "%Y-%m-%d %H:%M:%S UTC" : "%Y-%m-%d %H:%M:%S %Z",
			 &tm);
	fprintf(p->out, "process %d (%s): %s", e->pid, comm, command);
	if (*host)
		fprintf(p->out, ", on %s", host);
	if (*day)
		fprintf(p->out, ", %s", day);
	fputc('\n', p->out);
}

static const char *access_words(uint32_t access)
{
	switch (access) {
	case ACCESS_READ:
		return "reads";
	case ACCESS_WRITE:
		return "writes";
	case ACCESS_EXECUTE:
		return "execution";
	default:
		return "reads and writes";
	}
}

static void print_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct printer *p = ctx;
	const struct watch_event *e = &w->e;
	char text[CELL_TEXT];
	bool all = e->threads_armed == e->threads;

	fputs("watching ", p->out);
	text_cell(p, STYLE_WATCH, utf8_clean(e->name, text, sizeof(text)), 0);
	if (e->full_name && *e->full_name && strcmp(e->full_name, e->name) != 0)
		fprintf(p->out, " = %s", utf8_clean(e->full_name, text, sizeof(text)));
	fputs(" (", p->out);
	if (e->type.name && *e->type.name)
		fprintf(p->out, "%s, ", utf8_clean(e->type.name, text, sizeof(text)));
	fprintf(p->out, "%u byte%s at 0x%llx) for %s: ", e->size, e->size == 1 ? "" : "s",
		(unsigned long long)e->addr, access_words(e->access));
	snprintf(text, sizeof(text), "armed on %u of %u thread%s", e->threads_armed, e->threads,
		 e->threads == 1 ? "" : "s");
	if (all)
		fputs(text, p->out);
	else
		text_cell(p, STYLE_ALERT, text, 0);
	if (e->engine && *e->engine)
		fprintf(p->out, ", %s engine", utf8_clean(e->engine, text, sizeof(text)));
	if (e->slot >= 0)
		fprintf(p->out, ", debug register DR%d", e->slot);
	if (e->kernel)
		fputs(", the kernel's accesses too", p->out);
	fputs(e->verified ? ", verified by a known access\n" : ", not verified\n", p->out);
}

static void print_lost(void *ctx, const struct view_watch *w, const struct lost_event *l,
		       struct view_time time)
{
	struct printer *p = ctx;
	char when[32], name[CELL_TEXT], why[200], text[CELL_TEXT + 300];

	text_time(p, time, when, sizeof(when));
	text_cell(p, STYLE_DIM, when, 0);
	utf8_clean(w ? w->e.name : "", name, sizeof(name));
	utf8_clean(l->why && *l->why ? l->why : "no reason given", why, sizeof(why));
	snprintf(text, sizeof(text), "lost %llu access%s%s%s: %s", (unsigned long long)l->count,
		 l->count == 1 ? "" : "es", w ? " to " : "", name, why);
	fputs("  ", p->out);
	text_cell(p, STYLE_ALERT, text, 0);
	fputc('\n', p->out);
}

static void print_note(void *ctx, const char *note, struct view_time time)
{
	struct printer *p = ctx;
	char when[32], text[1024];

	text_time(p, time, when, sizeof(when));
	text_cell(p, STYLE_DIM, when, 0);
	fprintf(p->out, "  note: %s\n", utf8_clean(note, text, sizeof(text)));
}

static void print_balance(struct printer *p, const struct summary_event *e)
{
	uint64_t known = e->recorded + e->lost + e->filtered;
	char text[64];

	if (known == e->counted)
		return;
	if (known < e->counted)
		snprintf(text, sizeof(text), ", %llu not accounted for",
			 (unsigned long long)(e->counted - known));
	else
		snprintf(text, sizeof(text), ", %llu more than counted",
			 (unsigned long long)(known - e->counted));
	text_cell(p, STYLE_ALERT, text, 0);
}

static void print_summary(void *ctx, const struct view_summary *s)
{
	struct printer *p = ctx;
	const struct summary_event *e = &s->e;
	char name[CELL_TEXT], lost[40];

	text_begin_ending(p);
	text_cell(p, STYLE_WATCH, utf8_clean(s->watch->e.name, name, sizeof(name)), 0);
	fputs(": ", p->out);
	if (e->has_counted)
		fprintf(p->out, "%llu access%s counted by the CPU: ", (unsigned long long)e->counted,
			e->counted == 1 ? "" : "es");
	snprintf(lost, sizeof(lost), "%llu lost", (unsigned long long)e->lost);
	fprintf(p->out, "%llu recorded, ", (unsigned long long)e->recorded);
	if (e->lost)
		text_cell(p, STYLE_ALERT, lost, 0);
	else
		fputs(lost, p->out);
	fprintf(p->out, ", %llu filtered", (unsigned long long)e->filtered);
	if (e->has_counted)
		print_balance(p, e);
	fprintf(p->out, ", in %.1f s", e->duration_ns / 1e9);
	if (!s->complete)
		fputs(" (the recording ends without a summary: this is what is in it)", p->out);
	else if (!e->has_counted)
		fputs(" (the CPU's own count is not available)", p->out);
	fputc('\n', p->out);
}

struct printer *print_text_new(FILE *out, const struct print_options *options)
{
	static const struct view_ops ops = {
		.process = print_process,
		.armed = print_armed,
		.access = print_access,
		.lost = print_lost,
		.note = print_note,
		.summary = print_summary,
		.sites = print_text_sites,
	};
	struct printer *p = calloc(1, sizeof(*p));
	int c;

	if (!p)
		return NULL;
	p->ops = &ops;
	p->out = out;
	p->opt = *options;
	for (c = 0; c < COLUMNS; c++)
		p->width[c] = column_bounds[c].min;
	return p;
}
