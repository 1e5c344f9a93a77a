#include "watchctl/trace/tags/tag_table.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"

struct tag_name {
	struct tag_name *next; /* same hash */
	uint32_t id;
	char text[];
};

static void tag_table_forget(struct tag_table *t)
{
	struct tag_name *n, *next;
	size_t i;

	for (i = 0; i < t->names.cap; i++) {
		for (n = t->names.slot[i].used ? t->names.slot[i].value : NULL; n; n = next) {
			next = n->next;
			free(n);
		}
	}
	map64_deinit(&t->names);
	map64_deinit(&t->numbers);
}

void tag_table_deinit(struct tag_table *t)
{
	tag_table_forget(t);
	*t = (struct tag_table){ 0 };
}

static void make_room(struct tag_table *t)
{
	if (t->numbers.n + t->names.n >= TAG_TABLE_MAX)
		tag_table_forget(t);
}

static struct wc_error *tag_table_report(const struct event_sink *sink, uint64_t time_ns,
					 struct tag_event tag)
{
	struct trace_event e = { .type = EVENT_TAG, .time_ns = time_ns, .tag = tag };

	return sink->put(sink->ctx, &e);
}

struct wc_error *tag_table_name(struct tag_table *t, const char *name, const struct event_sink *sink,
				uint64_t time_ns, uint32_t *ret)
{
	uint64_t hash = hash_text(HASH_START, name);
	size_t len = strlen(name) + 1;
	struct tag_name *n;

	for (n = map64_get(&t->names, hash); n; n = n->next) {
		if (!strcmp(n->text, name)) {
			*ret = n->id;
			return NULL;
		}
	}
	make_room(t);
	n = malloc(sizeof(*n) + len);
	if (!n)
		return &wc_enomem;
	n->id = t->next;
	n->next = map64_get(&t->names, hash);
	memcpy(n->text, name, len);
	if (!map64_put(&t->names, hash, n)) {
		free(n);
		return &wc_enomem;
	}
	*ret = t->next++;
	return tag_table_report(sink, time_ns, (struct tag_event){ .id = *ret, .name = name });
}

struct wc_error *tag_table_number(struct tag_table *t, uint64_t number, const struct event_sink *sink,
				  uint64_t time_ns, uint32_t *ret)
{
	uintptr_t known = (uintptr_t)map64_get(&t->numbers, number);

	if (known) {
		*ret = (uint32_t)(known - 1);
		return NULL;
	}
	make_room(t);
	if (!map64_put(&t->numbers, number, (void *)((uintptr_t)t->next + 1)))
		return &wc_enomem;
	*ret = t->next++;
	return tag_table_report(sink, time_ns, (struct tag_event){ .id = *ret, .number = number });
}
