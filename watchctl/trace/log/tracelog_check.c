#include "watchctl/trace/log/tracelog_check.h"

#include <string.h>

#include "watchctl/trace/log/tracelog_format.h"

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41, bits reversed */

/* What a byte does to the remainder; computed by the compiler. */
#define T1(x) ((x)&1 ? (x) >> 1 ^ POLYNOMIAL : (x) >> 1)
#define T4(x) T1(T1(T1(T1(x))))
#define ROW1(n) T4((uint32_t)(n))

/* Half a byte at a time: sixteen entries are enough for the CPUs that need them. */
static const uint32_t nibble[16] = {
	ROW1(0), ROW1(1), ROW1(2),  ROW1(3),  ROW1(4),	ROW1(5),  ROW1(6),  ROW1(7),
	ROW1(8), ROW1(9), ROW1(10), ROW1(11), ROW1(12), ROW1(13), ROW1(14), ROW1(15),
};

uint32_t crc32c_table(uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	crc = ~crc;
	while (n--) {
		crc ^= *p++;
		crc = nibble[crc & 15] ^ crc >> 4;
		crc = nibble[crc & 15] ^ crc >> 4;
	}
	return ~crc;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint64_t c = (uint32_t)~crc, word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		c = __builtin_ia32_crc32di(c, word);
	}
	while (n--)
		c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
	return ~(uint32_t)c;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
	return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, bytes, n) : crc32c_table(crc, bytes, n);
}

uint32_t tracelog_packet_checksum(const uint8_t *packet, size_t len)
{
	uint32_t crc = crc32c(0, packet, TRACELOG_OFF_CHECKSUM);

	return crc32c(crc, packet + TRACELOG_PACKET_START, len - TRACELOG_PACKET_START);
}
