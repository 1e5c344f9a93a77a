#include "watchctl/cli/flow/explain_stack.h"

#include <stdlib.h>

#include "watchctl/base/map64.h"
#include "watchctl/view/event/frames.h"
#include "watchctl/view/event/trampolines.h"

struct named_process {
	struct map64 no_code;
	struct trampolines trampolines;
	struct frames frames;
};

struct explain_stacks {
	struct map64 process; /* pid -> struct named_process, owned */
};

struct explain_stacks *explain_stacks_new(void)
{
	return calloc(1, sizeof(struct explain_stacks));
}

static void free_process(void *value)
{
	struct named_process *p = value;

	frames_deinit(&p->frames);
	trampolines_deinit(&p->trampolines);
	map64_deinit(&p->no_code);
	free(p);
}

void explain_stacks_free(struct explain_stacks *s)
{
	if (!s)
		return;
	map64_deinit_values(&s->process, free_process);
	free(s);
}

void explain_stacks_freep(struct explain_stacks **s)
{
	explain_stacks_free(*s);
}

static struct named_process *process_of(struct explain_stacks *s, const struct look_process *p)
{
	struct named_process *n = map64_get(&s->process, (uint64_t)p->pid);

	if (n || !(n = calloc(1, sizeof(*n))))
		return n;
	frames_init(&n->frames, p->symbolizer, &n->no_code, &n->trampolines);
	for (size_t i = 0; i < p->modules.n; i++)
		trampolines_add(&n->trampolines, &p->modules.v[i]);
	if (map64_put(&s->process, (uint64_t)p->pid, n))
		return n;
	free_process(n);
	return NULL;
}

const struct view_frame *explain_stack(struct explain_stacks *s, const struct explained *x, unsigned int most,
				       size_t *n)
{
	unsigned int count = x->thread->nframes;
	uint64_t addr[LOOK_FRAMES];
	struct named_process *p;

	*n = 0;
	if (most && count > most)
		count = most;
	if (!count || !(p = process_of(s, x->process)))
		return NULL;
	for (unsigned int i = 0; i < count; i++)
		addr[i] = x->thread->frame[i].ip;
	if (!frames_expand_at(&p->frames, addr, count))
		return NULL;
	*n = p->frames.n;
	return p->frames.v;
}

enum walk_end explain_stack_end(const struct explained *x, unsigned int most)
{
	return most && x->thread->nframes > most ? WALK_END_DEPTH : x->thread->end;
}
