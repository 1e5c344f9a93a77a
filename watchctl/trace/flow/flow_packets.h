/*
 * flow_packets - where the packets of a log's flow files are, by their heads, a list for each CPU in the order of time.
 */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_PACKETS_H
#define WATCHCTL_TRACE_FLOW_FLOW_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/flow/flow_format.h"
#include "watchctl/trace/flow/flow_reader.h"
#include "watchctl/trace/log/tracelog_format.h"

struct flow_place {
	uint64_t offset;
	uint64_t begin_ns, end_ns;
	uint64_t discarded;
	uint32_t bytes;
	uint32_t generation;
	bool follows_gap; /* as far as its head and that of the one before it say */
	bool is_noted;	  /* the gap is counted */
	bool is_bad;
};

struct flow_list {
	uint32_t cpu; /* or FLOW_CPU_NAMES */
	struct flow_place *place;
	size_t n, cap;
	bool is_cut; /* the file that was read last has something at its end that is no packet */
};

struct flow_packets {
	int dir;
	struct tracelog_identity id;
	bool is_described; /* the metadata say that there may be such files */
	struct flow_list *list;
	size_t n, cap;
	uint32_t first_generation;
	uint64_t bytes;
	struct flow_damage damage;
};

/* WC_ELOG: @path is no log, or cannot be read. No packets are no error. */
struct wc_error *flow_packets_open(const char *path, struct flow_packets *ret);
void flow_packets_deinit(struct flow_packets *p); /* accepts one that was zeroed, with `dir` -1 */

/* The file of @cpu of @generation, to read from; -1: errno. */
int flow_packets_file(const struct flow_packets *p, uint32_t generation, uint32_t cpu);

/* Counts a damage, @why. */
void flow_packets_note_gap(struct flow_packets *p, const char *why);

#endif
