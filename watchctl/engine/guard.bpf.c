/*
 * guard - runs in the kernel at each hit, before the SIGTRAP is made: lets it pass only while the
 * process still has our handler installed. A program that installs its own would otherwise receive
 * signals that are not for it, or, with the default action, die.
 *
 * A BPF program on a perf event that returns 0 makes the kernel drop the sample and its signal
 * (kernel/events/core.c, __perf_event_overflow(), since Linux 6.11; older kernels send the signal
 * all the same, which perf_guard.c finds out before it trusts this program).
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

#define SIGTRAP 5

/* Only the members used; their places come from the running kernel's BTF. */
struct sigaction {
	void *sa_handler;
} __attribute__((preserve_access_index));

struct k_sigaction {
	struct sigaction sa;
} __attribute__((preserve_access_index));

struct sighand_struct {
	struct k_sigaction action[64];
} __attribute__((preserve_access_index));

struct task_struct {
	struct sighand_struct *sighand;
} __attribute__((preserve_access_index));

/* Written by the controller before the first hit, and by this program. */
__u64 our_handler;
__u64 suppressed;

/* Another watchctl's handler in front of ours passes our signals on to us: see struct wire_doorplate. */
static bool is_watchctl(const char *handler)
{
	const __u64 watchctl = 0x6c74636863746177, handler_ = 0x72656c646e616820; /* "watchctl handler" */
	__u64 name[2];

	return !bpf_probe_read_user(name, sizeof(name), handler - sizeof(name)) && name[0] == watchctl &&
	       name[1] == handler_;
}

SEC("perf_event")
int guard(void *ctx)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	const char *handler = task->sighand->action[SIGTRAP - 1].sa.sa_handler;

	if ((__u64)handler == our_handler || is_watchctl(handler))
		return 1;
	__sync_fetch_and_add(&suppressed, 1);
	return 0;
}

char licence[] SEC("license") = "GPL";
