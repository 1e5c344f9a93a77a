#include "watchctl/session/session.h"

#include <assert.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"

#define TICK_NS 200000000ull
#define TICK_LATE_NS 1000000000ull /* so late it comes even while a thread waits for the next pump */

struct session {
	const struct source *source;
	size_t n;
	const struct session_limits *limits;
	uint64_t began_ns, ticked_ns;
	bool ended[SESSION_SOURCES];
	bool holds; /* one of them, in this round */
	bool ending, stopped;
	enum session_end end;
};

static bool is_limit(enum session_end end)
{
	return end == SESSION_STOPPED || end == SESSION_COUNT || end == SESSION_TIME;
}

static void session_ends(struct session *s, enum session_end end)
{
	if (!s->ending || (is_limit(s->end) && !is_limit(end)))
		s->end = end;
	s->ending = true;
}

static uint64_t session_count(const struct session *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->source[i].ops->count ? s->source[i].ops->count(s->source[i].self) : 0;
	return sum;
}

static struct wc_error *session_stop(struct session *s)
{
	struct wc_error *err = NULL;

	s->stopped = true;
	for (size_t i = 0; i < s->n; i++) {
		const struct source *p = &s->source[i];

		if (!p->ops->stop)
			s->ended[i] = true;
		else if (!s->ended[i])
			err = wc_error_first(err, p->ops->stop(p->self));
	}
	return err;
}

static struct wc_error *look_at_limits(struct session *s)
{
	const struct session_limits *l = s->limits;

	if (s->ending)
		return NULL;
	if (l->stop && *l->stop)
		session_ends(s, SESSION_STOPPED);
	else if (l->count && session_count(s) >= l->count)
		session_ends(s, SESSION_COUNT);
	else if (l->time_ns && monotonic_ns() - s->began_ns >= l->time_ns)
		session_ends(s, SESSION_TIME);
	return s->ending ? session_stop(s) : NULL;
}

static bool is_over(const struct session *s)
{
	bool over = true;

	for (size_t i = 0; i < s->n; i++)
		over &= s->ended[i];
	return over;
}

static struct wc_error *pump_all(struct session *s)
{
	struct wc_error *err = NULL;
	bool may_wait = true;

	s->holds = false;
	for (size_t i = 0; i < s->n; i++) {
		const struct source *p = &s->source[i];
		enum source_state state = SOURCE_GOES_ON;
		enum session_end end;
		struct wc_error *failed;

		if (s->ended[i])
			continue;
		failed = p->ops->pump(p->self, may_wait, &state, &end);
		may_wait = false;
		s->holds |= state == SOURCE_HOLDS;
		s->ended[i] = failed || state == SOURCE_ENDED;
		if (!failed && s->ended[i])
			session_ends(s, end);
		err = wc_error_first(err, failed);
	}
	return (err || s->ending) && !s->stopped ? wc_error_first(err, session_stop(s)) : err;
}

static struct wc_error *session_tick(struct session *s)
{
	const struct session_limits *l = s->limits;
	const uint64_t now = monotonic_ns(), passed = now - s->ticked_ns;

	if (!l->tick || passed < (l->tick_ns ? l->tick_ns : TICK_NS) || (s->holds && passed <= TICK_LATE_NS))
		return NULL;
	s->ticked_ns = now;
	return l->tick(l->tick_ctx);
}

struct wc_error *session_run(const struct source *source, size_t n, const struct session_limits *limits,
			     enum session_end *ret)
{
	struct session s = { .source = source, .n = n, .limits = limits, .began_ns = monotonic_ns() };
	struct wc_error *err;

	assert(n <= SESSION_SOURCES);
	s.ticked_ns = s.began_ns;
	err = look_at_limits(&s);
	while (!err && !is_over(&s)) {
		err = pump_all(&s);
		if (!err && !is_over(&s))
			err = session_tick(&s);
		if (!err)
			err = look_at_limits(&s);
	}
	if (!err)
		*ret = s.end;
	return err;
}
