/*
 * What is looked up is kept: per module a map from runtime address to the finished location, so that
 * reports over millions of events pay once per code address. Modules that went away are kept aside
 * with their locations, because their strings were handed out.
 *
 * A location is filled from an answer, which belongs to a place in a file and not in memory: answers are kept
 * by build id, so that a library loaded again, or at several places, is resolved once, and so that a log can
 * bring them along. Which files there are to ask is another list, by path and build id.
 */
#include "watchctl/code/symbols/symbolizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/elf/perf_map.h"
#include "watchctl/code/strings.h"
#include "watchctl/code/symbols/symbol_file.h"
#include "watchctl/code/symbols/symbol_workers.h"

/* Files kept open, at most: there are descriptors for other things, too. */
#define HELD_MAX 256

/* A worker that computes that long about one address does not come back. */
#define STALL_MS 60000

/* What is known about places in one file, wherever it lies: goes by build id, without one by path. */
struct answers {
	const char *path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
	struct map64 by_address; /* file address -> const struct symbol_answer * */
	struct answers *next;
};

struct source {
	struct symbol_file *file;
	const struct entry *entry; /* the first module made from it */
	bool used;
	bool borrowed; /* the file is another symbolizer's */
	bool lost;     /* when symbolizer_find_lost() looked */
	struct source *next;
};

struct entry {
	uint64_t start, end, bias;
	const char *path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
	struct source *source;
	struct answers *answers;
	struct map64 locations; /* by runtime address */
};

struct deferred {
	struct entry *entry;
	struct location *loc;
	uint64_t addr;
};

struct symbolizer {
	struct entry **v; /* mapped now; sorted by start, none overlap */
	size_t n, cap;
	struct entry **gone;
	size_t ngone, gone_cap;
	struct source *sources;
	struct answers *answers;
	const struct symbol_search *search;
	const struct symbolizer *lender; /* NULL: none */
	bool holding;
	size_t nheld;
	struct strings strings; /* of all answers and locations */
	struct entry *jit;	/* code in no module; no module either */
	struct perf_map **perf_map;
	size_t nperf_maps, perf_map_cap;
	bool deferring;
	struct deferred *deferred;
	size_t ndeferred, deferred_cap;
};

static const struct frame_name no_name;
static const struct location no_location = { .nframes = 1, .frame = &no_name };

struct symbolizer *symbolizer_new(void)
{
	return calloc(1, sizeof(struct symbolizer));
}

void symbolizer_set_search(struct symbolizer *s, const struct symbol_search *search)
{
	s->search = search;
}

static void entry_free(struct entry *e)
{
	if (!e)
		return;
	map64_deinit(&e->locations);
	free(e);
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		entry_free(s->v[i]);
	for (size_t i = 0; i < s->ngone; i++)
		entry_free(s->gone[i]);
	entry_free(s->jit);
	for (struct source *f = s->sources, *next; f; f = next) {
		next = f->next;
		if (!f->borrowed)
			symbol_file_free(f->file);
		free(f);
	}
	for (struct answers *a = s->answers, *next; a; a = next) {
		next = a->next;
		map64_deinit(&a->by_address);
		free(a);
	}
	for (size_t i = 0; i < s->nperf_maps; i++)
		perf_map_free(s->perf_map[i]);
	free(s->perf_map);
	free(s->deferred);
	free(s->v);
	free(s->gone);
	strings_deinit(&s->strings);
	free(s);
}

/* Files and answers */

static struct source *source_find(const struct symbolizer *s, const struct module *m)
{
	struct source *f;

	for (f = s->sources; f; f = f->next)
		if (symbol_file_is_for(f->file, m))
			return f;
	return NULL;
}

static struct source *source_for(struct symbolizer *s, const struct module *m)
{
	struct source *f = source_find(s, m), *lent = s->lender ? source_find(s->lender, m) : NULL;

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->file = lent ? lent->file : symbol_file_new(m, s->search);
	f->borrowed = lent;
	if (!f->file) {
		free(f);
		return NULL;
	}
	if (s->holding && s->nheld < HELD_MAX && symbol_file_hold(f->file))
		s->nheld++;
	f->next = s->sources;
	s->sources = f;
	return f;
}

void symbolizer_hold_files(struct symbolizer *s)
{
	s->holding = true;
}

void symbolizer_borrow_files(struct symbolizer *s, const struct symbolizer *from)
{
	s->lender = from;
}

bool symbolizer_find_lost(struct symbolizer *s)
{
	bool any = false;

	for (struct source *f = s->sources; f; f = f->next) {
		f->lost = f->entry && f->entry->build_id_len && f->entry->path[0] == '/' &&
			  !symbol_file_is_in_place(f->file);
		any |= f->lost;
	}
	return any;
}

bool symbolizer_is_lost(const struct symbolizer *s, const struct module *m)
{
	const struct source *f = source_find(s, m);

	return f && f->lost;
}

static struct answers *answers_for(struct symbolizer *s, const char *path, const uint8_t *build_id,
				   uint8_t len)
{
	struct answers *a;

	for (a = s->answers; a; a = a->next)
		if (a->build_id_len == len &&
		    (len ? memcmp(a->build_id, build_id, len) == 0 : strcmp(a->path, path) == 0))
			return a;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->path = strings_keep(&s->strings, path);
	if (!a->path) {
		free(a);
		return NULL;
	}
	if (len)
		memcpy(a->build_id, build_id, len);
	a->build_id_len = len;
	a->next = s->answers;
	s->answers = a;
	return a;
}

static struct symbol_answer *answer_get(const struct answers *a, uint64_t vaddr)
{
	return map64_get(&a->by_address, vaddr);
}

/* Keeps the better one of @fresh and what was known before. False: no memory. */
static bool answer_put(struct answers *a, uint64_t vaddr, struct symbol_answer *fresh)
{
	struct symbol_answer *old = map64_get(&a->by_address, vaddr);
	struct symbol_answer *best = symbol_answer_better(old, fresh);

	/* The file has had its say, whichever is better. */
	best->from_file |= fresh->from_file || (old && old->from_file);
	return map64_put(&a->by_address, vaddr, best);
}

bool symbolizer_report(struct symbolizer *s, const struct symbol_reported *reported)
{
	struct answers *answers;
	struct symbol_answer *a;

	if (!reported->nframes || reported->build_id_len > BUILD_ID_MAX)
		return true;
	answers = answers_for(s, reported->module, reported->build_id, reported->build_id_len);
	a = symbol_answer_new(&s->strings, reported->start, reported->frame, reported->nframes);
	return answers && a && answer_put(answers, reported->address, a);
}

/* Modules */

/* How many modules start at or below @addr. */
static size_t entries_upto(const struct symbolizer *s, uint64_t addr)
{
	size_t low = BISECT(s->n, i, s->v[i]->start <= addr);
	return low;
}

static struct entry *entry_find(const struct symbolizer *s, uint64_t addr)
{
	size_t i = entries_upto(s, addr);

	return i && addr < s->v[i - 1]->end ? s->v[i - 1] : NULL;
}

void symbolizer_remove(struct symbolizer *s, uint64_t start, uint64_t end)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct entry *e = s->v[i];

		if (e->end <= start || e->start >= end)
			s->v[kept++] = e;
		else /* symbolizer_add() made room for every entry to go: this cannot fail */
			s->gone[s->ngone++] = e;
	}
	s->n = kept;
}

static struct entry *entry_new(struct symbolizer *s, const struct module *m)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->start = m->start;
	e->end = m->end;
	e->bias = m->bias;
	memcpy(e->build_id, m->build_id, sizeof(e->build_id));
	e->build_id_len = m->build_id_len;
	e->path = strings_keep(&s->strings, m->path);
	e->source = source_for(s, m);
	e->answers = answers_for(s, m->path, m->build_id, m->build_id_len);
	if (!e->path || !e->source || !e->answers) {
		entry_free(e);
		return NULL;
	}
	if (!e->source->entry)
		e->source->entry = e;
	return e;
}

static bool entry_is(const struct entry *e, const struct module *m)
{
	return e && e->start == m->start && e->end == m->end && e->bias == m->bias &&
	       strcmp(e->path, m->path) == 0 && symbol_file_is_for(e->source->file, m);
}

bool symbolizer_add(struct symbolizer *s, const struct module *m)
{
	struct entry *e;
	size_t at;

	if (entry_is(entry_find(s, m->start), m))
		return true;
	if (!vec_reserve((void **)&s->v, &s->cap, s->n + 1, sizeof(*s->v)) ||
	    !vec_reserve((void **)&s->gone, &s->gone_cap, s->ngone + s->n + 1, sizeof(*s->gone)))
		return false;
	e = entry_new(s, m);
	if (!e)
		return false;
	symbolizer_remove(s, m->start, m->end);
	at = entries_upto(s, m->start);
	memmove(&s->v[at + 1], &s->v[at], (s->n - at) * sizeof(*s->v));
	s->v[at] = e;
	s->n++;
	return true;
}

/* Locations */

static struct location *place_new(struct symbolizer *s, const struct entry *e, uint64_t addr)
{
	struct location *loc = strings_room(&s->strings, sizeof(*loc));

	if (!loc)
		return NULL;
	*loc = no_location;
	loc->module = e->path;
	loc->build_id = e->build_id;
	loc->build_id_len = e->build_id_len;
	loc->module_offset = addr - e->bias;
	return loc;
}

static bool answer_has_name(const struct symbol_answer *a)
{
	return a && (a->nframes > 1 || a->frame[0].function || a->frame[0].file);
}

static void symbolizer_fill(struct location *loc, const struct entry *e, uint64_t addr,
			    const struct symbol_answer *a)
{
	loc->frame = a->frame;
	loc->nframes = a->nframes;
	if (a->start) {
		loc->function_start = a->start + e->bias;
		loc->offset = addr - loc->function_start;
	}
	/* Names that a log brought along belong to the file that was mapped. */
	loc->stale = !answer_has_name(a) && e->source && symbol_file_is_stale(e->source->file);
}

/* Nothing that the file could add. */
static bool is_final(const struct symbol_answer *a)
{
	return a && (a->from_file || a->frame[0].file);
}

static bool defer(struct symbolizer *s, struct entry *e, struct location *loc, uint64_t addr)
{
	return vec_push(s->deferred, s->ndeferred, s->deferred_cap, (struct deferred){ e, loc, addr });
}

static struct location *location_new(struct symbolizer *s, struct entry *e, uint64_t addr)
{
	uint64_t vaddr = addr - e->bias;
	struct symbol_answer *a = answer_get(e->answers, vaddr);
	struct location *loc = place_new(s, e, addr);

	if (!loc)
		return NULL;
	e->source->used = true;
	if (!is_final(a) && s->deferring)
		return defer(s, e, loc, addr) ? loc : NULL;
	if (!is_final(a)) {
		a = symbol_file_resolve(e->source->file, vaddr, &s->strings);
		if (!a || !answer_put(e->answers, vaddr, a))
			return NULL;
		a = answer_get(e->answers, vaddr);
	}
	symbolizer_fill(loc, e, addr, a);
	return loc;
}

/* Code that a JIT compiler made */

bool symbolizer_add_process(struct symbolizer *s, pid_t pid, uint64_t known_ns, uint64_t until_ns)
{
	struct perf_map *m;

	for (size_t i = 0; i < s->nperf_maps; i++) {
		if (perf_map_pid(s->perf_map[i]) != pid)
			continue;
		/* It has executed another program; its map is that one's now. */
		perf_map_free(s->perf_map[i]);
		s->perf_map[i] = s->perf_map[--s->nperf_maps];
		break;
	}
	m = perf_map_new(pid, known_ns, until_ns);
	if (m && vec_push(s->perf_map, s->nperf_maps, s->perf_map_cap, m))
		return true;
	perf_map_free(m);
	return false;
}

/* Makes the place for code in no module, so that its locations are kept like others. */
static struct entry *jit_entry(struct symbolizer *s)
{
	if (s->jit)
		return s->jit;
	s->jit = calloc(1, sizeof(*s->jit));
	if (!s->jit)
		return NULL;
	s->jit->path = MODULE_JIT;
	s->jit->answers = answers_for(s, MODULE_JIT, s->jit->build_id, 0);
	return s->jit;
}

static const struct symbol_answer *jit_answer(struct symbolizer *s, uint64_t addr)
{
	for (size_t i = 0; i < s->nperf_maps; i++) {
		uint64_t start = 0;
		struct frame_name frame = { .function = perf_map_find(s->perf_map[i], addr, &start) };

		if (frame.function)
			return symbol_answer_new(&s->strings, start, &frame, 1);
	}
	return NULL;
}

/* @known: the address is in a module that was reported as a JIT compiler's. Else only a name proves that it is.
 */
static const struct location *jit_lookup(struct symbolizer *s, uint64_t addr, bool known)
{
	struct entry *e = jit_entry(s);
	struct location *loc = e ? map64_get(&e->locations, addr) : NULL;
	const struct symbol_answer *a;

	if (!e || !e->answers || (loc && loc->frame != &no_name))
		return loc ? loc : &no_location;
	/* Without a name it is asked again each time: the compiler may be late with its file. */
	a = jit_answer(s, addr);
	if (!a)
		a = answer_get(e->answers, addr);
	if (!loc && (a || known)) {
		loc = place_new(s, e, addr);
		if (loc && !map64_put(&e->locations, addr, loc))
			loc = NULL;
	}
	if (loc && a)
		symbolizer_fill(loc, e, addr, a);
	return loc ? loc : &no_location;
}

const struct location *symbolizer_lookup(struct symbolizer *s, uint64_t addr)
{
	struct entry *e = entry_find(s, addr);
	struct location *loc;

	if (!e || strcmp(e->path, MODULE_JIT) == 0)
		return jit_lookup(s, addr, e != NULL);
	loc = map64_get(&e->locations, addr);
	if (loc)
		return loc;
	loc = location_new(s, e, addr);
	if (!loc || !map64_put(&e->locations, addr, loc))
		return &no_location;
	return loc;
}

bool symbolizer_knows(const struct symbolizer *s, uint64_t addr)
{
	const struct entry *e = entry_find(s, addr);

	return !e || is_final(answer_get(e->answers, addr - e->bias));
}

bool symbolizer_function(struct symbolizer *s, uint64_t addr, uint64_t *start, uint64_t *end)
{
	struct entry *e = entry_find(s, addr);

	if (!e || !symbol_file_function(e->source->file, addr - e->bias, start, end))
		return false;
	*start += e->bias;
	*end += e->bias;
	return true;
}

bool symbolizer_data_name(struct symbolizer *s, uint64_t addr, char *buf, size_t len)
{
	struct entry *e = entry_find(s, addr);
	uint64_t start;
	char *name = e ? symbol_file_data_name(e->source->file, addr - e->bias, &start) : NULL;

	if (!name)
		return false;
	if (addr - e->bias > start)
		snprintf(buf, len, "%s+0x%" PRIx64, name, addr - e->bias - start);
	else
		snprintf(buf, len, "%s", name);
	free(name);
	return true;
}

/* Many at once */

void symbolizer_defer(struct symbolizer *s)
{
	s->deferring = true;
}

static bool take_answers(struct symbolizer *s, const struct symbol_job *job, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!answer_put(job[i].owner, job[i].vaddr, job[i].answer))
			return false;
	for (size_t i = 0; i < s->ndeferred; i++) {
		const struct deferred *d = &s->deferred[i];
		const struct symbol_answer *a = answer_get(d->entry->answers, d->addr - d->entry->bias);

		if (a)
			symbolizer_fill(d->loc, d->entry, d->addr, a);
	}
	return true;
}

bool symbolizer_resolve(struct symbolizer *s, const struct symbol_progress *progress)
{
	struct symbol_job *job = calloc(s->ndeferred + 1, sizeof(*job));
	size_t n = 0;
	bool ok = job != NULL;

	s->deferring = false;
	for (size_t i = 0; ok && i < s->ndeferred; i++) {
		const struct deferred *d = &s->deferred[i];
		uint64_t vaddr = d->addr - d->entry->bias;

		job[n++] = (struct symbol_job){ .file = d->entry->source->file,
						.vaddr = vaddr,
						.owner = d->entry->answers };
	}
	ok = ok && (!n || symbol_workers_run(job, n, &s->strings, STALL_MS, progress)) &&
	     take_answers(s, job, n);
	free(job);
	s->ndeferred = 0;
	return ok;
}

void symbolizer_sources(struct symbolizer *s, void (*report)(void *ctx, const struct symbol_source *src),
			void *ctx)
{
	for (struct source *f = s->sources; f; f = f->next) {
		const struct symbol_facts *facts;
		struct symbol_source src;

		if (!f->used)
			continue;
		facts = symbol_file_facts(f->file);
		src = (struct symbol_source){ .module = f->entry->path,
					      .build_id = f->entry->build_id,
					      .build_id_len = f->entry->build_id_len,
					      .state = facts->state,
					      .detail = facts->detail,
					      .damaged = facts->damaged,
					      .debug_path = facts->debug_path };
		report(ctx, &src);
	}
}
