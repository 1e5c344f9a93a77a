/* tracelog_ring_sample - a flight recorder's log of the accesses of tracelog_sample.h, and a reader of it
 * that fails when one is not what was written, comes out of order, or refers to what was not reported. */
#ifndef TESTS_UNIT_TRACELOG_RING_SAMPLE_H
#define TESTS_UNIT_TRACELOG_RING_SAMPLE_H

#include "tests/unit/tracelog_sample.h"

#include <dirent.h>
#include <sys/stat.h>

#include "watchctl/trace/log/tracelog_reader.h"

#define MIB (1u << 20)
#define BASE 1000000u

/* The files of a log */

static inline uint64_t size_of_all(const char *log, size_t *nfiles)
{
	DIR *d = opendir(log);
	struct dirent *entry;
	struct stat st;
	uint64_t sum = 0;

	*nfiles = 0;
	if (!d)
		return 0;
	while ((entry = readdir(d))) {
		if (fstatat(dirfd(d), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_size;
		*nfiles += !strncmp(entry->d_name, "events", 6);
	}
	closedir(d);
	return sum;
}

static inline struct tracelog_writer *ring(const struct fixture *f, uint64_t bytes, uint64_t keep_ns)
{
	const struct tracelog_bounds b = { bytes, keep_ns };
	struct tracelog_writer *w;

	OK(tracelog_writer_open_ring(f->log, &b, &w));
	return w;
}

/* Reading it back */

struct seen {
	size_t processes, modules, watches, threads, code, notes, lost;
	uint64_t first, last, accesses;
	uint64_t without_callers;
	bool damaged; /* what accesses refer to may be missing */
	bool known_thread[SAMPLE_THREADS];
	uint8_t known_code[1 << 16]; /* by the distance from SAMPLE_TEXT */
};

/* An access that refers to what was not reported yet cannot be understood. */
static inline void check_it_can_be_understood(const struct seen *s, const struct access_event *a)
{
	bool is_known = true;
	uint32_t i;

	for (i = 0; i < a->nframes; i++)
		is_known &= s->known_code[a->frame[i] - SAMPLE_TEXT];
	assert_true(is_known);
	assert_true(s->processes && s->watches >= 2 && s->modules >= 2);
	assert_true(s->known_thread[a->tid - SAMPLE_PID]);
}

static inline void see(struct seen *s, const struct trace_event *e)
{
	uint64_t n;

	switch (e->type) {
	case EVENT_PROCESS:
		s->processes++;
		break;
	case EVENT_MODULE:
		s->modules++;
		break;
	case EVENT_WATCH:
		s->watches++;
		break;
	case EVENT_THREAD:
		s->threads++;
		assert_int_equal(e->thread.comm[1], '0' + e->thread.tid - SAMPLE_PID);
		s->known_thread[e->thread.tid - SAMPLE_PID] = true;
		break;
	case EVENT_CODE:
		s->code++;
		assert_int_equal(e->code.before[0], (uint8_t)e->code.pc);
		s->known_code[e->code.pc - SAMPLE_TEXT] = 1;
		break;
	case EVENT_NOTE:
		s->notes++;
		break;
	case EVENT_LOST:
		s->lost += e->lost.count;
		break;
	case EVENT_ACCESS:
		n = sample_number(e, BASE);
		if (!s->damaged)
			check_it_can_be_understood(s, &e->access);
		s->without_callers += e->access.walk_end == WALK_END_LOST;
		if (n <= s->last)
			fail_msg("access %llu after %llu", (unsigned long long)n,
				 (unsigned long long)s->last);
		if (!s->first)
			s->first = n;
		s->last = n;
		s->accesses++;
		break;
	default:
		fail_msg("an event of type %d was never written", e->type);
	}
}

static inline enum log_outcome see_more(struct tracelog_reader *r, struct seen *s)
{
	enum log_outcome outcome;
	struct trace_event e;

	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			return outcome;
		see(s, &e);
	}
}

static inline enum log_outcome see_all(const char *log, struct seen *s, uint64_t *missed)
{
	struct tracelog_reader *r;
	enum log_outcome outcome;

	OK(tracelog_reader_open(log, &r));
	outcome = see_more(r, s);
	*missed = tracelog_missed(r, NULL);
	assert_true(tracelog_progress(r) == 1.0);
	tracelog_reader_close(r);
	return outcome;
}

#endif
