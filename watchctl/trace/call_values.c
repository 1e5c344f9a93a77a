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

void call_result_read(struct call_values_reader *r, const struct type_event *type, struct call_value *ret,
		      bool *has)
{
	*has = r->at != r->end && *r->at < RETURN_UNUSED && call_values_next(r, type, ret);
	if (!*has && r->at != r->end && *r->at < RETURN_UNUSED)
		r->at = r->end;
}

static bool take_counted(struct call_values_reader *r, struct return_extra *e)
{
	const uint8_t *count;
	uint16_t n;

	if (!take_bytes(r, sizeof(n), &count))
		return false;
	memcpy(&n, count, sizeof(n));
	e->len = n;
	return take_bytes(r, n, &e->bytes);
}

static bool take_changed_pointee(struct call_values_reader *r, struct return_extra *e)
{
	uint8_t state;

	if (!take_u8(r, UINT8_MAX, &e->param) || !take_u8(r, VALUE_NULL, &state))
		return false;
	e->state = state;
	return take_counted(r, e) && take_bytes(r, RETURN_CHANGED_BYTES(e->len), &e->changed);
}

static bool take_data(struct call_values_reader *r, struct return_extra *e)
{
	uint32_t *number = e->kind == RETURN_MEMBER ? &e->type : &e->offset;
	const uint8_t *bytes, *name;

	if (!take_bytes(r, sizeof(*number), &bytes) || !take_u8(r, UINT8_MAX, &e->name_len) ||
	    !take_bytes(r, e->name_len, &name))
		return false;
	memcpy(number, bytes, sizeof(*number));
	e->name = (const char *)name;
	return take_counted(r, e);
}

bool return_extra_next(struct call_values_reader *r, struct return_extra *ret)
{
	struct call_values_reader at = *r;
	struct return_extra e = { 0 };
	uint8_t kind;
	bool ok;

	if (!take_u8(&at, RETURN_MEMBER, &kind) || kind < RETURN_UNUSED)
		return false;
	e.kind = kind;
	ok = kind == RETURN_POINTEE ? take_changed_pointee(&at, &e)
				    : (kind != RETURN_DATA && kind != RETURN_MEMBER) || take_data(&at, &e);
	if (!ok)
		return false;
	*r = at;
	*ret = e;
	return true;
}

/* Puts @n bytes where they are wanted; NULL: only counts them. */
static size_t put(uint8_t *buf, size_t at, const void *bytes, size_t n)
{
	if (buf && n)
		memcpy(buf + at, bytes, n);
	return at + n;
}

static size_t put_extra(uint8_t *buf, const struct return_extra *e)
{
	const uint8_t kind = (uint8_t)e->kind, state = (uint8_t)e->state;
	const uint16_t n = (uint16_t)e->len;
	size_t at = put(buf, 0, &kind, 1);

	if (e->kind == RETURN_POINTEE) {
		at = put(buf, at, &e->param, 1);
		at = put(buf, at, &state, 1);
	} else if (e->kind == RETURN_DATA || e->kind == RETURN_MEMBER) {
		at = put(buf, at, e->kind == RETURN_DATA ? &e->offset : &e->type, sizeof(e->type));
		at = put(buf, at, &e->name_len, 1);
		at = put(buf, at, e->name, e->name_len);
	} else {
		return at;
	}
	at = put(buf, at, &n, sizeof(n));
	at = put(buf, at, e->bytes, n);
	return e->kind == RETURN_POINTEE ? put(buf, at, e->changed, RETURN_CHANGED_BYTES(n)) : at;
}

bool call_result_is_unused(const uint8_t *bytes, size_t len, const struct type_event *type)
{
	struct call_values_reader r = { bytes, bytes + len };
	struct return_extra e;
	struct call_value v;
	bool has;

	call_result_read(&r, type, &v, &has);
	while (return_extra_next(&r, &e))
		if (e.kind == RETURN_UNUSED)
			return true;
	return false;
}

bool return_extra_put(uint8_t *buf, size_t cap, size_t *len, const struct return_extra *e)
{
	if (e->len > UINT16_MAX || put_extra(NULL, e) > cap - *len)
		return false;
	*len += put_extra(buf + *len, e);
	return true;
}
