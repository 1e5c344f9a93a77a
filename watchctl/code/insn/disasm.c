/*
 * Capstone writes "[rip + 0x2ee4]" and small numbers in decimal. Ours has no spaces inside brackets and every
 * number in hexadecimal but an index's scale: "[rbx+rcx*8-0x10]", as logs and documents have had it. In AT&T
 * syntax likewise: "-0x10(%rbx,%rcx,8)" for "-0x10(%rbx, %rcx, 8)".
 *
 * Capstone 4 gets operands of EVEX instructions (AVX-512) wrong: [r11+0x8]{1to2} is [r11+0x4] to
 * it, an absent index is xmm4, rbx may be xmm3. Those, and a few more, are left to Zydis.
 */
#include "watchctl/code/insn/disasm.h"

#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "watchctl/code/insn/insn.h"

/* A decimal number of one digit: not a part of a name or of a longer number, nor a scale. */
static bool is_small_number(const char *text, const char *p)
{
	if (!isdigit((unsigned char)*p) || isalnum((unsigned char)p[1]))
		return false;
	/* "*8(%rip)" is where a call of AT&T's goes to; any other star of Intel's stands before a scale. */
	return p == text || strchr(" +-[$:", p[-1]) || (p == text + 1 && p[-1] == '*');
}

static void put_text(char *buf, size_t cap, size_t *n, const char *s, size_t len)
{
	for (size_t i = 0; i < len && *n + 1 < cap; i++)
		buf[(*n)++] = s[i];
	buf[*n] = '\0';
}

static bool is_word(const char *text, const char *p, const char *word)
{
	return (p == text || p[-1] == ' ') && !strncmp(p, word, strlen(word));
}

/* In parentheses are registers and a scale of AT&T's, or the number of st(1): only spaces go. */
static void put_operands(char *buf, size_t cap, size_t *n, const char *text)
{
	bool enclosed = false;

	for (const char *p = text; *p; p++) {
		enclosed = *p == '(' || (enclosed && *p != ')');
		if (enclosed && *p == ' ')
			continue;
		/* "ptr [rcx]" of an operand without a size; "xword" of one of ten bytes. */
		if (is_word(text, p, "ptr ") && (p == text || p[-2] == ','))
			p += 4;
		if (is_word(text, p, "xword")) {
			put_text(buf, cap, n, "tbyte", 5);
			p += 4;
			continue;
		}
		if (p[0] == ' ' && (p[1] == '+' || p[1] == '-' || p[1] == '*') && p[2] == ' ') {
			put_text(buf, cap, n, p + 1, 1);
			p += 2;
			continue;
		}
		if (!enclosed && is_small_number(text, p))
			put_text(buf, cap, n, "0x", 2);
		put_text(buf, cap, n, p, 1);
	}
}

static bool is_prefix(uint8_t byte)
{
	static const uint8_t prefixes[] = {
		0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3
	};

	return memchr(prefixes, byte, sizeof(prefixes));
}

/* Whether @name begins as one of @list, which ends with NULL. */
static bool is_among(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strncmp(name, *list, strlen(*list)))
			return true;
	return false;
}

/*
 * Instructions that capstone 4 writes wrongly, by what `make truth-texts` says: the size of their operand, or another
 * instruction.
 */
static bool is_left_to_zydis(const uint8_t *bytes, size_t len)
{
	static const char *const always[] = { "bnd",	  "cldemote", "comis", "vcomis",  "fnsave",
					      "fnstsw",	  "frstor",   "lsl",   "punpckl", "vcvtpd2",
					      "vcvttpd2", "xlat",     NULL };
	static const char *const repeated[] = { "cmpsw", "lodsw", "movsw", "scasw", "stosw", NULL };
	static const char *const tracked[] = { "jmp", "call", NULL };
	const char *name = insn_name(bytes, len);
	bool is_repeated = false, is_untracked = false;

	for (; len && is_prefix(*bytes); bytes++, len--) {
		is_repeated |= *bytes == 0xf2 || *bytes == 0xf3;
		is_untracked |= *bytes == 0x3e;
	}
	/* 62h is EVEX, and nothing else in 64-bit mode (Intel SDM vol. 2, 2.7). */
	return !name || (len && *bytes == 0x62) || is_among(name, always) ||
	       (is_repeated && is_among(name, repeated)) || (is_untracked && is_among(name, tracked));
}

/*
 * Capstone 4 does not look whether the memory for its tables and registers was granted. They come from here, once for all;
 * a decoder that is open, and has decoded once, asks for no more.
 */
static struct {
	pthread_once_t once;
	pthread_mutex_t lock; /* a decoder serves one at a time */
	csh decoder[2];	      /* by enum insn_syntax; 0: could not be opened */
	cs_insn *insn;
	size_t used;
	_Alignas(max_align_t) uint8_t memory[64u << 10];
} capstone = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static void *take_memory(size_t len)
{
	const size_t step = _Alignof(max_align_t);
	void *ret = capstone.memory + capstone.used;

	if (len > sizeof(capstone.memory) - capstone.used)
		return malloc(len);
	capstone.used += (len + step - 1) / step * step;
	return ret;
}

static bool is_own_memory(const void *p)
{
	return (uintptr_t)p - (uintptr_t)capstone.memory < sizeof(capstone.memory);
}

/* What lies in the static memory has never been used before: zero. */
static void *take_zeroed(size_t n, size_t size)
{
	void *ret = take_memory(n * size);

	return ret && !is_own_memory(ret) ? memset(ret, 0, n * size) : ret;
}

/* It asks for none today. */
static void *take_again(void *p, size_t len)
{
	(void)p;
	(void)len;
	return NULL;
}

static void give_memory(void *p)
{
	if (!is_own_memory(p))
		free(p);
}

static bool decode_text(enum insn_syntax syntax, const uint8_t *bytes, size_t len, uint64_t addr)
{
	csh decoder = capstone.decoder[syntax];

	return decoder && capstone.insn && cs_disasm_iter(decoder, &bytes, &len, &addr, capstone.insn);
}

static void open_decoders(void)
{
	static const uint8_t nop = 0x90;
	const cs_opt_mem memory = { take_memory, take_zeroed, take_again, give_memory, vsnprintf };

	cs_option(0, CS_OPT_MEM, (size_t)&memory);
	for (enum insn_syntax i = INSN_INTEL; i <= INSN_ATT; i++) {
		if (cs_open(CS_ARCH_X86, CS_MODE_64, &capstone.decoder[i]) != CS_ERR_OK) {
			capstone.decoder[i] = 0;
			continue;
		}
		cs_option(capstone.decoder[i], CS_OPT_SYNTAX,
			  i == INSN_ATT ? CS_OPT_SYNTAX_ATT : CS_OPT_SYNTAX_INTEL);
		if (!capstone.insn)
			capstone.insn = cs_malloc(capstone.decoder[i]);
		decode_text(i, &nop, 1, 0);
	}
}

void disasm_text(enum insn_syntax syntax, const uint8_t *bytes, size_t len, uint64_t addr, char *buf,
		 size_t cap)
{
	struct insn known;
	size_t n = 0;

	if (!cap)
		return;
	buf[0] = '\0';
	if (!insn_decode(bytes, len, addr, &known))
		return;
	if (!is_left_to_zydis(bytes, known.len)) {
		pthread_once(&capstone.once, open_decoders);
		pthread_mutex_lock(&capstone.lock);
		if (decode_text(syntax, bytes, known.len, addr) && capstone.insn->size == known.len) {
			put_text(buf, cap, &n, capstone.insn->mnemonic, strlen(capstone.insn->mnemonic));
			if (capstone.insn->op_str[0])
				put_text(buf, cap, &n, " ", 1);
			put_operands(buf, cap, &n, capstone.insn->op_str);
		}
		pthread_mutex_unlock(&capstone.lock);
	}
	if (!n)
		insn_text(syntax, bytes, len, addr, buf, cap);
}
