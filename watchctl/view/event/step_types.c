#include "watchctl/view/event/step_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

#define TEXT_MAX 4096 /* of a name made up */

/* A copy is one block: the struct, its arrays, its texts. This walks over it, twice: to measure, to fill. */
struct block {
	char *at; /* NULL: measuring */
	size_t len;
};

static void *step_types_take(struct block *b, const void *from, size_t n)
{
	void *to = b->at ? b->at + b->len : NULL;

	if (to && n)
		memcpy(to, from, n);
	b->len += (n + 7) & ~(size_t)7;
	return to;
}

static const char *take_text(struct block *b, const char *s)
{
	return s ? step_types_take(b, s, strlen(s) + 1) : NULL;
}

static struct type_event *copy_type(struct block *b, const struct type_event *e)
{
	struct type_event *t = step_types_take(b, e, sizeof(*e));
	struct type_member *members = step_types_take(b, e->member, e->nmembers * sizeof(*e->member));
	struct enumerator *enumerators =
		step_types_take(b, e->enumerator, e->nenumerators * sizeof(*e->enumerator));
	const char *name = take_text(b, e->name), *text;
	uint32_t i;

	for (i = 0; i < e->nmembers; i++) {
		text = take_text(b, e->member[i].name);
		if (members)
			members[i].name = text ? text : "";
	}
	for (i = 0; i < e->nenumerators; i++) {
		text = take_text(b, e->enumerator[i].name);
		if (enumerators)
			enumerators[i].name = (char *)text;
	}
	if (!t)
		return NULL;
	t->name = name;
	t->member = e->nmembers ? members : NULL;
	t->enumerator = e->nenumerators ? enumerators : NULL;
	return t;
}

static struct view_function *copy_function(struct block *b, const struct view_function *from)
{
	const struct function_event *e = &from->e;
	struct view_function *f = step_types_take(b, from, sizeof(*from));
	struct function_param *params = step_types_take(b, e->param, e->nparams * sizeof(*e->param));
	const uint8_t *build_id = step_types_take(b, e->build_id, e->build_id_len);
	const char *name = take_text(b, e->name), *module = take_text(b, e->module),
		   *file = take_text(b, e->file), *text = take_text(b, from->text);
	uint32_t i;

	for (i = 0; i < e->nparams; i++) {
		const char *param = take_text(b, e->param[i].name);

		if (params)
			params[i].name = param;
	}
	if (!f)
		return NULL;
	f->e.name = name;
	f->e.module = module;
	f->e.file = file;
	f->e.build_id = e->build_id_len ? build_id : NULL;
	f->e.param = e->nparams ? params : NULL;
	f->text = text;
	return f;
}

/* @m takes @v, whose block @t owns from now on. */
static bool step_types_keep(struct step_types *t, struct map64 *m, uint32_t id, void *v)
{
	if (!vec_push(t->block, t->nblocks, t->blocks_cap, v)) {
		free(v);
		return false;
	}
	return map64_put(m, id, v);
}

bool step_types_add(struct step_types *t, const struct type_event *e)
{
	struct block b = { 0 };

	copy_type(&b, e);
	b = (struct block){ .at = malloc(b.len) };
	return b.at && step_types_keep(t, &t->types, e->id, copy_type(&b, e));
}

/* What is shown where a function has no name. */
static void make_text(const struct function_event *e, char *buf, size_t cap)
{
	const char *slash = e->module ? strrchr(e->module, '/') : NULL;

	if (e->name && *e->name)
		snprintf(buf, cap, "%s", e->name);
	else if (e->module)
		snprintf(buf, cap, "%s+0x%llx", slash && slash[1] ? slash + 1 : e->module,
			 (unsigned long long)e->address);
	else if (e->address)
		snprintf(buf, cap, "0x%llx", (unsigned long long)e->address);
	else
		snprintf(buf, cap, "function %u", e->id);
}

bool step_types_add_function(struct step_types *t, const struct function_event *e)
{
	struct view_function f = { .e = *e };
	struct block b = { 0 };
	char text[TEXT_MAX];

	make_text(e, text, sizeof(text));
	f.text = text;
	copy_function(&b, &f);
	b = (struct block){ .at = malloc(b.len) };
	return b.at && step_types_keep(t, &t->functions, e->id, copy_function(&b, &f));
}

const struct type_event *step_types_get(const struct step_types *t, uint32_t id)
{
	return id == NO_TYPE ? NULL : map64_get(&t->types, id);
}

const struct view_function *step_types_function(struct step_types *t, uint32_t id)
{
	struct function_event unknown = { .id = id, .return_type = NO_TYPE };
	const struct view_function *f = map64_get(&t->functions, id);

	if (!f && step_types_add_function(t, &unknown))
		f = map64_get(&t->functions, id);
	return f;
}

static const struct type_event *step_types_find(void *ctx, uint32_t id)
{
	return step_types_get(ctx, id);
}

struct type_lookup step_types_lookup(const struct step_types *t)
{
	return (struct type_lookup){ .find = step_types_find, .ctx = (void *)t };
}

void step_types_deinit(struct step_types *t)
{
	size_t i;

	for (i = 0; i < t->nblocks; i++)
		free(t->block[i]);
	free(t->block);
	map64_deinit(&t->types);
	map64_deinit(&t->functions);
	*t = (struct step_types){ 0 };
}
