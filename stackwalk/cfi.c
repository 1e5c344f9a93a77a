/*
 * Rules are kept per code address, as they are asked for again and again. A change of the modules
 * drops them all: it is rare, and a rule says nothing about the module it came from.
 *
 * .eh_frame, found by binary search in .eh_frame_hdr, is tried first. Modules without it (Go), or without it
 * for some functions, may have .debug_frame, perhaps in a separate debug file: that is opened only then.
 * Functions that never move their stack need neither (cfi_leaf).
 */
#include "stackwalk/cfi.h"

#include <stdlib.h>
#include <string.h>

#include <elfutils/libdw.h>
#include <gelf.h>

#include "stackwalk/cfi_fde.h"
#include "stackwalk/cfi_leaf.h"
#include "stackwalk/cfi_rule.h"
#include "stackwalk/elffile.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

struct cfi_module {
	uint64_t start, end, bias;
	struct elffile *file;
	bool eh_opened, debug_opened, indexed;
	Dwarf_CFI *eh;	  /* ours */
	Dwarf_CFI *debug; /* its Dwarf's */
	uint64_t debug_bias;
	const uint8_t *image; /* the file's bytes */
	size_t image_size;
	struct fde_index functions;
};

struct cfi {
	struct cfi_module **v;
	size_t n, cap;
	struct map64 rules; /* address -> struct unwind_rule */
};

struct cfi *cfi_new(void)
{
	return calloc(1, sizeof(struct cfi));
}

static void forget_rules(struct cfi *c)
{
	for (size_t i = 0; i < c->rules.cap; i++)
		if (c->rules.slot[i].used)
			free(c->rules.slot[i].value);
	map64_deinit(&c->rules);
}

static void module_free(struct cfi_module *m)
{
	if (!m)
		return;
	fde_index_deinit(&m->functions);
	if (m->eh)
		dwarf_cfi_end(m->eh);
	elffile_free(m->file);
	free(m);
}

static void module_freep(struct cfi_module **m)
{
	module_free(*m);
}

void cfi_free(struct cfi *c)
{
	if (!c)
		return;
	forget_rules(c);
	for (size_t i = 0; i < c->n; i++)
		module_free(c->v[i]);
	free(c->v);
	free(c);
}

static struct cfi_module *find_module(const struct cfi *c, uint64_t pc)
{
	for (size_t i = 0; i < c->n; i++)
		if (pc >= c->v[i]->start && pc < c->v[i]->end)
			return c->v[i];
	return NULL;
}

void cfi_remove(struct cfi *c, uint64_t start, uint64_t end)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (c->v[i]->end <= start || c->v[i]->start >= end)
			c->v[kept++] = c->v[i];
		else
			module_free(c->v[i]);
	}
	if (kept != c->n)
		forget_rules(c);
	c->n = kept;
}

bool cfi_add(struct cfi *c, const struct module *m)
{
	struct cfi_module *old = find_module(c, m->start);
	scoped(module_freep) struct cfi_module *new = NULL;

	if (old && old->start == m->start && old->end == m->end && old->bias == m->bias &&
	    elffile_is_for(old->file, m))
		return true;
	new = calloc(1, sizeof(*new));
	if (!new || !(new->file = elffile_new(m)))
		return false;
	new->start = m->start;
	new->end = m->end;
	new->bias = m->bias;
	cfi_remove(c, m->start, m->end);
	if (!vec_reserve((void **)&c->v, &c->cap, c->n + 1, sizeof(struct cfi_module *)))
		return false;
	c->v[c->n++] = take_ptr(new);
	/* Addresses that were nobody's until now have been remembered as such. */
	forget_rules(c);
	return true;
}

static void open_eh(struct cfi_module *m)
{
	Elf *elf;

	if (m->eh_opened)
		return;
	m->eh_opened = true;
	/* A debug file alone has neither .eh_frame nor code. */
	if (elffile_state(m->file) != ELFFILE_OK || !(elf = elffile_elf(m->file)))
		return;
	m->eh = dwarf_getcfi_elf(elf);
	m->image = (const uint8_t *)elf_rawfile(elf, &m->image_size);
}

static void open_debug(struct cfi_module *m)
{
	Dwarf *dwarf;

	if (m->debug_opened)
		return;
	m->debug_opened = true;
	dwarf = elffile_dwarf(m->file, &m->debug_bias);
	m->debug = dwarf ? dwarf_getcfi(dwarf) : NULL;
}

/* The bytes that the file has from @vaddr on, and in *@len how many; NULL: none. */
static const uint8_t *file_bytes(const struct cfi_module *m, uint64_t vaddr, size_t *len)
{
	Elf *elf = elffile_elf(m->file);
	size_t nsegments;
	GElf_Phdr p;

	if (!m->image || elf_getphdrnum(elf, &nsegments) != 0)
		return NULL;
	for (size_t i = 0; i < nsegments; i++) {
		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD || vaddr < p.p_vaddr ||
		    vaddr - p.p_vaddr >= p.p_filesz || p.p_filesz > m->image_size ||
		    p.p_offset > m->image_size - p.p_filesz)
			continue;
		*len = p.p_filesz - (vaddr - p.p_vaddr);
		return m->image + p.p_offset + (vaddr - p.p_vaddr);
	}
	return NULL;
}

/*
 * The code that a signal handler returns to: mov rax, 15 (rt_sigreturn); syscall. musl has no CFI for it,
 * Go's does not say that it is a signal frame. @pc is in it, or, as a return address minus one, just before
 * it.
 */
static bool is_sigreturn(const struct cfi_module *m, uint64_t vaddr)
{
	static const uint8_t code[2][9] = { { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 },
					    { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 } };
	static const uint8_t length[2] = { 9, 7 };

	for (unsigned int i = 0; i < 2; i++) {
		const uint64_t start[] = { vaddr + 1, vaddr, vaddr - (length[i] - 2) };

		for (unsigned int k = 0; k < 3; k++) {
			size_t len;
			const uint8_t *p = file_bytes(m, start[k], &len);

			if (p && len >= length[i] && memcmp(p, code[i], length[i]) == 0)
				return true;
		}
	}
	return false;
}

/* Assembly often gives its symbols no size: where the function ends, only its code tells. */
static bool leaf_rule(const struct cfi_module *m, uint64_t vaddr, struct unwind_rule *ret)
{
	Dwfl_Module *mod = elffile_dwfl(m->file);
	const uint8_t *code;
	GElf_Off offset;
	GElf_Sym sym;
	size_t len;

	if (!mod || !dwfl_module_addrinfo(mod, vaddr, &offset, &sym, NULL, NULL, NULL) ||
	    GELF_ST_TYPE(sym.st_info) != STT_FUNC)
		return false;
	code = file_bytes(m, vaddr - offset, &len);
	return code && cfi_leaf_rule(code, len, offset, ret);
}

static void rule_from_module(struct cfi_module *m, uint64_t pc, struct unwind_rule *ret)
{
	uint64_t vaddr = pc - m->bias;
	Dwarf_Frame *frame = NULL;

	open_eh(m);
	if (is_sigreturn(m, vaddr)) {
		ret->kind = UNWIND_SIGFRAME;
		return;
	}
	if (!m->eh || dwarf_cfi_addrframe(m->eh, vaddr, &frame) != 0) {
		open_debug(m);
		if (!m->debug || dwarf_cfi_addrframe(m->debug, vaddr - m->debug_bias, &frame) != 0) {
			leaf_rule(m, vaddr, ret);
			return;
		}
	}
	cfi_rule_from_frame(frame, ret);
	free(frame);
}

void cfi_rule(struct cfi *c, uint64_t pc, struct unwind_rule *ret)
{
	struct unwind_rule *known = map64_get(&c->rules, pc);
	struct cfi_module *m;

	if (known) {
		*ret = *known;
		return;
	}
	*ret = (struct unwind_rule){ .kind = UNWIND_NO_RULE };
	m = find_module(c, pc);
	if (m)
		rule_from_module(m, pc, ret);
	/* Without memory to remember it, it is worked out again next time. */
	known = malloc(sizeof(*known));
	if (!known)
		return;
	*known = *ret;
	if (!map64_put(&c->rules, pc, known))
		free(known);
}

static void index_functions(struct cfi_module *m)
{
	Elf *elf;

	if (m->indexed)
		return;
	m->indexed = true;
	open_eh(m);
	elf = m->eh ? elffile_elf(m->file) : NULL;
	if (elf)
		fde_index_add(&m->functions, elf, ".eh_frame", 0);
	if (!m->functions.n) {
		open_debug(m);
		if (m->debug)
			fde_index_add(&m->functions, dwarf_getelf(elffile_dwarf(m->file, &m->debug_bias)),
				      ".debug_frame", m->debug_bias);
	}
	fde_index_sort(&m->functions);
}

bool cfi_function(struct cfi *c, uint64_t pc, uint64_t *start, uint64_t *end)
{
	struct cfi_module *m = find_module(c, pc);
	const struct fde_range *range;

	if (!m)
		return false;
	index_functions(m);
	range = fde_index_find(&m->functions, pc - m->bias);
	if (!range)
		return false;
	*start = range->start + m->bias;
	*end = range->end + m->bias;
	return true;
}

#define WINDOW 512u

/* A walk reads many words that lie close together; each read of another process is a system call. */
struct stack_window {
	const struct memory_view *mem;
	uint64_t start;
	bool valid;
	uint8_t bytes[WINDOW];
};

static bool window_read(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct stack_window *w = ctx;
	uint64_t start = addr & ~(uint64_t)(WINDOW - 1);

	if (addr - start > WINDOW - 8)
		return memory_read(w->mem, addr, ret, 8);
	if (!w->valid || w->start != start) {
		w->start = start;
		w->valid = memory_read(w->mem, start, w->bytes, WINDOW);
	}
	if (!w->valid)
		return memory_read(w->mem, addr, ret, 8);
	memcpy(ret, w->bytes + (addr - start), 8);
	return true;
}

static enum walk_end end_of(enum unwind_step_result step)
{
	switch (step) {
	case UNWIND_STEP_END:
		return WALK_END_COMPLETE;
	case UNWIND_STEP_UNREADABLE:
		return WALK_END_UNREADABLE;
	default:
		return WALK_END_NO_RULE;
	}
}

unsigned int cfi_walk(struct cfi *c, const struct regs *regs, const struct memory_view *mem, uint64_t *frame,
		      unsigned int cap, enum walk_end *why)
{
	struct stack_window window = { .mem = mem };
	struct regs at = *regs;
	bool exact = true; /* rip is where execution is, not where a call returns to */
	unsigned int n = 1;

	frame[0] = at.r[WREG_RIP];
	*why = WALK_END_DEPTH;
	while (n < cap) {
		struct unwind_rule rule;
		uint64_t rsp = at.r[WREG_RSP];
		enum unwind_step_result step;

		cfi_rule(c, at.r[WREG_RIP] - !exact, &rule);
		step = unwind_step(&rule, &at, window_read, &window);
		if (step != UNWIND_STEP_OK) {
			*why = end_of(step);
			break;
		}
		exact = rule.kind == UNWIND_SIGFRAME;
		if (!exact && at.r[WREG_RIP] == 0) {
			*why = WALK_END_COMPLETE;
			break;
		}
		/* A signal handler may run on a stack of its own, anywhere. */
		if (!exact && at.r[WREG_RSP] <= rsp) {
			*why = WALK_END_NOT_ASCENDING;
			break;
		}
		frame[n++] = at.r[WREG_RIP];
	}
	return n;
}
