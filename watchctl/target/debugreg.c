#include "watchctl/target/debugreg.h"

#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "watchctl/target/held.h"

static void *place(unsigned int n)
{
	return (void *)(offsetof(struct user, u_debugreg) + n * sizeof(((struct user *)0)->u_debugreg[0]));
}

bool debugreg_read(pid_t tid, unsigned int n, uint64_t *ret)
{
	long value;

	errno = 0;
	value = held_ptrace(PTRACE_PEEKUSER, tid, place(n), 0);
	if (errno)
		return false;
	*ret = (uint64_t)value;
	return true;
}

bool debugreg_write(pid_t tid, unsigned int n, uint64_t value)
{
	return !held_ptrace(PTRACE_POKEUSER, tid, place(n), value);
}
