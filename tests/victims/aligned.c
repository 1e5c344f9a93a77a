/* build: gcc -O1 -g */
/*
 * aligned - a program that has unaligned accesses reported (the flag AC) while it writes a variable; and
 *waits in a system call that a debugger's stop ends with EINTR. Commands on standard input:
 *
 *	write N		writes `flag` N times with AC on; "ok" and the value
 *	raise		SIGTRAP to itself, with AC on; "ok", how often its handler ran, and whether AC was
 *"on" there wait MS		recv() of a socket with that time-out; "ok" and "timed out", or "interrupted"
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define FLAG_AC "0x40000"
#define BELOW_RED_ZONE "lea -128(%%rsp), %%rsp\n\t"
#define BACK "lea 128(%%rsp), %%rsp\n\t"
#define AC_ON BELOW_RED_ZONE "pushfq; orq $" FLAG_AC ", (%%rsp); popfq\n\t" BACK
#define AC_OFF BELOW_RED_ZONE "pushfq; andq $~" FLAG_AC ", (%%rsp); popfq\n\t" BACK

volatile int flag;
static volatile int traps;
static volatile uint64_t flags_in_handler;

/* Its first instructions look at the flag, and switch it off: compiled code may access what is not aligned.
 */
static void on_trap(int sig)
{
	uint64_t flags;

	__asm__ volatile("pushfq; pop %0" : "=r"(flags));
	__asm__ volatile(AC_OFF ::: "memory", "cc");
	flags_in_handler = flags;
	traps += sig == SIGTRAP;
}

static __attribute__((noinline)) void write_flag(void)
{
	__asm__ volatile(AC_ON "addl $1, %0\n\t" AC_OFF : "+m"(flag)::"memory", "cc");
}

static __attribute__((noinline)) void raise_trap(void)
{
	long pid = getpid(), tid = syscall(SYS_gettid), nr = SYS_tgkill;

	__asm__ volatile(AC_ON "syscall\n\t" AC_OFF
			 : "+a"(nr)
			 : "D"(pid), "S"(tid), "d"((long)SIGTRAP)
			 : "rcx", "r11", "memory", "cc");
}

static const char *wait_ms(int fd, long ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };
	char c;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		return "not possible";
	return recv(fd, &c, 1, 0) < 0 && errno == EAGAIN ? "timed out" : "interrupted";
}

int main(void)
{
	struct sigaction a = { .sa_handler = on_trap };
	char line[64], word[16];
	int pair[2];
	long i, n;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	sigaction(SIGTRAP, &a, NULL);
	printf("pid %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		n = 0;
		sscanf(line, "%15s %ld", word, &n);
		if (!strcmp(word, "write")) {
			for (i = 0; i < n; i++)
				write_flag();
			printf("ok %d\n", flag);
		} else if (!strcmp(word, "raise")) {
			raise_trap();
			printf("ok %d %s\n", traps,
			       flags_in_handler & strtoul(FLAG_AC, NULL, 0) ? "on" : "off");
		} else if (!strcmp(word, "wait")) {
			printf("ok %s\n", wait_ms(pair[0], n));
		}
		fflush(stdout);
	}
	return 0;
}
