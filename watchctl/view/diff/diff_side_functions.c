#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/rows/event_copy.h"
#include "watchctl/view/diff/base/diff_hash.h"
#include "watchctl/view/diff/diff_side_impl.h"
#include "watchctl/view/diff/diff_told.h"

/* Made of where it is: users call it so where it has no name. */
static char *made_name(const struct function_event *e)
{
	const char *base = diff_base_name(e->module);
	char text[300];

	if (base && e->address)
		snprintf(text, sizeof(text), "%.255s+0x%" PRIx64, base, e->address);
	else
		snprintf(text, sizeof(text), "function %u", e->id);
	return strdup(text);
}

/* @f is zeroed; false: no memory, what there is can be freed. */
static bool copy_event(struct diff_function *f, const struct function_event *e)
{
	const struct trace_event event = { .type = EVENT_FUNCTION, .function = *e };

	f->event = event_dup(&event);
	if (!f->event)
		return false;
	f->e = f->event->function;
	f->named = e->name && *e->name;
	if (!f->named)
		f->e.name = f->made_name = made_name(e);
	return f->e.name != NULL;
}

void diff_function_deinit(struct diff_function *f)
{
	free(f->event);
	free(f->made_name);
	free(f->param);
	free(f->length);
}

/*
 * A library's function goes by its name: it may be found late, behind a stub. A function of the program goes
 * by its place too, since there may be several of one name, unless places mean nothing. A name that was made of the
 * place adds nothing to it.
 */
static uint64_t identity_of(const struct diff_function *f, bool by_name, const char *program)
{
	const bool has_place = f->e.module && f->e.address;
	uint64_t h = diff_mix_text(17, f->named || !has_place ? f->e.name : "");

	if (f->named && (f->e.flags & FUNCTION_OVER))
		return h;
	h = diff_mix(h, diff_mix_text(19, diff_module_name(f->e.module, program)));
	if (by_name && f->named)
		return diff_mix(h, diff_mix_text(23, diff_base_name(f->e.file)));
	return diff_mix(h, f->e.address);
}

bool diff_function_identity(const struct function_event *e, bool by_name, const char *program, uint64_t *ret)
{
	struct diff_function f = { .e = *e, .named = e->name && *e->name };

	if (!f.named && !(f.e.name = f.made_name = made_name(e)))
		return false;
	*ret = identity_of(&f, by_name, program);
	free(f.made_name);
	return true;
}

static bool is_called(const char *pattern, const struct diff_function *f)
{
	return pattern && diff_name_matches(pattern, strlen(pattern), f->e.name);
}

/* An int, or the like, that is a length by its name: "len", "key_length". */
static bool is_length(const struct function_param *p, const struct type_event *type)
{
	static const char *const names[] = { "len", "length", "size", "nbytes" };
	const char *end = p->name ? strrchr(p->name, '_') : NULL, *word = end ? end + 1 : p->name;
	size_t i;

	if (!word || (type->kind != TYPE_SIGNED && type->kind != TYPE_UNSIGNED))
		return false;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(word, names[i]))
			return true;
	return false;
}

/*
 * A text and a size behind it, with other texts between at most: it need not end with a NUL byte, and what
 * was recorded behind its end is somebody else's.
 */
static uint8_t length_of(const struct diff_function *f, uint32_t i)
{
	uint32_t k;

	for (k = i; k < f->e.nparams && k <= i + 2 && f->param[k]; k++) {
		const struct type_event *type = &f->param[k]->e;

		if ((type->kind == TYPE_UNSIGNED && type->size == 8) ||
		    (f->e.param && is_length(&f->e.param[k], type)))
			return k > i ? (uint8_t)(k + 1) : 0;
		if (type->kind != TYPE_STRING)
			return 0;
	}
	return 0;
}

static bool find_types(struct diff_function *f, const struct diff_canon *c)
{
	uint32_t i;

	f->result_type = diff_canon_type(c, f->e.return_type);
	f->param = calloc(f->e.nparams + 1, sizeof(*f->param));
	f->length = calloc(f->e.nparams + 1, sizeof(*f->length));
	if (!f->param || !f->length)
		return false;
	for (i = 0; f->e.param && i < f->e.nparams; i++)
		f->param[i] = diff_canon_type(c, f->e.param[i].type);
	for (i = 0; i < f->e.nparams; i++)
		f->length[i] = length_of(f, i);
	return true;
}

static bool fill_in(struct loader *l, struct diff_function *f)
{
	bool over = (f->e.flags & FUNCTION_OVER) != 0;

	f->identity = identity_of(f, l->scope->by_name, l->scope->program);
	f->canon = diff_canon_flags(f->named ? f->e.name : NULL, over);
	f->is_input = over && f->named && diff_canon_is_input(f->e.name);
	f->allocates = f->named && diff_canon_allocates(f->e.name);
	f->creates = f->named && diff_canon_creates(f->e.name);
	f->is_from = is_called(l->scope->from, f);
	f->is_to = is_called(l->scope->to, f);
	if (l->scope->masks)
		f->masked = diff_masks_of(l->scope->masks, &f->e);
	f->masked.changes |= (f->canon & CANON_FILLS_NOISE) != 0;
	if (l->scope->other) {
		f->is_alone = diff_told_lacks(l->scope->other, f->identity, &f->e, l->scope->program);
		f->no_values = diff_told_values_differ(l->scope->other, f->identity, &f->e);
	}
	return find_types(f, &l->s->canon);
}

static struct wc_error *diff_side_functions_add(struct loader *l, const struct function_event *e,
						uint32_t *ret)
{
	struct diff_side *s = l->s;
	struct diff_function f = { 0 };

	if (!copy_event(&f, e) || !fill_in(l, &f) ||
	    !vec_push(s->function, s->nfunctions, s->functions_cap, f)) {
		diff_function_deinit(&f);
		return &wc_enomem;
	}
	*ret = (uint32_t)s->nfunctions - 1;
	return NULL;
}

struct wc_error *diff_load_function(struct loader *l, const struct function_event *e)
{
	struct wc_error *err;
	uint32_t index;

	err = diff_side_functions_add(l, e, &index);
	if (err)
		return err;
	return id_map_put(&l->s->function_ids, e->id, (void *)(uintptr_t)(index + 1)) ? NULL : &wc_enomem;
}

struct wc_error *diff_load_pseudo_function(struct loader *l, const char *name, uint32_t *ret)
{
	return diff_side_functions_add(
		l, &(struct function_event){ .name = name, .flags = FUNCTION_OVER, .return_type = NO_TYPE },
		ret);
}

uint64_t diff_side_alone(const struct diff_side *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->nfunctions; i++)
		n += s->function[i].is_alone && s->function[i].calls;
	return n;
}

static void cut_to_length(struct call_value *text, const struct call_value *length)
{
	uint64_t n = 0;

	if (length->state != VALUE_OK || (length->size != 8 && length->size != 4))
		return;
	/* A negative one is larger than any text. */
	memcpy(&n, length->bytes, length->size);
	if (n < text->to_len) {
		text->to_len = (uint32_t)n;
		text->to_state = VALUE_OK;
	}
}

uint32_t diff_side_values(const struct diff_function *f, const uint8_t *values, uint32_t len,
			  struct call_value *ret)
{
	struct call_values_reader r = { values, values + len };
	uint32_t n = 0, i;

	while (n < f->e.nparams && n < FUNCTION_PARAMS_MAX &&
	       call_values_next(&r, f->param[n] ? &f->param[n]->e : NULL, &ret[n]))
		n++;
	for (i = 0; i < n; i++)
		if (f->length[i] && f->length[i] <= n)
			cut_to_length(&ret[i], &ret[f->length[i] - 1]);
	return n;
}
