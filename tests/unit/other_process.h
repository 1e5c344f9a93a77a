/* What tests ask of a process that they have made. Each of them waits until it is so. */
#ifndef TESTS_UNIT_OTHER_PROCESS_H
#define TESTS_UNIT_OTHER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/unit/wait.h"
#include "watchctl/target/proc/proc.h"

static inline bool is_in_state(pid_t pid, char state)
{
	struct proc_status s;

	return proc_status_read(pid, pid, &s) && s.state == state;
}

static inline void wait_for_state(pid_t pid, char state)
{
	WAIT_UNTIL(is_in_state(pid, state));
}

static inline bool has_two_threads(pid_t pid, struct thread_ids *ids)
{
	thread_ids_deinit(ids);
	return proc_threads(pid, ids) && ids->n >= 2;
}

/* Of a process with two threads, the one that is not the first. */
static inline pid_t second_thread(pid_t pid)
{
	struct thread_ids ids = { 0 };
	pid_t ret;

	WAIT_UNTIL(has_two_threads(pid, &ids));
	ret = ids.v[ids.v[0] == pid];
	thread_ids_deinit(&ids);
	return ret;
}

#endif
