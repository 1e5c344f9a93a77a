/* The part of probe_image.h that looks at the code: whether it uses registers that are not saved for it. */
#include <string.h>

#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_regs.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/patch/probe/probe_image_impl.h"

/* PROBE_USES_VECTOR of probe/probe.h; what saves the registers and calls what is there; and what reads some where they are. */
#define SECTION "probe_vector"
#define GATE "probe_with_vector_"
#define READER "probe_reads_vector_"

struct code_check {
	const struct probe_elf *elf;
	const struct probe_image *image;
	struct probe_symbols symbols;
	uint64_t start, end; /* of the functions that may use vector registers */
	uint64_t looked_at;
};

/*
 * What insn_regs_find() does not name, by how its name begins: of the x87 and MMX f and emms, of AVX and its masks v and k.
 * Nothing else that a program may execute begins so, but verr and verw.
 */
static bool name_shows(const char *name)
{
	return *name == 'f' || (*name == 'v' && strncmp(name, "ver", 3) != 0) || *name == 'k' ||
	       !strcmp(name, "emms") || !strcmp(name, "ldmxcsr") || !strncmp(name, "xrstor", 6);
}

/* mm0 to mm7 */
static bool is_mmx(const uint8_t *code, size_t len)
{
	char text[96];

	insn_text(INSN_INTEL, code, len, 0, text, sizeof(text));
	return strstr(text, " mm") != NULL;
}

static bool uses_vectors(const uint8_t *code, size_t len, const struct insn_brief *b)
{
	struct insn_regs r;

	return name_shows(insn_scan_name(b->name)) || is_mmx(code, b->len) ||
	       (insn_regs_find(code, len, &r) && (r.vector_reads || r.vector_writes));
}

static struct wc_error *check_function(const struct code_check *c, const char *name, uint64_t at,
				       uint64_t end)
{
	const uint8_t *bytes = c->image->bytes;
	struct insn_brief b;

	for (; at < end && insn_scan(bytes + at, end - at, at, &b); at += b.len) {
		if (uses_vectors(bytes + at, end - at, &b))
			return probe_image_refuse(
				c->elf->name,
				"%s() uses vector or x87 registers, which are saved for a PROBE_VECTOR() only (and "
				"PROBE_USES_VECTOR stands before what that calls; the rest is compiled with "
				"-mgeneral-regs-only)",
				name);
		if (b.has_target && b.target >= c->start && b.target < c->end)
			return probe_image_refuse(
				c->elf->name,
				"%s() calls what uses vector registers, which are saved for a PROBE_VECTOR() only",
				name);
	}
	return NULL;
}

static struct wc_error *check_symbol(struct code_check *c, const Elf64_Sym *sym)
{
	const char *name = probe_elf_symbol_name(&c->symbols, sym);

	if (ELF64_ST_TYPE(sym->st_info) != STT_FUNC || sym->st_shndx == SHN_UNDEF ||
	    sym->st_value > c->image->code_size || sym->st_size > c->image->code_size - sym->st_value)
		return NULL;
	c->looked_at += sym->st_size;
	if (c->looked_at > 2 * c->image->code_size) /* else a damaged file may keep us for hours */
		return probe_image_refuse(c->elf->name, "its functions lie one over another");
	if ((sym->st_value >= c->start && sym->st_value < c->end) || !strcmp(name, GATE) ||
	    !strcmp(name, READER))
		return NULL;
	return check_function(c, name, sym->st_value, sym->st_value + sym->st_size);
}

/* What PROBE() defines is called from a trampoline, wherever it stands. */
static bool holds_probe(const struct code_check *c)
{
	for (size_t i = 0; i < c->image->nfunctions; i++)
		if (c->image->function[i].at >= c->start && c->image->function[i].at < c->end)
			return true;
	return false;
}

struct wc_error *probe_elf_check_code(const struct probe_elf *e, const struct probe_image *i)
{
	struct code_check c = { .elf = e, .image = i };
	struct wc_error *err = NULL;

	if (!probe_elf_symbols(e, SHT_SYMTAB, &c.symbols))
		return NULL;
	probe_elf_span(e, SECTION, &c.start, &c.end);
	if (holds_probe(&c))
		return probe_image_refuse(e->name, "a PROBE() stands where only PROBE_VECTOR() may");
	for (size_t k = 1; k < c.symbols.n && !err; k++)
		err = check_symbol(&c, &c.symbols.v[k]);
	return err;
}
