/*
 * Stacks by count, as a tree. Frames that all stacks of a branch share stand below each other; only where
 * stacks part are their frames indented, so that deep stacks stay on the screen:
 *
 *	12345  100.0%  _start
 *	               main
 *	 9000   72.9%  +-work
 *	               | lookup
 *	 3345   27.1%  +-reload
 */
#include <string.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/stack_tree.h"
#include "watchctl/view/table/tag_totals.h"

#define NAME_MIN 24 /* columns that a name is given, however deep it stands */

struct drawing {
	struct printer *p;
	const struct stack_tree *tree;
	const char *itself; /* what a stack that ends within a branch is called */
	double min;	    /* stacks */
	size_t count_width;
	/* What stands before the names, two columns for each level: "| " or "  ". */
	struct text_buf indent;
	char text[CELL_TEXT], module[128]; /* of a line; here to keep them off the stack of draw() */
};

static void print_count(struct drawing *d, uint64_t count)
{
	char text[32], share[16];

	snprintf(text, sizeof(text), "%*llu", (int)d->count_width, (unsigned long long)count);
	snprintf(share, sizeof(share), "%5.1f%%", 100.0 * (double)count / (double)d->tree->root.count);
	text_cell(d->p, STYLE_WATCH, text, 0);
	fprintf(d->p->out, "  %s  ", share);
}

static void print_no_count(struct drawing *d)
{
	fprintf(d->p->out, "%*s", (int)d->count_width + 10, "");
}

/* Which module's a function is, where it is not the same as that of the frame before. */
static void module_text(const struct stack_node *n, char *buf, size_t cap)
{
	const char *module = n->frame.module;
	const struct stack_node *before = n->parent;

	buf[0] = '\0';
	if (n->is_end || !module || !n->frame.function)
		return;
	if (before && !before->is_end && before->frame.module == module)
		return;
	utf8_clean(text_base_name(module), buf, cap);
}

static enum style node_text(const struct stack_node *n, char *buf, size_t cap)
{
	const struct view_frame *f = &n->frame;

	if (n->is_end) {
		snprintf(buf, cap, "... %s", text_walk_end(n->end));
		return STYLE_DIM;
	}
	if (f->signal) {
		snprintf(buf, cap, "<signal handler called>");
		return STYLE_UPDATE;
	}
	text_place(f->module, f->module_offset, f->function, 0, f->ip, buf, cap);
	return STYLE_PLACE;
}

/* @fork: "+-" where a branch begins, else "". */
static void print_node(struct drawing *d, const struct stack_node *n, const char *fork)
{
	size_t used = d->count_width + 10 + d->indent.len + strlen(fork), room, columns;
	enum style style = node_text(n, d->text, sizeof(d->text));

	module_text(n, d->module, sizeof(d->module));
	fprintf(d->p->out, "%s%s", text_buf_text(&d->indent), fork);
	if (d->p->opt.width) {
		room = d->p->opt.width > used + NAME_MIN ? d->p->opt.width - used : NAME_MIN;
		text_shorten(d->text, room);
		columns = utf8_columns(d->text);
		if (columns + 2 + utf8_columns(d->module) > room)
			d->module[0] = '\0';
	}
	text_cell(d->p, style, d->text, 0);
	if (*d->module) {
		fputs("  ", d->p->out);
		text_cell(d->p, STYLE_DIM, d->module, 0);
	}
	fputc('\n', d->p->out);
}

static bool indent_more(struct drawing *d, bool goes_on)
{
	text_buf_add(&d->indent, goes_on ? "| " : "  ");
	return !d->indent.failed;
}

static bool is_shown(const struct drawing *d, const struct stack_node *n)
{
	return (double)n->count >= d->min;
}

/* Children come with most stacks first: those that are not shown are the last ones. */
static uint64_t hidden_children(const struct drawing *d, const struct stack_node *n, uint64_t *stacks)
{
	uint64_t hidden = 0;

	*stacks = 0;
	for (n = n->child; n; n = n->sibling)
		if (!is_shown(d, n)) {
			hidden++;
			*stacks += n->count;
		}
	return hidden;
}

static void print_remark(struct drawing *d, const char *fork, const char *text)
{
	fprintf(d->p->out, "%s%s", text_buf_text(&d->indent), fork);
	text_cell(d->p, STYLE_DIM, text, 0);
	fputc('\n', d->p->out);
}

/* What of @n's stacks is in none of the children that are shown. */
static void print_rest(struct drawing *d, const struct stack_node *n, const char *fork)
{
	uint64_t stacks, hidden = hidden_children(d, n, &stacks);
	char text[80];

	if (n->self) {
		print_count(d, n->self);
		print_remark(d, fork, d->itself);
	}
	if (hidden) {
		snprintf(text, sizeof(text), "(%llu more, each below %g %%)", (unsigned long long)hidden,
			 d->p->opt.min_percent);
		print_count(d, stacks);
		print_remark(d, fork, text);
	}
}

/* The only way on from @n; NULL: it is the end of its stacks, or they part here. */
static struct stack_node *only_child(const struct drawing *d, const struct stack_node *n)
{
	if (n->self || !n->child || n->child->sibling || !is_shown(d, n->child))
		return NULL;
	return n->child;
}

/*
 * The branch that begins with @n. The recursion goes as deep as stacks part: at most as deep as a stack,
 * which even a hostile log bounds (STACK_MAX addresses, SYMBOL_FUNCTIONS_MAX functions each).
 */
static void draw(struct drawing *d, const struct stack_node *n, const char *fork, bool goes_on)
{
	size_t len = d->indent.len;
	const struct stack_node *child;
	uint64_t stacks;

	print_count(d, n->count);
	print_node(d, n, fork);
	if (*fork && !indent_more(d, goes_on))
		return;
	while ((child = only_child(d, n))) {
		n = child;
		print_no_count(d);
		print_node(d, n, "");
	}
	if (n->child) {
		bool rest = n->self || hidden_children(d, n, &stacks);

		for (child = n->child; child && is_shown(d, child); child = child->sibling)
			draw(d, child, "+-", rest || (child->sibling && is_shown(d, child->sibling)));
		print_rest(d, n, "+-");
	}
	text_buf_cut(&d->indent, len);
}

static void print_values(struct printer *p, const struct value_spread *s)
{
	char min[24], median[40], max[24];

	text_number(s->min, min, sizeof(min));
	text_number(s->max, max, sizeof(max));
	text_median(s, median, sizeof(median));
	fprintf(p->out, "    %llu value%s: %s to %s, median %s\n", (unsigned long long)s->n,
		s->n == 1 ? "" : "s", min, max, median);
}

/* "cache-miss: 12345 captures by 4 threads, 3858/s, 17 different stacks" */
static void print_header(struct printer *p, const struct stack_tree *t)
{
	const struct tag_row *r = t->row;
	char name[CELL_TEXT], rate[40];

	utf8_clean(t->tag ? t->tag->text : t->watch->e.name, name, sizeof(name));
	text_cell(p, t->tag ? STYLE_TAG : STYLE_WATCH, name, 0);
	if (stack_tree_is_of_calls(t))
		fprintf(p->out, ": %llu", (unsigned long long)t->root.count);
	else
		fprintf(p->out, ": %llu %s%s", (unsigned long long)t->root.count,
			t->tag ? "capture" : "access",
			t->root.count == 1 ? ""
			: t->tag	   ? "s"
					   : "es");
	if (r) {
		fprintf(p->out, " by %zu thread%s", tag_row_threads(r), tag_row_threads(r) == 1 ? "" : "s");
		text_rate(tag_row_rate(r), rate, sizeof(rate));
		fprintf(p->out, "%s%s", *rate ? ", " : "", rate);
	}
	fprintf(p->out, ", %zu different stack%s", t->distinct, t->distinct == 1 ? "" : "s");
	if (t->cut)
		fprintf(p->out, "; %llu stack%s cut short", (unsigned long long)t->cut,
			t->cut == 1 ? " was" : "s were");
	fputc('\n', p->out);
	if (r && r->values)
		print_values(p, r->values);
}

static size_t digits(uint64_t n)
{
	char text[24];

	return snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
}

static void print_tree(struct printer *p, const struct stack_tree *t, bool inverted)
{
	const struct stack_node *n;
	struct drawing d = {
		.p = p,
		.tree = t,
		.itself = inverted		      ? "(outermost)"
			  : stack_tree_is_of_calls(t) ? "(called here)"
			  : t->tag		      ? "(captured here)"
						      : "(accessed here)",
		.min = p->opt.min_percent / 100 * (double)t->root.count,
		.count_width = digits(t->root.count),
	};
	char title[64];

	if (d.count_width < strlen("COUNT"))
		d.count_width = strlen("COUNT");
	print_header(p, t);
	snprintf(title, sizeof(title), "%*s   SHARE  STACK, %s FIRST", (int)d.count_width, "COUNT",
		 inverted ? "INNERMOST" : "OUTERMOST");
	text_cell(p, STYLE_DIM, title, 0);
	fputc('\n', p->out);
	for (n = t->root.child; n && is_shown(&d, n); n = n->sibling)
		draw(&d, n, "", false);
	d.itself = "(no stack)";
	print_rest(&d, &t->root, "");
	text_buf_deinit(&d.indent);
	fputc('\n', p->out);
}

void print_text_stacks(void *ctx, const struct stack_trees *t)
{
	struct printer *p = ctx;
	size_t i;

	if (!t->n)
		return;
	text_begin_ending(p);
	for (i = 0; i < t->n; i++)
		print_tree(p, t->v[i], t->inverted);
	if (t->incomplete)
		fputs("Memory ran out: the counts above are too low.\n\n", p->out);
}
