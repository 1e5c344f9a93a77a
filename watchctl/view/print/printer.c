#include "watchctl/view/print/printer_impl.h"

#include <stdlib.h>

struct view printer_view(struct printer *p)
{
	return (struct view){ .ops = p->ops, .ctx = p };
}

void printer_sites(struct printer *p, const struct sites *s)
{
	if (p->ops->sites)
		p->ops->sites(p, s);
}

void printer_probes(struct printer *p, const struct probe_totals *t)
{
	if (p->ops->probes)
		p->ops->probes(p, t);
}

void printer_tags(struct printer *p, const struct tag_totals *t)
{
	if (p->ops->tags)
		p->ops->tags(p, t);
}

void printer_stacks(struct printer *p, const struct stack_trees *t)
{
	if (p->ops->stacks)
		p->ops->stacks(p, t);
}

void printer_steps(struct printer *p, const struct step_totals *t)
{
	if (p->ops->steps)
		p->ops->steps(p, t);
}

void printer_flush(struct printer *p)
{
	if (p->flush)
		p->flush(p);
}

void printer_idle(struct printer *p)
{
	if (p->step.waits && p->step.was_idle)
		printer_flush(p);
	p->step.was_idle = true;
}

void printer_free(struct printer *p)
{
	if (!p)
		return;
	json_deinit(&p->json);
	text_buf_deinit(&p->step.name);
	text_buf_deinit(&p->step.args);
	text_buf_deinit(&p->step.inputs);
	free(p);
}

void printer_freep(struct printer **p)
{
	printer_free(*p);
}
