#include "watchctl/cli/flow/graph/flow_graph_print.h"

#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/flow/graph/flow_attached.h"
#include "watchctl/cli/flow/graph/flow_graph_who.h"
#include "watchctl/cli/flow/graph/flow_graph_words.h"
#include "watchctl/cli/flow/graph/flow_stack_words.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/flow/rules/flow_rules.h"
#include "watchctl/trace/flow/flow_format.h"
#include "watchctl/view/event/time_bound.h"
#include "watchctl/view/event/view.h"

static struct wc_error *keep_loss(struct flow_shown *s, const struct flow_event *e)
{
	const struct flow_loss loss = { .ns = e->time_ns, .count = (uint64_t)e->result };

	if (s->nlosses == FLOW_SHOWN_LOSSES) {
		s->more_losses++;
		return NULL;
	}
	return vec_push(s->loss, s->nlosses, s->losses_cap, loss) ? NULL : &wc_enomem;
}

/* Names of the beginning come first, and have no time. */
static bool next(struct flow_reader *r, uint64_t until_ns, struct flow_event *e)
{
	return flow_reader_next(r, e) && (e->cpu == FLOW_CPU_NAMES || e->time_ns <= until_ns);
}

static struct wc_error *feed_one(struct flow_shown *s, struct seen *seen, const struct flow_event *e)
{
	struct wc_error *err = NULL;

	/* Names of the beginning have a time of their own. */
	if (s->attached.n && e->cpu != FLOW_CPU_NAMES)
		err = flow_attached_feed(&s->attached, e->time_ns, s->g);
	if (!err)
		err = flow_graph_feed(s->g, e);
	if (!err && seen)
		err = seen_feed(seen, s->g, e);
	return !err && e->id == FLOW_LOST ? keep_loss(s, e) : err;
}

static struct wc_error *feed_all(struct flow_reader *r, struct flow_shown *s, uint64_t until_ns,
				 struct seen *seen)
{
	struct flow_event e;
	struct wc_error *err = NULL;

	while (!err && next(r, until_ns, &e))
		err = feed_one(s, seen, &e);
	if (err)
		return err;
	flow_graph_end(s->g);
	return seen ? seen_end(seen, s->g) : NULL;
}

/* To stderr: the graph is right without what is missing, but not whole. */
static void say_missing(const struct flow_shown *s)
{
	if (s->span.lost)
		fprintf(stderr,
			"watchctl: %llu events were lost while recording: causes across them are not known\n",
			(unsigned long long)s->span.lost);
	if (s->damage.packets || s->damage.ignored)
		fprintf(stderr,
			"watchctl: parts of the log are damaged (%s): causes across them are not known\n",
			s->damage.why ? s->damage.why : "cut off");
}

static struct wc_error *find_end(struct flow_shown *s, const struct flow_until *until, uint64_t *ret)
{
	struct wc_error *err;

	if (!until || !until->time)
		return NULL;
	err = flow_shown_time(s, until->option, until->time, until->utc, ret);
	return err ? err : flow_when_check(s, until->option, *ret, *ret, until->utc);
}

struct wc_error *flow_shown_read(const char *log, const char *const *rules, size_t nrules,
				 struct flow_shown *ret)
{
	return flow_shown_read_until(log, rules, nrules, NULL, NULL, ret);
}

struct wc_error *flow_shown_read_until(const char *log, const char *const *rules, size_t nrules,
				       const struct flow_until *until, struct seen *seen,
				       struct flow_shown *ret)
{
	uint64_t until_ns = UINT64_MAX;
	scoped(flow_reader_closep) struct flow_reader *r = NULL;
	struct flow_rules *by;
	struct wc_error *err = flow_reader_open(log, &r);

	if (err)
		return err;
	*ret = (struct flow_shown){ 0 };
	flow_reader_span(r, &ret->span);
	err = find_end(ret, until, &until_ns);
	if (!err)
		err = flow_rules_new(rules, nrules, &by);
	if (err)
		return err;
	ret->g = flow_graph_new_by(by);
	err = ret->g ? flow_attached_read(log, &ret->attached) : &wc_enomem;
	if (!err)
		err = flow_wait_stacks_read(log, &ret->stacks);
	if (!err)
		err = feed_all(r, ret, until_ns, seen);
	if (err) {
		flow_shown_deinit(ret);
		return wc_error_context(err, "the graph of %s", log);
	}
	flow_reader_damage(r, &ret->damage);
	say_missing(ret);
	ret->node = flow_graph_nodes(ret->g, &ret->nnodes);
	ret->edge = flow_graph_edges(ret->g, &ret->nedges);
	ret->threads = flow_graph_threads(ret->g);
	return NULL;
}

void flow_shown_deinit(struct flow_shown *s)
{
	flow_graph_free(s->g);
	flow_wait_stacks_deinit(&s->stacks);
	flow_attached_deinit(&s->attached);
	free(s->loss);
	*s = (struct flow_shown){ 0 };
}

uint64_t flow_shown_real(const struct flow_shown *s, uint64_t ns)
{
	return ns + s->span.realtime_ns;
}

struct wc_error *flow_shown_time(const struct flow_shown *s, const char *option, const char *text, bool utc,
				 uint64_t *ret)
{
	const struct view_time begin = {
		.mono_ns = s->span.begin_ns,
		.real_ns = s->span.realtime_ns ? flow_shown_real(s, s->span.begin_ns) : 0,
	};
	struct time_bound bound;
	struct wc_error *err = time_bound_parse(option, text, utc, &bound);

	if (!err)
		err = time_bound_resolve(&bound, begin, ret);
	return err;
}

void flow_json_thread(struct json *j, const struct flow_shown *s, uint32_t node)
{
	const struct flow_node *n = &s->node[node];
	const struct flow_thread *t = &s->threads->thread[n->thread];

	if (t->pid)
		json_signed(j, "pid", t->pid);
	json_signed(j, "tid", t->tid);
	json_text_if(j, "comm", flow_threads_comm(s->threads, n->thread, n->end_ns));
}

void flow_json_node(struct json *j, const struct flow_shown *s, uint32_t node)
{
	char what[FLOW_WORDS];

	flow_node_words(&s->node[node], what);
	json_number(j, "id", node);
	flow_json_thread(j, s, node);
	json_number(j, "begin_ns", s->node[node].begin_ns);
	json_number(j, "end_ns", s->node[node].end_ns);
	json_text(j, "what", what);
}

static void put_end(struct json *j, const struct flow_shown *s, const char *name, uint32_t node, uint64_t ns)
{
	json_open(j, name, '{');
	if (node != FLOW_NONE) {
		json_number(j, "node", node);
		json_signed(j, "tid", s->threads->thread[s->node[node].thread].tid);
	}
	json_number(j, "time_ns", ns);
	json_close(j, '}');
}

const struct flow_wait_stack *flow_shown_stack(const struct flow_shown *s, const struct flow_edge *e)
{
	if (e->kind != FLOW_EDGE_WAIT_FOR && e->kind != FLOW_EDGE_WEAK)
		return NULL;
	return flow_wait_stack_of(&s->stacks, s->threads->thread[s->node[e->to].thread].tid, e->from_ns,
				  e->to_ns);
}

void flow_json_edge(struct json *j, const struct flow_shown *s, const struct flow_edge *e)
{
	char words[FLOW_WORDS] = "";

	if (e->kind != FLOW_EDGE_WEAK)
		flow_edge_words(s, e, words);
	json_text(j, "kind", flow_edge_kind_name(e->kind));
	json_bool(j, "strong", e->kind != FLOW_EDGE_WEAK);
	put_end(j, s, "from", e->from, e->from_ns);
	put_end(j, s, "to", e->to, e->to_ns);
	json_text_if(j, "evidence", words);
	if (e->flags & FLOW_EDGE_OPEN)
		json_bool(j, "open", true);
	flow_stack_json(j, flow_shown_stack(s, e));
}
