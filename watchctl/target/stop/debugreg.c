#include "watchctl/target/stop/debugreg.h"

#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "watchctl/target/stop/held.h"

static void *debugreg_place(unsigned int n)
{
	return (void *)(offsetof(struct user, u_debugreg) + n * sizeof(((struct user *)0)->u_debugreg[0]));
}

static bool read_word(pid_t tid, unsigned int n, uint64_t *ret)
{
	long value;

	errno = 0;
	value = held_ptrace(PTRACE_PEEKUSER, tid, debugreg_place(n), 0);
	if (errno)
		return false;
	*ret = (uint64_t)value;
	return true;
}

/*
 * A thread is born without debug registers, but with its maker's control register in the kernel's books
 * (copy_thread() clears ptrace_bps, and leaves ptrace_dr7): what has no address is not armed.
 */
static bool drop_inherited(pid_t tid, uint64_t *control)
{
	for (unsigned int n = 0; n < 4; n++) {
		uint64_t enabled = 3ull << 2 * n, fields = 15ull << (16 + 4 * n), addr;

		if (!(*control & enabled))
			continue;
		if (!read_word(tid, n, &addr))
			return false;
		if (!addr)
			*control &= ~(enabled | fields);
	}
	return true;
}

bool debugreg_read(pid_t tid, unsigned int n, uint64_t *ret)
{
	uint64_t value;

	if (!read_word(tid, n, &value) || (n == DEBUGREG_CONTROL && !drop_inherited(tid, &value)))
		return false;
	*ret = value;
	return true;
}

bool debugreg_write(pid_t tid, unsigned int n, uint64_t value)
{
	return !held_ptrace(PTRACE_POKEUSER, tid, debugreg_place(n), value);
}
