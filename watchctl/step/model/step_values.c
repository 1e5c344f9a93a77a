#include "watchctl/step/model/step_values.h"

#include <string.h>

#include "watchctl/trace/call_values.h"

static bool is_pointer(const struct type_event *type)
{
	return type && (type->kind == TYPE_POINTER || type->kind == TYPE_STRING);
}

/* The pieces of a value, one after the other. Returns how the worst of them is. */
static enum value_state step_values_join(const struct param_recipe *recipe, const struct fetched *f,
					 uint8_t *buf, uint32_t size)
{
	uint32_t have = 0;
	unsigned int i;

	for (i = recipe->first; i < (unsigned int)recipe->first + recipe->count; i++) {
		uint32_t n;

		if (!f || i >= f->n)
			return VALUE_NONE;
		if (f->state[i] != VALUE_OK)
			return (enum value_state)f->state[i];
		n = f->len[i] < size - have ? f->len[i] : size - have;
		memcpy(buf + have, f->bytes + f->at[i], n);
		have += n;
	}
	return have == size ? VALUE_OK : VALUE_NONE;
}

static void step_values_follow(const struct param_recipe *recipe, const struct fetched *f,
			       struct call_value *v)
{
	unsigned int i = recipe->to;

	v->to_state = VALUE_NONE;
	if (i >= PLAN_FETCHES || !f || i >= f->n)
		return;
	v->to_state = (enum value_state)f->state[i];
	if (v->to_state != VALUE_OK && v->to_state != VALUE_CUT)
		return;
	v->to = f->bytes + f->at[i];
	v->to_len = f->len[i];
}

void step_value_put(const struct param_recipe *recipe, const struct fetched *f, const struct type_event *type,
		    uint8_t *buf, size_t cap, size_t *len)
{
	static const struct call_value none = { .state = VALUE_NONE, .to_state = VALUE_NONE };
	uint8_t bytes[CALL_VALUE_MAX]; /* v.size of them are used, and none that was not written */
	struct call_value v = { .state = (enum value_state)recipe->state,
				.bytes = bytes,
				.size = type ? type->size : 0,
				.to_state = VALUE_NONE };
	enum type_kind kind = type ? type->kind : TYPE_UNKNOWN;

	if (v.state == VALUE_OK && (!v.size || v.size > sizeof(bytes)))
		v.state = VALUE_NONE;
	if (v.state == VALUE_OK && recipe->is_constant) {
		memset(bytes, 0, v.size);
		memcpy(bytes, &recipe->constant,
		       v.size < sizeof(recipe->constant) ? v.size : sizeof(recipe->constant));
	} else if (v.state == VALUE_OK) {
		v.state = step_values_join(recipe, f, bytes, v.size);
	}
	if (v.state == VALUE_OK && is_pointer(type))
		step_values_follow(recipe, f, &v);
	if (!call_values_put(buf, cap, len, kind, &v))
		call_values_put(buf, cap, len, kind, &none);
}

/* The first fetch of the result holds its low bytes. */
static bool says_failed(const struct function_plan *plan, const struct fetched *f)
{
	unsigned int i = plan->result.first;
	uint64_t v = 0;
	uint32_t n;

	if (!plan->result.count || i >= f->n || f->state[i] != VALUE_OK)
		return false;
	n = f->len[i] < sizeof(v) ? f->len[i] : sizeof(v);
	memcpy(&v, f->bytes + f->at[i], n);
	if (plan->fails == FAILS_NULL)
		return v == 0;
	return v == (n >= sizeof(v) ? ~0ull : (1ull << 8 * n) - 1);
}

bool step_value_error(const struct function_plan *plan, const struct fetched *f, int32_t *ret)
{
	unsigned int i;

	if (plan->fails == FAILS_NEVER || !f || !says_failed(plan, f))
		return false;
	for (i = 0; i < plan->plan.leave.n && i < f->n; i++) {
		if (plan->plan.leave.v[i].op != FETCH_ERRNO || f->state[i] != VALUE_OK ||
		    f->len[i] != sizeof(*ret))
			continue;
		memcpy(ret, f->bytes + f->at[i], sizeof(*ret));
		return true;
	}
	return false;
}
