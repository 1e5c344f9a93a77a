/*
 * A part is a file by itself: names of processes and threads are re-emitted in each one, and calls that are
 * open at its end are ended there and begun again in the next.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/view/export/export_chrome_impl.h"

#define PART_END_BYTES (128u << 10) /* what ends a part, and an event or two */
#define CALL_END_BYTES 320u	    /* what ends a call */

/* Of a thread, or with tid 0 of a process. */
struct reported {
	uint64_t part; /* in which its name was reported last */
	char name[64];
};

static void export_chrome_file_put(struct chrome_writer *c, const char *bytes, size_t n)
{
	fwrite(bytes, 1, n, export_out_file(c->w.out));
	c->written += n;
}

void chrome_put_text(struct chrome_writer *c, const char *s)
{
	export_chrome_file_put(c, s, strlen(s));
}

/* Events */

/* What begins an event: names have no time. */
static void put_head(struct chrome_writer *c, const char *ph, int32_t pid, int32_t tid, uint64_t ns)
{
	char head[160];
	int n = snprintf(head, sizeof(head), "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,", c->comma ? "," : "",
			 ph, pid, tid);

	if (*ph != 'M')
		n += snprintf(head + n, sizeof(head) - (size_t)n, "\"ts\":%" PRIu64 ".%03u,", ns / 1000,
			      (unsigned int)(ns % 1000));
	export_chrome_file_put(c, head, (size_t)n);
}

void chrome_put_event(struct chrome_writer *c, const char *ph, int32_t pid, int32_t tid, uint64_t ns)
{
	if (c->json.line.failed) {
		export_fail(&c->w, &wc_enomem);
	} else {
		put_head(c, ph, pid, tid, ns);
		/* Behind its own bracket. */
		export_chrome_file_put(c, c->json.line.bytes + 1, c->json.line.len - 1);
		c->comma = true;
	}
	json_empty(&c->json);
	if (ns > c->last_ns)
		c->last_ns = ns;
}

struct json *chrome_begin(struct chrome_writer *c, const char *name, const char *category)
{
	json_open(&c->json, NULL, '{');
	json_text(&c->json, "name", name);
	if (category)
		json_text(&c->json, "cat", category);
	return &c->json;
}

static void put_name(struct chrome_writer *c, const char *what, int32_t pid, int32_t tid, const char *name)
{
	struct json *j = chrome_begin(c, what, NULL);

	json_open(j, "args", '{');
	json_text(j, "name", name);
	json_close(j, '}');
	json_close(j, '}');
	chrome_put_event(c, "M", pid, tid, 0);
}

/* What each part begins with. */
static void begin_part(struct chrome_writer *c)
{
	c->part++;
	c->written = 0;
	c->comma = false;
	chrome_put_text(c, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
}

static void end_part(struct chrome_writer *c)
{
	struct json *j = &c->json;

	chrome_put_text(c, "\n],\"otherData\":");
	json_open(j, NULL, '{');
	json_text(j, "exporter", "watchctl " WATCHCTL_VERSION);
	json_text(j, "log", c->w.log);
	json_text(j, "clock", "CLOCK_MONOTONIC");
	if (c->real_offset)
		json_signed(j, "clock_to_epoch_ns", (int64_t)c->real_offset);
	json_number(j, "part", c->part);
	json_close(j, '}');
	if (j->line.failed)
		export_fail(&c->w, &wc_enomem);
	else
		export_chrome_file_put(c, j->line.bytes, j->line.len);
	json_empty(j);
	chrome_put_text(c, "}\n");
}

/* Parts */

static void put_begin(struct chrome_writer *c, const struct export_thread *th,
		      const struct export_open_call *o, uint64_t ns)
{
	struct json *j = chrome_begin(c, o->function->text, "call");

	json_open(j, "args", '{');
	json_number(j, "call", o->call);
	json_bool(j, "continued", true);
	json_close(j, '}');
	json_close(j, '}');
	chrome_put_event(c, "B", th->pid, th->tid, ns);
}

/* The format does not ask for the name of what ends; some readers find it by that. */
static void put_end(struct chrome_writer *c, const struct export_thread *th, const struct export_open_call *o,
		    const char *why, uint64_t ns)
{
	struct json *j = chrome_begin(c, o->function->text, "call");

	json_open(j, "args", '{');
	if (why)
		json_text(j, "ended", why);
	json_close(j, '}');
	json_close(j, '}');
	chrome_put_event(c, "E", th->pid, th->tid, ns);
}

static void end_open_calls(struct chrome_writer *c, const char *why)
{
	size_t i, n;

	for (i = 0; i < c->threads.n; i++) {
		struct export_thread *th = c->threads.v[i];

		for (n = th->nopen; n; n--)
			put_end(c, th, &th->open[n - 1], why, export_thread_time(th, c->last_ns));
	}
}

static void report_names(struct chrome_writer *c, int32_t pid, int32_t tid, const char *comm);

static void begin_open_calls(struct chrome_writer *c)
{
	size_t i, n;

	for (i = 0; i < c->threads.n; i++) {
		struct export_thread *th = c->threads.v[i];

		if (th->nopen)
			report_names(c, th->pid, th->tid, NULL);
		for (n = 0; n < th->nopen; n++)
			put_begin(c, th, &th->open[n], th->last_ns);
	}
}

/* Where the viewers would not take more. */
static void turn_part(struct chrome_writer *c)
{
	uint64_t max = c->w.opt->part_bytes, calls = c->threads.nopen * (uint64_t)CALL_END_BYTES;
	struct wc_error *err;

	/* Calls open to such a depth that they fill a file by themselves cannot be taken over. */
	if (!max || c->written + calls + PART_END_BYTES < max || calls > max / 4)
		return;
	if (!export_out_splits(c->w.out)) {
		c->large_reported = true;
		return;
	}
	end_open_calls(c, "the file ends");
	end_part(c);
	err = export_out_next(c->w.out);
	if (err) {
		export_fail(&c->w, err);
		return;
	}
	begin_part(c);
	begin_open_calls(c);
}

/* Who */

static struct reported *reported_of(struct chrome_writer *c, int32_t pid, int32_t tid)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	struct reported *t = map64_get(&c->reported, key);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t || !map64_put(&c->reported, key, t)) {
		free(t);
		export_fail(&c->w, &wc_enomem);
		return NULL;
	}
	return t;
}

/* Names, once in each part; and the new one where it has changed. NULL: as before. */
static void report_name(struct chrome_writer *c, const char *what, int32_t pid, int32_t tid, const char *name)
{
	struct reported *t = reported_of(c, pid, tid);

	if (!t || (t->part == c->part && (!name || !strncmp(name, t->name, sizeof(t->name) - 1))))
		return;
	t->part = c->part;
	if (name)
		snprintf(t->name, sizeof(t->name), "%s", name);
	if (*t->name)
		put_name(c, what, pid, tid ? tid : pid, t->name);
}

static void report_names(struct chrome_writer *c, int32_t pid, int32_t tid, const char *comm)
{
	report_name(c, "process_name", pid, 0, NULL);
	if (tid)
		report_name(c, "thread_name", pid, tid, comm);
}

/* Before each event of a thread. */
void chrome_in_thread(struct chrome_writer *c, int32_t pid, int32_t tid, const char *comm)
{
	if (!c->part)
		begin_part(c);
	turn_part(c);
	report_names(c, pid, tid, comm);
}

void chrome_report_process(struct chrome_writer *c, int32_t pid, const char *name)
{
	report_name(c, "process_name", pid, 0, name);
}

void chrome_end_call(struct chrome_writer *c, struct export_thread *th, const char *why, uint64_t ns)
{
	put_end(c, th, &th->open[th->nopen - 1], why, export_thread_time(th, ns));
	export_calls_pop(&c->threads, th);
}

void chrome_finish(struct chrome_writer *c)
{
	if (!c->part)
		begin_part(c);
	end_open_calls(c, "the log ends");
	end_part(c);
}
