/* How a field is shown follows from the word of tracelog_wire.h for how it is stored. */
#include "watchctl/trace/rows/event_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_rows.h"
#include "watchctl/trace/log/tracelog_wire.h"

struct visit {
	void (*each)(void *ctx, const struct event_field *f);
	void *ctx;
};

/* A row, as the preprocessor has it. */
struct row {
	const char *name, *wire;
	bool is_text;
	const void *member;
	size_t size;
};

/* Words */

#define WORDS_OF(wire, least, most) { #wire, CTF_DECLARE_##wire },

static const struct {
	const char *wire, *text;
} enumerations[] = { LOG_ENUMS(WORDS_OF){ "recording_withheld", CTF_recording_withheld },
		     { "recording_inputs", CTF_recording_inputs },
		     { "withheld", CTF_DECLARE_withheld } };

/* In "enum x : uint8_t { none = 0, \"some\" = 1 };" what stands before "= @value". */
static void find_word(const char *text, uint64_t value, char *word, size_t cap)
{
	for (const char *at = strchr(text, '='); at; at = strchr(at + 1, '=')) {
		const char *end = at - 1, *start;

		if (strtoull(at + 1, NULL, 10) != value)
			continue;
		if (end[-1] == '"')
			end--;
		for (start = end; !strchr(" \t\n\"{", start[-1]); start--)
			;
		snprintf(word, cap, "%.*s", (int)(end - start), start);
		return;
	}
	snprintf(word, cap, "%llu", (unsigned long long)value);
}

/* Fields */

static void put_text(const struct visit *v, const char *name, const char *text)
{
	const struct event_field f = { .name = name, .kind = FIELD_TEXT, .text = text };

	if (text && *text)
		v->each(v->ctx, &f);
}

static void put_bytes(const struct visit *v, const char *name, const void *bytes, size_t len)
{
	const struct event_field f = { .name = name, .kind = FIELD_BYTES, .bytes = bytes, .len = len };

	if (len)
		v->each(v->ctx, &f);
}

static bool put_word(const struct visit *v, const struct row *r, uint64_t value)
{
	struct event_field f = { .name = r->name, .kind = FIELD_TEXT };

	for (size_t i = 0; i < sizeof(enumerations) / sizeof(*enumerations); i++) {
		if (strcmp(enumerations[i].wire, r->wire) != 0)
			continue;
		find_word(enumerations[i].text, value, f.word, sizeof(f.word));
		f.text = f.word;
		v->each(v->ctx, &f);
		return true;
	}
	return false;
}

/* Little endian. */
static void put_number(const struct visit *v, const struct row *r)
{
	struct event_field f = { .name = r->name, .kind = FIELD_NUMBER };
	unsigned int unused = 64;

	if (r->size > sizeof(f.number))
		return; /* registers */
	memcpy(&f.number, r->member, r->size);
	if (put_word(v, r, f.number))
		return;
	if (r->wire[0] == 'i') {
		f.kind = FIELD_SIGNED;
		unused -= 8 * (unsigned int)r->size;
		f.i = (int64_t)(f.number << unused) >> unused;
	} else if (r->wire[0] == 'h') {
		f.kind = FIELD_HEX;
	} else if (!strcmp(r->wire, "flag")) {
		f.kind = FIELD_FLAG;
	}
	v->each(v->ctx, &f);
}

static void put_member(const struct visit *v, const struct row *r)
{
	const char *text;

	if (!r->is_text) {
		put_number(v, r);
		return;
	}
	memcpy(&text, r->member, sizeof(text));
	put_text(v, r->name, text);
}

/* Rows */

#define ROW(wire, name, member)                                               \
	{                                                                     \
#name, #wire, WIRE_IS_TEXT(member), &(member), sizeof(member) \
	}

#define VISIT(kind, ...) VISIT_##kind(__VA_ARGS__)
#define VISIT_FIELD(wire, name, member) put_member(v, &(struct row)ROW(wire, name, e->member));
#define VISIT_FIELD_IF(wire, name, member, there, otherwise) \
	if (e->there)                                        \
	VISIT_FIELD(wire, name, member)
#define VISIT_BYTES(name, length, member, len) put_bytes(v, #name, e->member, e->len);
#define VISIT_POINTED(wire, name, length, member, len, max) put_bytes(v, #name, e->member, e->len);
#define VISIT_BUILD_ID(name, member, len) put_bytes(v, #name, e->member, e->len);
#define VISIT_BUILD_ID_OF(name, member, len) put_bytes(v, #name, e->member, e->len);
#define VISIT_LIST(...)
#define VISIT_STACK(...)
#define VISIT_BEFORE(...)
#define VISIT_MORE(...)
#define VISIT_HAND(...)

#define DEFINE_VISIT(type, number, name, rows)                                       \
	static void visit_##name(const struct visit *v, const struct trace_event *e) \
	{                                                                            \
		rows(VISIT)                                                          \
	}
#define NOTHING(...)

LOG_EVENTS(DEFINE_VISIT, NOTHING, NOTHING, NOTHING)

#define CASE_VISIT(type, number, name, rows) \
	case type:                           \
		visit_##name(&v, e);         \
		break;

void event_fields(const struct trace_event *e, void (*each)(void *ctx, const struct event_field *f),
		  void *ctx)
{
	const struct visit v = { each, ctx };

	switch ((unsigned int)e->type) {
		LOG_EVENTS(CASE_VISIT, NOTHING, NOTHING, NOTHING)
	default:
		break;
	}
}

#define CASE_NAME(type, number, name, rows) \
	case type:                          \
		return #name;

const char *event_name(enum event_type type)
{
	switch ((unsigned int)type) {
		LOG_EVENTS(CASE_NAME, CASE_NAME, CASE_NAME, NOTHING)
	default:
		return NULL;
	}
}

struct thread_found {
	int32_t pid, tid;
	bool found;
};

static void look_for_thread(void *ctx, const struct event_field *f)
{
	struct thread_found *t = ctx;

	if (!strcmp(f->name, "pid"))
		t->pid = (int32_t)f->i;
	if (strcmp(f->name, "tid") != 0)
		return;
	t->tid = (int32_t)f->i;
	t->found = true;
}

bool event_thread(const struct trace_event *e, int32_t *pid, int32_t *tid)
{
	struct thread_found t = { 0 };

	event_fields(e, look_for_thread, &t);
	*pid = t.pid;
	*tid = t.tid;
	return t.found;
}
