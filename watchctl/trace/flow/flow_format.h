/*
 * flow_format - the bytes of LOG/flow.G-C: what connects the threads of the system, event by event, a stream a CPU. Stream class
 * 2 of the same CTF 1.8 trace, little endian, of words of 32 bits without padding: babeltrace2 reads it. The BPF programs of
 * flow/kernel write these words as they are here; nobody translates them.
 *
 *	LOG/flow.G-C	packets, one after the other. G: ten digits, the generation; C: the CPU, or "names"
 *	packet		header   u32 magic 0xC1FC1FC1, u8 uuid[16] (that of LOG/metadata), u32 stream_id 2
 *			context  u64 timestamp_begin, timestamp_end (of its first and last event),
 *				 content_size, packet_size (bits, the same),
 *				 events_discarded (of this CPU since the recording began),
 *				 u32 cpu (FLOW_CPU_NAMES: none), u32 tid (who runs at its begin; UINT32_MAX: not known), u32 packet (0.. in this file),
 *				 u32 crc32c
 *			event... words
 *	event		word 0	bit 0 to 4   id (enum flow_id)
 *				bit 5 to 31  timestamp: the low 27 bits of CLOCK_MONOTONIC in ns
 *			then the fields, by id
 *	time		word 0 is 31, word 1 FLOW_TIME (31), word 2 and 3 all 64 bits of the time: stands before an event that is 2^27 ns
 *			or more later than the one before it in the packet
 *
 * An event is the doing of the thread that runs on the CPU, unless a field says other: the last `next` there. Thread
 * numbers are those of the first pid namespace, 0 is the idle task. A file of `names` has events `name` only, of the threads
 * that there were when its generation began, and `socket`s. A generation is all files with the same G; a flight recorder removes
 * the oldest.
 *
 * `crc32c` is of the whole packet but for itself: what is not whole, or not what was written, is not read at all.
 *
 * Objects: what a descriptor leads to is a kind and a number of 32 bits. Both ends of a pipe have one number; both sides of a
 * pty, too, and differ in kind.
 */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_FORMAT_H
#define WATCHCTL_TRACE_FLOW_FLOW_FORMAT_H

#include <stdint.h>

#define FLOW_STREAM_ID 2u
#define FLOW_PACKET_BYTES (64u << 10) /* at most */
#define FLOW_CPU_NAMES UINT32_MAX

#define FLOW_ID_BITS 5
#define FLOW_ID_MASK 31u
#define FLOW_EXTENDED 31u /* word 0 of a time */
#define FLOW_TIME 31u	  /* word 1 of it: an id that no event has, for CTF takes it for one */
#define FLOW_TIME_BITS 27
#define FLOW_TIME_WORDS 4u
#define FLOW_WORDS_MAX 8u

/*
 * Stored in logs: never renumber. Fields, word by word; "a:n" are n bits, the first ones lowest. @call: a system call's number
 * (arch/x86/entry/syscalls/syscall_64.tbl).
 */
enum flow_id {
	FLOW_SWITCH = 0,    /* next:24 why:8 */
	FLOW_WAIT_CALL = 1, /* next:24 why:8 | call:9 0:23. The thread that leaves waits in a system call */
	FLOW_WAIT_ON = 2,   /* next:24 why:8 | call:9 kind:4 fd:19 | object */
	FLOW_WAIT_FUTEX =
		3, /* next:24 why:8 | op:9 read:1 0:22 | address low | high | word | word at +8 | word at +16.
				  The words only if `read` is 1 */
	FLOW_WAKING = 4,       /* target:24 context:8. For a thread that waits this ends the wait */
	FLOW_FORK = 5,	       /* child:24 is_thread:1 0:7. Its `name` follows */
	FLOW_NAME = 6,	       /* tid:24 how:8 | pid | parent's pid | comm, 16 bytes, filled up with NULs */
	FLOW_EXEC = 7,	       /* tid that it had before:24 0:8. Its `name` follows */
	FLOW_EXIT = 8,	       /* status, as of waitpid(2) */
	FLOW_CALL = 9,	       /* call:9 result:23 signed. A system call returns */
	FLOW_CALL_BIG = 10,    /* call:9 0:23 | result low | high */
	FLOW_CALL_ON = 11,     /* call:9 kind:4 result:19 signed | object */
	FLOW_CALL_ON_BIG = 12, /* call:9 kind:4 0:19 | object | result low | high */
	FLOW_CALL_FUTEX = 13,  /* op:9 result:23 signed | address low | high */
	FLOW_SIGNAL =
		14, /* target:24 signal:8. It is sent: by the thread, or by an interrupt that hit it (context in `how`) | how */
	FLOW_SIGNAL_TAKEN =
		15, /* signal:8 0:24. A handler of the thread will run, or the signal's default acts */
	FLOW_TIMER_SET = 16,	/* timer */
	FLOW_TIMER_FIRED = 17,	/* timer. What is woken next on this CPU in this context is by it */
	FLOW_WORK_QUEUED = 18,	/* work */
	FLOW_WORK_BEGAN = 19,	/* work. Of the thread, a kernel's worker, until: */
	FLOW_WORK_ENDED = 20,	/* work */
	FLOW_URING_SUBMIT = 21, /* request */
	FLOW_URING_DONE = 22,	/* request */
	FLOW_BLOCK_ISSUED = 23, /* request: block I/O */
	FLOW_BLOCK_DONE = 24,	/* request */
	FLOW_SOCKET =
		25, /* kind:4 is_new:1 0:11 own port:16 | socket's number | unix: the other end's number; else 0:16 other port:16 |
				  own address, a hash | other address, a hash. What the other end of a socket is; also that
				  an object is_new: a pipe, an eventfd, a pair of Unix sockets. Nothing is in it then */
	FLOW_LOST = 26, /* count: of events that found no room here */
	FLOW_STACK =
		27, /* depth:8 0:24 | depth addresses, low | high: of the thread that waits next on this CPU, innermost first.
				  Has more words than FLOW_WORDS_MAX */
	FLOW_IDS = 28,
};

#define FLOW_TID_BITS 24
#define FLOW_TID_MASK 0xffffffu
#define FLOW_STACK_MAX 24u

/* Why a thread leaves its CPU. With FLOW_WHY_FAULT: in a page fault or another exception, not in a system call. */
enum flow_why {
	FLOW_PREEMPTED = 0,
	FLOW_YIELDED = 1, /* it could go on: sched_yield(), or preempted where the kernel says so late */
	FLOW_SLEEPS = 2,  /* S */
	FLOW_BLOCKED = 3, /* D */
	FLOW_STOPPED = 4, /* T or t */
	FLOW_DEAD = 5,
	FLOW_IDLE = 6, /* I: a kernel's thread without work */
	FLOW_UNTOLD =
		7, /* the kernel did not say when and why, or that was lost; nor who, at the beginning: `next` runs now */
	FLOW_WHY_MASK = 15,
	FLOW_WHY_FAULT = 128,
};

/* The interrupt on top of the thread when another was woken: the thread itself is the waker only in FLOW_BY_THREAD. */
enum flow_context {
	FLOW_BY_THREAD = 0,
	FLOW_BY_SOFTIRQ =
		1, /* of a network's packet, a timer ...: on loopback at the end of the thread's own send */
	FLOW_BY_IRQ = 2,
	FLOW_BY_NMI = 3,
	FLOW_BY_UNKNOWN = 4, /* this kernel does not say */
};

enum flow_name_how {
	FLOW_NAME_WAS = 0, /* it was there already */
	FLOW_NAME_FORK = 1,
	FLOW_NAME_EXEC = 2,
	FLOW_NAME_RENAME = 3,
};

/* Kinds of objects, and what their number is. */
enum flow_kind {
	FLOW_KIND_NONE = 0,    /* the descriptor was not open, or is of none of these */
	FLOW_KIND_FILE = 1,    /* inode */
	FLOW_KIND_PIPE = 2,    /* inode, as "pipe:[N]" of /proc; a FIFO's */
	FLOW_KIND_UNIX = 3,    /* inode, as "socket:[N]" */
	FLOW_KIND_INET = 4,    /* likewise, TCP, UDP ... of IPv4 and IPv6 */
	FLOW_KIND_SOCKET = 5,  /* likewise, of another family */
	FLOW_KIND_EVENTFD = 6, /* eventfd-id of /proc/PID/fdinfo */
	FLOW_KIND_EPOLL =
		7, /* this and what follows: a number of the kernel's that only this object has while it lives */
	FLOW_KIND_TIMERFD = 8,
	FLOW_KIND_PTY_MASTER = 9, /* N of /dev/pts/N */
	FLOW_KIND_PTY = 10,	  /* N of /dev/pts/N */
	FLOW_KIND_TTY = 11,	  /* inode */
	FLOW_KIND_DEVICE = 12,	  /* inode of a character or block device */
	FLOW_KIND_DIRECTORY = 13, /* inode */
	FLOW_KIND_OTHER = 14,	  /* signalfd, inotify, pidfd ... */
	FLOW_KIND_SEMAPHORE = 15, /* as eventfd: one that counts down (EFD_SEMAPHORE) */
};

struct flow_packet {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t begin_ns, end_ns;
	uint64_t content_bits, packet_bits;
	uint64_t discarded;
	uint32_t cpu, tid, packet;
	uint32_t crc32c;
	uint32_t word[];
};

_Static_assert(sizeof(struct flow_packet) == 80, "as the description in the metadata says");

#define FLOW_PACKET_WORDS ((FLOW_PACKET_BYTES - sizeof(struct flow_packet)) / sizeof(uint32_t))

static inline uint32_t flow_head(uint32_t id, uint64_t time_ns)
{
	return id | (uint32_t)(time_ns << FLOW_ID_BITS);
}

/* The description of them in LOG/metadata, and how a part of it begins that no other has. */
#define FLOW_STREAM_BEGIN "stream {\n\tid = 2;\n"
extern const char flow_stream_text[];

/* crc32c of the packet @p, of @len bytes. */
uint32_t flow_packet_checksum(const struct flow_packet *p, uint64_t len);

/* Words of the event that begins with @head and @word1 (0 where there is none); 0: no such event. */
static inline uint32_t flow_words(uint32_t head, uint32_t word1)
{
	static const uint8_t words[FLOW_IDS] = {
		[FLOW_SWITCH] = 2,	 [FLOW_WAIT_CALL] = 3,	[FLOW_WAIT_ON] = 4,
		[FLOW_WAIT_FUTEX] = 8,	 [FLOW_WAKING] = 2,	[FLOW_FORK] = 2,
		[FLOW_NAME] = 8,	 [FLOW_EXEC] = 2,	[FLOW_EXIT] = 2,
		[FLOW_CALL] = 2,	 [FLOW_CALL_BIG] = 4,	[FLOW_CALL_ON] = 3,
		[FLOW_CALL_ON_BIG] = 5,	 [FLOW_CALL_FUTEX] = 4, [FLOW_SIGNAL] = 3,
		[FLOW_SIGNAL_TAKEN] = 2, [FLOW_TIMER_SET] = 2,	[FLOW_TIMER_FIRED] = 2,
		[FLOW_WORK_QUEUED] = 2,	 [FLOW_WORK_BEGAN] = 2, [FLOW_WORK_ENDED] = 2,
		[FLOW_URING_SUBMIT] = 2, [FLOW_URING_DONE] = 2, [FLOW_BLOCK_ISSUED] = 2,
		[FLOW_BLOCK_DONE] = 2,	 [FLOW_SOCKET] = 6,	[FLOW_LOST] = 2,
		[FLOW_STACK] = 2,
	};
	const uint32_t id = head & FLOW_ID_MASK;

	if (id == FLOW_EXTENDED)
		return word1 == FLOW_TIME ? FLOW_TIME_WORDS : 0;
	if (id == FLOW_STACK)
		return (word1 & 0xff) > FLOW_STACK_MAX ? 0 : 2 + 2 * (word1 & 0xff);
	return id < FLOW_IDS ? words[id] : 0;
}

/* Of a time. */
static inline uint64_t flow_time(const uint32_t *word)
{
	return word[2] | (uint64_t)word[3] << 32;
}

/* When the event with @head happened, that comes behind one at @time_ns. */
static inline uint64_t flow_time_after(uint64_t time_ns, uint32_t head)
{
	const uint32_t later = (head >> FLOW_ID_BITS) - (uint32_t)time_ns;

	return time_ns + (later & ((1u << FLOW_TIME_BITS) - 1));
}

/* The thread that runs behind the event at @word, if @tid does before it. UINT32_MAX: not known, a switch may have been lost. */
static inline uint32_t flow_runs_then(const uint32_t *word, uint32_t tid)
{
	const uint32_t id = word[0] & FLOW_ID_MASK;

	if (id <= FLOW_WAIT_FUTEX)
		return word[1] & FLOW_TID_MASK;
	if (id == FLOW_LOST)
		return UINT32_MAX;
	/* Another thread than the first one takes its number when it executes a program. */
	if (id == FLOW_NAME && word[1] >> FLOW_TID_BITS == FLOW_NAME_EXEC)
		return word[1] & FLOW_TID_MASK;
	return tid;
}

#endif
