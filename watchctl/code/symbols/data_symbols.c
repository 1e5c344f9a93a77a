#include "watchctl/code/symbols/data_symbols.h"

#include <elf.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/symbols/symbols.h"

struct reading {
	Elf *elf;
	struct data_symbol *v;
	size_t n, cap;
};

/* Whether [addr, addr + size) is written to by the program itself. */
static bool is_writable(Elf *elf, uint64_t addr, uint64_t size)
{
	bool writable = false;
	size_t n = 0;

	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *p = gelf_getphdr(elf, (int)i, &mem);

		if (!p || addr < p->p_vaddr || addr - p->p_vaddr >= p->p_memsz ||
		    size > p->p_memsz - (addr - p->p_vaddr))
			continue;
		if (p->p_type == PT_GNU_RELRO)
			return false;
		writable |= p->p_type == PT_LOAD && (p->p_flags & PF_W);
	}
	return writable;
}

static bool add(struct reading *r, const struct symbol *s)
{
	struct data_symbol add = { .addr = s->addr, .size = s->size };
	char *plain;

	if (s->use != SYMBOL_DATA || !s->size || !s->name || !*s->name ||
	    !is_writable(r->elf, s->addr, s->size))
		return true;
	/* "stdout@GLIBC_2.2.5": the version says nothing about the variable. */
	plain = strndup(s->name, strcspn(s->name, "@"));
	add.name = plain ? demangle_or_copy(plain) : NULL;
	free(plain);
	if (add.name && vec_push(r->v, r->n, r->cap, add))
		return true;
	free(add.name);
	return false;
}

/* Of several names of one object, the same in every run. */
static int compare(const void *a, const void *b)
{
	const struct data_symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void drop_overlaps(struct reading *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		const struct data_symbol *last = kept ? &r->v[kept - 1] : NULL;

		if (last && r->v[i].addr < last->addr + last->size)
			free(r->v[i].name);
		else
			r->v[kept++] = r->v[i];
	}
	r->n = kept;
}

static struct wc_error *read_all(struct reading *r, struct elffile *f)
{
	struct symbols *symbols;
	const struct symbol *all;
	bool ok = true;
	size_t n;

	r->elf = elffile_state(f) == ELFFILE_OK ? elffile_elf(f) : NULL;
	if (!r->elf)
		return NULL;
	symbols = symbols_new(f);
	if (!symbols)
		return &wc_enomem;
	all = symbols_all(symbols, &n);
	for (size_t i = 0; ok && i < n; i++)
		ok = add(r, &all[i]);
	symbols_free(symbols);
	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), compare);
	drop_overlaps(r);
	return ok ? NULL : &wc_enomem;
}

struct wc_error *data_symbols_read(const struct module *m, struct data_symbol **ret, size_t *n)
{
	struct elffile *f = elffile_new(m);
	struct reading r = { 0 };
	struct wc_error *err = f ? read_all(&r, f) : &wc_enomem;

	elffile_free(f);
	if (err) {
		data_symbols_free(r.v, r.n);
		return err;
	}
	*ret = r.v;
	*n = r.n;
	return NULL;
}

void data_symbols_free(struct data_symbol *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].name);
	free(v);
}
