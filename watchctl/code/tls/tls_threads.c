/*
 * Part of tls: where new threads begin, and where the first one of a static program gets its thread pointer.
 *
 * Whoever starts a thread calls clone or clone3 with a stack for it; the child goes on behind the system call
 * instruction, and its first instructions are the same for all threads of the process. The instruction is
 * found in the code of the file: every syscall that is reached, in a straight line from the start of its
 * function, with the number of clone or clone3 in eax. A fork is recognised by its empty stack argument.
 *
 * The thread pointer is set by arch_prctl(ARCH_SET_FS), whose two constants are found in the same way. A
 * wrapper that takes them as arguments is not: it serves others.
 *
 * The starts of functions come from .eh_frame and the symbol tables. glibc ends the description of clone
 * before the instruction, since it would be wrong for the child: so a start counts until the next one.
 */
#include "watchctl/base/bisect.h"
#include "watchctl/code/tls/tls.h"

#include <asm/prctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "watchctl/base/fault_guard.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/symbols/symbol_exported.h"
#include "watchctl/code/unwind/cfi_table.h"

/* A function that calls clone is shorter; a start further away is not the start of this one. */
#define FUNCTION_MAX 4096

/* A constant in a register, as far as a straight line of code shows. */
struct constant {
	bool known;
	uint64_t value;
};

struct state {
	struct constant rax, rsi, rdi;
};

/* What is searched, and what has been found. */
struct scan {
	bool (*wanted)(const struct state *at_syscall);
	const uint8_t *code; /* the bytes of [vaddr, vaddr + len) */
	uint64_t vaddr, len;
	uint64_t *start; /* of functions, sorted */
	size_t nstarts, start_cap;
	uint64_t *found; /* file addresses */
	size_t nfound, found_cap;
};

/* "mov $imm32, %eax" and its like for register number @reg (0 rax, 6 rsi, 7 rdi) of the instruction encoding.
 */
static bool sets_constant(const uint8_t *b, size_t len, uint8_t reg, struct constant *c)
{
	int32_t imm;

	/* mov $imm32, %r32 */
	if (len == 5 && b[0] == 0xb8 + reg) {
		memcpy(&imm, b + 1, 4);
		*c = (struct constant){ true, (uint32_t)imm };
		return true;
	}
	/* mov $imm32, %r64 */
	if (len == 7 && b[0] == 0x48 && b[1] == 0xc7 && b[2] == 0xc0 + reg) {
		memcpy(&imm, b + 3, 4);
		*c = (struct constant){ true, (uint64_t)(int64_t)imm };
		return true;
	}
	/* xor %r32, %r32, perhaps of 64 bits */
	if (len == 3 && b[0] == 0x48)
		return sets_constant(b + 1, 2, reg, c);
	if (len == 2 && (b[0] == 0x31 || b[0] == 0x33) && b[1] == 0xc0 + reg * 9) {
		*c = (struct constant){ true, 0 };
		return true;
	}
	/* mov $imm8, %al, as musl does */
	if (len == 2 && b[0] == 0xb0 && reg == 0 && c->known) {
		c->value = (c->value & ~0xffull) | b[1];
		return true;
	}
	return false;
}

static void track(struct constant *c, const uint8_t *b, const struct insn *i, uint8_t number,
		  unsigned int reg)
{
	if (!sets_constant(b, i->len, number, c) && (i->writes >> reg & 1))
		c->known = false;
}

static void tls_threads_step(struct state *s, const uint8_t *b, const struct insn *i)
{
	track(&s->rax, b, i, 0, WREG_RAX);
	track(&s->rsi, b, i, 6, WREG_RSI);
	track(&s->rdi, b, i, 7, WREG_RDI);
	/* Beyond these, code is reached from elsewhere, or comes back changed. */
	if (i->is_call || i->is_ret || i->is_syscall || (i->is_jmp && !i->is_cond))
		*s = (struct state){ 0 };
}

static bool is_thread_start(const struct state *s)
{
	if (!s->rax.known)
		return false;
	if (s->rax.value == SYS_clone3)
		return true;
	return s->rax.value == SYS_clone && !(s->rsi.known && s->rsi.value == 0);
}

static bool sets_thread_pointer(const struct state *s)
{
	return s->rax.known && s->rax.value == SYS_arch_prctl && s->rdi.known && s->rdi.value == ARCH_SET_FS;
}

/* Runs through the code from @from to the system call at @to. False: that is no boundary of instructions. */
static bool tls_threads_follow(const struct scan *s, uint64_t from, uint64_t to, struct state *ret)
{
	*ret = (struct state){ 0 };
	while (from < to) {
		const uint8_t *b = s->code + (from - s->vaddr);
		struct insn i;

		if (!insn_decode(b, s->len - (from - s->vaddr), from, &i))
			return false;
		tls_threads_step(ret, b, &i);
		from += i.len;
	}
	return from == to;
}

/* The last function that starts at or before @vaddr; 0: none near. */
static uint64_t start_before(const struct scan *s, uint64_t vaddr)
{
	size_t low = BISECT(s->nstarts, i, s->start[i] <= vaddr);
	return low && s->start[low - 1] >= s->vaddr && vaddr - s->start[low - 1] < FUNCTION_MAX
		       ? s->start[low - 1]
		       : 0;
}

/* "mov $imm32" to eax, edi, rax or rdi. What is one only without its prefix is excluded by that. */
static bool may_load(const uint8_t *b)
{
	if (b[0] == 0x48)
		return b[1] == 0xc7 && (b[2] == 0xc0 || b[2] == 0xc7);
	return (b[0] == 0xb8 || b[0] == 0xbf) && (b[-1] & 0xf0) != 0x40;
}

/* Without a start: from each place shortly before that may load a constant. */
static bool follow_from_load(const struct scan *s, uint64_t to, struct state *ret)
{
	uint64_t first = to - s->vaddr > 64 ? to - 64 : s->vaddr + 1;

	for (uint64_t at = to - 5; at >= first; at--) {
		const uint8_t *b = s->code + (at - s->vaddr);

		if (may_load(b) && tls_threads_follow(s, at, to, ret) && s->wanted(ret))
			return true;
	}
	return false;
}

/* Looks at the syscall instruction at @at. False: no memory. */
static bool examine(struct scan *s, uint64_t at)
{
	uint64_t start = start_before(s, at);
	struct state state;

	if (start ? !tls_threads_follow(s, start, at, &state)
		  : at - s->vaddr < 6 || !follow_from_load(s, at, &state))
		return true;
	return !s->wanted(&state) || vec_push(s->found, s->nfound, s->found_cap, at + 2);
}

static bool scan_code(struct scan *s)
{
	const uint8_t *at = s->code, *end = s->code + s->len;

	while (end - at >= 2 && (at = memchr(at, 0x0f, (size_t)(end - at - 1)))) {
		if (at[1] == 0x05 && !examine(s, s->vaddr + (uint64_t)(at - s->code)))
			return false;
		at++;
	}
	return true;
}

static bool scan_segments(struct scan *s, Elf *elf)
{
	size_t n = 0, size = 0;
	const char *raw = elf_rawfile(elf, &size);

	if (!raw || elf_getphdrnum(elf, &n) != 0)
		return true;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);

		if (!ph || ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || ph->p_offset > size ||
		    ph->p_filesz > size - ph->p_offset)
			continue;
		s->code = (const uint8_t *)raw + ph->p_offset;
		s->vaddr = ph->p_vaddr;
		s->len = ph->p_filesz;
		if (!scan_code(s))
			return false;
	}
	return true;
}

static bool add_symbol_starts(struct scan *s, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = data && sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;

	for (size_t i = 1; i < n; i++) {
		GElf_Sym sym;

		if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
		    GELF_ST_TYPE(sym.st_info) != STT_FUNC)
			continue;
		if (!vec_push(s->start, s->nstarts, s->start_cap, sym.st_value))
			return false;
	}
	return true;
}

static bool add_fde_starts(struct scan *s, Elf *elf)
{
	struct cfi_table t[2] = { 0 };
	bool ok = true;

	cfi_table_open_eh(&t[0], elf);
	cfi_table_open_debug(&t[1], elf);
	for (unsigned int k = 0; k < 2; k++) {
		struct eh_function f = { 0 };

		while (ok && cfi_table_next(&t[k], &f))
			ok = vec_push(s->start, s->nstarts, s->start_cap, f.start);
		cfi_table_deinit(&t[k]);
	}
	return ok;
}

static int addr_cmp(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool find_starts(struct scan *s, Elf *elf)
{
	if (!add_fde_starts(s, elf))
		return false;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);

		if (sh && (sh->sh_type == SHT_SYMTAB || sh->sh_type == SHT_DYNSYM) &&
		    !add_symbol_starts(s, scn, sh))
			return false;
	}
	if (s->nstarts)
		qsort(s->start, s->nstarts, sizeof(*s->start), addr_cmp);
	return true;
}

static bool has_section(Elf *elf, const char *name)
{
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);
		const char *s = sh ? elf_strptr(elf, names, sh->sh_name) : NULL;

		if (s && strcmp(s, name) == 0)
			return true;
	}
	return false;
}

static bool has_interpreter(Elf *elf)
{
	size_t n = 0;

	if (elf_getphdrnum(elf, &n) != 0)
		return true;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);

		if (ph && ph->p_type == PT_INTERP)
			return true;
	}
	return false;
}

static bool is_static_program(Elf *elf, const struct module *m)
{
	return m->is_program && !has_interpreter(elf);
}

/* A C library, Go's runtime, or a program that has its C library inside. */
static bool makes_threads(Elf *elf, const struct module *m)
{
	GElf_Sym sym;

	if (symbol_exported(elf, "clone", &sym) || has_section(elf, ".gopclntab"))
		return true;
	return is_static_program(elf, m);
}

static bool code_is_unchanged(const struct memory_view *mem, uint64_t addr)
{
	uint8_t b[2];

	return !mem || (memory_read(mem, addr - 2, b, 2) && b[0] == 0x0f && b[1] == 0x05);
}

struct file_scan {
	bool (*may_have)(Elf *elf, const struct module *m);
	const struct module *m;
	struct elffile *file;
	struct scan scan;
};

static void run_scan(void *ctx)
{
	struct file_scan *q = ctx;
	Elf *elf = elffile_state(q->file) == ELFFILE_OK ? elffile_elf(q->file) : NULL;

	/* Without memory for all: none. */
	if (!elf || !q->may_have(elf, q->m) || !find_starts(&q->scan, elf) || !scan_segments(&q->scan, elf))
		q->scan.nfound = 0;
}

static size_t search_module(const struct file_scan *what, const struct memory_view *mem, uint64_t *ret,
			    size_t cap, size_t n)
{
	struct file_scan q = *what;

	q.file = elffile_new(q.m);
	if (q.file && !fault_guarded(run_scan, &q)) {
		q.scan = (struct scan){ 0 };
		elffile_abandon(q.file);
	}
	for (size_t i = 0; i < q.scan.nfound; i++) {
		uint64_t addr = q.scan.found[i] + q.m->bias;

		if (!code_is_unchanged(mem, addr))
			continue;
		if (n < cap)
			ret[n] = addr;
		n++;
	}
	free(q.scan.start);
	free(q.scan.found);
	elffile_free(q.file);
	return n;
}

static size_t tls_threads_search(struct file_scan *what, const struct module_list *modules,
				 const struct memory_view *mem, uint64_t *ret, size_t cap)
{
	size_t n = 0;

	/* Modules are sorted, and so are the addresses in each. */
	for (size_t i = 0; i < modules->n; i++) {
		what->m = &modules->v[i];
		n = search_module(what, mem, ret, cap, n);
	}
	return n;
}

size_t thread_start_addresses(const struct module_list *modules, const struct memory_view *mem, uint64_t *ret,
			      size_t cap)
{
	struct file_scan what = { .may_have = makes_threads, .scan.wanted = is_thread_start };

	return tls_threads_search(&what, modules, mem, ret, cap);
}

size_t thread_pointer_addresses(const struct module_list *modules, const struct memory_view *mem,
				uint64_t *ret, size_t cap)
{
	struct file_scan what = { .may_have = is_static_program, .scan.wanted = sets_thread_pointer };

	return tls_threads_search(&what, modules, mem, ret, cap);
}
