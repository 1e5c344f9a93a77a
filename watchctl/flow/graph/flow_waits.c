#include "watchctl/flow/graph/flow_waits.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#define MUTEX_KIND_MAX 1024u /* of pthread_mutex_t.__kind with all its flags */

int32_t flow_futex_owner(const struct flow_event *e)
{
	const bool locked = e->word[0] == 1 || e->word[0] == 2;

	if (e->id != FLOW_WAIT_FUTEX || !e->has_words || !locked || e->word[2] >= MUTEX_KIND_MAX ||
	    !e->word[1] || e->word[1] > FLOW_TID_MASK)
		return 0;
	return (int32_t)e->word[1];
}

bool flow_futex_is_shared(const struct flow_event *e)
{
	return !(e->op & FUTEX_PRIVATE_FLAG);
}

bool flow_futex_wakes(uint32_t op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_WAKE_OP:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_UNLOCK_PI:
		return true;
	default:
		return false;
	}
}

bool flow_call_receives(int call)
{
	switch (call) {
	case SYS_read:
	case SYS_readv:
	case SYS_pread64:
	case SYS_preadv:
	case SYS_preadv2:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
		return true;
	default:
		return false;
	}
}

bool flow_call_sends(int call)
{
	switch (call) {
	case SYS_write:
	case SYS_writev:
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_pwritev2:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_sendfile:
	case SYS_splice:
		return true;
	default:
		return false;
	}
}

bool flow_call_ends(int call)
{
	return call == SYS_close || call == SYS_shutdown;
}

bool flow_call_signals(int call)
{
	return call == SYS_kill || call == SYS_tgkill || call == SYS_tkill || call == SYS_rt_sigqueueinfo ||
	       call == SYS_rt_tgsigqueueinfo || call == SYS_pidfd_send_signal;
}

bool flow_call_waits_child(int call)
{
	return call == SYS_wait4 || call == SYS_waitid;
}

bool flow_call_takes_signal(int call)
{
	return call == SYS_rt_sigtimedwait;
}

bool flow_call_wakes(int call)
{
	switch (call) {
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
		return false;
	default:
		return true;
	}
}

bool flow_kind_is_stream(int kind)
{
	/* Of a semaphore each write is as long as each read: a unit. */
	return kind == FLOW_KIND_SEMAPHORE || kind == FLOW_KIND_PIPE || kind == FLOW_KIND_UNIX ||
	       kind == FLOW_KIND_INET;
}
