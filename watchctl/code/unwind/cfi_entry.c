#include "watchctl/code/unwind/cfi_entry.h"

#include <string.h>

#include "watchctl/code/insn/insn.h"

struct search {
	size_t len;
	bool seen[CFI_ENTRY_MAX];
	uint16_t todo[CFI_ENTRY_MAX]; /* each offset is in it once at most */
	size_t ntodo;
};

static void reach(struct search *s, uint64_t at)
{
	if (at >= s->len || s->seen[at])
		return;
	s->seen[at] = true;
	s->todo[s->ntodo++] = (uint16_t)at;
}

bool cfi_is_entry_code(const uint8_t *code, size_t len, size_t offset)
{
	struct search s = { .len = len < CFI_ENTRY_MAX ? len : CFI_ENTRY_MAX };

	if (offset >= s.len)
		return false;
	reach(&s, 0);
	while (s.ntodo) {
		size_t at = s.todo[--s.ntodo];
		struct insn i;

		if (!insn_decode(code + at, s.len - at, at, &i))
			continue;
		if (offset >= at && offset < at + i.len)
			return true;
		if (i.has_target && !i.is_call)
			reach(&s, i.target);
		if (!i.is_ret && (!i.is_jmp || i.is_cond))
			reach(&s, at + i.len);
	}
	return false;
}

bool cfi_is_context_start(const uint8_t *code, size_t len)
{
	/* mov rsp, rbx; mov rdi, [rsp]; test rdi, rdi; je */
	static const uint8_t start[] = { 0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff, 0x74 };
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	if (len > sizeof(endbr64) && !memcmp(code, endbr64, sizeof(endbr64))) {
		code += sizeof(endbr64);
		len -= sizeof(endbr64);
	}
	return len >= sizeof(start) && !memcmp(code, start, sizeof(start));
}
