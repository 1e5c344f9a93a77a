#include "watchctl/view/table/site_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/words/view_words.h"

static struct site_stat *add_site(struct site_stats *s, const struct view_access *a)
{
	struct site_stat *site;

	if (s->n == SITE_STATS_SITES)
		return NULL;
	site = calloc(1, sizeof(*site));
	if (!site || !vec_reserve((void **)&s->v, &s->cap, s->n + 1, sizeof(struct site_stat *)) ||
	    !site_index_add(&s->index, a, &site->key)) {
		s->incomplete = true;
		free(site);
		return NULL;
	}
	site->first = a->time;
	s->v[s->n++] = site;
	site->number = (uint32_t)s->n;
	return site;
}

static void count_thread(struct site_stats *s, struct site_stat *site, const struct access_event *e)
{
	uint64_t tid = (uint64_t)(uint32_t)e->pid << 32 | (uint32_t)e->tid;

	if (site->last_tid == tid + 1)
		return;
	site->last_tid = tid + 1;
	if (map64_get(&site->tids, tid))
		return;
	if (!s->threads_left || !map64_put(&site->tids, tid, site)) {
		site->more_threads = true;
		return;
	}
	s->threads_left--;
	site->nthreads++;
}

/* Cleaned when it is shown: this is done for every access. */
static void copy_text(const char *text, char *buf, size_t cap)
{
	size_t n = text ? strnlen(text, cap - 1) : 0;

	if (n)
		memcpy(buf, text, n);
	buf[n] = '\0';
}

static void keep_last(struct site_stat *site, const struct view_access *a)
{
	const struct access_event *e = a->raw;
	struct site_last *l = &site->last;

	l->time = a->time;
	l->pid = e->pid;
	l->tid = e->tid;
	copy_text(a->comm, l->comm, sizeof(l->comm));
	l->addr = e->addr;
	l->size = e->size;
	l->has_old = e->has_old;
	l->has_new = e->has_new;
	l->old_uncertain = e->old_uncertain;
	l->withheld = e->withheld;
	l->displaced = e->displaced;
	l->in_kernel = e->in_kernel;
	l->syscall = e->in_kernel ? e->syscall : -1;
	copy_text(e->in_kernel ? e->kernel_function : NULL, l->kernel_function, sizeof(l->kernel_function));
	l->old_value = e->old_value;
	l->new_value = e->new_value;
	l->regs = e->regs;
}

static void count_value(struct site_stat *site, const struct view_access *a)
{
	const struct access_event *e = a->raw;
	bool has = e->has_new || (a->kind == ACCESS_READ && e->has_old);

	if (a->kind == ACCESS_EXECUTE || !has || !e->size || e->size > 8)
		return;
	site_values_add(&site->values, &a->watch->e.type, e->size, e->has_new ? e->new_value : e->old_value);
}

static struct watch_stat *watch_of(struct site_stats *s, const struct view_watch *w)
{
	size_t i;

	for (i = 0; i < s->nwatches; i++)
		if (s->watch[i].watch == w)
			return &s->watch[i];
	if (s->nwatches == SITE_STATS_WATCHES)
		return NULL;
	s->watch[s->nwatches] = (struct watch_stat){ .watch = w };
	return &s->watch[s->nwatches++];
}

static void begin_at(struct site_stats *s, uint64_t time_ns)
{
	if (!s->begun_ns || time_ns < s->begun_ns)
		s->begun_ns = time_ns;
	site_stats_at(s, time_ns);
}

void site_stats_at(struct site_stats *s, uint64_t now_ns)
{
	if (now_ns > s->now_ns)
		s->now_ns = now_ns;
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct site_stats *s = ctx;
	uint64_t time_ns = a->time.mono_ns;
	struct watch_stat *watch = watch_of(s, a->watch);
	struct site_stat *site;

	begin_at(s, time_ns);
	s->total++;
	site_rate_add(&s->rate, time_ns);
	if (watch) {
		watch->count++;
		site_rate_add(&watch->rate, time_ns);
	}
	site = (struct site_stat *)site_index_find(&s->index, a);
	if (!site)
		site = add_site(s, a);
	if (!site) {
		s->unlisted++;
		return;
	}
	site->count++;
	site_rate_add(&site->rate, time_ns);
	count_thread(s, site, a->raw);
	if (time_ns >= site->last.time.mono_ns)
		keep_last(site, a);
	if (time_ns < site->first.mono_ns)
		site->first = a->time;
	count_value(site, a);
	site_stacks_add(&site->stacks, a, &s->frames_left);
}

static void on_process(void *ctx, const struct view_event *v)
{
	const struct process_event *p = &v->raw->process;
	struct site_stats *s = ctx;
	const char *command = p->cmdline && *p->cmdline ? p->cmdline : p->exe;

	site_stats_at(s, v->time.mono_ns);
	if (s->pid && p->pid != s->pid)
		return;
	s->pid = p->pid;
	utf8_clean(p->comm ? p->comm : "", s->comm, sizeof(s->comm));
	utf8_clean(p->host ? p->host : "", s->host, sizeof(s->host));
	utf8_clean(command ? command : "", s->command, sizeof(s->command));
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct site_stats *s = ctx;

	begin_at(s, time.mono_ns);
	watch_of(s, w);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct site_stats *s = ctx;

	begin_at(s, c->time.mono_ns);
	s->captures++;
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct site_stats *s = ctx;

	begin_at(s, p->time.mono_ns);
	s->probes++;
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct site_stats *s = ctx;

	begin_at(s, c->time.mono_ns);
	s->calls++;
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct site_stats *s = ctx;
	struct watch_stat *watch = w ? watch_of(s, w) : NULL;

	site_stats_at(s, time.mono_ns);
	if (l->watch == WATCH_CAPTURES || l->watch == WATCH_CALLS || l->watch == WATCH_PROBES)
		return;
	s->lost += l->count;
	if (watch)
		watch->lost += l->count;
}

static void on_note(void *ctx, const struct view_event *v)
{
	struct site_stats *s = ctx;

	site_stats_at(s, v->time.mono_ns);
	utf8_clean(v->raw->note.text, s->note, sizeof(s->note));
	s->note_time = v->time;
	s->notes++;
}

static void on_summary(void *ctx, const struct view_summary *sum)
{
	struct site_stats *s = ctx;
	struct watch_stat *watch = sum->watch ? watch_of(s, sum->watch) : NULL;

	if (!watch)
		return;
	watch->has_summary = true;
	watch->summary = *sum;
}

void site_stats_init(struct site_stats *s, struct annotate *a)
{
	*s = (struct site_stats){
		.annotate = a,
		.threads_left = SITE_STATS_THREADS,
		.frames_left = SITE_STATS_FRAMES,
	};
}

struct view site_stats_view(struct site_stats *s)
{
	static const struct view_subscription events[] = {
		{ EVENT_PROCESS, on_process },
		{ EVENT_NOTE, on_note },
		{ 0 },
	};
	static const struct view_ops ops = {
		.events = events,
		.armed = on_armed,
		.access = on_access,
		.capture = on_capture,
		.probe = on_probe,
		.call = on_call,
		.lost = on_lost,
		.summary = on_summary,
	};

	return (struct view){ .ops = &ops, .ctx = s };
}

/* Copies */

static struct site_stat *copy_site(const struct site_stat *site)
{
	struct site_stat *c = malloc(sizeof(*c));

	if (!c)
		return NULL;
	*c = *site;
	c->key.same_hash = NULL;
	c->tids = (struct map64){ 0 };
	c->key.insn = site->key.insn ? strdup(site->key.insn) : NULL;
	if (!site_values_copy(&site->values, &c->values)) {
		free(c->key.insn);
		free(c);
		return NULL;
	}
	if (!site_stacks_copy(&site->stacks, &c->stacks)) {
		site_values_deinit(&c->values);
		free(c->key.insn);
		free(c);
		return NULL;
	}
	return c;
}

bool site_stats_copy(const struct site_stats *s, struct site_stats *ret)
{
	size_t i;

	*ret = *s;
	ret->is_copy = true;
	ret->index = (struct site_index){ 0 };
	ret->n = 0;
	ret->cap = s->n;
	ret->v = calloc(s->n + 1, sizeof(struct site_stat *));
	for (i = 0; ret->v && i < s->n; i++) {
		ret->v[i] = copy_site(s->v[i]);
		if (!ret->v[i])
			break;
		ret->n++;
	}
	if (!ret->v || ret->n < s->n) {
		site_stats_deinit(ret);
		return false;
	}
	return true;
}

void site_stats_deinit(struct site_stats *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		map64_deinit(&s->v[i]->tids);
		site_values_deinit(&s->v[i]->values);
		site_stacks_deinit(&s->v[i]->stacks);
		free(s->v[i]->key.insn);
		free(s->v[i]);
	}
	free(s->v);
	site_index_deinit(&s->index);
	*s = (struct site_stats){ 0 };
}

/* What is shown of a site */

const struct site_stat *site_stats_get(const struct site_stats *s, uint32_t number)
{
	return number && number <= s->n ? s->v[number - 1] : NULL;
}

double site_stat_rate(const struct site_stats *s, const struct site_stat *site)
{
	return site_rate_now(&site->rate, s->begun_ns, s->now_ns);
}

void site_stat_change(const struct site_stats *s, const struct site_stat *site, char *buf, size_t cap)
{
	const struct site_last *l = &site->last;
	unsigned int size = l->size ? l->size : 8;
	char was[160], is[160];

	annotate_value(s->annotate, site->key.watch, size, l->old_value, was, sizeof(was));
	annotate_value(s->annotate, site->key.watch, size, l->new_value, is, sizeof(is));
	text_change(site->key.kind, l->has_old ? was : NULL,
		    l->withheld & WITHHELD_VALUES ? view_withheld
		    : l->has_new		  ? is
						  : NULL,
		    text_step_of(&site->key.watch->e.type, size, l->has_old && l->has_new, l->old_uncertain,
				 l->old_value, l->new_value),
		    buf, cap);
}

void site_stat_place(const struct site_stat *site, char *buf, size_t cap)
{
	const struct location *l = site->key.location;
	char place[CELL_TEXT];

	text_place(l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset, site->key.ip,
		   place, sizeof(place));
	snprintf(buf, cap, "%s%s", site->key.after ? "then " : "", place);
}
