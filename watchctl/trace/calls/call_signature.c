#include "watchctl/trace/calls/call_signature.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/trace/calls/signature_text.h"

/* Reading: lines, whose ends are made NULs. */
struct reading {
	struct signature_types *types;
	struct event_sink sink;
	uint64_t time_ns;
	char *at;
	struct wc_error *err;
};

/* The next line, or NULL. */
static char *take_line(struct reading *r)
{
	char *line = r->at, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	r->at = end + 1;
	return line;
}

static enum type_kind kind_of(char c)
{
	switch ((enum signature_kind)c) {
	case SIGNATURE_SIGNED:
		return TYPE_SIGNED;
	case SIGNATURE_UNSIGNED:
		return TYPE_UNSIGNED;
	case SIGNATURE_BOOL:
		return TYPE_BOOL;
	case SIGNATURE_CHAR:
		return TYPE_CHAR;
	case SIGNATURE_FLOAT:
		return TYPE_FLOAT;
	case SIGNATURE_ENUM:
	case SIGNATURE_SIGNED_ENUM:
		return TYPE_ENUM;
	case SIGNATURE_POINTER:
		return TYPE_POINTER;
	case SIGNATURE_STRING:
		return TYPE_STRING;
	case SIGNATURE_ARRAY:
		return TYPE_ARRAY;
	case SIGNATURE_VOID:
		return TYPE_VOID;
	case SIGNATURE_CODE:
		return TYPE_CODE;
	case SIGNATURE_OTHER:
		break;
	}
	return TYPE_UNKNOWN;
}

static uint64_t hash_line(uint64_t h, const char *line)
{
	return hash_bytes(hash_text(h, line), "\n", 1);
}

/* "=3 NAME" lines up to ".". */
static uint32_t take_enumerators(struct reading *r, struct enumerator *ret, uint64_t *hash)
{
	uint32_t n = 0;
	char *line, *end;

	while ((line = take_line(r)) && *line == SIGNATURE_ENUMERATOR) {
		*hash = hash_line(*hash, line);
		if (n == SIGNATURE_ENUMERATORS_MAX)
			continue;
		ret[n].value = strtoll(line + 1, &end, 10);
		ret[n++].name = *end ? end + 1 : end;
	}
	return n;
}

/* Puts a type; returns its id, or NO_TYPE. @hash: of its text, at the end. */
static uint32_t take_type(struct reading *r, unsigned int depth, uint64_t *hash)
{
	struct enumerator enumerator[SIGNATURE_ENUMERATORS_MAX];
	struct trace_event e = { .type = EVENT_TYPE, .time_ns = r->time_ns };
	struct type_event *type = &e.type_info;
	char *line = take_line(r), *name;
	void *known;

	if (!line || !*line || depth > SIGNATURE_DEPTH_MAX + 1)
		return NO_TYPE;
	*hash = hash_line(HASH_START, line);
	*type = (struct type_event){ .kind = kind_of(*line), .target = NO_TYPE };
	type->is_signed = *line == SIGNATURE_SIGNED_ENUM;
	type->size = (uint32_t)strtoul(line + 1, &name, 10);
	type->name = *name ? name + 1 : NULL;
	if (type->kind == TYPE_ENUM) {
		type->nenumerators = take_enumerators(r, enumerator, hash);
		type->enumerator = enumerator;
	} else if (type->kind == TYPE_POINTER || type->kind == TYPE_STRING || type->kind == TYPE_ARRAY) {
		uint64_t of = 0;

		type->target = take_type(r, depth + 1, &of);
		*hash = hash_bytes(*hash, &of, sizeof(of));
	}
	known = map64_get(&r->types->by_text, *hash);
	if (known)
		return (uint32_t)((uintptr_t)known - 1);
	type->id = r->types->n++;
	if (!r->err)
		r->err = r->sink.put(r->sink.ctx, &e);
	if (!map64_put(&r->types->by_text, *hash, (void *)((uintptr_t)type->id + 1)))
		r->err = wc_error_first(r->err, &wc_enomem);
	return type->id;
}

struct wc_error *call_signature_read(struct signature_types *t, const char *text, uint64_t time_ns,
				     struct event_sink sink, struct call_signature *ret)
{
	struct reading r = { .types = t, .sink = sink, .time_ns = time_ns };
	uint64_t hash;
	char *name;

	*ret = (struct call_signature){ .return_type = NO_TYPE, .text = strdup(text) };
	if (!ret->text)
		return &wc_enomem;
	r.at = ret->text;
	ret->return_type = take_type(&r, 0, &hash);
	while (ret->nparams < FUNCTION_PARAMS_MAX && (name = take_line(&r)) && *name == SIGNATURE_PARAM) {
		struct function_param *p = &ret->param[ret->nparams++];

		p->name = name[1] ? name + 1 : NULL;
		p->type = take_type(&r, 0, &hash);
	}
	return r.err;
}

void call_signature_deinit(struct call_signature *s)
{
	free(s->text);
}

void signature_types_deinit(struct signature_types *t)
{
	map64_deinit(&t->by_text);
	*t = (struct signature_types){ 0 };
}
