#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/cli/flow/flow_graph_show.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"
#include "watchctl/cli/flow/graph/flow_graph_who.h"
#include "watchctl/cli/flow/graph/flow_graph_words.h"
#include "watchctl/cli/flow/graph/flow_stack_words.h"
#include "watchctl/cli/flow/page/flow_page.h"
#include "watchctl/flow/graph/flow_path.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/words/view_words.h"

#define WAIT_SHARE 20u /* waits of a twentieth of the unit, and longer ones */
#define WAITS_MOST 3u  /* a unit, in words */

struct telling {
	struct flow_shown s;
	const struct flow_graph_ask *ask;
	struct flow_path path;
	struct printer *printer; /* of stacks, in words */
	struct json j;
	bool starved;
};

static void telling_deinit(struct telling *t)
{
	flow_path_deinit(&t->path);
	flow_shown_deinit(&t->s);
	printer_free(t->printer);
	json_deinit(&t->j);
}

/* @who's number is this thread's own, not only its process's. */
static bool is_number_of(const struct flow_shown *s, uint32_t node, const char *who)
{
	const char *slash = strrchr(who, '/');

	return atol(slash ? slash + 1 : who) == s->threads->thread[s->node[node].thread].tid;
}

/*
 * The unit that has @ns of the threads that @who means: of several, the one that began last, unless the thread with that very number is in
 * one then.
 */
static uint32_t find_node(const struct flow_shown *s, const char *who, uint64_t ns)
{
	uint32_t last = FLOW_NONE;

	for (size_t i = s->nnodes; i-- > 0;) {
		const bool ends_before = ns != UINT64_MAX && s->node[i].end_ns < ns;

		if (s->node[i].begin_ns > ns || (last != FLOW_NONE && ends_before) ||
		    !flow_who_is(s, (uint32_t)i, who, ns))
			continue;
		if (ns != UINT64_MAX && !ends_before && is_number_of(s, (uint32_t)i, who))
			return (uint32_t)i;
		if (last == FLOW_NONE)
			last = (uint32_t)i;
	}
	return last;
}

static struct wc_error *choose_time(const struct telling *t, const char *text, uint64_t *ret)
{
	struct wc_error *err = flow_shown_time(&t->s, "--to", text, t->ask->utc, ret);

	return err ? err : flow_when_check(&t->s, "--to", *ret, *ret, t->ask->utc);
}

static struct wc_error *find_path(struct telling *t)
{
	const char *time;
	scoped(freep) char *who = flow_who_split(t->ask->to_where, &time);
	uint64_t ns = UINT64_MAX;
	struct wc_error *err = NULL;
	uint32_t node;

	if (!who)
		return &wc_enomem;
	err = flow_who_check("--to", who);
	if (!err && time)
		err = choose_time(t, time, &ns);
	if (err)
		return err;
	node = find_node(&t->s, who, ns);
	if (node == FLOW_NONE && find_node(&t->s, who, UINT64_MAX) != FLOW_NONE)
		return wc_error_new(WC_ENAME, "the thread \"%s\" did nothing yet at %s, but later", who,
				    time);
	if (node == FLOW_NONE)
		return flow_who_unknown(&t->s, t->ask->log, who);
	return flow_path_find(t->s.g, node, ns, WAIT_SHARE, &t->path);
}

static void put_time(const struct telling *t, uint64_t ns)
{
	char text[32];

	flow_when_words(&t->s, ns, t->ask->utc, text, sizeof(text));
	fputs(text, stdout);
}

/* As it was named at @ns. Names of threads may have anything in them; a terminal shall not obey it. */
static void put_thread(const struct flow_shown *s, uint32_t node, uint64_t ns)
{
	const struct flow_node *n = &s->node[node];
	const char *comm = flow_threads_comm(s->threads, n->thread, ns);

	for (const char *p = *comm ? comm : "?"; *p; p++)
		putchar((unsigned char)*p < ' ' || *p == 127 ? '?' : *p);
	printf("/%d", s->threads->thread[n->thread].tid);
}

static void put_duration(uint64_t ns)
{
	char text[32];

	text_duration(ns, text, sizeof(text));
	fputs(text, stdout);
}

static void tell_wait(const struct telling *t, const struct flow_edge *e, uint64_t until_ns)
{
	const uint64_t end_ns = e->to_ns < until_ns ? e->to_ns : until_ns;
	char words[FLOW_WORDS];

	flow_edge_words(&t->s, e, words);
	printf("\t\tof these ");
	put_duration(end_ns - e->from_ns);
	printf(" waiting: %s", words);
	if (e->from != FLOW_NONE && !(e->flags & FLOW_EDGE_OWN)) {
		printf(e->flags & FLOW_EDGE_OWNER ? ", which " : ", until ");
		put_thread(&t->s, e->from, end_ns);
		printf(e->flags & FLOW_EDGE_OWNER ? " had" : " ended it");
	}
	if (e->flags & FLOW_EDGE_OPEN)
		printf(", which goes on at the end of the log");
	printf("\n");
	flow_stack_print(t->printer, flow_shown_stack(&t->s, e));
}

static void tell_cause(const struct telling *t, const struct flow_edge *e)
{
	char words[FLOW_WORDS];

	flow_edge_words(&t->s, e, words);
	printf("\tbrought about at ");
	put_time(t, e->to_ns);
	if (e->flags & FLOW_EDGE_OWN) {
		printf(" by %s\n", words);
		return;
	}
	printf(" by ");
	put_thread(&t->s, e->from, e->from_ns);
	printf(" (%s: %s)\n", flow_edge_kind_name(e->kind), words);
}

static void tell_step(const struct telling *t, const struct flow_step *s)
{
	const struct flow_node *n = &t->s.node[s->node];
	char words[FLOW_WORDS];

	flow_node_words(n, words);
	put_time(t, n->begin_ns);
	printf("  ");
	put_thread(&t->s, s->node, s->until_ns);
	printf("  %s, ", words);
	put_duration(s->until_ns - n->begin_ns);
	printf("\n");
	for (uint32_t i = 0; i < s->nwaits && i < WAITS_MOST; i++)
		tell_wait(t, &t->s.edge[t->path.wait[s->wait + i]], s->until_ns);
	if (s->nwaits > WAITS_MOST)
		printf("\t\tand %u more waits\n", s->nwaits - WAITS_MOST);
	if (s->edge != FLOW_NONE)
		tell_cause(t, &t->s.edge[s->edge]);
	else if (s->follows)
		printf("\twent on from its unit before, without a wait\n");
}

static const char *end_words(enum flow_path_end end)
{
	static const char *const words[] = {
		[FLOW_PATH_INPUT] =
			"No thread that was recorded brought this about: it began before the recording, "
			"or by an input from outside.",
		[FLOW_PATH_TIMER] = "It set this timeout itself: here the path ends.",
		[FLOW_PATH_CIRCLE] = "From here the path goes round in a circle.",
		[FLOW_PATH_LONG] = "There is more: ask for the last of these threads and times.",
	};

	return words[end];
}

/* The newest first: the question is about that, and each answer asks the next one. */
static void tell(const struct telling *t)
{
	for (size_t i = 0; i < t->path.n; i++)
		tell_step(t, &t->path.step[i]);
	printf("%s\n", end_words(t->path.end));
}

static void put_node(struct telling *t, const char *name, uint32_t node)
{
	json_open(&t->j, name, '{');
	flow_json_node(&t->j, &t->s, node);
	json_close(&t->j, '}');
}

static void put_edge(struct telling *t, const char *name, const struct flow_edge *e)
{
	json_open(&t->j, name, '{');
	flow_json_edge(&t->j, &t->s, e);
	json_close(&t->j, '}');
}

/* The thread's own unit before. */
static void put_before(struct telling *t, uint32_t node)
{
	const struct flow_node *n = &t->s.node[node];
	const struct flow_edge weak = { .kind = FLOW_EDGE_WEAK,
					.from = n->before,
					.to = node,
					.from_ns = n->begin_ns,
					.to_ns = n->begin_ns };

	put_edge(t, "edge", &weak);
	put_node(t, "from", n->before);
}

/* The last link has no edge and no `from`. */
static void put_link(struct telling *t, size_t i)
{
	const struct flow_step *s = &t->path.step[i];
	const struct flow_edge *e = s->edge == FLOW_NONE ? NULL : &t->s.edge[s->edge];

	json_open(&t->j, NULL, '{');
	json_text(&t->j, "type", "link");
	json_number(&t->j, "n", i + 1);
	if (e) {
		put_edge(t, "edge", e);
		put_node(t, "from", e->from);
	} else if (s->follows) {
		put_before(t, s->node);
	}
	put_node(t, "to", s->node);
	json_open(&t->j, "waits", '[');
	for (uint32_t k = 0; k < s->nwaits; k++)
		put_edge(t, NULL, &t->s.edge[t->path.wait[s->wait + k]]);
	json_close(&t->j, ']');
	json_close(&t->j, '}');
	t->starved |= !json_end_line(&t->j, stdout);
}

static struct wc_error *show(struct telling *t)
{
	const struct print_options plain = { .utc = t->ask->utc };
	const struct flow_step *first = &t->path.step[0];

	if (t->ask->html)
		return flow_page_put(&t->s, t->ask, (struct flow_page_start){ first->node, first->until_ns },
				     t->ask->html);
	if (!t->ask->json) {
		t->printer = print_text_new(stdout, &plain);
		if (t->printer)
			tell(t);
		return t->printer ? NULL : &wc_enomem;
	}
	for (size_t i = 0; i < t->path.n; i++)
		put_link(t, i);
	return t->starved ? &wc_enomem : NULL;
}

struct wc_error *flow_path_show(const struct flow_graph_ask *ask)
{
	struct telling t = { .ask = ask };
	struct wc_error *err = flow_shown_read(ask->log, ask->rules, ask->nrules, &t.s);

	if (!err)
		err = find_path(&t);
	if (!err)
		err = show(&t);
	telling_deinit(&t);
	return err;
}
