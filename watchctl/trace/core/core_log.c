#include "watchctl/trace/calls/call_signature.h"
#include "watchctl/trace/core/core_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/core/core_rings.h"
#include "watchctl/trace/core/core_thread.h"
#include "watchctl/trace/calls/call_metadata.h"
#include "watchctl/trace/log/tracelog_member.h"
#include "watchctl/trace/log/tracelog_writer.h"

#define NAME_MAX_BYTES (1u << 16)
#define ERROR_NS 1000000u

struct core_log {
	struct core_file *core;
	const char *path;
	struct core_rings rings;
	struct event_sink sink;
	struct output_place place; /* of the log that is written */
	bool has_log;		   /* the one that the program wrote is there */
	size_t nunnamed;	   /* functions that were called, and that no file has named */
	struct core_thread_sums sums;
	struct signature_types types;
	char signature[NAME_MAX_BYTES];
	char name[NAME_MAX_BYTES], format[NAME_MAX_BYTES], file[PATH_MAX];
};

static struct wc_error *put(struct core_log *l, struct trace_event *e)
{
	e->time_ns = l->rings.begin_ns;
	return l->sink.put(l->sink.ctx, e);
}

__attribute__((format(printf, 2, 3))) static struct wc_error *put_note(struct core_log *l, const char *fmt,
								       ...)
{
	struct trace_event e = { .type = EVENT_NOTE };
	scoped(freep) char *text = NULL;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (len < 0) {
		text = NULL;
		return &wc_enomem;
	}
	e.note.text = text;
	return put(l, &e);
}

/* The process */

static struct wc_error *put_process(struct core_log *l)
{
	const struct core_process *p = core_file_process(l->core);
	struct trace_event e = { .type = EVENT_PROCESS };

	e.process = (struct process_event){ .pid = l->rings.place.pid,
					    .comm = p->comm,
					    .exe = p->exe,
					    .cmdline = p->args,
					    .realtime_ns = l->rings.memory.realtime_ns,
					    .host = "" };
	return put(l, &e);
}

static struct wc_error *put_threads(struct core_log *l)
{
	struct trace_event e = { .type = EVENT_THREAD };
	struct wc_error *err = NULL;

	for (size_t i = 0; i < l->rings.nthreads && !err; i++) {
		const struct thread *t = &l->rings.thread[i];

		if (!t->chunk)
			continue;
		e.thread = (struct thread_event){ .pid = l->rings.place.pid, .tid = t->tid, .comm = t->comm };
		err = put(l, &e);
	}
	return err;
}

static struct wc_error *put_death(struct core_log *l)
{
	const struct core_process *p = core_file_process(l->core);
	const char *name = sigabbrev_np(p->signal);

	/* A debugger has stopped it by one of these, or by none. */
	if (p->signal <= 0 || p->signal == SIGSTOP || p->signal == SIGTRAP)
		return put_note(l, "read from the core %s: the program was alive when it was made", l->path);
	if (!name)
		return put_note(l, "read from the core %s: the program died of signal %d, in thread %d",
				l->path, p->signal, p->tid);
	return put_note(l, "read from the core %s: the program died of SIG%s, in thread %d", l->path, name,
			p->tid);
}

static struct wc_error *put_extent(struct core_log *l)
{
	const uint32_t slots = CALLTRACE_CHUNK / sizeof(struct calltrace_slot);
	const char *log = l->has_log ? l->rings.place.path : NULL;

	if (l->rings.memory.ring_chunks)
		return put_note(
			l, "a flight recorder: of each thread, its last %llu entries and exits are kept%s%s",
			(unsigned long long)(l->rings.memory.ring_chunks - 1ull) * slots,
			log ? "; what was flushed, and threads that had ended, are in the log " : "",
			log ? log : "");
	return put_note(
		l,
		"these are the last calls of each thread, which were not written yet: those before are in the "
		"log %s%s",
		l->rings.place.path, log ? "" : ", which is not there");
}

/* Notes of what the reading has met. */
static struct wc_error *put_losses(struct core_log *l)
{
	const struct core_thread_sums *s = &l->sums;
	const uint64_t error_ns = core_rings_error(&l->rings, s->last_tsc);
	struct wc_error *err = NULL;

	if (s->given)
		err = put_note(
			l,
			"calls that were open already when the oldest of these events happened are shown as if they had "
			"been entered then: %llu",
			(unsigned long long)s->given);
	if (!err && core_file_is_cut(l->core))
		err = put_note(l, "the core is cut short: its end is missing");
	if (!err && l->rings.is_list_cut)
		err = put_note(l, "threads are missing: their list is not whole in the core");
	if (!err && s->unreadable)
		err = put_note(l, "of %llu threads events are missing: they are not in the core, or damaged",
			       (unsigned long long)s->unreadable);
	if (!err && s->in_turn)
		err = put_note(
			l,
			"%llu threads were writing their events: some of these may be missing, or there twice",
			(unsigned long long)s->in_turn);
	if (!err && !l->rings.cycles)
		err = put_note(l, "times are a guess: the rate of the clock is not in the core");
	else if (!err && error_ns > ERROR_NS)
		err = put_note(l, "times are right to %llu ms, as far as the rate of the clock is known",
			       (unsigned long long)error_ns / 1000000 + 1);
	return err;
}

/* Functions */

static uint64_t behind(uint64_t field, int32_t offset)
{
	return field + (uint64_t)(int64_t)offset;
}

/* False: it has no name that can be read. */
static bool read_function(struct core_log *l, const struct core_table *t, uint32_t index,
			  const struct core_module *m, struct function_event *ret)
{
	const struct calltrace_function *f = t->record ? &t->record[index] : NULL;
	const uint64_t at = t->address + index * sizeof(*f);

	*ret = (struct function_event){ .id = t->base + index,
					.flags = FUNCTION_NO_TYPES,
					.return_type = NO_TYPE };
	if (m) {
		ret->module = m->path;
		ret->build_id = m->build_id;
		ret->build_id_len = m->build_id_len;
	}
	if (!f || !f->name ||
	    !core_file_read_string(l->core, behind(at + offsetof(struct calltrace_function, name), f->name),
				   l->name, sizeof(l->name)))
		return false;
	ret->name = l->name;
	ret->line = f->line;
	if (f->address && m)
		ret->address =
			behind(at + offsetof(struct calltrace_function, address), f->address) - m->bias;
	if (f->file &&
	    core_file_read_string(l->core, behind(at + offsetof(struct calltrace_function, file), f->file),
				  l->file, sizeof(l->file)))
		ret->file = l->file;
	return true;
}

static struct wc_error *put_module_note(struct core_log *l, const struct core_module *m, size_t unnamed)
{
	const char *from = l->has_log ? "its functions are named as the log of the program has them"
				      : "its functions are unknown";

	switch (m ? m->state : CORE_MODULE_MISSING) {
	case CORE_MODULE_OTHER:
		return unnamed ? put_note(l, "%s is another file than the program had: %s", m->path, from)
			       : NULL;
	case CORE_MODULE_UNCHECKED:
		return put_note(
			l,
			"%s may be another file than the program had: the core has nothing to compare it with",
			m->path);
	case CORE_MODULE_SAME:
	case CORE_MODULE_MISSING:
		break;
	}
	return unnamed ? put_note(l, "the functions of %s cannot be read from its file: %s",
				  m ? m->path : "a module", from)
		       : NULL;
}

/* Puts a function, behind its types. */
static struct wc_error *put_function(struct core_log *l, const struct core_table *t, uint32_t index,
				     struct trace_event *e)
{
	const struct calltrace_function *f = &t->record[index];
	const uint64_t at = t->address + index * sizeof(*f) + offsetof(struct calltrace_function, signature);
	struct call_signature s = { .return_type = NO_TYPE };
	struct wc_error *err = NULL;

	if (f->signature &&
	    core_file_read_string(l->core, behind(at, f->signature), l->signature, sizeof(l->signature))) {
		err = call_signature_read(&l->types, l->signature, l->rings.begin_ns, l->sink, &s);
		e->function.flags = 0;
		e->function.return_type = s.return_type;
		e->function.nparams = s.nparams;
		e->function.param = s.param;
	}
	if (!err)
		err = put(l, e);
	e->function.param = NULL; /* they are @s's */
	call_signature_deinit(&s);
	return err;
}

/* Puts the functions of a module that were called, and takes the marks from those that have names. */
static struct wc_error *put_table(struct core_log *l, struct core_table *t)
{
	const struct core_module *m = core_file_module(l->core, t->address);
	struct wc_error *err = NULL;
	size_t unnamed = 0;
	bool is_used = false;
	struct trace_event e = { .type = EVENT_FUNCTION };

	for (uint32_t i = 0; i < t->size / sizeof(struct calltrace_function) && !err; i++) {
		if (!t->is_used[i])
			continue;
		is_used = true;
		if (read_function(l, t, i, m, &e.function)) {
			t->is_used[i] = false;
			err = put_function(l, t, i, &e);
		} else {
			unnamed++;
		}
	}
	l->nunnamed += unnamed;
	return err || !is_used ? err : put_module_note(l, m, unnamed);
}

/* Takes the names of functions from the program's own log, in which they have the same numbers. */
static struct wc_error *put_from_log(struct core_log *l)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct core_table *t;
	struct trace_event e;
	struct wc_error *err;
	uint32_t index;

	err = tracelog_reader_open(l->rings.place.path, &r);
	while (!err && l->nunnamed) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		if (e.type != EVENT_FUNCTION || !(t = core_rings_table(&l->rings, e.function.id, &index)) ||
		    !t->is_used[index])
			continue;
		t->is_used[index] = false;
		l->nunnamed--;
		/* Its types are others in this log. */
		e.function.flags |= FUNCTION_NO_TYPES;
		e.function.return_type = NO_TYPE;
		e.function.nparams = 0;
		err = put(l, &e);
	}
	return err;
}

static struct wc_error *put_unnamed(struct core_log *l, const struct core_table *t)
{
	const struct core_module *m = core_file_module(l->core, t->address);
	struct trace_event e = { .type = EVENT_FUNCTION };
	struct wc_error *err = NULL;

	for (uint32_t i = 0; i < t->size / sizeof(struct calltrace_function) && !err; i++) {
		if (!t->is_used[i])
			continue;
		read_function(l, t, i, m, &e.function);
		snprintf(l->name, sizeof(l->name), "unknown function %u", t->base + i);
		e.function.name = l->name;
		err = put(l, &e);
	}
	return err;
}

static struct wc_error *put_functions(struct core_log *l)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < l->rings.ntables && !err; i++)
		err = put_table(l, &l->rings.table[i]);
	if (!err && l->nunnamed && l->has_log) {
		/* A log that is damaged names some of them, or none. */
		err = put_from_log(l);
		if (err && err->kind == WC_ELOG) {
			wc_error_free(err);
			err = NULL;
		}
	}
	for (size_t i = 0; i < l->rings.ntables && !err; i++)
		err = put_unnamed(l, &l->rings.table[i]);
	return err;
}

/* Types of the program's own events */

static struct wc_error *put_event_type(struct core_log *l, uint32_t type, const struct event_type_text *t)
{
	struct trace_event e = { .type = EVENT_PROBE_SITE };

	if (!core_file_read_string(l->core, (uintptr_t)t->name, l->name, sizeof(l->name)))
		snprintf(l->name, sizeof(l->name), "event %u", type);
	if (!core_file_read_string(l->core, (uintptr_t)t->format, l->format, sizeof(l->format)))
		l->format[0] = '\0';
	e.probe_site = (struct probe_site_event){ .id = type,
						  .pid = l->rings.place.pid,
						  .probe = l->name,
						  .pattern = *l->format ? l->format : PROBE_SOURCE_FORMAT,
						  .tactic = PROBE_TACTIC_SOURCE };
	return put(l, &e);
}

/* Where the core lacks them, events are shown with the numbers of their types. */
static struct wc_error *put_event_types(struct core_log *l)
{
	const struct calltrace_memory *m = &l->rings.memory;
	struct event_type_text type[CALLTRACE_EVENT_TYPES];
	struct wc_error *err = NULL;
	uint32_t n = 0;

	if (!core_file_read(l->core, m->nevent_types, &n, sizeof(n)) || n > CALLTRACE_EVENT_TYPES ||
	    !core_file_read(l->core, m->event_types, type, n * sizeof(*type)))
		return NULL;
	for (uint32_t i = 0; i < n && !err; i++)
		err = put_event_type(l, i, &type[i]);
	return err;
}

/* All */

/* Whether the log that the program wrote is where it was, and still that. */
static bool has_log(const struct output_place *p)
{
	scoped(closep) int dir = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scoped(freep) char *text = NULL;
	struct tracelog_identity id;
	struct wc_error *err;
	bool ret;

	if (dir < 0)
		return false;
	err = tracelog_metadata_read(dir, p->path, &id, &text);
	ret = !err && !memcmp(id.uuid, p->uuid, sizeof(id.uuid));
	wc_error_free(err);
	return ret;
}

static struct wc_error *open_place(struct core_log *l, const char *log)
{
	scoped(closep) int dir = open(log, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tracelog_identity id;
	struct wc_error *err;
	struct stat st;

	if (dir < 0 || fstat(dir, &st) < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot read the log %s", log);
	err = call_metadata_describe(dir, log, &id);
	if (err)
		return err;
	l->place.device = st.st_dev;
	l->place.inode = st.st_ino;
	l->place.pid = l->rings.place.pid;
	memcpy(l->place.uuid, id.uuid, sizeof(id.uuid));
	if (snprintf(l->place.path, sizeof(l->place.path), "%s", log) >= (int)sizeof(l->place.path))
		return wc_error_new(WC_ELOG, "the name of the log %s is too long", log);
	return NULL;
}

static struct wc_error *write_all_parts(struct core_log *l)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < l->rings.nthreads && !err; i++)
		err = core_thread_write(&l->rings, &l->rings.thread[i], &l->place, &l->sums);
	if (!err)
		err = put_process(l);
	if (!err)
		err = put_threads(l);
	if (!err)
		err = put_death(l);
	if (!err)
		err = put_extent(l);
	if (!err)
		err = put_losses(l);
	if (!err)
		err = put_event_types(l);
	return err ? err : put_functions(l);
}

static void core_log_free(struct core_log **p)
{
	struct core_log *l = *p;

	if (!l)
		return;
	core_rings_deinit(&l->rings);
	core_file_close(l->core);
	free(l);
}

struct wc_error *core_log_write(const char *core, const char *log)
{
	scoped(core_log_free) struct core_log *l = calloc(1, sizeof(*l));
	scoped(tracelog_writer_closep) struct tracelog_writer *w = NULL;
	struct wc_error *err;

	if (!l)
		return &wc_enomem;
	l->path = core;
	err = core_file_open(core, &l->core);
	if (!err)
		err = core_rings_read(l->core, core, &l->rings);
	if (!err)
		err = tracelog_writer_open(log, &w);
	if (err)
		return err;
	l->sink = tracelog_writer_sink(w);
	l->has_log = has_log(&l->rings.place);
	err = open_place(l, log);
	if (!err)
		err = write_all_parts(l);
	return err ? err : tracelog_writer_close(take_ptr(w));
}
