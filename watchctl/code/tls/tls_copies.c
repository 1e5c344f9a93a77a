/*
 * Part of tls: where threads get their copies of the variables of a library that was loaded later.
 *
 * The loader's __tls_get_addr is asked for the address of such a copy: by code of the general dynamic model, TLS
 * descriptors, dlsym. If the thread has no copy yet, that function calls another, which allocates the block and enters it
 * in the thread's vector (glibc since 2.26, sysdeps/x86_64/tls_get_addr.S). So behind that call the copy is there, and
 * nobody has been given its address.
 */
#include <string.h>

#include "watchctl/base/fault_guard.h"
#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/symbols/symbol_exported.h"
#include "watchctl/code/tls/tls.h"
#include "watchctl/code/unwind/cfi_table.h"

#define FUNCTION_MAX 256 /* glibc's has 61 bytes */
#define CALLS_MAX 4

struct search {
	struct elffile *file;
	uint64_t vaddr, len; /* of the function */
	uint8_t code[FUNCTION_MAX];
	uint64_t after[CALLS_MAX]; /* its calls, as file addresses */
	size_t n;		   /* 0: there is no such function, or it is not understood */
};

static bool leaves(const struct search *s, const struct insn *i)
{
	return i->is_jmp && (!i->has_target || i->target - s->vaddr >= s->len);
}

/* Where it leaves by a jump, the copy is made behind its back: glibc before 2.26. */
static bool find_calls(struct search *s)
{
	uint64_t at = 0;
	struct insn i;

	for (; at < s->len; at += i.len) {
		if (!insn_decode(s->code + at, s->len - at, s->vaddr + at, &i) || leaves(s, &i))
			return false;
		if (!i.is_call)
			continue;
		if (s->n == CALLS_MAX)
			return false;
		s->after[s->n++] = s->vaddr + at + i.len;
	}
	return at == s->len && s->n;
}

static void run_search(void *ctx)
{
	struct search *s = ctx;
	const uint8_t *code;
	size_t len = 0;
	GElf_Sym sym;

	if (elffile_state(s->file) != ELFFILE_OK ||
	    !symbol_exported(elffile_elf(s->file), "__tls_get_addr", &sym) || sym.st_size > FUNCTION_MAX)
		return;
	code = cfi_file_bytes(elffile_elf(s->file), sym.st_value, &len);
	if (!code || len < sym.st_size)
		return;
	s->vaddr = sym.st_value;
	s->len = sym.st_size;
	memcpy(s->code, code, s->len);
	if (!find_calls(s))
		s->n = 0;
}

/* Somebody's breakpoint in it, or another file: then what the file says does not hold. */
static bool is_as_in_file(const struct search *s, const struct memory_view *mem, uint64_t bias)
{
	uint8_t there[FUNCTION_MAX];

	return memory_read(mem, s->vaddr + bias, there, s->len) && !memcmp(there, s->code, s->len);
}

size_t tls_copy_addresses(const struct module_list *modules, const struct memory_view *mem, uint64_t *ret,
			  size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < modules->n; i++) {
		struct search s = { .file = elffile_new(&modules->v[i]) };

		if (s.file && !fault_guarded(run_search, &s)) {
			s.n = 0;
			elffile_abandon(s.file);
		}
		elffile_free(s.file);
		if (!s.n || !is_as_in_file(&s, mem, modules->v[i].bias))
			continue;
		for (size_t k = 0; k < s.n; k++, n++)
			if (n < cap)
				ret[n] = s.after[k] + modules->v[i].bias;
	}
	return n;
}
