#include "watchctl/view/event/trampolines.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module_code.h"

struct trampoline_module {
	uint64_t start, end;
	struct module_code *code;
};

/* mov $__NR_rt_sigreturn, %rax; syscall: every libc's and Go's. */
static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };

bool trampoline_code(const uint8_t *code, size_t len)
{
	return len >= sizeof(sigreturn) && !memcmp(code, sigreturn, sizeof(sigreturn));
}

void trampolines_remove(struct trampolines *t, uint64_t start, uint64_t end)
{
	size_t i, kept = 0;

	for (i = 0; i < t->n; i++) {
		if (t->v[i].start < end && t->v[i].end > start)
			module_code_free(t->v[i].code);
		else
			t->v[kept++] = t->v[i];
	}
	t->n = kept;
}

bool trampolines_add(struct trampolines *t, const struct module *m)
{
	struct trampoline_module added = { .start = m->start, .end = m->end, .code = module_code_new(m) };

	if (!added.code)
		return false;
	trampolines_remove(t, m->start, m->end);
	if (!vec_push(t->v, t->n, t->cap, added)) {
		module_code_free(added.code);
		return false;
	}
	return true;
}

bool trampolines_has(const struct trampolines *t, uint64_t addr)
{
	uint8_t code[sizeof(sigreturn)];
	size_t i;

	for (i = 0; i < t->n; i++)
		if (t->v[i].start <= addr && addr < t->v[i].end)
			return module_code_read(t->v[i].code, addr, code, sizeof(code)) &&
			       trampoline_code(code, sizeof(code));
	return false;
}

void trampolines_deinit(struct trampolines *t)
{
	trampolines_remove(t, 0, UINT64_MAX);
	free(t->v);
	*t = (struct trampolines){ 0 };
}
