#include "calltrace/config/filters.h"

#include <fnmatch.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/words/similar.h"

/* Keys of a rule */

enum test { NAMES_RULE, CAPTURES, GLOB, REGEX, LESS, MORE };

enum subject { NO_SUBJECT, NAME, LINKAGE_NAME, SOURCE_FILE, INSNS };

static const struct key {
	const char *name;
	enum test test;
	enum subject subject;
} keys[] = {
	{ "rule_name", NAMES_RULE, NO_SUBJECT },
	{ "capture", CAPTURES, NO_SUBJECT },
	{ "function", GLOB, NAME },
	{ "linkage_name", GLOB, LINKAGE_NAME },
	{ "file", GLOB, SOURCE_FILE },
	{ "instructions_lt", LESS, INSNS },
	{ "instructions_gt", MORE, INSNS },
	/* Spoor's */
	{ "function_demangled_name", REGEX, NAME },
	{ "function_linkage_name", REGEX, LINKAGE_NAME },
	{ "source_file_path", REGEX, SOURCE_FILE },
	{ "function_ir_instruction_count_lt", LESS, INSNS },
	{ "function_ir_instruction_count_gt", MORE, INSNS },
};

#define KEYS (sizeof(keys) / sizeof(*keys))

struct condition {
	const struct key *key;
	char *glob;
	regex_t regex;
	int64_t bound;
};

struct rule {
	bool allows;
	char *text; /* "[[block]] small ones" */
	struct capture capture;
	struct condition *condition;
	size_t n;
};

struct filters {
	struct rule *rule;
	size_t n;
};

/* Matching */

/* The name in a demangled one: "app::f<int>" of "int app::f<int>(int) const". */
struct span {
	size_t from, to;
};

static struct span find_name(const char *text)
{
	struct span ret = { 0 };
	int depth = 0;
	size_t i;

	for (i = 0; text[i]; i++) {
		if (!strncmp(text + i, "(anonymous", 10))
			i += strcspn(text + i, ")");
		else if (!depth && !strncmp(text + i, "operator", 8))
			i += 7 + strcspn(text + i + 8, "(") + (strncmp(text + i + 8, "()", 2) ? 0 : 2);
		else if (text[i] == '<')
			depth++;
		else if (text[i] == '>' && depth)
			depth--;
		else if (!depth && text[i] == ' ')
			ret.from = i + 1;
		else if (!depth && i && text[i] == '(')
			break;
	}
	ret.to = i;
	return ret;
}

static bool glob_matches(const char *glob, const char *text, bool is_demangled)
{
	scoped(freep) char *name = NULL;
	struct span at;

	if (!fnmatch(glob, text, 0))
		return true;
	if (!is_demangled)
		return false;
	at = find_name(text);
	name = strndup(text + at.from, at.to - at.from);
	return name && !fnmatch(glob, name, 0);
}

static bool condition_is_met(const struct condition *c, const struct filter_subject *s)
{
	const char *text = c->key->subject == NAME	     ? s->name
			   : c->key->subject == LINKAGE_NAME ? s->linkage_name
							     : s->file;

	switch (c->key->test) {
	case GLOB:
		return glob_matches(c->glob, text, c->key->subject == NAME);
	case REGEX:
		return !regexec(&c->regex, text, 0, NULL, 0);
	case LESS:
		return s->insns < c->bound;
	case MORE:
		return s->insns > c->bound;
	case NAMES_RULE:
	case CAPTURES:
		break;
	}
	return true;
}

static bool rule_matches(const struct rule *r, const struct filter_subject *s)
{
	bool is_asked[KEYS] = { 0 }, is_met[KEYS] = { 0 };
	size_t i;

	for (i = 0; i < r->n; i++) {
		const size_t key = (size_t)(r->condition[i].key - keys);

		is_asked[key] = true;
		is_met[key] = is_met[key] || condition_is_met(&r->condition[i], s);
	}
	return !memcmp(is_asked, is_met, sizeof(is_asked));
}

bool filters_capture(const struct filters *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->rule[i].capture.kind)
			return true;
	return false;
}

/* The first of those that allow, or block; of those that capture something, if @captures. */
static const struct rule *matching(const struct filters *f, bool allows, bool captures,
				   const struct filter_subject *s)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		if (f->rule[i].allows == allows && (!captures || f->rule[i].capture.kind) &&
		    rule_matches(&f->rule[i], s))
			return &f->rule[i];
	return NULL;
}

bool filters_choose(const struct filters *f, const struct filter_subject *s, const char **rule,
		    const struct capture **capture)
{
	const struct rule *r = f ? matching(f, true, false, s) : NULL, *captures = NULL;

	if (r)
		captures = matching(f, true, true, s);
	else if (f)
		r = matching(f, false, false, s);
	*rule = r ? r->text : NULL;
	*capture = captures ? &captures->capture : NULL;
	return !r || r->allows;
}

bool capture_has(const struct capture *c, const char *name, bool is_pointer)
{
	size_t i;

	for (i = 0; i < c->n; i++)
		if (!strcmp(c->name[i].name, name))
			return true;
	return c->kind == CAPTURE_ALL || (c->kind == CAPTURE_SCALARS && !is_pointer);
}

enum capture_memory capture_memory_of(const struct capture *c, const char *name, uint32_t *bytes)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		if (!c->name[i].memory || strcmp(c->name[i].name, name) != 0)
			continue;
		*bytes = c->name[i].bytes;
		return c->name[i].memory;
	}
	return CAPTURE_NO_MEMORY;
}

/* Reading */

/* Takes what @v says, which is not its rule's name. */
static struct wc_error *set_condition(struct condition *c, const struct toml *t, const struct toml_value *v)
{
	const bool is_number = c->key->test == LESS || c->key->test == MORE;
	scoped(freep) char *whole = NULL;
	char why[256], text[320];
	int code;

	if (is_number && (v->type != TOML_INTEGER || v->number < 0))
		return toml_error(t, v, "a number of instructions must be here, 0 or more");
	if (!is_number && v->type != TOML_STRING)
		return toml_error(t, v, "a text in quotes must be here, or a list of them");
	if (!is_number && strlen(v->string) != v->len)
		return toml_error(t, v, "a name has no NUL in it");
	if (is_number)
		c->bound = v->number;
	else if (c->key->test == GLOB)
		c->glob = strdup(v->string);
	else if (asprintf(&whole, "^(%s)$", v->string) < 0)
		whole = NULL;
	if (is_number)
		return NULL;
	if (!c->glob && !whole)
		return &wc_enomem;
	code = whole ? regcomp(&c->regex, whole, REG_EXTENDED | REG_NOSUB) : 0;
	if (!code)
		return NULL;
	regerror(code, NULL, why, sizeof(why));
	c->key = &keys[0]; /* nothing is to be freed */
	snprintf(text, sizeof(text), "this is no regular expression: %s", why);
	return toml_error(t, v, text);
}

static const struct key *find_key(const char *name)
{
	size_t i;

	for (i = 0; i < KEYS; i++)
		if (!strcmp(keys[i].name, name))
			return &keys[i];
	return NULL;
}

static struct wc_error *unknown_key(const struct toml *t, const struct toml_value *v)
{
	struct similar near;
	char list[160], text[320];
	size_t i;

	similar_init(&near, v->key, strlen(v->key));
	for (i = 0; i < KEYS; i++)
		similar_offer(&near, keys[i].name);
	if (similar_list(&near, list, sizeof(list)))
		snprintf(text, sizeof(text), "a rule has no %s: did you mean %s?", v->key, list);
	else
		snprintf(text, sizeof(text),
			 "a rule has no %s, but function, linkage_name, file, instructions_lt, "
			 "instructions_gt, capture and rule_name",
			 v->key);
	return toml_error(t, v, text);
}

static struct wc_error *name_rule(struct rule *r, const struct toml *t, const struct toml_value *v)
{
	char *text;

	if (v->type != TOML_STRING)
		return toml_error(t, v, "a text in quotes must be here");
	if (asprintf(&text, "[[%s]] %s", v->table, v->string) < 0)
		return &wc_enomem;
	free(r->text);
	r->text = text;
	return NULL;
}

static struct wc_error *wrong_memory(const struct toml *t, const struct toml_value *v)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "what a pointer points to is \"*NAME\", \"*NAME:str\" or \"*NAME:BYTES\", 1 to %u bytes",
		 CAPTURE_BYTES_MAX);
	return toml_error(t, v, text);
}

/* "len", "*node", "*name:str" or "*buf:64". Its name is the caller's, even if it fails. */
static struct wc_error *read_name(const struct toml *t, const struct toml_value *v, struct capture_name *ret)
{
	const char *name = v->string + (*v->string == '*'), *how = name + strcspn(name, "*:");
	const size_t digits = *how ? strspn(how + 1, "0123456789") : 0;

	*ret = (struct capture_name){ .memory = *v->string == '*' ? CAPTURE_TYPE : CAPTURE_NO_MEMORY };
	if (how == name || *how == '*' || (*how && !ret->memory))
		return wrong_memory(t, v);
	if (!strcmp(how, ":str")) {
		ret->memory = CAPTURE_STRING;
	} else if (*how) {
		if (!digits || digits > 4 || how[1 + digits])
			return wrong_memory(t, v);
		ret->memory = CAPTURE_BYTES;
		ret->bytes = (uint32_t)strtoul(how + 1, NULL, 10);
		if (!ret->bytes || ret->bytes > CAPTURE_BYTES_MAX)
			return wrong_memory(t, v);
	}
	ret->name = strndup(name, (size_t)(how - name));
	return ret->name ? NULL : &wc_enomem;
}

/* "scalars" or "all" alone, or names. A list has one value each time. */
static struct wc_error *add_capture(struct rule *r, const struct toml *t, const struct toml_value *v)
{
	struct capture *c = &r->capture;
	struct capture_name *more, name;
	struct wc_error *err;

	if (!r->allows)
		return toml_error(
			t, v,
			"values are recorded of functions that are traced: capture belongs to [[allow]]");
	if (v->type != TOML_STRING || strlen(v->string) != v->len || !*v->string)
		return toml_error(t, v, "\"scalars\", \"all\" or a list of parameters must be here");
	if (!v->is_of_list) {
		c->kind = !strcmp(v->string, "scalars") ? CAPTURE_SCALARS
			  : !strcmp(v->string, "all")	? CAPTURE_ALL
							: CAPTURE_NOTHING;
		return c->kind ? NULL
			       : toml_error(
					 t, v,
					 "\"scalars\", \"all\" or a list of parameters must be here: [\"len\", "
					 "\"return\"]");
	}
	err = read_name(t, v, &name);
	if (err)
		return err;
	more = reallocarray(c->name, c->n + 1, sizeof(*more));
	if (!more) {
		free(name.name);
		return &wc_enomem;
	}
	c->name = more;
	c->name[c->n++] = name;
	c->kind = CAPTURE_NAMES;
	return NULL;
}

static struct wc_error *add_condition(struct rule *r, const struct toml *t, const struct toml_value *v)
{
	const struct key *key = find_key(v->key);
	struct condition *more;
	struct wc_error *err;

	if (!key)
		return unknown_key(t, v);
	if (key->test == NAMES_RULE)
		return name_rule(r, t, v);
	if (key->test == CAPTURES)
		return add_capture(r, t, v);
	more = reallocarray(r->condition, r->n + 1, sizeof(*more));
	if (!more)
		return &wc_enomem;
	r->condition = more;
	r->condition[r->n] = (struct condition){ .key = key };
	err = set_condition(&r->condition[r->n], t, v);
	r->n++;
	return err;
}

static struct wc_error *add_rule(struct filters *f, const struct toml_value *v)
{
	struct rule *more = reallocarray(f->rule, f->n + 1, sizeof(*more)), *r;

	if (!more)
		return &wc_enomem;
	f->rule = more;
	r = &f->rule[f->n++];
	*r = (struct rule){ .allows = !strcmp(v->table, "allow") };
	if (asprintf(&r->text, "[[%s]] number %u", v->table, v->index + 1) < 0) {
		r->text = NULL;
		return &wc_enomem;
	}
	return NULL;
}

static bool is_rules(const char *name)
{
	return !strcmp(name, "block") || !strcmp(name, "allow");
}

struct wc_error *filters_new(const struct toml *t, struct filters **ret)
{
	struct filters *f = calloc(1, sizeof(*f));
	struct wc_error *err = f ? NULL : &wc_enomem;
	size_t i;

	for (i = 0; i < t->n && !err; i++) {
		const struct toml_value *v = &t->value[i];

		if (is_rules(v->table) && !v->key)
			err = add_rule(f, v);
		else if (is_rules(v->table) && f->n)
			err = add_condition(&f->rule[f->n - 1], t, v);
		else if (v->key && !*v->table && is_rules(v->key))
			err = toml_error(t, v, "rules are [[block]] and [[allow]], in two brackets");
	}
	if (err) {
		filters_free(f);
		f = NULL;
	}
	*ret = f;
	return err;
}

static void rule_deinit(struct rule *r)
{
	size_t i;

	for (i = 0; i < r->n; i++) {
		free(r->condition[i].glob);
		if (r->condition[i].key->test == REGEX)
			regfree(&r->condition[i].regex);
	}
	for (i = 0; i < r->capture.n; i++)
		free(r->capture.name[i].name);
	free(r->capture.name);
	free(r->condition);
	free(r->text);
}

void filters_free(struct filters *f)
{
	size_t i;

	for (i = 0; f && i < f->n; i++)
		rule_deinit(&f->rule[i]);
	if (f)
		free(f->rule);
	free(f);
}
