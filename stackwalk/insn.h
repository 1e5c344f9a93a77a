/*
 * insn - what one x86-64 instruction does to memory. Wraps Zydis: no type of it leaves insn.c.
 */
#ifndef STACKWALK_INSN_H
#define STACKWALK_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stackwalk/regs.h"

#define INSN_MAX 15 /* longest x86-64 instruction, Intel SDM vol. 2, 2.3.11 */
#define INSN_OPS 4

enum access_kind {
	ACCESS_UNKNOWN = 0, /* stored in logs: never renumber */
	ACCESS_READ = 1,
	ACCESS_WRITE = 2,
	ACCESS_READWRITE = 3,
	ACCESS_EXECUTE = 4,
};

/* One memory operand, explicit or implicit (push, string instructions, call ...). */
struct insn_mem {
	uint8_t kind; /* enum access_kind: READ, WRITE or READWRITE, as the manual says it */
	uint8_t seg;  /* 0: flat, 1: fs, 2: gs */
	int8_t base,
		index; /* enum reg, REG_RIP for rip-relative, -1: none, -2: a register we do not record */
	uint8_t scale; /* 1, 2, 4, 8 */
	bool vsib;     /* gather/scatter: index is a vector register, the address is not computable here */
	uint32_t size; /* bytes accessed; 0: varies (xsave, rep) */
	int64_t disp;
};

struct insn {
	uint8_t len;
	bool is_call, is_ret, is_jmp, is_syscall; /* syscall, sysenter, int 0x80 */
	bool is_rep;				  /* a string instruction with a rep prefix */
	bool is_string;
	bool cond_access; /* may not touch memory although it names it (maskmov, gather, cmov with memory ...)
			   */
	uint8_t nmem;
	struct insn_mem mem[INSN_OPS];
	/*
	 * Registers this instruction writes, bit i for enum reg i (rsp of push/pop/call/ret and rsi/rdi/rcx
	 * of string instructions included): an address computed from them afterwards is not the accessed one.
	 */
	uint32_t writes;
	/*
	 * Where the value can be taken from once it has run. A plain load or store between memory and one
	 * general register or immediate, without extension: mov. -1: not of this form.
	 */
	int8_t value_reg; /* enum reg holding, in its low bytes (value_shift 8 for ah..bh), the value moved */
	uint8_t value_shift;
	bool value_is_imm;
	uint64_t value_imm;
};

/* Decodes @len (1..) bytes as the instruction at @addr. False: not an instruction, or truncated. */
bool insn_decode(const uint8_t *bytes, size_t len, uint64_t addr, struct insn *ret);

/*
 * Walks forward from @start through @code (holding [start, start + len)) and finds the instruction that
 * ends exactly at @pc. False when the walk does not land on @pc (data in text, wrong start).
 */
bool insn_before(const uint8_t *code, size_t len, uint64_t start, uint64_t pc, uint64_t *ret);

/*
 * The address of memory operand @m computed from @regs, as they are when an instruction of length
 * insn_len at insn_addr executes. False: not computable (vector index, unrecorded base, unknown fs/gs base).
 */
bool insn_mem_addr(const struct insn_mem *m, const struct regs *regs, uint64_t insn_addr,
		   unsigned int insn_len, uint64_t *ret);

/* Intel syntax as people read it; "" when it does not decode. */
void insn_text(const uint8_t *bytes, size_t len, uint64_t addr, char *buf, size_t cap);

#endif
