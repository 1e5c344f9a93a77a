/*
 * What a session reads in the memory of a program, which may have put anything there: its ELF headers and
 * notes, the loader's lists of threads and libraries. The searches end, and what they say comes from what was
 * read.
 *
 * The first bytes choose what is looked for; the rest is memory, at BASE and on.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/tls/tls.h"
#include "watchctl/monitor/capture_note.h"

#define BASE 0x10000u

static unsigned int reads;

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct fuzz_input *in = ctx;

	require(++reads < 1000000);
	if (addr < BASE || addr - BASE > in->size || len > in->size - (addr - BASE))
		return false;
	memcpy(buf, in->data + (addr - BASE), len);
	return true;
}

static void ask_notes(struct fuzz_input *in)
{
	const struct memory_view mem = { read_memory, in };
	const struct module m = { .start = BASE, .end = BASE + 0x10000, .bias = BASE };
	struct module_elf head;
	uint64_t at;
	int fd = memfd_create("memory", MFD_CLOEXEC);

	capture_note_find(&mem, &m, &at);
	require(fd >= 0 && write(fd, in->data, in->size) == (ssize_t)in->size);
	if (module_elf_from_memory(fd, 0, &head))
		require(head.nsegments <= MODULE_ELF_SEGMENTS && head.build_id_len <= BUILD_ID_MAX);
	close(fd);
}

static void ask_tls(struct fuzz_input *in)
{
	const struct memory_view mem = { read_memory, in };
	struct tls_place p;
	uint64_t pointer, at;

	fuzz_take(in, &p, sizeof(p));
	fuzz_take(in, &pointer, sizeof(pointer));
	p.library = (enum tls_library)((unsigned int)p.library % (TLS_LIBRARY_MUSL + 1));
	require(tls_address(&p, &mem, pointer, &at) <= TLS_NOT_LOADED);
	tls_comes_on_demand(&p, &mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	reads = 0;
	if (fuzz_take_byte(&in) & 1)
		ask_tls(&in);
	else
		ask_notes(&in);
	return 0;
}
