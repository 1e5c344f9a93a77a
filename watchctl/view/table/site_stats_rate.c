#include "watchctl/view/table/site_stats_rate.h"

void site_rate_add(struct site_rate *r, uint64_t time_ns)
{
	uint64_t b = time_ns / SITE_RATE_BUCKET_NS, i;

	if (b > r->newest) {
		uint64_t gap = b - r->newest < SITE_RATE_BUCKETS ? b - r->newest : SITE_RATE_BUCKETS;

		for (i = 0; i < gap; i++)
			r->bucket[(b - i) % SITE_RATE_BUCKETS] = 0;
		r->newest = b;
	} else if (r->newest - b >= SITE_RATE_BUCKETS) {
		return;
	}
	r->bucket[b % SITE_RATE_BUCKETS]++;
}

/* What is kept of buckets @from to, not including, @until. */
static uint64_t sum(const struct site_rate *r, uint64_t from, uint64_t until)
{
	uint64_t n = 0, oldest = r->newest < SITE_RATE_BUCKETS ? 0 : r->newest - SITE_RATE_BUCKETS + 1;

	if (from < oldest)
		from = oldest;
	for (; from < until && from <= r->newest; from++)
		n += r->bucket[from % SITE_RATE_BUCKETS];
	return n;
}

double site_rate_now(const struct site_rate *r, uint64_t since_ns, uint64_t now_ns)
{
	uint64_t until = now_ns / SITE_RATE_BUCKET_NS, window = SITE_RATE_WINDOW_NS / SITE_RATE_BUCKET_NS;
	uint64_t from = until > window ? until - window : 0, begin = from * SITE_RATE_BUCKET_NS;

	if (now_ns <= since_ns)
		return 0;
	if (begin < since_ns) {
		begin = since_ns;
		from = since_ns / SITE_RATE_BUCKET_NS;
	}
	if (until > from + 1)
		return (double)sum(r, from, until) * 1e9 / (double)(until * SITE_RATE_BUCKET_NS - begin);
	return (double)sum(r, from, until + 1) * 1e9 / (double)(now_ns - begin);
}

uint64_t site_rate_minute(const struct site_rate *r, uint64_t now_ns)
{
	uint64_t now = now_ns / SITE_RATE_BUCKET_NS;

	return sum(r, now > SITE_RATE_GRAPH_BUCKETS ? now - SITE_RATE_GRAPH_BUCKETS : 0, now + 1);
}

size_t site_rate_graph(const struct site_rate *r, uint64_t now_ns, double *column, size_t n)
{
	uint64_t until = now_ns / SITE_RATE_BUCKET_NS, width, last, i;

	if (!n || !until)
		return 0;
	width = (SITE_RATE_GRAPH_BUCKETS + n - 1) / n;
	n = SITE_RATE_GRAPH_BUCKETS / width;
	last = (until - 1) / width;
	if (n > last + 1)
		n = last + 1;
	for (i = 0; i < n; i++) {
		uint64_t begin = (last + 1 - n + i) * width,
			 end = begin + width < until ? begin + width : until;

		column[i] = (double)sum(r, begin, end) * 1e9 / (double)((end - begin) * SITE_RATE_BUCKET_NS);
	}
	return n;
}
