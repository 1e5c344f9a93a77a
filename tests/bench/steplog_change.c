#include "tests/bench/steplog_change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/steplog_tables.h"
#include "watchctl/trace/call_values.h"

static const char *const change_names[CHANGES] = { "none", "value", "result", "error", "missing", "extra" };

/* Where the first number among the values begins; 0: there is none. */
static size_t number_at(const struct function_event *f, const uint8_t *values, uint32_t len)
{
	struct call_values_reader r = { values, values + len };
	struct call_value v;
	uint32_t i;

	for (i = 0; i < f->nparams; i++) {
		const struct type_event *t = &steplog_types[f->param[i].type];

		if (!call_values_next(&r, t, &v))
			break;
		if (t->kind == TYPE_SIGNED || t->kind == TYPE_UNSIGNED)
			return (size_t)(v.bytes - values);
	}
	return 0;
}

static bool has_number(uint32_t type)
{
	return steplog_types[type].kind == TYPE_SIGNED || steplog_types[type].kind == TYPE_UNSIGNED;
}

static uint64_t renumber(const struct change *c, uint64_t number)
{
	return number < c->at || !c->done ? number : number + c->added - c->dropped;
}

static bool can_change(const struct change *c, const struct call_event *e)
{
	switch (c->kind) {
	case CHANGE_VALUE:
		return number_at(&steplog_functions[e->function], e->values, e->values_len) != 0;
	case CHANGE_RESULT:
		return has_number(steplog_functions[e->function].return_type);
	case CHANGE_MISSING:
	case CHANGE_EXTRA:
		return e->parent != 0;
	default:
		return true;
	}
}

static void report_change(const struct change *c, const struct call_event *e)
{
	printf("{\"kind\":\"%s\",\"call\":%llu,\"function\":\"%s\",\"depth\":%u,\"tid\":%d}\n",
	       change_names[c->kind], (unsigned long long)e->call,
	       steplog_functions[c->kind == CHANGE_EXTRA ? F_LOG_EVENT : e->function].name,
	       (unsigned int)e->depth, e->tid);
}

static struct wc_error *put_extra(struct change *c, const struct trace_event *before)
{
	static const uint8_t values[] = { VALUE_OK, 0x42, 0, 0, 0, 0, 0, 0, 0, VALUE_UNREADABLE };
	struct trace_event e = *before;
	struct wc_error *err;

	e.call.function = F_LOG_EVENT;
	e.call.values = values;
	e.call.values_len = sizeof(values);
	err = c->to.put(c->to.ctx, &e);
	if (err)
		return err;
	e = (struct trace_event){ .type = EVENT_RETURN, .time_ns = before->time_ns };
	e.ret = (struct return_event){ .call = before->call.call,
				       .pid = before->call.pid,
				       .tid = before->call.tid,
				       .function = F_LOG_EVENT,
				       .how = RETURN_RETURNED };
	return c->to.put(c->to.ctx, &e);
}

static struct wc_error *change_call(struct change *c, const struct trace_event *from)
{
	struct trace_event e = *from;
	uint8_t values[512];
	struct wc_error *err = NULL;

	if (c->dropping) {
		c->dropped++;
		return NULL;
	}
	if (!c->done && c->kind != CHANGE_NONE && e.call.call >= c->at && can_change(c, &e.call)) {
		c->at = e.call.call;
		c->done = true;
		report_change(c, &e.call);
		if (c->kind == CHANGE_MISSING) {
			c->dropping = c->at;
			c->dropped = 1;
			return NULL;
		}
		if (c->kind == CHANGE_EXTRA) {
			err = put_extra(c, &e);
			c->added = 1;
		} else if (c->kind == CHANGE_VALUE) {
			memcpy(values, e.call.values, e.call.values_len);
			values[number_at(&steplog_functions[e.call.function], values, e.call.values_len)] ^=
				0x55;
			e.call.values = values;
		}
	}
	e.call.call = renumber(c, e.call.call);
	e.call.parent = renumber(c, e.call.parent);
	return err ? err : c->to.put(c->to.ctx, &e);
}

static struct wc_error *change_return(struct change *c, const struct trace_event *from)
{
	struct trace_event e = *from;
	uint8_t values[512];

	if (c->dropping) {
		if (e.ret.call == c->dropping)
			c->dropping = 0;
		return NULL;
	}
	if (c->done && e.ret.call == c->at && c->kind == CHANGE_RESULT) {
		memcpy(values, e.ret.values, e.ret.values_len);
		values[1] ^= 0x55;
		e.ret.values = values;
	} else if (c->done && e.ret.call == c->at && c->kind == CHANGE_ERROR) {
		e.ret.has_error = true;
		e.ret.error = 5;
	}
	e.ret.call = renumber(c, e.ret.call);
	return c->to.put(c->to.ctx, &e);
}

struct wc_error *change_put(void *ctx, const struct trace_event *e)
{
	struct change *c = ctx;

	if (e->type == EVENT_CALL)
		return change_call(c, e);
	if (e->type == EVENT_RETURN)
		return change_return(c, e);
	return c->to.put(c->to.ctx, e);
}

bool change_parse(const char *text, struct change *ret)
{
	const char *at = strchr(text, '@');
	int i;

	for (i = CHANGE_VALUE; at && i < CHANGES; i++) {
		if (strlen(change_names[i]) == (size_t)(at - text) &&
		    !memcmp(change_names[i], text, (size_t)(at - text))) {
			ret->kind = (enum change_kind)i;
			ret->at = strtoull(at + 1, NULL, 10);
			return true;
		}
	}
	return false;
}
