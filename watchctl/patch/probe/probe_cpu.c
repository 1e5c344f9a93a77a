#include "watchctl/patch/probe/probe_cpu.h"

#include <cpuid.h>
#include <stdbool.h>
#include <sys/auxv.h>

/* State components (Intel SDM vol. 1, 13.1); not those of AMX, which are large, and of protection keys. */
#define STATES 0xe7u
#define STATE_YMM 2u
#define STATE_KMASK 5u
#define STATE_ZMM 6u
#define STATE_MORE 7u

#define HWCAP2_HAS_FSGSBASE 2 /* arch/x86/include/uapi/asm/hwcap2.h */

#define LEGACY_BYTES 512u
#define HEADER_BYTES 64u

/* What the kernel has the processor keep (XCR0); 0: there is no XSAVE. */
static uint64_t enabled_states(void)
{
	unsigned int a, b, c = 0, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return (uint64_t)d << 32 | a;
}

/* Where component @n begins in an area that is not compacted, and behind @*end if it ends there. */
static uint32_t place_of(unsigned int n, uint32_t *end)
{
	unsigned int size = 0, offset = 0, c, d;

	if (!__get_cpuid_count(0xd, n, &size, &offset, &c, &d))
		return 0;
	if (offset + size > *end)
		*end = offset + size;
	return offset;
}

static bool has_rdpid(void)
{
	unsigned int a, b, c = 0, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & bit_RDPID;
}

static void describe_vectors(struct probe_shared *ret)
{
	uint32_t end = LEGACY_BYTES + HEADER_BYTES;
	uint64_t mask = enabled_states() & STATES;

	ret->vector_mask = mask;
	ret->ymm_at = mask >> STATE_YMM & 1 ? place_of(STATE_YMM, &end) : 0;
	if (mask >> STATE_KMASK & 1) /* saved as well, and read by nobody */
		place_of(STATE_KMASK, &end);
	ret->zmm_at = mask >> STATE_ZMM & 1 ? place_of(STATE_ZMM, &end) : 0;
	ret->more_at = mask >> STATE_MORE & 1 ? place_of(STATE_MORE, &end) : 0;
	ret->vector_bytes = (end + 63) / 64 * 64;
}

void probe_cpu_describe(struct probe_shared *ret)
{
	ret->flags |= getauxval(AT_HWCAP2) & HWCAP2_HAS_FSGSBASE ? PROBE_FSGSBASE : 0;
	ret->flags |= has_rdpid() ? PROBE_RDPID : 0;
	describe_vectors(ret);
}
