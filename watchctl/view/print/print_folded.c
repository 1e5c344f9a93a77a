/*
 * Stacks as the tools that draw flame graphs read them: "outer;inner;... count", a line for each. No name has
 * a semicolon or a blank, some of those tools split at the first one.
 */
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/stack_tree.h"

/* "f(int, char const*)" -> "f(int,char_const*)" */
static void put_name(struct text_buf *l, const char *name)
{
	char clean[CELL_TEXT], *from, *to;

	utf8_clean(name, clean, sizeof(clean));
	for (from = to = clean; *from; from++) {
		if (*from == ' ' && from > clean && from[-1] == ',')
			continue;
		*to++ = *from == ' ' ? '_' : *from == ';' ? ':' : *from;
	}
	*to = '\0';
	text_buf_put(l, clean, to - clean);
}

static void put_bracketed(struct text_buf *l, const char *name)
{
	/* "[vdso]" and "[jit]" have theirs. */
	bool bare = name[0] != '[';

	text_buf_put(l, "[", bare);
	put_name(l, name);
	text_buf_put(l, "]", bare);
}

static void put_node(struct text_buf *l, const struct stack_node *n)
{
	const struct view_frame *f = &n->frame;

	if (l->len)
		text_buf_char(l, ';');
	if (n->is_end)
		put_bracketed(l, text_walk_end_name(n->end));
	else if (f->signal)
		put_bracketed(l, "signal");
	else if (f->function && *f->function)
		put_name(l, f->function);
	else if (f->module && *f->module)
		put_bracketed(l, text_base_name(f->module));
	else
		put_bracketed(l, "unknown");
}

/* The stack that ends at @leaf; the tree begins with the outermost frames, or with the innermost ones. */
static bool put_stack(struct text_buf *l, const struct stack_trees *t, const struct stack_node *leaf)
{
	scoped(freep) const struct stack_node **path = NULL;
	size_t n = 0, cap = 0, i;

	for (; leaf->parent; leaf = leaf->parent)
		if (!vec_push(path, n, cap, leaf))
			return false;
	for (i = 0; i < n; i++)
		put_node(l, path[t->inverted ? i : n - 1 - i]);
	return !l->failed;
}

static bool print_tree(struct printer *p, const struct stack_trees *t, struct stack_tree *tree)
{
	struct stack_node *n;
	struct text_buf l = { 0 };
	bool ok = true;

	for (n = &tree->root; n && ok; n = stack_node_next(&tree->root, n)) {
		if (!n->self)
			continue;
		text_buf_empty(&l);
		if (p->opt.folded_names)
			put_name(&l, tree->tag ? tree->tag->text : tree->watch->e.name);
		ok = put_stack(&l, t, n);
		if (ok)
			fprintf(p->out, "%s %llu\n", l.len ? text_buf_text(&l) : "[unknown]",
				(unsigned long long)n->self);
	}
	text_buf_deinit(&l);
	return ok;
}

static void print_stacks(void *ctx, const struct stack_trees *t)
{
	struct printer *p = ctx;
	size_t i;

	for (i = 0; i < t->n; i++)
		if (!print_tree(p, t, t->v[i]))
			break;
}

struct printer *print_folded_new(FILE *out, const struct print_options *options)
{
	static const struct view_ops ops = { .stacks = print_stacks };
	struct printer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->ops = &ops;
	p->out = out;
	p->opt = *options;
	return p;
}
