#include "watchctl/step/ptrace/step_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/stop/helper_guard.h"
#include "watchctl/target/stop/helper_process.h"

#define INT3 0xccu

/* Not in big pieces: while we write, the program runs. */
void step_guard_rescue(struct step_box *box)
{
	const struct box_break *breaks = step_box_breaks(box);
	uint32_t n = __atomic_load_n(&box->nbreaks, __ATOMIC_ACQUIRE), i;
	char path[64];
	uint8_t byte;

	snprintf(path, sizeof(path), "/proc/%d/mem", task_with_memory(box->target_pid));
	scoped(closep) int fd = open(path, O_RDWR | O_CLOEXEC);
	for (i = 0; fd >= 0 && i < n && i < STEP_BREAKS_MAX; i++) {
		const struct box_break *b = &breaks[i];

		if (!__atomic_load_n(&b->planted, __ATOMIC_ACQUIRE) || !b->known)
			continue;
		if (pread(fd, &byte, 1, (off_t)b->address) != 1 || byte != INT3)
			continue;
		if (pwrite(fd, &b->original, 1, (off_t)b->address) != 1)
			return; /* the program has ended */
	}
}

static void on_dying(void *ctx)
{
	step_guard_rescue(ctx);
}

static pid_t start_tracer(struct step_box *box)
{
	pid_t pid = fork();

	if (!pid)
		step_tracer_run(box);
	return pid;
}

/* The owner is informed why (errno). */
static void __attribute__((noreturn)) give_up(struct step_box *box)
{
	snprintf(box->text, sizeof(box->text), "%s", strerror(errno));
	_exit(1);
}

void step_guard_run(struct step_box *box, int owner_fd, int memory_fd)
{
	struct helper_guard g = {
		.poke = STEP_BOX_SIGNAL,
		.orphaned = &box->orphaned,
		.leaving = &box->leaving,
		.finished = &box->finished,
		.is_dying = on_dying,
		.ctx = box,
	};
	char line[80];

	if (!helper_withdraw(owner_fd, memory_fd))
		give_up(box);
	helper_ignore_signals();
	helper_spare();
	snprintf(line, sizeof(line), STEP_GUARD_NAME " of process %d", box->target_pid);
	helper_rename(STEP_GUARD_NAME, line);
	if (!helper_guard_init(&g))
		give_up(box);
	box->guard_pid = getpid();
	g.tracer = start_tracer(box);
	if (g.tracer < 0)
		give_up(box);
	box->tracer_pid = g.tracer;
	helper_guard_start(&g);
	__atomic_store_n(&box->guarded, true, __ATOMIC_RELEASE);
	helper_guard_watch(&g);
	if (!box->finished)
		step_guard_rescue(box);
	_exit(box->finished ? 0 : 1);
}
