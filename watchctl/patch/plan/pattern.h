/*
 * pattern - what to look for in code, in words.
 *
 *	pattern	 = "bytes" byte { byte } | "entry" name | "exit" name | place | element { ";" element }
 *	byte	 = two hexadecimal digits, each of which may be "?"
 *	place	 = "0x..." | name "+" number | file ":" line
 *	element	 = "*" | group [ operands ] | ( "reads" | "writes" ) ( register | memory )
 *		 | { prefix } mnemonic [ operands ]
 *	group	 = "@call" | "@branch" | "@syscall" | "@locked" | "@store" | "@ret"
 *	prefix	 = "lock" | "rep" | "repe" | "repne" | "bnd" | "notrack"
 *	operands = operand { "," operand }, as many as the instruction has in Intel's syntax
 *	operand	 = "*" | register | class | "imm" | number | memory | name
 *	class	 = "reg" | "reg8" | "reg16" | "reg32" | "reg64" | "xmm" | "ymm" | "zmm" | "vec"
 *	memory	 = [ size "ptr" ] ( "mem" | "[" term { ( "+" | "-" ) term } "]" )
 *	term	 = register [ "*" scale ] | number | "*", which stands for whatever else there is
 *	name	 = of a function, where a call or jump goes to
 *
 * Mnemonics and names are globs. Without operands an element fits whatever they are; without a prefix, with any.
 */
#ifndef WATCHCTL_PATCH_PLAN_PATTERN_H
#define WATCHCTL_PATCH_PLAN_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn_scan.h"

#define PATTERN_OPERANDS 4
#define PATTERN_BYTES 64

enum pattern_kind {
	PATTERN_CODE, /* elements */
	PATTERN_MASK, /* bytes */
	PATTERN_ENTRY,
	PATTERN_EXIT,
	PATTERN_LINE,	 /* name is all of it: file:line */
	PATTERN_OFFSET,	 /* name, number */
	PATTERN_ADDRESS, /* number */
	/* Which no text stands for, see pattern_of_kind(): */
	PATTERN_STUB,	/* the first instruction of each stub that leads to another module */
	PATTERN_LANDING /* see patch_landings.h */
};

enum pattern_element_kind {
	ELEMENT_ANY,
	ELEMENT_INSN,
	ELEMENT_READS,
	ELEMENT_WRITES,
	/* Groups */
	ELEMENT_CALL,
	ELEMENT_BRANCH,
	ELEMENT_SYSCALL,
	ELEMENT_LOCKED,
	ELEMENT_STORE,
	ELEMENT_RET,
};

enum pattern_operand_kind {
	OPERAND_ANY,
	OPERAND_REG,
	OPERAND_CLASS, /* name */
	OPERAND_IMM,
	OPERAND_NUMBER,
	OPERAND_MEM,
	OPERAND_NAME,
};

struct pattern_memory {
	char *base, *index; /* NULL: none */
	uint8_t scale;	    /* of index */
	int64_t disp;
	bool rest;    /* whatever else there is */
	uint8_t size; /* bytes; 0: any */
};

struct pattern_operand {
	enum pattern_operand_kind kind;
	char *name;
	const char *at; /* in pattern.text */
	int64_t number;
	struct pattern_memory mem;
};

struct pattern_element {
	enum pattern_element_kind kind;
	char *prefix, *name; /* "lock", the mnemonic; NULL: none */
	size_t noperands;    /* 0: any */
	struct pattern_operand operand[PATTERN_OPERANDS];
	bool *may;	/* by the names of insn_scan(): whether it may be that; of ELEMENT_INSN */
	const char *at; /* where the name stands in pattern.text */
};

struct pattern {
	enum pattern_kind kind;
	char *text;
	struct pattern_element *element;
	size_t nelements, element_cap;
	uint8_t byte[PATTERN_BYTES], mask[PATTERN_BYTES];
	size_t nbytes;
	char *name;
	const char *name_at; /* in text */
	uint64_t number;
	bool parts; /* of PATTERN_ENTRY "*": also what only unwind tables know, and nothing calls: jumps may lead there */
};

/* WC_EUSAGE: malformed, with a caret; WC_ENAME: no instruction is called so, with near names. *ret: pattern_deinit(). */
struct wc_error *pattern_parse(const char *text, struct pattern *ret);
void pattern_deinit(struct pattern *p);

/* PATTERN_STUB, PATTERN_LANDING, or PATTERN_ADDRESS, whose number the caller sets. WC_ENOMEM. *ret: pattern_deinit(). */
struct wc_error *pattern_of_kind(enum pattern_kind kind, struct pattern *ret);

/* "<sentence>, at column N of the pattern:", the text, and a caret below @at. */
struct wc_error *pattern_error(const struct pattern *p, enum wc_kind kind, const char *at, const char *fmt,
			       ...) __attribute__((format(printf, 4, 5)));

/* Whether a register is called so: "rax", "xmm3". */
bool pattern_is_register(const char *name);

/* ... and of the vector unit: xmm0 to zmm31. */
bool pattern_is_vector(const char *name);

/* A name in a pattern, and what it stands for in one module. */
struct bound_name {
	const struct pattern_operand *operand; /* OPERAND_NAME */
	uint64_t *addr;			       /* sorted; owned */
	size_t n, cap;
};

/* Binds a pattern to where it is looked for. The pattern itself knows no module and does not change. */
struct pattern_binding {
	struct bound_name *name;
	size_t nnames, name_cap;
	bool has_place; /* of PATTERN_LINE: it is known where the line is, */
	uint64_t place; /* in the process, or of a file */
};

void pattern_binding_deinit(struct pattern_binding *b); /* accepts zeros */

/* Matching, of PATTERN_CODE and PATTERN_MASK */

enum pattern_match {
	PATTERN_NO,
	PATTERN_FITS,
	PATTERN_DISPUTED, /* it fits, and capstone takes one of the instructions for one of another length */
};

/*
 * The first instruction is @first, at @addr; @code holds @len bytes from there to the function's end. Without @names, a name stands for
 * nothing.
 */
enum pattern_match pattern_match(const struct pattern *p, const struct pattern_binding *names,
				 const uint8_t *code, size_t len, uint64_t addr,
				 const struct insn_brief *first);

#endif
