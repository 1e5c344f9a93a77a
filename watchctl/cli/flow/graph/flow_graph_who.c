#include "watchctl/cli/flow/graph/flow_graph_who.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/words/similar.h"
#include "watchctl/flow/graph/flow_threads.h"

#define SECOND_NS 1000000000u

static uint64_t within(const struct flow_node *n, uint64_t ns)
{
	return ns < n->end_ns ? ns : n->end_ns;
}

/* A child has its parent's name until it executes a program: both are meant. */
bool flow_who_is(const struct flow_shown *s, uint32_t node, const char *who, uint64_t ns)
{
	const struct flow_node *n = &s->node[node];

	return flow_threads_match(s->threads, n->thread, who, n->begin_ns) ||
	       flow_threads_match(s->threads, n->thread, who, within(n, ns));
}

struct wc_error *flow_who_check(const char *option, const char *who)
{
	if (*who)
		return NULL;
	return wc_error_new(WC_EUSAGE, "%s wants a thread or process: its name, its number, or NAME/NUMBER",
			    option);
}

/* "app" of "app/1234". */
static size_t name_length(const char *who)
{
	const char *slash = strrchr(who, '/');

	return slash && slash[strspn(slash + 1, "0123456789") + 1] == '\0' ? (size_t)(slash - who)
									   : strlen(who);
}

char *flow_who_split(const char *where, const char **time)
{
	const char *at = NULL;

	for (const char *p = where; (p = strstr(p, " at ")); p++)
		at = p;
	*time = at ? at + strlen(" at ") : NULL;
	return at ? strndup(where, (size_t)(at - where)) : strdup(where);
}

/* Many threads have the same name. */
static bool is_offered(const struct similar *similar, const char *name)
{
	for (size_t i = 0; i < similar->n; i++)
		if (strcmp(similar->best[i], name) == 0)
			return true;
	return false;
}

struct wc_error *flow_who_unknown(const struct flow_shown *s, const char *log, const char *who)
{
	struct similar similar;
	char list[160];

	similar_init(&similar, who, name_length(who));
	for (size_t i = 0; i < s->threads->nnames; i++)
		if (!is_offered(&similar, s->threads->name[i].comm))
			similar_offer(&similar, s->threads->name[i].comm);
	if (similar_list(&similar, list, sizeof(list)))
		return wc_error_new(WC_ENAME, "no thread \"%s\" did anything in the log %s; did you mean %s?",
				    who, log, list);
	return wc_error_new(
		WC_ENAME,
		"no thread \"%s\" did anything in the log %s: watchctl flow graph prints all that did", who,
		log);
}

void flow_when_words(const struct flow_shown *s, uint64_t ns, bool utc, char *buf, size_t cap)
{
	const uint64_t real = flow_shown_real(s, ns);
	const time_t second = (time_t)(real / SECOND_NS);
	struct tm tm;
	char clock[16];

	if (s->span.realtime_ns && (utc ? gmtime_r(&second, &tm) : localtime_r(&second, &tm)) &&
	    strftime(clock, sizeof(clock), "%H:%M:%S", &tm))
		snprintf(buf, cap, "%s.%06u", clock, (unsigned int)(real % SECOND_NS / 1000));
	else
		snprintf(buf, cap, "+%.6f", (double)(ns - s->span.begin_ns) / SECOND_NS);
}

struct wc_error *flow_when_check(const struct flow_shown *s, const char *option, uint64_t from_ns,
				 uint64_t to_ns, bool utc)
{
	char begin[32], end[32];

	if (to_ns >= s->span.begin_ns && from_ns <= s->span.end_ns)
		return NULL;
	flow_when_words(s, s->span.begin_ns, utc, begin, sizeof(begin));
	flow_when_words(s, s->span.end_ns, utc, end, sizeof(end));
	return wc_error_new(WC_EUSAGE, "the time of %s is outside the log, which has %s to %s", option, begin,
			    end);
}
