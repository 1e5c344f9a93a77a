/* The script's data. Rows are arrays, to be small: what each number is, flow_data.js says, which reads them. */
#include <stdlib.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/flow/page/flow_page_impl.h"
#include "watchctl/cli/output/log_operand.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/flow/rules/flow_edge_kind.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/page/page_clock.h"

#define SECOND_NS 1000000000u

static uint64_t since(const struct flow_page *p, uint64_t ns)
{
	return ns > p->begin_ns ? ns - p->begin_ns : 0;
}

/* Seconds that the clock on the wall was ahead of UTC; it is the same all over the page. */
static int64_t zone_s(const struct flow_page *p)
{
	const time_t second = (time_t)(flow_shown_real(p->s, p->begin_ns) / SECOND_NS);
	struct tm tm;

	return p->ask->utc || !localtime_r(&second, &tm) ? 0 : tm.tm_gmtoff;
}

static void put_clock(const struct flow_page *p, struct json *j)
{
	const struct flow_span *span = &p->s->span;
	const struct page_clock clock = {
		.begin = { .mono_ns = p->begin_ns,
			   .real_ns = span->realtime_ns ? flow_shown_real(p->s, p->begin_ns) : 0 },
		.end_ns = since(p, span->end_ns),
	};

	page_clock_json(&clock, j);
	json_signed(j, "zone_s", zone_s(p));
	json_number(j, "from_ns", since(p, p->choice.from_ns));
	json_number(j, "to_ns", p->choice.to_ns < span->end_ns ? since(p, p->choice.to_ns) : clock.end_ns);
}

static void put_head(const struct flow_page *p, struct json *j)
{
	const struct flow_damage *damage = &p->s->damage;

	json_text(j, "version", WATCHCTL_VERSION);
	json_text(j, "log", log_operand_name(p->ask->log));
	put_clock(p, j);
	json_number(j, "cpus", p->s->span.cpus);
	json_bool(j, "ring", p->s->span.is_ring);
	json_number(j, "lost", p->s->span.lost);
	json_text_if(j, "process", p->ask->process);
	json_bool(j, "around", p->ask->around != NULL);
	if (damage->packets || damage->ignored)
		json_text(j, "damaged", damage->why ? damage->why : "cut off");
}

static void put_counts(const struct flow_page *p, struct json *j)
{
	json_number(j, "units", p->units);
	json_number(j, "edges", p->edges);
	json_number(j, "stacks", p->stacks);
	json_number(j, "units_left_out", p->units_left_out);
	json_number(j, "edges_left_out", p->edges_left_out);
	json_number(j, "texts_left_out", p->texts.left_out);
	if (p->start.node != FLOW_NONE) {
		json_number(j, "start", p->start.node);
		json_number(j, "start_ns", since(p, p->start.ns));
	}
}

/* The latest first, with the time from which on it has it. */
static void put_names(const struct flow_page *p, const struct flow_thread *t, struct json *j)
{
	json_open(j, NULL, '[');
	for (uint32_t i = t->name; i != FLOW_NO_THREAD; i = p->s->threads->name[i].before) {
		json_number(j, NULL, since(p, p->s->threads->name[i].time_ns));
		json_text(j, NULL, p->s->threads->name[i].comm);
	}
	json_close(j, ']');
}

/* The first thread of its process: numbers of processes are used again. */
static uint32_t leader_of(const struct flow_page *p, uint32_t thread)
{
	const struct flow_thread *t = &p->s->threads->thread[thread];
	uint32_t leader = FLOW_NO_THREAD;

	if (t->pid && t->pid != t->tid)
		leader = flow_threads_at(p->s->threads, t->pid, t->begin_ns);
	return leader == FLOW_NO_THREAD ? thread : leader;
}

static void put_threads(const struct flow_page *p, struct json *j)
{
	json_open(j, "threads", '[');
	for (size_t i = 0; i < p->nlanes; i++) {
		const struct flow_thread *t = &p->s->threads->thread[p->thread[i]];
		const uint32_t leader = leader_of(p, p->thread[i]);

		json_open(j, NULL, '[');
		json_signed(j, NULL, t->pid);
		json_signed(j, NULL, t->tid);
		json_number(j, NULL, leader);
		json_text(j, NULL, flow_threads_comm(p->s->threads, leader, p->s->span.end_ns));
		put_names(p, t, j);
		json_close(j, ']');
	}
	json_close(j, ']');
}

static void put_losses(const struct flow_page *p, struct json *j)
{
	json_open(j, "losses", '[');
	for (size_t i = 0; i < p->s->nlosses; i++) {
		json_number(j, NULL, since(p, p->s->loss[i].ns));
		json_number(j, NULL, p->s->loss[i].count);
	}
	json_close(j, ']');
	json_number(j, "more_losses", p->s->more_losses);
}

static void put_kinds(struct json *j)
{
	json_open(j, "kinds", '[');
	for (int i = 0; i < FLOW_EDGE_KINDS; i++)
		json_text(j, NULL, flow_edge_kind_names[i]);
	json_close(j, ']');
}

bool flow_page_json(const struct flow_page *p, struct json *j)
{
	json_open(j, NULL, '{');
	put_head(p, j);
	put_counts(p, j);
	put_kinds(j);
	put_threads(p, j);
	put_losses(p, j);
	json_close(j, '}');
	return !j->line.failed;
}

bool flow_page_texts_json(const struct flow_page *p, struct json *j)
{
	json_open(j, NULL, '[');
	for (size_t i = 0; i < p->texts.n; i++)
		json_text(j, NULL, callpage_text_at(&p->texts, i));
	json_close(j, ']');
	return !j->line.failed;
}
