#include "watchctl/code/locate/names.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/elf/symbol_search.h"
#include "watchctl/code/locate/locate_object.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/symbols/code_name_match.h"

#define DEPTH_MAX 16

struct names {
	struct locator *locator;
	const struct module_list *modules;
	char *before;		     /* what stands in front of the name and stays: "*", "libx.so:" */
	const char *typed;	     /* the name, as far as it was typed */
	const char *module, *source; /* that it was said to be from; NULL: any */
	char **v;
	size_t n, cap;
	bool no_memory;
};

static void names_deinit(struct names *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	free(s->before);
}

/* What cannot be typed as it is, or is no name that a person gave. */
static bool is_odd(const char *name)
{
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("(){}<>,@$*&", *c))
			return true;
	return !*name || !strncmp(name, "__func__", 8) || !strncmp(name, "__PRETTY_FUNCTION__", 19);
}

static void add(struct names *s, const char *name)
{
	char *whole;

	if (is_odd(name) || strncmp(name, s->typed, strlen(s->typed)) != 0)
		return;
	if (asprintf(&whole, "%s%s", s->before, name) < 0) {
		s->no_memory = true;
	} else if (!vec_push(s->v, s->n, s->cap, whole)) {
		free(whole);
		s->no_memory = true;
	}
}

/* A qualified name; its scope may be left out. */
static void offer(struct names *s, const char *name)
{
	const char *last = locate_last_component(name);

	add(s, name);
	if (last != name && *s->typed && strncmp(name, s->typed, strlen(s->typed)) != 0)
		add(s, last);
}

/* "calls.0" is what a compiler makes of the static variable "calls" of a function. */
static void cut_number(char *name)
{
	char *dot = strrchr(name, '.');

	if (dot && dot[1] && !dot[1 + strspn(dot + 1, "0123456789")])
		*dot = '\0';
}

static void offer_symbol(struct names *s, const struct symbol *sym, enum names_of what)
{
	scoped(freep) char *name = NULL;

	if ((sym->use == SYMBOL_CODE) != (what == NAMES_FUNCTIONS))
		return;
	if (what == NAMES_FUNCTIONS) {
		enum hit_part part = HIT_WHOLE;

		name = demangle_bare(sym->name);
		if (!name)
			name = demangle_or_copy(sym->name);
		if (name && code_name_cut_suffix(name, &part))
			return;
	} else if (sym->size && strncmp(sym->name, "_ZT", 3) != 0 && strncmp(sym->name, "_ZGV", 4) != 0) {
		name = demangle_or_copy(sym->name);
		if (name)
			cut_number(name);
	}
	if (name)
		offer(s, name);
}

static void offer_variables(struct names *s, struct locate_index *x)
{
	size_t n;
	const struct variable_entry *v = locate_index_all(x, &n);

	for (size_t i = 0; i < n; i++) {
		scoped(freep) char *full = NULL;
		Dwarf_Die die = v[i].die;

		if (v[i].declaration || (s->source && !locate_is_from(x, &die, v[i].unit, s->source)))
			continue;
		if (asprintf(&full, "%s%s%s", v[i].scope ? v[i].scope : "", v[i].scope ? "::" : "",
			     v[i].name) < 0) {
			full = NULL;
			s->no_memory = true;
			return;
		}
		offer(s, full);
	}
}

static void offer_module(struct names *s, const struct module *m, enum names_of what)
{
	struct locate_index *x = locator_index(s->locator, m);
	struct symbols *table = x ? locate_index_symbols(x) : NULL;
	const struct symbol *v;
	size_t n;

	if (!table) {
		s->no_memory = true;
		return;
	}
	if (what == NAMES_VARIABLES)
		offer_variables(s, x);
	/* Symbols know no source files. */
	v = symbols_all(table, &n);
	for (size_t i = 0; i < n && !(s->source && what == NAMES_VARIABLES); i++)
		offer_symbol(s, &v[i], what);
}

/* The program first; libraries only where it has nothing, or where one was named. */
static void offer_names(struct names *s, enum names_of what)
{
	const struct module *program = search_main_module(s->modules);

	if (program && (!s->module || module_is_called(s->modules, program, s->module)))
		offer_module(s, program, what);
	if (!s->module && (s->n || !*s->typed))
		return;
	for (size_t i = 0; i < s->modules->n; i++) {
		const struct module *m = &s->modules->v[i];

		if (m != program && (!s->module || module_is_called(s->modules, m, s->module)))
			offer_module(s, m, what);
	}
}

/* Types are followed without a process: any memory will do. */
static bool read_anything(void *ctx, uint64_t addr, void *buf, size_t len)
{
	memset(buf, 1, len);
	return true;
}

struct members {
	struct names *names;
	unsigned int depth;
};

static bool offer_member(void *ctx, const struct dmember_reported *m)
{
	struct members *in = ctx;
	struct dtype inner;

	if (m->name && !m->is_base) {
		/* Members of Rust's tuples are numbers to its users. */
		bool tuple = !strncmp(m->name, "__", 2) && isdigit((unsigned char)m->name[2]);

		add(in->names, tuple ? m->name + 2 : m->name);
		return true;
	}
	inner = dtype_strip(&m->m.type);
	if (in->depth < DEPTH_MAX && dtype_is_aggregate_tag(dtype_tag(&inner))) {
		struct members deeper = { in->names, in->depth + 1 };

		dtype_each_member(&inner, 0, NULL, offer_member, &deeper);
	}
	return true;
}

/* The end of what is typed, from the last ".", "%" or "->" on; NULL: there is none. */
static const char *last_step(const char *typed)
{
	for (const char *c = typed + strlen(typed); c > typed; c--) {
		if (c[-1] == '.' || c[-1] == '%' || (c[-1] == '>' && c - typed >= 2 && c[-2] == '-'))
			return c;
		if (strchr(":]) ", c[-1]))
			return NULL;
	}
	return NULL;
}

/* @prefix is "lead base . partial": the members of base. */
static void offer_members(struct names *s, const char *prefix)
{
	const struct memory_view anything = { read_anything, NULL };
	size_t lead = strspn(prefix, "*&");
	const char *partial = last_step(prefix + lead);
	scoped(object_deinit) struct object o = { 0 };
	scoped(freep) char *base = NULL;
	struct members in = { s, 0 };
	struct wc_error *err;
	struct dtype t;
	bool arrow;

	if (!partial)
		return;
	arrow = partial[-1] == '>';
	base = strndup(prefix + lead, (size_t)(partial - prefix) - lead - (arrow ? 2 : 1));
	free(s->before);
	s->before = strndup(prefix, (size_t)(partial - prefix));
	if (!base || !s->before) {
		s->no_memory = true;
		return;
	}
	s->typed = partial;
	err = locate_object(s->locator, base, s->modules, &anything, false, &o);
	if (err) {
		wc_error_free(err); /* no such variable: then it has no members */
		return;
	}
	if (o.place.stars || o.place.slice)
		return;
	t = dtype_strip(&o.place.type);
	/* Go and Rust follow pointers by ".". */
	if (dtype_tag(&t) == DW_TAG_pointer_type) {
		t = dtype_target(&t);
		t = dtype_strip(&t);
	}
	if (dtype_is_aggregate_tag(dtype_tag(&t)))
		dtype_each_member(&t, 0, NULL, offer_member, &in);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_report(struct names *s, size_t most, bool (*each)(void *ctx, const char *name), void *ctx)
{
	size_t reported = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_text);
	for (size_t i = 0; i < s->n && reported < most; i++) {
		if (i && !strcmp(s->v[i], s->v[i - 1]))
			continue;
		reported++;
		if (!each(ctx, s->v[i]))
			return;
	}
}

/* Takes "*" and "libx.so:" off @prefix. False: no memory. */
static bool split(struct names *s, const char *prefix, char **head)
{
	const char *name = prefix + strspn(prefix, "*&(");
	const char *end = locate_prefix_end(name);

	if (end) {
		*head = locate_unquote_prefix(name, end);
		if (!*head)
			return false;
		if (module_by_name(s->modules, *head))
			s->module = *head;
		else
			s->source = *head;
		name = end + (strspn(end, ":") == 2 ? 2 : 1);
	}
	s->typed = name;
	s->before = strndup(prefix, (size_t)(name - prefix));
	return s->before;
}

struct question {
	struct names *s;
	const char *prefix;
	enum names_of what;
};

static void run_question(void *ctx)
{
	struct question *q = ctx;

	offer_names(q->s, q->what);
	if (!q->s->n && q->what == NAMES_VARIABLES)
		offer_members(q->s, q->prefix);
}

struct wc_error *names_find(struct locator *l, const struct module_list *modules, const char *prefix,
			    enum names_of what, size_t most, bool (*each)(void *ctx, const char *name),
			    void *ctx)
{
	scoped(names_deinit) struct names s = { .locator = l, .modules = modules };
	scoped(freep) char *head = NULL;
	struct question q = { &s, prefix, what };
	struct wc_error *err;

	if (!split(&s, prefix, &head))
		return &wc_enomem;
	err = locator_guarded(l, run_question, &q);
	if (err)
		return err;
	if (s.no_memory)
		return &wc_enomem;
	names_report(&s, most, each, ctx);
	return NULL;
}

static int open_on_path(const char *program, char path[PATH_MAX])
{
	const char *dir = getenv("PATH");

	if (strchr(program, '/') || !dir) {
		snprintf(path, PATH_MAX, "%s", program);
		return symbol_search_open_regular(path);
	}
	for (; *dir; dir += strcspn(dir, ":"), dir += *dir == ':') {
		int len = (int)strcspn(dir, ":"), fd;

		snprintf(path, PATH_MAX, "%.*s/%s", len ? len : 1, len ? dir : ".", program);
		fd = symbol_search_open_regular(path);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* The program as a module that lies where its file says. */
static struct wc_error *module_of_file(const char *program, struct module_list *ret)
{
	char path[PATH_MAX];
	struct module_elf elf;
	struct module m = { .end = UINT64_MAX };
	size_t cap = 0;

	scoped(closep) int fd = open_on_path(program, path);
	if (fd < 0)
		return wc_error_new(WC_ENAME, "there is no program \"%s\"", program);
	if (!module_elf_from_file(fd, &elf))
		return wc_error_new(WC_ENAME, "%s is no program for x86-64", path);
	memcpy(m.build_id, elf.build_id, sizeof(m.build_id));
	m.build_id_len = elf.build_id_len;
	m.path = realpath(path, NULL);
	m.open_path = m.path ? strdup(m.path) : NULL;
	if (!m.open_path || !vec_push(ret->v, ret->n, cap, m)) {
		free(m.open_path);
		free(m.path);
		return &wc_enomem;
	}
	ret->cap = cap;
	return NULL;
}

static void locator_freep(struct locator **l)
{
	locator_free(*l);
}

struct wc_error *names_list(pid_t pid, const char *program, const char *prefix, enum names_of what,
			    size_t most, bool (*each)(void *ctx, const char *name), void *ctx)
{
	scoped(module_list_deinit) struct module_list modules = { 0 };
	scoped(locator_freep) struct locator *l = locator_new();
	struct wc_error *err;

	if (!l)
		return &wc_enomem;
	err = pid ? module_list_read(pid, &modules) : module_of_file(program, &modules);
	return err ? err : names_find(l, &modules, prefix, what, most, each, ctx);
}
