#include "watchctl/target/inject/gadget.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/proc/proc.h"

#define CHUNK (1u << 20)
#define LONGEST 9u

static const struct code {
	const char *bytes;
	size_t n;
} syscall_ret = { "\x0f\x05\xc3", 3 }, pop_rax_ret = { "\x58\xc3", 2 },
  sigreturns[] = { { "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", LONGEST },
		   { "\xb8\x0f\x00\x00\x00\x0f\x05", 7 } };

struct search {
	pid_t pid;
	uint8_t *buf; /* CHUNK bytes */
	struct gadgets found;
};

static uint64_t find_code(const uint8_t *buf, size_t len, uint64_t base, const struct code *c)
{
	const uint8_t *p = memmem(buf, len, c->bytes, c->n);

	return p ? base + (uint64_t)(p - buf) : 0;
}

static void gadget_look(struct gadgets *g, const uint8_t *buf, size_t len, uint64_t base)
{
	size_t i;

	if (!g->syscall_ret)
		g->syscall_ret = find_code(buf, len, base, &syscall_ret);
	for (i = 0; i < sizeof(sigreturns) / sizeof(sigreturns[0]) && !g->sigreturn; i++)
		g->sigreturn = find_code(buf, len, base, &sigreturns[i]);
	if (!g->pop_rax_ret)
		g->pop_rax_ret = find_code(buf, len, base, &pop_rax_ret);
}

static bool complete(const struct gadgets *g)
{
	return g->syscall_ret && (g->sigreturn || g->pop_rax_ret);
}

static bool search_map(void *ctx, const struct proc_map *m)
{
	struct search *s = ctx;
	struct memory_view mem = proc_memory(&s->pid);
	uint64_t at;

	if (!m->exec || !m->read || !m->name[0] || !strcmp(m->name, "[vsyscall]"))
		return true; /* anonymous code is a JIT's: it may change under us */
	for (at = m->start; at < m->end && !(s->found.syscall_ret && s->found.sigreturn);
	     at += CHUNK - LONGEST) {
		size_t len = m->end - at < CHUNK ? m->end - at : CHUNK;

		if (memory_read(&mem, at, s->buf, len))
			gadget_look(&s->found, s->buf, len, at);
		if (len < CHUNK)
			break;
	}
	return !(s->found.syscall_ret && s->found.sigreturn);
}

struct wc_error *gadgets_find(pid_t pid, struct gadgets *ret)
{
	scoped(freep) uint8_t *buf = malloc(CHUNK);
	struct search s = { .pid = pid, .buf = buf };
	struct wc_error *gone;

	if (!buf)
		return &wc_enomem;
	proc_maps(pid, search_map, &s);
	if (complete(&s.found)) {
		*ret = s.found;
		return NULL;
	}
	gone = proc_check(pid);
	return gone ? gone
		    : wc_error_new(
			      WC_ENOTSUP,
			      "process %d contains no instructions with which it could map the handler without changes "
			      "to its code: choose --engine ring or ptrace",
			      pid);
}

static bool is_at(pid_t pid, uint64_t addr, const struct code *c)
{
	struct memory_view mem = proc_memory(&pid);
	uint8_t now[LONGEST];

	return memory_read(&mem, addr, now, c->n) && !memcmp(now, c->bytes, c->n);
}

bool gadgets_are_there(pid_t pid, const struct gadgets *g)
{
	size_t i;

	if (!is_at(pid, g->syscall_ret, &syscall_ret))
		return false;
	if (!g->sigreturn)
		return is_at(pid, g->pop_rax_ret, &pop_rax_ret);
	for (i = 0; i < sizeof(sigreturns) / sizeof(sigreturns[0]); i++)
		if (is_at(pid, g->sigreturn, &sigreturns[i]))
			return true;
	return false;
}

unsigned int gadgets_chain(const struct gadgets *g, uint64_t word[4])
{
	if (g->sigreturn) {
		word[0] = g->sigreturn;
		return 1;
	}
	word[0] = g->pop_rax_ret;
	word[1] = 15;
	word[2] = g->syscall_ret;
	return 3;
}
