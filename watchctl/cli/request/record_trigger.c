#include "watchctl/cli/request/record_trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/view/trigger/trigger.h"
#include "watchctl/view/words/json.h"

#define PLACE_MAX 200

struct record_trigger {
	const struct record_trigger_options *options;
	struct event_sink next;
	struct annotate *annotate;
	struct trigger *trigger;

	/* Since the last time that something was done. */
	uint64_t due_ns; /* 0: nothing is to be done */
	uint64_t time_ns;
	uint64_t more; /* times that it held while something was being done already */
	int32_t tid;
	char comm[COMM_LEN];
	char place[PLACE_MAX];
	bool to_note;

	unsigned int snapshots;
	bool reported_enough, reported_word;
	pid_t child; /* saves a snapshot; 0: none */
	char path[4096];
};

static void describe(struct record_trigger *r, const struct view_access *a)
{
	const struct location *l = a->location;
	const char *function = l ? l->frame[l->nframes - 1].function : NULL;

	r->tid = a->raw->tid;
	snprintf(r->comm, sizeof(r->comm), "%s", a->comm ? a->comm : "");
	snprintf(r->place, sizeof(r->place), "%s", function ? function : "an unknown function");
}

static void on_fire(void *ctx, const struct view_access *a)
{
	struct record_trigger *r = ctx;

	if (r->due_ns || r->child ||
	    (r->options->action == TRIGGER_SNAPSHOT && r->snapshots == r->options->snapshots)) {
		r->more++;
		return;
	}
	describe(r, a);
	r->time_ns = a->time.mono_ns;
	r->due_ns = monotonic_ns() + r->options->after_ns;
	r->to_note = true;
}

static struct wc_error *note(struct record_trigger *r)
{
	struct trace_event e = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	scoped(freep) char *text = NULL;

	r->to_note = false;
	if (asprintf(&text, "trigger: %s: thread %d%s%s%s in %s", r->options->condition, r->tid,
		     *r->comm ? " (" : "", r->comm, *r->comm ? ")" : "", r->place) < 0) {
		text = NULL;
		return &wc_enomem;
	}
	e.note.text = text;
	return r->next.put(r->next.ctx, &e);
}

static struct wc_error *record_trigger_put(void *ctx, const struct trace_event *e)
{
	struct record_trigger *r = ctx;
	struct wc_error *err = r->next.put(r->next.ctx, e);
	struct event_sink look = annotate_sink(r->annotate);

	if (!err)
		err = look.put(look.ctx, e);
	if (!err && r->to_note)
		err = note(r);
	return err;
}

/* What is done, as it is done; @failed: why not, NULL: it was. */
static void record_trigger_report(const struct record_trigger *r, const char *what, const char *path,
				  const char *failed)
{
	struct json j = { 0 };

	if (failed)
		output_say(NULL, "the snapshot %s was not saved: %s", path, failed);
	if (!r->options->json) {
		if (failed)
			return;
		if (path)
			fprintf(r->options->out, "trigger: %s %s\n", what, path);
		else
			fprintf(r->options->out, "trigger: %s\n", what);
		fflush(r->options->out);
		return;
	}
	json_open(&j, NULL, '{');
	json_text(&j, "type", "trigger");
	json_text(&j, "action", r->options->action == TRIGGER_STOP ? "stop" : "snapshot");
	json_text(&j, "condition", r->options->condition);
	json_number(&j, "time_ns", r->time_ns);
	json_signed(&j, "tid", r->tid);
	if (*r->comm)
		json_text(&j, "comm", r->comm);
	if (path)
		json_text(&j, "log", path);
	json_bool(&j, "done", !failed);
	if (failed)
		json_text(&j, "why", failed);
	if (r->more)
		json_number(&j, "more", r->more);
	json_close(&j, '}');
	json_end_line(&j, r->options->out);
	json_deinit(&j);
	fflush(r->options->out);
}

/* `watchctl snapshot`, as a program of its own: it has nothing of ours, no event of perf and no lock. */
static int spawn_snapshot(struct record_trigger *r)
{
	char last[32];
	char *argv[] = { (char *)"watchctl",
			 (char *)"snapshot",
			 (char *)r->options->log,
			 (char *)"-o",
			 r->path,
			 (char *)"--quiet",
			 r->options->last_ns ? (char *)"--last" : NULL,
			 last,
			 NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int err;

	snprintf(last, sizeof(last), "%" PRIu64 "ms", r->options->last_ns / 1000000 + 1);
	sigemptyset(&none);
	err = posix_spawn_file_actions_init(&actions);
	if (err)
		return err;
	err = posix_spawnattr_init(&attr);
	if (!err) {
		/* Ctrl-C ends the recording, and not what it saves. */
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
		posix_spawnattr_setpgroup(&attr, 0);
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
		err = posix_spawn(&r->child, "/proc/self/exe", &actions, &attr, argv, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

static void save(struct record_trigger *r)
{
	int err;

	r->snapshots++;
	snprintf(r->path, sizeof(r->path), "%s.trigger-%u", r->options->log, r->snapshots);
	err = spawn_snapshot(r);
	if (!err)
		return;
	r->child = 0;
	record_trigger_report(r, NULL, r->path, strerror(err));
}

static void after_snapshot(struct record_trigger *r, int status)
{
	char why[64];

	r->child = 0;
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		record_trigger_report(r, "saved", r->path, NULL);
	} else {
		snprintf(why, sizeof(why),
			 WIFEXITED(status) ? "watchctl snapshot ended with status %d"
					   : "watchctl snapshot was killed by signal %d",
			 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
		record_trigger_report(r, NULL, r->path, why);
	}
	if (r->snapshots == r->options->snapshots && !r->reported_enough) {
		r->reported_enough = true;
		output_say(NULL, "that was the last of %u snapshots; the recording goes on", r->snapshots);
	}
	r->more = 0;
}

static void reap(struct record_trigger *r, int flags)
{
	int status;
	pid_t pid;

	do
		pid = r->child ? waitpid(r->child, &status, flags) : 0;
	while (pid < 0 && errno == EINTR);
	if (pid > 0)
		after_snapshot(r, status);
}

struct wc_error *record_trigger_tick(struct record_trigger *r)
{
	const char *word = trigger_unknown_word(r->trigger);

	reap(r, WNOHANG);
	if (word && !r->reported_word) {
		r->reported_word = true;
		output_say(
			NULL,
			"the trigger compares a watch with \"%s\", which its type has no enumerator of: that "
			"is never true",
			word);
	}
	if (!r->due_ns || monotonic_ns() < r->due_ns)
		return NULL;
	r->due_ns = 0;
	if (r->options->action == TRIGGER_STOP) {
		record_trigger_report(r, "the recording ends", NULL, NULL);
		*r->options->stop = SIGUSR1;
	} else {
		save(r);
	}
	return NULL;
}

struct event_sink record_trigger_sink(struct record_trigger *r)
{
	return (struct event_sink){ record_trigger_put, r };
}

static void release(struct record_trigger *r)
{
	annotate_free(r->annotate);
	trigger_free(r->trigger);
	free(r);
}

struct wc_error *record_trigger_open(const struct record_trigger_options *o, struct event_sink next,
				     struct record_trigger **ret)
{
	struct record_trigger *r = calloc(1, sizeof(*r));
	struct wc_error *err;

	if (!r)
		return &wc_enomem;
	r->options = o;
	r->next = next;
	err = trigger_compile(o->condition, o->watches, o->nwatches, &r->trigger);
	if (!err) {
		r->annotate = annotate_new(NULL, (trigger_needs_stack(r->trigger) ? ANNOTATE_STACK : 0) |
							 ANNOTATE_NO_VALUES);
		if (!r->annotate)
			err = &wc_enomem;
	}
	if (err) {
		release(r);
		return err;
	}
	annotate_add_view(r->annotate, trigger_view(r->trigger, on_fire, r));
	*ret = r;
	return NULL;
}

void record_trigger_close(struct record_trigger *r)
{
	if (!r)
		return;
	/* What happened in its last moments is saved too. */
	if (r->due_ns && r->options->action == TRIGGER_SNAPSHOT) {
		r->due_ns = 0;
		save(r);
	}
	reap(r, 0);
	release(r);
}
