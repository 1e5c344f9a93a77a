/* Each event is walked over twice: to measure, and to copy. */
#include "watchctl/trace/rows/event_copy.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/log/tracelog_decode.h"
#include "watchctl/trace/log/tracelog_rows.h"
#include "watchctl/trace/log/tracelog_wire.h"

struct copier {
	char *behind; /* NULL: measuring */
	size_t len;
};

/* Keeps aligned what comes behind it. */
static void *copy_bytes(struct copier *c, const void *bytes, size_t n)
{
	void *to = c->behind ? c->behind + c->len : NULL;

	if (!bytes || !n)
		return NULL;
	if (to)
		memcpy(to, bytes, n);
	c->len += (n + 7) & ~(size_t)7;
	return to;
}

static char *copy_text(struct copier *c, const char *s)
{
	return s ? copy_bytes(c, s, strlen(s) + 1) : NULL;
}

/* By hand */

static void copy_watch_enumerators(struct copier *c, const struct trace_event *e, struct trace_event *to)
{
	const struct value_type *t = &e->watch.type;
	struct enumerator *v = copy_bytes(c, t->enumerators, t->nenumerators * sizeof(*v));

	for (size_t i = 0; i < t->nenumerators; i++) {
		char *name = copy_text(c, t->enumerators[i].name);

		if (v)
			v[i].name = name;
	}
	to->watch.type.enumerators = v;
}

static void copy_tag_name(struct copier *c, const struct trace_event *e, struct trace_event *to)
{
	to->tag.name = copy_text(c, e->tag.name);
}

static void copy_probe(struct copier *c, const struct probe_event *e, struct probe_event *to)
{
	to->frame = copy_bytes(c, e->frame, e->nframes * sizeof(*e->frame));
	to->format = copy_text(c, e->format);
	for (unsigned int i = 0; i < PROBE_EVENT_ARGS; i++)
		to->string[i] = copy_text(c, e->string[i]);
}

/* These are numbers. */
#define copy_access_has_old(...)
#define copy_tag_has_name(...)
#define copy_tag_number(...)

/* By the rows */

/* Of a member that is a text; numbers are there already. */
static void copy_member(struct copier *c, bool is_text, const void *from, void *to)
{
	const char *text;

	if (!is_text)
		return;
	memcpy(&text, from, sizeof(text));
	text = copy_text(c, text);
	memcpy(to, &text, sizeof(text));
}

#define COPY(kind, ...) COPY_##kind(__VA_ARGS__)
#define COPY_FIELD(wire, name, member) copy_member(c, WIRE_IS_TEXT(e->member), &e->member, &to->member);
#define COPY_FIELD_IF(wire, name, member, there, otherwise) COPY_FIELD(wire, name, member)
#define COPY_HAND(wire, name, hook) copy_##hook(c, e, to);
#define COPY_BYTES(...)
#define COPY_BUILD_ID(...)
#define COPY_POINTED(wire, name, length, member, len, max) to->member = copy_bytes(c, e->member, e->len);
#define COPY_BUILD_ID_OF(name, member, len) to->member = copy_bytes(c, e->member, e->len);
#define COPY_STACK(in) to->in.frame = copy_bytes(c, e->in.frame, e->in.nframes * sizeof(*e->in.frame));
#define COPY_BEFORE(...)
#define COPY_MORE(...)

/* The decoder's array is of the same structs, without const. */
#define COPY_LIST(name, number, member, n, max, bytes, kept, rows)           \
	{                                                                    \
		typeof(((struct tracelog_decoder *)NULL)->kept) v =          \
			copy_bytes(c, e->member, e->n * sizeof(*e->member)); \
                                                                             \
		for (uint32_t i = 0; i < e->n; i++) {                        \
			const typeof(*e->member) *from = &e->member[i];      \
			typeof(*v) ignored, *it = v ? &v[i] : &ignored;      \
                                                                             \
			rows(ITEM)                                           \
		}                                                            \
		to->member = v;                                              \
	}
#define ITEM(kind, ...) ITEM_##kind(__VA_ARGS__)
#define ITEM_FIELD(wire, name, member) copy_member(c, WIRE_IS_TEXT(from->member), &from->member, &it->member);

#define DEFINE_COPY_EVENT(type, number, name, rows)                                                          \
	static void copy_event_##name(struct copier *c, const struct trace_event *e, struct trace_event *to) \
	{                                                                                                    \
		rows(COPY)                                                                                   \
	}
#define NOTHING(...)

LOG_EVENTS(DEFINE_COPY_EVENT, NOTHING, NOTHING, NOTHING)

#define CASE_COPY(type, number, name, rows)  \
	case type:                           \
		copy_event_##name(c, e, to); \
		break;

static void copy(struct copier *c, const struct trace_event *e, struct trace_event *to)
{
	switch ((unsigned int)e->type) {
		LOG_EVENTS(CASE_COPY, NOTHING, NOTHING, NOTHING)
	case EVENT_PROBE:
		copy_probe(c, &e->probe, &to->probe);
		break;
	default:
		break;
	}
	if (e->type == EVENT_MODULE || e->type == EVENT_MODULE_GONE)
		to->module.open_path = NULL;
}

size_t event_copy_size(const struct trace_event *e)
{
	struct copier c = { NULL, 0 };
	struct trace_event ignored;

	copy(&c, e, &ignored);
	return c.len;
}

void event_copy(const struct trace_event *e, struct trace_event *to, void *behind)
{
	struct copier c = { behind, 0 };

	*to = *e;
	copy(&c, e, to);
}

struct trace_event *event_dup(const struct trace_event *e)
{
	struct trace_event *to = malloc(sizeof(*to) + event_copy_size(e));

	if (to)
		event_copy(e, to, to + 1);
	return to;
}
