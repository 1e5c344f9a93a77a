#include "watchctl/view/event/step_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/trace/rows/event_copy.h"

#define TEXT_MAX 4096 /* of a name made up */

/* A function with what it points to, and behind that its text. */
struct kept_function {
	struct view_function view;
	uint64_t behind[];
};

/* @m takes @v, in @block, which @t owns from now on. */
static bool step_types_keep(struct step_types *t, struct map64 *m, uint32_t id, void *block, void *v)
{
	if (!vec_push(t->block, t->nblocks, t->blocks_cap, block)) {
		free(block);
		return false;
	}
	return map64_put(m, id, v);
}

bool step_types_add(struct step_types *t, const struct type_event *e)
{
	const struct trace_event event = { .type = EVENT_TYPE, .type_info = *e };
	struct trace_event *kept = event_dup(&event);

	return kept && step_types_keep(t, &t->types, e->id, kept, &kept->type_info);
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

/* A compiler's pass knows linkage names alone. Names in debug information are never mangled. */
static bool is_linkage_name(const struct function_event *e)
{
	return e->name &&
	       (e->flags & FUNCTION_NO_TYPES || !strncmp(e->name, "_Z", 2) || !strncmp(e->name, "_R", 2));
}

bool step_types_add_function(struct step_types *t, const struct function_event *e)
{
	scoped(freep) char *plain = is_linkage_name(e) ? demangle(e->name) : NULL;
	struct trace_event event = { .type = EVENT_FUNCTION, .function = *e };
	struct trace_event copy;
	struct kept_function *f;
	char text[TEXT_MAX], *behind;
	size_t size, len;

	if (plain)
		event.function.name = plain;
	size = event_copy_size(&event);
	make_text(&event.function, text, sizeof(text));
	len = strlen(text) + 1;
	f = malloc(sizeof(*f) + size + len);
	if (!f)
		return false;
	event_copy(&event, &copy, f->behind);
	behind = memcpy((char *)f->behind + size, text, len);
	f->view = (struct view_function){ .e = copy.function, .text = behind };
	return step_types_keep(t, &t->functions, e->id, f, &f->view);
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
