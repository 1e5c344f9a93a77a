#include "watchctl/view/table/probe_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

/* No log numbers its tags that high; see STACK_TREE_CALLS, which is above all of them. */
#define FIRST_TAG 0xc0000000u
#define TAGS_MAX 4096 /* a format is no tag, but a log that is not one of ours may have any */

static struct view_tag *tag_of(struct probe_stacks *s, const char *text)
{
	const size_t len = strlen(text) + 1;
	struct view_tag *tag;
	char *copy;
	size_t i;

	for (i = 0; i < s->n; i++)
		if (!strcmp(s->tag[i]->text, text))
			return s->tag[i];
	tag = s->n < TAGS_MAX ? malloc(sizeof(*tag) + len) : NULL;
	if (!tag)
		return NULL;
	copy = memcpy(tag + 1, text, len);
	*tag = (struct view_tag){ .id = FIRST_TAG + (uint32_t)s->n, .name = copy, .text = copy };
	if (!vec_push(s->tag, s->n, s->cap, tag)) {
		free(tag);
		return NULL;
	}
	return tag;
}

bool probe_stacks_capture(struct probe_stacks *s, const struct view_probe *p, struct capture_event *raw,
			  struct view_capture *ret)
{
	const struct probe_event *e = p->raw;
	const bool has_tag = e->kind == PROBE_KIND_STACK && e->format, has_value = e->kind != PROBE_KIND_LOG;
	struct view_tag *tag = tag_of(s, has_tag ? e->format : p->site->probe);

	if (!tag)
		return false;
	tag->captures++;
	*raw = (struct capture_event){
		.tag = tag->id,
		.pid = e->pid,
		.tid = e->tid,
		.has_value = has_value && e->nargs,
		.withheld = has_value && e->withheld,
		.value = has_value && e->nargs ? e->arg[0] : 0,
		.walk_end = e->walk_end,
		.nframes = e->nframes,
		.frame = e->frame,
	};
	*ret = (struct view_capture){
		.time = p->time,
		.raw = raw,
		.tag = tag,
		.comm = p->comm,
		.frame = p->frame,
		.nframes = p->nframes,
		.walk_end = p->walk_end,
	};
	return true;
}

void probe_stacks_add(struct probe_stacks *s, struct stack_trees *t, const struct view_probe *p)
{
	struct capture_event raw;
	struct view_capture c;

	if (!p->has_stack)
		return;
	if (probe_stacks_capture(s, p, &raw, &c))
		stack_trees_add_capture(t, &c);
	else
		t->incomplete = true;
}

void probe_stacks_deinit(struct probe_stacks *s)
{
	while (s->n)
		free(s->tag[--s->n]);
	free(s->tag);
	*s = (struct probe_stacks){ 0 };
}
