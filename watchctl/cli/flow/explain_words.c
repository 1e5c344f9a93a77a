#include "watchctl/cli/flow/explain_words.h"

#include <stdio.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/code/symbols/bare_name.h"
#include "watchctl/flow/explain/c_library.h"
#include "watchctl/flow/explain/look.h"
#include "watchctl/view/words/view_words.h"

const char *explain_verdict_name(enum verdict v)
{
	static const char *const name[] = {
		[VERDICT_DEADLOCK] = "deadlock", [VERDICT_NOBODY] = "nobody",
		[VERDICT_STOPPED] = "stopped",	 [VERDICT_LIKELY_DEADLOCK] = "likely_deadlock",
		[VERDICT_KERNEL] = "kernel",	 [VERDICT_BUSY] = "busy",
		[VERDICT_SLEEPS] = "sleeps",	 [VERDICT_OUTSIDE] = "outside",
		[VERDICT_WAITS] = "waits",	 [VERDICT_IDLE] = "idle",
		[VERDICT_GONE] = "gone",
	};

	return name[v];
}

const char *explain_kind_name(enum wait_kind kind)
{
	static const char *const name[] = {
		[WAIT_UNKNOWN] = "unknown",	[WAIT_RUNS] = "runs",	  [WAIT_LOCK] = "lock",
		[WAIT_CONDITION] = "condition", [WAIT_THREAD] = "thread", [WAIT_CHILD] = "child",
		[WAIT_PEER] = "peer",		[WAIT_EVENTS] = "events", [WAIT_FILE_LOCK] = "file_lock",
		[WAIT_TIME] = "time",		[WAIT_SIGNAL] = "signal", [WAIT_STOPPED] = "stopped",
		[WAIT_KERNEL] = "kernel",
	};

	return name[kind];
}

const char *explain_ender_name(enum wait_ender ender)
{
	static const char *const name[] = {
		[ENDER_UNKNOWN] = "unknown", [ENDER_THREADS] = "threads", [ENDER_SOME] = "some",
		[ENDER_NOBODY] = "nobody",   [ENDER_OUTSIDE] = "outside", [ENDER_TIME] = "time",
	};

	return name[ender];
}

void explain_who(const struct explained *x, char *buf, size_t cap)
{
	char process[64], thread[64];

	utf8_clean(x->process->comm, process, sizeof(process));
	utf8_clean(x->thread->comm, thread, sizeof(thread));
	if (x->process->nthreads == 1)
		snprintf(buf, cap, "%s (%d)", process, x->process->pid);
	else if (x->thread->tid == x->thread->pid)
		snprintf(buf, cap, "the first thread of %s (%d)", process, x->process->pid);
	else if (strcmp(process, thread) != 0)
		snprintf(buf, cap, "thread %d (%s) of %s (%d)", x->thread->tid, thread, process,
			 x->process->pid);
	else
		snprintf(buf, cap, "thread %d of %s (%d)", x->thread->tid, process, x->process->pid);
}

/* A second mention of a thread of the process that the sentence is about. */
static void who_inside(const struct explanation *e, const struct explained *x, char *buf, size_t cap)
{
	char name[64];

	if (x->process->pid != e->pid || x->process->nthreads == 1) {
		explain_who(x, buf, cap);
		return;
	}
	utf8_clean(x->thread->comm, name, sizeof(name));
	if (x->thread->tid == x->thread->pid)
		snprintf(buf, cap, "its first thread");
	else if (strcmp(x->thread->comm, x->process->comm) != 0)
		snprintf(buf, cap, "its thread %d (%s)", x->thread->tid, name);
	else
		snprintf(buf, cap, "its thread %d", x->thread->tid);
}

static bool is_vdso(const char *module)
{
	return module && !strcmp(module, "[vdso]");
}

/* Of the functions at one address the innermost, which may have been inlined into the others. */
static bool put_function(const struct look_frame *f, char *buf, size_t cap)
{
	const char *name = f->at->frame[0].function;
	char bare[300];

	if (!name)
		return false;
	utf8_clean(bare_name(name, bare, sizeof(bare)), buf, cap);
	return true;
}

bool explain_function(const struct look_thread *t, char *buf, size_t cap)
{
	for (unsigned int i = 0; i < t->nframes; i++) {
		const char *module = look_module(t, i);

		if (!c_library_has(module) && !is_vdso(module) && put_function(&t->frame[i], buf, cap))
			return true;
	}
	return t->nframes && put_function(&t->frame[0], buf, cap);
}

/* " in take_order", of a function of the program itself; "" where none is known. */
static void in_function(const struct look_thread *t, char *buf, size_t cap)
{
	char function[200];

	buf[0] = '\0';
	if (explain_function(t, function, sizeof(function)))
		snprintf(buf, cap, " in %s", function);
}

static void asleep(const struct look_thread *t, char *buf, size_t cap)
{
	char time[48];

	buf[0] = '\0';
	if (!t->asleep_ns)
		return;
	text_duration(t->asleep_ns, time, sizeof(time));
	snprintf(buf, cap, ", for %s now", time);
}

/* The verb and its object: "sleeps", "waits for the mutex m", "runs in parse". */
static void does(const struct explained *x, char *buf, size_t cap)
{
	const char *sleep = strstr(x->wait.what, "a sleep"); /* not of a timer's descriptor */
	char where[220], since[64];

	in_function(x->thread, where, sizeof(where));
	asleep(x->thread, since, sizeof(since));
	switch (x->wait.kind) {
	case WAIT_RUNS:
		snprintf(buf, cap, "runs%s", where);
		break;
	case WAIT_STOPPED:
		snprintf(buf, cap, "is stopped%s%s: %s", where, since, x->wait.evidence);
		break;
	case WAIT_TIME:
		snprintf(buf, cap, "sleeps%s%s: %s", where, since, sleep ? sleep : x->wait.what);
		break;
	default:
		snprintf(buf, cap, "waits%s for %s%s", where, x->wait.what, since);
		break;
	}
}

/* Of the last step to the culprit, what it has to do with the one before. */
static void matters(const struct explanation *e, const struct culprit *c, char *buf, size_t cap)
{
	const struct explained *x = &e->thread[c->path[c->npath - 2]];
	const struct explained_edge *edge = explanation_edge(e, c->path[c->npath - 2], c->who);
	const struct wait *before = &x->wait;
	char whom[WORDS_WHO + 64] = "it";

	if (c->npath > 2)
		who_inside(e, x, whom, sizeof(whom));

	switch (before->kind) {
	case WAIT_LOCK:
	case WAIT_FILE_LOCK:
		snprintf(buf, cap, "holds %s", before->what);
		break;
	case WAIT_THREAD:
	case WAIT_CHILD:
		snprintf(buf, cap, "has not ended");
		break;
	case WAIT_PEER:
		snprintf(buf, cap, "owes %s %s", whom, before->what);
		break;
	case WAIT_EVENTS:
		snprintf(buf, cap, "is at the other end of what %s polls (%s)", whom,
			 edge ? before->whom[edge->whom].why : before->what);
		break;
	case WAIT_STOPPED:
		snprintf(buf, cap, "traces %s", whom);
		break;
	default:
		snprintf(buf, cap, "could end the wait for %s", before->what);
		break;
	}
}

static void waiters_text(const struct explanation *e, const struct culprit *c, char *buf, size_t cap)
{
	char name[64];

	utf8_clean(e->nown ? e->thread[0].process->comm : "", name, sizeof(name));
	buf[0] = '\0';
	if (c->waiters > 1)
		snprintf(buf, cap, " (%u threads of %s wait for that)", c->waiters, name);
}

static void cycle_text(const struct explanation *e, const struct culprit *c, char *buf, size_t cap)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < c->ncycle && len < cap; i++) {
		const struct explained *x = &e->thread[c->cycle[i]],
				       *y = &e->thread[c->cycle[(i + 1) % c->ncycle]];
		char who[WORDS_WHO + 64], other[WORDS_WHO + 64], where[220];

		in_function(x->thread, where, sizeof(where));
		who_inside(e, x, who, sizeof(who));
		if (x == y)
			snprintf(other, sizeof(other), "itself");
		else
			who_inside(e, y, other, sizeof(other));
		len += (size_t)snprintf(buf + len, cap - len, "%s%s waits%s for %s, that is, for %s",
					i ? "; " : "", who, where, x->wait.what, other);
	}
}

static void put_deadlock(const struct explanation *e, const struct culprit *c, const char *process, char *buf,
			 size_t cap)
{
	const char *how = c->verdict == VERDICT_DEADLOCK && !c->guessed ? "" : "probably ";
	char circle[WORDS_TEXT];
	bool inside = e->thread[c->who].process->pid == e->pid;

	cycle_text(e, c, circle, sizeof(circle));
	if (c->ncycle == 1)
		snprintf(buf, cap, "%s %shangs: %s", process, how, circle);
	else
		snprintf(buf, cap, "%s %s%s a deadlock of %zu threads: %s", process, how,
			 inside ? "hangs in" : "waits for", c->ncycle, circle);
}

static void put_chain(const struct explanation *e, const struct culprit *c, const char *process, char *buf,
		      size_t cap)
{
	char who[WORDS_WHO + 64], why[WORDS_TEXT], what[WORDS_TEXT], waiters[128], first[WAIT_TEXT + 32] = "";
	const struct explained *x = &e->thread[c->who];

	who_inside(e, x, who, sizeof(who));
	does(x, why, sizeof(why));
	matters(e, c, what, sizeof(what));
	waiters_text(e, c, waiters, sizeof(waiters));
	if (c->npath > 2)
		snprintf(first, sizeof(first), " for %s, in the end", e->thread[c->path[0]].wait.what);
	snprintf(buf, cap, "%s %swaits%s because %s %s%s, and %s", process, c->guessed ? "probably " : "",
		 first, who, what, waiters, why);
}

static void put_alone(const struct explanation *e, const struct culprit *c, const char *process, char *buf,
		      size_t cap)
{
	const struct explained *x = &e->thread[c->who];
	char who[WORDS_WHO + 64], why[WORDS_TEXT];

	who_inside(e, x, who, sizeof(who));
	does(x, why, sizeof(why));
	if (x->process->nthreads == 1)
		snprintf(buf, cap, "%s %s", process, why);
	else
		snprintf(buf, cap, "%s: %s %s", process, who, why);
}

void explain_sentence(const struct explanation *e, char *buf, size_t cap)
{
	const struct culprit *c = e->culprit;
	const struct explained *x;
	char process[128], text[WORDS_SENTENCE], name[64];

	utf8_clean(e->nown ? e->thread[0].process->comm : "it", name, sizeof(name));
	snprintf(process, sizeof(process), "%s (%d)", name, e->pid);
	if (!e->nculprits) {
		snprintf(buf, cap, "%s has no thread that waits", process);
		return;
	}
	x = &e->thread[c->who];
	if (c->ncycle)
		put_deadlock(e, c, process, text, sizeof(text));
	else if (c->npath > 1)
		put_chain(e, c, process, text, sizeof(text));
	else
		put_alone(e, c, process, text, sizeof(text));
	if (c->verdict == VERDICT_IDLE && c->npath <= 1)
		snprintf(buf, cap, "%s waits for work, and for nobody who owes it anything: it waits for %s",
			 process, x->wait.what);
	else if (c->verdict == VERDICT_NOBODY)
		snprintf(buf, cap, "%s; nobody can end that: %s", text, x->wait.evidence);
	else if (c->verdict == VERDICT_WAITS && x->wait.evidence[0])
		snprintf(buf, cap, "%s; %s", text, x->wait.evidence);
	else
		snprintf(buf, cap, "%s", text);
}

void explain_why(const struct explanation *e, const struct culprit *c, char *buf, size_t cap)
{
	const struct explained *x = &e->thread[c->who];
	char what[WORDS_TEXT], how[WORDS_TEXT], waiters[128];

	if (c->ncycle) {
		cycle_text(e, c, how, sizeof(how));
		snprintf(buf, cap, "%s", how);
		return;
	}
	does(x, how, sizeof(how));
	waiters_text(e, c, waiters, sizeof(waiters));
	if (c->npath > 1)
		matters(e, c, what, sizeof(what));
	snprintf(buf, cap, "it %s%s%s%s", c->npath > 1 ? what : "", c->npath > 1 ? waiters : "",
		 c->npath > 1 ? ", and " : "", how);
}

void explain_evidence(const struct explanation *e, size_t from, size_t to, char *buf, size_t cap)
{
	const struct explained *x = &e->thread[from];
	const struct explained_edge *edge = explanation_edge(e, from, to);
	bool needed = edge && (x->wait.n > 1 || x->wait.whom[edge->whom].guessed || !x->wait.evidence[0]);
	const char *why = needed ? x->wait.whom[edge->whom].why : "";
	bool both = x->wait.evidence[0] && why[0];

	snprintf(buf, cap, "%s%s%s%s", x->wait.evidence, both ? "; " : "", why,
		 edge && x->wait.whom[edge->whom].guessed ? " (a guess)" : "");
}
