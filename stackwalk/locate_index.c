/*
 * The outer variables of a file are indexed once, from the entries directly in its units and namespaces:
 * function bodies and types, the bulk of debug information, are skipped. Variables inside functions are
 * searched for by name when no outer one fits.
 *
 * libdw has no way from an entry to its parent, so scopes are collected on the way down. A definition
 * outside its namespace (DW_AT_specification) has lost its scope: the linkage name still tells it.
 */
#include "stackwalk/locate_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stackwalk/demangle.h"
#include "stackwalk/dwarf_unit.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

#define DEPTH_MAX 256
#define ANONYMOUS "(anonymous namespace)"

struct locate_index {
	struct elffile *file;
	struct symbols *symbols;
	bool opened, read;
	Dwarf *dwarf;
	uint64_t bias;
	Dwarf_Die *unit;
	size_t nunits, unit_cap;
	struct variable_entry *v;
	size_t n, cap;
	struct map64 by_name; /* hash of the last component -> index of the first entry + 1 */
	char **strings;	      /* scopes; owned */
	size_t nstrings, string_cap;
};

struct locate_index *locate_index_new(const struct module *m)
{
	struct locate_index *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->file = elffile_new(m);
	if (!x->file) {
		free(x);
		return NULL;
	}
	return x;
}

void locate_index_free(struct locate_index *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->nstrings; i++)
		free(x->strings[i]);
	free(x->strings);
	map64_deinit(&x->by_name);
	free(x->v);
	free(x->unit);
	symbols_free(x->symbols);
	elffile_free(x->file);
	free(x);
}

struct elffile *locate_index_file(struct locate_index *x)
{
	return x->file;
}

struct symbols *locate_index_symbols(struct locate_index *x)
{
	if (!x->symbols)
		x->symbols = symbols_new(x->file);
	return x->symbols;
}

static void open_units(struct locate_index *x)
{
	struct dwarf_unit_iter it = { 0 };
	Dwarf_Die cu;

	if (x->opened)
		return;
	x->opened = true;
	x->dwarf = elffile_dwarf(x->file, &x->bias);
	while (x->dwarf && dwarf_unit_next(x->dwarf, &it, &cu))
		if (!vec_push(x->unit, x->nunits, x->unit_cap, cu))
			return;
}

bool locate_index_has_dwarf(struct locate_index *x)
{
	open_units(x);
	return x->nunits > 0;
}

Dwarf_Die *locate_index_unit(struct locate_index *x, uint32_t unit)
{
	return &x->unit[unit];
}

size_t locate_index_nunits(struct locate_index *x)
{
	open_units(x);
	return x->nunits;
}

/* Keeps @s until the index is freed. NULL: no memory. */
static const char *keep(struct locate_index *x, char *s)
{
	if (s && vec_push(x->strings, x->nstrings, x->string_cap, s))
		return s;
	free(s);
	return NULL;
}

static char *join_scope(const char *scope, const char *name)
{
	char *s;

	if (asprintf(&s, "%s%s%s", scope ? scope : "", scope ? "::" : "", name) < 0)
		return NULL;
	return s;
}

/* Where the last component of @name begins: after the last "::", or a Go package's '.'. */
static const char *last_component(const char *name)
{
	const char *last = name, *s;

	for (s = name; *s; s++) {
		if (s[0] == '<' || s[0] == '(' || s[0] == '{')
			/* nothing inside a template's arguments separates components of this name */
			for (int depth = 0; *s; s++) {
				depth += strchr("<({", *s) ? 1 : strchr(">)}", *s) ? -1 : 0;
				if (!depth)
					break;
			}
		if (!*s)
			break;
		if (s[0] == ':' && s[1] == ':')
			last = s + 2;
		else if ((s[0] == '.' || s[0] == '/') && s[1])
			last = s + 1;
	}
	return last;
}

static uint64_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
	return h;
}

static bool add_entry(struct locate_index *x, struct variable_entry e)
{
	uint64_t key = hash(last_component(e.name));

	e.next = (uint32_t)(uintptr_t)map64_get(&x->by_name, key);
	return vec_push(x->v, x->n, x->cap, e) && map64_put(&x->by_name, key, (void *)(uintptr_t)x->n);
}

/* The scope in a demangled name, "ns::f(int)::x" -> "ns::f"; NULL: none. Takes @full. */
static char *scope_of(char *full)
{
	char *name = full ? (char *)last_component(full) : NULL;
	size_t len;

	if (!full || name < full + 2 || name[-1] != ':') {
		free(full);
		return NULL;
	}
	name[-2] = '\0';
	len = strlen(full);
	/* drop "(int) const" of a function */
	if (len && strchr(full, '(') && (full[len - 1] == ')' || strstr(full, ") const"))) {
		char *open = strrchr(full, '(');

		if (open > full && strcmp(open, ANONYMOUS) != 0 &&
		    strncmp(open, ANONYMOUS, strlen(ANONYMOUS)) != 0)
			*open = '\0';
	}
	return full;
}

static const char *variable_scope(struct locate_index *x, Dwarf_Die *die, const char *scope)
{
	const char *linkage;

	if (scope)
		return scope;
	linkage = dwarf_die_linkage_name(die);
	return linkage ? keep(x, scope_of(demangle(linkage))) : NULL;
}

static bool index_variable(struct locate_index *x, Dwarf_Die *die, uint32_t unit, const char *scope)
{
	const char *name = dwarf_diename(die);
	struct variable_entry e = { .name = name, .die = *die, .unit = unit };
	Dwarf_Attribute mem;

	if (!name)
		return true;
	e.declaration = dwarf_hasattr(die, DW_AT_declaration) && !dwarf_attr(die, DW_AT_location, &mem);
	e.scope = variable_scope(x, die, scope);
	return add_entry(x, e);
}

static const char *inner_scope(struct locate_index *x, Dwarf_Die *die, const char *scope)
{
	const char *name = dwarf_diename(die);

	return keep(x, join_scope(scope, name ? name : ANONYMOUS));
}

static bool index_children(struct locate_index *x, Dwarf_Die *parent, uint32_t unit, const char *scope,
			   unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return true;
	do {
		bool ok = true;

		switch (dwarf_tag(&die)) {
		case DW_TAG_variable:
			ok = index_variable(x, &die, unit, scope);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
			ok = index_children(x, &die, unit, inner_scope(x, &die, scope), depth + 1);
			break;
		default:
			break;
		}
		if (!ok)
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

static void read_index(struct locate_index *x)
{
	open_units(x);
	if (x->read)
		return;
	x->read = true;
	for (size_t i = 0; i < x->nunits; i++)
		if (!index_children(x, &x->unit[i], (uint32_t)i, NULL, 0))
			return;
}

/* Copies @name without what people leave out: spaces, parameter lists, and with @anonymous those components.
 */
static void simplify(const char *name, bool anonymous, char *out, size_t len)
{
	size_t n = 0, skip = strlen(ANONYMOUS "::");

	for (const char *s = name; *s && n + 1 < len;) {
		if (strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0) {
			if (anonymous && strncmp(s, ANONYMOUS "::", skip) == 0) {
				s += skip;
				continue;
			}
			for (const char *end = s + strlen(ANONYMOUS); s < end && n + 1 < len;)
				out[n++] = *s++;
			continue;
		}
		if (*s == '(') {
			const char *end = strstr(s, ")::");

			if (end) {
				s = end + 1;
				continue;
			}
		}
		if (*s != ' ')
			out[n++] = *s;
		s++;
	}
	out[n] = '\0';
}

static bool is_component_end(const char *full, const char *at)
{
	if (at == full)
		return true;
	return at[-1] == '.' || at[-1] == '/' || (at >= full + 2 && at[-1] == ':' && at[-2] == ':');
}

enum name_fit locate_name_fit(const char *scope, const char *name, const char *query)
{
	char full[1024], plain[1024], wanted[1024];
	size_t len, n;

	snprintf(full, sizeof(full), "%s%s%s", scope ? scope : "", scope ? "::" : "", name);
	if (strcmp(full, query) == 0)
		return FIT_EXACT;
	simplify(query, false, wanted, sizeof(wanted));
	n = strlen(wanted);
	/* Without, then with, the anonymous namespaces spelled out. */
	for (int anonymous = 0; anonymous < 2; anonymous++) {
		simplify(full, anonymous, plain, sizeof(plain));
		len = strlen(plain);
		if (strcmp(plain, wanted) == 0)
			return anonymous ? FIT_SUFFIX : FIT_EXACT;
		if (len > n && strcmp(plain + len - n, wanted) == 0 &&
		    is_component_end(plain, plain + len - n))
			return FIT_SUFFIX;
	}
	return FIT_NONE;
}

bool locate_path_fit(const char *path, const char *file)
{
	size_t len = strlen(path), n = strlen(file);

	while (strncmp(file, "./", 2) == 0) {
		file += 2;
		n -= 2;
	}
	if (len < n || strcmp(path + len - n, file) != 0)
		return false;
	return len == n || path[len - n - 1] == '/';
}

typedef bool each_fn(void *ctx, const struct variable_entry *e, enum name_fit fit);

struct local_search {
	const char *query, *last;
	each_fn *each;
	void *ctx;
	struct locate_index *x;
	uint32_t unit;
};

static const char *function_scope(struct locate_index *x, Dwarf_Die *die, const char *scope)
{
	const char *name = dwarf_diename(die), *linkage = scope ? NULL : dwarf_die_linkage_name(die);
	char *outer = linkage ? scope_of(demangle(linkage)) : NULL, *full;

	if (!name) {
		free(outer);
		return scope;
	}
	full = join_scope(outer ? outer : scope, name);
	free(outer);
	return keep(x, full);
}

/*
 * Looks for the variable inside functions below @parent. @function is the innermost function's entry, whose
 * scope is made only when a variable of that name is met. False: stop.
 */
static bool search_locals(struct local_search *s, Dwarf_Die *parent, Dwarf_Die *function, const char *scope,
			  unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return true;
	do {
		struct variable_entry e = { .unit = s->unit, .die = die };
		const char *inner;
		enum name_fit fit;

		switch (dwarf_tag(&die)) {
		case DW_TAG_variable:
		case DW_TAG_formal_parameter:
			e.name = function ? dwarf_diename(&die) : NULL;
			if (!e.name || strcmp(e.name, s->last) != 0)
				break;
			e.scope = function_scope(s->x, function, scope);
			fit = locate_name_fit(e.scope, e.name, s->query);
			if (fit && !s->each(s->ctx, &e, fit))
				return false;
			break;
		case DW_TAG_subprogram:
			/* A function in another one, or a method: the outer function is part of its scope. */
			inner = function ? function_scope(s->x, function, scope) : scope;
			if (!search_locals(s, &die, &die, inner, depth + 1))
				return false;
			break;
		case DW_TAG_lexical_block:
			if (!search_locals(s, &die, function, scope, depth + 1))
				return false;
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
			if (!search_locals(s, &die, NULL, inner_scope(s->x, &die, scope), depth + 1))
				return false;
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

void locate_index_find(struct locate_index *x, const char *query, bool local, each_fn *each, void *ctx)
{
	const char *last = last_component(query);
	uint32_t i;

	read_index(x);
	if (local) {
		for (size_t unit = 0; unit < x->nunits; unit++) {
			struct local_search s = { query, last, each, ctx, x, (uint32_t)unit };

			if (!search_locals(&s, &x->unit[unit], NULL, NULL, 0))
				return;
		}
		return;
	}
	for (i = (uint32_t)(uintptr_t)map64_get(&x->by_name, hash(last)); i; i = x->v[i - 1].next) {
		const struct variable_entry *e = &x->v[i - 1];
		enum name_fit fit = locate_name_fit(e->scope, e->name, query);

		if (fit && !each(ctx, e, fit))
			return;
	}
}

const struct variable_entry *locate_index_all(struct locate_index *x, size_t *n)
{
	read_index(x);
	*n = x->n;
	return x->v;
}

static bool is_segment_address(struct locate_index *x, uint64_t vaddr)
{
	Elf *elf = elffile_elf(x->file);
	size_t n = 0;

	if (!elf || elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);

		if (ph && ph->p_type == PT_LOAD && vaddr >= ph->p_vaddr && vaddr - ph->p_vaddr < ph->p_memsz)
			return vaddr != 0;
	}
	return false;
}

static bool op_is_tls(const Dwarf_Op *op)
{
	return op->atom == DW_OP_form_tls_address || op->atom == DW_OP_GNU_push_tls_address;
}

/* What the first operation of a location that is no address tells. */
static enum variable_place place_without_address(const Dwarf_Op *op)
{
	if ((op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) || op->atom == DW_OP_regx)
		return PLACE_REGISTER;
	if (op->atom == DW_OP_fbreg || op->atom == DW_OP_call_frame_cfa || op->atom == DW_OP_bregx ||
	    (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31))
		return PLACE_STACK;
	if (op->atom == DW_OP_implicit_value || op->atom == DW_OP_implicit_pointer ||
	    op->atom == DW_OP_GNU_implicit_pointer || (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31))
		return PLACE_CONSTANT;
	return PLACE_COMPLEX;
}

/* An address, perhaps plus a constant: what compilers write for a variable with a fixed place. */
static enum variable_place place_of_ops(Dwarf_Attribute *attr, Dwarf_Op *op, size_t n, uint64_t *ret)
{
	Dwarf_Attribute addr;

	for (size_t i = 0; i < n; i++)
		if (op_is_tls(&op[i]))
			return PLACE_TLS;
	if (op[0].atom == DW_OP_addr)
		*ret = op[0].number;
	else if (dwarf_getlocation_attr(attr, &op[0], &addr) != 0 || dwarf_formaddr(&addr, ret) != 0)
		return place_without_address(&op[0]);
	for (size_t i = 1; i < n; i++) {
		if (op[i].atom == DW_OP_stack_value)
			return PLACE_CONSTANT;
		if (op[i].atom == DW_OP_plus_uconst)
			*ret += op[i].number;
		else
			return PLACE_COMPLEX;
	}
	return PLACE_ADDRESS;
}

enum variable_place locate_index_place(struct locate_index *x, Dwarf_Die *die, uint64_t *ret)
{
	Dwarf_Attribute mem, *attr = dwarf_attr_integrate(die, DW_AT_location, &mem);
	enum variable_place place;
	uint64_t addr = 0;
	Dwarf_Op *op;
	size_t n;

	if (!attr) {
		if (dwarf_attr_integrate(die, DW_AT_const_value, &mem))
			return PLACE_CONSTANT;
		return dwarf_hasattr(die, DW_AT_declaration) ? PLACE_DECLARATION : PLACE_OPTIMISED;
	}
	/* A list of places, each for a part of the function. */
	if (dwarf_attr_location(attr, &op, &n) != 0)
		return PLACE_STACK;
	if (!n)
		return PLACE_OPTIMISED;
	place = place_of_ops(attr, op, n, &addr);
	if (place != PLACE_ADDRESS)
		return place;
	if (!is_segment_address(x, addr + x->bias))
		return PLACE_DISCARDED;
	*ret = addr + x->bias;
	return PLACE_ADDRESS;
}

static bool is_definition_of(Dwarf_Die *die, int tag, const char *name)
{
	const char *n;

	if (dwarf_tag(die) != tag || dwarf_hasattr(die, DW_AT_declaration))
		return false;
	n = dwarf_diename(die);
	return n && strcmp(n, name) == 0;
}

static bool find_definition(Dwarf_Die *parent, int tag, const char *name, unsigned int depth, Dwarf_Die *ret)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return false;
	do {
		if (is_definition_of(&die, tag, name)) {
			*ret = die;
			return true;
		}
		if (dwarf_tag(&die) == DW_TAG_namespace && find_definition(&die, tag, name, depth + 1, ret))
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

bool locate_index_complete_type(struct locate_index *x, Dwarf_Die *die, Dwarf_Die *ret)
{
	const char *name = dwarf_diename(die);
	Dwarf_Attribute mem, *signature = dwarf_attr_integrate(die, DW_AT_signature, &mem);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit, split;
	Dwarf_Half version;
	uint8_t type;

	if (signature && dwarf_formref_die(signature, ret))
		return true;
	open_units(x);
	/* Partial units too: dwz moves shared types there. */
	while (name && x->dwarf && dwarf_get_units(x->dwarf, cu, &cu, &version, &type, &unit, &split) == 0)
		if (find_definition(split.addr ? &split : &unit, dwarf_tag(die), name, 0, ret))
			return true;
	return false;
}
