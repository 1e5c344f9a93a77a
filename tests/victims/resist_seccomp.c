/* build: gcc -O2 -g -pthread */
/*
 * resist_seccomp - puts itself under a seccomp filter that minds what is done to it, and says whether it
 *still does right: "pid N", then for each line of standard input "ok WRITES", or "bad".
 *
 *	resist_seccomp KIND [late|thread]
 *
 *	strict		SECCOMP_MODE_STRICT: read, write, exit and rt_sigreturn, anything else kills
 *	container	like a container's default profile: EPERM for what administrators do
 *	kill		kills for what a debugger would have it do: mmap, munmap, mprotect, rt_sigaction,
 *prctl ... trap | trace	SIGSYS, or a tracer's decision (ENOSYS where there is none), for getppid
 *	notify		another thread decides about getppid, and answers 4711
 *
 * late: at the first line; thread: at the first line too, in the thread that obeys, while another one, which
 *is free, waits. A line "w N" writes N times; "end" ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_RULES 128

volatile int flag __attribute__((aligned(64)));

static const char *kind;
static volatile sig_atomic_t trapped;
static int notify_fd = -1;

static const int administration[] = {
	SYS_ptrace,
	SYS_perf_event_open,
	SYS_personality,
	SYS_mount,
	SYS_umount2,
	SYS_userfaultfd,
	SYS_bpf,
	SYS_kexec_load,
	SYS_reboot,
	SYS_init_module,
	SYS_setns,
	SYS_unshare,
	SYS_pivot_root,
	SYS_swapon,
	SYS_keyctl,
	SYS_add_key,
	SYS_kcmp,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
};
static const int debuggers_work[] = {
	SYS_mmap,
	SYS_munmap,
	SYS_mprotect,
	SYS_mremap,
	SYS_rt_sigaction,
	SYS_prctl,
	SYS_gettid,
	SYS_rt_sigprocmask,
	SYS_rt_sigtimedwait,
	SYS_rt_tgsigqueueinfo,
	SYS_clock_gettime,
	SYS_futex,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
};
static const int parents[] = { SYS_getppid };

static const struct profile {
	const char *kind;
	const int *calls;
	size_t n;
	unsigned int action;
} profiles[] = {
	{ "container", administration, sizeof(administration) / sizeof(int), SECCOMP_RET_ERRNO | EPERM },
	{ "kill", debuggers_work, sizeof(debuggers_work) / sizeof(int), SECCOMP_RET_KILL_PROCESS },
	{ "trap", parents, 1, SECCOMP_RET_TRAP },
	{ "trace", parents, 1, SECCOMP_RET_TRACE },
	{ "notify", parents, 1, SECCOMP_RET_USER_NOTIF },
};

static int install(const struct profile *p)
{
	struct sock_filter rule[MAX_RULES];
	unsigned short n = 0;
	int flags = p->action == SECCOMP_RET_USER_NOTIF ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;

	rule[n++] =
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	rule[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	rule[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	rule[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < p->n; i++) {
		rule[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)p->calls[i],
							 0, 1);
		rule[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, p->action);
	}
	rule[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &(struct sock_fprog){ n, rule });
}

static void *decide(void *arg)
{
	struct seccomp_notif ask;
	struct seccomp_notif_resp answer;

	for (;;) {
		memset(&ask, 0, sizeof(ask));
		if (ioctl(notify_fd, SECCOMP_IOCTL_NOTIF_RECV, &ask))
			continue;
		answer = (struct seccomp_notif_resp){ .id = ask.id, .val = 4711 };
		ioctl(notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return arg;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	trapped += info->si_syscall == SYS_getppid;
}

static int enter(void)
{
	const struct profile *p = profiles;
	pthread_t t;

	if (!strcmp(kind, "strict"))
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	while (strcmp(p->kind, kind) != 0)
		p++;
	notify_fd = install(p);
	if (notify_fd > 0)
		pthread_create(&t, NULL, decide, NULL);
	return notify_fd < 0;
}

/* The filter does what it did. */
static int is_right(void)
{
	long before = trapped;

	if (!strcmp(kind, "container"))
		return syscall(SYS_personality, 0) == -1 && errno == EPERM;
	if (!strcmp(kind, "trap"))
		return syscall(SYS_getppid) && trapped == before + 1;
	if (!strcmp(kind, "trace"))
		return syscall(SYS_getppid) == -1 && errno == ENOSYS;
	if (!strcmp(kind, "notify"))
		return syscall(SYS_getppid) == 4711;
	return 1;
}

__attribute__((noinline)) void write_flag(int i)
{
	flag = i;
}

static int read_line(char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && read(0, line + n, 1) == 1)
		if (line[n++] == '\n')
			break;
	line[n] = '\0';
	return n > 0;
}

static void say(const char *text, int number)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s %d\n", text, number);

	if (write(1, line, (size_t)n) != n)
		syscall(SYS_exit, 1);
}

static int writes;

static void *obey(void *arg)
{
	int enter_now = arg != NULL;
	char line[64];

	while (read_line(line, sizeof(line)) && strcmp(line, "end\n") != 0) {
		int n = line[0] == 'w' ? atoi(line + 1) : 0;

		if (enter_now && enter())
			say("bad", errno);
		enter_now = 0;
		for (; n > 0; n--)
			write_flag(++writes);
		if (is_right())
			say("ok", writes);
		else
			say("bad", writes);
	}
	syscall(strcmp(kind, "strict") ? SYS_exit_group : SYS_exit, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	pthread_t t;
	int pid;

	kind = argv[1];
	pid = getpid();
	sigaction(SIGSYS, &sa, NULL);
	if (!*how && enter())
		return 1;
	say("pid", pid);
	if (strcmp(how, "thread") != 0)
		obey(*how ? (void *)1 : NULL);
	pthread_create(&t, NULL, obey, (void *)1);
	for (;;)
		pause();
}
