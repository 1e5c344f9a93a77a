/* The stacks of waits as numbers for the script, each once. */
#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/cli/flow/graph/flow_stack_words.h"
#include "watchctl/cli/flow/graph/flow_wait_stacks.h"
#include "watchctl/cli/flow/page/flow_page_impl.h"
#include "watchctl/view/callpage/callpage_texts.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/export/export_text.h"
#include "watchctl/view/page/page_bytes.h"
#include "watchctl/view/words/view_words.h"

/* "take_order  app.c:17" */
static uint64_t frame_text(struct flow_page *p, const struct view_frame *f, bool *ok)
{
	struct text_buf text = { 0 };
	char source[300];
	uint64_t number;

	export_text_frame(&text, f);
	text_source(f->file, f->line, source, sizeof(source));
	if (!source[0] && f->function && f->module)
		text_source(f->module, 0, source, sizeof(source));
	if (source[0])
		text_buf_printf(&text, "  %s", source);
	if (f->inlined)
		text_buf_add(&text, "  (inlined)");
	*ok = *ok && !text.failed;
	number = callpage_text(&p->texts, text_buf_text(&text), ok);
	text_buf_deinit(&text);
	return number;
}

static void put(struct flow_page *p, uint64_t v, bool *ok)
{
	*ok = *ok && page_bytes_number(&p->stack_bytes, v);
}

static void put_stack(struct flow_page *p, const struct flow_wait_stack *stack, bool *ok)
{
	char own[200];
	const bool has_own = flow_stack_function(stack, own, sizeof(own));

	put(p, callpage_text(&p->texts, has_own ? own : NULL, ok), ok);
	put(p, callpage_text(&p->texts, text_walk_end(stack->end), ok), ok);
	put(p, stack->n, ok);
	for (size_t i = 0; *ok && i < stack->n; i++)
		put(p, frame_text(p, &stack->frame[i], ok), ok);
}

uint64_t flow_page_stack(struct flow_page *p, const struct flow_wait_stack *stack, bool *ok)
{
	const struct flow_wait_stacks *all = &p->s->stacks;
	uint32_t *number;

	if (!stack)
		return 0;
	if (!p->stack)
		p->stack = calloc(all->nstacks, sizeof(*p->stack));
	if (!p->stack) {
		*ok = false;
		return 0;
	}
	number = &p->stack[stack - all->stack];
	if (!*number) {
		*number = (uint32_t)++p->stacks;
		put_stack(p, stack, ok);
	}
	return *number;
}
