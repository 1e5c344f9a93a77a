#include "watchctl/trace/call_values.h"

#include <string.h>

static bool has_pointee(enum type_kind kind)
{
	return kind == TYPE_POINTER || kind == TYPE_STRING;
}

static bool take_u8(struct call_values_reader *r, uint8_t max, uint8_t *ret)
{
	if (r->at == r->end || *r->at > max)
		return false;
	*ret = *r->at++;
	return true;
}

static bool take_bytes(struct call_values_reader *r, size_t n, const uint8_t **ret)
{
	if ((size_t)(r->end - r->at) < n)
		return false;
	*ret = r->at;
	r->at += n;
	return true;
}

static bool take_pointee(struct call_values_reader *r, struct call_value *v)
{
	const uint8_t *count;
	uint8_t state;
	uint16_t n;

	if (!take_u8(r, VALUE_NULL, &state))
		return false;
	v->to_state = state;
	if (state != VALUE_OK && state != VALUE_CUT)
		return true;
	if (!take_bytes(r, sizeof(n), &count))
		return false;
	memcpy(&n, count, sizeof(n));
	v->to_len = n;
	return take_bytes(r, n, &v->to);
}

bool call_values_next(struct call_values_reader *r, const struct type_event *type, struct call_value *ret)
{
	struct call_value v = { .to_state = VALUE_NONE };
	struct call_values_reader at = *r;
	uint8_t state;

	if (!type || !take_u8(&at, VALUE_WITHHELD, &state))
		return false;
	v.state = state;
	if (state == VALUE_CUT || state == VALUE_NULL)
		return false;
	if (state == VALUE_OK) {
		v.size = type->size;
		if (v.size > CALL_VALUE_MAX || !take_bytes(&at, v.size, &v.bytes) ||
		    (has_pointee(type->kind) && !take_pointee(&at, &v)))
			return false;
	}
	*r = at;
	*ret = v;
	return true;
}

static size_t bytes_of(enum type_kind kind, const struct call_value *v)
{
	bool shown = v->to_state == VALUE_OK || v->to_state == VALUE_CUT;

	if (v->state != VALUE_OK)
		return 1;
	return 1 + v->size + (has_pointee(kind) ? 1 + (shown ? 2 + v->to_len : 0) : 0);
}

bool call_values_put(uint8_t *buf, size_t cap, size_t *len, enum type_kind kind, const struct call_value *v)
{
	bool shown = v->to_state == VALUE_OK || v->to_state == VALUE_CUT;
	uint8_t *p = buf + *len;
	uint16_t n = (uint16_t)v->to_len;

	if (v->size > CALL_VALUE_MAX || v->to_len > UINT16_MAX || bytes_of(kind, v) > cap - *len)
		return false;
	*len += bytes_of(kind, v);
	*p++ = (uint8_t)v->state;
	if (v->state != VALUE_OK)
		return true;
	if (v->size)
		memcpy(p, v->bytes, v->size);
	p += v->size;
	if (!has_pointee(kind))
		return true;
	*p++ = (uint8_t)v->to_state;
	if (shown) {
		memcpy(p, &n, sizeof(n));
		if (n)
			memcpy(p + sizeof(n), v->to, n);
	}
	return true;
}
