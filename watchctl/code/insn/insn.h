/*
 * insn - what one x86-64 instruction does to memory. Wraps Zydis: no type of it leaves insn.c.
 */
#ifndef WATCHCTL_CODE_INSN_INSN_H
#define WATCHCTL_CODE_INSN_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/regs.h"

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
		index;	/* enum reg, WREG_RIP for rip-relative, -1: none, -2: a register we do not record */
	uint8_t scale;	/* 1, 2, 4, 8 */
	int8_t bit_reg; /* bt, bts, btr, btc: the register whose bit number moves the address; -1: none */
	bool addr32;	/* 67h prefix: the address is cut to 32 bits */
	bool vsib;	/* gather, scatter, tile: several places, not computable; interruptible */
	uint8_t round;	/* the address is rounded down to a multiple of this, a power of two; 0: it is not */
	uint32_t size; /* bytes accessed (by one step of a rep); 0: varies (xsave), at most INSN_VARIES_MAX */
	int64_t disp;  /* stack operands included: push writes at rsp - 8 */
};

/* More than any xsave area of today: 11008 bytes with AMX, Intel SDM vol. 1, 13.5. */
#define INSN_VARIES_MAX 16384

/* How registers that an instruction both read and changed can be put back. */
enum insn_undo_kind {
	INSN_UNDO_NONE,
	INSN_UNDO_PUSH,	   /* rsp moved down by undo_size: enter too */
	INSN_UNDO_POP,	   /* rsp moved up by undo_size */
	INSN_UNDO_LEAVE,   /* rsp is the old rbp + undo_size */
	INSN_UNDO_STRING,  /* rsi, rdi moved by undo_size, as the direction flag says; not with rep */
	INSN_UNDO_CMPXCHG, /* rax, rdx changed only if the zero flag is clear */
};

struct insn {
	uint8_t len;
	bool is_call, is_ret, is_jmp, is_syscall; /* syscall, sysenter, int 0x80 */
	bool keeps_rip;				  /* syscall: rcx is the address after it */
	bool is_cond;				  /* of a jump: may also fall through */
	uint8_t rip_at; /* where in its bytes its 32-bit displacement lies, if that is relative to rip; else 0
			 */
	bool is_rep;	/* a string instruction with a rep prefix */
	bool is_string;
	bool cond_access; /* may touch less than it names, or nothing: masked, gather, rep, clflush, xsave */
	uint8_t nmem;
	struct insn_mem mem[INSN_OPS];
	/*
	 * Registers this instruction writes, bit i for enum reg i (rsp of push/pop/call/ret and rsi/rdi/rcx
	 * of string instructions included): an address computed from them afterwards is not the accessed one.
	 */
	uint32_t writes;
	uint8_t undo; /* enum insn_undo_kind */
	uint32_t undo_size;
	/* Of a near call or jump: where it goes, if the instruction alone shows; or the register that shows.
	 */
	bool has_target;
	uint64_t target;
	int8_t target_reg;  /* enum reg, -1: none */
	bool target_in_mem; /* mem[0] holds it */
	/*
	 * Where the value can be taken from once it has run. A plain load or store between memory and one
	 * general register or immediate, without extension: mov. -1: not of this form.
	 */
	int8_t value_reg; /* enum reg holding, in its low bytes (value_shift 8 for ah..bh), the value moved */
	uint8_t value_shift;
	bool value_is_imm;
	uint64_t value_imm;
	/* xchg, xadd, cmpxchg: what they leave in registers of the value that memory held before. */
	uint8_t exchange; /* enum insn_exchange */
	int8_t exchange_reg; /* enum reg of the register operand; its value is shifted by exchange_shift (ah..bh) */
	uint8_t exchange_shift;
};

/* Intel SDM vol. 2, XCHG, XADD, CMPXCHG, CMPXCHG8B/16B. */
enum insn_exchange {
	INSN_EXCHANGE_NONE,
	INSN_EXCHANGE_SWAP, /* xchg, xadd: exchange_reg holds the old value afterwards */
	INSN_EXCHANGE_COMPARE, /* cmpxchg: rax holds the old value; with ZF memory now holds exchange_reg's, else the old one */
	INSN_EXCHANGE_PAIR, /* cmpxchg8b, 16b: the same, of rdx:rax and rcx:rbx */
};

struct insn_exchanged {
	uint64_t old_value;
	bool has_new; /* not after xchg and xadd: they overwrite what would tell */
	uint64_t new_value;
};

/* Decodes @len (1..) bytes as the instruction at @addr. False: not an instruction, or truncated. */
bool insn_decode(const uint8_t *bytes, size_t len, uint64_t addr, struct insn *ret);

/*
 * Walks forward from @start through @code (holding [start, start + len)) and finds the instruction that
 * ends exactly at @pc. False when the walk does not land on @pc (data in text, wrong start), and after a load
 * of ss, which holds traps back: one at @pc may be of either instruction.
 */
bool insn_before(const uint8_t *code, size_t len, uint64_t start, uint64_t pc, uint64_t *ret);

/*
 * The address of memory operand @m computed from @regs, as they are when an instruction of length
 * insn_len at insn_addr executes. False: not computable (vector index, unrecorded base, unknown fs/gs base).
 */
bool insn_mem_addr(const struct insn_mem *m, const struct regs *regs, uint64_t insn_addr,
		   unsigned int insn_len, uint64_t *ret);

/*
 * The registers before @i ran, from those after. Returns the set (bit i for enum reg i) of those that
 * cannot be known; @before holds the value after for them.
 */
uint32_t insn_undo(const struct insn *i, const struct regs *after, struct regs *before);

/*
 * The value that the @size (1 to 8) bytes at @addr held before @i, at @insn_addr, ran, and the one after it,
 * from the registers @after it. False: it does not tell, or not of these bytes.
 */
bool insn_exchanged(const struct insn *i, uint64_t insn_addr, const struct regs *after, uint64_t addr,
		    uint32_t size, struct insn_exchanged *ret);

/* Its name without prefixes, "movsw"; NULL when it does not decode. Static. */
const char *insn_name(const uint8_t *bytes, size_t len);

enum insn_syntax { INSN_INTEL, INSN_ATT }; /* in the order of INSN_SYNTAX_WORDS */

#define INSN_SYNTAX_WORDS "intel att"

/* In Zydis' spelling; "" when it does not decode. What people read is disasm_text()'s. */
void insn_text(enum insn_syntax syntax, const uint8_t *bytes, size_t len, uint64_t addr, char *buf,
	       size_t cap);

#endif
