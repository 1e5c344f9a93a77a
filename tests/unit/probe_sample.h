/* probe_sample - events of probes as `watchctl patch` reports them: two sites, one of each kind of event, totals. */
#ifndef TESTS_UNIT_PROBE_SAMPLE_H
#define TESTS_UNIT_PROBE_SAMPLE_H

#include "watchctl/trace/event.h"

#define PROBE_IP 0x555555555160

static const uint64_t probe_stack[] = { PROBE_IP, 0x555555555190, 0x7ffff7df0d0a };

/* Something to put events into. */
typedef void probe_sample_put(void *to, struct trace_event e);

static inline struct trace_event probe_at(uint64_t time_ns, enum probe_kind kind, const char *format)
{
	return (struct trace_event){
		.type = EVENT_PROBE,
		.time_ns = time_ns,
		.probe = { .site = 0, .pid = 77, .tid = 78, .kind = kind, .format = format },
	};
}

static inline void put_probe_sites(probe_sample_put *put_to, void *to)
{
	put_to(to, (struct trace_event){ .type = EVENT_PROBE_SITE,
					 .time_ns = 2000,
					 .probe_site = { .id = 0,
							 .pid = 77,
							 .probe = "on_cas",
							 .pattern = "insn:lock cmpxchg",
							 .ip = PROBE_IP,
							 .when = PROBE_BEFORE,
							 .tactic = PROBE_TACTIC_PUN,
							 .why = "the bytes behind it are a part of the jump",
							 .ninsn = 4,
							 .insn = { 0xf0, 0x0f, 0xb1, 0x37 } } });
	put_to(to, (struct trace_event){ .type = EVENT_PROBE_SITE,
					 .time_ns = 2001,
					 .probe_site = { .id = 7,
							 .pid = 77,
							 .probe = "on_ret",
							 .pattern = "ret",
							 .ip = PROBE_IP + 9,
							 .when = PROBE_AFTER_IT,
							 .tactic = PROBE_TACTIC_REFUSED,
							 .why = "endbr64 must stay where it is" } });
}

/* A text with strings, one of them not readable and one of them empty. */
static inline struct trace_event probe_log(void)
{
	struct trace_event e = probe_at(2100, PROBE_KIND_LOG, "cas %p: %d -> %s %s %s %x %x %c\n");
	unsigned int i;

	e.probe.nargs = PROBE_EVENT_ARGS;
	for (i = 0; i < PROBE_EVENT_ARGS; i++)
		e.probe.arg[i] = 0x7ffe00000040 + i;
	e.probe.arg[1] = 0xffffffffffffffff;
	e.probe.arg[7] = 'x';
	e.probe.strings = 1u << 2 | 1u << 3 | 1u << 4;
	e.probe.unread = 1u << 3;
	e.probe.string[2] = "full";
	e.probe.string[4] = "";
	return e;
}

static inline struct trace_event probe_value(void)
{
	struct trace_event e = probe_at(2101, PROBE_KIND_VALUE, NULL);

	e.probe.nargs = 1;
	e.probe.arg[0] = 42;
	return e;
}

static inline struct trace_event probe_tagged(void)
{
	struct trace_event e = probe_at(2102, PROBE_KIND_STACK, "slow path");

	e.probe.nargs = 1;
	e.probe.arg[0] = 1ull << 40;
	e.probe.walk_end = 1; /* depth */
	e.probe.nframes = 3;
	e.probe.frame = probe_stack;
	return e;
}

/* Nothing to print, and nothing that is known about it. */
static inline struct trace_event probe_empty(void)
{
	struct trace_event e = probe_at(2099, PROBE_KIND_LOG, "");

	e.probe.nframes = 1;
	e.probe.frame = probe_stack;
	return e;
}

static inline struct trace_event probe_withheld(void)
{
	struct trace_event e = probe_at(2104, PROBE_KIND_LOG, "cas %p\n");

	e.probe.withheld = true;
	return e;
}

static inline struct trace_event probe_total(uint32_t site, uint64_t count, uint64_t lost)
{
	return (struct trace_event){ .type = EVENT_PROBE_TOTAL,
				     .time_ns = 3000,
				     .probe_total = { site, count, lost } };
}

/* All of them; probe_empty() comes late, as what a thread has buffered may. */
#define PROBE_SAMPLE_EVENTS 9

static inline void put_probes(probe_sample_put *put_to, void *to)
{
	put_probe_sites(put_to, to);
	put_to(to, probe_log());
	put_to(to, probe_value());
	put_to(to, probe_tagged());
	put_to(to, probe_empty());
	put_to(to, probe_withheld());
	put_to(to, probe_total(0, 1234, 3));
	put_to(to, probe_total(7, 0, 0));
}

#endif
