#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/cli/command.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/trace/log/tracelog_replace.h"
#include "watchctl/view/rewrite/snapshot.h"

struct request {
	struct snapshot_names names;
	struct redact_ask redact;
	bool json, quiet, force;
};

static const struct option options[] = {
	{ "-o", "--output", "NEW", "the new log, a directory that does not exist yet", COMPLETE_DIRECTORY,
	  NULL, OPTION_TEXT(struct request, names.to) },
	{ "--last", NULL, "TIME",
	  "what happened in the last 30s, 10m ... (default: all that is there), and up to a sixteenth of the "
	  "recorder's bounds before that",
	  COMPLETE_NOTHING, NULL, OPTION_TIME(struct request, names.last_ns) },
	OPTIONS_IN(struct request, redact, redact_options),
	{ "--json", NULL, NULL, "print one JSON object", 0, NULL, OPTION_FLAG(struct request, json) },
	{ "--force", NULL, NULL, "replace NEW where it is a log already", 0, NULL,
	  OPTION_FLAG(struct request, force) },
	{ "-q", "--quiet", NULL, "print nothing but errors", 0, NULL, OPTION_FLAG(struct request, quiet) },
	{ 0 },
};

static struct wc_error *take_word(void *request, const char *word)
{
	struct request *q = request;

	if (!q->names.from)
		q->names.from = word;
	else if (!q->names.to)
		q->names.to = word;
	else
		return wc_error_new(WC_EUSAGE, "snapshot takes a log and a new one; \"%s\" is one too many",
				    word);
	return NULL;
}

static struct wc_error *cmd_snapshot_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err = option_parse(argc, argv, options, q, take_word);

	if (err)
		return err;
	if (!q->names.from || !q->names.to || !*q->names.to)
		return wc_error_new(
			WC_EUSAGE,
			"snapshot needs a log and the name of a new one: watchctl snapshot LOG -o NEW");
	return NULL;
}

static void warn(const struct request *q, const struct snapshot_content *s)
{
	if (s->saved.lacks_flow)
		fprintf(stderr,
			"watchctl: the system's events of %s are not in it: a snapshot without values cannot "
			"have them\n",
			q->names.from);
	if (!s->saved.flushed)
		fprintf(stderr,
			"watchctl: the recorder of %s did not answer within 2 s: what happened last may be "
			"missing\n",
			q->names.from);
}

/* What was saved is there, and not whole. */
static struct wc_error *judge(const struct request *q, const struct snapshot_content *s)
{
	const bool anew = log_damage_is(&s->saved.damage);
	struct wc_error *err = NULL, *later;

	fflush(stdout);
	if (s->saved.ignored)
		err = wc_error_new(WC_ELOG,
				   "the log %s is not whole: its last %" PRIu64
				   " bytes are no whole packet, and were not saved",
				   q->names.from, s->saved.ignored);
	later = end_of_log(anew ? q->names.from : q->names.to, anew ? &s->saved.damage : &s->damage);
	if (err && later)
		fprintf(stderr, "watchctl: %s\n", later->text);
	return wc_error_first(err, later);
}

static struct wc_error *save(const struct request *q, struct snapshot_info *ret)
{
	struct redact_rules rules = redact_ask_rules(&q->redact);
	const char *unused = NULL;
	struct wc_error *err;

	if (!redact_is_asked(&rules))
		return snapshot_save(q->names.from, q->names.to, q->names.last_ns, ret);
	err = snapshot_save_redacted(q->names.from, q->names.to, q->names.last_ns, &rules, ret, &unused);
	if (!err)
		redact_ask_warn(unused);
	return err;
}

static struct wc_error *cmd_snapshot_run(int argc, char **argv)
{
	struct snapshot_content s = { 0 };
	struct tracelog_old *old = NULL;
	struct request q = { 0 };
	struct wc_error *err;

	err = cmd_snapshot_parse(argc, argv, &q);
	if (!err)
		err = tracelog_set_aside(q.names.to, q.force, &old);
	if (!err)
		err = save(&q, &s.saved);
	if (err)
		tracelog_put_back(old);
	else
		tracelog_drop_old(old);
	/* While it is recorded, a quiet snapshot must be fast; else whether it is whole matters more. */
	if (!err && (!q.quiet || !s.saved.recording))
		err = snapshot_count(q.names.to, &s);
	if (err)
		return err;
	warn(&q, &s);
	if (q.json && !q.quiet)
		err = snapshot_print_json(&s, &q.names, stdout);
	else if (!q.quiet)
		snapshot_print_text(&s, &q.names, stdout);
	return err ? err : judge(&q, &s);
}

const struct command cmd_snapshot = {
	.name = "snapshot",
	.args = "[options] LOG -o NEW\n[options] LOG NEW",
	.summary = "save what a running recorder has, or its last seconds, as a log of its own",
	.help = "The recording goes on undisturbed. What happened before the snapshot was asked for is in "
		"it.\n"
		"A log that is no longer being recorded can be saved in the same way.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_snapshot_run,
};
