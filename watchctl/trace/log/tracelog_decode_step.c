/* Fields are taken in the order in which tracelog_encode_step.c puts them; see the metadata for their types.
 */
#include "watchctl/trace/log/tracelog_decode_step.h"

#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_format.h"

#define ENUMERATOR_BYTES 9 /* at least */

static void get_recording(struct cursor *c, struct recording_event *r)
{
	r->instructions = get_u8(c) != 0;
	r->stepper = get_string(c);
	r->planner = get_string(c);
	r->range = get_string(c);
	r->filters = get_string(c);
	if (has_more(c))
		r->withheld = get_u8(c);
	if (has_more(c))
		r->inputs = get_u8(c);
}

static struct wc_error *get_members(struct tracelog_decoder *d, struct cursor *c, struct type_event *t)
{
	uint32_t i;

	t->nmembers = get_u32(c);
	if (t->nmembers > TYPE_MEMBERS_MAX)
		c->bad = true;
	if (c->bad || !t->nmembers)
		return NULL;
	if (!vec_reserve((void **)&d->members, &d->members_cap, t->nmembers, sizeof(*d->members)))
		return &wc_enomem;
	for (i = 0; i < t->nmembers; i++) {
		struct type_member *m = &d->members[i];

		m->type = get_u32(c);
		m->offset = get_u32(c);
		m->bit_offset = get_u8(c);
		m->bit_size = get_u8(c);
		m->name = get_string(c);
		if (m->bit_offset + m->bit_size > 64)
			c->bad = true;
	}
	t->member = d->members;
	return NULL;
}

static struct wc_error *get_enumerators(struct tracelog_decoder *d, struct cursor *c, struct type_event *t)
{
	uint32_t i;

	t->nenumerators = get_u32(c);
	if (t->nenumerators > (size_t)(c->end - c->p) / ENUMERATOR_BYTES)
		c->bad = true;
	if (c->bad || !t->nenumerators)
		return NULL;
	if (!vec_reserve((void **)&d->enumerators, &d->enumerators_cap, t->nenumerators,
			 sizeof(*d->enumerators)))
		return &wc_enomem;
	for (i = 0; i < t->nenumerators; i++) {
		d->enumerators[i].value = (int64_t)get_u64(c);
		d->enumerators[i].name = get_string(c);
	}
	t->enumerator = d->enumerators;
	return NULL;
}

static struct wc_error *get_type(struct tracelog_decoder *d, struct cursor *c, struct type_event *t)
{
	struct wc_error *err;
	uint8_t kind;

	t->id = get_u32(c);
	kind = get_u8(c);
	t->is_signed = get_u8(c) != 0;
	t->size = get_u32(c);
	t->target = get_u32(c);
	t->name = get_optional(c);
	if (kind > TYPE_REGISTER || t->id == NO_TYPE)
		c->bad = true;
	else
		t->kind = kind;
	if (!c->bad && !map64_put(&d->types, t->id, (void *)(uintptr_t)1))
		return &wc_enomem;
	err = get_members(d, c, t);
	return err ? err : get_enumerators(d, c, t);
}

static bool knows_type(const struct tracelog_decoder *d, uint32_t type)
{
	return !d->torn || type == NO_TYPE || map64_get(&d->types, type);
}

static struct wc_error *get_function(struct tracelog_decoder *d, struct cursor *c, struct function_event *f)
{
	bool known = true;
	uint32_t i;

	f->id = get_u32(c);
	f->flags = get_u32(c);
	f->address = get_u64(c);
	f->size = get_u64(c);
	f->line = get_u32(c);
	f->return_type = get_u32(c);
	f->name = get_optional(c);
	f->module = get_optional(c);
	get_build_id(c, d->build_id, &f->build_id_len);
	f->build_id = d->build_id;
	f->file = get_optional(c);
	f->nparams = get_u32(c);
	if (f->nparams > FUNCTION_PARAMS_MAX)
		c->bad = true;
	if (c->bad)
		return NULL;
	known = knows_type(d, f->return_type);
	if (f->nparams && !vec_reserve((void **)&d->params, &d->params_cap, f->nparams, sizeof(*d->params)))
		return &wc_enomem;
	for (i = 0; i < f->nparams; i++) {
		d->params[i].type = get_u32(c);
		d->params[i].name = get_optional(c);
		known &= knows_type(d, d->params[i].type);
	}
	f->param = f->nparams ? d->params : NULL;
	/* Calls of a function whose values cannot be read are not known either. */
	d->unknown |= !known;
	return c->bad || !known || map64_put(&d->known_functions, f->id, (void *)(uintptr_t)1) ? NULL
											       : &wc_enomem;
}

static void get_region(struct cursor *c, struct region_event *r)
{
	uint8_t kind;

	r->pid = (int32_t)get_u32(c);
	kind = get_u8(c);
	r->start = get_u64(c);
	r->end = get_u64(c);
	r->name = get_optional(c);
	if (kind > REGION_FILE || r->end <= r->start)
		c->bad = true;
	else
		r->kind = kind;
}

static void get_range(struct cursor *c, struct range_event *r)
{
	uint8_t what;

	r->occurrence = get_u32(c);
	what = get_u8(c);
	r->pid = (int32_t)get_u32(c);
	r->tid = (int32_t)get_u32(c);
	if (what < RANGE_BEGIN || what > RANGE_STOPPED)
		c->bad = true;
	else
		r->what = what;
}

/* Points into the payload. */
static void get_values(struct cursor *c, const uint8_t **values, uint32_t *len)
{
	*len = get_u16(c);
	*values = c->p;
	if (*len > (size_t)(c->end - c->p)) {
		c->bad = true;
		*len = 0;
	}
	c->p += *len;
}

static void get_call(struct tracelog_decoder *d, struct cursor *c, struct call_event *e)
{
	const struct tracelog_stack *stack;
	uint32_t number;
	bool lost;

	e->call = get_u64(c);
	e->parent = get_u64(c);
	e->tid = (int32_t)get_u32(c);
	e->function = get_u32(c);
	e->depth = get_u16(c);
	e->flags = get_u8(c);
	e->sp = get_u64(c);
	number = get_u32(c);
	get_values(c, &e->values, &e->values_len);
	e->pid = tracelog_decode_process(d, e->tid);
	tracelog_decode_needs(d, &d->known_functions, e->function);
	if (number >= TRACELOG_NO_STACK) {
		e->walk_end = (uint8_t)(number - TRACELOG_NO_STACK);
		e->nframes = 0;
		e->frame = NULL;
		c->bad |= e->walk_end > WALK_END_UNKNOWN_PC;
		return;
	}
	stack = tracelog_stack_of(d, number, &lost);
	c->bad |= !stack && !lost;
	e->walk_end = stack ? stack->walk_end : WALK_END_LOST;
	e->nframes = stack ? stack->nframes : 0;
	e->frame = stack ? stack->frame : NULL;
}

static void get_return(struct tracelog_decoder *d, struct cursor *c, struct return_event *e, bool has_error)
{
	uint8_t how;

	e->call = get_u64(c);
	e->tid = (int32_t)get_u32(c);
	e->function = get_u32(c);
	how = get_u8(c);
	e->has_error = has_error;
	e->error = has_error ? (int32_t)get_u32(c) : 0;
	get_values(c, &e->values, &e->values_len);
	e->pid = tracelog_decode_process(d, e->tid);
	tracelog_decode_needs(d, &d->known_functions, e->function);
	e->how = how;
	if (how < RETURN_RETURNED || how > RETURN_UNKNOWN)
		c->bad = true;
}

static void get_step(struct tracelog_decoder *d, struct cursor *c, struct step_event *e)
{
	e->call = get_u64(c);
	e->tid = (int32_t)get_u32(c);
	e->ip = get_u64(c);
	e->pid = tracelog_decode_process(d, e->tid);
}

static void get_signal(struct tracelog_decoder *d, struct cursor *c, struct signal_event *e)
{
	e->call = get_u64(c);
	e->tid = (int32_t)get_u32(c);
	e->signal = (int32_t)get_u32(c);
	e->code = (int32_t)get_u32(c);
	e->ip = get_u64(c);
	e->pid = tracelog_decode_process(d, e->tid);
}

static void get_blocked(struct tracelog_decoder *d, struct cursor *c, struct blocked_event *e)
{
	const struct tracelog_stack *stack;
	bool lost;

	e->call = get_u64(c);
	e->tid = (int32_t)get_u32(c);
	e->syscall = (int32_t)get_u32(c);
	stack = tracelog_stack_of(d, get_u32(c), &lost);
	e->pid = tracelog_decode_process(d, e->tid);
	c->bad |= !stack && !lost;
	e->walk_end = stack ? stack->walk_end : WALK_END_LOST;
	e->nframes = stack ? stack->nframes : 0;
	e->frame = stack ? stack->frame : NULL;
}

static void get_input(struct cursor *c, struct input_event *e)
{
	uint8_t kind;

	e->call = get_u64(c);
	e->pid = (int32_t)get_u32(c);
	e->tid = (int32_t)get_u32(c);
	kind = get_u8(c);
	e->withheld = get_u8(c) != 0;
	e->syscall = (int32_t)get_u32(c);
	e->fd = (int32_t)get_u32(c);
	e->result = (int64_t)get_u64(c);
	e->offset = get_u64(c);
	e->size = get_u64(c);
	e->hashed = get_u32(c);
	e->hash = get_u64(c);
	e->name = get_optional(c);
	e->len = get_u32(c);
	e->bytes = c->p;
	if (kind < INPUT_ARGUMENTS || kind > INPUT_RANDOM || e->len > e->size ||
	    e->len > (size_t)(c->end - c->p)) {
		c->bad = true;
		e->len = 0;
		return;
	}
	e->kind = kind;
	c->p += e->len;
}

struct wc_error *tracelog_decode_step(struct tracelog_decoder *d, uint16_t id, struct cursor *c,
				      struct trace_event *ret)
{
	switch (id) {
	case EVENT_RECORDING:
		get_recording(c, &ret->recording);
		break;
	case EVENT_TYPE:
		return get_type(d, c, &ret->type_info);
	case EVENT_FUNCTION:
		return get_function(d, c, &ret->function);
	case EVENT_REGION:
		get_region(c, &ret->region);
		break;
	case EVENT_RANGE:
		get_range(c, &ret->range);
		break;
	case EVENT_CALL:
		get_call(d, c, &ret->call);
		break;
	case EVENT_RETURN:
	case TRACELOG_ID_RETURN_ERROR:
		ret->type = EVENT_RETURN;
		get_return(d, c, &ret->ret, id == TRACELOG_ID_RETURN_ERROR);
		break;
	case EVENT_STEP:
		get_step(d, c, &ret->step);
		break;
	case EVENT_SIGNAL:
		get_signal(d, c, &ret->signal);
		break;
	case EVENT_BLOCKED:
		get_blocked(d, c, &ret->blocked);
		break;
	case EVENT_INPUT:
		get_input(c, &ret->input);
		break;
	default:
		c->bad = true;
	}
	return NULL;
}
