/* Registers in a condition, by the names that gdb has for them. */
#include <ctype.h>
#include <string.h>

#include "watchctl/code/regs.h"
#include "watchctl/engine/plan/filter_compiler.h"

struct register_name {
	const char *name, *half; /* half: its lower 32 bits; NULL: has no name */
	enum reg reg;
	bool is_address; /* compared without a sign */
};

static const struct register_name names[] = {
	{ "rax", "eax", WREG_RAX, false },     { "rbx", "ebx", WREG_RBX, false },
	{ "rcx", "ecx", WREG_RCX, false },     { "rdx", "edx", WREG_RDX, false },
	{ "rsi", "esi", WREG_RSI, false },     { "rdi", "edi", WREG_RDI, false },
	{ "rbp", "ebp", WREG_RBP, true },      { "rsp", "esp", WREG_RSP, true },
	{ "r8", "r8d", WREG_R8, false },       { "r9", "r9d", WREG_R9, false },
	{ "r10", "r10d", WREG_R10, false },    { "r11", "r11d", WREG_R11, false },
	{ "r12", "r12d", WREG_R12, false },    { "r13", "r13d", WREG_R13, false },
	{ "r14", "r14d", WREG_R14, false },    { "r15", "r15d", WREG_R15, false },
	{ "rip", NULL, WREG_RIP, true },       { "pc", NULL, WREG_RIP, true },
	{ "sp", NULL, WREG_RSP, true },	       { "fp", NULL, WREG_RBP, true },
	{ "eflags", NULL, WREG_RFLAGS, true },
};

static bool is_word(const char *name, const char *start, size_t n)
{
	return name && strlen(name) == n && strncmp(name, start, n) == 0;
}

static struct operand filter_register_load(struct compiler *c, const struct register_name *r, bool half)
{
	uint8_t at = filter_emit(c, FILTER_REG, 0, 0, r->reg);
	struct operand o;

	c->f->needs |= FILTER_NEEDS_REGS;
	if (half)
		at = filter_emit(c, FILTER_SIGN, at, 0, 4);
	o = filter_result(at, OPERAND_INT);
	o.wide = r->is_address && !half;
	return o;
}

struct operand filter_take_register(struct compiler *c)
{
	const char *start = c->at++, *word = c->at;
	size_t n;

	while (isalnum((unsigned char)*c->at) || *c->at == '_')
		c->at++;
	n = (size_t)(c->at - word);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (is_word(names[i].name, word, n) || is_word(names[i].half, word, n))
			return filter_register_load(c, &names[i], is_word(names[i].half, word, n));
	filter_fail(
		c, start,
		"Unknown register \"$%.*s\": expected $rax .. $r15, $rip, $rsp, $rbp, $eflags, or a lower half "
		"like $eax",
		(int)n, word);
	return filter_constant(0);
}
