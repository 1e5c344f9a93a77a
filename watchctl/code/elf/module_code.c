#include "watchctl/code/elf/module_code.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/fault_guard.h"
#include "watchctl/code/elf/elffile.h"

struct module_code {
	struct elffile *file;
	uint64_t bias;
};

struct module_code *module_code_new(const struct module *m)
{
	struct module_code *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->bias = m->bias;
	c->file = elffile_new(m);
	if (!c->file) {
		free(c);
		return NULL;
	}
	return c;
}

void module_code_free(struct module_code *c)
{
	if (!c)
		return;
	elffile_free(c->file);
	free(c);
}

/* Where in the file the bytes of [vaddr, vaddr + len) are. */
static bool file_offset(Elf *elf, uint64_t vaddr, size_t len, uint64_t *ret)
{
	size_t i, n;

	if (elf_getphdrnum(elf, &n))
		return false;
	for (i = 0; i < n; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD || vaddr < p.p_vaddr)
			continue;
		if (vaddr - p.p_vaddr > p.p_filesz || len > p.p_filesz - (vaddr - p.p_vaddr))
			continue;
		*ret = p.p_offset + (vaddr - p.p_vaddr);
		return true;
	}
	return false;
}

struct reading {
	struct module_code *c;
	uint64_t addr;
	void *buf;
	size_t len;
	bool is_read;
};

static void run_read(void *ctx)
{
	struct reading *r = ctx;
	uint64_t offset;
	const char *raw;
	size_t size;
	Elf *elf;

	/* A debug file alone has no code in it. */
	if (elffile_state(r->c->file) != ELFFILE_OK || !(elf = elffile_elf(r->c->file)))
		return;
	raw = elf_rawfile(elf, &size);
	if (!raw || !file_offset(elf, r->addr - r->c->bias, r->len, &offset) || offset > size ||
	    r->len > size - offset)
		return;
	memcpy(r->buf, raw + offset, r->len);
	r->is_read = true;
}

bool module_code_read(struct module_code *c, uint64_t addr, void *buf, size_t len)
{
	struct reading r = { c, addr, buf, len, false };

	if (!fault_guarded(run_read, &r))
		elffile_abandon(c->file);
	return r.is_read;
}
