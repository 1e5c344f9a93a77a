#include "watchctl/engine/perf/kernel_symbols.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/base/vec.h"

struct symbol {
	uint64_t addr;
	uint32_t name; /* offset in names */
	bool is_code, is_global;
};

struct kernel_symbols {
	struct symbol *v;
	size_t n, cap;
	struct text_buf names; /* each with its NUL */
	bool loaded;
};

struct kernel_symbols *kernel_symbols_new(void)
{
	return calloc(1, sizeof(struct kernel_symbols));
}

void kernel_symbols_free(struct kernel_symbols *s)
{
	if (!s)
		return;
	free(s->v);
	text_buf_deinit(&s->names);
	free(s);
}

static bool kernel_symbols_add(struct kernel_symbols *s, uint64_t addr, char type, const char *name)
{
	struct symbol sym = {
		.addr = addr,
		.name = (uint32_t)s->names.len,
		.is_code = strchr("tTwW", type),
		.is_global = strchr("TW", type),
	};

	text_buf_put(&s->names, name, strlen(name) + 1);
	return !s->names.failed && vec_push(s->v, s->n, s->cap, sym);
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* Of several names for one place, a global one; of those, the one that the kernel lists first. */
	if (x->is_global != y->is_global)
		return x->is_global ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static void kernel_symbols_load(struct kernel_symbols *s)
{
	scoped(fclosep) FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long long addr;
	char line[512], name[256], type;

	s->loaded = true;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %c %255s", &addr, &type, name) == 3 && addr &&
		    !kernel_symbols_add(s, addr, type, name))
			break;
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_address);
}

const char *kernel_symbols_find(struct kernel_symbols *s, uint64_t addr, uint64_t *start)
{
	size_t lo = 0, hi;

	if (!s->loaded)
		kernel_symbols_load(s);
	hi = s->n;
	while (lo < hi) { /* the first that lies above */
		size_t mid = lo + (hi - lo) / 2;

		if (s->v[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	while (lo > 1 && s->v[lo - 2].addr == s->v[lo - 1].addr)
		lo--;
	if (!s->v[lo - 1].is_code)
		return NULL;
	if (start)
		*start = s->v[lo - 1].addr;
	return s->names.bytes + s->v[lo - 1].name;
}
