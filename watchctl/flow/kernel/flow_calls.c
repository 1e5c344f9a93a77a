#include "watchctl/flow/kernel/flow_calls.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Newer than some C libraries' headers. */
#define CALL_FUTEX_WAITV 449
#define CALL_FUTEX_WAKE 454
#define CALL_FUTEX_WAIT 455

/* They give something to others, or get it: their returns are recorded, with their descriptor. */
static const uint16_t with_descriptor[] = {
	SYS_read,	  SYS_write,	       SYS_readv,
	SYS_writev,	  SYS_pread64,	       SYS_pwrite64,
	SYS_preadv,	  SYS_pwritev,	       SYS_preadv2,
	SYS_pwritev2,	  SYS_sendto,	       SYS_recvfrom,
	SYS_sendmsg,	  SYS_recvmsg,	       SYS_sendmmsg,
	SYS_recvmmsg,	  SYS_sendfile,	       SYS_splice,
	SYS_tee,	  SYS_vmsplice,	       SYS_shutdown,
	SYS_flock,	  SYS_epoll_wait,      SYS_epoll_pwait,
	SYS_epoll_pwait2, SYS_timerfd_settime, SYS_io_uring_enter,
	SYS_mq_timedsend, SYS_mq_timedreceive,
};

/* Likewise, without one. */
static const uint16_t plain[] = {
	SYS_poll,
	SYS_ppoll,
	SYS_select,
	SYS_pselect6,
	SYS_wait4,
	SYS_waitid,
	SYS_kill,
	SYS_tkill,
	SYS_tgkill,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_pidfd_send_signal,
	SYS_nanosleep,
	SYS_clock_nanosleep,
	SYS_pause,
	SYS_rt_sigsuspend,
	SYS_rt_sigtimedwait,
	SYS_semop,
	SYS_semtimedop,
	SYS_msgsnd,
	SYS_msgrcv,
	SYS_io_getevents,
	SYS_io_pgetevents,
	SYS_io_submit,
	CALL_FUTEX_WAITV,
};

/* As all others, only where a thread waits or wakes another in them; on which file. */
static const uint16_t waits_with_descriptor[] = {
	SYS_fcntl,     SYS_ioctl,     SYS_fsync,      SYS_fdatasync, SYS_sync_file_range,
	SYS_ftruncate, SYS_fallocate, SYS_getdents64, SYS_close,     SYS_copy_file_range,
};

void flow_calls_fill(uint8_t class[FLOW_CALLS])
{
	memset(class, 0, FLOW_CALLS);
	for (size_t i = 0; i < COUNT(with_descriptor); i++)
		class[with_descriptor[i]] = FLOW_CALL_FD | FLOW_CALL_RETURN;
	for (size_t i = 0; i < COUNT(plain); i++)
		class[plain[i]] = FLOW_CALL_RETURN;
	for (size_t i = 0; i < COUNT(waits_with_descriptor); i++)
		class[waits_with_descriptor[i]] = FLOW_CALL_FD;
	class[SYS_futex] = FLOW_CALL_FUTEX_OLD | FLOW_CALL_RETURN;
	class[CALL_FUTEX_WAKE] = FLOW_CALL_FUTEX_WAKE | FLOW_CALL_RETURN;
	class[CALL_FUTEX_WAIT] = FLOW_CALL_FUTEX_WAIT | FLOW_CALL_RETURN;
	class[SYS_accept] = FLOW_CALL_ACCEPT | FLOW_CALL_RETURN;
	class[SYS_accept4] = FLOW_CALL_ACCEPT | FLOW_CALL_RETURN;
	class[SYS_connect] = FLOW_CALL_CONNECT | FLOW_CALL_RETURN;
	class[SYS_pipe] = FLOW_CALL_PIPE | FLOW_CALL_RETURN;
	class[SYS_pipe2] = FLOW_CALL_PIPE | FLOW_CALL_RETURN;
	class[SYS_eventfd] = FLOW_CALL_EVENTFD | FLOW_CALL_RETURN;
	class[SYS_eventfd2] = FLOW_CALL_EVENTFD | FLOW_CALL_RETURN;
	class[SYS_socketpair] = FLOW_CALL_SOCKETPAIR | FLOW_CALL_RETURN;
}
