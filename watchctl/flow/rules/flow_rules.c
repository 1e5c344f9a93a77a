#include "watchctl/flow/rules/flow_rules.h"

#include <errno.h>
#include <fnmatch.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/words/similar.h"
#include "watchctl/flow/rules/flow_rules_impl.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

#define FILE_MOST (1u << 20)
#define WORD_BITS 64

/* A cell: is the wait idle, above that the enum flow_return, above that whether a rule has said so of the wait. */
#define CELL_IDLE 1u
#define CELL_RETURN_SHIFT 1
#define CELL_RETURN (3u << CELL_RETURN_SHIFT)
#define CELL_WAIT_NAMED 8u

struct flow_profile {
	uint8_t cell[PLACES][COLUMNS];
	struct flow_join join[PLACES][COLUMNS];
	uint64_t fits[]; /* a bit a test */
};

/* Profiles */

static bool fits(const struct flow_profile *p, uint16_t test)
{
	return test == NO_TEST || p->fits[test / WORD_BITS] >> test % WORD_BITS & 1;
}

static bool test_fits(const struct test *t, const char *process, const char *thread)
{
	return (t->of != NAME_OF_THREAD && !fnmatch(t->glob, process, 0)) ||
	       (t->of != NAME_OF_PROCESS && !fnmatch(t->glob, thread, 0));
}

static void apply_return(uint8_t *cell, enum flow_return how)
{
	*cell = (uint8_t)((*cell & ~CELL_RETURN) | (unsigned int)how << CELL_RETURN_SHIFT);
}

static void apply_cell(uint8_t *cell, enum rule_verb verb)
{
	switch (verb) {
	case RULE_INSIDE:
		*cell = (uint8_t)((*cell & ~CELL_IDLE) | CELL_WAIT_NAMED);
		break;
	case RULE_IDLE:
		*cell |= CELL_IDLE | CELL_WAIT_NAMED;
		break;
	case RULE_KEEP:
		apply_return(cell, FLOW_RETURN_PLAIN);
		break;
	case RULE_BEGIN:
		apply_return(cell, FLOW_RETURN_BEGINS);
		break;
	case RULE_END:
		apply_return(cell, FLOW_RETURN_ENDS);
		break;
	default:
		break;
	}
}

static void apply_join(struct flow_join *join, const struct rule *rule)
{
	if (rule->verb == RULE_JOIN_FROM)
		join->gives = rule->join;
	else if (rule->verb == RULE_JOIN_TO)
		join->gets = rule->join;
}

static void apply(struct flow_profile *p, const struct rule *rule)
{
	const bool is_of_edges = rule->verb == RULE_FALSE || rule->verb == RULE_TRUE;

	if (is_of_edges || !fits(p, rule->process) || !fits(p, rule->thread) || !fits(p, rule->outer))
		return;
	for (int i = 0; i < COLUMNS; i++) {
		if (!(rule->columns >> i & 1))
			continue;
		apply_cell(&p->cell[rule->place][i], rule->verb);
		apply_join(&p->join[rule->place][i], rule);
	}
}

static size_t bytes_of_fits(const struct flow_rules *r)
{
	return (r->ntests + WORD_BITS - 1) / WORD_BITS * sizeof(uint64_t);
}

static struct flow_profile *like(const struct flow_rules *r, const struct flow_profile *p)
{
	for (size_t i = 0; i < r->nprofiles; i++)
		if (!memcmp(r->profile[i]->fits, p->fits, bytes_of_fits(r)))
			return r->profile[i];
	return NULL;
}

const struct flow_profile *flow_rules_profile(struct flow_rules *r, const char *process, const char *thread)
{
	scoped(freep) struct flow_profile *p = calloc(1, sizeof(*p) + bytes_of_fits(r));
	struct flow_profile *known;

	if (!p)
		return NULL;
	for (size_t i = 0; i < r->ntests; i++)
		if (test_fits(&r->test[i], process, thread))
			p->fits[i / WORD_BITS] |= 1ull << i % WORD_BITS;
	known = like(r, p);
	if (known)
		return known;
	for (size_t i = 0; i < r->nrules; i++)
		apply(p, &r->rule[i]);
	if (!vec_push(r->profile, r->nprofiles, r->profiles_cap, p))
		return NULL;
	return take_ptr(p);
}

/* Answers */

static bool is_pi(uint32_t op)
{
	const uint32_t command = op & FUTEX_CMD_MASK;

	return command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
}

static bool is_monotonic(uint32_t op)
{
	return (op & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && !(op & FUTEX_CLOCK_REALTIME);
}

static enum flow_column column_of(const struct flow_event *e, bool locks)
{
	if (e->id != FLOW_WAIT_FUTEX)
		return e->kind < COLUMN_FUTEXES ? (enum flow_column)e->kind : FLOW_KIND_NONE;
	if (locks)
		return COLUMN_MUTEX;
	if (is_pi(e->op))
		return COLUMN_PI;
	if (e->has_words && e->word[0] == 2)
		return COLUMN_CONTENDED;
	return is_monotonic(e->op) ? COLUMN_MONOTONIC : COLUMN_WORD;
}

static enum flow_place place_of(const struct flow_event *e)
{
	const unsigned int why = e->why & FLOW_WHY_MASK;

	if (why == FLOW_IDLE)
		return PLACE_NO_WORK;
	if (e->why & FLOW_WHY_FAULT)
		return PLACE_FAULT;
	if (why == FLOW_STOPPED)
		return PLACE_STOPPED;
	if (why != FLOW_SLEEPS)
		return PLACE_BLOCKED;
	return e->id == FLOW_SWITCH ? PLACE_NO_CALL : e->call % PLACE_CALLS;
}

enum flow_wait_class flow_rules_wait(const struct flow_profile *p, const struct flow_event *e, bool locks)
{
	const unsigned int why = e->why & FLOW_WHY_MASK;

	if (why == FLOW_PREEMPTED || why == FLOW_YIELDED || why == FLOW_UNTOLD)
		return FLOW_WAIT_NONE;
	return p->cell[place_of(e)][column_of(e, locks)] & CELL_IDLE ? FLOW_WAIT_IDLE : FLOW_WAIT_OUT;
}

enum flow_return flow_rules_return(const struct flow_profile *p, const struct flow_event *e)
{
	return (enum flow_return)((p->cell[e->call % PLACE_CALLS][column_of(e, false)] & CELL_RETURN) >>
				  CELL_RETURN_SHIFT);
}

bool flow_rules_names_wait(const struct flow_profile *p, int call, int object_kind)
{
	const uint8_t *cell = p->cell[call % PLACE_CALLS];

	if (call != SYS_futex)
		return cell[object_kind] & CELL_WAIT_NAMED;
	for (int i = COLUMN_FUTEXES; i < COLUMNS; i++)
		if (cell[i] & CELL_WAIT_NAMED)
			return true;
	return false;
}

struct flow_join flow_rules_join(const struct flow_profile *p, const struct flow_event *e)
{
	return p->join[e->call % PLACE_CALLS][column_of(e, false)];
}

enum flow_edge_kind flow_rules_join_edge(const struct flow_rules *r, uint8_t join)
{
	return (enum flow_edge_kind)r->join_edge[join];
}

bool flow_rules_have_false(const struct flow_rules *r)
{
	return r->has_false;
}

/* Both ends of a rule of a `use` for some process: one of them is enough. */
static bool is_of_edge(const struct rule *rule, const struct flow_profile *from,
		       const struct flow_profile *to)
{
	return fits(from, rule->from) && fits(to, rule->to) &&
	       (fits(from, rule->outer) || fits(to, rule->outer));
}

bool flow_rules_false(const struct flow_rules *r, enum flow_edge_kind kind, int object_kind,
		      const struct flow_profile *from, const struct flow_profile *to)
{
	for (size_t i = r->nrules; i-- > 0;) {
		const struct rule *rule = &r->rule[i];

		if (rule->verb != RULE_FALSE && rule->verb != RULE_TRUE)
			continue;
		if (rule->edges >> kind & 1 && rule->columns >> object_kind & 1 && is_of_edge(rule, from, to))
			return rule->verb == RULE_FALSE;
	}
	return false;
}

/* Texts */

static struct wc_error *unknown(const char *name)
{
	struct similar near;
	const char *of, *text;
	char list[128];

	similar_init(&near, name, strlen(name));
	for (size_t i = 0; flow_rules_set(i, &of, &text); i++)
		similar_offer(&near, of);
	if (similar_list(&near, list, sizeof(list)))
		return wc_error_new(WC_ENAME,
				    "There is no set of rules, and no file, \"%s\": did you mean %s?", name,
				    list);
	return wc_error_new(
		WC_ENAME,
		"There is no set of rules, and no file, \"%s\": watchctl-flow-rules(5) lists the sets", name);
}

static struct wc_error *read_all(FILE *f, const char *name, char **ret)
{
	scoped(freep) char *text = malloc(FILE_MOST + 1);
	size_t n;

	if (!text)
		return &wc_enomem;
	n = fread(text, 1, FILE_MOST + 1, f);
	if (ferror(f))
		return wc_error_errno(WC_EFAIL, errno, "Cannot read the rules of %s", name);
	if (n > FILE_MOST)
		return wc_error_new(WC_EUSAGE, "%s has more than a megabyte: these are no rules", name);
	text[n] = '\0';
	if (strlen(text) != n)
		return wc_error_new(WC_EUSAGE, "%s is no text: these are no rules", name);
	*ret = take_ptr(text);
	return NULL;
}

static struct wc_error *parse_file(struct flow_rules *r, const char *name)
{
	scoped(fclosep) FILE *f = fopen(name, "re");
	scoped(freep) char *text = NULL;
	struct wc_error *err;

	if (!f && errno == ENOENT)
		return unknown(name);
	if (!f)
		return wc_error_errno(WC_EFAIL, errno, "Cannot open the rules of %s", name);
	err = read_all(f, name, &text);
	return err ? err : flow_rules_parse(r, name, text);
}

static struct wc_error *parse_asked(struct flow_rules *r, const char *name)
{
	const char *text = flow_rules_set_text(name, strlen(name));

	return text ? flow_rules_parse(r, name, text) : parse_file(r, name);
}

struct wc_error *flow_rules_new(const char *const *asked, size_t n, struct flow_rules **ret)
{
	scoped(flow_rules_freep) struct flow_rules *r = calloc(1, sizeof(*r));
	struct wc_error *err = r ? parse_asked(r, "default") : &wc_enomem;

	for (size_t i = 0; !err && i < n; i++)
		err = parse_asked(r, asked[i]);
	if (!err)
		*ret = take_ptr(r);
	return err;
}

struct wc_error *flow_rules_new_text(const char *name, const char *text, struct flow_rules **ret)
{
	scoped(flow_rules_freep) struct flow_rules *r = NULL;
	struct wc_error *err = flow_rules_new(NULL, 0, &r);

	if (!err)
		err = flow_rules_parse(r, name, text);
	if (!err)
		*ret = take_ptr(r);
	return err;
}

void flow_rules_free(struct flow_rules *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->ntests; i++)
		free(r->test[i].glob);
	for (size_t i = 0; i < r->nprofiles; i++)
		free(r->profile[i]);
	free(r->test);
	free(r->rule);
	free(r->profile);
	free(r);
}

void flow_rules_freep(struct flow_rules **r)
{
	flow_rules_free(*r);
}
