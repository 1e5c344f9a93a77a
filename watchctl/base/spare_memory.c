#include "watchctl/base/spare_memory.h"

#include <stddef.h>
#include <sys/mman.h>

/* To look at all mappings and threads of a process of ordinary size, with the C library's buffers for it. */
#define SPARE_SIZE (8u << 20)

bool spare_memory_keep(struct spare_memory *s)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	/* cppcheck-suppress invalidFunctionArg ; there is no file behind it */
	void *block = mmap(NULL, SPARE_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);

	s->block = block == MAP_FAILED ? NULL : block;
	return s->block;
}

void spare_memory_release(struct spare_memory *s)
{
	if (s->block)
		munmap(s->block, SPARE_SIZE);
	s->block = NULL;
}
