/* build: gcc -D_GNU_SOURCE -O2 -g -pthread */
/*
 * kernel_calls - lets the kernel read and write its variables, a line at a time on standard input. Prints
 * "pid N" first and "ok [TEXT]" after each line; the text is what the variable holds then, unless said
 * otherwise.
 *
 *	read | recv | getrandom | clock | wait		the kernel writes `word` (`status`, the last)
 *	send						the kernel reads `word`
 *	futex						the kernel reads `futex` and finds another value than
 * asked for futex_op N					the kernel sets `futex` to N, atomically uring |
 * uring_async				an io_uring read into `word`, at once or by a worker thread where
 * the address of a word of the last signal's frame
 *	signal						a signal, on a stack of its own
 *	set N						the program writes `word`
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

volatile long word __attribute__((aligned(64)));
volatile int status __attribute__((aligned(64)));
volatile uint32_t futex __attribute__((aligned(64)));
volatile uint32_t other __attribute__((aligned(64)));

static char stack[65536] __attribute__((aligned(64)));
static volatile uintptr_t frame;
static long serial = 0x1000;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	frame = (uintptr_t) & ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX];
}

__attribute__((noinline)) static void by_read(void)
{
	int p[2];
	long value = ++serial;

	if (pipe(p) || write(p[1], &value, 8) != 8 || read(p[0], (void *)&word, 8) != 8)
		abort();
	close(p[0]);
	close(p[1]);
}

__attribute__((noinline)) static void by_recv(void)
{
	int s[2];
	long value = ++serial;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || send(s[1], &value, 8, 0) != 8 ||
	    recv(s[0], (void *)&word, 8, 0) != 8)
		abort();
	close(s[0]);
	close(s[1]);
}

__attribute__((noinline)) static void by_send(void)
{
	int p[2];

	if (pipe(p) || write(p[1], (const void *)&word, 8) != 8)
		abort();
	close(p[0]);
	close(p[1]);
}

__attribute__((noinline)) static void by_wait(void)
{
	pid_t child = fork();

	if (!child)
		_exit(7);
	if (waitpid(child, (int *)&status, 0) != child)
		abort();
}

static long futex_call(uint32_t expected, unsigned int set)
{
	if (set == UINT32_MAX)
		return syscall(SYS_futex, &futex, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
	return syscall(SYS_futex, &other, FUTEX_WAKE_OP_PRIVATE, 0, 0, &futex,
		       FUTEX_OP(FUTEX_OP_SET, set, FUTEX_OP_CMP_EQ, 0));
}

/* One read of 8 bytes from a pipe, submitted and waited for. */
__attribute__((noinline)) static void by_uring(unsigned int flags)
{
	struct io_uring_params p = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 4, &p), pipe_fd[2];
	size_t size = p.sq_off.array + p.sq_entries * 4;
	long value = ++serial;
	struct io_uring_sqe *sqe;
	char *ring;

	if (fd < 0 || pipe(pipe_fd) || write(pipe_fd[1], &value, 8) != 8) {
		printf("ok refused\n");
		return;
	}
	ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	sqe = mmap(NULL, p.sq_entries * sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   IORING_OFF_SQES);
	*sqe = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
				      .flags = (uint8_t)flags,
				      .fd = pipe_fd[0],
				      .addr = (uintptr_t)&word,
				      .len = 8 };
	*(uint32_t *)(ring + p.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(ring + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		abort();
	munmap(ring, size);
	munmap(sqe, p.sq_entries * sizeof(*sqe));
	close(fd);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	printf("ok %ld\n", word);
}

static void set_up_signals(void)
{
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_flags = SA_SIGINFO | SA_ONSTACK, .sa_sigaction = on_signal };

	sigaltstack(&alt, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	raise(SIGUSR1);
}

static void obey(const char *cmd, long n)
{
	if (!strcmp(cmd, "read"))
		by_read();
	else if (!strcmp(cmd, "recv"))
		by_recv();
	else if (!strcmp(cmd, "send"))
		by_send();
	else if (!strcmp(cmd, "getrandom"))
		syscall(SYS_getrandom, &word, 8, 0); /* the vDSO has one of its own */
	else if (!strcmp(cmd, "clock"))
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &word);
	else if (!strcmp(cmd, "set"))
		word = n;
	else if (!strcmp(cmd, "signal"))
		raise(SIGUSR1);
	if (!strcmp(cmd, "wait")) {
		by_wait();
		printf("ok %d\n", status);
	} else if (!strcmp(cmd, "futex") || !strcmp(cmd, "futex_op")) {
		futex_call(futex + 1, cmd[5] ? (unsigned int)n : UINT32_MAX);
		printf("ok %u\n", futex);
	} else if (!strncmp(cmd, "uring", 5)) {
		by_uring(cmd[5] ? IOSQE_ASYNC : 0);
	} else if (!strcmp(cmd, "where")) {
		printf("ok 0x%lx\n", (unsigned long)frame);
	} else {
		printf("ok %ld\n", word);
	}
}

int main(void)
{
	char line[256], cmd[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up_signals();
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		long n = 0;

		*cmd = '\0';
		sscanf(line, "%63s %ld", cmd, &n);
		obey(cmd, n);
	}
	return 0;
}
