/*
 * "outer;inner;... count", a line for each different stack, as the tools that draw flame graphs read them: of
 * accesses by watch, of captures and probes by tag, and of calls, each of which counts once where it was made. With
 * several watches and tags, their names are the outermost frames.
 */
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/export/export_stacks.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/table/probe_stacks.h"

struct folded_writer {
	struct export_writer w;
	struct export_stacks stacks;
	struct probe_stacks probes;
};

static void on_access(void *ctx, const struct view_access *a)
{
	struct folded_writer *f = ctx;

	stack_trees_add_access(&f->stacks.trees, a);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct folded_writer *f = ctx;

	stack_trees_add_capture(&f->stacks.trees, c);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct folded_writer *f = ctx;

	probe_stacks_add(&f->probes, &f->stacks.trees, p);
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct folded_writer *f = ctx;

	if (!export_stacks_add_call(&f->stacks, c))
		export_fail(&f->w, &wc_enomem);
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct folded_writer *f = ctx;

	if (!export_stacks_end_call(&f->stacks, r))
		export_fail(&f->w, &wc_enomem);
}

static struct wc_error *export_folded_finish(struct export_writer *w)
{
	struct folded_writer *f = (struct folded_writer *)w;
	const struct print_options options = { .folded_names = f->stacks.trees.n > 1 };
	scoped(printer_freep) struct printer *p = print_folded_new(export_out_file(w->out), &options);

	if (!p || f->stacks.trees.incomplete)
		return &wc_enomem;
	stack_trees_sort(&f->stacks.trees);
	printer_stacks(p, &f->stacks.trees);
	return NULL;
}

static void folded_free(struct export_writer *w)
{
	struct folded_writer *f = (struct folded_writer *)w;

	export_stacks_deinit(&f->stacks);
	probe_stacks_deinit(&f->probes);
	free(f);
}

struct export_writer *export_folded_new(void)
{
	static const struct view_ops ops = {
		.access = on_access,
		.capture = on_capture,
		.probe = on_probe,
		.call = on_call,
		.ret = on_return,
	};
	struct folded_writer *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->w = (struct export_writer){ .ops = &ops, .finish = export_folded_finish, .free = folded_free };
	export_stacks_init(&f->stacks);
	return &f->w;
}
