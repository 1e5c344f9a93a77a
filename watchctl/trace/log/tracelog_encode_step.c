/* Fields are put in the order in which tracelog_decode_step.c takes them; see the metadata for their types.
 */
#include "watchctl/trace/log/tracelog_encode_step.h"

#include <assert.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/trace/log/tracelog_put.h"

/* A type or function must fit a packet, whatever the debug information says. */
#define NAME_MAX_BYTES 4096u
#define ENUMERATORS_BYTES (1u << 20)

static void put_name(struct encoder *c, const char *s)
{
	put_bounded(c, s, NAME_MAX_BYTES);
}

static void put_recording(struct encoder *c, const struct recording_event *r)
{
	put_u8(c, r->instructions);
	put_string(c, r->stepper);
	put_string(c, r->planner);
	put_string(c, r->range);
	put_string(c, r->filters);
	put_u8(c, r->withheld);
	put_u8(c, r->inputs);
}

/* Values that do not fit are shown as numbers. */
static void put_enumerators(struct encoder *c, const struct type_event *t)
{
	size_t at = c->len, i;
	uint32_t n = 0;

	put_u32(c, 0);
	for (i = 0; i < t->nenumerators && c->len - at < ENUMERATORS_BYTES; i++, n++) {
		put_u64(c, (uint64_t)t->enumerator[i].value);
		put_name(c, t->enumerator[i].name);
	}
	if (!c->no_memory)
		memcpy(c->buf + at, &n, sizeof(n));
}

static void put_type(struct encoder *c, const struct type_event *t)
{
	uint32_t i;

	assert(t->nmembers <= TYPE_MEMBERS_MAX);
	put_u32(c, t->id);
	put_u8(c, t->kind);
	put_u8(c, t->is_signed);
	put_u32(c, t->size);
	put_u32(c, t->target);
	put_name(c, t->name);
	put_u32(c, t->nmembers);
	for (i = 0; i < t->nmembers; i++) {
		put_u32(c, t->member[i].type);
		put_u32(c, t->member[i].offset);
		put_u8(c, t->member[i].bit_offset);
		put_u8(c, t->member[i].bit_size);
		put_name(c, t->member[i].name);
	}
	put_enumerators(c, t);
}

static void put_function(struct encoder *c, const struct function_event *f)
{
	uint32_t i;

	assert(f->nparams <= FUNCTION_PARAMS_MAX);
	put_u32(c, f->id);
	put_u32(c, f->flags);
	put_u64(c, f->address);
	put_u64(c, f->size);
	put_u32(c, f->line);
	put_u32(c, f->return_type);
	put_string(c, f->name);
	put_string(c, f->module);
	put_build_id(c, f->build_id, f->build_id_len);
	put_string(c, f->file);
	put_u32(c, f->nparams);
	for (i = 0; i < f->nparams; i++) {
		put_u32(c, f->param[i].type);
		put_name(c, f->param[i].name);
	}
}

static void put_region(struct encoder *c, const struct region_event *r)
{
	put_u32(c, r->pid);
	put_u8(c, r->kind);
	put_u64(c, r->start);
	put_u64(c, r->end);
	put_string(c, r->name);
}

static void put_range(struct encoder *c, const struct range_event *r)
{
	put_u32(c, r->occurrence);
	put_u8(c, r->what);
	put_u32(c, r->pid);
	put_u32(c, r->tid);
}

static void put_values(struct encoder *c, const uint8_t *values, uint32_t len)
{
	assert(len <= CALL_VALUES_MAX);
	put_u16(c, (uint16_t)len);
	encode_bytes(c, values, len);
}

static void put_call(struct encoder *c, const struct call_event *e, uint32_t stack)
{
	put_u64(c, e->call);
	put_u64(c, e->parent);
	put_u32(c, e->tid);
	put_u32(c, e->function);
	put_u16(c, e->depth);
	put_u8(c, e->flags);
	put_u64(c, e->sp);
	put_u32(c, stack);
	put_values(c, e->values, e->values_len);
}

static void put_return(struct encoder *c, const struct return_event *e)
{
	put_u64(c, e->call);
	put_u32(c, e->tid);
	put_u32(c, e->function);
	put_u8(c, e->how);
	if (e->has_error)
		put_u32(c, e->error);
	put_values(c, e->values, e->values_len);
}

static void put_step(struct encoder *c, const struct step_event *e)
{
	put_u64(c, e->call);
	put_u32(c, e->tid);
	put_u64(c, e->ip);
}

static void put_signal(struct encoder *c, const struct signal_event *e)
{
	put_u64(c, e->call);
	put_u32(c, e->tid);
	put_u32(c, e->signal);
	put_u32(c, e->code);
	put_u64(c, e->ip);
}

static void put_blocked(struct encoder *c, const struct blocked_event *e, uint32_t stack)
{
	put_u64(c, e->call);
	put_u32(c, e->tid);
	put_u32(c, e->syscall);
	put_u32(c, stack);
}

static void put_input(struct encoder *c, const struct input_event *e)
{
	assert(e->len <= INPUT_BYTES_MAX);
	put_u64(c, e->call);
	put_u32(c, e->pid);
	put_u32(c, e->tid);
	put_u8(c, e->kind);
	put_u8(c, e->withheld);
	put_u32(c, e->syscall);
	put_u32(c, e->fd);
	put_u64(c, (uint64_t)e->result);
	put_u64(c, e->offset);
	put_u64(c, e->size);
	put_u32(c, e->hashed);
	put_u64(c, e->hash);
	put_name(c, e->name);
	put_u32(c, e->len);
	encode_bytes(c, e->bytes, e->len);
}

void encode_step_fields(struct encoder *c, const struct trace_event *e, uint32_t stack)
{
	switch (e->type) {
	case EVENT_RECORDING:
		return put_recording(c, &e->recording);
	case EVENT_TYPE:
		return put_type(c, &e->type_info);
	case EVENT_FUNCTION:
		return put_function(c, &e->function);
	case EVENT_REGION:
		return put_region(c, &e->region);
	case EVENT_RANGE:
		return put_range(c, &e->range);
	case EVENT_CALL:
		return put_call(c, &e->call, stack);
	case EVENT_RETURN:
		return put_return(c, &e->ret);
	case EVENT_STEP:
		return put_step(c, &e->step);
	case EVENT_SIGNAL:
		return put_signal(c, &e->signal);
	case EVENT_BLOCKED:
		return put_blocked(c, &e->blocked, stack);
	case EVENT_INPUT:
		return put_input(c, &e->input);
	default:
		assert(!"not an event of a step recording");
	}
}
