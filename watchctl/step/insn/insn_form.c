/*
 * Reads the instructions that stand most often where functions begin and where calls return to. Intel SDM
 * vol. 2, chapter 2 and appendix A. Prefixes that change more than operand sizes are not among them, but for
 * fs (the stack protector) and those that do nothing: cs and ds before branches and in padding, bnd, rep ret.
 */
#include "watchctl/step/insn/insn_emulate.h"

#include <string.h>

enum imm {
	IMM_NONE,
	IMM_8,
	IMM_16,
	IMM_Z, /* as the operand, at most 4 bytes */
	IMM_V, /* as the operand */
};

struct cursor {
	const uint8_t *bytes;
	uint32_t len, at;
	bool ok;
};

static uint8_t next(struct cursor *c)
{
	if (c->at >= c->len) {
		c->ok = false;
		return 0;
	}
	return c->bytes[c->at++];
}

/* Little endian, sign extended. */
static int64_t next_signed(struct cursor *c, uint32_t size)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < size; i++)
		v |= (uint64_t)next(c) << 8 * i;
	return size && size < 8 ? (int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size) : (int64_t)v;
}

struct prefixes {
	bool o16, rep, repne, fs, segment, rex;
	uint8_t w, r, x, b;
};

/* Leaves @c behind the opcode's first byte, which it returns. */
static uint8_t read_prefixes(struct cursor *c, struct prefixes *p)
{
	uint8_t byte = next(c);

	for (;; byte = next(c)) {
		if (byte == 0x66)
			p->o16 = true;
		else if (byte == 0xf3)
			p->rep = true;
		else if (byte == 0xf2)
			p->repne = true;
		else if (byte == 0x64)
			p->fs = true;
		else if (byte == 0x2e || byte == 0x3e)
			p->segment = true;
		else
			break;
	}
	if ((byte & 0xf0) == 0x40) {
		p->rex = true;
		p->w = byte >> 3 & 1;
		p->r = byte >> 2 & 1;
		p->x = byte >> 1 & 1;
		p->b = byte & 1;
		byte = next(c);
	}
	return byte;
}

/* False: not one that is known. */
static bool one_byte(uint8_t op, bool *modrm, enum imm *imm)
{
	*modrm = false;
	*imm = IMM_NONE;
	if (op < 0x40) { /* add or adc sbb and sub xor cmp */
		*modrm = (op & 7) < 4;
		*imm = (op & 7) == 4 ? IMM_8 : (op & 7) == 5 ? IMM_Z : IMM_NONE;
		return (op & 7) < 6;
	}
	if ((op >= 0x50 && op < 0x60) || op == 0x90 || op == 0x98 || op == 0x99 || op == 0x9c || op == 0xc3 ||
	    op == 0xc9)
		return true;
	if ((op >= 0x70 && op < 0x80) || op == 0x6a || op == 0xa8 || (op >= 0xb0 && op < 0xb8) ||
	    op == 0xeb) {
		*imm = IMM_8;
		return true;
	}
	if (op == 0x68 || op == 0xa9 || op == 0xe8 || op == 0xe9) {
		*imm = IMM_Z;
		return true;
	}
	if (op >= 0xb8 && op < 0xc0) {
		*imm = IMM_V;
		return true;
	}
	*modrm = true;
	switch (op) {
	case 0x80:
	case 0x83:
	case 0xc6:
		*imm = IMM_8;
		return true;
	case 0x81:
	case 0xc7:
		*imm = IMM_Z;
		return true;
	case 0xc2:
		*modrm = false;
		*imm = IMM_16;
		return true;
	case 0x63:
	case 0x84:
	case 0x85:
	case 0x88:
	case 0x89:
	case 0x8a:
	case 0x8b:
	case 0x8d:
	case 0xf6:
	case 0xf7:
	case 0xfe:
	case 0xff:
		return true;
	default:
		return false;
	}
}

static bool two_byte(uint8_t op, bool *modrm, enum imm *imm)
{
	*modrm = true;
	*imm = IMM_NONE;
	if (op >= 0x80 && op < 0x90) {
		*modrm = false;
		*imm = IMM_Z;
		return true;
	}
	return op == 0x1e || op == 0x1f || (op >= 0x40 && op < 0x50) || (op >= 0x90 && op < 0xa0) ||
	       op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf;
}

static void read_memory(struct cursor *c, const struct prefixes *p, uint8_t mod, uint8_t rm,
			struct insn_form *f)
{
	f->is_mem = true;
	f->base = f->index = -1;
	if (rm == 4) {
		uint8_t sib = next(c), index = (uint8_t)((sib >> 3 & 7) | p->x << 3);

		f->scale = sib >> 6;
		if (index != 4)
			f->index = (int8_t)index;
		if ((sib & 7) == 5 && mod == 0)
			f->displacement = next_signed(c, 4);
		else
			f->base = (int8_t)((sib & 7) | p->b << 3);
	} else if (rm == 5 && mod == 0) {
		f->rip_relative = true;
		f->displacement = next_signed(c, 4);
	} else {
		f->base = (int8_t)(rm | p->b << 3);
	}
	if (mod == 1)
		f->displacement = next_signed(c, 1);
	else if (mod == 2)
		f->displacement = next_signed(c, 4);
}

static void read_modrm(struct cursor *c, const struct prefixes *p, struct insn_form *f)
{
	uint8_t byte = next(c), mod = byte >> 6, rm = byte & 7;

	f->has_modrm = true;
	f->ext = byte >> 3 & 7;
	f->reg = (uint8_t)(f->ext | p->r << 3);
	if (mod == 3)
		f->rm = (uint8_t)(rm | p->b << 3);
	else
		read_memory(c, p, mod, rm, f);
}

static uint32_t imm_size(enum imm imm, const struct insn_form *f)
{
	switch (imm) {
	case IMM_8:
		return 1;
	case IMM_16:
		return 2;
	case IMM_Z:
		return f->size < 4 ? 2 : 4;
	case IMM_V:
		return f->size;
	default:
		return 0;
	}
}

/* Those whose operand is 64 bits wide, or a distance, whatever prefixes say; 66 makes other instructions of
 * them. */
static bool is_wide(const struct insn_form *f)
{
	uint8_t op = f->opcode;

	if (f->two_byte)
		return op >= 0x80 && op < 0x90;
	return (op >= 0x50 && op < 0x60) || (op >= 0x70 && op < 0x80) || op == 0x68 || op == 0x6a ||
	       op == 0x9c || op == 0xc2 || op == 0xc3 || op == 0xc9 || op == 0xe8 || op == 0xe9 ||
	       op == 0xeb || (op == 0xff && f->ext >= 2);
}

static bool is_branch(const struct insn_form *f)
{
	uint8_t op = f->opcode;

	if (f->two_byte)
		return op >= 0x80 && op < 0x90;
	return (op >= 0x70 && op < 0x80) || op == 0xc2 || op == 0xc3 || op == 0xe8 || op == 0xe9 ||
	       op == 0xeb || (op == 0xff && (f->ext == 2 || f->ext == 4));
}

static bool is_endbr64(const struct insn_form *f, const struct prefixes *p)
{
	return f->two_byte && f->opcode == 0x1e && p->rep && !p->o16 && !f->is_mem && f->ext == 7 &&
	       (f->rm & 7) == 2;
}

/* Which members of a group are known. */
static bool group_is_known(const struct insn_form *f)
{
	if (f->two_byte)
		return f->opcode != 0x1f || f->ext == 0;
	switch (f->opcode) {
	case 0x8d:
		return f->is_mem;
	case 0xc6:
	case 0xc7:
		return f->ext == 0;
	case 0xf6:
	case 0xf7:
		return f->ext == 0 || f->ext == 2 || f->ext == 3; /* test not neg */
	case 0xfe:
		return f->ext < 2; /* inc dec */
	case 0xff:
		return f->ext < 3 || f->ext == 4 || f->ext == 6; /* inc dec call jmp push */
	default:
		return true;
	}
}

static bool prefixes_fit(const struct insn_form *f, const struct prefixes *p)
{
	if (f->two_byte && f->opcode == 0x1e)
		return is_endbr64(f, p);
	if (p->rep)
		return !f->two_byte && f->opcode == 0xc3 && !p->o16;
	if (p->repne && !is_branch(f))
		return false;
	return !(p->o16 && is_wide(f)) && !(p->fs && is_branch(f));
}

bool insn_form_read(const uint8_t *bytes, uint32_t len, struct insn_form *ret)
{
	struct cursor c = { bytes, len, 0, true };
	struct prefixes p = { 0 };
	struct insn_form f = { .base = -1, .index = -1 };
	enum imm imm;
	bool modrm;

	f.opcode = read_prefixes(&c, &p);
	f.two_byte = f.opcode == 0x0f;
	if (f.two_byte)
		f.opcode = next(&c);
	if (!c.ok || !(f.two_byte ? two_byte(f.opcode, &modrm, &imm) : one_byte(f.opcode, &modrm, &imm)))
		return false;
	f.fs = p.fs;
	f.rep = p.rep;
	f.has_rex = p.rex;
	f.size = p.w ? 8 : p.o16 ? 2 : 4;
	if (modrm)
		read_modrm(&c, &p, &f);
	else
		f.rm = (uint8_t)((f.opcode & 7) | p.b << 3);
	if (!f.two_byte && f.opcode == 0x90 && p.b)
		return false; /* xchg with r8 */
	if (!c.ok || !group_is_known(&f) || !prefixes_fit(&f, &p))
		return false;
	if (!f.two_byte && (f.opcode == 0xf6 || f.opcode == 0xf7) && f.ext == 0)
		imm = f.opcode == 0xf6 ? IMM_8 : IMM_Z;
	if (is_wide(&f) && imm == IMM_Z)
		f.imm = next_signed(&c, 4);
	else
		f.imm = next_signed(&c, imm_size(imm, &f));
	if (is_wide(&f))
		f.size = 8;
	f.len = (uint8_t)c.at;
	*ret = f;
	return c.ok;
}

bool insn_form_stores(const struct insn_form *f)
{
	uint8_t op = f->opcode;

	if (!f->is_mem)
		return false;
	if (f->two_byte)
		return op >= 0x90 && op < 0xa0;
	if (op < 0x38)
		return (op & 7) < 2;
	switch (op) {
	case 0x80:
	case 0x81:
	case 0x83:
		return f->ext != 7;
	case 0x88:
	case 0x89:
	case 0xc6:
	case 0xc7:
		return true;
	case 0xf6:
	case 0xf7:
		return f->ext != 0;
	case 0xfe:
	case 0xff:
		return f->ext < 2;
	default:
		return false;
	}
}
