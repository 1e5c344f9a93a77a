#include "watchctl/engine/plan/dregs.h"

bool dregs_fits(uint64_t addr, uint64_t size)
{
	return (size == 1 || size == 2 || size == 4 || size == 8) && addr % size == 0;
}

uint64_t dregs_dr7(unsigned int slot, uint32_t size, enum access_kind access)
{
	uint64_t rw = access == ACCESS_EXECUTE ? 0 : access == ACCESS_WRITE ? 1 : 3;
	uint64_t len = size == 1 ? 0 : size == 2 ? 1 : size == 8 ? 2 : 3;

	if (access == ACCESS_EXECUTE)
		len = 0;
	return 1ull << (2 * slot) | (rw | len << 2) << (16 + 4 * slot);
}

uint64_t dregs_dr7_mask(unsigned int slot)
{
	return 3ull << (2 * slot) | 15ull << (16 + 4 * slot);
}

bool dregs_enabled(uint64_t dr7, unsigned int slot)
{
	return dr7 & 3ull << (2 * slot);
}

bool dregs_decode(uint64_t dr7, unsigned int slot, uint32_t *ret_size, enum access_kind *ret_access)
{
	static const enum access_kind access[] = { ACCESS_EXECUTE, ACCESS_WRITE, ACCESS_UNKNOWN,
						   ACCESS_READWRITE };
	static const uint32_t size[] = { 1, 2, 8, 4 };
	unsigned int field = dr7 >> (16 + 4 * slot) & 15;

	if (!dregs_enabled(dr7, slot) || access[field & 3] == ACCESS_UNKNOWN)
		return false;
	*ret_access = access[field & 3];
	*ret_size = size[field >> 2];
	return true;
}

bool dregs_fired(uint64_t dr6, unsigned int slot)
{
	return dr6 >> slot & 1;
}

bool dregs_steps_trap(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_is("amd");
}
