#include "watchctl/trace/log/tracelog_check.h"

#include <string.h>
#include <wmmintrin.h>

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

__attribute__((target("sse4.2"))) static inline uint64_t add_word(uint64_t crc, const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return __builtin_ia32_crc32di(crc, word);
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint64_t c = (uint32_t)~crc;

	for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t), p += sizeof(uint64_t))
		c = add_word(c, p);
	while (n--)
		c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
	return ~(uint32_t)c;
}

#define LANE 1024u
/* x^(8 * n - 33) modulo the polynomial, bits reversed, of n = LANE and 2 * LANE: see behind_zeros(). */
#define ONE_LANE 0x170076fau
#define TWO_LANES 0xa51b6135u

/*
 * The remainder when n bytes of zeros follow. Of the product, whose bits are reversed in 63 of 64 bits, the instruction
 * takes the remainder of its x^33-fold.
 */
__attribute__((target("sse4.2,pclmul"))) static uint64_t behind_zeros(uint64_t crc, uint32_t factor)
{
	const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
						     _mm_cvtsi64_si128((long long)factor), 0);

	return __builtin_ia32_crc32di(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* The instruction takes three cycles, and another one may begin in each: three lanes at a time. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t crc32c_lanes(uint32_t crc, const void *bytes,
								      size_t n)
{
	const uint8_t *p = bytes;
	uint64_t a = (uint32_t)~crc;

	for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) {
		uint64_t b = 0, c = 0;

		for (size_t i = 0; i < LANE; i += sizeof(uint64_t)) {
			a = add_word(a, p + i);
			b = add_word(b, p + LANE + i);
			c = add_word(c, p + 2 * LANE + i);
		}
		a = behind_zeros(a, TWO_LANES) ^ behind_zeros(b, ONE_LANE) ^ c;
	}
	return crc32c_sse42(~(uint32_t)a, p, n);
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
	if (!__builtin_cpu_supports("sse4.2"))
		return crc32c_table(crc, bytes, n);
	return n >= 3 * LANE && __builtin_cpu_supports("pclmul") ? crc32c_lanes(crc, bytes, n)
								 : crc32c_sse42(crc, bytes, n);
}

uint32_t crc32c_around(const void *bytes, size_t at, size_t n)
{
	const uint8_t *p = bytes;
	const size_t behind = at + sizeof(uint32_t);

	return crc32c(crc32c(0, p, at), p + behind, n - behind);
}

uint32_t tracelog_packet_checksum(const uint8_t *packet, size_t len)
{
	return crc32c_around(packet, TRACELOG_OFF_CHECKSUM, len);
}
