#include "watchctl/flow/explain/call_target.h"

#include <stddef.h>
#include <string.h>

/* Intel SDM vol. 2: e8 is CALL rel32; ff /2 and ff /4 with this ModRM byte CALL and JMP [rip + disp32]. */
#define CALL_NEAR 0xe8
#define INDIRECT 0xff
#define CALL_BY_WORD 0x15
#define JUMP_BY_WORD 0x25
#define BND_PREFIX 0xf2
#define PLT_ENTRY 16u

static uint64_t word_at(const struct memory_view *mem, uint64_t addr)
{
	uint64_t word;

	return memory_read(mem, addr, &word, sizeof(word)) ? word : 0;
}

static uint64_t plus_displacement(uint64_t addr, const uint8_t *bytes)
{
	int32_t displacement;

	memcpy(&displacement, bytes, sizeof(displacement));
	return addr + (uint64_t)(int64_t)displacement;
}

/* Where the PLT entry at @addr goes; @addr where there is none. */
static uint64_t behind_plt(const struct memory_view *mem, uint64_t addr)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t b[PLT_ENTRY];
	size_t i = 0;

	if (!memory_read(mem, addr, b, sizeof(b)))
		return addr;
	if (!memcmp(b, endbr64, sizeof(endbr64)))
		i += sizeof(endbr64);
	if (b[i] == BND_PREFIX)
		i++;
	if (b[i] != INDIRECT || b[i + 1] != JUMP_BY_WORD)
		return addr;
	return word_at(mem, plus_displacement(addr + i + 6, b + i + 2));
}

uint64_t call_target(const struct memory_view *mem, uint64_t return_address)
{
	uint8_t b[6];

	if (!memory_read(mem, return_address - sizeof(b), b, sizeof(b)))
		return 0;
	if (b[0] == INDIRECT && b[1] == CALL_BY_WORD)
		return word_at(mem, plus_displacement(return_address, b + 2));
	if (b[1] == CALL_NEAR)
		return behind_plt(mem, plus_displacement(return_address, b + 2));
	return 0;
}
