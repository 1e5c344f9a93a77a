/*
 * The page of one site: its numbers and its graph; then its stacks and values, and its source, instructions
 * and registers: below each other, or, on a wide screen, side by side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/base/utf8.h"
#include "watchctl/cli/top/top.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/site_stats.h"
#include "watchctl/view/table/site_stats_rate.h"
#include "watchctl/view/table/site_stats_stacks.h"
#include "watchctl/view/table/site_stats_values.h"

#define SIDE_BY_SIDE 132 /* columns from which on it is wide */
#define TREE_DEPTH 400	 /* levels at which stacks part: more than a stack has frames */
#define MIN_SHARE 0.005	 /* of branches that are shown */
#define VALUES_SHOWN 12
#define BAR_MAX 30
#define GRAPH_TALL 4
#define LABEL_MAX 60

static void title(struct top_doc *d, const char *text, const char *remark)
{
	top_doc_line(d);
	top_doc_line(d);
	top_doc_put(d, TOP_STRONG, " %s", text);
	if (*remark)
		top_doc_put(d, TOP_DIM, "  %s", remark);
}

static double share(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

/* The lines above all others */

/* "read, by worker/1234": what the kernel did, and for whom. */
static void who_text(const struct site_last *l, char *buf, size_t cap)
{
	const char *call = l->syscall >= 0 ? syscall_name(l->syscall) : NULL;
	char comm[COMM_LEN * 3], function[200];

	utf8_clean(l->comm, comm, sizeof(comm));
	utf8_clean(l->kernel_function, function, sizeof(function));
	snprintf(buf, cap, "%s/%d%s%s%s%s", *comm ? comm : "?", l->tid, l->in_kernel ? ", in the kernel" : "",
		 call ? ": " : "", call ? call : "", "");
	if (*function)
		snprintf(buf + strlen(buf), cap - strlen(buf), " (%s)", function);
}

static void put_what(struct top_doc *d, const struct site_stat *s, int columns)
{
	const struct location *l = s->key.location;
	char place[CELL_TEXT], source[300], watch[80], insn[200];

	site_stat_place(s, place, sizeof(place));
	text_shorten(place, columns > 40 ? (size_t)columns - 30 : 12);
	text_source(l->frame[0].file, l->frame[0].line, source, sizeof(source));
	utf8_clean(s->key.watch->e.name ? s->key.watch->e.name : "?", watch, sizeof(watch));
	utf8_clean(s->key.insn ? s->key.insn : "", insn, sizeof(insn));
	top_doc_line(d);
	top_doc_put(d,
		    s->key.kind == ACCESS_READ	  ? TOP_READ
		    : s->key.kind == ACCESS_WRITE ? TOP_WRITE
						  : TOP_UPDATE,
		    " %s ", text_kind(s->key.kind));
	top_doc_put(d, TOP_STRONG, "%s", watch);
	top_doc_put(d, TOP_PLAIN, s->key.after ? "  " : "  at ");
	top_doc_put(d, TOP_PLACE, "%s", place);
	top_doc_put(d, TOP_DIM, "  %s", source);
	top_doc_line(d);
	if (s->key.after)
		top_doc_put(d, TOP_ALERT,
			    " the accessing instruction is not known; execution continued there");
	else
		top_doc_put(d, TOP_PLAIN, " %s", *insn ? insn : "(the instruction's bytes are not known)");
	if (s->key.origin == ORIGIN_KERNEL)
		top_doc_put(d, TOP_UPDATE, "  (by the kernel)");
	if (l->module)
		top_doc_put(d, TOP_DIM, "  in %s", utf8_clean(l->module, place, sizeof(place)));
}

static void put_numbers(struct top_doc *d, const struct top *t, const struct site_stat *s)
{
	char count[TOP_WORD], rate[TOP_WORD], first[TOP_WORD], last[TOP_WORD], who[300], change[CELL_TEXT];

	top_count_text(s->count, count, sizeof(count));
	top_rate_text(site_stat_rate(t->stats, s), rate, sizeof(rate));
	top_time_text(s->first, first, sizeof(first));
	top_time_text(s->last.time, last, sizeof(last));
	who_text(&s->last, who, sizeof(who));
	site_stat_change(t->stats, s, change, sizeof(change));
	top_doc_line(d);
	top_doc_put(d, TOP_STRONG, " %s", count);
	top_doc_put(d, TOP_PLAIN, " %s (%.1f%% of all), ", top_plural(s->count, "access", "accesses"),
		    share(s->count, t->stats->total));
	top_doc_put(d, TOP_STRONG, "%s", rate);
	top_doc_put(d, TOP_PLAIN, ", by %u%s %s", s->nthreads, s->more_threads ? " or more" : "",
		    top_plural(s->nthreads, "thread", "threads"));
	top_doc_line(d);
	top_doc_put(d, TOP_DIM, " first %s, last %s by %s: ", first, last, who);
	top_doc_put(d, TOP_PLAIN, "%s", change);
	if (s->last.displaced)
		top_doc_put(d, TOP_ALERT, "  (seen late: the program blocked SIGTRAP)");
}

static void put_graph(struct top_doc *d, const struct top *t, const struct site_stat *s, int columns,
		      int height)
{
	double column[TOP_GRAPH_MAX], max = 0;
	char text[TOP_GRAPH_MAX * 4], label[TOP_WORD];
	int width = columns - 16 < TOP_GRAPH_MAX ? columns - 16 : TOP_GRAPH_MAX, row;
	size_t n, i;

	if (width < 8)
		return;
	n = site_rate_graph(&s->rate, t->stats->now_ns, column, (size_t)width);
	for (i = 0; i < n; i++)
		if (column[i] > max)
			max = column[i];
	top_rate_text(max, label, sizeof(label));
	for (row = 0; row < height; row++) {
		top_doc_line(d);
		top_graph_text(column, n, max, row, height, t->utf8, text, sizeof(text));
		top_doc_put(d, TOP_DIM, "%12s ", row == 0 ? label : row == height - 1 ? "60 s to now" : "");
		top_doc_put(d, TOP_GRAPH, "%s", text);
	}
}

/* Stacks */

struct drawing {
	struct top_doc *d;
	const struct site_tree *tree;
	int count_width, columns;
	char indent[2 * TREE_DEPTH + 1];
	size_t depth;
	bool inverted;
};

static void put_share(const struct drawing *g, uint64_t count)
{
	char text[TOP_WORD];

	top_count_text(count, text, sizeof(text));
	top_doc_line(g->d);
	top_doc_put(g->d, TOP_PLAIN, " %*s %5.1f%%  ", g->count_width, text,
		    share(count, g->tree->v[0].count));
}

static void put_no_share(const struct drawing *g)
{
	top_doc_line(g->d);
	top_doc_put(g->d, TOP_PLAIN, " %*s         ", g->count_width, "");
}

static void put_branch(const struct drawing *g, const char *fork)
{
	if (g->depth || *fork)
		top_doc_put(g->d, TOP_DIM, "%.*s%s", (int)(2 * g->depth), g->indent, fork);
}

static void put_frame(const struct drawing *g, const struct site_node *n, const char *fork)
{
	const struct view_frame *f = n->frame;
	char place[CELL_TEXT], source[300];
	int room;

	put_branch(g, fork);
	if (!f) {
		top_doc_put(g->d, TOP_DIM, "... %s", text_walk_end(n->end));
		return;
	}
	if (f->signal) {
		top_doc_put(g->d, TOP_UPDATE, "<signal handler called>");
		return;
	}
	text_place(f->module, f->module_offset, f->function, 0, f->ip, place, sizeof(place));
	room = g->columns - top_doc_columns(g->d);
	text_shorten(place, room > 16 ? (size_t)room : 16);
	top_doc_put(g->d, TOP_PLACE, "%s", place);
	/* Calls from several lines of a function are merged: the line would be that of one of them. */
	text_source(f->file, 0, source, sizeof(source));
	if (!*source && f->function && f->module)
		text_source(f->module, 0, source, sizeof(source));
	if (*source && top_doc_columns(g->d) + 2 + top_screen_columns(source) <= g->columns)
		top_doc_put(g->d, TOP_DIM, "  %s%s", source, f->inlined ? "  (inlined)" : "");
}

static bool is_shown(const struct drawing *g, size_t i)
{
	return (double)g->tree->v[i].count >= MIN_SHARE * (double)g->tree->v[0].count;
}

/* The only way on from @i; 0: it is the end of its stacks, or they part here. */
static size_t only_child(const struct drawing *g, size_t i)
{
	const struct site_node *v = g->tree->v;
	size_t child = v[i].child;

	return v[i].self || !child || v[child].sibling || !is_shown(g, child) ? 0 : child;
}

/* Stacks of @i that go on in branches too small to be shown. */
static uint64_t hidden(const struct drawing *g, size_t i, size_t *branches)
{
	const struct site_node *v = g->tree->v;
	uint64_t n = 0;
	size_t child;

	*branches = 0;
	for (child = v[i].child; child; child = v[child].sibling) {
		if (!is_shown(g, child)) {
			n += v[child].count;
			++*branches;
		}
	}
	return n;
}

static void put_rest(const struct drawing *g, size_t i, const char *fork)
{
	size_t branches;
	uint64_t rest = hidden(g, i, &branches);

	if (g->tree->v[i].self) {
		put_share(g, g->tree->v[i].self);
		put_branch(g, fork);
		top_doc_put(g->d, TOP_DIM, g->inverted ? "(outermost)" : "(accessed here)");
	}
	if (rest) {
		put_share(g, rest);
		put_branch(g, fork);
		top_doc_put(g->d, TOP_DIM, "(%zu more, each below %g%%)", branches, MIN_SHARE * 100);
	}
}

/* As deep as stacks part: at most as deep as a stack, which is bounded. */
static void put_tree(struct drawing *g, size_t i, const char *fork, bool goes_on)
{
	const struct site_node *v = g->tree->v;
	size_t depth = g->depth, child, branches;

	put_share(g, v[i].count);
	put_frame(g, &v[i], fork);
	if (*fork && g->depth < TREE_DEPTH) {
		memcpy(g->indent + 2 * g->depth, goes_on ? "| " : "  ", 2);
		g->depth++;
	}
	while ((child = only_child(g, i))) {
		i = child;
		put_no_share(g);
		put_frame(g, &v[i], "");
	}
	if (v[i].child) {
		bool rest = v[i].self || hidden(g, i, &branches);

		for (child = v[i].child; child && is_shown(g, child); child = v[child].sibling)
			put_tree(g, child, "+-", rest || (v[child].sibling && is_shown(g, v[child].sibling)));
		put_rest(g, i, "+-");
	}
	g->depth = depth;
}

static void put_stacks(struct top_doc *d, const struct top *t, const struct site_stat *s, int columns)
{
	struct site_tree tree = { 0 };
	struct drawing g = { .d = d, .tree = &tree, .columns = columns, .inverted = t->inverted };
	char remark[160], text[TOP_WORD];
	size_t i;

	snprintf(remark, sizeof(remark), "%zu %s, %s first (t turns)", s->stacks.n,
		 top_plural(s->stacks.n, "stack", "different stacks"),
		 t->inverted ? "the access" : "outermost");
	title(d, "STACKS", remark);
	if (!site_tree_build(&s->stacks, t->inverted, &tree)) {
		top_doc_line(d);
		top_doc_put(d, TOP_ALERT, " not enough memory");
		site_tree_deinit(&tree);
		return;
	}
	top_count_text(tree.v[0].count, text, sizeof(text));
	g.count_width = top_screen_columns(text);
	for (i = tree.v[0].child; i && is_shown(&g, i); i = tree.v[i].sibling)
		put_tree(&g, i, "", false);
	put_rest(&g, 0, "");
	if (s->stacks.other) {
		top_count_text(s->stacks.other, text, sizeof(text));
		top_doc_line(d);
		top_doc_put(d, TOP_ALERT, " %s accesses had other stacks: at most %u are kept", text,
			    SITE_STACKS_MAX);
	}
	site_tree_deinit(&tree);
}

/* Values */

struct value_line {
	char label[LABEL_MAX * 4];
	uint64_t count;
};

static void put_value_lines(struct top_doc *d, const struct top *t, const struct value_line *v, size_t n,
			    uint64_t total, int columns)
{
	char count[TOP_WORD], bar[BAR_MAX * 4];
	uint64_t max = 1;
	int label = 0, width;
	size_t i;

	for (i = 0; i < n; i++) {
		width = top_screen_columns(v[i].label);
		label = width > label ? width : label;
		max = v[i].count > max ? v[i].count : max;
	}
	width = columns - label - 24;
	width = width > BAR_MAX ? BAR_MAX : width;
	for (i = 0; i < n; i++) {
		int bars = width > 0 ? (int)((double)v[i].count / (double)max * width + 0.5) : 0, k, used = 0;

		for (k = 0; k < (bars || !v[i].count ? bars : 1) && width > 0; k++)
			used += snprintf(bar + used, sizeof(bar) - (size_t)used, "%s",
					 t->utf8 ? "\u2588" : "#");
		bar[used] = '\0';
		top_count_text(v[i].count, count, sizeof(count));
		top_doc_line(d);
		top_doc_put(d, TOP_PLAIN, " %*s%s", label - top_screen_columns(v[i].label), "", v[i].label);
		top_doc_put(d, TOP_PLAIN, "  %12s %5.1f%%  ", count, share(v[i].count, total));
		top_doc_put(d, TOP_GRAPH, "%s", bar);
	}
}

static int most_first(const void *a, const void *b)
{
	const struct site_value *x = a, *y = b;

	return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
				    : (x->value > y->value) - (x->value < y->value);
}

/* Each value has a name. Returns how many lines there are; *@rest: accesses with values that are not among
 * them. */
static size_t value_lines(const struct top *t, const struct site_stat *s, struct value_line *ret,
			  uint64_t *rest)
{
	struct site_value sorted[SITE_VALUES_MAX];
	unsigned int size = s->last.size && s->last.size <= 8 ? s->last.size : 8;
	size_t i, n = s->values.n;
	char text[160];

	memcpy(sorted, s->values.v, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), most_first);
	*rest = s->values.other;
	for (i = 0; i < n; i++) {
		if (i >= VALUES_SHOWN) {
			*rest += sorted[i].count;
			continue;
		}
		annotate_value(t->stats->annotate, s->key.watch, size, sorted[i].value, text, sizeof(text));
		utf8_clean(text, ret[i].label, sizeof(ret[i].label));
		text_cut_middle(ret[i].label, LABEL_MAX);
		ret[i].count = sorted[i].count;
	}
	return n < VALUES_SHOWN ? n : VALUES_SHOWN;
}

static size_t range_lines(const struct site_stat *s, struct value_line *ret)
{
	struct site_value_range range[VALUES_SHOWN];
	size_t n = site_values_ranges(&s->values, range, VALUES_SHOWN), i;

	for (i = 0; i < n; i++) {
		const struct site_value_range *r = &range[i];

		if (r->is_negative)
			snprintf(ret[i].label, sizeof(ret[i].label), "%lld .. %lld", (long long)r->low,
				 (long long)r->high);
		else if (r->low == r->high)
			snprintf(ret[i].label, sizeof(ret[i].label), "%llu", (unsigned long long)r->low);
		else
			snprintf(ret[i].label, sizeof(ret[i].label), "%llu .. %llu",
				 (unsigned long long)r->low, (unsigned long long)r->high);
		ret[i].count = r->count;
	}
	return n;
}

static void put_values(struct top_doc *d, const struct top *t, const struct site_stat *s, int columns)
{
	bool spread = site_values_are_spread(&s->values);
	struct value_line line[VALUES_SHOWN];
	char text[TOP_WORD];
	uint64_t rest = 0;
	size_t n;

	if (s->key.kind == ACCESS_EXECUTE)
		return;
	title(d, "VALUES", s->key.kind == ACCESS_READ ? "that were read" : "after the access");
	if (!s->values.total) {
		top_doc_line(d);
		top_doc_put(d, TOP_DIM, " not known");
		return;
	}
	n = spread ? range_lines(s, line) : value_lines(t, s, line, &rest);
	put_value_lines(d, t, line, n, s->values.total, columns);
	if (rest) {
		top_count_text(rest, text, sizeof(text));
		top_doc_line(d);
		top_doc_put(d, TOP_DIM, " %s accesses had other values", text);
	}
}

/* Source, instructions, registers */

static void put_listing(struct top_doc *d, const struct listing *l, bool source)
{
	size_t i;

	if (l->why) {
		top_doc_line(d);
		top_doc_put(d, TOP_DIM, " %s", l->why);
	}
	for (i = 0; i < l->n; i++) {
		const struct listing_line *line = &l->v[i];

		top_doc_line(d);
		top_doc_put(d, line->here ? TOP_ALERT : TOP_DIM, line->here ? " >" : "  ");
		if (source)
			top_doc_put(d, TOP_DIM, "%5u  ", line->line);
		else
			top_doc_put(d, TOP_DIM, "%llx  ", (unsigned long long)line->ip);
		top_doc_put(d, line->here ? TOP_STRONG : TOP_PLAIN, "%s", line->text);
	}
}

static void put_code(struct top_doc *d, const struct top *t, const struct site_stat *s)
{
	const struct frame_name *at = &s->key.location->frame[0];
	char file[300] = "";

	if (at->file)
		utf8_clean(at->file, file, sizeof(file));
	title(d, "SOURCE", at->file ? file : "not known");
	if (at->file)
		put_listing(d, &t->source, true);
	if (t->source.newer) {
		top_doc_line(d);
		top_doc_put(d, TOP_ALERT, " this file is newer than the program: lines may have moved");
	}
	title(d, "INSTRUCTIONS", s->key.after ? "where execution continued" : "");
	put_listing(d, &t->code, false);
}

static void put_registers(struct top_doc *d, const struct site_stat *s, int columns)
{
	int i, per_line = columns >= 104 ? 4 : columns >= 80 ? 3 : columns >= 54 ? 2 : 1;

	title(d, "REGISTERS",
	      s->last.displaced		      ? "from a later moment: the program blocked SIGTRAP"
	      : s->last.in_kernel	      ? "as the program entered the kernel"
	      : s->key.kind == ACCESS_EXECUTE ? "before the instruction"
					      : "after the last access");
	if (s->last.withheld & WITHHELD_REGS) {
		top_doc_line(d);
		top_doc_put(d, TOP_DIM, " %s", view_withheld);
		return;
	}
	for (i = 0; i < WREG_COUNT; i++) {
		if (i % per_line == 0)
			top_doc_line(d);
		top_doc_put(d, TOP_DIM, " %-7s ", text_reg_name((enum reg)i));
		top_doc_put(d, TOP_PLAIN, "%016llx", (unsigned long long)s->last.regs.r[i]);
	}
}

/* Drawing */

static void no_site(struct top_doc *d)
{
	top_doc_line(d);
	top_doc_put(d, TOP_DIM, " this site no longer exists");
}

/* How far the pages can be scrolled. */
static void bound_scroll(struct top *t, size_t lines, int rows)
{
	t->page_rows = rows;
	t->scroll_max = lines > (size_t)rows ? lines - (size_t)rows : 0;
	if (t->scroll > t->scroll_max)
		t->scroll = t->scroll_max;
}

static void draw_wide(struct top *t, const struct site_stat *s, int row, int rows, int columns)
{
	struct top_doc left = { 0 }, right = { 0 };
	int half = columns / 2;

	put_stacks(&left, t, s, half - 2);
	put_values(&left, t, s, half - 2);
	put_code(&right, t, s);
	put_registers(&right, s, columns - half - 1);
	bound_scroll(t, left.nlines > right.nlines ? left.nlines : right.nlines, rows);
	top_doc_draw(&left, t->scroll, row, rows, 0, half - 1);
	top_doc_draw(&right, t->scroll, row, rows, half, columns - half);
	top_doc_deinit(&left);
	top_doc_deinit(&right);
}

static void draw_narrow(struct top *t, const struct site_stat *s, struct top_doc *d, int row, int rows,
			int columns)
{
	put_stacks(d, t, s, columns - 1);
	put_values(d, t, s, columns - 1);
	put_code(d, t, s);
	put_registers(d, s, columns);
	bound_scroll(t, d->nlines, rows);
	top_doc_draw(d, t->scroll, row, rows, 0, columns);
}

void top_draw_site(struct top *t, int row, int end, int columns)
{
	const struct site_stat *s = site_stats_get(t->stats, t->open);
	bool tall = end - row >= 30, wide = columns >= SIDE_BY_SIDE;
	struct top_doc d = { 0 };

	if (!s) {
		no_site(&d);
		top_doc_draw(&d, 0, row, end - row, 0, columns);
		top_doc_deinit(&d);
		return;
	}
	put_what(&d, s, columns);
	put_numbers(&d, t, s);
	put_graph(&d, t, s, columns, tall ? GRAPH_TALL : 1);
	if (wide) {
		int used = (int)d.nlines < end - row ? (int)d.nlines : end - row;

		top_doc_draw(&d, 0, row, used, 0, columns);
		draw_wide(t, s, row + used, end - row - used, columns);
	} else {
		draw_narrow(t, s, &d, row, end - row, columns);
	}
	top_doc_deinit(&d);
}
