#include "watchctl/monitor/inspect/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/locate/show.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/monitor/inspect/inspect_expr.h"
#include "watchctl/target/proc/proc.h"

struct inspect {
	pid_t pid;
	uint64_t start_time; /* with the pid, its identity */
	struct module_list modules;
	struct memory_view mem;
	struct locator *locator;
	struct symbolizer *symbolizer;
};

struct wc_error *inspect_open(pid_t pid, struct inspect **ret)
{
	struct wc_error *err = proc_check(pid);
	struct inspect *i;

	if (err)
		return err;
	i = calloc(1, sizeof(*i));
	if (!i)
		return &wc_enomem;
	i->pid = pid;
	i->start_time = proc_start_time(pid);
	i->mem = proc_memory(&i->pid);
	i->locator = locator_new();
	if (!i->locator) {
		inspect_close(i);
		return &wc_enomem;
	}
	*ret = i;
	return NULL;
}

void inspect_close(struct inspect *i)
{
	if (!i)
		return;
	module_list_deinit(&i->modules);
	locator_free(i->locator);
	symbolizer_free(i->symbolizer);
	free(i);
}

static bool is_same(const struct module_list *a, const struct module_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t k = 0; k < a->n; k++) {
		const struct module *x = &a->v[k], *y = &b->v[k];

		if (x->start != y->start || x->end != y->end || x->bias != y->bias ||
		    strcmp(x->path, y->path) != 0 || x->build_id_len != y->build_id_len ||
		    memcmp(x->build_id, y->build_id, x->build_id_len) != 0)
			return false;
	}
	return true;
}

/* The modules as they are now. */
static struct wc_error *inspect_refresh(struct inspect *i)
{
	struct module_list now = { 0 };
	struct symbolizer *s;
	struct wc_error *err;
	size_t k;

	if (proc_start_time(i->pid) != i->start_time)
		return wc_error_new(WC_ETARGET, "the process %d has ended", i->pid);
	err = module_list_read(i->pid, &now);
	if (err)
		return err;
	if (i->symbolizer && is_same(&now, &i->modules)) {
		module_list_deinit(&now);
		return NULL;
	}
	s = symbolizer_new();
	for (k = 0; s && k < now.n; k++) {
		if (!symbolizer_add(s, &now.v[k])) {
			symbolizer_free(s);
			s = NULL;
		}
	}
	if (!s) {
		module_list_deinit(&now);
		return &wc_enomem;
	}
	module_list_deinit(&i->modules);
	symbolizer_free(i->symbolizer);
	i->modules = now;
	i->symbolizer = s;
	return NULL;
}

static struct show_source source_of(const struct inspect *i)
{
	return (struct show_source){ i->locator, &i->modules, &i->mem, i->symbolizer };
}

struct wc_error *inspect_print(struct inspect *i, const char *expr, char format, char **ret)
{
	struct wc_error *err = inspect_refresh(i);
	struct show_source s = source_of(i);

	return err ? err : inspect_expr_print(&s, expr, format, ret);
}

struct wc_error *inspect_examine(struct inspect *i, struct examine *x, const char *expr, char **ret)
{
	struct wc_error *err = inspect_refresh(i);
	struct show_source s = source_of(i);
	uint64_t addr = x->next;

	if (!err && !expr && !x->has_next)
		err = wc_error_new(WC_EUSAGE, "no address given: write x/4xw &flag");
	if (!err && expr)
		err = inspect_expr_address(&s, expr, &addr);
	return err ? err : inspect_memory(&s, x, addr, ret);
}

struct wc_error *inspect_names(struct inspect *i, const char *prefix, enum names_of what, size_t most,
			       bool (*each)(void *ctx, const char *name), void *ctx)
{
	struct wc_error *err = inspect_refresh(i);

	return err ? err : names_find(i->locator, &i->modules, prefix, what, most, each, ctx);
}

struct wc_error *inspect_modules(struct inspect *i, char **ret)
{
	struct wc_error *err = inspect_refresh(i);
	char *text = NULL;
	size_t len, k;
	FILE *f;

	if (err)
		return err;
	f = open_memstream(&text, &len);
	if (!f)
		return &wc_enomem;
	for (k = 0; k < i->modules.n; k++) {
		const struct module *m = &i->modules.v[k];

		fprintf(f, "0x%012" PRIx64 "-0x%012" PRIx64 "  %s%s\n", m->start, m->end, m->path,
			m->deleted ? " (deleted or replaced)" : "");
	}
	if (fclose(f)) {
		free(text);
		return &wc_enomem;
	}
	*ret = text;
	return NULL;
}

struct wc_error *inspect_threads(struct inspect *i, char **ret)
{
	scoped(thread_ids_deinit) struct thread_ids ids = { 0 };
	char *text = NULL;
	size_t len, k;
	FILE *f;

	if (proc_start_time(i->pid) != i->start_time)
		return wc_error_new(WC_ETARGET, "the process %d has ended", i->pid);
	if (!proc_threads(i->pid, &ids))
		return proc_unread_error(i->pid);
	f = open_memstream(&text, &len);
	if (!f)
		return &wc_enomem;
	for (k = 0; k < ids.n; k++) {
		struct proc_status s;

		if (proc_status_read(i->pid, ids.v[k], &s))
			fprintf(f, "%8d  %-16s  %c\n", ids.v[k], s.name, s.state);
	}
	if (fclose(f)) {
		free(text);
		return &wc_enomem;
	}
	*ret = text;
	return NULL;
}
