/*
 * Collects. Every access is counted in the tables (by site; by site, thread and stack), in the parts of the
 * time of its watch and of its thread, and offered to the list of events and to the choice of those with
 * registers.
 *
 * Space: about 60 MB for events (PAGE_EVENTS of 40 bytes, doubled while the list grows), 4 MB for registers,
 * at most 50 MB for the tables, and 6 MB a watch for the parts; and what the symbolizer needs.
 */
#include "watchctl/view/page/page.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/code/symbols/source_path.h"
#include "watchctl/view/page/page_impl.h"

#define NUMBER(i) ((void *)(uintptr_t)((i) + 1))

static char *copy(struct page *p, const char *s)
{
	char *text = s ? strdup(s) : NULL;

	p->no_memory |= s && !text;
	return text;
}

/* Watches */

/* NULL: no room. */
static struct page_watch *watch_of(struct page *p, const struct view_watch *w, uint32_t *index)
{
	struct page_watch *fresh;
	size_t i;

	for (i = 0; i < p->nwatches; i++) {
		if (p->watch[i]->w == w) {
			*index = (uint32_t)i;
			return p->watch[i];
		}
	}
	if (p->nwatches >= PAGE_WATCHES)
		return NULL;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh || !vec_push(p->watch, p->nwatches, p->watch_cap, fresh)) {
		free(fresh);
		p->no_memory = true;
		return NULL;
	}
	fresh->w = w;
	fresh->has_parts = p->nwatches <= PAGE_PICTURES && page_buckets_init(&fresh->parts, PAGE_PARTS);
	*index = (uint32_t)p->nwatches - 1;
	return fresh;
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct page *p = ctx;
	uint32_t index;
	struct page_watch *pw = watch_of(p, w, &index);

	page_clock_ns(&p->clock, time);
	if (pw && !pw->armed.mono_ns)
		pw->armed = time;
}

static void on_process(void *ctx, const struct view_event *v)
{
	const struct process_event *e = &v->raw->process;
	struct page *p = ctx;
	struct page_process fresh = { .pid = e->pid, .ns = page_clock_ns(&p->clock, v->time) };

	if (p->nprocesses >= PAGE_PROCESSES)
		return;
	fresh.comm = copy(p, e->comm);
	fresh.exe = copy(p, e->exe);
	fresh.cmdline = copy(p, e->cmdline);
	fresh.host = copy(p, e->host);
	if (!vec_push(p->process, p->nprocesses, p->process_cap, fresh))
		p->no_memory = true;
}

/* Sites */

/* Where the source of @l is; NULL: not known. Line tables are read once for each file. */
static const char *source_of(struct page *p, const struct location *l)
{
	const char *file = l->frame[0].file;
	struct page_source fresh = { .module = l->module, .file = file };
	enum source_found found;
	size_t i;

	if (file[0] == '/')
		return file;
	for (i = 0; i < p->nsources; i++)
		if (!strcmp(p->source[i].file, file) && !strcmp(p->source[i].module, l->module))
			return p->source[i].path;
	if (l->module[0] == '/')
		wc_error_free(source_path(l->module, file, &fresh.path, &found));
	if (vec_push(p->source, p->nsources, p->source_cap, fresh))
		return fresh.path;
	free(fresh.path);
	p->no_memory = true;
	return NULL;
}

/* What is around the place, while the modules are as they were then. */
static void list_site(struct page *p, struct page_site *s)
{
	const struct location *l = s->site->key.location;
	const char *path;

	if (p->nsites > PAGE_LISTINGS || !l->module)
		return;
	s->listed = true;
	p->no_memory |= !listing_code(annotate_symbolizer(p->annotate), annotate_syntax(p->annotate),
				      s->site->key.ip, PAGE_INSNS, PAGE_INSNS + 1, &s->code);
	if (p->opt.no_source || !l->frame[0].file)
		return;
	path = source_of(p, l);
	p->no_memory |= !listing_source(path ? path : l->frame[0].file, path ? l->module : NULL,
					l->frame[0].line, PAGE_AROUND, &s->source);
}

static uint32_t site_of(struct page *p, const struct view_access *a, uint32_t watch)
{
	struct site *site = sites_count(&p->sites, a);
	void *known = site ? map64_get(&p->site_index, (uintptr_t)site) : NULL;
	int32_t syscall = a->raw->in_kernel ? a->raw->syscall : -1;
	struct page_site fresh = { .site = site, .watch = watch, .syscall = syscall };

	if (known) {
		uint32_t index = (uint32_t)((uintptr_t)known - 1);

		if (p->site[index].syscall != syscall)
			p->site[index].syscall = -2;
		return index;
	}
	if (!site) {
		p->no_memory = true;
		return PAGE_REST;
	}
	if (p->nsites >= PAGE_SITES) {
		p->sites_left_out++;
		return PAGE_REST;
	}
	if (!vec_push(p->site, p->nsites, p->site_cap, fresh) ||
	    !map64_put(&p->site_index, (uintptr_t)site, NUMBER(p->nsites - 1))) {
		p->no_memory = true;
		return PAGE_REST;
	}
	list_site(p, &p->site[p->nsites - 1]);
	return (uint32_t)p->nsites - 1;
}

/* Accesses */

static bool is_plain_number(enum value_kind k)
{
	return k == VALUE_SIGNED || k == VALUE_UNSIGNED || k == VALUE_FLOAT || k == VALUE_UNKNOWN ||
	       k == VALUE_AGGREGATE;
}

/* The page's script knows how to write numbers; names it has from here. */
static void keep_text(struct page *p, struct page_watch *w, uint64_t value, const char *text)
{
	char *own;

	if (is_plain_number(w->w->e.type.kind) || !text || w->texts.n >= PAGE_VALUE_TEXTS ||
	    map64_get(&w->texts, value))
		return;
	own = copy(p, text);
	if (own && !map64_put(&w->texts, value, own)) {
		free(own);
		p->no_memory = true;
	}
}

/* Not known is not called the same. */
static bool may_change(const struct view_access *a)
{
	return a->raw->has_old && a->raw->has_new &&
	       (a->raw->old_uncertain ||
		!value_is_same(&a->watch->e.type, a->raw->size, a->raw->old_value, a->raw->new_value));
}

static void count_parts(struct page *p, struct page_watch *w, const struct view_access *a, uint64_t ns,
			uint32_t thread)
{
	const struct access_event *e = a->raw;
	struct page_sample s = { .kind = a->kind,
				 .changes = may_change(a),
				 .has_value = e->has_new && e->size >= 1 && e->size <= 8,
				 .value = e->new_value,
				 .size = e->size,
				 .type = &w->w->e.type };

	if (!w->has_parts)
		return;
	page_buckets_add(&w->parts, ns, &s);
	if (thread >= PAGE_LANES)
		return;
	if (!w->lane[thread].v && !page_buckets_init(&w->lane[thread], PAGE_LANE_PARTS)) {
		p->no_memory = true;
		return;
	}
	s.has_value = false;
	page_buckets_add(&w->lane[thread], ns, &s);
}

static struct page_event event_of(struct page *p, uint64_t ns, uint32_t what, uint16_t series)
{
	return (struct page_event){ .seq = p->seq++, .ns = ns, .what = what, .series = series };
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct page *p = ctx;
	const struct access_event *e = a->raw;
	uint64_t ns = page_clock_ns(&p->clock, a->time);
	struct page_combo combo = { 0 };
	struct page_event ev;
	struct page_watch *w;
	uint32_t watch = 0, what;
	bool ok = true;

	p->accesses++;
	w = watch_of(p, a->watch, &watch);
	if (w)
		w->accesses++;
	else
		p->sites_left_out++;
	combo.place = w ? site_of(p, a, watch) : PAGE_REST;
	combo.thread = page_thread(&p->tables, e->pid, e->tid, a->comm, &ok);
	combo.stack = page_stack(&p->tables, a->frame, a->nframes, a->walk_end, &ok);
	what = page_combo(&p->tables, &combo, &ok);
	if (combo.thread != PAGE_REST)
		p->tables.thread[combo.thread].accesses++;
	if (w)
		count_parts(p, w, a, ns, combo.thread);
	if (w && e->has_old)
		keep_text(p, w, e->old_value, a->old_text);
	if (w && e->has_new)
		keep_text(p, w, e->new_value, a->new_text);

	ev = event_of(p, ns, what, combo.place == PAGE_REST ? PAGE_REST_SERIES : watch % PAGE_REST_SERIES);
	ev.flags = (e->has_old ? PAGE_EV_OLD : 0) | (e->has_new ? PAGE_EV_NEW : 0) |
		   (e->old_uncertain ? PAGE_EV_UNCERTAIN : 0);
	ev.old_value = e->old_value;
	ev.new_value = e->new_value;
	p->regs_withheld |= (e->withheld & WITHHELD_REGS) != 0;
	ok = ok && page_events_add(&p->events, &ev) &&
	     page_choice_offer(&p->choice, &ev, &e->regs, combo.place, may_change(a));
	p->no_memory |= !ok;
}

static uint32_t tag_of(struct page *p, const struct view_tag *tag)
{
	void *known = map64_get(&p->tag_index, tag->id);

	if (known)
		return (uint32_t)((uintptr_t)known - 1);
	if (p->ntags >= PAGE_SITES)
		return PAGE_REST;
	if (vec_push(p->tag, p->ntags, p->tag_cap, tag) &&
	    map64_put(&p->tag_index, tag->id, NUMBER(p->ntags - 1)))
		return (uint32_t)p->ntags - 1;
	p->no_memory = true;
	return PAGE_REST;
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct page *p = ctx;
	struct page_combo combo = { .capture = true, .place = tag_of(p, c->tag) };
	uint64_t ns = page_clock_ns(&p->clock, c->time);
	struct page_event ev;
	bool ok = true;

	p->captures++;
	combo.thread = page_thread(&p->tables, c->raw->pid, c->raw->tid, c->comm, &ok);
	combo.stack = page_stack(&p->tables, c->frame, c->nframes, c->walk_end, &ok);
	if (combo.thread != PAGE_REST)
		p->tables.thread[combo.thread].captures++;
	ev = event_of(p, ns, page_combo(&p->tables, &combo, &ok), PAGE_CAPTURES_SERIES);
	ev.flags = c->raw->has_value ? PAGE_EV_NEW : 0;
	ev.new_value = c->raw->value;
	p->no_memory |= !ok || !page_events_add(&p->events, &ev);
}

static void on_probe(void *ctx, const struct view_probe *v)
{
	struct page *p = ctx;
	struct capture_event raw;
	struct view_capture c;

	if (probe_stacks_capture(&p->probes, v, &raw, &c))
		on_capture(p, &c);
	else
		p->no_memory = true;
}

/* The rest */

static void keep_note(struct page *p, struct page_note note)
{
	if (p->nnotes >= PAGE_NOTES)
		p->notes_left_out++;
	else if (note.text && vec_push(p->note, p->nnotes, p->note_cap, note))
		return;
	else
		p->no_memory = true;
	free(note.text);
}

static void on_note(void *ctx, const struct view_event *v)
{
	struct page *p = ctx;

	keep_note(p, (struct page_note){ .text = copy(p, v->raw->note.text),
					 .ns = page_clock_ns(&p->clock, v->time) });
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct page *p = ctx;
	uint32_t index;
	struct page_watch *pw = w ? watch_of(p, w, &index) : NULL;

	if (pw)
		pw->lost += l->count;
	if (l->watch == WATCH_CAPTURES)
		p->captures_lost += l->count;
	keep_note(p, (struct page_note){ .text = copy(p, l->why ? l->why : ""),
					 .ns = page_clock_ns(&p->clock, time),
					 .is_loss = true,
					 .count = l->count });
}

static void on_summary(void *ctx, const struct view_summary *s)
{
	struct page *p = ctx;
	struct page_watch *w;
	uint32_t index;

	if (s->e.watch == WATCH_PROBES && p->has_capture_summary)
		return;
	if (!s->watch) {
		p->has_capture_summary = true;
		p->capture_summary = *s;
		return;
	}
	w = watch_of(p, s->watch, &index);
	if (w) {
		w->has_summary = true;
		w->summary = *s;
	}
}

static void on_recording(void *ctx, const struct view_event *v)
{
	const struct recording_event *r = &v->raw->recording;
	struct page *p = ctx;

	page_clock_ns(&p->clock, v->time);
	if (!p->recording)
		p->recording = copy(p, r->range ? r->range : "");
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct page *p = ctx;

	page_clock_ns(&p->clock, c->time);
	p->calls++;
}

static void on_return(void *ctx, const struct view_return *r)
{
	((struct page *)ctx)->returns++;
}

static void on_step(void *ctx, const struct view_step *s)
{
	((struct page *)ctx)->steps++;
}

struct page *page_new(struct annotate *a, const struct page_options *o)
{
	static const struct view_subscription events[] = {
		{ EVENT_PROCESS, on_process },
		{ EVENT_NOTE, on_note },
		{ EVENT_RECORDING, on_recording },
		{ 0 },
	};
	static const struct view_ops ops = { .events = events,
					     .armed = on_armed,
					     .access = on_access,
					     .capture = on_capture,
					     .probe = on_probe,
					     .lost = on_lost,
					     .call = on_call,
					     .ret = on_return,
					     .step = on_step,
					     .summary = on_summary };
	struct page *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->annotate = a;
	p->opt = *o;
	page_events_init(&p->events, o->events ? o->events : PAGE_EVENTS);
	page_choice_init(&p->choice, o->events && o->events < PAGE_DETAILS ? o->events : PAGE_DETAILS);
	annotate_add_view(a, (struct view){ .ops = &ops, .ctx = p });
	return p;
}

static void watch_free(struct page_watch *w)
{
	size_t i;

	map64_deinit_values(&w->texts, free);
	page_buckets_deinit(&w->parts);
	for (i = 0; i < PAGE_LANES; i++)
		page_buckets_deinit(&w->lane[i]);
	free(w);
}

static void free_reported(struct page *p)
{
	size_t i;

	for (i = 0; i < p->nprocesses; i++) {
		free(p->process[i].comm);
		free(p->process[i].exe);
		free(p->process[i].cmdline);
		free(p->process[i].host);
	}
	for (i = 0; i < p->nnotes; i++)
		free(p->note[i].text);
	for (i = 0; i < p->nsources; i++)
		free(p->source[i].path);
	free(p->process);
	free(p->note);
	free(p->source);
	free(p->recording);
}

void page_free(struct page *p)
{
	size_t i;

	if (!p)
		return;
	for (i = 0; i < p->nwatches; i++)
		watch_free(p->watch[i]);
	for (i = 0; i < p->nsites; i++) {
		listing_deinit(&p->site[i].code);
		listing_deinit(&p->site[i].source);
	}
	free_reported(p);
	free(p->watch);
	free(p->site);
	probe_stacks_deinit(&p->probes);
	free(p->tag);
	map64_deinit(&p->site_index);
	map64_deinit(&p->tag_index);
	sites_deinit(&p->sites);
	page_tables_deinit(&p->tables);
	page_events_deinit(&p->events);
	page_choice_deinit(&p->choice);
	free(p);
}

void page_freep(struct page **p)
{
	page_free(*p);
}
