#include "watchctl/step/lldb/abi.h"

#include <string.h>

#include "watchctl/code/regs.h"

#define GPRS 6
#define XMMS 8

static const uint8_t param_gpr[GPRS] = { WREG_RDI, WREG_RSI, WREG_RDX, WREG_RCX, WREG_R8, WREG_R9 };

/* 3.2.3, classification, 4. */
static enum abi_class abi_merge(enum abi_class a, enum abi_class b)
{
	if (a == b || b == ABI_NO_CLASS)
		return a;
	if (a == ABI_NO_CLASS)
		return b;
	if (a == ABI_MEMORY || b == ABI_MEMORY)
		return ABI_MEMORY;
	if (a == ABI_INTEGER || b == ABI_INTEGER)
		return ABI_INTEGER;
	if ((a >= ABI_X87 && a <= ABI_COMPLEX_X87) || (b >= ABI_X87 && b <= ABI_COMPLEX_X87))
		return ABI_MEMORY;
	return ABI_SSE;
}

/* Of eightbyte @i of a scalar's own. */
static enum abi_class class_of(enum abi_scalar scalar, uint32_t i)
{
	switch (scalar) {
	case ABI_SCALAR_FLOAT:
	case ABI_SCALAR_VECTOR:
		return i ? ABI_SSEUP : ABI_SSE;
	case ABI_SCALAR_X87:
		return i ? ABI_X87UP : ABI_X87;
	case ABI_SCALAR_COMPLEX_X87:
		return ABI_COMPLEX_X87;
	default:
		return ABI_INTEGER;
	}
}

static uint32_t align_of(enum abi_scalar scalar, uint32_t size)
{
	if (scalar == ABI_SCALAR_BITS || !size || (size & (size - 1)))
		return 1;
	return scalar == ABI_SCALAR_COMPLEX_X87 ? 16 : size;
}

void abi_put(struct abi_layout *l, enum abi_scalar scalar, uint32_t offset, uint32_t size)
{
	uint32_t align = align_of(scalar, size), first = offset / 8, last;

	if (!size)
		return;
	last = (offset + size - 1) / 8;
	if (align > l->align)
		l->align = align;
	if (offset % align || last >= ABI_EIGHTBYTES) {
		l->in_memory = true;
		return;
	}
	for (uint32_t i = first; i <= last; i++)
		l->class[i] = (uint8_t)abi_merge(l->class[i], class_of(scalar, i - first));
}

/* 3.2.3, classification, 5: what the eightbytes together come to. True: memory. */
static bool clean_up(const struct abi_layout *l, uint8_t class[ABI_EIGHTBYTES])
{
	uint32_t n = (l->size + 7) / 8;

	if (l->in_memory || n > ABI_EIGHTBYTES)
		return true;
	memcpy(class, l->class, sizeof(l->class));
	for (uint32_t i = 0; i < n; i++) {
		if (class[i] == ABI_MEMORY || (class[i] == ABI_X87UP && (!i || class[i - 1] != ABI_X87)))
			return true;
		if (class[i] == ABI_SSEUP && (!i || (class[i - 1] != ABI_SSE && class[i - 1] != ABI_SSEUP)))
			class[i] = ABI_SSE;
	}
	if (n <= 2)
		return false;
	/* Only a vector may be larger; _Complex long double is by itself. */
	if (class[0] == ABI_COMPLEX_X87)
		return false;
	for (uint32_t i = 1; i < n; i++)
		if (class[i] != ABI_SSEUP)
			return true;
	return class[0] != ABI_SSE;
}

static bool is_empty(const uint8_t class[ABI_EIGHTBYTES])
{
	for (uint32_t i = 0; i < ABI_EIGHTBYTES; i++)
		if (class[i] != ABI_NO_CLASS)
			return false;
	return true;
}

static void put_piece(struct abi_place *p, enum param_in in, uint8_t reg, uint32_t size, int32_t offset)
{
	p->piece[p->npieces++] = (struct param_piece){
		.in = (uint8_t)in, .reg = reg, .size = (uint16_t)size, .offset = offset
	};
}

static int32_t take_stack(struct abi_call *c, uint32_t size, uint32_t align)
{
	int32_t at;

	if (align < 8)
		align = 8;
	c->stack = (c->stack + align - 1) & ~(align - 1);
	at = (int32_t)c->stack + 8;
	c->stack += (size + 7) & ~7u;
	return at;
}

static void by_reference(struct abi_call *c, const struct abi_layout *l, struct abi_place *ret)
{
	if (c->gpr < GPRS)
		put_piece(ret, PARAM_IN_MEMORY, param_gpr[c->gpr++], l->size, 0);
	else
		put_piece(ret, PARAM_IN_MEMORY_BY_STACK, 0, l->size, take_stack(c, 8, 8));
}

static void by_stack(struct abi_call *c, const struct abi_layout *l, struct abi_place *ret)
{
	/* 64 KB and more: nobody wants to see it, but what comes behind must be found. */
	int32_t at = take_stack(c, l->size, l->align);

	if (l->size <= UINT16_MAX)
		put_piece(ret, PARAM_ON_STACK, 0, l->size, at);
}

/* Bytes of eightbyte @i, with what SSEUP adds to it. */
static uint32_t piece_size(const struct abi_layout *l, const uint8_t class[ABI_EIGHTBYTES], uint32_t i)
{
	uint32_t end = i + 1, n = (l->size + 7) / 8;

	while (end < n && class[end] == ABI_SSEUP)
		end++;
	return (end * 8 < l->size ? end * 8 : l->size) - i * 8;
}

static bool has_padding_eightbyte(const struct abi_layout *l, const uint8_t class[ABI_EIGHTBYTES])
{
	for (uint32_t i = 0; i < (l->size + 7) / 8; i++)
		if (class[i] == ABI_NO_CLASS)
			return true;
	return false;
}

void abi_param(struct abi_call *c, const struct abi_layout *l, struct abi_place *ret)
{
	uint8_t class[ABI_EIGHTBYTES] = { 0 };
	unsigned int gprs = 0, xmms = 0;
	uint32_t n = (l->size + 7) / 8;
	bool in_memory;

	*ret = (struct abi_place){ 0 };
	if (l->by_reference) {
		by_reference(c, l, ret);
		return;
	}
	in_memory = clean_up(l, class);
	if (!l->size || (!in_memory && is_empty(class)))
		return;
	for (uint32_t i = 0; !in_memory && i < n; i++) {
		gprs += class[i] == ABI_INTEGER;
		xmms += class[i] == ABI_SSE;
		in_memory = class[i] >= ABI_X87;
	}
	if (in_memory || c->gpr + gprs > GPRS || c->xmm + xmms > XMMS) {
		by_stack(c, l, ret);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		if (class[i] == ABI_INTEGER)
			put_piece(ret, PARAM_IN_GPR, param_gpr[c->gpr++], piece_size(l, class, i), 0);
		else if (class[i] == ABI_SSE)
			put_piece(ret, PARAM_IN_XMM, (uint8_t)c->xmm++, piece_size(l, class, i), 0);
	/* Eightbytes of padding are not passed: the bytes of the object are not all to be had. */
	if (has_padding_eightbyte(l, class))
		ret->npieces = 0;
}

bool abi_result_is_hidden(const struct abi_layout *l)
{
	uint8_t class[ABI_EIGHTBYTES] = { 0 };

	return l->by_reference || clean_up(l, class);
}

void abi_result(const struct abi_layout *l, struct abi_place *ret)
{
	static const uint8_t gpr[2] = { WREG_RAX, WREG_RDX }; /* there are two eightbytes at most */
	uint8_t class[ABI_EIGHTBYTES] = { 0 }, xmms = 0, gprs = 0;

	*ret = (struct abi_place){ 0 };
	if (!l->size || l->size > UINT16_MAX)
		return;
	if (l->by_reference || clean_up(l, class)) {
		put_piece(ret, PARAM_IN_MEMORY, WREG_RAX, l->size, 0);
		return;
	}
	if (is_empty(class))
		return;
	for (uint32_t i = 0; i < (l->size + 7) / 8 && ret->npieces < 2; i++)
		if (class[i] == ABI_INTEGER)
			put_piece(ret, PARAM_IN_GPR, gpr[gprs++ & 1], piece_size(l, class, i), 0);
		else if (class[i] == ABI_SSE)
			put_piece(ret, PARAM_IN_XMM, xmms++, piece_size(l, class, i), 0);
		else if (class[i] == ABI_X87)
			put_piece(ret, PARAM_IN_X87, 0, 16, 0);
		else if (class[i] == ABI_COMPLEX_X87)
			put_piece(ret, PARAM_IN_X87, ret->npieces ? 1 : 0, 16, 0);
	if (has_padding_eightbyte(l, class))
		ret->npieces = 0;
}
