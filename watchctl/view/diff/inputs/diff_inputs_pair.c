#include "watchctl/view/diff/inputs/diff_inputs_impl.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

/* What the user changed */

/* A pipe's and a socket's name has a number that is another one in each run. */
static bool is_numbered(const char *name)
{
	return !strncmp(name, "pipe:[", 6) || !strncmp(name, "socket:[", 8) ||
	       !strncmp(name, "anon_inode:", 11);
}

/* The text behind @s in a list that ends at @end; NULL: there is none. */
static const char *next_of(const uint8_t *list, size_t len, const char *s)
{
	if (!list)
		return NULL;
	s = s ? s + strlen(s) + 1 : (const char *)list;
	return s < (const char *)list + len ? s : NULL;
}

static bool add_change(struct diff_input_result *r, const char *what, size_t index, const char *a,
		       const char *b)
{
	struct diff_change c = { what, index, a, b };

	return vec_push(r->change, r->nchanges, r->changes_cap, c);
}

static bool compare_arguments(const struct diff_inputs *a, const struct diff_inputs *b,
			      struct diff_input_result *r)
{
	const char *x = NULL, *y = NULL;
	bool more_x = true, more_y = true;
	size_t i;

	for (i = 0; more_x || more_y; i++) {
		x = more_x ? next_of(a->arguments, a->arguments_len, x) : NULL;
		y = more_y ? next_of(b->arguments, b->arguments_len, y) : NULL;
		more_x = x;
		more_y = y;
		if ((x || y) && (!x || !y || strcmp(x, y) != 0) && !add_change(r, "argument", i, x, y))
			return false;
	}
	return true;
}

/* "NAME=value" of the same name; NULL. */
static const char *variable(const struct diff_inputs *in, const char *like)
{
	size_t n = strcspn(like, "=");
	const char *s = NULL;

	while ((s = next_of(in->environment, in->environment_len, s)))
		if (strcspn(s, "=") == n && !memcmp(s, like, n))
			return s;
	return NULL;
}

/* "_" is the path of the program, or of who started it: the shell's doing. */
static bool is_shells(const char *s)
{
	return !strncmp(s, "_=", 2);
}

static bool compare_environment(const struct diff_inputs *a, const struct diff_inputs *b,
				struct diff_input_result *r)
{
	const char *s = NULL, *other;

	while ((s = next_of(a->environment, a->environment_len, s))) {
		other = variable(b, s);
		if (!is_shells(s) && (!other || strcmp(s, other) != 0) &&
		    !add_change(r, "variable", 0, s, other))
			return false;
	}
	while ((s = next_of(b->environment, b->environment_len, s)))
		if (!is_shells(s) && !variable(a, s) && !add_change(r, "variable", 0, NULL, s))
			return false;
	return true;
}

bool diff_inputs_start(const struct diff_inputs *a, const struct diff_inputs *b, struct diff_input_result *r)
{
	if (a->directory && b->directory && strcmp(a->directory, b->directory) != 0 &&
	    !add_change(r, "directory", 0, a->directory, b->directory))
		return false;
	if (a->withheld || b->withheld)
		return true;
	return (!a->arguments || !b->arguments || compare_arguments(a, b, r)) &&
	       (!a->environment || !b->environment || compare_environment(a, b, r));
}

/* Which sources belong together */

/* Behind the directory and its slash; @name: it lies elsewhere. */
static const char *below(const char *name, const char *directory)
{
	size_t n = directory ? strlen(directory) : 0;

	return n > 1 && !strncmp(name, directory, n) && name[n] == '/' ? name + n + 1 : name;
}

/* The path ends with the argument, or begins with it and goes on below it. */
static bool is_named(const char *name, const char *arg)
{
	size_t n = strlen(name), m;

	while (!strncmp(arg, "./", 2))
		arg += 2;
	m = strlen(arg);
	if (!m || m > n)
		return false;
	if (!strcmp(name + n - m, arg) && (n == m || name[n - m - 1] == '/' || arg[0] == '/'))
		return true;
	return !strncmp(name, arg, m) && name[m] == '/';
}

/*
 * Files that only one run has the name of are the same if that name is an argument which the user changed, or lie in a
 * directory that he changed.
 */
static uint64_t identity_of(const struct diff_inputs *in, const struct diff_source *s,
			    const struct diff_input_result *r, bool is_a)
{
	const char *name = below(s->name, in->directory);
	uint64_t id = hash_bytes(HASH_START, &s->kind, sizeof(s->kind));
	size_t k;

	for (k = 0; k < r->nchanges; k++) {
		const struct diff_change *c = &r->change[k];
		const char *arg = is_a ? c->a : c->b;

		if (!strcmp(c->what, "argument") && arg && is_named(s->name, arg))
			return hash_bytes(hash_text(id, "argument"), &c->index, sizeof(c->index));
	}
	if (is_numbered(name))
		return hash_bytes(hash_bytes(id, name, 4), &s->fd, sizeof(s->fd));
	return hash_text(id, name);
}

bool diff_inputs_identify(struct diff_inputs *in, const struct diff_input_result *r, bool is_a)
{
	struct map64 seen = { 0 };
	bool ok = true;
	size_t i;

	for (i = 0; ok && i < in->n; i++) {
		struct diff_source *s = &in->source[i];
		uint64_t id = identity_of(in, s, r, is_a);
		/* The second pipe of this descriptor, or file of this argument, is another one. */
		uintptr_t before = (uintptr_t)map64_get(&seen, id);

		s->has_mate = false;
		s->identity = hash_bytes(id, &before, sizeof(before));
		ok = map64_put(&seen, id, (void *)(before + 1));
	}
	map64_deinit(&seen);
	return ok;
}

struct diff_source *diff_inputs_mate(struct diff_inputs *in, const struct diff_source *s)
{
	size_t i;

	for (i = 0; i < in->n; i++)
		if (!in->source[i].has_mate && in->source[i].identity == s->identity)
			return &in->source[i];
	return NULL;
}

/* Nobody has named them: the first of each descriptor, like another file at the standard input. */
struct diff_source *diff_inputs_likely_mate(struct diff_inputs *in, const struct diff_source *s)
{
	bool reads = s->kind == INPUT_FILE || s->kind == INPUT_STREAM || s->kind == INPUT_MAP;
	size_t i;

	for (i = 0; reads && i < in->n; i++) {
		struct diff_source *o = &in->source[i];

		if (!o->has_mate && o->fd == s->fd &&
		    (o->kind == s->kind || (o->kind != INPUT_MAP && s->kind != INPUT_MAP &&
					    (o->kind == INPUT_FILE || o->kind == INPUT_STREAM))))
			return o;
	}
	return NULL;
}
