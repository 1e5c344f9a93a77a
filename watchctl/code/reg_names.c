#include "watchctl/code/reg_names.h"

#include <string.h>

static const struct {
	const char *name, *half; /* NULL: has no name */
	enum reg reg;
	bool is_address;
} names[] = {
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

bool reg_by_name(const char *name, struct reg_name *ret)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		bool half = names[i].half && !strcmp(names[i].half, name);

		if (!half && strcmp(names[i].name, name) != 0)
			continue;
		*ret = (struct reg_name){ names[i].reg, half, names[i].is_address };
		return true;
	}
	return false;
}
