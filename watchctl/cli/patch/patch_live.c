/* `watchctl patch` into a process, and `patch list`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/cli/patch/patch_ask.h"
#include "watchctl/monitor/patch/patch_watch.h"
#include "watchctl/patch/probe/probe_build.h"
#include "watchctl/patch/probe/probe_image.h"
#include "watchctl/view/words/json.h"

#define FRAMES 64u
#define STACK 4096u
#define BUFFER (4u << 20)
#define SLOT 64u

static volatile sig_atomic_t stop_asked;

/* What the user may have meant. */
static struct wc_error *no_function(const struct probe_image *i, const char *name)
{
	struct wc_error *err = name ? wc_error_new(WC_ENAME, "there is no probe function \"%s\"", name)
				    : wc_error_new(WC_EUSAGE, "which function is to run? Give --call");

	for (size_t k = 0; k < i->nfunctions && k < 16; k++)
		err = wc_error_hint(err, "%s", i->function[k].name);
	return err;
}

struct wc_error *patch_make_rules(const struct patch_ask *q, const struct probe_image *i,
				  struct patch_rule *ret)
{
	if (!i->nfunctions)
		return wc_error_new(WC_EUSAGE, "%s defines no probe function: PROBE(name) { ... }",
				    q->word[0]);
	for (size_t k = 0; k < q->nrules; k++) {
		const struct rule_ask *r = &q->rule[k];
		const char *name = r->function ? r->function : q->call;

		if (name ? !probe_image_function(i, name) : i->nfunctions > 1)
			return no_function(i, name);
		ret[k] = (struct patch_rule){
			.function = name ? name : i->function[0].name,
			.when = r->has_when  ? r->when
				: q->after   ? PROBE_AFTER_IT
				: q->instead ? PROBE_IN_PLACE
					     : PROBE_BEFORE,
		};
	}
	return NULL;
}

static struct wc_error *build(const struct patch_ask *q, struct probe_image *ret)
{
	const struct probe_build_request b = {
		.source = q->word, .nsources = q->nwords, .cc = q->cc, .stderr_fd = -1
	};

	return probe_build(&b, ret);
}

static struct wc_error *verdict(enum session_end end)
{
	return end == SESSION_EXECED
		       ? wc_error_new(WC_ETARGET, "the process has executed another program: its probes "
						  "ended with the one before")
		       : NULL;
}

static void say_counts(const struct patch_session_counts *c)
{
	output_say(
		NULL,
		"%zu site%s patched, %zu refused; reached %llu time%s; %llu record%s, %llu lost; threads stood %.2f ms at most",
		c->applied, c->applied == 1 ? "" : "s", c->refused, (unsigned long long)c->reached,
		c->reached == 1 ? "" : "s", (unsigned long long)c->recorded, c->recorded == 1 ? "" : "s",
		(unsigned long long)c->lost + c->unfinished, (double)c->longest_stop_ns / 1e6);
}

/* From now on the program calls the probes. */
static void say_begun(const struct patch_session *s)
{
	struct patch_session_counts c;

	patch_session_so_far(s, &c);
	output_say(NULL, "process %d: %zu site%s patched in %zu module%s, %zu refused", patch_session_pid(s),
		   c.applied, c.applied == 1 ? "" : "s", c.modules, c.modules == 1 ? "" : "s", c.refused);
}

/* With watches of variables beside the probes. */
static struct wc_error *run_both(struct patch_session_options *o, struct patch_ask *q, struct output *s,
				 const struct session_limits *limits)
{
	struct monitor_options watches = q->watch.monitor;
	struct patch_session_counts counts = { 0 };
	enum session_end end = SESSION_STOPPED;
	struct patch_watch *both = NULL;
	const char *unarmed;
	struct wc_error *err, *close_err;

	watches.stop = o->stop;
	err = patch_watch_open(o, &watches, s->events, &both);
	if (err) {
		output_discard_log(s);
		return err;
	}
	fflush(s->out);
	say_begun(patch_watch_probes(both));
	ready_tell(&q->watch.ready);
	err = patch_watch_run(both, limits, &end);
	s->watched = !err;
	unarmed = patch_watch_never_armed(both);
	close_err = patch_watch_close(both, &counts);
	if (!err) {
		say_counts(&counts);
		err = end == SESSION_EXECED ? verdict(end) : watch_verdict(end, unarmed, false);
	}
	return wc_error_first(err, close_err);
}

static struct wc_error *run(struct patch_session_options *o, struct patch_ask *q, struct output *s)
{
	const struct session_limits limits = { .count = q->count,
					       .time_ns = q->time_ns,
					       .stop = &stop_asked,
					       .tick = output_tick,
					       .tick_ctx = s };
	struct patch_session_counts counts = { 0 };
	struct patch_session *session = NULL;
	enum session_end end = SESSION_STOPPED;
	struct wc_error *err, *close_err;

	if (q->watch.monitor.nwatches)
		return run_both(o, q, s, &limits);
	err = patch_session_open(o, s->events, &session);
	if (err) {
		output_discard_log(s);
		return err;
	}
	fflush(s->out);
	say_begun(session);
	ready_tell(&q->watch.ready);
	err = patch_session_run(session, &limits, &end);
	s->watched = !err;
	close_err = patch_session_close(session, &counts);
	if (!err) {
		say_counts(&counts);
		err = verdict(end);
	}
	return wc_error_first(err, close_err);
}

void patch_size(const struct patch_ask *q, struct patch_session_options *ret)
{
	uint64_t buffer = q->buffer ? q->buffer : BUFFER, slots = 1;

	while (2 * slots * SLOT <= buffer)
		slots *= 2;
	ret->slots = (uint32_t)slots;
	ret->stack_bytes = (uint32_t)((q->stack ? q->stack : STACK) & ~7ull);
	ret->frames = q->frames ? q->frames : FRAMES;
}

static struct wc_error *record(struct patch_ask *q, const struct probe_image *image,
			       const struct patch_rule *rule)
{
	struct output s = { .stop = &stop_asked };
	struct patch_session_options o = { .pid = q->pid,
					   .argv = q->argv,
					   .in = q->in,
					   .pending = q->pending,
					   .query = &q->query,
					   .rule = rule,
					   .image = image,
					   .stop = &stop_asked };
	struct wc_error *err;

	patch_size(q, &o);
	output_catch_signals(&stop_asked);
	q->output.json = q->json;
	q->output.launched = q->argv;
	q->output.no_events = q->quiet || (q->output.log && !q->echo);
	err = output_open(&q->output, &s);
	if (!err)
		err = run(&o, q, &s);
	return wc_error_first(err, output_close(&s, !err || s.watched));
}

struct wc_error *patch_run_live(struct patch_ask *q)
{
	scoped(freep) struct patch_rule *rule = calloc(q->nrules, sizeof(*rule));
	scoped(probe_image_deinit) struct probe_image image = { 0 };
	struct wc_error *err = rule ? build(q, &image) : &wc_enomem;

	if (!err)
		err = patch_make_rules(q, &image, rule);
	return err ? err : record(q, &image, rule);
}

/* `patch list` */

struct listing {
	const struct patch_ask *ask;
	size_t n;
};

static const char *owner_text(const struct patch_left *l, char *buf, size_t cap)
{
	if (l->inherited)
		snprintf(buf, cap, "inherited by a fork, nothing is recorded");
	else if (l->owner > 0)
		snprintf(buf, cap, "of watchctl %d", l->owner);
	else
		snprintf(buf, cap,
			 l->owner ? "of a watchctl in another pid namespace"
				  : "left by a watchctl that has ended: \"watchctl clear\" takes it out");
	return buf;
}

static void print_left(void *ctx, const struct patch_left *l)
{
	struct listing *list = ctx;
	struct json j = { 0 };
	char owner[96];

	list->n++;
	if (!list->ask->json) {
		printf("%zu site%s, %zu patch%s in %zu module%s, memory at 0x%llx (%llu KB), %s\n", l->sites,
		       l->sites == 1 ? "" : "s", l->patches, l->patches == 1 ? "" : "es", l->modules,
		       l->modules == 1 ? "" : "s", (unsigned long long)l->addr,
		       (unsigned long long)l->size / 1024, owner_text(l, owner, sizeof(owner)));
		return;
	}
	json_open(&j, NULL, '{');
	json_text(&j, "type", "patches");
	json_number(&j, "pid", (uint64_t)list->ask->pid);
	json_number(&j, "sites", l->sites);
	json_number(&j, "patches", l->patches);
	json_number(&j, "modules", l->modules);
	json_hex(&j, "addr", l->addr);
	json_number(&j, "size", l->size);
	if (l->owner > 0)
		json_number(&j, "owner_pid", (uint64_t)l->owner);
	json_text(&j, "state", l->inherited ? "inherited" : l->owner ? "owned" : "left");
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

struct wc_error *patch_run_list(struct patch_ask *q)
{
	struct listing list = { .ask = q };
	struct wc_error *err = patch_session_list(q->pid, print_left, &list);

	if (!err && !list.n && !q->json)
		printf("process %d: no patches\n", q->pid);
	return err;
}
