#include "watchctl/cli/flow/graph/flow_stack_words.h"

#include <stdio.h>

#include "watchctl/base/utf8.h"
#include "watchctl/code/symbols/bare_name.h"
#include "watchctl/code/unwind/unwind_rule.h"
#include "watchctl/flow/explain/c_library.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/print/print_json.h"
#include "watchctl/view/words/view_words.h"

#define FRAMES_MOST 8u /* in words */

void flow_stack_print(struct printer *p, const struct flow_wait_stack *stack)
{
	const bool is_long = stack && stack->n > FRAMES_MOST;

	if (!stack)
		return;
	printer_stack(p, stack->frame, is_long ? FRAMES_MOST : stack->n,
		      is_long ? WALK_END_COMPLETE : stack->end);
	if (is_long)
		printf("        ... and %zu more (--json has them)\n", stack->n - FRAMES_MOST);
}

/* Addresses in modules are the log's own (flow_stack_tag.h), and would say nothing. */
void flow_stack_json(struct json *j, const struct flow_wait_stack *stack)
{
	if (!stack)
		return;
	json_open(j, "stack", '[');
	for (size_t i = 0; i < stack->n; i++)
		print_json_frame(j, &stack->frame[i], !stack->frame[i].module);
	json_close(j, ']');
	json_text(j, "stack_end", text_walk_end_name(stack->end));
}

const struct view_frame *flow_stack_own(const struct flow_wait_stack *stack)
{
	for (size_t i = 0; stack && i < stack->n; i++) {
		const struct view_frame *f = &stack->frame[i];

		if (f->function && !(f->module && c_library_has(text_base_name(f->module))))
			return f;
	}
	return NULL;
}

bool flow_stack_function(const struct flow_wait_stack *stack, char *buf, size_t cap)
{
	const struct view_frame *own = flow_stack_own(stack);
	char bare[300];

	if (own)
		utf8_clean(bare_name(own->function, bare, sizeof(bare)), buf, cap);
	return own != NULL;
}
