/*
 * Which addresses need names, and which byte of them is looked up, is decided in one place only: annotate and
 * frames. So the log is read through them twice. The first time the symbolizer only notes what it is asked;
 * then everything is resolved at once. The second time all names are known, and what names a frame is kept.
 *
 * What an earlier run stored is reported after that: of two answers the better one stays.
 */
#include "watchctl/view/rewrite/symbolize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/symbol_search.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_symbols.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/log_symbols.h"

/* How long after the last event a perf map may have been written, and still be the process's. */
#define MAP_SLACK_NS 2000000000u

struct symbolize {
	const char *path;
	const struct symbolize_options *opt;
	struct symbolizer *symbolizer;
	struct event_sink annotate; /* of the pass */
	bool second;
	int32_t pid; /* of the first process reported, in this pass */
	bool from_here;
	bool has_clock;
	uint64_t realtime_offset;
	uint64_t first_ns, last_ns;
	bool has_first;

	struct map64 seen;	   /* location -> itself */
	struct map64 outside_seen; /* address -> itself */
	struct symbolize_address *address;
	size_t naddresses, address_cap;
	struct symbolize_module *module;
	size_t nmodules, module_cap;
	char **doubtful; /* modules that the file at their path need not be */
	size_t ndoubtful, doubtful_cap;
	struct symbolize_totals totals;
	struct log_damage damage;
	const char *why_names; /* of an earlier run, some cannot be read; NULL */
	const char *why;
	bool no_memory;
};

/* Events to the symbolizer, as annotate does it */

/*
 * Without a build id nothing shows whether a file is the one that ran. It is taken if it lies on the machine
 * of the recording and has not changed since, or where the user says so.
 */
static bool is_doubtful(const struct symbolize *s, const struct trace_event *e)
{
	uint64_t then = e->time_ns + s->realtime_offset;
	scoped(freep) char *elsewhere = symbol_search_module_path(s->opt->search, e->module.path);
	struct stat st;

	if (e->module.build_id_len || e->module.path[0] != '/' || elsewhere)
		return false;
	if (!s->from_here || !s->has_clock || stat(e->module.path, &st) < 0)
		return true;
	return (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec > then;
}

static bool is_reported_doubtful(const struct symbolize *s, const char *path)
{
	for (size_t i = 0; i < s->ndoubtful; i++)
		if (!strcmp(s->doubtful[i], path))
			return true;
	return false;
}

static struct wc_error *on_module(struct symbolize *s, const struct trace_event *e)
{
	struct module m = e->module;
	char *path;

	if (s->opt->live && !symbolizer_is_lost(s->opt->live, &m)) {
		symbolizer_remove(s->symbolizer, m.start, m.end);
		return NULL;
	}
	if (is_doubtful(s, e)) {
		m.deleted = true; /* not what is there now */
		path = is_reported_doubtful(s, m.path) ? NULL : strdup(m.path);
		if (path && !vec_push(s->doubtful, s->ndoubtful, s->doubtful_cap, path))
			free(path);
	}
	return symbolizer_add(s->symbolizer, &m) ? NULL : &wc_enomem;
}

static struct wc_error *on_process(struct symbolize *s, const struct trace_event *e)
{
	const struct process_event *p = &e->process;

	if (p->pid == s->pid)
		symbolizer_remove(s->symbolizer, 0, UINT64_MAX);
	if (!s->pid)
		s->pid = p->pid;
	s->from_here = log_is_from_here(p);
	s->has_clock = p->realtime_ns != 0;
	s->realtime_offset = p->realtime_ns - e->time_ns;
	/* In the first pass it is not known yet when the recording ended. */
	if (!s->second || !s->has_clock)
		return NULL;
	return log_symbols_process(s->symbolizer, p, s->last_ns + s->realtime_offset + MAP_SLACK_NS)
		       ? NULL
		       : &wc_enomem;
}

static struct wc_error *symbolize_put(void *ctx, const struct trace_event *e)
{
	struct symbolize *s = ctx;
	struct wc_error *err = NULL;

	if (!s->has_first || e->time_ns < s->first_ns)
		s->first_ns = e->time_ns;
	if (!s->has_first || e->time_ns > s->last_ns)
		s->last_ns = e->time_ns;
	s->has_first = true;
	if (e->type == EVENT_PROCESS)
		err = on_process(s, e);
	else if (e->type == EVENT_MODULE)
		err = on_module(s, e);
	else if (e->type == EVENT_MODULE_GONE)
		symbolizer_remove(s->symbolizer, e->module.start, e->module.end);
	return err ? err : s->annotate.put(s->annotate.ctx, e);
}

/* What names a frame */

static void symbolize_keep(struct symbolize *s, uint64_t addr)
{
	const struct location *l = symbolizer_lookup(s->symbolizer, addr);
	struct symbolize_address a;

	if (!l->module) {
		if (!map64_get(&s->outside_seen, addr) && addr) {
			s->totals.outside++;
			s->no_memory |= !map64_put(&s->outside_seen, addr, s);
		}
		return;
	}
	if (map64_get(&s->seen, (uintptr_t)l))
		return;
	a = (struct symbolize_address){
		.module = l->module,
		.build_id = l->build_id,
		.build_id_len = l->build_id_len,
		.address = l->module_offset,
		.start = l->function_start ? l->module_offset - l->offset : 0,
		.nframes = l->nframes,
		.frame = l->frame,
	};
	if (!map64_put(&s->seen, (uintptr_t)l, s) || !vec_push(s->address, s->naddresses, s->address_cap, a))
		s->no_memory = true;
}

/* @exact: the first frame is no return address. frames.c says which the others are. */
static void keep_stack(struct symbolize *s, const struct view_frame *frame, size_t n, bool exact)
{
	for (size_t i = 0; i < n; i++) {
		bool is_exact = exact || frame[i].signal;

		/* The functions that were inlined at an address come from it too. */
		if (frame[i].inlined)
			continue;
		symbolize_keep(s, is_exact ? frame[i].ip : frame[i].ip - 1);
		exact = frame[i].signal;
	}
}

static void on_access(void *ctx, const struct view_access *a)
{
	keep_stack(ctx, a->frame, a->nframes, true);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	keep_stack(ctx, c->frame, c->nframes, false);
}

static void on_probe_site(void *ctx, const struct view_probe_site *p, struct view_time time)
{
	(void)time;
	if (p->ip)
		symbolize_keep(ctx, p->ip);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	keep_stack(ctx, p->frame, p->nframes, true);
}

static void on_call(void *ctx, const struct view_call *c)
{
	keep_stack(ctx, c->frame, c->nframes, false);
}

static void on_step(void *ctx, const struct view_step *v)
{
	keep_stack(ctx, v->frame, v->nframes, true);
}

static void on_signal(void *ctx, const struct view_signal *v)
{
	keep_stack(ctx, v->frame, v->nframes, true);
}

static void on_blocked(void *ctx, const struct view_blocked *v)
{
	keep_stack(ctx, v->frame, v->nframes, true);
}

/* Passes */

static struct wc_error *read_log(struct symbolize *s)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct wc_error *err;
	struct trace_event e;

	err = tracelog_reader_open(s->path, &r);
	while (!err) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		err = symbolize_put(s, &e);
		if (s->opt->reading)
			progress_at(s->opt->reading, tracelog_progress(r));
	}
	if (!err) {
		tracelog_damage(r, &s->damage);
		s->damage.why_names = s->why_names;
	}
	return err;
}

static struct wc_error *pass(struct symbolize *s)
{
	static const struct view_ops ops = {
		.access = on_access,
		.capture = on_capture,
		.probe_site = on_probe_site,
		.probe = on_probe,
		.call = on_call,
		.step = on_step,
		.signal = on_signal,
		.blocked = on_blocked,
	};
	static const struct view_ops none;
	scoped(annotate_freep) struct annotate *a =
		annotate_new(s->symbolizer, ANNOTATE_STACK | ANNOTATE_CALLS);
	struct wc_error *err;

	if (!a)
		return &wc_enomem;
	annotate_add_view(a, (struct view){ s->second ? &ops : &none, s });
	s->annotate = annotate_sink(a);
	s->pid = 0;
	symbolizer_remove(s->symbolizer, 0, UINT64_MAX);
	err = read_log(s);
	return !err && s->no_memory ? &wc_enomem : err;
}

static struct wc_error *symbolize_report(void *ctx, const struct trace_event *e)
{
	struct symbolize *s = ctx;

	return log_symbols_report(s->symbolizer, &e->symbol) ? NULL : &wc_enomem;
}

/* The answers of an earlier run; what of them cannot be read is made anew. */
static struct wc_error *report_stored(struct symbolize *s)
{
	return tracelog_symbols_read(s->path, (struct event_sink){ symbolize_report, s }, &s->why_names);
}

/* Results */

static int id_cmp(const uint8_t *a, uint8_t a_len, const uint8_t *b, uint8_t b_len)
{
	if (a_len != b_len)
		return a_len < b_len ? -1 : 1;
	return a_len ? memcmp(a, b, a_len) : 0;
}

static int address_cmp(const void *a, const void *b)
{
	const struct symbolize_address *x = a, *y = b;
	int cmp = strcmp(x->module, y->module);

	if (!cmp)
		cmp = id_cmp(x->build_id, x->build_id_len, y->build_id, y->build_id_len);
	return cmp ? cmp : (x->address > y->address) - (x->address < y->address);
}

/* A library that was loaded twice has its addresses once. */
static void sort_addresses(struct symbolize *s)
{
	size_t kept = 0;

	if (s->naddresses)
		qsort(s->address, s->naddresses, sizeof(*s->address), address_cmp);
	for (size_t i = 0; i < s->naddresses; i++)
		if (!kept || address_cmp(&s->address[kept - 1], &s->address[i]) != 0)
			s->address[kept++] = s->address[i];
	s->naddresses = kept;
}

static bool has_name(const struct symbolize_address *a)
{
	return a->frame[a->nframes - 1].function != NULL;
}

static bool has_line(const struct symbolize_address *a)
{
	return a->frame[0].file != NULL;
}

static void symbolize_count(struct symbolize *s)
{
	s->totals.addresses = s->naddresses;
	for (size_t i = 0; i < s->naddresses; i++) {
		const struct symbolize_address *a = &s->address[i];

		s->totals.named += has_name(a);
		s->totals.with_lines += has_line(a);
		for (size_t k = 0; k < s->nmodules; k++) {
			struct symbolize_module *m = &s->module[k];

			if (strcmp(m->src.module, a->module) != 0 ||
			    id_cmp(m->src.build_id, m->src.build_id_len, a->build_id, a->build_id_len) != 0)
				continue;
			m->addresses++;
			m->named += has_name(a);
			m->with_lines += has_line(a);
			break;
		}
	}
}

static void add_module(void *ctx, const struct symbol_source *src)
{
	struct symbolize *s = ctx;
	struct symbolize_module m = { .src = *src,
				      .not_recognised =
					      !src->build_id_len && is_reported_doubtful(s, src->module) };

	if (!vec_push(s->module, s->nmodules, s->module_cap, m))
		s->no_memory = true;
}

static int module_cmp(const void *a, const void *b)
{
	const struct symbolize_module *x = a, *y = b;

	if (x->addresses != y->addresses)
		return x->addresses > y->addresses ? -1 : 1;
	return strcmp(x->src.module, y->src.module);
}

/* Modules that were only asked about, and named no frame, are nobody's concern. */
static void sort_modules(struct symbolize *s)
{
	if (s->nmodules)
		qsort(s->module, s->nmodules, sizeof(*s->module), module_cmp);
	while (s->nmodules && !s->module[s->nmodules - 1].addresses)
		s->nmodules--;
}

static struct wc_error *put_address(struct tracelog_symbols *out, const struct symbolize_address *a)
{
	struct symbol_function function[SYMBOL_FUNCTIONS_MAX];
	size_t n = a->nframes < SYMBOL_FUNCTIONS_MAX ? a->nframes : SYMBOL_FUNCTIONS_MAX;
	/* The real function counts most: of too many inlined ones the innermost go. */
	const struct frame_name *frame = a->frame + (a->nframes - n);
	struct symbol_event e = { .path = a->module,
				  .build_id = a->build_id,
				  .build_id_len = a->build_id_len,
				  .address = a->address,
				  .start = a->start,
				  .nfunctions = (uint32_t)n,
				  .function = function };

	for (size_t i = 0; i < n; i++)
		function[i] = (struct symbol_function){ frame[i].function, frame[i].file, frame[i].line };
	return tracelog_symbols_put(out, &e);
}

static struct wc_error *store(struct symbolize *s)
{
	scoped(tracelog_symbols_discardp) struct tracelog_symbols *out = NULL;
	struct wc_error *err;

	if (!s->totals.named && !s->totals.with_lines)
		return NULL;
	err = tracelog_symbols_create(s->path, s->first_ns, &out);
	for (size_t i = 0; !err && i < s->naddresses; i++)
		if (has_name(&s->address[i]) || has_line(&s->address[i]))
			err = put_address(out, &s->address[i]);
	if (!err)
		err = tracelog_symbols_commit(take_ptr(out));
	s->totals.stored = !err;
	return err;
}

struct wc_error *symbolize_log(const char *path, const struct symbolize_options *opt, struct symbolize **ret)
{
	scoped(symbolize_freep) struct symbolize *s = calloc(1, sizeof(*s));
	struct wc_error *err;

	if (!s || !(s->symbolizer = symbolizer_new()))
		return &wc_enomem;
	s->path = path;
	s->opt = opt;
	symbolizer_set_search(s->symbolizer, opt->search);
	if (opt->live)
		symbolizer_borrow_files(s->symbolizer, opt->live);
	symbolizer_defer(s->symbolizer);
	if (opt->reading)
		progress_phase(opt->reading, "reading the log");
	err = pass(s);
	if (opt->reading)
		progress_phase(opt->reading, "naming addresses");
	if (!err && !symbolizer_resolve(s->symbolizer, opt->progress))
		err = wc_error_new(WC_EFAIL, "there is not enough memory to resolve the addresses");
	if (!err)
		err = report_stored(s);
	s->second = true;
	if (opt->reading)
		progress_phase(opt->reading, "reading the log again");
	if (!err)
		err = pass(s);
	if (err)
		return err;
	symbolizer_sources(s->symbolizer, add_module, s);
	sort_addresses(s);
	symbolize_count(s);
	sort_modules(s);
	if (s->no_memory)
		return &wc_enomem;
	if (!opt->dry_run)
		err = store(s);
	if (!err)
		*ret = take_ptr(s);
	return err;
}

const struct symbolize_address *symbolize_addresses(const struct symbolize *s, size_t *n)
{
	*n = s->naddresses;
	return s->address;
}

const struct symbolize_module *symbolize_modules(const struct symbolize *s, size_t *n)
{
	*n = s->nmodules;
	return s->module;
}

const struct symbolize_totals *symbolize_totals(const struct symbolize *s)
{
	return &s->totals;
}

const struct log_damage *symbolize_damage(const struct symbolize *s)
{
	return &s->damage;
}

void symbolize_free(struct symbolize *s)
{
	if (!s)
		return;
	symbolizer_free(s->symbolizer);
	map64_deinit(&s->seen);
	map64_deinit(&s->outside_seen);
	for (size_t i = 0; i < s->ndoubtful; i++)
		free(s->doubtful[i]);
	free(s->doubtful);
	free(s->address);
	free(s->module);
	free(s);
}

void symbolize_freep(struct symbolize **s)
{
	symbolize_free(*s);
}
