#include "watchctl/view/event/step_change.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of numbers of 4 bytes the higher one is not so large as half of an address. */
#define HALF_MIN (-0x10000)
#define HALF_MAX 0x5000

static size_t cut(int n, size_t cap)
{
	return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}

size_t step_change_label(const struct return_extra *e, uint32_t at, const char *param, char *buf, size_t cap)
{
	const uint32_t offset = e->offset + at;

	if (e->kind == RETURN_POINTEE)
		return cut(param && *param ? snprintf(buf, cap, "*%s", param)
					   : snprintf(buf, cap, "*#%u", e->param + 1u),
			   cap);
	return cut(offset ? snprintf(buf, cap, "%.*s+%u", e->name_len, e->name, offset)
			  : snprintf(buf, cap, "%.*s", e->name_len, e->name),
		   cap);
}

size_t step_change_word(const uint8_t *bytes, uint32_t len, char *buf, size_t cap)
{
	uint64_t v = 0;
	int32_t half[2];

	memcpy(&v, bytes, len < sizeof(v) ? len : sizeof(v));
	memcpy(half, &v, sizeof(half));
	if (len == 4)
		return cut(snprintf(buf, cap, "%" PRId32, half[0]), cap);
	if (half[1] == 0 || half[1] == -1)
		return cut(snprintf(buf, cap, "%" PRId64, (int64_t)v), cap);
	if (half[1] > HALF_MIN && half[1] < HALF_MAX)
		return cut(snprintf(buf, cap, "{%" PRId32 ", %" PRId32 "}", half[0], half[1]), cap);
	return cut(snprintf(buf, cap, "0x%" PRIx64, v), cap);
}

struct call_value step_change_value(const struct return_extra *e)
{
	return (struct call_value){
		.state = VALUE_OK, .bytes = e->bytes, .size = e->len, .to_state = VALUE_NONE
	};
}

size_t step_change_member(const struct step_values *c, const struct type_event *type,
			  const struct return_extra *e, char *buf, size_t cap)
{
	const struct call_value v = step_change_value(e);

	if (!type || type->size != e->len)
		return step_change_word(e->bytes, e->len, buf, cap);
	return step_value_text(c, type, &v, buf, cap);
}

size_t step_change_pointee(const struct step_values *c, const struct type_event *type,
			   const struct return_extra *e, char *buf, size_t cap)
{
	static const uint8_t somewhere[8];
	const struct call_value v = { .state = VALUE_OK,
				      .bytes = somewhere,
				      .size = sizeof(somewhere),
				      .to_state = e->state,
				      .to = e->bytes,
				      .to_len = e->len };

	if (!step_value_pointee_text(c, type, &v, buf, cap))
		return cut(snprintf(buf, cap, "?"), cap);
	return strlen(buf);
}
