#include "watchctl/patch/apply/code_pages.h"

#include "watchctl/target/proc/proc.h"

bool code_pages_flush(struct code_pages *c)
{
	bool ok = !c->dirty || proc_write_force(c->pid, c->start, c->bytes, sizeof(c->bytes));

	c->failed |= !ok;
	c->dirty = false;
	c->start = 0;
	return ok;
}

uint8_t *code_pages_at(struct code_pages *c, uint64_t addr)
{
	const struct memory_view mem = proc_memory(&c->pid);
	uint64_t page = addr / PROBE_PAGE * PROBE_PAGE;

	if (c->start != page) {
		if (!code_pages_flush(c) || !memory_read(&mem, page, c->bytes, sizeof(c->bytes)))
			return NULL;
		c->start = page;
	}
	return c->bytes + (addr - page);
}

void code_pages_change(struct code_pages *c)
{
	c->dirty = true;
}
