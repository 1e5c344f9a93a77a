/* Engine auto: where one engine has to give up for the program's sake, the next that can goes on. */
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/monitor/monitored.h"

static struct wc_error *judge_values(struct monitor *m)
{
	struct wc_error *err = NULL;
	struct engine_counts c;

	for (unsigned int i = 0; i < MONITOR_WATCHES && !err; i++) {
		if (!m->watch[i].used)
			continue;
		m->ops->counts(m->engine, m->watch[i].id, &c);
		err = monitor_judge_last(m, i, &c);
	}
	return err;
}

/* What it has to leave behind in the program is told at the end, as ever. */
static struct wc_error *leave_engine(struct monitor *m)
{
	struct wc_error *err;

	for (unsigned int i = 0; i < MONITOR_WATCHES; i++)
		monitor_look_last(m, i);
	err = m->ops->stop(m->engine);
	if (!err)
		err = judge_values(m);
	if (!err)
		monitor_keep_counts(m);
	m->left = wc_error_first(m->left, m->ops->close(m->engine));
	m->engine = NULL;
	monitor_forget_armed(m);
	return err;
}

static struct wc_error *end(struct monitor *m)
{
	m->over = true;
	m->end = SESSION_GAVE_UP;
	return NULL;
}

static struct wc_error *end_for(struct monitor *m, struct wc_error *why)
{
	struct wc_error *err = monitor_note(m, "no other engine can continue: %s", why->text);

	wc_error_free(why);
	return err ? err : end(m);
}

/* What was opened before something failed is closed at the end. */
static struct wc_error *open_and_arm(struct monitor *m)
{
	struct wc_error *err = monitor_open_next_engine(m);

	return err ? err : monitor_arm_first(m);
}

static struct wc_error *report_goes_on(struct monitor *m, uint64_t ns)
{
	return monitor_note(
		m,
		"the watch continues with the %s engine: accesses in the %u ms between the two engines are "
		"not seen%s",
		m->ops->name, (unsigned int)(ns / 1000000 + 1),
		m->options.follow_fork ? ", nor those of children that were forked before" : "");
}

struct wc_error *monitor_yield(struct monitor *m)
{
	struct wc_error *err = monitor_note(m, "%s", m->ops->why(m->engine));
	uint64_t since = monotonic_ns();

	if (err || !monitor_has_next_engine(m))
		return err ? err : end(m);
	err = leave_engine(m);
	if (err)
		return err;
	err = open_and_arm(m);
	return err ? end_for(m, err) : report_goes_on(m, monotonic_ns() - since);
}
