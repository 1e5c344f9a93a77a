#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/utf8.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/repl/repl_feed.h"
#include "watchctl/code/elf/debug_package.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/view/event/listing.h"

#define LINES_AROUND 5
#define INSNS_BEFORE 6
#define INSNS_AFTER 6

/* What of an event is to be printed. */
enum part {
	PART_STACK = 1,
	PART_REGS = 2,
	PART_SOURCE = 4,
	PART_CODE = 8,
	PART_LINE = 16, /* the event itself */
};

struct shower {
	struct repl *r;
	unsigned int parts;
	unsigned int width;
	uint64_t number;
};

/* Only when the event is at hand: an error says its number itself. */
static void put_number(const struct shower *s)
{
	printf("event %" PRIu64 "\n", s->number);
}

static void put_no_source(const struct shower *s, const struct view_frame *f)
{
	const struct location *l = f ? symbolizer_lookup(feed_symbolizer(s->r->feed), f->ip) : NULL;
	scoped(freep) char *advice =
		l && l->module ? debug_package_advice_at(l->module, l->build_id, l->build_id_len) : NULL;

	printf("    source: unknown: there is no debug information for this place%s%s\n", advice ? "; " : "",
	       advice ? advice : "");
}

static void put_source(const struct shower *s, const struct view_frame *f)
{
	struct listing l = { 0 };
	char name[300];

	if (!f || !f->file) {
		put_no_source(s, f);
		return;
	}
	utf8_clean(f->file, name, sizeof(name));
	if (!listing_source(f->file, f->module, f->line, LINES_AROUND, &l))
		return;
	if (l.why)
		printf("    source: %s:%u: %s\n", name, f->line, l.why);
	else
		printf("    %s:%u%s\n", name, f->line,
		       l.newer ? " (the file is newer than the program: lines may have moved)" : "");
	for (size_t i = 0; i < l.n; i++)
		printf("  %s %6u  %s%s%s\n", l.v[i].here ? "->" : "  ", l.v[i].line,
		       l.v[i].here && s->r->colour ? "\033[1m" : "", l.v[i].text,
		       l.v[i].here && s->r->colour ? "\033[0m" : "");
	listing_deinit(&l);
}

static void put_code(const struct shower *s, uint64_t ip)
{
	struct listing l = { 0 };

	if (!ip) {
		puts("    instructions: unknown: the accessing instruction could not be determined");
		return;
	}
	if (!listing_code(feed_symbolizer(s->r->feed), s->r->syntax, ip, INSNS_BEFORE, INSNS_AFTER, &l))
		return;
	if (l.why)
		printf("    instructions: %s\n", l.why);
	for (size_t i = 0; i < l.n; i++)
		printf("  %s 0x%" PRIx64 "  %s%s%s\n", l.v[i].here ? "->" : "  ", l.v[i].ip,
		       l.v[i].here && s->r->colour ? "\033[1m" : "", l.v[i].text,
		       l.v[i].here && s->r->colour ? "\033[0m" : "");
	listing_deinit(&l);
}

static struct printer *printer_for(const struct shower *s)
{
	const struct print_options o = { .no_stack = !(s->parts & PART_STACK),
					 .regs = s->parts & PART_REGS,
					 .colour = s->r->colour,
					 .width = s->width };

	return print_text_new(stdout, &o);
}

static void on_access(void *ctx, const struct view_access *a)
{
	const struct shower *s = ctx;
	scoped(printer_freep) struct printer *p = printer_for(s);
	struct view v;

	put_number(s);
	if (p && s->parts & PART_LINE) {
		v = printer_view(p);
		v.ops->access(v.ctx, a);
	}
	if (s->parts & PART_SOURCE)
		put_source(s, a->nframes ? &a->frame[0] : NULL);
	if (s->parts & PART_CODE)
		put_code(s, a->ip);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	const struct shower *s = ctx;
	scoped(printer_freep) struct printer *p = printer_for(s);
	struct view v;

	put_number(s);
	if (p && s->parts & PART_LINE) {
		v = printer_view(p);
		v.ops->capture(v.ctx, c);
	}
	if (s->parts & PART_REGS && !(s->parts & PART_STACK))
		puts("    registers: a capture has none");
	if (s->parts & PART_SOURCE)
		put_source(s, c->nframes ? &c->frame[0] : NULL);
	if (s->parts & PART_CODE)
		put_code(s, c->nframes ? c->frame[0].ip : 0);
}

/* The number of an event, "17" or "#17"; without one, the last. */
static struct wc_error *which(struct repl *r, int argc, char **argv, uint64_t *ret)
{
	const char *text;
	char *end;

	if (!r->feed)
		return wc_error_new(WC_ETARGET, "there are no events: attach PID, run PROGRAM, or open LOG");
	if (argc > 2)
		return wc_error_new(WC_EUSAGE, "%s takes one event", argv[0]);
	*ret = feed_count(r->feed);
	if (argc == 1)
		return *ret ? NULL : wc_error_new(WC_ENAME, "no event has come yet");
	text = argv[1] + (argv[1][0] == '#');
	*ret = strtoull(text, &end, 10);
	if (end == text || *end || *text == '-')
		return wc_error_new(WC_EUSAGE, "%s: \"%s\" is not an event: give its number, as in %s 17",
				    argv[0], argv[1], argv[0]);
	return NULL;
}

static struct wc_error *show_parts(struct repl *r, int argc, char **argv, unsigned int parts)
{
	static const struct view_ops ops = { .access = on_access, .capture = on_capture };
	struct shower s = { .r = r,
			    .parts = parts,
			    .width = r->interactive ? terminal_width(STDOUT_FILENO) : 0 };
	struct wc_error *err = which(r, argc, argv, &s.number);

	return err ? err : feed_again(r->feed, s.number, (struct view){ &ops, &s });
}

struct wc_error *repl_show(struct repl *r, int argc, char **argv)
{
	return show_parts(r, argc, argv, PART_LINE | PART_STACK | PART_REGS | PART_SOURCE | PART_CODE);
}

struct wc_error *repl_bt(struct repl *r, int argc, char **argv)
{
	return show_parts(r, argc, argv, PART_LINE | PART_STACK);
}

struct wc_error *repl_regs(struct repl *r, int argc, char **argv)
{
	return show_parts(r, argc, argv, PART_LINE | PART_REGS);
}

struct wc_error *repl_list(struct repl *r, int argc, char **argv)
{
	return show_parts(r, argc, argv, PART_SOURCE);
}

struct wc_error *repl_disassemble(struct repl *r, int argc, char **argv)
{
	return show_parts(r, argc, argv, PART_CODE);
}

struct wc_error *repl_sites(struct repl *r, int argc, char **argv)
{
	if (argc > 1)
		return wc_error_new(WC_EUSAGE, "sites takes no arguments");
	if (!r->feed)
		return wc_error_new(WC_ETARGET, "there are no events: attach PID, run PROGRAM, or open LOG");
	if (!feed_count(r->feed))
		puts("no event has come yet");
	else
		feed_sites(r->feed, r->interactive ? terminal_width(STDOUT_FILENO) : 0, stdout);
	return NULL;
}

struct wc_error *repl_log(struct repl *r, int argc, char **argv)
{
	static const char *const words[] = { "on", "off", "summary" };
	size_t i;

	if (argc == 1) {
		printf("events are printed: %s\n", words[r->mode]);
		return NULL;
	}
	for (i = 0; i < 3 && strcmp(words[i], argv[1]) != 0; i++)
		;
	if (i == 3 || argc > 2)
		return wc_error_new(WC_EUSAGE, "log is on, off or summary");
	r->mode = (unsigned int)i;
	if (r->feed)
		feed_set_mode(r->feed, (enum feed_mode)i);
	return NULL;
}

struct wc_error *repl_print(struct repl *r, int argc, char **argv)
{
	scoped(freep) char *text = NULL;
	struct inspect *i;
	struct wc_error *err = NULL;

	if (argc < 2)
		err = wc_error_new(WC_EUSAGE, "print what? Name a variable: print head->next->len");
	else if (strlen(argv[0]) > 1 || (*argv[0] && !strchr("xduotacfs", *argv[0])))
		err = wc_error_new(WC_EUSAGE, "print/%s: the formats are x d u o t a c f s", argv[0]);
	if (!err)
		err = repl_inspect(r, &i);
	if (!err)
		err = inspect_print(i, argv[1], *argv[0], &text);
	if (err)
		return err;
	printf("%s = ", argv[1]);
	repl_print_clean(text);
	putchar('\n');
	return NULL;
}

struct wc_error *repl_examine(struct repl *r, int argc, char **argv)
{
	struct examine x = r->examine;
	scoped(freep) char *text = NULL;
	struct inspect *i;
	struct wc_error *err = examine_parse(argv[0], &x);

	if (!err)
		err = repl_inspect(r, &i);
	if (!err)
		err = inspect_examine(i, &x, argc > 1 ? argv[1] : NULL, &text);
	if (err)
		return err;
	repl_print_clean(text);
	r->examine = x;
	return NULL;
}
