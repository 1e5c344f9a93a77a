#include <string.h>
#include <sys/uio.h>

#include "watchctl/engine/ptrace/ptrace_tracer.h"
#include "watchctl/target/proc/proc.h"

#define FIRST_GULP 2048u

void gulps_begin(struct gulps *g, pid_t tid)
{
	g->tid = tid;
	g->n = g->oldest = 0;
}

/* The stack is in the same answer: one system call does for a plain hit. */
bool gulps_first(struct gulps *g, uint64_t sp, uint64_t addr, uint32_t size, uint64_t *ret)
{
	struct iovec local[2] = { { ret, size }, { g->bytes[0], FIRST_GULP } };
	struct iovec remote[2] = { { (void *)(uintptr_t)addr, size }, { (void *)(uintptr_t)sp, FIRST_GULP } };
	unsigned int from = size ? 0 : 1;
	ssize_t got;

	*ret = 0;
	got = process_vm_readv(g->tid, local + from, 2 - from, remote + from, 2 - from, 0);
	if (got < (ssize_t)size)
		return false;
	g->addr[0] = sp;
	g->len[0] = (size_t)got - size;
	g->n = 1;
	return true;
}

static bool ptrace_stack_find(const struct gulps *g, uint64_t addr, uint64_t *ret)
{
	unsigned int i;

	for (i = 0; i < g->n; i++) {
		uint64_t offset = addr - g->addr[i];

		if (offset < g->len[i] && g->len[i] - offset >= 8) {
			memcpy(ret, g->bytes[i] + offset, 8);
			return true;
		}
	}
	return false;
}

bool gulps_read(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct gulps *g = ctx;
	unsigned int i = g->n;

	if (ptrace_stack_find(g, addr, ret))
		return true;
	if (i == STACK_CHUNKS)
		i = g->oldest++ % STACK_CHUNKS;
	/* From there up, not from the page's beginning: a walk goes upwards. */
	g->addr[i] = addr;
	g->len[i] = proc_read_some(g->tid, addr, g->bytes[i], STACK_CHUNK);
	if (i == g->n && g->len[i])
		g->n++;
	return ptrace_stack_find(g, addr, ret);
}
