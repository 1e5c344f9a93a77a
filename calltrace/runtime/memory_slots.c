/*
 * __calltrace_memory() - memory of the program is read by a system call, which fails where a load would fault. It needs
 * no descriptor, takes no lock and is not interrupted.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/open_memory.h"
#include "calltrace/runtime/raw_call.h"
#include "calltrace/runtime/thread.h"

#define PAGE 4096u

/* The process may not call it: it is not tried again. */
static atomic_bool is_refused;

extern __thread struct calltrace_slot *__calltrace_at __attribute__((tls_model("initial-exec")));

/* In one instruction: a signal may come before or after it. */
static struct calltrace_slot *take_slot(void)
{
	uint64_t at = sizeof(struct calltrace_slot), variable;

	__asm__ volatile("movq __calltrace_at@gottpoff(%%rip), %1\n\t"
			 "xaddq %0, %%fs:(%1)"
			 : "+r"(at), "=&r"(variable)
			 :
			 : "memory", "cc");
	return (struct calltrace_slot *)at;
}

static void put_slot(uint32_t what, uint64_t tsc, uint32_t frame)
{
	struct calltrace_slot *slot = take_slot();

	slot->tsc = tsc;
	slot->frame = frame;
	__atomic_store_n(&slot->what, what, __ATOMIC_RELEASE);
	if ((uintptr_t)(slot + 1) % CALLTRACE_CHUNK == 0)
		__calltrace_turn(what, frame);
}

/* How many bytes of [@at, @at + @bytes) could be read into @to: those up to a page that is not there. */
static uint32_t read_memory(uint64_t at, uint32_t bytes, void *to)
{
	const uint32_t to_border = PAGE - (uint32_t)(at % PAGE);
	const uint32_t first = bytes < to_border ? bytes : to_border;
	const struct iovec here = { to, bytes };
	/* Two, as the kernel promises to read whole ones alone. */
	const struct iovec there[2] = { { (void *)at, first }, { (void *)(at + first), bytes - first } };
	const pid_t pid = threads_pid();
	long n;

	if (!pid || is_refused)
		return 0;
	n = raw_call6(SYS_process_vm_readv, pid, (long)&here, 1, (long)there, first < bytes ? 2 : 1, 0);
	/* A process that shares this memory may be refused what this one is not. */
	if ((n == -ENOSYS || n == -EPERM || n == -EACCES) && raw_call(SYS_getpid, 0, 0, 0, 0) == pid)
		is_refused = true;
	return n > 0 ? (uint32_t)n : 0;
}

static uint32_t length_of(const uint8_t *text, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && text[i])
		i++;
	return i;
}

__attribute__((visibility("default"))) void __calltrace_memory(const struct calltrace_function *f,
							       uint64_t at, uint32_t bytes, uint32_t number)
{
	const uint32_t function = (uint32_t)(uintptr_t)f, wanted = bytes & ~CALLTRACE_STRING;
	struct memory_piece piece[MEMORY_PIECES];
	enum calltrace_memory_state state = CALLTRACE_MEMORY_WHOLE;
	uint32_t have, shown;

	/* The value says that it is NULL. */
	if (!at || wanted > CALLTRACE_MEMORY_MAX)
		return;
	have = shown = read_memory(at, wanted, piece);
	__asm__ volatile("" : "=m"(piece)); /* by the kernel: compilers and checkers do not see it */
	if (bytes & CALLTRACE_STRING)
		shown = length_of((const uint8_t *)piece, have);
	if (!have)
		state = CALLTRACE_MEMORY_UNREADABLE;
	else if (bytes & CALLTRACE_STRING ? shown == have : have < wanted)
		state = CALLTRACE_MEMORY_CUT;
	put_slot(function | CALLTRACE_MEMORY, shown | (uint64_t)state << 16, number);
	for (uint32_t i = 0; i * CALLTRACE_PIECE < shown; i++)
		put_slot(function | CALLTRACE_BYTES, piece[i].first, piece[i].last);
}
