/* flow_suggest_show - `watchctl flow suggest LOG`: rules that the log gives reason for, as a file of rules with the reasons in comments. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/cli/flow/flow_graph_show.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"
#include "watchctl/cli/flow/graph/flow_graph_choice.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/cli/flow/graph/flow_graph_who.h"
#include "watchctl/flow/graph/flow_suggest.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/flow/rules/flow_rules.h"
#include "watchctl/view/words/view_words.h"

struct showing {
	const struct flow_graph_ask *ask;
	struct flow_shown s;
	struct flow_suggestions found;
	struct text_buf rule;
	struct text_buf rules; /* that are printed, each between line ends */
	size_t printed;
};

static void showing_deinit(struct showing *w)
{
	flow_shown_deinit(&w->s);
	flow_suggestions_deinit(&w->found);
	text_buf_deinit(&w->rule);
	text_buf_deinit(&w->rules);
}

/* A pattern that fits the name: in quotes, and what would mean something else there, or on a terminal, is any character. */
static void put_pattern(struct text_buf *t, const char *name, bool any_number)
{
	const char *p = name;

	text_buf_char(t, '"');
	while (*p) {
		const size_t digits = any_number ? strspn(p, "0123456789") : 0;

		if (digits)
			text_buf_char(t, '*');
		else
			text_buf_char(t, strchr("\"\\*?[", *p) || *p < ' ' || *p > '~' ? '?' : *p);
		p += digits ? digits : 1;
	}
	text_buf_char(t, '"');
}

static void put_rule(struct showing *w, const struct flow_suggestion *s)
{
	const struct flow_threads *t = w->s.threads;
	const uint64_t ns = w->s.node[s->node].end_ns;
	const char *process = flow_threads_comm(t, s->leader, ns);
	const char *thread = flow_threads_comm(t, s->thread, ns);

	text_buf_empty(&w->rule);
	text_buf_add(&w->rule, "\nidle process ");
	put_pattern(&w->rule, process, false);
	text_buf_add(&w->rule, " thread ");
	/* Threads of a pool differ by their numbers. */
	put_pattern(&w->rule, thread, strcmp(process, thread) != 0);
	text_buf_printf(&w->rule, " %s on %s\n", flow_rules_call_name(s->call),
			flow_rules_kind_name(s->object_kind));
}

static void print_reason(const struct showing *w, const struct flow_suggestion *s)
{
	char took[32];

	text_duration(s->unit_ns, took, sizeof(took));
	printf("# Thread %d: %u messages from %u threads in one unit of %s, in which it waited %u times in %s;\n"
	       "# %u of these ended with a message since the one before. It has %u unit%s in all.\n",
	       w->s.threads->thread[s->thread].tid, s->messages, s->origins, took, s->waits,
	       flow_rules_call_name(s->call), s->served, s->units, s->units == 1 ? "" : "s");
}

static bool is_asked(const struct showing *w, const struct flow_suggestion *s)
{
	return !w->ask->process || flow_who_is(&w->s, s->node, w->ask->process, w->s.node[s->node].end_ns);
}

/* Without names, or one for the call, there is nothing that a rule could say. */
static bool can_be_said(const struct showing *w, const struct flow_suggestion *s)
{
	const uint64_t ns = w->s.node[s->node].end_ns;

	return *flow_threads_comm(w->s.threads, s->leader, ns) &&
	       *flow_threads_comm(w->s.threads, s->thread, ns) && flow_rules_call_name(s->call);
}

/* Threads with the same rule follow the one with the most messages, which stands for them. */
static struct wc_error *print_one(struct showing *w, const struct flow_suggestion *s)
{
	if (!is_asked(w, s) || !can_be_said(w, s))
		return NULL;
	put_rule(w, s);
	if (!w->rule.failed && strstr(text_buf_text(&w->rules), text_buf_text(&w->rule)))
		return NULL;
	text_buf_add(&w->rules, text_buf_text(&w->rule));
	if (w->rule.failed || w->rules.failed)
		return &wc_enomem;
	if (!w->printed++)
		printf("# Suggested by watchctl flow suggest. Of a wait for something that the work at hand needs, say \"inside\" instead.\n");
	putchar('\n');
	print_reason(w, s);
	fputs(text_buf_text(&w->rule) + 1, stdout);
	return NULL;
}

static struct wc_error *print_all(struct showing *w)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < w->found.n && !err; i++)
		err = print_one(w, &w->found.of[i]);
	if (!err && !w->printed)
		printf("# No rule is suggested: no thread has %u waits in one unit, in a call that no rule names, with a message\n"
		       "# since the one before each, from %u threads or more in all.\n",
		       FLOW_SUGGEST_WAITS, FLOW_SUGGEST_ORIGINS);
	return err;
}

struct wc_error *flow_suggest_show(const struct flow_graph_ask *ask)
{
	struct showing w = { .ask = ask };
	struct wc_error *err = flow_shown_read(ask->log, ask->rules, ask->nrules, &w.s);

	if (!err)
		err = flow_choice_check_process(&w.s, ask);
	if (!err)
		err = flow_suggest(w.s.g, &w.found);
	if (!err)
		err = print_all(&w);
	showing_deinit(&w);
	return err;
}
