/* tracelog_fixture - a directory for the log of a test, and what such tests say again and again. */
#ifndef TESTS_UNIT_TRACELOG_FIXTURE_H
#define TESTS_UNIT_TRACELOG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/trace/log/tracelog.h"

#define OK(call)                                                               \
	do {                                                                   \
		struct wc_error *err_ = (call);                                \
		if (err_)                                                      \
			fail_msg("%s:%d: %s", __FILE__, __LINE__, err_->text); \
	} while (0)

/* The call must fail with an error of the kind @is whose sentence contains @part. */
#define FAILS_AS(is, call, part)                                                  \
	do {                                                                      \
		struct wc_error *err_ = (call);                                   \
		assert_non_null(err_);                                            \
		assert_int_equal(err_->kind, is);                                 \
		if (!strstr(err_->text, part))                                    \
			fail_msg("\"%s\" does not say \"%s\"", err_->text, part); \
		wc_error_free(err_);                                              \
	} while (0)

#define FAILS(call, part) FAILS_AS(WC_ELOG, call, part)

struct fixture {
	char dir[64];
	char log[80], copy[80]; /* in it, not there yet */
};

static inline int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/test_tracelog.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->log, sizeof(f->log), "%s/log", f->dir);
	snprintf(f->copy, sizeof(f->copy), "%s/copy", f->dir);
	*state = f;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	free(*state);
	return system(command);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

static inline void put(struct tracelog_writer *w, struct trace_event e)
{
	struct event_sink sink = tracelog_writer_sink(w);

	OK(sink.put(sink.ctx, &e));
}

#endif
