#include "watchctl/step/lldb/planner_module.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/regs.h"

static void module_free(struct known_module *m)
{
	if (!m)
		return;
	code_entries_free(m->entries);
	param_places_free(m->places);
	map64_deinit(&m->plans[0]);
	map64_deinit(&m->plans[1]);
	free(m->function);
	free(m->stub);
	free(m->m.path);
	free(m->m.open_path);
	free(m);
}

void known_modules_deinit(struct known_modules *k)
{
	for (size_t i = 0; i < k->n; i++)
		module_free(k->v[i]);
	free(k->v);
	cfi_free(k->cfi);
	*k = (struct known_modules){ 0 };
}

static bool is_same(const struct known_module *k, const struct module *m)
{
	return k->m.start == m->start && k->m.bias == m->bias && strcmp(k->m.path, m->path) == 0 &&
	       k->m.build_id_len == m->build_id_len &&
	       memcmp(k->m.build_id, m->build_id, m->build_id_len) == 0;
}

struct known_module *known_module_of(struct known_modules *k, const struct module *m)
{
	for (size_t i = 0; i < k->n; i++)
		if (!k->v[i]->gone && is_same(k->v[i], m))
			return k->v[i];
	return NULL;
}

struct known_module *known_module_at(struct known_modules *k, uint64_t address)
{
	for (size_t i = 0; i < k->n; i++)
		if (!k->v[i]->gone && address >= k->v[i]->m.start && address < k->v[i]->m.end)
			return k->v[i];
	return NULL;
}

static struct wc_error *add_module(struct known_modules *k, const struct module *m)
{
	struct known_module *add = calloc(1, sizeof(*add));
	struct wc_error *err;

	if (!add || !vec_push(k->v, k->n, k->cap, add)) {
		free(add);
		return &wc_enomem;
	}
	add->m = *m;
	add->m.path = strdup(m->path);
	add->m.open_path = m->open_path ? strdup(m->open_path) : NULL;
	add->entries = code_entries_new(m);
	add->places = param_places_new(m);
	if (!add->m.path || (m->open_path && !add->m.open_path) || !add->entries || !add->places ||
	    !cfi_add(k->cfi, m))
		return &wc_enomem;
	err = lldb_session_module(k->session, m, &add->lldb);
	return err;
}

struct wc_error *known_modules_set(struct known_modules *k, const struct module_list *list)
{
	if (!k->cfi)
		k->cfi = cfi_new();
	if (!k->cfi)
		return &wc_enomem;
	for (size_t i = 0; i < k->n; i++) {
		bool stays = false;

		for (size_t j = 0; j < list->n && !stays; j++)
			stays = is_same(k->v[i], &list->v[j]);
		if (!stays && !k->v[i]->gone)
			cfi_remove(k->cfi, k->v[i]->m.start, k->v[i]->m.end);
		k->v[i]->gone |= !stays;
	}
	for (size_t i = 0; i < list->n; i++) {
		struct wc_error *err = NULL;

		if (!known_module_of(k, &list->v[i]))
			err = add_module(k, &list->v[i]);
		if (err)
			return err;
	}
	return NULL;
}

/* Names */

/*
 * Code that no call leads to: what runs before and after a program's own code, and the unlikely paths of
 * functions, which are jumped to.
 */
static bool is_no_function(const char *linkage)
{
	static const char *const none[] = { "_init",
					    "_fini",
					    "_start",
					    "frame_dummy",
					    "register_tm_clones",
					    "deregister_tm_clones",
					    "__do_global_dtors_aux",
					    "__do_global_ctors_aux",
					    "_dl_relocate_static_pie" };
	const char *cold = strstr(linkage, ".cold");

	if (cold && (!cold[5] || cold[5] == '.'))
		return true;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (strcmp(linkage, none[i]) == 0)
			return true;
	return false;
}

static unsigned int underscores(const char *s)
{
	return (unsigned int)strspn(s, "_");
}

/* Of two names of one address, the same in every run: exported, then plain, then short, then first. */
static bool is_better(const char *a, bool a_exported, const char *b, bool b_exported)
{
	if (!a || !b)
		return a && !b;
	if (a_exported != b_exported)
		return a_exported;
	if (underscores(a) != underscores(b))
		return underscores(a) < underscores(b);
	return strlen(a) != strlen(b) ? strlen(a) < strlen(b) : strcmp(a, b) < 0;
}

static const char *pretty_name(struct known_modules *k, const char *linkage)
{
	scoped(freep) char *text = linkage ? demangle_or_copy(linkage) : NULL;

	return strings_keep(k->pool, text);
}

/* Listing */

struct listing {
	struct known_modules *k;
	struct known_module *m;
	struct map64 by_address; /* index + 1 of function[] */
	bool *exported;		 /* of function[], whether its name is */
	size_t cap;
};

/*
 * Without a name there is only the unwind table, which has entries for parts of functions too: a function
 * begins with nothing but its return address on the stack.
 */
static bool begins_like_a_function(struct listing *l, uint64_t vaddr)
{
	struct unwind_rule rule;

	cfi_rule(l->k->cfi, vaddr + l->m->m.bias, &rule);
	return rule.kind == UNWIND_CFA_REG && rule.cfa_reg == WREG_RSP && rule.cfa_off == 8;
}

static bool is_code(const struct known_module *m, uint64_t vaddr)
{
	const uint8_t *code;
	struct insn i;
	size_t n = code_entry_bytes(m->entries, vaddr, &code);

	return n && insn_decode(code, n < INSN_MAX ? n : INSN_MAX, vaddr, &i);
}

static bool is_exported(const struct known_module *m, const char *name)
{
	uint64_t vaddr;
	bool indirect;

	return code_entry_export(m->entries, name, &vaddr, &indirect);
}

static bool list_symbol(void *ctx, const struct lldb_symbol *s)
{
	struct listing *l = ctx;
	struct known_module *m = l->m;
	uint64_t at = s->address + m->m.bias;
	uintptr_t have = (uintptr_t)map64_get(&l->by_address, s->address);
	struct known_function add = { .f = { .address = at, .size = s->size }, .linkage = s->name };
	bool exported = s->name && is_exported(m, s->name);
	size_t n = m->nfunctions;

	if (have) {
		struct known_function *f = &m->function[have - 1];

		if (s->size > f->f.size)
			f->f.size = s->size;
		if (is_better(s->name, exported, f->linkage, l->exported[have - 1])) {
			f->linkage = s->name;
			l->exported[have - 1] = exported;
		}
		return true;
	}
	if (s->name ? !code_entry_is_function(m->entries, s->address)
		    : !begins_like_a_function(l, s->address))
		return true;
	if (!is_code(m, s->address))
		return true;
	if (!vec_reserve((void **)&l->exported, &l->cap, n + 1, sizeof(bool)) ||
	    !vec_push(m->function, m->nfunctions, m->function_cap, add))
		return false;
	l->exported[n] = exported;
	return map64_put(&l->by_address, s->address, (void *)(n + 1));
}

static int compare_functions(const void *a, const void *b)
{
	uint64_t x = ((const struct known_function *)a)->f.address;
	uint64_t y = ((const struct known_function *)b)->f.address;

	return x < y ? -1 : x > y;
}

struct wc_error *known_module_list(struct known_modules *k, struct known_module *m)
{
	struct listing l = { .k = k, .m = m };
	struct wc_error *err;
	size_t kept = 0;

	if (m->is_listed || !m->lldb)
		return NULL;
	err = lldb_module_symbols(m->lldb, list_symbol, &l);
	map64_deinit(&l.by_address);
	free(l.exported);
	if (err)
		return err;
	for (size_t i = 0; i < m->nfunctions; i++) {
		struct known_function f = m->function[i];

		if (f.linkage && is_no_function(f.linkage))
			continue;
		f.f.name = pretty_name(k, f.linkage);
		if (f.linkage && !f.f.name)
			return &wc_enomem;
		m->function[kept++] = f;
	}
	m->nfunctions = kept;
	if (kept)
		qsort(m->function, kept, sizeof(*m->function), compare_functions);
	m->is_listed = true;
	return NULL;
}

static const struct known_function *planner_module_find(const struct known_function *v, size_t n,
							uint64_t address)
{
	struct known_function key = { .f = { .address = address } };

	return n ? bsearch(&key, v, n, sizeof(key), compare_functions) : NULL;
}

const struct known_function *known_module_function(const struct known_module *m, uint64_t address)
{
	return planner_module_find(m->function, m->nfunctions, address);
}

const struct known_function *known_module_stub(const struct known_module *m, uint64_t address)
{
	return planner_module_find(m->stub, m->nstubs, address);
}

/* Stubs */

static bool is_program(const struct known_module *m)
{
	return is_exported(m, "_start") && is_exported(m, "main");
}

bool known_modules_export(struct known_modules *k, const char *name, const struct known_module *except,
			  struct known_module **ret, uint64_t *vaddr, size_t *n)
{
	struct known_module *found = NULL;
	uint64_t at;
	bool indirect;

	*n = 0;
	for (size_t i = 0; i < k->n; i++) {
		struct known_module *m = k->v[i];

		if (m->gone || m == except || !code_entry_export(m->entries, name, &at, &indirect))
			continue;
		++*n;
		if (found && !is_program(m))
			continue;
		found = m;
		/* Which function an indirect one is, only the process knows. */
		*vaddr = indirect ? 0 : at;
	}
	if (!found)
		return false;
	*ret = found;
	return true;
}

bool known_module_is_runtime(const struct known_module *m)
{
	static const char *const prefix[] = { "libc.",	  "libc-2",    "libm.",	    "libm-2",	"libpthread",
					      "libdl.",	  "libdl-2",   "librt",	    "ld-linux", "ld-musl",
					      "ld-2",	  "libstdc++", "libgcc_s",  "libc++",	"libresolv",
					      "libutil.", "libutil-2", "libcrypt.", "libanl" };
	const char *slash = strrchr(m->m.path, '/'), *base = slash ? slash + 1 : m->m.path;

	for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++)
		if (strncmp(base, prefix[i], strlen(prefix[i])) == 0)
			return true;
	return false;
}

/* The function of another module that @s leads to now: what its slot holds, else what has its name. */
static uint64_t target_of(struct known_modules *k, const struct known_module *m, const struct code_stub *s)
{
	struct known_module *other;
	uint64_t at = 0, vaddr;
	size_t n;

	if (k->memory.read && memory_read(&k->memory, s->slot + m->m.bias, &at, sizeof(at)) && at) {
		other = known_module_at(k, at);
		if (other == m)
			return 0;
		if (other && is_code(other, at - other->m.bias))
			return at;
	}
	if (!s->name || !known_modules_export(k, s->name, m, &other, &vaddr, &n) || !vaddr)
		return 0;
	return vaddr + other->m.bias;
}

static bool add_stub(struct known_modules *k, struct known_module *m, const struct code_stub *s)
{
	struct known_function add = { .linkage = s->name };

	if (s->address) {
		/* To its own functions it leads only if no other module takes their place. */
		if (s->is_own && !s->resolver)
			return true;
		add.f.address = s->address + m->m.bias;
		add.f.is_stub = true;
	} else {
		if (s->is_own)
			return true;
		add.f.address = target_of(k, m, s);
		add.f.by_pointer = true;
	}
	if (!add.f.address)
		return true;
	add.f.name = pretty_name(k, s->name);
	return vec_push(m->stub, m->nstubs, m->stub_cap, add);
}

struct wc_error *known_module_list_stubs(struct known_modules *k, struct known_module *m)
{
	size_t n, kept = 0;
	const struct code_stub *s = code_entry_stubs(m->entries, &n);

	m->nstubs = 0;
	for (size_t i = 0; i < n; i++)
		if (!add_stub(k, m, &s[i]))
			return &wc_enomem;
	if (m->nstubs)
		qsort(m->stub, m->nstubs, sizeof(*m->stub), compare_functions);
	for (size_t i = 0; i < m->nstubs; i++)
		if (!kept || m->stub[kept - 1].f.address != m->stub[i].f.address)
			m->stub[kept++] = m->stub[i];
	m->nstubs = kept;
	return NULL;
}
