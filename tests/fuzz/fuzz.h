/* fuzz - what the fuzzers share. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool claim)
{
	if (!claim)
		abort();
}

/* The input, of which the first bytes are taken one after the other. */
struct fuzz_input {
	const uint8_t *data;
	size_t size;
};

/* What is not there is zero. */
static inline void fuzz_take(struct fuzz_input *in, void *to, size_t len)
{
	size_t n = len < in->size ? len : in->size;

	memset(to, 0, len);
	if (n)
		memcpy(to, in->data, n);
	in->data += n;
	in->size -= n;
}

static inline uint8_t fuzz_take_byte(struct fuzz_input *in)
{
	uint8_t v;

	fuzz_take(in, &v, sizeof(v));
	return v;
}

/* The rest as a text of its own, which ends at its first NUL; freed by the caller. */
static inline char *fuzz_text(const struct fuzz_input *in)
{
	char *text = strndup(in->size ? (const char *)in->data : "", in->size);

	require(text);
	return text;
}

/* Reads all of it, for AddressSanitizer to see. */
static inline void fuzz_read(const char *text)
{
	for (const volatile char *p = text; p && *p; p++)
		;
}

#endif
