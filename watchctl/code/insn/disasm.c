/*
 * Capstone writes "[rip + 0x2ee4]" and small numbers in decimal. Ours has no spaces inside brackets and every
 * number in hexadecimal but an index's scale: "[rbx+rcx*8-0x10]", as logs and documents have had it.
 *
 * Capstone 4 gets operands of EVEX instructions (AVX-512) wrong: [r11+0x8]{1to2} is [r11+0x4] to
 * it, an absent index is xmm4, rbx may be xmm3. Those are left to Zydis.
 */
#include "watchctl/code/insn/disasm.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include <capstone/capstone.h>

#include "watchctl/code/insn/insn.h"

/* A decimal number of one digit: not a part of a name or of a longer number, a scale, or st(1)'s. */
static bool is_small_number(const char *text, const char *p)
{
	return isdigit((unsigned char)*p) && !isalnum((unsigned char)p[1]) && p > text &&
	       strchr(" +-[", p[-1]);
}

static void put_text(char *buf, size_t cap, size_t *n, const char *s, size_t len)
{
	for (size_t i = 0; i < len && *n + 1 < cap; i++)
		buf[(*n)++] = s[i];
	buf[*n] = '\0';
}

static void put_operands(char *buf, size_t cap, size_t *n, const char *text)
{
	for (const char *p = text; *p; p++) {
		if (p[0] == ' ' && (p[1] == '+' || p[1] == '-' || p[1] == '*') && p[2] == ' ') {
			put_text(buf, cap, n, p + 1, 1);
			p += 2;
			continue;
		}
		if ((p == text && isdigit((unsigned char)*p) && !p[1]) || is_small_number(text, p))
			put_text(buf, cap, n, "0x", 2);
		put_text(buf, cap, n, p, 1);
	}
}

/* 62h is nothing else in 64-bit mode (Intel SDM vol. 2, 2.7). */
static bool is_evex(const uint8_t *bytes, size_t len)
{
	static const uint8_t prefixes[] = { 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67 };

	while (len && memchr(prefixes, *bytes, sizeof(prefixes))) {
		bytes++;
		len--;
	}
	return len && *bytes == 0x62;
}

void disasm_text(const uint8_t *bytes, size_t len, uint64_t addr, char *buf, size_t cap)
{
	cs_insn *found = NULL;
	struct insn known;
	size_t count = 0, n = 0;
	csh handle;

	if (!cap)
		return;
	buf[0] = '\0';
	if (!insn_decode(bytes, len, addr, &known))
		return;
	if (!is_evex(bytes, known.len) && cs_open(CS_ARCH_X86, CS_MODE_64, &handle) == CS_ERR_OK) {
		count = cs_disasm(handle, bytes, known.len, addr, 1, &found);
		if (count && found->size == known.len) {
			put_text(buf, cap, &n, found->mnemonic, strlen(found->mnemonic));
			if (found->op_str[0])
				put_text(buf, cap, &n, " ", 1);
			put_operands(buf, cap, &n, found->op_str);
		}
		if (count)
			cs_free(found, count);
		cs_close(&handle);
	}
	if (!n)
		insn_text(bytes, len, addr, buf, cap);
}
