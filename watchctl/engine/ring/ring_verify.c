/*
 * ring_verify - sees whether a watch of the ring engine traps, with nothing put into the program: one of its
 * threads makes a futex(2) call for us that has the kernel access the variable, and changes nothing.
 *
 *	reads	FUTEX_CMP_REQUEUE of no waiter: the kernel reads the word and compares it
 *	writes	FUTEX_WAKE_OP that adds 0, atomically
 *
 * The call is known by its stack, which is nobody else's; the BPF program counts its hits as ours.
 */
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/engine/ring/ring_engine.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/proc/proc.h"

#define SYSCALL_LENGTH 2u

/* Nobody waits at @nobody, and no waiter at @word is woken: where the value is not @wrong, none is looked
 * for. */
static struct wc_error *touch(struct remote *r, uint64_t word, bool write, uint32_t wrong, uint64_t nobody)
{
	long result;

	if (!write)
		return remote_syscall(r, SYS_futex, word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 0, word,
				      wrong, &result);
	return remote_syscall(r, SYS_futex, nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, word,
			      FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, wrong), &result);
}

static void report_stop(const struct engine *e, pid_t tid, uint64_t ns)
{
	if (e->options.say && ns)
		e->options.say(e->options.say_ctx, "a known access: thread %d was stopped for %llu us", tid,
			       (unsigned long long)ns / 1000);
}

static struct wc_error *make_access(const struct engine *e, unsigned int i, bool *ret)
{
	const struct watchpoint *w = &e->watch[i].w;
	const uint64_t word = w->addr & ~3ull;
	struct memory_view mem = proc_memory(&e->pid);
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err;
	struct gadgets g;
	uint32_t value;
	pid_t tid;

	err = gadgets_find(e->pid, &g);
	if (!err)
		err = remote_open_prepared(e->pid, 0, e->options.held, &r);
	if (!err)
		err = remote_use_gadgets(&r, &g);
	if (err || !memory_read(&mem, word, &value, sizeof(value)))
		return err;
	kernel_recorder_expect(e->recorder, r.rip + SYSCALL_LENGTH, r.rsp);
	err = touch(&r, word, w->access == ACCESS_WRITE, value == 1 ? 2 : 1, r.rsp & ~3ull);
	*ret = !err && kernel_recorder_own(e->recorder, i);
	kernel_recorder_expect(e->recorder, 0, 0);
	tid = r.thread.tid;
	report_stop(e, tid, remote_close(&r));
	return err;
}

bool ring_verify(const struct engine *e, unsigned int i)
{
	const char *why = watchpoint_untestable(&e->watch[i].w, e->pid);
	struct wc_error *err = NULL;
	bool seen = false;

	if (!e->recorder || !e->watch[i].perf.kernel)
		why = "the kernel's accesses are not seen";
	if (!why)
		err = make_access(e, i, &seen);
	if ((err || why) && e->options.say)
		e->options.say(e->options.say_ctx, "not verified: %s", err ? err->text : why);
	wc_error_free(err);
	return seen;
}
