/* tracelog_damage - what of a log's files cannot be read, and where it goes on behind that. Inside of the reader. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_DAMAGE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_DAMAGE_H

#include "watchctl/trace/log/tracelog_reader.h"

/* About @bytes at the current place are missing because of @why. What they held is not known from here on. */
void tracelog_miss(struct tracelog_reader *r, uint64_t bytes, const char *why);

/* Behind what is missing, if anything is, @time_ns is the first time there is. */
void tracelog_goes_on(struct tracelog_reader *r, uint64_t time_ns);

/*
 * The first packet of @f at @from or behind that is whole, and not older than what was read. False: there is none,
 * or *@err.
 */
bool tracelog_find_packet(struct tracelog_reader *r, const struct log_file *f, uint64_t from, uint64_t *ret,
			  struct wc_error **err);

/* When the first event of a packet was, whose head and @content bytes are at @packet; 0: it has none. */
uint64_t tracelog_packet_time(const struct tracelog_identity *id, const uint8_t *packet, uint64_t content);

/* Of a packet of version 2 that is whole: it is no copy of one that was read, as far as its times tell. */
bool tracelog_comes_later(const struct tracelog_reader *r, const uint8_t *packet, uint64_t content);

#endif
