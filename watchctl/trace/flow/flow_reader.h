/*
 * flow_reader - the system's events of a log (LOG/flow.G-C), of all CPUs in the order of time, millions a second. What is damaged or
 * missing is left out and counted, never guessed.
 */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_READER_H
#define WATCHCTL_TRACE_FLOW_FLOW_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/flow/flow_format.h"

struct flow_reader;

/* WC_ELOG: @path is no log, or cannot be read, or has no system's events: the error says what it has. Reads the packets' heads only. */
struct wc_error *flow_reader_open(const char *path, struct flow_reader **ret);
void flow_reader_close(struct flow_reader *r); /* accepts NULL */
void flow_reader_closep(struct flow_reader **r);

/* An event, its fields unpacked. Fields that its id does not have are 0. */
struct flow_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t id;	  /* enum flow_id; never a time. A FLOW_*_BIG is told as the short one */
	uint32_t cpu;	  /* FLOW_CPU_NAMES: none */
	int32_t tid; /* who runs there, before a switch; 0: the idle task; -1: not known, as events are missing */
	int32_t other; /* next, target, child, the tid of a name, or the one before an exec */
	uint8_t why; /* enum flow_why with flags, enum flow_context, flow_name_how, is_thread, of a socket is_new; of a signal its context */
	uint8_t kind;  /* enum flow_kind */
	uint16_t call; /* system call; of WAIT_FUTEX and CALL_FUTEX SYS_futex (202), and `op` its operation */
	uint32_t op;   /* also: the signal, the descriptor of a WAIT_ON */
	uint32_t object;  /* also: timer, work, request; of a socket its number */
	int64_t result;	  /* also: exit status; how many were lost */
	uint64_t address; /* of a futex */
	bool has_words;	  /* of a WAIT_FUTEX: */
	uint32_t word
		[3]; /* at the address, +8, +16; of a socket: the other end's number or the ports (own | other << 16), own and other
			     address, hashes */
	int32_t pid, parent; /* of a name: process, and its parent process */
	char comm[16 + 1];   /* of a name */
	uint32_t depth;	     /* of a stack */
	uint64_t ip[FLOW_STACK_MAX];
};

/*
 * False: there are no more. @ret is the caller's; of its `ip` only `depth` are set. Events `name` and `socket` of the beginning
 * come first. Where packets are missing a `lost` with a result of 0 is told: how many events these had is not known.
 */
bool flow_reader_next(struct flow_reader *r, struct flow_event *ret);

/* A summary by the packets' heads. */
struct flow_span {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t realtime_ns;	   /* minus CLOCK_MONOTONIC; 0: not known */
	uint32_t cpus;		   /* that have events */
	uint64_t bytes;
	uint64_t lost; /* events that found no room, as far as known from the heads */
	bool is_ring;  /* older generations were removed */
};

void flow_reader_span(const struct flow_reader *r, struct flow_span *ret);

/*
 * The next event is the first one at or after @time_ns, or one of a few before it (of the packet that has it), backwards, too. Who runs on
 * a CPU is known there; names that were told on the way are not told again, but those of the beginning are:
 * in a flight recorder's log that of the generation that has the time, and they come first.
 */
void flow_reader_seek(struct flow_reader *r, uint64_t time_ns);

/* Damage that was met up to now. */
struct flow_damage {
	uint64_t packets; /* that are damaged or missing in the middle, at least */
	uint64_t ignored; /* bytes at the ends of files */
	const char *why;  /* of these, a phrase; NULL: of none */
};

void flow_reader_damage(const struct flow_reader *r, struct flow_damage *ret);

#endif
