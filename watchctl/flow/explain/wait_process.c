#include "watchctl/flow/explain/wait_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/syscall_name.h"
#include "watchctl/code/insn/syscall_site.h"
#include "watchctl/flow/explain/wait_file_lock.h"
#include "watchctl/target/proc/proc.h"

#define KERNEL_TEXT 96
#define RETRY_S 2.0 /* who tries a lock again and again seldom sleeps longer in between */

/* By state */

/* The kernel's function in which it sleeps; "" where that may not be known. */
static void read_wchan(const struct look_thread *t, char *buf, size_t cap)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/wchan", t->pid, t->tid);
	scoped(fclosep) FILE *f = fopen(path, "re");

	buf[0] = '\0';
	if (f && !fgets(buf, (int)cap, f))
		buf[0] = '\0';
	if (!strcmp(buf, "0"))
		buf[0] = '\0';
}

static const char *call_name(const struct look_thread *t)
{
	const char *name = t->in_syscall ? syscall_name((int)t->number) : NULL;

	return name ? name : "an unknown system call";
}

static void put_runs(const struct look_thread *t, struct wait *ret)
{
	ret->kind = WAIT_RUNS;
	ret->ender = ENDER_TIME;
	snprintf(ret->what, sizeof(ret->what), "nothing");
	if (t->running)
		snprintf(ret->evidence, sizeof(ret->evidence),
			 "it was on a CPU, and ran for %.0f ms between the looks", (double)t->ran_ns / 1e6);
	else
		snprintf(ret->evidence, sizeof(ret->evidence),
			 "it is ready to run%s%s, and ran for %.0f ms between the looks",
			 t->in_syscall ? ", in " : "", t->in_syscall ? call_name(t) : "",
			 (double)t->ran_ns / 1e6);
}

static void put_stopped(const struct look_thread *t, struct wait *ret)
{
	struct proc_status s;
	bool known = proc_status_read(t->pid, t->tid, &s);

	ret->kind = WAIT_STOPPED;
	if (t->state == 't' && known && s.tracer) {
		ret->ender = ENDER_THREADS;
		snprintf(ret->what, sizeof(ret->what), "its tracer");
		snprintf(ret->evidence, sizeof(ret->evidence),
			 "it is in a ptrace stop, and its TracerPid is %d", s.tracer);
		wait_add(ret, s.tracer, 0, false,
			 "it traces the thread, which stands until it lets it go on");
		return;
	}
	snprintf(ret->what, sizeof(ret->what), "SIGCONT");
	snprintf(
		ret->evidence, sizeof(ret->evidence),
		"its state is T: SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU has stopped it, and kill -CONT %d lets it go on",
		t->pid);
}

static bool is_vfork(const struct look_thread *t)
{
	return t->in_syscall && (t->number == SYS_vfork || t->number == SYS_clone ||
				 t->number == SYS_clone3 || t->number == SYS_fork);
}

static void add_children(struct look *l, const struct look_thread *t, pid_t own, struct wait *ret)
{
	const struct look_process *c;

	for (size_t i = 0; (c = look_process_at(l, i)); i++) {
		const struct look_thread *first = look_thread(c, 0);

		if (c->parent == t->pid && c->pid != t->pid && first && first->state != 'Z' &&
		    (!own || first->own_tid == own))
			wait_add(ret, c->pid, 0, false, "it is the child");
	}
}

static void put_vfork(struct look *l, const struct look_thread *t, struct wait *ret)
{
	ret->kind = WAIT_CHILD;
	add_children(l, t, 0, ret);
	ret->ender = ret->n ? ENDER_THREADS : ENDER_UNKNOWN;
	snprintf(ret->what, sizeof(ret->what), "a child of vfork to execute another program, or to end");
	snprintf(ret->evidence, sizeof(ret->evidence), "it is in %s, in D state", call_name(t));
}

static void put_kernel(const struct look_thread *t, struct wait *ret)
{
	static const char *const kind[] = { "mutex", "semaphore", "rw_semaphore (as a reader)",
					    "rw_semaphore (as a writer)" };
	char where[KERNEL_TEXT];

	ret->kind = WAIT_KERNEL;
	read_wchan(t, where, sizeof(where));
	snprintf(ret->what, sizeof(ret->what), "the kernel, in %s%s%s", call_name(t), where[0] ? ": " : "",
		 where);
	snprintf(ret->evidence, sizeof(ret->evidence), "its state is D, which no signal ends");
	if (!t->blocker)
		return;
	ret->object = t->blocker & ~(uint64_t)3;
	snprintf(ret->what, sizeof(ret->what), "a %s of the kernel's, in %s", kind[t->blocker & 3],
		 call_name(t));
}

/* The owner as the kernel has it, where it is a thread that we see; kernel threads have no program. */
static void add_blocker(struct look *l, const struct look_thread *t, struct wait *ret)
{
	struct proc_status s;

	if (!t->blocker_tid || !proc_status_read(t->blocker_tid, t->blocker_tid, &s))
		return;
	snprintf(ret->evidence, sizeof(ret->evidence), "its state is D, and the kernel's lock names %s (%d)",
		 s.name, t->blocker_tid);
	if (!look_process(l, s.tgid))
		return;
	wait_add(ret, s.tgid, t->blocker_tid, (t->blocker & 3) == 1 || (t->blocker & 3) == 2,
		 "the kernel's lock names it as who has it, or took it last");
	ret->ender = ENDER_SOME;
}

bool wait_by_state(struct look *l, const struct look_thread *t, struct wait *ret)
{
	switch (t->state) {
	case 'R':
		put_runs(t, ret);
		return true;
	case 'T':
	case 't':
		put_stopped(t, ret);
		return true;
	case 'D':
		if (is_vfork(t)) {
			put_vfork(l, t, ret);
			return true;
		}
		put_kernel(t, ret);
		add_blocker(l, t, ret);
		return true;
	default:
		return false;
	}
}

/* By system call */

static void put_sleep(struct descriptors *d, const struct look_process *p, const struct look_thread *t,
		      uint64_t at, bool absolute, struct wait *ret)
{
	const struct waiter by = { .d = d, .pid = t->pid, .tid = t->tid, .mem = &p->mem };
	struct timespec ts;
	bool known = !absolute && p->mem.read && memory_read(&p->mem, at, &ts, sizeof(ts));
	double s = known ? (double)ts.tv_sec + (double)ts.tv_nsec / 1e9 : 0;

	if (known && s <= RETRY_S && wait_lock_retry(&by, s, ret))
		return;
	ret->kind = WAIT_TIME;
	ret->ender = ENDER_TIME;
	ret->has_limit = true;
	if (known)
		snprintf(ret->what, sizeof(ret->what), "the end of a sleep of %.9g s", s);
	else
		snprintf(ret->what, sizeof(ret->what), "the end of a sleep");
	snprintf(ret->evidence, sizeof(ret->evidence), "it is in %s", call_name(t));
}

static const char *child_text(long number, const struct look_thread *t, pid_t *own)
{
	int first = (int)t->arg[0];

	*own = 0;
	if (number == SYS_wait4 ? first > 0 : first == P_PID) {
		*own = number == SYS_wait4 ? first : (pid_t)t->arg[1];
		return "the end of its child";
	}
	return "the end of a child";
}

static void put_child(struct look *l, const struct look_thread *t, struct wait *ret)
{
	pid_t own;
	const char *text = child_text(t->number, t, &own);

	ret->kind = WAIT_CHILD;
	add_children(l, t, own, ret);
	if (own)
		snprintf(ret->what, sizeof(ret->what), "%s %d", text, own);
	else
		snprintf(ret->what, sizeof(ret->what), "%s", text);
	ret->ender = ret->n ? ENDER_THREADS : ENDER_UNKNOWN;
	snprintf(ret->evidence, sizeof(ret->evidence), "it is in %s, and has %s", call_name(t),
		 ret->n ? "that child" : "no child that we see");
	if (ret->n > 1)
		snprintf(ret->evidence, sizeof(ret->evidence), "it is in %s, and has %zu children",
			 call_name(t), ret->n);
}

static void put_signal(const struct look_thread *t, bool limit, struct wait *ret)
{
	ret->kind = WAIT_SIGNAL;
	ret->has_limit = limit;
	snprintf(ret->what, sizeof(ret->what), "a signal");
	snprintf(ret->evidence, sizeof(ret->evidence), "it is in %s: anybody may send one", call_name(t));
}

static void put_sysv(const struct look_thread *t, const char *what, bool limit, struct wait *ret)
{
	ret->kind = WAIT_CONDITION;
	ret->has_limit = limit;
	ret->object = t->arg[0];
	snprintf(ret->what, sizeof(ret->what), "%s %d", what, (int)t->arg[0]);
	snprintf(ret->evidence, sizeof(ret->evidence),
		 "it is in %s; System V objects do not say who has them", call_name(t));
}

long wait_call(const struct look_process *p, const struct look_thread *t)
{
	char where[KERNEL_TEXT];
	uint64_t number;

	if (!t->in_syscall)
		return -1;
	if (t->number != SYS_restart_syscall)
		return t->number;
	if (p->mem.read && syscall_site_number(&p->mem, t->regs.r[WREG_RIP], &number))
		return (long)number;
	read_wchan(t, where, sizeof(where));
	if (strstr(where, "futex"))
		return SYS_futex;
	return strstr(where, "poll") ? SYS_poll : t->number;
}

/* Of nanosleep and clock_nanosleep the arguments differ, and the kernel's function is the same. */
static bool put_resumed_sleep(const struct look_thread *t, struct wait *ret)
{
	char where[KERNEL_TEXT];

	read_wchan(t, where, sizeof(where));
	if (!strstr(where, "nanosleep"))
		return false;
	ret->kind = WAIT_TIME;
	ret->ender = ENDER_TIME;
	ret->has_limit = true;
	snprintf(ret->what, sizeof(ret->what), "the end of a sleep");
	snprintf(ret->evidence, sizeof(ret->evidence), "it is in %s, resumed after a stop", call_name(t));
	return true;
}

static void put_unknown(const struct look_thread *t, struct wait *ret)
{
	char where[KERNEL_TEXT];

	read_wchan(t, where, sizeof(where));
	snprintf(ret->what, sizeof(ret->what), "something unknown");
	if (t->is_32bit)
		snprintf(ret->evidence, sizeof(ret->evidence),
			 "it is a 32-bit program, whose system calls are not read%s%s",
			 where[0] ? "; it is in " : "", where);
	else if (t->in_syscall)
		snprintf(ret->evidence, sizeof(ret->evidence),
			 "it sleeps in %s%s%s, of which it is not known what ends it", call_name(t),
			 where[0] ? ": " : "", where);
	else
		snprintf(ret->evidence, sizeof(ret->evidence),
			 "it sleeps outside of any system call%s%s, as in a page fault",
			 where[0] ? ", in " : "", where);
}

void wait_process(struct look *l, struct descriptors *d, struct look_process *p, const struct look_thread *t,
		  struct wait *ret)
{
	switch (t->in_syscall ? t->number : -1) {
	case SYS_restart_syscall:
		if (!put_resumed_sleep(t, ret))
			put_unknown(t, ret);
		return;
	case SYS_nanosleep:
		put_sleep(d, p, t, t->arg[0], false, ret);
		return;
	case SYS_clock_nanosleep:
		put_sleep(d, p, t, t->arg[2], t->arg[1] & TIMER_ABSTIME, ret);
		return;
	case SYS_wait4:
	case SYS_waitid:
		put_child(l, t, ret);
		return;
	case SYS_vfork:
	case SYS_clone:
	case SYS_clone3:
		put_vfork(l, t, ret);
		return;
	case SYS_pause:
	case SYS_rt_sigsuspend:
		put_signal(t, false, ret);
		return;
	case SYS_rt_sigtimedwait:
		put_signal(t, t->arg[2] != 0, ret);
		return;
	case SYS_semop:
	case SYS_semtimedop:
		put_sysv(t, "the semaphore set", t->number == SYS_semtimedop && t->arg[3], ret);
		return;
	case SYS_msgrcv:
		put_sysv(t, "a message of the queue", false, ret);
		return;
	case SYS_msgsnd:
		put_sysv(t, "room in the message queue", false, ret);
		return;
	default:
		break;
	}
	put_unknown(t, ret);
}
