/*
 * flow_writer - the system's events into LOG/flow.G-C (flow_format.h), as the kernel's programs wrote them. One thread uses a writer.
 */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_WRITER_H
#define WATCHCTL_TRACE_FLOW_FLOW_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/flow/flow_format.h"

struct flow_writer;

/*
 * For the log @path, which is there, and says from now on what is in such files. @ring: a flight recorder that keeps at most so many
 * bytes of them (0: all of them), the oldest goes first; at least FLOW_RING_MIN. WC_ELOG: it cannot be written to.
 */
struct wc_error *flow_writer_open(const char *path, unsigned int cpus, uint64_t ring,
				  struct flow_writer **ret);

#define FLOW_RING_MIN (4u << 20)

/*
 * @n words of whole events of @cpu (or FLOW_CPU_NAMES), behind those put before. The first event that is put of a CPU must be a time;
 * for the others, too, times stand wherever the format wants one. WC_ELOG: no space, I/O error: whole packets that were written are
 * there. WC_EFAIL: these are no events, a mistake
 * of the caller's; those before it were put.
 */
struct wc_error *flow_writer_put(struct flow_writer *w, uint32_t cpu, const uint32_t *word, size_t n);

/* Hands to the kernel what was put so far: every half second or so. WC_ELOG. */
struct wc_error *flow_writer_flush(struct flow_writer *w);

/* So far. `events` are without times. */
struct flow_counts {
	uint64_t events, bytes; /* of what was put; bytes with all packets' heads */
	uint64_t lost;		/* by the events `lost` */
};

void flow_writer_counts(const struct flow_writer *w, struct flow_counts *ret);

/* Flushes and frees it in any case. Accepts NULL. WC_ELOG: the last events are not in the log. */
struct wc_error *flow_writer_close(struct flow_writer *w);

#endif
