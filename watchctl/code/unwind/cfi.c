/*
 * Rules are kept per code address, as they are asked for again and again. A change of the modules
 * drops them all: it is rare, and a rule says nothing about the module it came from.
 *
 * .eh_frame, found by binary search in .eh_frame_hdr, is tried first. Modules without it (Go), or without it
 * for some functions, may have .debug_frame, perhaps in a separate debug file: that is opened only then.
 * Functions that never move their stack need neither (cfi_leaf).
 *
 * The files are those of a program that nobody vouches for. libelf and libdw find the sections; what is in
 * them we read ourselves (cfi_table).
 */
#include "watchctl/code/unwind/cfi.h"

#include <stdlib.h>
#include <string.h>

#include <elfutils/libdw.h>
#include <gelf.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/fault_guard.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/insn/call_site.h"
#include "watchctl/code/unwind/cfi_entry.h"
#include "watchctl/code/unwind/cfi_frame.h"
#include "watchctl/code/unwind/cfi_leaf.h"
#include "watchctl/code/unwind/cfi_table.h"
#include "watchctl/code/unwind/unwind_slice.h"

struct cfi_module {
	uint64_t start, end, bias;
	struct elffile *file; /* NULL: code that no file is behind */
	char *path;
	bool eh_opened, debug_opened, has_code;
	struct cfi_table eh, debug;
	uint64_t debug_bias;
};

struct cfi {
	struct cfi_module **v;
	size_t n, cap;
	struct map64 rules; /* address -> struct unwind_rule */
	bool rules_only;
	struct unwind_slice *slice; /* NULL: not needed yet */
};

struct cfi *cfi_new(void)
{
	return calloc(1, sizeof(struct cfi));
}

static void forget_rules(struct cfi *c)
{
	map64_deinit_values(&c->rules, free);
}

static void module_free(struct cfi_module *m)
{
	if (!m)
		return;
	cfi_table_deinit(&m->eh);
	cfi_table_deinit(&m->debug);
	elffile_free(m->file);
	free(m->path);
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
	unwind_slice_free(c->slice);
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

static bool is_for(const struct cfi_module *c, const struct module *m)
{
	if (c->start != m->start || c->end != m->end || c->bias != m->bias)
		return false;
	return c->file ? elffile_is_for(c->file, m) : module_is_jit(m);
}

bool cfi_add(struct cfi *c, const struct module *m)
{
	struct cfi_module *old = find_module(c, m->start);
	scoped(module_freep) struct cfi_module *new = NULL;

	if (old && is_for(old, m))
		return true;
	new = calloc(1, sizeof(*new));
	if (!new || !(new->path = strdup(m->path)) || (!module_is_jit(m) && !(new->file = elffile_new(m))))
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
	m->has_code = true;
	cfi_table_open_eh(&m->eh, elf);
}

static void open_debug(struct cfi_module *m)
{
	Dwarf *dwarf;

	if (m->debug_opened)
		return;
	m->debug_opened = true;
	dwarf = elffile_dwarf(m->file, &m->debug_bias);
	if (dwarf)
		cfi_table_open_debug(&m->debug, dwarf_getelf(dwarf));
}

/* The bytes that the file has from @vaddr on, and in *@len how many; NULL: none. */
static const uint8_t *file_bytes(const struct cfi_module *m, uint64_t vaddr, size_t *len)
{
	return m->has_code ? cfi_file_bytes(elffile_elf(m->file), vaddr, len) : NULL;
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

/*
 * By the code of the function that a symbol names. Assembly often gives its symbols no size: where the
 * function ends, only its code shows it.
 */
static bool function_rule(const struct cfi_module *m, uint64_t vaddr, struct unwind_rule *ret)
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
	return code && (cfi_leaf_rule(code, len, offset, ret) || cfi_frame_rule(code, len, offset, ret));
}

/* By what follows, where no symbol names the function. @vaddr is an instruction, or the last byte of a call.
 */
static bool rule_ahead(const struct cfi_module *m, uint64_t vaddr, struct unwind_rule *ret)
{
	size_t len, before;
	const uint8_t *code = file_bytes(m, vaddr + 1 - CALL_SITE_MAX, &before);

	if (code && before >= CALL_SITE_MAX && call_site_ends(code, CALL_SITE_MAX))
		vaddr++;
	code = file_bytes(m, vaddr, &len);
	return code && cfi_frame_rule_ahead(code, len, ret);
}

static bool is_in_plt(Elf *elf, uint64_t vaddr)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name;

		if (!gelf_getshdr(scn, &shdr) || vaddr < shdr.sh_addr || vaddr - shdr.sh_addr >= shdr.sh_size)
			continue;
		name = elf_strptr(elf, names, shdr.sh_name);
		if (name && strncmp(name, ".plt", 4) == 0)
			return true;
	}
	return false;
}

/* The linker gives static programs stubs without a table: [endbr64] [bnd] jmp [rip + x]. They leave all as it
 * is. */
static bool stub_rule(const struct cfi_module *m, uint64_t vaddr, struct unwind_rule *ret)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t len, at = 0;
	const uint8_t *code = file_bytes(m, vaddr, &len);

	if (!code || len < sizeof(endbr64) + 3)
		return false;
	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		at = sizeof(endbr64);
	at += code[at] == 0xf2;
	if (code[at] != 0xff || code[at + 1] != 0x25 || !is_in_plt(elffile_elf(m->file), vaddr))
		return false;
	*ret = (struct unwind_rule){ .kind = UNWIND_CFA_REG, .cfa_reg = WREG_RSP, .cfa_off = 8 };
	for (unsigned int i = 0; i < UNWIND_SAVES; i++)
		ret->save[i] = UNWIND_SAME;
	ret->save[UNWIND_SAVE_RA] = -1;
	return true;
}

static bool has_tag(Elf *elf, GElf_Sxword tag, GElf_Xword bits)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	GElf_Dyn dyn;

	while ((scn = elf_nextscn(elf, scn))) {
		Elf_Data *data;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNAMIC ||
		    !(data = elf_getdata(scn, NULL)))
			continue;
		for (int i = 0; gelf_getdyn(data, i, &dyn); i++)
			if (dyn.d_tag == tag)
				return dyn.d_un.d_val & bits;
	}
	return false;
}

/* The path of the loader that the program of @elf asks for, in *@len bytes; NULL: none. */
static const char *interpreter(Elf *elf, size_t *len)
{
	size_t n, size;
	const char *image = elf_rawfile(elf, &size);
	GElf_Phdr p;

	if (!image || elf_getphdrnum(elf, &n) != 0)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_INTERP)
			continue;
		if (!p.p_filesz || p.p_filesz > size || p.p_offset > size - p.p_filesz)
			return NULL;
		*len = strnlen(image + p.p_offset, p.p_filesz);
		return image + p.p_offset;
	}
	return NULL;
}

static bool ends_with_name_of(const char *path, size_t len, const char *file)
{
	const char *slash = memrchr(path, '/', len), *base = strrchr(file, '/');

	if (!slash || !base)
		return false;
	len -= (size_t)(slash - path);
	return strlen(base) == len && memcmp(slash, base, len) == 0;
}

/* The kernel begins a process in its program, or in the loader that this asks for: not in a library. */
static bool may_be_entered(const struct cfi *c, const struct cfi_module *m)
{
	Elf *elf = elffile_elf(m->file);
	GElf_Ehdr e;
	size_t len;

	if (!elf || !gelf_getehdr(elf, &e))
		return false;
	if (e.e_type == ET_EXEC || interpreter(elf, &len) || has_tag(elf, DT_FLAGS_1, DF_1_PIE))
		return true;
	for (size_t i = 0; i < c->n; i++) {
		Elf *other = c->v[i]->file ? elffile_elf(c->v[i]->file) : NULL;
		const char *path = other ? interpreter(other, &len) : NULL;

		if (path && ends_with_name_of(path, len, m->path))
			return true;
	}
	return false;
}

static bool is_entry(const struct cfi *c, const struct cfi_module *m, uint64_t vaddr)
{
	Elf *elf = elffile_elf(m->file);
	const uint8_t *code;
	GElf_Ehdr e;
	size_t len;

	if (!elf || !gelf_getehdr(elf, &e) || vaddr < e.e_entry || vaddr - e.e_entry >= CFI_ENTRY_MAX)
		return false;
	code = file_bytes(m, e.e_entry, &len);
	return code && cfi_is_entry_code(code, len, vaddr - e.e_entry) && may_be_entered(c, m);
}

/* @vaddr is a return address less one. */
static bool is_context_start(const struct cfi_module *m, uint64_t vaddr)
{
	size_t len, before;
	const uint8_t *code = file_bytes(m, vaddr + 1, &len);
	const uint8_t *call = file_bytes(m, vaddr + 1 - CALL_SITE_MAX, &before);

	return code && cfi_is_context_start(code, len) && call && before >= CALL_SITE_MAX &&
	       !call_site_ends(call, CALL_SITE_MAX);
}

/* Compilers of the JIT kind keep frame pointers, if anything; the walker can see when they do not. */
static void jit_rule(struct unwind_rule *ret)
{
	*ret = (struct unwind_rule){ .kind = UNWIND_FP };
	for (unsigned int i = 0; i < UNWIND_SAVES; i++)
		ret->save[i] = UNWIND_SAME;
	ret->save[UNWIND_SAVE_RBP] = -2;
	ret->save[UNWIND_SAVE_RA] = -1;
}

/* Code that no table describes: what the code itself proves. */
static void rule_from_code(const struct cfi *c, const struct cfi_module *m, uint64_t vaddr,
			   struct unwind_rule *ret)
{
	if (is_entry(c, m, vaddr) || is_context_start(m, vaddr))
		ret->kind = UNWIND_OUTERMOST;
	else if (!stub_rule(m, vaddr, ret) && !function_rule(m, vaddr, ret))
		rule_ahead(m, vaddr, ret);
}

static void rule_from_module(const struct cfi *c, struct cfi_module *m, uint64_t pc, struct unwind_rule *ret)
{
	uint64_t vaddr = pc - m->bias;

	if (!m->file) {
		jit_rule(ret);
		return;
	}
	open_eh(m);
	if (is_sigreturn(m, vaddr)) {
		ret->kind = UNWIND_SIGFRAME;
		return;
	}
	if (cfi_table_rule(&m->eh, vaddr, ret))
		return;
	open_debug(m);
	if (!cfi_table_rule(&m->debug, vaddr - m->debug_bias, ret))
		rule_from_code(c, m, vaddr, ret);
}

/* What is asked of a module, whose file may make the libraries that read it fault. */
struct question {
	struct cfi *c;
	struct cfi_module *m;
	uint64_t pc, start, end;
	struct unwind_rule rule;
	void *bytes; /* of which @len are wanted */
	size_t len;
	bool is;
};

static void run_rule(void *ctx)
{
	struct question *q = ctx;

	rule_from_module(q->c, q->m, q->pc, &q->rule);
}

static void cfi_ask(struct question *q, void (*run)(void *ctx))
{
	struct question none = *q;

	if (fault_guarded(run, q))
		return;
	*q = none;
	q->m->eh_opened = q->m->debug_opened = true;
	q->m->has_code = false;
	q->m->eh = q->m->debug = (struct cfi_table){ 0 };
	if (q->m->file)
		elffile_abandon(q->m->file);
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
	if (m) {
		struct question q = { .c = c, .m = m, .pc = pc, .rule = *ret };

		cfi_ask(&q, run_rule);
		*ret = q.rule;
	}
	/* Without memory to remember it, it is worked out again next time. */
	known = malloc(sizeof(*known));
	if (!known)
		return;
	*known = *ret;
	if (!map64_put(&c->rules, pc, known))
		free(known);
}

static void run_function(void *ctx)
{
	struct question *q = ctx;
	struct cfi_module *m = q->m;
	const struct eh_function *f;
	uint64_t bias = m->bias;

	open_eh(m);
	f = cfi_table_function(&m->eh, q->pc - bias);
	if (!cfi_table_has_functions(&m->eh)) {
		open_debug(m);
		bias += m->debug_bias;
		f = cfi_table_function(&m->debug, q->pc - bias);
	}
	if (!f)
		return;
	q->is = true;
	q->start = f->start + bias;
	q->end = f->end + bias;
}

bool cfi_function(struct cfi *c, uint64_t pc, uint64_t *start, uint64_t *end)
{
	struct question q = { .c = c, .m = find_module(c, pc), .pc = pc };

	if (!q.m || !q.m->file)
		return false;
	cfi_ask(&q, run_function);
	if (!q.is)
		return false;
	*start = q.start;
	*end = q.end;
	return true;
}

static void run_code(void *ctx)
{
	struct question *q = ctx;
	const uint8_t *code;
	size_t len;

	open_eh(q->m);
	code = file_bytes(q->m, q->pc - q->m->bias, &len);
	if (!code || len < q->len)
		return;
	memcpy(q->bytes, code, q->len);
	q->is = true;
}

bool cfi_code(struct cfi *c, uint64_t addr, void *buf, size_t len)
{
	struct question q = { .c = c, .m = find_module(c, addr), .pc = addr, .bytes = buf, .len = len };

	if (!q.m || !q.m->file)
		return false;
	cfi_ask(&q, run_code);
	return q.is;
}

/* What libunwind is asked. */
struct table_step {
	struct question q; /* first: it is what cfi_ask() is given. pc: the row's address */
	const struct memory_view *mem;
	struct regs regs;
	bool exact;
	enum unwind_step_result result;
};

/* The tables are asked in the order in which rules are. Addresses in @ret count as *row does. */
static bool program_of(struct cfi_module *m, uint64_t pc, uint64_t *row, struct unwind_program *ret)
{
	*row = pc - m->bias;
	open_eh(m);
	if (cfi_table_program(&m->eh, *row, ret))
		return true;
	open_debug(m);
	*row -= m->debug_bias;
	return cfi_table_program(&m->debug, *row, ret);
}

static void run_has_table(void *ctx)
{
	struct question *q = ctx;
	struct unwind_program program;
	uint64_t row;

	q->is = program_of(q->m, q->pc, &row, &program);
}

bool cfi_has_table_only(struct cfi *c, uint64_t pc)
{
	struct question q = { .c = c, .m = find_module(c, pc), .pc = pc };
	struct unwind_rule rule;

	cfi_rule(c, pc, &rule);
	if (rule.kind != UNWIND_NO_RULE || c->rules_only || !q.m || !q.m->file)
		return false;
	cfi_ask(&q, run_has_table);
	return q.is;
}

static void run_table_step(void *ctx)
{
	struct table_step *s = ctx;
	struct unwind_program program;
	uint64_t row;

	if (program_of(s->q.m, s->q.pc, &row, &program))
		s->result = unwind_slice_step(s->q.c->slice, &program, row, s->exact, s->mem, &s->regs);
	s->q.is = true;
}

/* JIT code is not in a file: who can read it may look. */
static bool may_return_to(struct cfi *c, uint64_t pc)
{
	const struct cfi_module *m = find_module(c, pc);
	uint8_t code[CALL_SITE_MAX];

	if (!m || !m->file)
		return m;
	return cfi_code(c, pc - sizeof(code), code, sizeof(code)) && call_site_ends(code, sizeof(code));
}

enum unwind_step_result cfi_step_by_table(struct cfi *c, bool exact, const struct memory_view *mem,
					  struct regs *regs)
{
	uint64_t pc = regs->r[WREG_RIP] - !exact, sp = regs->r[WREG_RSP];
	struct table_step s = { .q = { .c = c, .m = find_module(c, pc), .pc = pc },
				.mem = mem,
				.regs = *regs,
				.exact = exact,
				.result = UNWIND_STEP_NO_RULE };

	if (!s.q.m || !cfi_has_table_only(c, pc) || (!c->slice && !(c->slice = unwind_slice_new())))
		return UNWIND_STEP_NO_RULE;
	cfi_ask(&s.q, run_table_step);
	if (!s.q.is)
		c->slice = NULL; /* lost, as all that was under way */
	if (!s.q.is || s.result != UNWIND_STEP_OK || !may_return_to(c, s.regs.r[WREG_RIP]))
		return UNWIND_STEP_NO_RULE;
	/* Only where all registers are known may the return address be in one, and nothing on the stack. */
	if (s.regs.r[WREG_RSP] < sp || (s.regs.r[WREG_RSP] == sp && !exact))
		return UNWIND_STEP_NO_RULE;
	*regs = s.regs;
	return UNWIND_STEP_OK;
}

void cfi_use_rules_only(struct cfi *c)
{
	c->rules_only = true;
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
		bool by_table;

		cfi_rule(c, at.r[WREG_RIP] - !exact, &rule);
		step = unwind_step(&rule, &at, window_read, &window);
		by_table = step == UNWIND_STEP_NO_RULE;
		if (by_table)
			step = cfi_step_by_table(c, exact, mem, &at);
		if (step != UNWIND_STEP_OK) {
			*why = end_of(step);
			break;
		}
		exact = rule.kind == UNWIND_SIGFRAME;
		/* A signal handler may run on a stack of its own, anywhere. */
		if (!exact && !by_table && at.r[WREG_RSP] <= rsp) {
			*why = WALK_END_NOT_ASCENDING;
			break;
		}
		if (!exact && at.r[WREG_RIP] == 0) {
			*why = WALK_END_COMPLETE;
			break;
		}
		frame[n++] = at.r[WREG_RIP];
	}
	return n;
}
