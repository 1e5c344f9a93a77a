/*
 * The form for people: a line an access or a capture, the callers indented below it.
 *
 *	12:34:56.789012  worker/1234  write  flag  41 -> 42  set_flag+26  app.c:17  mov ...
 *	    #1  main+18        app.c:40
 *
 * Where that does not fit the terminal, the place takes the first line of the stack:
 *
 *	12:34:56.789012  worker/1234  write  flag  41 -> 42
 *	    at  set_flag+26    app.c:17  mov ...
 *	    #1  main+18        app.c:40
 */
#include "watchctl/base/syscall_name.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/utf8.h"

#define REGS_WIDTH 106	 /* four registers a line */
#define SUMMARY_WIDTH 88 /* what the numbers take, a guess: they are behind the name or below it */

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

/* The cells of a line in the order of time, as they will be printed. */
struct time_line {
	char time[32], who[96], watch[CELL_TEXT], value[CELL_TEXT], place[CELL_TEXT + 16], source[300];
	const char *kind;
	enum style kind_style;
	char insn[200];	  /* "" for captures */
	char remark[200]; /* "" or what must be known about the access */
	enum style remark_style;
};

static void fill_place(const struct view_access *a, struct time_line *l)
{
	const struct location *at = a->location;
	uint64_t ip = a->ip ? a->ip : a->raw->regs.r[WREG_RIP];
	char place[CELL_TEXT];

	text_place(at->module, at->module_offset, at->frame[at->nframes - 1].function, at->offset, ip, place,
		   sizeof(place));
	snprintf(l->place, sizeof(l->place), "%s%s", a->ip ? "" : "then ", place);
	text_source(at->frame[0].file, at->frame[0].line, l->source, sizeof(l->source));
	utf8_clean(a->insn ? a->insn : "(instruction not known)", l->insn, sizeof(l->insn));
}

static void print_text_append(char *buf, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void print_text_append(char *buf, size_t cap, const char *fmt, ...)
{
	size_t n = strlen(buf);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf + n, cap - n, fmt, ap);
	va_end(ap);
}

/* "  (by the kernel: read, in rep_movs_alternative)" */
static void describe_kernel(const struct access_event *e, char *buf, size_t cap)
{
	const char *call = e->in_kernel && e->syscall >= 0 ? syscall_name(e->syscall) : NULL;
	char function[80] = "";

	if (e->kernel_function)
		utf8_clean(e->kernel_function, function, sizeof(function));
	print_text_append(buf, cap, "  (by the kernel");
	if (call)
		print_text_append(buf, cap, ": %s", call);
	else if (e->in_kernel && e->syscall >= 0)
		print_text_append(buf, cap, ": system call %d", e->syscall);
	else if (e->in_kernel)
		print_text_append(buf, cap, ", not in a system call");
	if (*function)
		print_text_append(buf, cap, ", in %s", function);
	print_text_append(buf, cap, ")");
}

static void fill_who(struct printer *p, struct view_time time, const char *comm, int32_t tid,
		     struct time_line *l)
{
	char clean[64];

	text_time(p, time, l->time, sizeof(l->time));
	utf8_clean(comm && *comm ? comm : "?", clean, sizeof(clean));
	snprintf(l->who, sizeof(l->who), "%s/%d", clean, tid);
}

static void fill_access(struct printer *p, const struct view_access *a, struct time_line *l)
{
	enum text_step step =
		text_step_of(&a->watch->e.type, a->raw->size, a->raw->has_old && a->raw->has_new,
			     a->raw->old_uncertain, a->raw->old_value, a->raw->new_value);

	fill_who(p, a->time, a->comm, a->raw->tid, l);
	l->kind = text_kind(a->kind);
	l->kind_style = text_kind_style(a->kind);
	utf8_clean(a->watch->e.name, l->watch, sizeof(l->watch));
	if (a->raw->addr > a->watch->e.addr && a->raw->addr - a->watch->e.addr < a->watch->e.size)
		print_text_append(l->watch, sizeof(l->watch), "+%llu",
				  (unsigned long long)(a->raw->addr - a->watch->e.addr));
	text_change(a->kind, a->old_text, a->new_text, step, l->value, sizeof(l->value));
	fill_place(a, l);
	if (a->raw->displaced) {
		print_text_append(
			l->remark, sizeof(l->remark),
			"  (seen late: the program blocked SIGTRAP; registers and stack are from a later moment)");
		l->remark_style = STYLE_ALERT;
	} else if (a->origin == ORIGIN_KERNEL) {
		describe_kernel(a->raw, l->remark, sizeof(l->remark));
		l->remark_style = STYLE_UPDATE;
	}
}

static void fill_capture(struct printer *p, const struct view_capture *c, struct time_line *l)
{
	const struct view_frame *f = c->frame;
	size_t real = 0;

	fill_who(p, c->time, c->comm, c->raw->tid, l);
	l->kind = "tag";
	l->kind_style = STYLE_TAG;
	utf8_clean(c->tag->text, l->watch, sizeof(l->watch));
	if (c->raw->has_value)
		text_number(c->raw->value, l->value, sizeof(l->value));
	else if (c->raw->withheld)
		snprintf(l->value, sizeof(l->value), "%s", view_withheld);
	if (!c->nframes) {
		snprintf(l->place, sizeof(l->place), "(no stack)");
		return;
	}
	while (real + 1 < c->nframes && f[real].inlined)
		real++;
	text_place(f[real].module, f[real].module_offset, f[real].function, f[real].offset, f[real].ip,
		   l->place, sizeof(l->place));
	text_source(f[0].file, f[0].line, l->source, sizeof(l->source));
}

static void fill_probe(struct printer *p, const struct view_probe *v, struct time_line *l)
{
	const struct view_frame *f = v->frame;
	size_t real = 0;

	fill_who(p, v->time, v->comm, v->raw->tid, l);
	l->kind = "probe";
	l->kind_style = STYLE_TAG;
	utf8_clean(v->site->probe, l->watch, sizeof(l->watch));
	utf8_clean(v->text ? v->text : "", l->value, sizeof(l->value));
	utf8_clean(v->site->insn ? v->site->insn : "", l->insn, sizeof(l->insn));
	if (!v->nframes) {
		if (v->site->tactic != PROBE_TACTIC_SOURCE) /* its name says which it is */
			snprintf(l->place, sizeof(l->place), "(place not known)");
		return;
	}
	while (real + 1 < v->nframes && f[real].inlined)
		real++;
	text_place(f[real].module, f[real].module_offset, f[real].function, f[real].offset, f[real].ip,
		   l->place, sizeof(l->place));
	text_source(f[0].file, f[0].line, l->source, sizeof(l->source));
}

/* On a terminal, the longest names of C++ are cut to what a line below the first one can hold. */
static void fit_place(const struct printer *p, struct time_line *l)
{
	size_t room = strlen("    at  ") + utf8_columns(l->source) + 2;

	if (p->opt.width)
		text_shorten(l->place, p->opt.width > room + STACK_PLACE_WIDTH ? p->opt.width - room
									       : STACK_PLACE_WIDTH);
}

static bool must_fold(struct printer *p, const struct time_line *l)
{
	size_t n = strlen(l->time) + fit(p, COLUMN_WHO, l->who) + 5 + fit(p, COLUMN_WATCH, l->watch) +
		   fit(p, COLUMN_VALUE, l->value) + fit(p, COLUMN_PLACE, l->place) +
		   fit(p, COLUMN_SOURCE, l->source) + utf8_columns(l->insn) + utf8_columns(l->remark);

	if (!p->opt.no_stack && text_overflows(p, n + 2 * 7))
		p->folded = true;
	return p->folded;
}

/* No line ends in blanks: the last cell that has a text is not padded. */
static void print_place(struct printer *p, const struct time_line *l, bool fold)
{
	bool more = *l->insn || *l->source;

	if (fold) {
		text_cell(p, STYLE_PLACE, l->place, more ? STACK_PLACE_WIDTH : 0);
		fprintf(p->out, "%s%s%s", more ? "  " : "", l->source, *l->source && *l->insn ? "  " : "");
	} else {
		text_cell(p, STYLE_PLACE, l->place, more ? fit(p, COLUMN_PLACE, l->place) : 0);
		fputs(more ? "  " : "", p->out);
		if (*l->insn)
			plain_cell(p, COLUMN_SOURCE, l->source);
		else
			fputs(l->source, p->out);
	}
}

static void print_line(struct printer *p, const struct time_line *l)
{
	bool fold = must_fold(p, l);

	text_cell(p, STYLE_DIM, l->time, 0);
	fputs("  ", p->out);
	plain_cell(p, COLUMN_WHO, l->who);
	text_cell(p, l->kind_style, l->kind, 5);
	fputs("  ", p->out);
	if (fold && !*l->value) {
		text_cell(p, STYLE_WATCH, l->watch, 0);
		fputs("\n    at  ", p->out);
	} else {
		cell(p, COLUMN_WATCH, STYLE_WATCH, l->watch);
		if (!*l->place && !*l->source && !*l->insn && !*l->remark)
			fputs(l->value, p->out);
		else if (fold)
			fprintf(p->out, "%s\n    at  ", l->value);
		else
			plain_cell(p, COLUMN_VALUE, l->value);
	}
	print_place(p, l, fold);
	text_cell(p, STYLE_DIM, l->insn, 0);
	text_cell(p, l->remark_style, l->remark, 0);
	fputc('\n', p->out);
}

static void print_regs(struct printer *p, const struct regs *regs)
{
	int i, in_line = text_overflows(p, REGS_WIDTH) ? 3 : 4;

	for (i = 0; i < WREG_COUNT; i++)
		fprintf(p->out, "%s%-7s %016llx%s", i % in_line ? "  " : "    ", text_reg_name(i),
			(unsigned long long)regs->r[i],
			i % in_line == in_line - 1 || i + 1 == WREG_COUNT ? "\n" : "");
}

/* "    last cache-miss recorded in this thread, 12.3 us before, value 17:" and its stack. */
static void print_before(struct printer *p, const struct view_access *a)
{
	const struct view_capture *c = a->before;
	char tag[CELL_TEXT], when[40], value[40] = "";

	if (!p->opt.before)
		return;
	utf8_clean(p->opt.before, tag, sizeof(tag));
	fputs("    ", p->out);
	if (!c) {
		fputs("no ", p->out);
		text_cell(p, STYLE_WATCH, tag, 0);
		fputs(" recorded in this thread before\n", p->out);
		return;
	}
	text_duration(a->time.mono_ns - c->time.mono_ns, when, sizeof(when));
	if (c->raw->has_value)
		text_number(c->raw->value, value, sizeof(value));
	else if (c->raw->withheld)
		snprintf(value, sizeof(value), "%s", view_withheld);
	fputs("last ", p->out);
	text_cell(p, STYLE_WATCH, tag, 0);
	fprintf(p->out, " recorded in this thread, %s before%s%s:\n", when, *value ? ", value " : "", value);
	text_inner_stack(p, c->frame, c->nframes, c->walk_end);
}

static void print_access(void *ctx, const struct view_access *a)
{
	struct printer *p = ctx;
	struct time_line l = { 0 };

	print_text_step_flush(p);
	fill_access(p, a, &l);
	fit_place(p, &l);
	print_line(p, &l);
	if (p->opt.regs && a->raw->withheld & WITHHELD_REGS)
		fputs("    registers: (withheld)\n", p->out);
	else if (p->opt.regs)
		print_regs(p, &a->raw->regs);
	if (!p->opt.no_stack)
		text_stack(p, a->frame, a->nframes, a->walk_end);
	print_before(p, a);
}

static void print_capture(void *ctx, const struct view_capture *c)
{
	struct printer *p = ctx;
	struct time_line l = { 0 };

	print_text_step_flush(p);
	fill_capture(p, c, &l);
	fit_place(p, &l);
	print_line(p, &l);
	if (!p->opt.no_stack)
		text_stack(p, c->frame, c->nframes, c->walk_end);
}

static void print_probe(void *ctx, const struct view_probe *v)
{
	struct printer *p = ctx;
	struct time_line l = { 0 };

	print_text_step_flush(p);
	fill_probe(p, v, &l);
	fit_place(p, &l);
	print_line(p, &l);
	if (v->has_stack && !p->opt.no_stack)
		text_stack(p, v->frame, v->nframes, v->walk_end);
}

static void print_process(void *ctx, const struct view_event *v)
{
	const struct process_event *e = &v->raw->process;
	struct printer *p = ctx;
	char comm[64], host[256], command[CELL_TEXT], day[64] = "";
	time_t clock = v->time.real_ns / 1000000000u;
	const char *line = e->cmdline && *e->cmdline ? e->cmdline : e->exe;
	struct tm tm;
	size_t end;

	utf8_clean(e->comm ? e->comm : "", comm, sizeof(comm));
	utf8_clean(line ? line : "", command, sizeof(command));
	/* Programs that write a title over their arguments leave blanks behind it. */
	for (end = strlen(command); end && command[end - 1] == ' '; end--)
		command[end - 1] = '\0';
	utf8_clean(e->host ? e->host : "", host, sizeof(host));
	if (v->time.real_ns && (p->opt.utc ? gmtime_r(&clock, &tm) : localtime_r(&clock, &tm)))
		strftime(day, sizeof(day), p->opt.utc ? "%Y-%m-%d %H:%M:%S UTC" : "%Y-%m-%d %H:%M:%S %Z",
			 &tm);
	fprintf(p->out, *comm ? "process %d (%s)" : "process %d", e->pid, comm);
	if (e->parent)
		fprintf(p->out, ", forked by %d", e->parent);
	if (*command)
		fprintf(p->out, ": %s", command);
	if (*host)
		fprintf(p->out, ", on %s", host);
	if (*day)
		fprintf(p->out, ", %s", day);
	fputc('\n', p->out);
}

/* "libx.so:flag" says what is in libx.so. */
static bool names_module(const char *name, const char *module)
{
	size_t len = strlen(module);

	return !strncmp(name, module, len) && name[len] == ':' && name[len + 1] != ':';
}

/* What is watched, and what follows the colon behind it. */
static void armed_texts(const struct watch_event *e, char *what, char *how, size_t cap)
{
	char text[CELL_TEXT];
	const char *module;

	what[0] = how[0] = '\0';
	if (e->full_name && *e->full_name && strcmp(e->full_name, e->name) != 0)
		print_text_append(what, cap, " = %s", utf8_clean(e->full_name, text, sizeof(text)));
	module = e->module ? strrchr(e->module, '/') : NULL;
	module = module ? module + 1 : e->module;
	if (module && *module && !names_module(e->name, module))
		print_text_append(what, cap, " of %s", utf8_clean(module, text, sizeof(text)));
	print_text_append(what, cap, " (");
	if (e->type.name && *e->type.name && e->access != ACCESS_EXECUTE)
		print_text_append(what, cap, "%s, ", utf8_clean(e->type.name, text, sizeof(text)));
	if (e->access == ACCESS_EXECUTE)
		print_text_append(what, cap, "0x%llx)", (unsigned long long)e->addr);
	else if (e->per_thread)
		print_text_append(what, cap, "%u byte%s in each thread)", e->size, e->size == 1 ? "" : "s");
	else
		print_text_append(what, cap, "%u byte%s at 0x%llx)", e->size, e->size == 1 ? "" : "s",
				  (unsigned long long)e->addr);
	print_text_append(what, cap, " for %s", text_access(e->access));
	if (e->filter)
		print_text_append(what, cap, " where %s", utf8_clean(e->filter, text, sizeof(text)));
	print_text_append(what, cap, ":");
	if (e->engine && *e->engine)
		print_text_append(how, cap, ", %s engine", utf8_clean(e->engine, text, sizeof(text)));
	if (e->why)
		print_text_append(how, cap, " (%s)", utf8_clean(e->why, text, sizeof(text)));
	if (e->slot >= 0)
		print_text_append(how, cap, ", debug register DR%d", e->slot);
	if (e->kernel)
		print_text_append(how, cap, ", the kernel's accesses too");
	if (e->access != ACCESS_EXECUTE)
		print_text_append(how, cap, "%s",
				  e->verified ? ", verified by a known access" : ", not verified");
}

static void print_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct printer *p = ctx;
	const struct watch_event *e = &w->e;
	char name[CELL_TEXT], what[2 * CELL_TEXT], how[2 * CELL_TEXT], threads[64];
	size_t columns;

	utf8_clean(e->name, name, sizeof(name));
	armed_texts(e, what, how, sizeof(what));
	snprintf(threads, sizeof(threads), "armed on %u of %u thread%s", e->threads_armed, e->threads,
		 e->threads == 1 ? "" : "s");
	columns = strlen("watching  ") + utf8_columns(name) + utf8_columns(what) + strlen(threads) +
		  utf8_columns(how);
	fputs("watching ", p->out);
	text_cell(p, STYLE_WATCH, name, 0);
	fprintf(p->out, "%s%s", what, text_overflows(p, columns) ? "\n    " : " ");
	if (e->threads_armed == e->threads)
		fputs(threads, p->out);
	else
		text_cell(p, STYLE_ALERT, threads, 0);
	fprintf(p->out, "%s\n", how);
}

static void print_lost(void *ctx, const struct view_watch *w, const struct lost_event *l,
		       struct view_time time)
{
	struct printer *p = ctx;
	char when[32], name[CELL_TEXT], why[200], text[CELL_TEXT + 300];

	print_text_step_flush(p);
	text_time(p, time, when, sizeof(when));
	text_cell(p, STYLE_DIM, when, 0);
	utf8_clean(w ? w->e.name : "", name, sizeof(name));
	utf8_clean(l->why && *l->why ? l->why : "no reason given", why, sizeof(why));
	if (l->watch == WATCH_CAPTURES)
		snprintf(text, sizeof(text), "lost %llu capture%s: %s", (unsigned long long)l->count,
			 l->count == 1 ? "" : "s", why);
	else if (l->watch == WATCH_CALLS)
		snprintf(text, sizeof(text), "lost %llu event%s of calls: %s", (unsigned long long)l->count,
			 l->count == 1 ? "" : "s", why);
	else if (l->watch == WATCH_PROBES)
		snprintf(text, sizeof(text), "lost %llu event%s of probes: %s", (unsigned long long)l->count,
			 l->count == 1 ? "" : "s", why);
	else
		snprintf(text, sizeof(text), "lost %llu access%s%s%s: %s", (unsigned long long)l->count,
			 l->count == 1 ? "" : "es", w ? " to " : "", name, why);
	fputs("  ", p->out);
	text_cell(p, STYLE_ALERT, text, 0);
	fputc('\n', p->out);
}

static void print_note(void *ctx, const struct view_event *v)
{
	struct printer *p = ctx;
	char when[32], text[1024];

	print_text_step_flush(p);
	text_time(p, v->time, when, sizeof(when));
	text_cell(p, STYLE_DIM, when, 0);
	fprintf(p->out, "  note: %s\n", utf8_clean(v->raw->note.text, text, sizeof(text)));
}

static void print_balance(struct printer *p, const struct summary_event *e)
{
	uint64_t known = e->recorded + e->lost + e->filtered;
	char text[64];

	/* A probe function need not record anything, and may record more than once. */
	if (known == e->counted || e->watch == WATCH_PROBES)
		return;
	if (known < e->counted)
		snprintf(text, sizeof(text), ", %llu not accounted for",
			 (unsigned long long)(e->counted - known));
	else
		snprintf(text, sizeof(text), ", %llu more than counted",
			 (unsigned long long)(known - e->counted));
	text_cell(p, STYLE_ALERT, text, 0);
}

/* What is there to be counted, in words. */
static void print_counted(struct printer *p, const struct view_summary *s)
{
	const struct summary_event *e = &s->e;

	if (e->watch == WATCH_PROBES && s->reached)
		fprintf(p->out, "reached %llu time%s: ", (unsigned long long)s->reached,
			s->reached == 1 ? "" : "s");
	else if (e->has_counted && !s->watch)
		fprintf(p->out, "%llu made by the program: ", (unsigned long long)e->counted);
	else if (e->has_counted)
		fprintf(p->out, "%llu access%s counted by the CPU: ", (unsigned long long)e->counted,
			e->counted == 1 ? "" : "es");
}

/* What nobody has counted: of probes, nobody is expected to. */
static const char *text_uncounted(const struct view_summary *s)
{
	if (!s->complete)
		return " (the recording ends without a summary: these are the numbers of its events)";
	if (s->e.has_counted || s->e.watch == WATCH_PROBES)
		return "";
	return s->watch ? " (the CPU's own count is not available)"
			: " (the program's own count is not available)";
}

static void print_summary(void *ctx, const struct view_summary *s)
{
	struct printer *p = ctx;
	const struct summary_event *e = &s->e;
	char name[CELL_TEXT], lost[40];

	text_begin_ending(p);
	utf8_clean(s->watch		      ? s->watch->e.name
		   : e->watch == WATCH_PROBES ? "probes"
					      : "captures",
		   name, sizeof(name));
	text_cell(p, s->watch ? STYLE_WATCH : STYLE_TAG, name, 0);
	fputs(text_overflows(p, utf8_columns(name) + SUMMARY_WIDTH) ? ":\n    " : ": ", p->out);
	print_counted(p, s);
	snprintf(lost, sizeof(lost), "%llu lost", (unsigned long long)e->lost);
	fprintf(p->out, "%llu recorded, ", (unsigned long long)e->recorded);
	if (e->lost)
		text_cell(p, STYLE_ALERT, lost, 0);
	else
		fputs(lost, p->out);
	if (s->watch || e->filtered)
		fprintf(p->out, ", %llu filtered", (unsigned long long)e->filtered);
	if (e->has_counted)
		print_balance(p, e);
	fprintf(p->out, ", in %.1f s", e->duration_ns / 1e9);
	if (s->complete && s->partial)
		fprintf(p->out, "; this log still holds %llu of them", (unsigned long long)s->held);
	fputs(text_uncounted(s), p->out);
	fputc('\n', p->out);
}

struct printer *print_text_new(FILE *out, const struct print_options *options)
{
	static const struct view_subscription events[] = {
		{ EVENT_PROCESS, print_process },
		{ EVENT_NOTE, print_note },
		{ EVENT_RECORDING, print_text_recording },
		{ EVENT_RANGE, print_text_range },
		{ 0 },
	};
	static const struct view_ops ops = {
		.events = events,
		.armed = print_armed,
		.access = print_access,
		.capture = print_capture,
		.probe = print_probe,
		.lost = print_lost,
		.summary = print_summary,
		.sites = print_text_sites,
		.probes = print_text_probes,
		.tags = print_text_tags,
		.stacks = print_text_stacks,
		.call = print_text_call,
		.ret = print_text_return,
		.step = print_text_step,
		.signal = print_text_signal,
		.blocked = print_text_blocked,
		.input = print_text_input,
		.steps = print_text_steps,
	};
	struct printer *p = calloc(1, sizeof(*p));
	int c;

	if (!p)
		return NULL;
	p->ops = &ops;
	p->flush = print_text_step_flush;
	p->out = out;
	p->opt = *options;
	for (c = 0; c < COLUMNS; c++)
		p->width[c] = column_bounds[c].min;
	return p;
}
