#include "watchctl/target/stop/run_to_entry.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/target/stop/held.h"

#define INT3 0xccu

/* From the kernel's auxiliary vector; 0: not there. */
static uint64_t auxv(pid_t pid, uint64_t type)
{
	uint64_t pair[2];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, pair, sizeof(pair)) == sizeof(pair) && pair[0] != AT_NULL)
		if (pair[0] == type)
			return pair[1];
	return 0;
}

/*
 * Without a loader, a program relocates itself, before it does anything that needs the kernel: to its first
 * system call.
 */
static bool run_to_system_call(struct tracee *t)
{
	int status, sig = 0;

	for (;;) {
		if (held_ptrace(PTRACE_SYSCALL, t->tid, 0, sig) ||
		    waitpid(t->tid, &status, __WALL) != t->tid || !WIFSTOPPED(status))
			return false;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			return !held_ptrace(PTRACE_GETREGS, t->tid, 0, &t->home);
		sig = status >> 16 ? 0 : WSTOPSIG(status);
	}
}

static struct wc_error *ended(pid_t pid)
{
	return wc_error_new(WC_ETARGET, "process %d ended before its entry point", pid);
}

/* Its own signals are delivered; the trap at @addr is ours. False: it is gone. */
static bool wait_at(struct tracee *t, uint64_t addr)
{
	struct user_regs_struct regs;
	int status, sig = 0;

	for (;;) {
		if (held_ptrace(PTRACE_CONT, t->tid, 0, sig) || waitpid(t->tid, &status, __WALL) != t->tid ||
		    !WIFSTOPPED(status))
			return false;
		/* A stop of its group (SIGSTOP) would be for whoever started us: it waits at its entry
		 * anyway. */
		sig = status >> 16 ? 0 : WSTOPSIG(status);
		if (sig == SIGTRAP && !held_ptrace(PTRACE_GETREGS, t->tid, 0, &regs) && regs.rip == addr + 1)
			return true;
	}
}

static bool set_word(const struct tracee *t, uint64_t addr, long word)
{
	return !held_ptrace(PTRACE_POKETEXT, t->tid, addr, word);
}

bool run_to_entry_has_loader(pid_t pid)
{
	return auxv(pid, AT_BASE);
}

struct wc_error *run_to_entry(struct tracee *t)
{
	uint64_t entry = auxv(t->pid, AT_ENTRY);
	struct user_regs_struct regs;
	long word;

	if (!auxv(t->pid, AT_BASE))
		return run_to_system_call(t) ? NULL : ended(t->pid);
	if (!entry || t->home.rip == entry)
		return NULL;
	errno = 0;
	word = held_ptrace(PTRACE_PEEKTEXT, t->tid, entry, 0);
	if (errno || !set_word(t, entry, (word & ~0xffL) | INT3))
		return NULL;
	if (!wait_at(t, entry))
		return ended(t->pid);
	if (!set_word(t, entry, word) || held_ptrace(PTRACE_GETREGS, t->tid, 0, &regs))
		return ended(t->pid);
	regs.rip = entry;
	if (held_ptrace(PTRACE_SETREGS, t->tid, 0, &regs))
		return ended(t->pid);
	t->home = regs;
	return NULL;
}
