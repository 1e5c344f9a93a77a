#include "watchctl/cli/output/redact_options.h"

#include <stdio.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/redact.h"

static struct wc_error *add_name(const struct option_match *m, void *to)
{
	struct redact_ask *q = to;

	if (q->n == REDACT_NAMES)
		return wc_error_new(WC_EUSAGE,
				    "--redact can be given at most %u times; --no-values withholds all",
				    REDACT_NAMES);
	if (!*m->value)
		return wc_error_new(WC_EUSAGE, "--redact: name a watch, a tag or a function");
	q->name[q->n++] = m->value;
	return NULL;
}

const struct option redact_options[] = {
	{ "--no-values", NULL, NULL, "withhold all values: nothing that memory or registers hold", 0, NULL,
	  OPTION_FLAG(struct redact_ask, all) },
	{ "--redact", NULL, "NAME",
	  "withhold the values of the watch, tag or function NAME ('*key*'), and all registers; may be repeated",
	  COMPLETE_NOTHING, NULL, .set = add_name },
	{ 0 },
};

void redact_ask_warn(const char *name)
{
	if (name)
		fprintf(stderr,
			"watchctl: --redact %s: nothing recorded has this name, so nothing was withheld\n",
			name);
}

struct redact_rules redact_ask_rules(const struct redact_ask *q)
{
	return (struct redact_rules){ .all = q->all, .name = q->name, .n = q->n };
}

static bool names_any_watch(const char *name, const struct monitor_options *o)
{
	unsigned int i;

	for (i = 0; i < o->nwatches; i++)
		if (redact_names_watch(name, o->watch[i].expr))
			return true;
	return false;
}

struct wc_error *redact_ask_check(const struct redact_ask *q, const struct monitor_options *o)
{
	unsigned int i;

	for (i = 0; i < q->n && !o->tags; i++)
		if (!names_any_watch(q->name[i], o))
			return wc_error_new(
				WC_EUSAGE,
				"--redact %s: no watch has this name, so no values would be withheld: give the name "
				"as after -v, or use --no-values",
				q->name[i]);
	return NULL;
}
