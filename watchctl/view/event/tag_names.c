#include "watchctl/view/event/tag_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tag with its text behind it; @name is NULL for a number. */
static struct view_tag *make(uint32_t id, const char *name, const char *text, uint64_t number)
{
	size_t len = strlen(text) + 1;
	struct view_tag *tag = malloc(sizeof(*tag) + len);
	char *copy;

	if (!tag)
		return NULL;
	copy = (char *)(tag + 1);
	memcpy(copy, text, len);
	*tag = (struct view_tag){ .id = id, .name = name ? copy : NULL, .number = number, .text = copy };
	return tag;
}

static struct view_tag *tag_names_keep(struct tag_names *t, struct view_tag *tag)
{
	if (tag && !map64_put(&t->by_id, tag->id, tag)) {
		free(tag);
		return NULL;
	}
	return tag;
}

bool tag_names_add(struct tag_names *t, const struct tag_event *e)
{
	char number[24];

	/* Views hold on to the first one: a log that gives an id twice is not one of ours. */
	if (map64_get(&t->by_id, e->id))
		return true;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)e->number);
	return tag_names_keep(t, make(e->id, e->name, e->name ? e->name : number, e->number)) != NULL;
}

struct view_tag *tag_names_get(struct tag_names *t, uint32_t id)
{
	struct view_tag *tag = map64_get(&t->by_id, id);
	char name[24];

	if (tag)
		return tag;
	snprintf(name, sizeof(name), "tag %u", id);
	return tag_names_keep(t, make(id, name, name, 0));
}

void tag_names_deinit(struct tag_names *t)
{
	map64_deinit_values(&t->by_id, free);
}

bool tag_is(const struct view_tag *tag, const char *text)
{
	unsigned long long number;
	char *end;

	if (!strcmp(tag->text, text))
		return true;
	if (tag->name || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	number = strtoull(text, &end, 0);
	return !errno && !*end && number == tag->number;
}
