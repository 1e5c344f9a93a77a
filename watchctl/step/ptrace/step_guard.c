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

static void rescue(void *ctx)
{
	step_guard_rescue(ctx);
}

static void trace(void *ctx)
{
	step_tracer_run(ctx);
}

void step_guard_run(struct step_box *box, int owner_fd, int memory_fd)
{
	helper_guard_live(&(struct helper_life){
		.name = STEP_GUARD_NAME,
		.target = box->target_pid,
		.owner_fd = owner_fd,
		.memory_fd = memory_fd,
		.poke = STEP_BOX_SIGNAL,
		.box = &box->helper,
		.text = box->text,
		.text_len = sizeof(box->text),
		.trace = trace,
		.is_dying = rescue,
		.rescue = rescue,
		.ctx = box,
	});
}
