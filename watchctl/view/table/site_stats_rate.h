/*
 * site_stats_rate - how many events came when, over the last minute, in a bounded space: what a rate and a
 * small graph are made of. All times are those of the events, so that a log read later shows what the live
 * session reported.
 */
#ifndef WATCHCTL_VIEW_TABLE_SITE_STATS_RATE_H
#define WATCHCTL_VIEW_TABLE_SITE_STATS_RATE_H

#include <stddef.h>
#include <stdint.h>

#define SITE_RATE_BUCKET_NS 250000000u
#define SITE_RATE_BUCKETS 256u		/* kept: 64 seconds */
#define SITE_RATE_GRAPH_BUCKETS 240u	/* of them, those of the graph: 60 seconds */
#define SITE_RATE_WINDOW_NS 2000000000u /* of the rate: "now" is the last two seconds */

/* Zero-initialised: nothing has come. */
struct site_rate {
	uint64_t newest; /* number of the newest bucket, since the clock's start */
	uint32_t bucket[SITE_RATE_BUCKETS];
};

/* Events may come out of order; one that is older than what is kept is not counted. */
void site_rate_add(struct site_rate *r, uint64_t time_ns);

/*
 * Events a second in the last whole buckets before @now_ns that make up the window, or less where counting
 * began later, at @since_ns; where not even one bucket is whole, in all the time since then. 0 when no time
 * has passed.
 */
double site_rate_now(const struct site_rate *r, uint64_t since_ns, uint64_t now_ns);

/* Events in the 60 seconds of whole buckets before @now_ns, and in the bucket of now. */
uint64_t site_rate_minute(const struct site_rate *r, uint64_t now_ns);

/*
 * The graph: events a second in each of at most @n columns of equal width, of one bucket or more, oldest
 * first. The last one ends with the last whole bucket before @now_ns, and may be of fewer buckets. Columns
 * begin at multiples of their width, so that they keep their places while time goes on. Returns how many
 * columns there are.
 */
size_t site_rate_graph(const struct site_rate *r, uint64_t now_ns, double *column, size_t n);

#endif
