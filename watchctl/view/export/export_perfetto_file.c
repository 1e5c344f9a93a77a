/*
 * A trace is a sequence of packets, each a member `packet` of the message Trace: a file is what several traces of one
 * packet are, one after the other. Nothing waits to be written.
 *
 * The first packet has the clocks, and the names of categories and annotations; the name of an event comes with the
 * first event that has it. Later packets refer to names by number. Notes are all different: their names are not
 * remembered.
 */
#include "watchctl/view/export/export_perfetto_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "perfetto_trace.pb-c.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/export/export_text.h"

/* Numbers of the format: its clocks, the types of events, the flags of packets. */
enum { CLOCK_OF_DAY = 1, CLOCK_OF_EVENTS = 3 };
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { NAMES_CLEARED = 1, NAMES_NEEDED = 2 };

#define SEQUENCE 1 /* all packets are of the same writer */

static const char *const categories[] = {
	[PERFETTO_ACCESS] = "access", [PERFETTO_STACK] = "stack",   [PERFETTO_PROBE] = "probe",
	[PERFETTO_CALL] = "call",     [PERFETTO_SIGNAL] = "signal", [PERFETTO_STOOD] = "stood",
	[PERFETTO_RANGE] = "range",   [PERFETTO_LOST] = "lost",	    [PERFETTO_NOTE] = "note",
};

static const char *const args[] = {
	[PERFETTO_ARG_WATCH] = "watch",
	[PERFETTO_ARG_KIND] = "kind",
	[PERFETTO_ARG_ORIGIN] = "origin",
	[PERFETTO_ARG_OLD] = "old",
	[PERFETTO_ARG_NEW] = "new",
	[PERFETTO_ARG_OLD_RAW] = "old_raw",
	[PERFETTO_ARG_OLD_UNCERTAIN] = "old_uncertain",
	[PERFETTO_ARG_NEW_RAW] = "new_raw",
	[PERFETTO_ARG_AT] = "at",
	[PERFETTO_ARG_SOURCE] = "source",
	[PERFETTO_ARG_INSN] = "insn",
	[PERFETTO_ARG_DISPLACED] = "displaced",
	[PERFETTO_ARG_STACK] = "stack",
	[PERFETTO_ARG_TAG] = "tag",
	[PERFETTO_ARG_VALUE] = "value",
	[PERFETTO_ARG_PROBE] = "probe",
	[PERFETTO_ARG_TEXT] = "text",
	[PERFETTO_ARG_CALL] = "call",
	[PERFETTO_ARG_MODULE] = "module",
	[PERFETTO_ARG_PARAMETERS] = "parameters",
	[PERFETTO_ARG_RETURNED] = "returned",
	[PERFETTO_ARG_ENDED] = "ended",
	[PERFETTO_ARG_ERRNO] = "errno",
	[PERFETTO_ARG_CODE] = "code",
	[PERFETTO_ARG_OCCURRENCE] = "occurrence",
	[PERFETTO_ARG_COUNT] = "count",
	[PERFETTO_ARG_WHY] = "why",
};

static_assert(sizeof(categories) / sizeof(*categories) == PERFETTO_CATEGORIES, "each has a name");
static_assert(sizeof(args) / sizeof(*args) == PERFETTO_ARGS, "each has a name");

struct name {
	struct name *same_hash;
	uint64_t iid;
	char text[];
};

struct described {
	uint64_t uuid;
	char name[64]; /* "": not known */
};

struct perfetto_file {
	struct export_writer *w;
	bool begun;
	struct map64 names;  /* of events: hash -> struct name */
	struct map64 tracks; /* pid, tid -> struct described */
	uint64_t nnames, ntracks;
	/* Of the next event. */
	Perfetto__DebugAnnotation arg[PERFETTO_ARGS];
	size_t at[PERFETTO_ARGS]; /* where in @text the text of that one begins */
	size_t nargs;
	struct text_buf text; /* texts, each behind a NUL */
	struct text_buf name;
	uint8_t *packet;
	size_t cap;
};

/* Packets */

static void put_packet(struct perfetto_file *f, Perfetto__TracePacket *p)
{
	Perfetto__Trace trace = PERFETTO__TRACE__INIT;
	size_t n;

	p->has_trusted_packet_sequence_id = true;
	p->trusted_packet_sequence_id = SEQUENCE;
	p->has_sequence_flags = true;
	p->sequence_flags = f->begun ? NAMES_NEEDED : NAMES_CLEARED;
	f->begun = true;
	trace.n_packet = 1;
	trace.packet = &p;
	n = perfetto__trace__get_packed_size(&trace);
	if (!vec_reserve((void **)&f->packet, &f->cap, n, 1)) {
		export_fail(f->w, &wc_enomem);
		return;
	}
	perfetto__trace__pack(&trace, f->packet);
	fwrite(f->packet, 1, n, export_out_file(f->w->out));
}

static void fill_names(const char *const *text, size_t n, Perfetto__InternedName *name,
		       Perfetto__InternedName **at)
{
	size_t i;

	for (i = 0; i < n; i++) {
		perfetto__interned_name__init(&name[i]);
		name[i].has_iid = true;
		name[i].iid = i + 1;
		name[i].name = (char *)text[i];
		at[i] = &name[i];
	}
}

void perfetto_begin(struct perfetto_file *f, struct view_time time)
{
	Perfetto__InternedName category[PERFETTO_CATEGORIES], *categories_at[PERFETTO_CATEGORIES];
	Perfetto__InternedName arg[PERFETTO_ARGS], *args_at[PERFETTO_ARGS];
	Perfetto__Clock mono = PERFETTO__CLOCK__INIT, real = PERFETTO__CLOCK__INIT,
			*clocks[] = { &mono, &real };
	Perfetto__ClockSnapshot snapshot = PERFETTO__CLOCK_SNAPSHOT__INIT;
	Perfetto__InternedData names = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;

	if (f->begun)
		return;
	fill_names(categories, PERFETTO_CATEGORIES, category, categories_at);
	fill_names(args, PERFETTO_ARGS, arg, args_at);
	names.n_event_categories = PERFETTO_CATEGORIES;
	names.event_categories = categories_at;
	names.n_debug_annotation_names = PERFETTO_ARGS;
	names.debug_annotation_names = args_at;
	mono.has_clock_id = mono.has_timestamp = real.has_clock_id = real.has_timestamp = true;
	mono.clock_id = CLOCK_OF_EVENTS;
	mono.timestamp = time.mono_ns;
	real.clock_id = CLOCK_OF_DAY;
	real.timestamp = time.real_ns;
	snapshot.n_clocks = time.real_ns ? 2 : 1;
	snapshot.clocks = clocks;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = CLOCK_OF_EVENTS;
	p.clock_snapshot = &snapshot;
	p.interned_data = &names;
	put_packet(f, &p);
}

/* Tracks */

static void put_track(struct perfetto_file *f, Perfetto__TrackDescriptor *d, uint64_t uuid)
{
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;

	d->has_uuid = true;
	d->uuid = uuid;
	p.track_descriptor = d;
	if (f->name.failed)
		export_fail(f->w, &wc_enomem);
	else
		put_packet(f, &p);
}

static char *clean_name(struct perfetto_file *f, const char *name)
{
	text_buf_empty(&f->name);
	export_text_clean(&f->name, name);
	return (char *)text_buf_text(&f->name);
}

static void describe_track(struct perfetto_file *f, const struct described *t, int32_t pid, int32_t tid)
{
	Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ProcessDescriptor process = PERFETTO__PROCESS_DESCRIPTOR__INIT;
	Perfetto__ThreadDescriptor thread = PERFETTO__THREAD_DESCRIPTOR__INIT;
	char *name = clean_name(f, t->name);

	if (tid) {
		thread.has_pid = thread.has_tid = true;
		thread.pid = pid;
		thread.tid = tid;
		thread.thread_name = *name ? name : NULL;
		d.thread = &thread;
	} else if (pid) {
		process.has_pid = true;
		process.pid = pid;
		process.process_name = *name ? name : NULL;
		d.process = &process;
	} else {
		d.name = "log";
	}
	put_track(f, &d, t->uuid);
}

uint64_t perfetto_track(struct perfetto_file *f, int32_t pid, int32_t tid, const char *name)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	struct described *t = map64_get(&f->tracks, key);

	if (t && (!name || !strncmp(name, t->name, sizeof(t->name) - 1)))
		return t->uuid;
	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t || !map64_put(&f->tracks, key, t)) {
			free(t);
			export_fail(f->w, &wc_enomem);
			return 1;
		}
		t->uuid = ++f->ntracks;
	}
	if (name)
		snprintf(t->name, sizeof(t->name), "%s", name);
	describe_track(f, t, pid, tid);
	return t->uuid;
}

uint64_t perfetto_counter(struct perfetto_file *f, const char *name, uint64_t parent)
{
	Perfetto__TrackDescriptor d = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__CounterDescriptor counter = PERFETTO__COUNTER_DESCRIPTOR__INIT;

	d.name = clean_name(f, name);
	d.counter = &counter;
	d.has_parent_uuid = true;
	d.parent_uuid = parent;
	put_track(f, &d, ++f->ntracks);
	return f->ntracks;
}

/* Annotations */

static Perfetto__DebugAnnotation *add_arg(struct perfetto_file *f, enum perfetto_arg arg)
{
	Perfetto__DebugAnnotation *a = &f->arg[f->nargs];

	assert(f->nargs < PERFETTO_ARGS);
	f->at[f->nargs++] = SIZE_MAX;
	perfetto__debug_annotation__init(a);
	a->has_name_iid = true;
	a->name_iid = arg + 1u;
	return a;
}

struct text_buf *perfetto_arg_begin(struct perfetto_file *f, enum perfetto_arg arg)
{
	add_arg(f, arg);
	text_buf_char(&f->text, '\0');
	f->at[f->nargs - 1] = f->text.len;
	return &f->text;
}

void perfetto_arg_text(struct perfetto_file *f, enum perfetto_arg arg, const char *text)
{
	if (text && *text)
		export_text_clean(perfetto_arg_begin(f, arg), text);
}

void perfetto_arg_hex(struct perfetto_file *f, enum perfetto_arg arg, uint64_t v)
{
	struct text_buf *t = perfetto_arg_begin(f, arg);

	text_buf_add(t, "0x");
	text_buf_hex(t, v, 0);
}

void perfetto_arg_number(struct perfetto_file *f, enum perfetto_arg arg, uint64_t v)
{
	Perfetto__DebugAnnotation *a = add_arg(f, arg);

	a->has_uint_value = true;
	a->uint_value = v;
}

void perfetto_arg_signed(struct perfetto_file *f, enum perfetto_arg arg, int64_t v)
{
	Perfetto__DebugAnnotation *a = add_arg(f, arg);

	a->has_int_value = true;
	a->int_value = v;
}

void perfetto_arg_true(struct perfetto_file *f, enum perfetto_arg arg)
{
	Perfetto__DebugAnnotation *a = add_arg(f, arg);

	a->has_bool_value = true;
	a->bool_value = true;
}

static void drop_args(struct perfetto_file *f)
{
	f->nargs = 0;
	text_buf_empty(&f->text);
}

/* Events */

/* With the annotations; track, type, name and the rest are set in @e, whose pointers are used during the call only. */
static void put_event(struct perfetto_file *f, Perfetto__TrackEvent e, Perfetto__InternedData *names,
		      uint64_t ns)
{
	Perfetto__DebugAnnotation *arg[PERFETTO_ARGS];
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
	size_t i;

	for (i = 0; i < f->nargs; i++) {
		arg[i] = &f->arg[i];
		if (f->at[i] != SIZE_MAX && !f->text.failed)
			arg[i]->string_value = (char *)text_buf_text(&f->text) + f->at[i];
	}
	e.n_debug_annotations = f->nargs;
	e.debug_annotations = arg;
	p.has_timestamp = p.has_timestamp_clock_id = true;
	p.timestamp = ns;
	p.timestamp_clock_id = CLOCK_OF_EVENTS;
	p.track_event = &e;
	p.interned_data = names;
	if (f->text.failed)
		export_fail(f->w, &wc_enomem);
	else
		put_packet(f, &p);
	drop_args(f);
}

/* The number of a name, with *@is_new if it has none yet. NULL: no memory. */
static struct name *name_of(struct perfetto_file *f, const char *text, bool *is_new)
{
	uint64_t hash = hash_text(HASH_START, text);
	struct name *first = map64_get(&f->names, hash), *n;
	size_t len = strlen(text);

	*is_new = false;
	for (n = first; n; n = n->same_hash)
		if (!strcmp(n->text, text))
			return n;
	n = malloc(sizeof(*n) + len + 1);
	if (!n)
		return NULL;
	n->same_hash = first;
	n->iid = f->nnames + 1;
	memcpy(n->text, text, len + 1);
	if (!map64_put(&f->names, hash, n)) {
		free(n);
		return NULL;
	}
	f->nnames++;
	*is_new = true;
	return n;
}

static void put_named(struct perfetto_file *f, Perfetto__TrackEvent e, enum perfetto_category category,
		      uint64_t ns)
{
	Perfetto__InternedName text = PERFETTO__INTERNED_NAME__INIT, *texts[] = { &text };
	Perfetto__InternedData names = PERFETTO__INTERNED_DATA__INIT;
	uint64_t category_iid = category + 1u;
	bool is_new = false;

	if (category == PERFETTO_NOTE) {
		e.name = (char *)text_buf_text(&f->name);
	} else {
		const struct name *n = f->name.failed ? NULL : name_of(f, text_buf_text(&f->name), &is_new);

		if (!n) {
			export_fail(f->w, &wc_enomem);
			drop_args(f);
			return;
		}
		e.has_name_iid = text.has_iid = true;
		e.name_iid = text.iid = n->iid;
		text.name = (char *)n->text;
	}
	names.n_event_names = 1;
	names.event_names = texts;
	e.n_category_iids = 1;
	e.category_iids = &category_iid;
	put_event(f, e, is_new ? &names : NULL, ns);
}

static Perfetto__TrackEvent event_of(uint64_t track, uint32_t type)
{
	Perfetto__TrackEvent e = PERFETTO__TRACK_EVENT__INIT;

	e.has_track_uuid = e.has_type = true;
	e.track_uuid = track;
	e.type = type;
	return e;
}

void perfetto_put_instant(struct perfetto_file *f, uint64_t track, enum perfetto_category category,
			  const char *name, const char *more, uint64_t ns)
{
	Perfetto__TrackEvent e = event_of(track, TYPE_INSTANT);

	clean_name(f, name);
	if (more) {
		text_buf_char(&f->name, ' ');
		export_text_clean(&f->name, more);
	}
	put_named(f, e, category, ns);
}

void perfetto_put_begin(struct perfetto_file *f, uint64_t track, const char *name, uint64_t ns)
{
	Perfetto__TrackEvent e = event_of(track, TYPE_BEGIN);

	clean_name(f, name);
	put_named(f, e, PERFETTO_CALL, ns);
}

void perfetto_put_end(struct perfetto_file *f, uint64_t track, uint64_t ns)
{
	Perfetto__TrackEvent e = event_of(track, TYPE_END);

	put_event(f, e, NULL, ns);
}

void perfetto_put_value(struct perfetto_file *f, uint64_t track, const struct value_number *v, uint64_t ns)
{
	Perfetto__TrackEvent e = event_of(track, TYPE_COUNTER);

	e.has_double_counter_value =
		v->kind == NUMBER_FLOAT || (v->kind == NUMBER_UNSIGNED && v->u > INT64_MAX);
	e.has_counter_value = !e.has_double_counter_value;
	if (e.has_double_counter_value)
		e.double_counter_value = v->kind == NUMBER_FLOAT ? v->f : (double)v->u;
	else
		e.counter_value = v->kind == NUMBER_SIGNED ? v->i : (int64_t)v->u;
	put_event(f, e, NULL, ns);
}

/* The file */

struct perfetto_file *perfetto_file_new(struct export_writer *w)
{
	struct perfetto_file *f = calloc(1, sizeof(*f));

	if (f)
		f->w = w;
	return f;
}

static void free_names(void *value)
{
	struct name *n = value, *next;

	for (; n; n = next) {
		next = n->same_hash;
		free(n);
	}
}

void perfetto_file_free(struct perfetto_file *f)
{
	if (!f)
		return;
	map64_deinit_values(&f->names, free_names);
	map64_deinit_values(&f->tracks, free);
	text_buf_deinit(&f->text);
	text_buf_deinit(&f->name);
	free(f->packet);
	free(f);
}
