/*
 * account - what a program says itself about its calls, to be compared with what was recorded: for each thread its
 * entries ('>'), exits ('<') and the calls that have ended without one ('!'), printed when the program ends.
 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACCOUNT_MAX 100000

struct account_line {
	int tid;
	char what;
	const char *name;
};

static struct account_line account_lines[ACCOUNT_MAX];
static int account_count;

/* ACCOUNT_INLINED: functions may be inlined, and those that keep the account are not. */
#ifdef ACCOUNT_INLINED
#define ACCOUNT_INLINE static __attribute__((noinline, unused))
#else
#define ACCOUNT_INLINE static inline __attribute__((always_inline, unused))
#endif

ACCOUNT_INLINE void account(char what, const char *name)
{
	int n = __atomic_fetch_add(&account_count, 1, __ATOMIC_RELAXED);

	account_lines[n].tid = (int)syscall(SYS_gettid);
	account_lines[n].what = what;
	account_lines[n].name = name;
}

#define IN() account('>', __func__)
#define OUT() account('<', __func__)
#define GONE(name) account('!', name)

/* Never inlined into another, nor left out or cloned: the same at each level of optimization. */
#ifdef ACCOUNT_INLINED
#define TRACED
#else
#define TRACED __attribute__((noinline, used))
#endif

ACCOUNT_INLINE void account_print(void)
{
	int i;

	for (i = 0; i < account_count; i++)
		printf("%d %c %s\n", account_lines[i].tid, account_lines[i].what, account_lines[i].name);
	fflush(stdout);
}

#endif
