#include "watchctl/step/insn/insn_move.h"

#include <string.h>

#include "watchctl/step/insn/insn_emulate.h"

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: /* segments, sizes, lock, repetition */
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x66:
	case 0x67:
	case 0xf0:
	case 0xf2:
	case 0xf3:
		return true;
	default:
		return false;
	}
}

/*
 * What a copy would not do as the original: what goes elsewhere or enters the kernel with its own address,
 * and what single-stepping itself changes: pushf would store the trap flag, popf clear it, a load of ss hold
 * the trap back.
 */
static bool is_bound_to_place(const uint8_t *bytes, const struct insn *i)
{
	uint32_t at = 0;

	if (i->is_call || i->is_ret || i->is_jmp || i->is_syscall)
		return true;
	while (at + 1 < i->len && is_prefix(bytes[at]))
		at++;
	if (at + 1 < i->len && (bytes[at] & 0xf0) == 0x40)
		at++;
	switch (bytes[at]) {
	case 0x8e: /* mov to a segment register */
	case 0x9c: /* pushf, popf */
	case 0x9d:
	case 0xcc: /* int3, int, into, iret, int1, hlt */
	case 0xcd:
	case 0xce:
	case 0xcf:
	case 0xf1:
	case 0xf4:
		return true;
	case 0x0f:
		break;
	default:
		return false;
	}
	if (at + 1 >= i->len)
		return true;
	switch (bytes[at + 1]) {
	case 0x05: /* syscall, sysret, ud2, sysenter, sysexit, ud1, ud0 */
	case 0x07:
	case 0x0b:
	case 0x34:
	case 0x35:
	case 0xb9:
	case 0xff:
		return true;
	default:
		return false;
	}
}

/* Where in memory it stores is known to be the stack only with these; the CPU does the others. */
static bool is_emulated(const struct insn_form *f)
{
	const int8_t rsp = 4, rbp = 5;

	return !insn_form_stores(f) || f->base == rsp || f->base == rbp;
}

bool insn_move_prepare(const uint8_t *bytes, uint32_t len, uint64_t addr, struct insn_move *ret)
{
	struct insn_form form;

	memset(ret, 0, sizeof(*ret));
	ret->way = INSN_LIFT;
	if (!insn_decode(bytes, len, addr, &ret->insn))
		return false;
	ret->len = ret->insn.len;
	memcpy(ret->bytes, bytes, ret->len);
	ret->may_copy = !is_bound_to_place(ret->bytes, &ret->insn);
	/* Both decoders must agree on where the next one begins. */
	if (insn_form_read(ret->bytes, ret->len, &form) && form.len == ret->len && is_emulated(&form))
		ret->way = INSN_EMULATE;
	else if (ret->may_copy)
		ret->way = INSN_COPY;
	return true;
}

bool insn_copy(const struct insn_move *m, uint64_t addr, uint64_t at, uint8_t ret[INSN_MAX], uint8_t *len)
{
	int32_t old;
	int64_t new;

	if (!m->may_copy)
		return false;
	memcpy(ret, m->bytes, m->len);
	*len = m->len;
	if (!m->insn.rip_at)
		return true;
	memcpy(&old, m->bytes + m->insn.rip_at, sizeof(old));
	new = (int64_t)(addr - at) + old;
	if (new != (int32_t) new)
		return false;
	old = (int32_t) new;
	memcpy(ret + m->insn.rip_at, &old, sizeof(old));
	return true;
}

uint64_t insn_copy_rip(const struct insn_move *m, uint64_t addr, uint64_t at, uint8_t copy_len, uint64_t rip)
{
	if (rip == at)
		return addr;
	return rip == at + copy_len ? addr + m->len : rip;
}
