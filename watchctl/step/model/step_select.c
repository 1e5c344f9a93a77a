#include "watchctl/step/model/step_select.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/step/model/step_pointees.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/step/model/track.h"

static const char names_text[] =
	"libc libpthread libm libdl librt ld-linux-x86-64 libgcc_s libstdc++ libc++ libc++abi "
	"libmvec libresolv libnsl libutil libanl libnss_files libunwind libasan libubsan libtsan "
	"ld-musl-x86_64 libcrypt linux-vdso";

struct seen_module {
	uint64_t start, end;
	char *path;
	bool recorded;
	struct planner_list list;
};

struct step_select {
	const struct step_selection *selection;
	const struct planner_ops *ops;
	struct planner *planner;
	struct seen_module *v;
	size_t n, cap;
	struct step_point *points;
	size_t npoints, points_cap;
	struct step_chosen *chosen;
	size_t nchosen, chosen_cap;
	struct stepper_code *code;
	size_t ncode, code_cap;
	struct map64 recorded; /* hash of the names of recorded functions */
	struct map64 starts;   /* address -> anything: is a point */
	size_t nfunctions, nover;
};

const char *step_low_level_names(void)
{
	return names_text;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "libfoo.so.1.2", "libfoo-1.2.so" and "libfoo" are libfoo. */
static bool is_library(const char *base, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(base, name, n) != 0)
		return false;
	return !base[n] || !strncmp(base + n, ".so", 3) ||
	       (base[n] == '-' && base[n + 1] >= '0' && base[n + 1] <= '9');
}

bool step_low_level(const char *path)
{
	const char *base = base_name(path), *at = names_text;
	char name[32];
	int n;

	if (path[0] == '[')
		return true;
	for (; sscanf(at, "%31s%n", name, &n) == 1; at += n)
		if (is_library(base, name))
			return true;
	return false;
}

/* Patterns */

static bool matches_module(char *const *patterns, const char *path)
{
	const char *base = base_name(path);

	for (; patterns && *patterns; patterns++)
		if (!fnmatch(*patterns, path, 0) || !fnmatch(*patterns, base, 0) ||
		    is_library(base, *patterns))
			return true;
	return false;
}

/* "ns::f(int)" is matched as "ns::f" too. Parentheses of "operator()" and "(anonymous namespace)" stay. */
size_t step_select_bare(const char *name)
{
	size_t n = strlen(name), depth = 0, i;

	if (!n || name[n - 1] != ')')
		return n;
	for (i = n; i-- > 1;) {
		depth += name[i] == ')';
		depth -= name[i] == '(';
		if (!depth)
			return i;
	}
	return n;
}

static bool matches_function(char *const *patterns, const char *name)
{
	char bare[512];

	if (!patterns || !name)
		return false;
	snprintf(bare, sizeof(bare), "%.*s", (int)step_select_bare(name), name);
	for (; *patterns; patterns++)
		if (!fnmatch(*patterns, bare, 0) || !fnmatch(*patterns, name, 0))
			return true;
	return false;
}

bool step_selection_records(const struct step_selection *s, const char *path)
{
	bool named = s->modules && *s->modules;

	if (matches_module(s->into, path))
		return true;
	if (matches_module(s->over, path))
		return false;
	return named ? matches_module(s->modules, path) : !step_low_level(path);
}

enum choice { CHOICE_RECORD, CHOICE_OVER, CHOICE_LEAVE };

static enum choice choose(const struct step_selection *s, const char *name)
{
	bool some = s->only && *s->only;

	if (matches_function(s->skip, name))
		return CHOICE_LEAVE;
	if (matches_function(s->into, name))
		return CHOICE_RECORD;
	if (matches_function(s->over, name))
		return CHOICE_OVER;
	return !some || matches_function(s->only, name) ? CHOICE_RECORD : CHOICE_LEAVE;
}

/* Modules */

struct step_select *step_select_new(const struct step_selection *selection, const struct planner_ops *ops,
				    struct planner *planner)
{
	struct step_select *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->selection = selection;
	s->ops = ops;
	s->planner = planner;
	return s;
}

static void step_select_forget(struct seen_module *m)
{
	free(m->path);
	free(m->list.v);
}

void step_select_free(struct step_select *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->n; i++)
		step_select_forget(&s->v[i]);
	free(s->v);
	free(s->points);
	free(s->chosen);
	free(s->code);
	map64_deinit(&s->recorded);
	map64_deinit(&s->starts);
	free(s);
}

static struct seen_module *seen(struct step_select *s, const struct module *m)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->v[i].start == m->start && !strcmp(s->v[i].path, m->path))
			return &s->v[i];
	return NULL;
}

static bool is_listed(const struct module_list *l, const struct seen_module *m)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->v[i].start == m->start && !strcmp(l->v[i].path, m->path))
			return true;
	return false;
}

static void drop_gone(struct step_select *s, const struct module_list *modules)
{
	size_t i = 0, j;

	while (i < s->n) {
		if (is_listed(modules, &s->v[i])) {
			i++;
			continue;
		}
		for (j = 0; j < s->v[i].list.n; j++)
			map64_put(&s->starts, s->v[i].list.v[j].address, NULL);
		step_select_forget(&s->v[i]);
		s->v[i] = s->v[--s->n];
	}
}

static struct wc_error *add_module(struct step_select *s, const struct module *m)
{
	struct seen_module sm = { .start = m->start,
				  .end = m->end,
				  .recorded = step_selection_records(s->selection, m->path) };

	sm.path = strdup(m->path);
	if (sm.path && vec_push(s->v, s->n, s->cap, sm))
		return NULL;
	step_select_forget(&sm);
	return &wc_enomem;
}

static uint64_t name_key(const char *name)
{
	return hash_text(HASH_START, name);
}

static bool note_names(struct step_select *s, const struct seen_module *m)
{
	size_t i;

	for (i = 0; i < m->list.n; i++) {
		const struct planner_function *f = &m->list.v[i];

		if (!f->is_stub && !f->by_pointer && f->name &&
		    !map64_put(&s->recorded, name_key(f->name), s))
			return false;
	}
	return true;
}

static bool add_code(struct step_select *s, uint64_t start, uint64_t end)
{
	if (s->ncode && s->code[s->ncode - 1].end == start) {
		s->code[s->ncode - 1].end = end;
		return true;
	}
	return vec_push(s->code, s->ncode, s->code_cap, (struct stepper_code){ start, end });
}

static bool add_point(struct step_select *s, const struct seen_module *m, const struct planner_function *f,
		      bool over)
{
	struct step_point p = {
		.address = f->address,
		.size = f->size,
		.use = over ? POINT_OVER : POINT_FUNCTION,
		.leaves = (uint8_t)(f->name ? track_leaves_of(f->name) : TRACK_NORMAL),
		.frees = f->name && step_pointees_frees(f->name),
		.is_function = true,
	};
	struct step_chosen c = { f->address, m->start, f->name, over };

	if (map64_get(&s->starts, f->address))
		return true;
	if (over)
		s->nover++;
	else
		s->nfunctions++;
	return map64_put(&s->starts, f->address, s) && vec_push(s->points, s->npoints, s->points_cap, p) &&
	       vec_push(s->chosen, s->nchosen, s->chosen_cap, c);
}

/* A stub leads out of recorded code, unless another recorded module has what it leads to. */
static bool choose_function(struct step_select *s, const struct seen_module *m,
			    const struct planner_function *f)
{
	enum choice choice = choose(s->selection, f->name);

	if (f->is_stub || f->by_pointer) {
		if (matches_function(s->selection->skip, f->name) ||
		    (f->name && map64_get(&s->recorded, name_key(f->name))))
			return true;
		return add_point(s, m, f, true);
	}
	if (choice == CHOICE_LEAVE)
		return true;
	if (choice == CHOICE_RECORD && s->selection->only && *s->selection->only && f->size &&
	    !add_code(s, f->address, f->address + f->size))
		return false;
	return add_point(s, m, f, choice == CHOICE_OVER);
}

static bool choose_module(struct step_select *s, const struct seen_module *m)
{
	bool some = s->selection->only && *s->selection->only;
	size_t i;

	if (!m->recorded)
		return true;
	if (!some && !add_code(s, m->start, m->end))
		return false;
	for (i = 0; i < m->list.n; i++)
		if (!choose_function(s, m, &m->list.v[i]))
			return false;
	return true;
}

/* What a module calls in others is known once those are mapped: those that came before are asked again. */
static struct wc_error *list_functions(struct step_select *s, const struct module_list *modules)
{
	struct wc_error *err = NULL;
	struct planner_list list;
	size_t i;

	for (i = 0; i < modules->n && !err; i++) {
		struct seen_module *m = seen(s, &modules->v[i]);

		list = (struct planner_list){ 0 };
		if (!m || !m->recorded)
			continue;
		err = s->ops->functions(s->planner, &modules->v[i], true, &list);
		if (err)
			break;
		free(m->list.v);
		m->list = list;
	}
	return err;
}

struct wc_error *step_select_update(struct step_select *s, const struct module_list *modules,
				    const struct step_point **ret, const struct step_chosen **chosen,
				    size_t *n)
{
	struct wc_error *err = NULL;
	bool ok = true, news = false;
	size_t i;

	drop_gone(s, modules);
	s->npoints = s->nchosen = s->ncode = 0;
	for (i = 0; i < modules->n && !err; i++) {
		if (seen(s, &modules->v[i]))
			continue;
		news = true;
		err = add_module(s, &modules->v[i]);
	}
	if (!err && news)
		err = list_functions(s, modules);
	for (i = 0; i < s->n && !err && ok; i++)
		ok = note_names(s, &s->v[i]);
	for (i = 0; i < s->n && !err && ok; i++)
		ok = choose_module(s, &s->v[i]);
	if (err || !ok)
		return err ? err : &wc_enomem;
	*ret = s->points;
	*chosen = s->chosen;
	*n = s->npoints;
	return NULL;
}

const struct stepper_code *step_select_code(const struct step_select *s, size_t *n)
{
	*n = s->ncode;
	return s->code;
}

void step_select_count(const struct step_select *s, size_t *functions, size_t *over, size_t *modules)
{
	size_t i;

	*functions = s->nfunctions;
	*over = s->nover;
	*modules = 0;
	for (i = 0; i < s->n; i++)
		*modules += s->v[i].recorded;
}

bool step_select_function(const struct step_select *s, uint64_t address, uint64_t *size)
{
	size_t i, j;

	for (i = 0; i < s->n; i++) {
		for (j = 0; j < s->v[i].list.n; j++) {
			if (s->v[i].list.v[j].address != address || s->v[i].list.v[j].is_stub)
				continue;
			*size = s->v[i].list.v[j].size;
			return true;
		}
	}
	return false;
}

static void print_list(FILE *f, const char *what, char *const *patterns)
{
	for (; patterns && *patterns; patterns++)
		fprintf(f, "%s %s, ", what, *patterns);
}

char *step_selection_text(const struct step_selection *s)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	print_list(f, "only", s->only);
	print_list(f, "module", s->modules);
	print_list(f, "over", s->over);
	print_list(f, "into", s->into);
	print_list(f, "skip", s->skip);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
