/*
 * How a function is planned: by a built-in prototype, if it is one of the runtime's that is stepped over
 * (that is the same on each machine, whatever debug information it has); else by debug information: LLDB's
 * types, and libdw's places, or the calling convention where these do not hold at the entry; else by the
 * registers that its code reads.
 */
#include "watchctl/step/lldb/planner_lldb.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/insn/code_paths.h"
#include "watchctl/code/insn/live_in.h"
#include "watchctl/code/insn/result_use.h"
#include "watchctl/code/regs.h"
#include "watchctl/step/insn/plan.h"
#include "watchctl/step/lldb/planner_module.h"
#include "watchctl/step/lldb/planner_plan.h"
#include "watchctl/trace/call_values.h"

struct planner {
	struct lldb_session *session;
	bool owns_session;
	struct planner_options options;
	struct strings pool;
	struct planner_types types;
	struct known_modules modules;
};

static void planner_close(struct planner *p)
{
	if (!p)
		return;
	known_modules_deinit(&p->modules);
	planner_types_deinit(&p->types);
	strings_deinit(&p->pool);
	if (p->owns_session)
		lldb_session_close(p->session);
	free(p);
}

struct wc_error *planner_lldb_on(struct lldb_session *s, const struct planner_options *o,
				 struct planner **ret)
{
	struct planner *p = calloc(1, sizeof(*p));

	if (!p)
		return &wc_enomem;
	p->session = s;
	p->options = *o;
	p->modules.session = s;
	p->modules.pool = &p->pool;
	p->modules.memory = o->memory;
	*ret = p;
	return NULL;
}

static struct wc_error *planner_open(const char *exe, const struct planner_options *o, struct planner **ret)
{
	struct lldb_session *s;
	struct wc_error *err = lldb_session_open(exe, &s);

	if (err)
		return err;
	err = planner_lldb_on(s, o, ret);
	if (err)
		lldb_session_close(s);
	else
		(*ret)->owns_session = true;
	return err;
}

static struct wc_error *planner_set_modules(struct planner *p, const struct module_list *modules)
{
	return known_modules_set(&p->modules, modules);
}

/* Listing */

/* Where both begin, a function that only unwind tables know is the stub itself (.plt.got has such entries). */
static size_t planner_lldb_merge(const struct known_module *m, bool stubs, struct planner_function *ret)
{
	size_t i = 0, j = 0, n = 0, nstubs = stubs ? m->nstubs : 0;

	while (i < m->nfunctions || j < nstubs) {
		bool own = j == nstubs ||
			   (i < m->nfunctions && m->function[i].f.address <= m->stub[j].f.address);

		if (own && j < nstubs && m->function[i].f.address == m->stub[j].f.address) {
			own = m->function[i].f.name;
			*(own ? &j : &i) += 1;
		}
		ret[n++] = own ? m->function[i++].f : m->stub[j++].f;
	}
	return n;
}

static struct wc_error *planner_functions(struct planner *p, const struct module *m, bool stubs,
					  struct planner_list *ret)
{
	struct known_module *known = known_module_of(&p->modules, m);
	struct wc_error *err;

	*ret = (struct planner_list){ 0 };
	if (!known)
		return NULL;
	err = known_module_list(&p->modules, known);
	if (!err && stubs)
		err = known_module_list_stubs(&p->modules, known);
	if (err)
		return err;
	ret->v = calloc(known->nfunctions + known->nstubs + 1, sizeof(*ret->v));
	if (!ret->v)
		return &wc_enomem;
	ret->n = planner_lldb_merge(known, stubs, ret->v);
	return NULL;
}

/* Planning */

/* What a plan is about: the code that runs in the end, which for a stub is another module's. */
struct subject {
	const char *name, *linkage;
	struct known_module *module; /* NULL: not known */
	uint64_t vaddr;		     /* in it; 0: not known */
	uint64_t size;
	bool is_runtime; /* defined by a runtime library: it is what the manual says */
	bool is_static;	 /* by a program that has such libraries inside: it is if it is stepped over */
};

/* The import by which some module calls @address: a stub of its own, or a function of another module. */
static const struct known_function *find_import(struct planner *p, uint64_t address)
{
	for (size_t i = 0; i < p->modules.n; i++) {
		const struct known_module *m = p->modules.v[i];
		const struct known_function *f = m->gone ? NULL : known_module_stub(m, address);

		if (f)
			return f;
	}
	return NULL;
}

/*
 * The one function of @linkage that another module than @from defines. Where several do, which one is called
 * depends on the order of loading: then only whether it is the runtime's is reported.
 */
static void find_definition(struct planner *p, const struct known_module *from, struct subject *s)
{
	struct known_module *found = NULL;
	uint64_t vaddr = 0;
	size_t n = 0;

	if (!s->linkage)
		return;
	if (!known_modules_export(&p->modules, s->linkage, from, &found, &vaddr, &n)) {
		/* An indirect function of a static program's own. */
		s->is_static = from && code_entry_is_static_program(from->entries);
		return;
	}
	s->is_runtime = known_module_is_runtime(found);
	if (n > 1)
		return;
	s->module = found;
	s->vaddr = vaddr;
}

static struct wc_error *find_subject(struct planner *p, uint64_t address, struct subject *ret)
{
	struct known_module *m = known_module_at(&p->modules, address);
	const struct known_function *import = find_import(p, address), *f;
	struct wc_error *err = m ? known_module_list(&p->modules, m) : NULL;

	*ret = (struct subject){ 0 };
	if (err || !m)
		return err;
	f = known_module_function(m, address);
	if (import) {
		ret->name = import->f.name;
		ret->linkage = import->linkage;
		find_definition(p, import->f.is_stub ? m : NULL, ret);
	} else if (f) {
		ret->name = f->f.name;
		ret->linkage = f->linkage;
		ret->is_runtime = known_module_is_runtime(m);
		ret->is_static = code_entry_is_static_program(m->entries);
	}
	if (!import || import->f.by_pointer) {
		ret->module = m;
		ret->vaddr = address - m->m.bias;
	}
	f = ret->module && ret->vaddr ? known_module_function(ret->module, ret->vaddr + ret->module->m.bias)
				      : NULL;
	ret->size = f ? f->f.size : 0;
	return NULL;
}

static enum plan_variant variant_of(const char *linkage)
{
	static const char *const marks[] = { ".isra", ".part", ".argprom", ".argelim", ".specialized" };

	for (size_t i = 0; linkage && i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strstr(linkage, marks[i]))
			return VARIANT_REDUCED;
	return linkage && strstr(linkage, ".constprop") ? VARIANT_CONSTANT : VARIANT_NONE;
}

static size_t code_bytes(void *ctx, uint64_t addr, const uint8_t **ret)
{
	return code_entry_bytes(ctx, addr, ret);
}

static struct code_view code_of(const struct known_module *m)
{
	return (struct code_view){ code_bytes, m->entries };
}

static bool plan_registers(struct plan_maker *maker, const struct subject *s)
{
	struct live_in live = { 0 };

	if (s->module && s->vaddr) {
		struct code_view code = code_of(s->module);

		live = live_in_find(&code, s->vaddr);
	}
	return plan_by_registers(maker, &live);
}

/* *@done: there is debug information. */
static struct wc_error *plan_debug_info(struct plan_maker *maker, const struct subject *s, bool *done)
{
	struct function_places *places;
	const struct lldb_function *f = NULL;
	struct wc_error *err = NULL;

	*done = false;
	if (!s->module || !s->vaddr || !s->module->lldb)
		return NULL;
	places = malloc(sizeof(*places));
	if (!places)
		return &wc_enomem;
	if (param_places_find(s->module->places, s->vaddr, places)) {
		err = lldb_module_function(s->module->lldb, s->vaddr, &f);
		/* Go's, and what dwz has moved to a file that several programs share. */
		if (!err && !f)
			maker->plan->note = "LLDB cannot read its debug information";
	}
	if (!err && f) {
		*done = true;
		/* In C alone may a function that has a result leave it out. */
		maker->plan->sets_result = f->language != LLDB_LANGUAGE_C;
		maker->plan->function.file = strings_keep(maker->pool, places->file ? places->file : f->file);
		maker->plan->function.line = places->file ? places->line : f->line;
		if (!plan_by_debug_info(maker, f, places, variant_of(s->linkage)))
			err = &wc_enomem;
	}
	free(places);
	return err;
}

static void identify(struct function_event *e, const struct subject *s)
{
	e->name = s->name;
	if (!s->module)
		return;
	e->module = s->module->m.path;
	e->build_id = s->module->m.build_id;
	e->build_id_len = s->module->m.build_id_len;
	e->address = s->vaddr;
	e->size = s->size;
}

/* Whether all of the result is where something may be left over: in rax or xmm0. */
static bool may_be_left_over(const struct function_plan *plan)
{
	const struct fetch *f = &plan->plan.leave.v[plan->result.first];

	return plan->result.state == VALUE_OK && plan->result.count == 1 &&
	       ((f->op == FETCH_GPR && f->reg == WREG_RAX) || (f->op == FETCH_XMM && f->reg == 0));
}

static bool code_sets_result(const struct subject *s, const struct function_plan *plan)
{
	const struct fetch *f = &plan->plan.leave.v[plan->result.first];
	struct code_view code;

	if (!s->module || !s->vaddr || !s->size)
		return false;
	code = code_of(s->module);
	return result_is_set(&code, s->vaddr, s->size, f->op == FETCH_XMM);
}

static struct wc_error *make_plan(struct planner *p, const struct subject *s, bool over,
				  struct function_plan *plan)
{
	struct plan_maker maker = { &p->types, &p->pool, &p->options, plan,
				    s->module ? s->module->m.bias : 0 };
	struct prototype *prototype;
	struct wc_error *err;
	bool done = false;

	identify(&plan->function, s);
	plan->function.flags = over ? FUNCTION_OVER : 0;
	plan->function.return_type = NO_TYPE;
	plan->result = (struct param_recipe){ .state = VALUE_NONE, .to = PLAN_FETCHES };
	prototype = malloc(sizeof(*prototype));
	if (!prototype)
		return &wc_enomem;
	if (s->linkage && (s->is_runtime || (over && s->is_static)) && prototype_find(s->linkage, prototype))
		done = plan->sets_result = true;
	err = done && !plan_by_prototype(&maker, prototype) ? &wc_enomem : NULL;
	free(prototype);
	if (!done && !err)
		err = plan_debug_info(&maker, s, &done);
	if (!done && !err && !plan_registers(&maker, s))
		err = &wc_enomem;
	if (!err && !plan->sets_result)
		plan->sets_result = !may_be_left_over(plan) || code_sets_result(s, plan);
	return err;
}

static struct wc_error *planner_plan(struct planner *p, uint64_t address, bool over,
				     const struct function_plan **ret)
{
	struct known_module *m = known_module_at(&p->modules, address);
	struct function_plan *plan = m ? map64_get(&m->plans[over], address - m->m.bias) : NULL;
	struct wc_error *err;
	struct subject s;

	if (plan) {
		*ret = plan;
		return NULL;
	}
	err = find_subject(p, address, &s);
	if (err)
		return err;
	plan = strings_room(&p->pool, sizeof(*plan));
	if (!plan)
		return &wc_enomem;
	err = make_plan(p, &s, over, plan);
	if (!err && m && !map64_put(&m->plans[over], address - m->m.bias, plan))
		err = &wc_enomem;
	if (!err)
		*ret = plan;
	return err;
}

static enum result_use planner_result_use(struct planner *p, uint64_t return_address, bool vector)
{
	struct known_module *m = known_module_at(&p->modules, return_address);
	struct code_view code;

	if (!m)
		return RESULT_READ;
	code = code_of(m);
	return result_use_find(&code, return_address - m->m.bias, vector);
}

/*
 * "calls.0", "state.lto_priv.1": the compiler's own endings are not in the variable's name; nor is where it is: it is
 * known by its address.
 */
static const char *variable_name(char *symbol)
{
	char *scope, *name = symbol, *end;

	while ((scope = strstr(name, "::")))
		name = scope + 2;
	end = *name ? name + 1 + strcspn(name + 1, ".[") : name;
	*end = '\0';
	return name;
}

/* LLDB finds those of functions in their functions alone. */
static struct wc_error *find_variable(struct known_module *m, uint64_t vaddr, const char *name,
				      const struct lldb_type **ret)
{
	struct wc_error *err = lldb_module_variable(m->lldb, name, vaddr, ret);
	uint64_t function;

	if (err || *ret || !m->places)
		return err;
	if (!param_places_static(m->places, vaddr, &function))
		return &wc_enomem;
	return function ? lldb_module_static(m->lldb, function, vaddr, ret) : NULL;
}

static struct wc_error *planner_variable(struct planner *p, uint64_t module, uint64_t address,
					 const char *name, uint32_t *type)
{
	struct known_module *m = known_module_at(&p->modules, module);
	scoped(freep) char *symbol = strdup(name);
	const struct lldb_type *of = NULL;
	const struct type_event *e;
	struct wc_error *err;

	*type = NO_TYPE;
	if (!symbol)
		return &wc_enomem;
	if (!m || !m->lldb)
		return NULL;
	err = find_variable(m, address - m->m.bias, variable_name(symbol), &of);
	if (err || !of)
		return err;
	e = planner_types_of(&p->types, of, false);
	if (!e)
		return &wc_enomem;
	*type = e->id;
	return NULL;
}

static const struct type_event *planner_type(struct planner *p, uint32_t id)
{
	return planner_types_at(&p->types, id);
}

const struct planner_ops planner_lldb = {
	.name = "lldb",
	.version = lldb_shim_version,
	.open = planner_open,
	.set_modules = planner_set_modules,
	.functions = planner_functions,
	.plan = planner_plan,
	.result_use = planner_result_use,
	.variable = planner_variable,
	.type = planner_type,
	.close = planner_close,
};
