/*
 * Instructions as text by both decoders, for tests/truth/texts. Standard input: bytes in hexadecimal, an instruction
 * a line. Output, a line each, fields by tabs: the bytes; then in Intel and in AT&T syntax what is shown to
 * people, what capstone alone writes and what Zydis alone writes. "": it does not decode it, or with another length.
 */
#include <stdio.h>
#include <string.h>

#include <capstone/capstone.h>

#include "watchctl/code/insn/disasm.h"

#define AT 0x401000u

static size_t bytes_of(const char *hex, uint8_t *ret)
{
	unsigned int byte;
	size_t n = 0;

	while (n < INSN_MAX && sscanf(hex + 2 * n, "%2x", &byte) == 1)
		ret[n++] = (uint8_t)byte;
	return n;
}

static void put_capstone(csh decoder, const uint8_t *bytes, size_t len)
{
	cs_insn *i;

	if (!cs_disasm(decoder, bytes, len, AT, 1, &i)) {
		putchar('\t');
		return;
	}
	printf("\t%s%s%s", i->size == len ? i->mnemonic : "", i->size == len && i->op_str[0] ? " " : "",
	       i->size == len ? i->op_str : "");
	cs_free(i, 1);
}

int main(void)
{
	uint8_t bytes[INSN_MAX];
	char line[64], text[160];
	csh decoder[2];

	for (enum insn_syntax s = INSN_INTEL; s <= INSN_ATT; s++) {
		if (cs_open(CS_ARCH_X86, CS_MODE_64, &decoder[s]) != CS_ERR_OK)
			return 1;
		cs_option(decoder[s], CS_OPT_SYNTAX, s == INSN_ATT ? CS_OPT_SYNTAX_ATT : CS_OPT_SYNTAX_INTEL);
	}
	while (fgets(line, sizeof(line), stdin)) {
		size_t len = bytes_of(line, bytes);

		printf("%.*s", (int)(2 * len), line);
		for (enum insn_syntax s = INSN_INTEL; s <= INSN_ATT; s++) {
			disasm_text(s, bytes, len, AT, text, sizeof(text));
			printf("\t%s", text);
			put_capstone(decoder[s], bytes, len);
			insn_text(s, bytes, len, AT, text, sizeof(text));
			printf("\t%s", text);
		}
		putchar('\n');
	}
	return 0;
}
