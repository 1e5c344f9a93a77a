#include "watchctl/cli/top/top_show.h"

#include <poll.h>
#include <stdio.h>

#include "watchctl/base/clock.h"
#include "watchctl/cli/top/top.h"

#define READ_NS 30000000u	 /* at a stretch, between looks at the keys */
#define DRAW_MIN_NS 100000000u	 /* between pictures, whatever happens */
#define WAIT_NS 50000000u	 /* for more in the log */
#define WAIT_ENDED_NS 500000000u /* when there will be no more */

void top_show_session(struct top_show *o)
{
	const char *end = o->session ? top_session_end(o->session) : NULL;

	if (end)
		snprintf(o->end, sizeof(o->end), "%s", end);
}

static bool take_keys(struct top *t)
{
	bool pressed = false;
	int key;

	while (!t->quit && (key = top_screen_key()) != TOP_KEY_NONE) {
		top_press(t, key);
		pressed = true;
	}
	return pressed;
}

/* Until a key comes, the session changes, a signal arrives, or @ns are over. True: by a signal. */
static bool wait_for(struct top_show *o, uint64_t ns)
{
	struct pollfd p[2] = { { .fd = top_screen_fd(), .events = POLLIN }, { .fd = -1, .events = POLLIN } };

	/* Once it has ended, it has no more to say. */
	if (o->session && !top_session_end(o->session))
		p[1].fd = top_session_fd(o->session);
	return poll(p, 2, (int)(ns / 1000000u) + 1) < 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct top_clock {
	uint64_t drawn_ns, due_ns;
	bool hurry; /* a picture is wanted as soon as one is allowed */
};

static void draw_if_due(struct top *t, struct top_clock *c, uint64_t delay_ns)
{
	uint64_t now = monotonic_ns();

	if ((now < c->due_ns && !c->hurry) || now - c->drawn_ns < DRAW_MIN_NS)
		return;
	top_draw(t);
	c->drawn_ns = monotonic_ns();
	c->due_ns = now + delay_ns;
	c->hurry = false;
}

static uint64_t wait_ns(const struct top *t, const struct top_clock *c)
{
	uint64_t now = monotonic_ns();
	uint64_t due = c->hurry ? c->drawn_ns + DRAW_MIN_NS : c->due_ns;

	return least(due > now ? due - now : 0,
		     site_feed_state(t->feed) == FEED_ENDED ? WAIT_ENDED_NS : WAIT_NS);
}

static struct wc_error *show(struct top_show *o, struct top *t)
{
	struct top_clock clock = { .hurry = true };
	enum feed_state before = site_feed_state(o->feed), state;
	struct wc_error *err;

	while (!t->quit && !*o->stop && !top_screen_is_gone()) {
		err = site_feed_read(o->feed, READ_NS);
		if (err)
			return err;
		top_show_session(o);
		state = site_feed_state(o->feed);
		if (take_keys(t) || top_screen_stop_if_asked() || state != before)
			clock.hurry = true;
		before = state;
		draw_if_due(t, &clock, o->delay_ns);
		if (!t->quit && state != FEED_BEHIND && wait_for(o, wait_ns(t, &clock)))
			clock.hurry = true;
	}
	return NULL;
}

struct wc_error *top_show_screen(struct top_show *o)
{
	struct top t = { .feed = o->feed,
			 .stats = site_feed_stats(o->feed),
			 .end = o->end,
			 .utf8 = top_screen_is_utf8() };
	struct wc_error *err = show(o, &t);

	top_screen_close();
	top_deinit(&t);
	return err;
}
