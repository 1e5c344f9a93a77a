#include "calltrace/runtime/modules.h"

#include <stdatomic.h>
#include <stddef.h>

#include "calltrace/runtime/memory_layout.h"
#include "calltrace/runtime/own_events.h"
#include "watchctl/trace/calls/call_format.h"

static struct traced_module modules[MODULES_MAX];
static atomic_uint nmodules; /* places that were ever used */
static uint32_t next_base;

const struct traced_module *modules_table(uint64_t *used)
{
	*used = (uintptr_t)&nmodules;
	return modules;
}

static uint32_t low_half(const void *p)
{
	return (uint32_t)(uintptr_t)p;
}

static bool modules_overlap(uint32_t low, uint32_t size)
{
	for (unsigned int i = 0; i < nmodules; i++) {
		const struct traced_module *m = &modules[i];

		if (m->size && (low - m->low < m->size || m->low - low < size))
			return true;
	}
	return false;
}

const char *modules_add(const struct calltrace_function *begin, const struct calltrace_function *end,
			uint8_t *on, uint32_t *base)
{
	const uint64_t bytes = (uint64_t)((const char *)end - (const char *)begin),
		       n = bytes / sizeof(*begin);
	unsigned int i = 0;

	if (n > CALL_FUNCTION_MAX || next_base + n > CALL_FUNCTION_MAX)
		return "too many functions were loaded before it";
	if (modules_overlap(low_half(begin), (uint32_t)bytes))
		return "another module lies 4 GB, or a multiple of that, away from it";
	while (i < MODULES_MAX && modules[i].size)
		i++;
	if (i == MODULES_MAX)
		return "too many modules are loaded";
	modules[i].low = low_half(begin);
	modules[i].base = *base = next_base;
	modules[i].begin = begin;
	modules[i].on = on;
	next_base += (uint32_t)n;
	atomic_store(&modules[i].size, (uint32_t)bytes);
	if (i == nmodules)
		atomic_fetch_add(&nmodules, 1);
	return NULL;
}

static struct traced_module *modules_at(const struct calltrace_function *begin)
{
	for (unsigned int i = 0; i < nmodules; i++)
		if (modules[i].size && modules[i].begin == begin)
			return &modules[i];
	return NULL;
}

bool modules_stop(const struct calltrace_function *begin)
{
	struct traced_module *m = modules_at(begin);

	if (m)
		__atomic_store_n(m->on, 0, __ATOMIC_SEQ_CST);
	return m;
}

void modules_remove(const struct calltrace_function *begin)
{
	struct traced_module *m = modules_at(begin);

	if (m)
		atomic_store(&m->size, 0);
}

void modules_switch(bool on)
{
	own_events_switch(on);
	for (unsigned int i = 0; i < nmodules; i++)
		if (modules[i].size)
			__atomic_store_n(modules[i].on, on, __ATOMIC_SEQ_CST);
}

const struct calltrace_function *modules_next(unsigned int *i, const struct calltrace_function **end,
					      uint32_t *base)
{
	const struct traced_module *m;

	while (*i < nmodules && !modules[*i].size)
		++*i;
	if (*i == nmodules)
		return NULL;
	m = &modules[(*i)++];
	*end = m->begin + m->size / sizeof(*m->begin);
	*base = m->base;
	return m->begin;
}

struct module_range modules_range(unsigned int module)
{
	const struct traced_module *m = &modules[module];
	const uint32_t size = atomic_load_explicit(&m->size, memory_order_acquire);

	return (struct module_range){ .low = m->low, .size = size, .base = m->base };
}

static bool modules_has(const struct traced_module *m, uint32_t record)
{
	return record - m->low < atomic_load_explicit(&m->size, memory_order_acquire);
}

const struct calltrace_function *modules_find(uint32_t what, unsigned int *hint, uint32_t *id)
{
	const uint32_t record = what & ~CALLTRACE_KIND_MASK;
	unsigned int i = *hint, n;
	uint32_t index;

	if (!modules_has(&modules[i], record)) {
		n = atomic_load(&nmodules);
		for (i = 0; i < n && !modules_has(&modules[i], record); i++)
			;
		if (i == n)
			return NULL;
		*hint = i;
	}
	index = (record - modules[i].low) / (uint32_t)sizeof(struct calltrace_function);
	*id = modules[i].base + index;
	return modules[i].begin + index;
}
