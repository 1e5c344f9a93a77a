#include "watchctl/engine/perf_guard.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.skel.h"

struct perf_guard {
	struct guard_bpf *bpf;
};

static volatile sig_atomic_t trapped;

static void on_trap(int sig)
{
	trapped = sig;
}

/* A hit on a variable of ours, while the guard believes in another handler: no signal may come. */
static bool kernel_obeys(const struct perf_guard *g)
{
	static volatile long probe;
	struct perf_event_attr a = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(a),
		.sample_period = 1,
		.sigtrap = 1,
		.remove_on_exec = 1,
		.exclude_kernel = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uint64_t)(uintptr_t)&probe,
		.bp_len = sizeof(probe),
	};
	struct sigaction ours = { .sa_handler = on_trap }, old;
	int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	bool attached;

	if (fd < 0)
		return false;
	trapped = 0;
	sigaction(SIGTRAP, &ours, &old);
	attached = perf_guard_attach(g, fd);
	probe++;
	close(fd);
	sigaction(SIGTRAP, &old, NULL);
	return attached && !trapped && g->bpf->bss->suppressed == 1;
}

struct perf_guard *perf_guard_open(uint64_t handler, const char **why)
{
	struct perf_guard *g = calloc(1, sizeof(*g));

	*why = "out of memory";
	if (!g)
		return NULL;
	libbpf_set_print(NULL);
	*why = "loading it is not permitted (it needs CAP_BPF and CAP_PERFMON), or the kernel has no BTF";
	g->bpf = guard_bpf__open_and_load();
	if (g->bpf && !kernel_obeys(g)) {
		*why = "this kernel does not let a BPF program hold a signal back (Linux 6.11 does)";
		guard_bpf__destroy(g->bpf);
		g->bpf = NULL;
	}
	if (!g->bpf) {
		free(g);
		return NULL;
	}
	g->bpf->bss->suppressed = 0;
	g->bpf->bss->our_handler = handler;
	return g;
}

void perf_guard_close(struct perf_guard *g)
{
	if (!g)
		return;
	guard_bpf__destroy(g->bpf);
	free(g);
}

bool perf_guard_attach(const struct perf_guard *g, int perf_fd)
{
	return !ioctl(perf_fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(g->bpf->progs.guard));
}

uint64_t perf_guard_suppressed(const struct perf_guard *g)
{
	return g ? __atomic_load_n(&g->bpf->bss->suppressed, __ATOMIC_RELAXED) : 0;
}
