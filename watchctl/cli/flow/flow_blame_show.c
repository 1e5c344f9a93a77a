#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/flow/blame_print.h"
#include "watchctl/cli/flow/blame_slow_print.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/cli/flow/flow_graph_show.h"
#include "watchctl/cli/flow/graph/flow_graph_who.h"
#include "watchctl/flow/blame/baseline.h"
#include "watchctl/flow/blame/blame.h"
#include "watchctl/flow/blame/compare.h"
#include "watchctl/flow/blame/link.h"
#include "watchctl/flow/blame/seen.h"
#include "watchctl/flow/blame/slow.h"
#include "watchctl/flow/graph/flow_threads.h"

#define GROWN_MOST 5u

#define SLOW_SHARE 20u /* of the time of a path, of a wait that is why it took long */

struct showing {
	const struct flow_graph_ask *ask;
	struct flow_shown s, good;
	struct seen seen, good_seen;
	bool *chosen; /* threads that --to names; NULL: all */
	struct blame blame;
	struct blame_slow slow;
	struct baseline baseline;
};

static void showing_deinit(struct showing *w)
{
	blame_slow_deinit(&w->slow);
	blame_deinit(&w->blame);
	free(w->chosen);
	seen_deinit(&w->seen);
	seen_deinit(&w->good_seen);
	flow_shown_deinit(&w->s);
	flow_shown_deinit(&w->good);
}

/* A thread that has ended long ago is not meant while others live. */
static size_t choose(const struct showing *w, const char *who, bool also_gone, bool *chosen)
{
	size_t n = 0;

	for (uint32_t i = 0; i < w->seen.n; i++) {
		if (!also_gone && w->s.threads->thread[i].gone)
			continue;
		chosen[i] = flow_threads_match(w->s.threads, i, who, w->seen.end_ns);
		n += chosen[i];
	}
	return n;
}

static struct wc_error *choose_threads(struct showing *w, const char *who)
{
	w->chosen = calloc(w->seen.n + 1, sizeof(*w->chosen));
	if (!w->chosen)
		return &wc_enomem;
	if (!choose(w, who, false, w->chosen) && !choose(w, who, true, w->chosen))
		return flow_who_unknown(&w->s, w->ask->log, who);
	return NULL;
}

/* A thread that happened to run, or has done its work, or an event loop, shows nothing that hangs. */
static bool hangs(const struct blame *b)
{
	const struct blamed *c = b->culprit;

	if (!b->n || c->verdict == VERDICT_IDLE)
		return false;
	if (c->npath == 1 && c->verdict == VERDICT_GONE)
		return b->log.seen->thread[c->who].status != 0;
	return c->verdict != VERDICT_BUSY || c->npath > 1 || blame_spins(&b->log, c->who);
}

/* Would the baseline know better? */
static bool is_sure(const struct blamed *c)
{
	return !c->guessed && c->verdict != VERDICT_WAITS && c->verdict != VERDICT_IDLE &&
	       c->verdict != VERDICT_OUTSIDE;
}

/* From the thread that hangs to the one from which the chain of the baseline was cut, and on from there. */
static struct wc_error *find_by_baseline(struct showing *w)
{
	const struct blame_log good = blame_log_of(w->good.g, &w->good_seen);
	const uint32_t suspect = w->blame.culprit->path[0];
	struct baseline *r = &w->baseline;
	struct blame_link link = { .how = BLAME_BASELINE, .guessed = true };
	struct wc_error *err = baseline_find(&good, &w->blame.log, suspect, r);

	if (err || r->culprit == FLOW_NO_THREAD || r->culprit == suspect || r->cut == r->nlinks ||
	    is_sure(w->blame.culprit))
		return err;
	link.to = r->culprit;
	link.times = r->ended;
	link.all = r->waits;
	blame_deinit(&w->blame);
	return blame_find_knowing(w->s.g, &w->seen, w->chosen, suspect, &link, &w->blame);
}

static struct wc_error *read_baseline(struct showing *w)
{
	const struct flow_graph_ask *ask = w->ask;

	return flow_shown_read_until(ask->baseline, ask->rules, ask->nrules, NULL, &w->good_seen, &w->good);
}

/* The thread that was chosen, of several the one that did something last. */
static uint32_t asked_thread(const struct showing *w)
{
	uint32_t best = FLOW_NO_THREAD;

	for (uint32_t i = 0; i < w->seen.n; i++)
		if (w->chosen[i] && w->seen.thread[i].last_node != FLOW_NONE &&
		    (best == FLOW_NO_THREAD || w->seen.thread[i].last_node > w->seen.thread[best].last_node))
			best = i;
	return best;
}

static struct wc_error *print_hang(struct showing *w)
{
	struct blame_log good;
	const struct blame_beside beside = { .shown = &w->good, .good = &good, .baseline = &w->baseline };
	const struct blame_beside *with = w->baseline.waits ? &beside : NULL;

	if (with)
		good = blame_log_of(w->good.g, &w->good_seen);
	return w->ask->json ? blame_print_json(&w->blame, &w->s, with)
			    : blame_print_text(&w->blame, &w->s, with);
}

static struct wc_error *show_slow(struct showing *w)
{
	const uint32_t thread = asked_thread(w);
	struct wc_error *err;

	if (thread == FLOW_NO_THREAD)
		return print_hang(w);
	err = blame_slow_find(&w->blame.log, thread, &w->slow);
	if (err)
		return err;
	if (w->slow.wait == FLOW_NONE || w->slow.wait_ns < w->slow.path_ns / SLOW_SHARE)
		return print_hang(w);
	return blame_print_slow(&w->blame.log, &w->s, &w->slow, w->ask->json);
}

static struct wc_error *show_slower(struct showing *w)
{
	const struct blame_log good = blame_log_of(w->good.g, &w->good_seen);
	struct compared grown[GROWN_MOST];
	size_t n;
	struct wc_error *err = compare_find(&good, &w->blame.log, w->chosen, grown, GROWN_MOST, &n);

	if (err || !n)
		return err ? err : print_hang(w);
	return blame_print_compared(&w->blame.log, &w->s, grown, n, w->ask->json);
}

static struct wc_error *show_found(struct showing *w)
{
	struct wc_error *err = w->ask->baseline ? read_baseline(w) : NULL;

	if (err)
		return err;
	if (!hangs(&w->blame)) {
		if (w->ask->baseline)
			return show_slower(w);
		return w->chosen ? show_slow(w) : print_hang(w);
	}
	if (w->ask->baseline)
		err = find_by_baseline(w);
	return err ? err : print_hang(w);
}

static struct wc_error *show(struct showing *w)
{
	const struct flow_graph_ask *ask = w->ask;
	struct flow_until until = { .option = "--to", .utc = ask->utc };
	scoped(freep) char *who = ask->to_where ? flow_who_split(ask->to_where, &until.time) : NULL;
	struct wc_error *err;

	if (ask->to_where && !who)
		return &wc_enomem;
	err = who ? flow_who_check("--to", who) : NULL;
	if (!err)
		err = flow_shown_read_until(ask->log, ask->rules, ask->nrules, &until, &w->seen, &w->s);
	if (!err && who)
		err = choose_threads(w, who);
	if (!err)
		err = blame_find(w->s.g, &w->seen, w->chosen, &w->blame);
	return err ? err : show_found(w);
}

struct wc_error *flow_blame_show(const struct flow_graph_ask *ask)
{
	struct showing w = { .ask = ask };
	struct wc_error *err = show(&w);

	showing_deinit(&w);
	return err;
}
