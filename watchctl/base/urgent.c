#include "watchctl/base/urgent.h"

#include <sched.h>

void urgent_begin(struct urgent *u)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	*u = (struct urgent){ .policy = sched_getscheduler(0) };
	switch (u->policy & ~SCHED_RESET_ON_FORK) {
	case SCHED_OTHER:
	case SCHED_BATCH:
	case SCHED_IDLE:
		u->raised = !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest);
		break;
	}
}

void urgent_end(struct urgent *u)
{
	const struct sched_param none = { 0 };

	if (u->raised)
		sched_setscheduler(0, u->policy, &none);
	u->raised = false;
}
