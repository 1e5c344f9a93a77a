/* steplog-read - what reading a step log costs: ns an event, events decoded and thrown away. */
#include <inttypes.h>
#include <stdio.h>

#include "watchctl/base/clock.h"
#include "watchctl/trace/log/tracelog.h"

int main(int argc, char **argv)
{
	struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	uint64_t begin = monotonic_ns(), ns, n = 0, calls = 0, bytes = 0;
	struct wc_error *err;
	struct trace_event e;

	if (argc != 2) {
		fputs("usage: steplog-read LOG\n", stderr);
		return 2;
	}
	err = tracelog_reader_open(argv[1], &r);
	while (!err) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		n++;
		calls += e.type == EVENT_CALL;
		bytes += e.type == EVENT_CALL ? e.call.values_len : 0;
	}
	ns = monotonic_ns() - begin;
	if (err) {
		fprintf(stderr, "steplog-read: %s\n", err->text);
		return 1;
	}
	tracelog_reader_close(r);
	printf("%" PRIu64 " events, %" PRIu64 " calls with %" PRIu64
	       " bytes of values, %.2f s, %.1f ns an event%s\n",
	       n, calls, bytes, (double)ns / 1e9, n ? (double)ns / (double)n : 0,
	       outcome == LOG_TRUNCATED ? ", cut short" : "");
	return 0;
}
