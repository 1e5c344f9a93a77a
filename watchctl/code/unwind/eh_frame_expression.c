#include "watchctl/code/unwind/eh_frame_expression.h"

#include "watchctl/code/regs.h"

enum {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S,
	OP_CONST2U,
	OP_CONST2S,
	OP_CONST4U,
	OP_CONST4S,
	OP_CONST8U,
	OP_CONST8S,
	OP_CONSTU,
	OP_CONSTS,
	OP_DUP,
	OP_DROP,
	OP_OVER,
	OP_PICK,
	OP_SWAP,
	OP_ROT,
	OP_ABS = 0x19,
	OP_AND,
	OP_MINUS = 0x1c,
	OP_MUL = 0x1e,
	OP_NEG,
	OP_NOT,
	OP_OR,
	OP_PLUS,
	OP_PLUS_UCONST,
	OP_SHL,
	OP_SHR,
	OP_SHRA,
	OP_XOR,
	OP_EQ = 0x29,
	OP_GE,
	OP_GT,
	OP_LE,
	OP_LT,
	OP_NE,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_REG0 = 0x50,
	OP_REG31 = 0x6f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_REGX = 0x90,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
};

/* Takes the operands of @op. False: it is none that is plain. */
static bool take(struct cursor *c, unsigned int op)
{
	uint64_t reg = 0;

	switch (op) {
	case OP_CONST1U:
	case OP_CONST1S:
	case OP_PICK:
	case OP_DEREF_SIZE:
		skip(c, 1);
		break;
	case OP_CONST2U:
	case OP_CONST2S:
		skip(c, 2);
		break;
	case OP_CONST4U:
	case OP_CONST4S:
		skip(c, 4);
		break;
	case OP_CONST8U:
	case OP_CONST8S:
		skip(c, 8);
		break;
	case OP_CONSTU:
	case OP_CONSTS:
	case OP_PLUS_UCONST:
		get_uleb(c);
		break;
	case OP_REG0 ... OP_REG31:
		reg = op - OP_REG0;
		break;
	case OP_BREG0 ... OP_BREG31:
		reg = op - OP_BREG0;
		get_sleb(c);
		break;
	case OP_REGX:
		reg = get_uleb(c);
		break;
	case OP_BREGX:
		reg = get_uleb(c);
		get_sleb(c);
		break;
	case OP_DEREF:
	case OP_DUP ... OP_OVER:
	case OP_SWAP:
	case OP_ROT:
	case OP_ABS:
	case OP_AND:
	case OP_MINUS:
	case OP_MUL:
	case OP_NEG ... OP_PLUS:
	case OP_SHL ... OP_XOR:
	case OP_EQ ... OP_NE:
	case OP_LIT0 ... OP_LIT31:
	case OP_NOP:
		break;
	default:
		return false;
	}
	return reg <= WREG_R15;
}

bool eh_expression_is_plain(struct cursor block)
{
	while (!block.bad && block.at < block.end)
		if (!take(&block, (unsigned int)get_fixed(&block, 1)))
			return false;
	return !block.bad;
}
