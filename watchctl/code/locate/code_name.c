#include "watchctl/code/locate/code_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_names.h"
#include "watchctl/code/elf/module_code.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/locate/code_name_dwarf.h"
#include "watchctl/code/locate/code_name_find.h"
#include "watchctl/code/locate/code_name_indirect.h"
#include "watchctl/code/locate/code_name_line.h"
#include "watchctl/code/locate/code_name_parse.h"

/* What is found, and in what. */
struct place {
	const struct module *module;
	struct locate_index *index;
	uint64_t addr;	  /* runtime */
	bool is_function; /* where a function begins */
};

/* The bounds of the contiguous part of a function around @at, as addresses of the file. */
struct bounds {
	uint64_t at, start, end;
};

static bool range_holds(void *ctx, uint64_t start, uint64_t end)
{
	struct bounds *b = ctx;

	if (b->at < start || b->at >= end)
		return true;
	b->start = start;
	b->end = end;
	return false;
}

/* Of the part of the function that begins at @h. False: unknown. */
static bool function_bounds(const struct hit *h, struct bounds *ret)
{
	struct code_die d = { .die = h->die };
	struct symbols *table = locate_index_symbols(h->index);

	ret->at = h->addr - h->module->bias;
	if (h->has_die && locate_index_dwarf(h->index, &d.bias) && !code_die_ranges(&d, range_holds, ret))
		return true;
	return table && symbols_find(table, ret->at, false, &ret->start, &ret->end);
}

static struct wc_error *code_unreadable(const struct hit *h)
{
	return wc_error_new(
		WC_ENAME,
		"The code of '%s' cannot be read from %s, so the beginnings of its instructions are not known. Give "
		"an address (0x...).",
		h->name, h->module->path);
}

/* How many bytes of an instruction could be read: from the file, or the process where the file is gone. */
static size_t read_code(struct module_code *code, const struct memory_view *mem, uint64_t addr,
			uint8_t bytes[INSN_MAX])
{
	for (size_t len = INSN_MAX; len; len--)
		if (module_code_read(code, addr, bytes, len) || (mem && memory_read(mem, addr, bytes, len)))
			return len;
	return 0;
}

/*
 * Decodes from the start of the function up to @offset. An execute watch inside an instruction would never
 * see anything.
 */
static struct wc_error *check_boundary(const struct hit *h, uint64_t offset, const struct memory_view *mem)
{
	struct module_code *code = module_code_new(h->module);
	struct wc_error *err = NULL;
	uint64_t at = 0, last = 0;

	if (!code)
		return &wc_enomem;
	while (at < offset && !err) {
		uint8_t bytes[INSN_MAX];
		struct insn i;
		size_t len = read_code(code, mem, h->addr + at, bytes);

		if (!len || !insn_decode(bytes, len, h->addr + at, &i)) {
			err = code_unreadable(h);
			break;
		}
		last = at;
		at += i.len;
	}
	module_code_free(code);
	if (!err && at != offset)
		err = wc_error_new(WC_ENAME,
				   "%s+0x%" PRIx64
				   " is inside an instruction, where execution never begins. The "
				   "nearest instructions are at %s+0x%" PRIx64 " and %s+0x%" PRIx64 ".",
				   h->name, offset, h->name, last, h->name, at);
	return err;
}

static struct wc_error *check_offset(const struct hit *h, uint64_t offset, const struct memory_view *mem)
{
	struct bounds b;
	uint64_t size;

	if (!offset)
		return NULL;
	if (!function_bounds(h, &b))
		return wc_error_new(
			WC_ENAME,
			"The size of '%s' is not known, so it is not known whether it contains offset 0x%" PRIx64
			". "
			"Give an address (0x...).",
			h->name, offset);
	size = b.end - b.at;
	if (offset >= size)
		return wc_error_new(WC_ENAME,
				    "'%s' is 0x%" PRIx64 " bytes long: +0x%" PRIx64 " is beyond its end.",
				    h->name, size, offset);
	return check_boundary(h, offset, mem);
}

/* How often the function was inlined into others of its module. */
static struct wc_error *count_inlined(struct search *s, const struct hit *h, unsigned int *ret)
{
	scoped(code_dies_deinit) struct code_dies dies = { 0 };
	struct code_die d = { .die = h->die };
	uint64_t entry = h->addr - h->module->bias;

	if (!h->has_die)
		return NULL;
	if (!code_dies_find(h->index, s->name, &entry, 1, true, &dies))
		return &wc_enomem;
	for (size_t i = 0; i < dies.n; i++)
		*ret += code_dies_same_origin(&dies.v[i].die, &d.die) &&
			dwarf_tag(&dies.v[i].die) == DW_TAG_inlined_subroutine;
	return NULL;
}

/*
 * The line of the code: of the innermost inlined function there, but of the beginning of a function that line
 * of it itself.
 */
static struct wc_error *set_source(const struct place *p, struct variable *v)
{
	const struct dwarf_frame *frame;
	struct dwarf_names *names = dwarf_names_new(locate_index_file(p->index));
	struct dwarf_place at = { 0 };
	struct wc_error *err = NULL;

	if (!names)
		return &wc_enomem;
	if (dwarf_names_lookup(names, p->addr - p->module->bias, &at)) {
		frame = &at.frame[p->is_function ? at.nframes - 1 : 0];
		v->decl_file = frame->file ? strdup(frame->file) : NULL;
		v->decl_line = frame->line;
		err = frame->file && !v->decl_file ? &wc_enomem : NULL;
	}
	dwarf_place_deinit(&at);
	dwarf_names_free(names);
	return err;
}

/* Makes the result of @p; takes @name. */
static struct wc_error *make_result(const struct place *p, char *name, unsigned int copies,
				    struct variable *ret)
{
	scoped(variable_deinit) struct variable v = {
		.addr = p->addr, .size = 1, .copies = copies, .name = name
	};
	struct wc_error *err = NULL;

	if (p->module)
		v.module = strdup(p->module->path);
	v.type.name = strdup("function");
	if (!v.name || !v.type.name || (p->module && !v.module))
		return &wc_enomem;
	if (p->module && p->index)
		err = set_source(p, &v);
	if (err)
		return err;
	*ret = v;
	v = (struct variable){ 0 };
	return NULL;
}

static char *result_name(const struct code_expr *e, const char *what)
{
	const char *one = e->nprefixes > 0 ? e->prefix[0] : NULL,
		   *two = e->nprefixes > 1 ? e->prefix[1] : NULL;
	char offset[32] = "", *name;

	if (e->has_offset && e->offset)
		snprintf(offset, sizeof(offset), "+0x%" PRIx64, e->offset);
	if (asprintf(&name, "%s%s%s%s%s%s", one ? one : "", one ? ":" : "", two ? two : "", two ? ":" : "",
		     what, offset) < 0)
		return NULL;
	return name;
}

static struct wc_error *function_result(struct search *s, const struct code_expr *e,
					const struct memory_view *mem, struct variable *ret)
{
	const struct hit *h = &s->hit[0];
	struct place p = { h->module, h->index, h->addr + e->offset, e->offset == 0 };
	unsigned int copies = s->nclones;
	struct wc_error *err = check_offset(h, e->offset, mem);

	if (!err)
		err = count_inlined(s, h, &copies);
	return err ? err : make_result(&p, result_name(e, h->name), copies, ret);
}

static struct wc_error *find_function(struct search *s, const struct code_expr *e,
				      const struct memory_view *mem, struct variable *ret,
				      bool *missing_module)
{
	struct wc_error *err;

	s->name = e->name;
	err = code_name_find(s);
	if (!err && !s->nhits)
		err = code_name_inlined_error(s);
	if (err)
		return err;
	if (!s->nhits)
		return search_not_found(s, e->nprefixes ? e->prefix[e->nprefixes - 1] : NULL, missing_module);
	for (size_t i = 0; i < s->nhits; i++)
		if (s->hit[i].is_indirect)
			return code_indirect_error(s, &s->hit[i], mem);
	return s->nhits > 1 ? search_ambiguous(s) : function_result(s, e, mem, ret);
}

static struct wc_error *find_line(struct search *s, const struct code_expr *e, struct variable *ret,
				  bool *missing_module)
{
	struct place p = { 0 };
	struct wc_error *err;
	char line[16];

	if (!s->source)
		return wc_error_new(WC_EUSAGE,
				    "'%s' is a module: a line number needs a source file, as in %s:FILE:%u.",
				    s->module, s->module, e->line);
	err = code_name_line(s, e->line, &p.module, &p.addr, missing_module);
	if (err)
		return err;
	p.index = locator_index(s->locator, p.module);
	snprintf(line, sizeof(line), "%u", e->line);
	return make_result(&p, result_name(e, line), 0, ret);
}

static struct wc_error *find_raw(struct search *s, const struct code_expr *e, struct variable *ret)
{
	struct place p = { .module = module_find(s->modules, e->addr), .addr = e->addr };
	char *name;

	if (p.module)
		p.index = locator_index(s->locator, p.module);
	if (asprintf(&name, "0x%" PRIx64, e->addr) < 0)
		return &wc_enomem;
	return make_result(&p, name, 0, ret);
}

static struct wc_error *find_code(struct locator *l, const char *expr, const struct module_list *modules,
				  const struct memory_view *mem, struct variable *ret, bool *missing_module)
{
	scoped(code_expr_deinit) struct code_expr e = { 0 };
	scoped(search_deinit) struct search s = { .locator = l, .modules = modules, .functions = true };
	struct wc_error *err;

	if (missing_module)
		*missing_module = false;
	err = code_name_parse(expr, &e);
	if (err)
		return err;
	if (e.is_raw)
		return find_raw(&s, &e, ret);
	search_set_prefixes(&s, e.prefix, e.nprefixes);
	return e.name ? find_function(&s, &e, mem, ret, missing_module)
		      : find_line(&s, &e, ret, missing_module);
}

struct wc_error *locate_code(struct locator *l, const char *expr, const struct module_list *modules,
			     const struct memory_view *mem, struct variable *ret, bool *missing_module)
{
	struct locate_question q = { find_code, l, expr, modules, mem, ret, missing_module, NULL };

	return locator_ask(&q);
}
