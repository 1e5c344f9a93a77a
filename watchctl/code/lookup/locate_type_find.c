/*
 * Types by name. Every unit describes its types anew, so one type is met many times, and two of one name may
 * be different ones: what is declared elsewhere, or is of another size or scope, is another one. The one of
 * the variable's own unit goes before all others. Compilers write "unsigned long" as they like.
 *
 * A function is a scope, with its parameters, which may be left out. Its name is made only where a type is met
 * that could be meant: most of debug information is functions.
 */
#include "watchctl/code/lookup/locate_type_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/lookup/locate_scope.h"
#include "watchctl/code/symbols/locate_match.h"

#define DEPTH_MAX 32
#define NAME_MAX_LEN 1024
#define HITS_MAX 64

/* Ranks: what is better counts more than all that follows. */
enum { RANK_ANY = 1, RANK_PLAIN = 2, RANK_WHOLE = 4, RANK_NEAR = 8, RANK_EXACT = 16, RANK_LITERAL = 32 };

/* "long unsigned int" of any order of its words: how many of each. False: it is no number of C's. */
static bool count_words(const char *name, unsigned char n[8])
{
	static const char *const words[8] = { "int",  "long",	"short",  "unsigned",
					      "char", "double", "signed", "float" };

	memset(n, 0, 8);
	while (*name) {
		size_t len = strcspn(name, " "), i = 0;

		while (i < 8 && (strlen(words[i]) != len || strncmp(words[i], name, len) != 0))
			i++;
		if (i == 8)
			return false;
		n[i]++;
		name += len + strspn(name + len, " ");
	}
	/* "long", "long int" and "signed long" are one; "signed char" is not "char". */
	if (n[1] || n[2] || n[3] || (n[6] && !n[4]))
		n[0] = !n[4] && !n[5];
	if (n[0])
		n[6] = 0;
	return true;
}

static bool is_same_number(const char *a, const char *b)
{
	unsigned char x[8], y[8];

	return count_words(a, x) && count_words(b, y) && memcmp(x, y, sizeof(x)) == 0;
}

/* Cuts "struct " off *@name; 0: it had no such word. */
static int cut_keyword(const char **name)
{
	static const struct {
		const char *word;
		int tag;
	} keys[] = { { "struct ", DW_TAG_structure_type },
		     { "class ", DW_TAG_structure_type },
		     { "union ", DW_TAG_union_type },
		     { "enum ", DW_TAG_enumeration_type } };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strncmp(*name, keys[i].word, strlen(keys[i].word)) == 0) {
			*name += strlen(keys[i].word);
			return keys[i].tag;
		}
	return 0;
}

static bool is_type_tag(int tag)
{
	return dtype_is_aggregate_tag(tag) || tag == DW_TAG_base_type || tag == DW_TAG_typedef ||
	       tag == DW_TAG_enumeration_type;
}

static bool is_kind(int tag, int wanted)
{
	if (tag == DW_TAG_class_type)
		tag = DW_TAG_structure_type;
	return is_type_tag(tag) && (!wanted || tag == wanted);
}

/*
 * g++ shows the frame of coroutine ns::f(int) as "ns::f(int)::_ZN2ns1fEi.Frame" in the names of functions, and
 * declares it in the namespace. Its last component is unique: cuts all before it.
 */
static void cut_frame_scope(const char **name)
{
	const char *last = NULL, *end = *name + strlen(*name);

	for (const char *at = *name; (at = strstr(at, "::_Z")); at++)
		last = at + 2;
	if (last && end - last > 6 && strcmp(end - 6, ".Frame") == 0)
		*name = last;
}

/* "file.c::" off *@name; NULL: there is no such thing before it, or no memory. */
static char *cut_source(const char **name)
{
	const char *end = locate_scope_end(*name);
	char *source = end ? locate_unquote_prefix(*name, end) : NULL;

	*name = end ? end + 2 : *name;
	return source;
}

static bool is_from(Dwarf_Die *die, const char *source)
{
	const char *decl = dwarf_die_decl_file(die, NULL), *unit;
	Dwarf_Die own;

	unit = dwarf_diecu(die, &own, NULL, NULL) ? dwarf_diename(&own) : NULL;
	return (decl && locate_path_fit(decl, source)) || (unit && locate_path_fit(unit, source));
}

/* Whether two names are one but for spaces: "f(int)::x" is not "f(long)::x", which locate_name_fit() says. */
static bool is_literally(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, " ");
		b += strspn(b, " ");
		if (*a != *b)
			return false;
		if (!*a)
			return true;
	}
}

/* Whether @wanted has parameters, and @full ends in all of it. */
static bool ends_literally(const char *full, const char *wanted)
{
	if (!strchr(wanted, '('))
		return false;
	for (; full; full = strstr(full, "::")) {
		full += strncmp(full, "::", 2) == 0 ? 2 : 0;
		if (is_literally(full, wanted))
			return true;
	}
	return false;
}

static unsigned int rank_of(const struct type_search *s, Dwarf_Die *die, const char *scope, bool near)
{
	const char *wanted = s->name, *name = dwarf_diename(die);
	int keyword = cut_keyword(&wanted), tag = dwarf_tag(die);
	scoped(freep) char *source = cut_source(&wanted);
	char full[NAME_MAX_LEN];
	unsigned int rank = RANK_ANY;
	enum name_fit fit;

	cut_frame_scope(&wanted);
	if (!name || !is_kind(tag, keyword) || (source && !is_from(die, source)))
		return 0;
	fit = tag == DW_TAG_base_type && is_same_number(name, wanted) ? FIT_EXACT
								      : locate_name_fit(scope, name, wanted);
	if (fit == FIT_NONE)
		return 0;
	snprintf(full, sizeof(full), "%s%s%s", scope ? scope : "", scope ? "::" : "", name);
	if (ends_literally(full, wanted))
		rank |= RANK_LITERAL;
	/* In C "conn" is not "struct conn", but for want of another it will do. */
	if (keyword || tag == DW_TAG_typedef || tag == DW_TAG_base_type)
		rank |= RANK_PLAIN;
	if (!dwarf_hasattr(die, DW_AT_declaration))
		rank |= RANK_WHOLE;
	return rank | (near ? RANK_NEAR : 0) | (fit == FIT_EXACT ? RANK_EXACT : 0);
}

/* Whether @die can be meant, in whatever scope: one of the two names is the end of the other. */
static bool may_be_meant(const struct type_search *s, Dwarf_Die *die)
{
	const char *whole = s->name, *end = dwarf_diename(die);

	cut_keyword(&whole);
	return end && (dwarf_tag(die) == DW_TAG_base_type || locate_name_fit(NULL, whole, end) ||
		       locate_name_fit(NULL, end, whole));
}

static bool is_declared_alike(const struct dtype *a, const struct dtype *b)
{
	struct dtype x = *a, y = *b;
	const char *one = dwarf_die_decl_file(&x.die, NULL), *other = dwarf_die_decl_file(&y.die, NULL);
	int line = 0, other_line = 0;

	if (!one || !other)
		return !one && !other;
	dwarf_decl_line(&x.die, &line);
	dwarf_decl_line(&y.die, &other_line);
	return line == other_line && strcmp(one, other) == 0;
}

bool dtype_is_same(const struct dtype *a, const struct dtype *b)
{
	struct dtype x = *a, y = *b;
	scoped(freep) char *scope = NULL, *other = NULL;
	const char *name, *other_name;

	if (x.die.addr == y.die.addr)
		return true;
	name = dwarf_diename(&x.die);
	other_name = dwarf_diename(&y.die);
	if (!name || !other_name || strcmp(name, other_name) != 0 || dtype_size(a) != dtype_size(b))
		return false;
	scope = locate_scope_around(&x.die);
	other = locate_scope_around(&y.die);
	return scope && other && strcmp(scope, other) == 0;
}

static void drop_hits(struct type_search *s)
{
	for (size_t i = 0; i < s->nhits; i++)
		free(s->hit[i].name);
	s->nhits = 0;
}

void type_search_deinit(struct type_search *s)
{
	drop_hits(s);
	free(s->hit);
	s->hit = NULL;
	s->cap = 0;
}

static bool is_known(const struct type_search *s, const struct dtype *t, const char *name)
{
	for (size_t i = 0; i < s->nhits; i++)
		if (dtype_size(t) == dtype_size(&s->hit[i].type) && strcmp(name, s->hit[i].name) == 0 &&
		    is_declared_alike(t, &s->hit[i].type))
			return true;
	return false;
}

static void consider(struct type_search *s, struct locate_index *x, Dwarf_Die *die, const char *scope,
		     unsigned int rank)
{
	const struct dwarf_language *l = dwarf_die_language(die);
	struct type_hit h = { .type = { .index = x, .known = true, .die = *die } };

	if (rank > s->rank)
		drop_hits(s);
	if (rank < s->rank || s->nhits == HITS_MAX)
		return;
	s->rank = rank;
	h.type.language = l ? l : s->nhits ? s->hit[0].type.language : NULL;
	if (asprintf(&h.name, "%s%s%s", scope, *scope ? "::" : "", dwarf_diename(die)) < 0) {
		s->no_memory = true;
		return;
	}
	if (is_known(s, &h.type, h.name)) {
		free(h.name);
	} else if (!vec_push(s->hit, s->nhits, s->cap, h)) {
		s->no_memory = true;
		free(h.name);
	}
}

/* The scopes around a type: a list from the inside out; the unit has no entry. */
struct scope {
	const struct scope *outer;
	Dwarf_Die *die; /* NULL: the unit */
	enum types_of what;
	bool near;
};

static bool locate_type_find_append(char name[NAME_MAX_LEN], const char *part)
{
	size_t len = strlen(name);

	return (size_t)snprintf(name + len, NAME_MAX_LEN - len, "%s%s", len ? "::" : "", part) <
	       NAME_MAX_LEN - len;
}

/* "ns::f<int>(int)" of a function that has a linkage name; NULL: none, or no memory. */
static char *function_name(Dwarf_Die *die)
{
	const char *linkage = dwarf_die_linkage_name(die), *at;
	scoped(freep) char *bare = linkage ? demangle_bare(linkage) : NULL;
	scoped(freep) char *whole = bare ? demangle(linkage) : NULL;

	/* Before it stands the type that a function template returns. */
	at = whole ? strstr(whole, bare) : NULL;
	return at ? strdup(at) : NULL;
}

/* Where the function @die was declared: in a namespace or a class, which its definition is not. */
static Dwarf_Die declaration_of(const Dwarf_Die *die)
{
	static const unsigned int links[] = { DW_AT_abstract_origin, DW_AT_specification };
	Dwarf_Attribute mem;
	Dwarf_Die at = *die, next;

	for (size_t i = 0; i < 2; i++)
		if (dwarf_formref_die(dwarf_attr(&at, links[i], &mem), &next))
			at = next;
	return at;
}

static bool append_part(Dwarf_Die *die, bool plain, char text[NAME_MAX_LEN])
{
	const char *part = dwarf_tag(die) == DW_TAG_subprogram ? dwarf_diename(die) : locate_scope_part(die);

	return !part || (plain && dwarf_hasattr(die, DW_AT_export_symbols)) ||
	       locate_type_find_append(text, part);
}

/* The scopes around the entry @declaration. */
static bool declared_scope(Dwarf_Die *declaration, bool plain, char text[NAME_MAX_LEN])
{
	scoped(freep) void *scopes = NULL;
	Dwarf_Die *v = NULL;
	int n = dwarf_getscopes_die(declaration, &v);
	bool fits = true;

	scopes = v;
	for (int i = n - 2; i > 0 && fits; i--)
		fits = append_part(&v[i], plain, text);
	return fits;
}

/* The text of @s, without the inline namespaces if @plain. False: it is too long. */
static bool scope_text(const struct scope *s, bool plain, char text[NAME_MAX_LEN])
{
	scoped(freep) char *function = NULL;
	Dwarf_Die declaration;

	*text = '\0';
	if (!s->die)
		return true;
	if (dwarf_tag(s->die) == DW_TAG_subprogram) {
		function = plain ? NULL : function_name(s->die);
		if (function)
			return locate_type_find_append(text, function);
		declaration = declaration_of(s->die);
		if (declaration.addr != s->die->addr)
			return declared_scope(&declaration, plain, text) && append_part(s->die, plain, text);
	}
	return scope_text(s->outer, plain, text) && append_part(s->die, plain, text);
}

/* Of the type @die, whose definition may be outside of what it was declared in: in units of types. */
static bool scope_of_type(const struct scope *s, Dwarf_Die *die, bool plain, char text[NAME_MAX_LEN])
{
	Dwarf_Die declaration;
	Dwarf_Attribute mem;

	*text = '\0';
	if (dwarf_formref_die(dwarf_attr(die, DW_AT_specification, &mem), &declaration))
		return declared_scope(&declaration, plain, text);
	return scope_text(s, plain, text);
}

/* Whether types below @die are looked at. */
static bool is_entered(const struct scope *outer, Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	if (outer->what == TYPES_OUTER)
		return locate_scope_part(die);
	/* A lambda is a class without a name. */
	return tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block || tag == DW_TAG_namespace ||
	       tag == DW_TAG_module || dtype_is_aggregate_tag(tag);
}

static void search_inside(struct type_search *s, struct locate_index *x, Dwarf_Die *parent,
			  const struct scope *scope, unsigned int depth);

static void look_at(struct type_search *s, struct locate_index *x, Dwarf_Die *die, const struct scope *scope)
{
	char full[NAME_MAX_LEN], plain[NAME_MAX_LEN];
	unsigned int rank;

	if (!is_type_tag(dwarf_tag(die)) || !may_be_meant(s, die) ||
	    !scope_of_type(scope, die, false, full) || !scope_of_type(scope, die, true, plain))
		return;
	rank = rank_of(s, die, *full ? full : NULL, scope->near);
	if (!rank && strcmp(full, plain) != 0)
		rank = rank_of(s, die, *plain ? plain : NULL, scope->near);
	if (rank)
		consider(s, x, die, full, rank);
}

static void search_inside(struct type_search *s, struct locate_index *x, Dwarf_Die *parent,
			  const struct scope *scope, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		struct scope inner = { scope, &die, scope->what, scope->near };

		look_at(s, x, &die, scope);
		if (is_entered(scope, &die))
			search_inside(s, x, &die, &inner, depth + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static bool is_in_unit(const Dwarf_Die *near, Dwarf_Die *unit)
{
	Dwarf_Die copy, own;

	if (!near)
		return false;
	copy = *near;
	return dwarf_diecu(&copy, &own, NULL, NULL) && own.addr == unit->addr;
}

/* -fdebug-types-section of DWARF 4: a section that dwarf_get_units() leaves out. */
static void search_types_section(struct type_search *s, struct locate_index *x, Dwarf *dwarf,
				 enum types_of what)
{
	Dwarf_Off at = 0, next, abbrev, type;
	uint8_t address_size, offset_size;
	uint64_t signature;
	Dwarf_Half version;
	size_t header;
	Dwarf_Die unit;

	while (dwarf_next_unit(dwarf, at, &next, &header, &version, &abbrev, &address_size, &offset_size,
			       &signature, &type) == 0) {
		if (dwarf_offdie_types(dwarf, at + header, &unit))
			search_inside(s, x, &unit, &(struct scope){ .what = what }, 0);
		at = next;
	}
}

void type_search_file(struct type_search *s, struct locate_index *x, enum types_of what)
{
	Dwarf_Die unit, split, *die;
	Dwarf_CU *cu = NULL;
	Dwarf_Half version;
	uint64_t bias;
	uint8_t type;
	Dwarf *dwarf = locate_index_dwarf(x, &bias);

	/* Partial units too: dwz moves shared types there. */
	while (dwarf && dwarf_get_units(dwarf, cu, &cu, &version, &type, &unit, &split) == 0) {
		die = split.addr ? &split : &unit;
		search_inside(s, x, die, &(struct scope){ .what = what, .near = is_in_unit(s->near, die) },
			      0);
	}
	if (dwarf)
		search_types_section(s, x, dwarf, what);
}

/* Ways to write a hit */

/* "ns::f(int)::local" -> "ns::f::local". NULL: no memory. */
static char *without_parameters(const char *name)
{
	char *copy = strdup(name), *to = copy;

	while (copy && *name) {
		const char *end = strncmp(name, "()", 2) ? locate_skip_parameters(name) : NULL;

		if (end)
			name = end;
		else
			*to++ = *name++;
	}
	if (copy)
		*to = '\0';
	return copy;
}

static bool is_only_one(const struct type_search *s, size_t wanted, const char *source, const char *name)
{
	for (size_t i = 0; i < s->nhits; i++) {
		Dwarf_Die die = s->hit[i].type.die;
		bool fits = (!source || is_from(&die, source)) &&
			    (strchr(name, '(') ? is_literally(s->hit[i].name, name)
					       : locate_name_fit(NULL, s->hit[i].name, name) == FIT_EXACT);

		if (fits != (i == wanted))
			return false;
	}
	return true;
}

static char *print_form(const struct type_search *s, const char *source, const char *name)
{
	const char *behind = s->name;
	scoped(freep) char *text = NULL;

	cut_keyword(&behind);
	if (asprintf(&text, "%.*s%s%s%s", (int)(behind - s->name), s->name, source ? source : "",
		     source ? "::" : "", name) < 0) {
		text = NULL;
		return NULL;
	}
	return locate_quote_type(text);
}

char *type_search_form(const struct type_search *s, size_t i)
{
	scoped(freep) char *bare = without_parameters(s->hit[i].name);
	const char *names[] = { bare, s->hit[i].name };
	Dwarf_Die die = s->hit[i].type.die;
	const char *path = dwarf_die_decl_file(&die, NULL), *source;

	for (size_t k = 0; k < 2 && bare; k++) {
		if (is_only_one(s, i, NULL, names[k]))
			return print_form(s, NULL, names[k]);
		for (source = NULL; path && (source = locate_longer_end(path, source));)
			if (locate_scope_end(source) == NULL && is_only_one(s, i, source, names[k]))
				return print_form(s, source, names[k]);
	}
	return NULL;
}
