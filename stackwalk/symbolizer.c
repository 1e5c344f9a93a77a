/*
 * What is looked up is kept: per module a map from file address to the finished location, so that
 * reports over millions of events pay once per code address. Modules that went away are kept aside
 * with their locations, because their strings were handed out.
 *
 * Names come from the debug information where there is some and from the symbol tables otherwise. One
 * file mapped by several modules (dlmopen, or a library loaded again) is read once.
 */
#include "stackwalk/symbolizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stackwalk/demangle.h"
#include "stackwalk/dwarf_names.h"
#include "stackwalk/elffile.h"
#include "stackwalk/symbols.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

struct names_file {
	struct elffile *elf;
	struct symbols *symbols;   /* NULL: not read yet */
	struct dwarf_names *dwarf; /* NULL: not read yet */
	struct names_file *next;
};

struct entry {
	uint64_t start, end, bias;
	char *path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
	struct names_file *file;
	struct map64 locations; /* by runtime address */
};

struct symbolizer {
	struct entry **v; /* mapped now; sorted by start, none overlap */
	size_t n, cap;
	struct entry **gone;
	size_t ngone, gone_cap;
	struct names_file *files;
};

static const struct frame_name no_name;
static const struct location no_location = { .nframes = 1, .frame = &no_name };

struct symbolizer *symbolizer_new(void)
{
	return calloc(1, sizeof(struct symbolizer));
}

static void location_free(struct location *loc)
{
	if (!loc)
		return;
	for (size_t i = 0; i < loc->nframes && loc->frame != &no_name; i++) {
		free((char *)loc->frame[i].function);
		free((char *)loc->frame[i].file);
	}
	if (loc->frame != &no_name)
		free((struct frame_name *)loc->frame);
	free(loc);
}

static void locations_free(struct map64 *m)
{
	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i].used)
			location_free(m->slot[i].value);
	map64_deinit(m);
}

static void entry_free(struct entry *e)
{
	if (!e)
		return;
	locations_free(&e->locations);
	free(e->path);
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
	for (struct names_file *f = s->files, *next; f; f = next) {
		next = f->next;
		symbols_free(f->symbols);
		dwarf_names_free(f->dwarf);
		elffile_free(f->elf);
		free(f);
	}
	free(s->v);
	free(s->gone);
	free(s);
}

static struct names_file *file_for(struct symbolizer *s, const struct module *m)
{
	struct names_file *f;

	for (f = s->files; f; f = f->next)
		if (elffile_is_for(f->elf, m))
			return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->elf = elffile_new(m);
	if (!f->elf) {
		free(f);
		return NULL;
	}
	f->next = s->files;
	s->files = f;
	return f;
}

/* How many modules start at or below @addr. */
static size_t entries_upto(const struct symbolizer *s, uint64_t addr)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->v[mid]->start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
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
	e->path = strdup(m->path);
	e->file = file_for(s, m);
	if (!e->path || !e->file) {
		entry_free(e);
		return NULL;
	}
	return e;
}

static bool entry_is(const struct entry *e, const struct module *m)
{
	return e && e->start == m->start && e->end == m->end && e->bias == m->bias &&
	       strcmp(e->path, m->path) == 0 && elffile_is_for(e->file->elf, m);
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

static struct symbols *file_symbols(struct names_file *f)
{
	if (!f->symbols)
		f->symbols = symbols_new(f->elf);
	return f->symbols;
}

static struct dwarf_names *file_dwarf(struct names_file *f)
{
	if (!f->dwarf)
		f->dwarf = dwarf_names_new(f->elf);
	return f->dwarf;
}

static bool file_has_names(struct names_file *f)
{
	enum elffile_state state = elffile_state(f->elf);

	return state == ELFFILE_OK || state == ELFFILE_DEBUG_ONLY;
}

/* Moves the frames of @p into @loc; the names of @p become @loc's. */
static bool take_frames(struct location *loc, struct dwarf_place *p)
{
	struct frame_name *frame = calloc(p->nframes, sizeof(*frame));

	if (!frame)
		return false;
	for (size_t i = 0; i < p->nframes; i++) {
		frame[i].function = p->frame[i].function;
		p->frame[i].function = NULL;
		frame[i].file = p->frame[i].file ? strdup(p->frame[i].file) : NULL;
		frame[i].line = p->frame[i].line;
	}
	loc->frame = frame;
	loc->nframes = p->nframes;
	return true;
}

static bool one_frame(struct location *loc, char *function)
{
	struct frame_name *frame = calloc(1, sizeof(*frame));

	if (!frame) {
		free(function);
		return false;
	}
	frame->function = function;
	loc->frame = frame;
	loc->nframes = 1;
	return true;
}

/*
 * Where the symbol is the better name. The debug information calls the real function "f" in all its parts;
 * in a part that was split off the symbol says "f.cold", and offsets count from the start of that part. And
 * a library's internal name ("__libc_malloc") gives way to the exported one at the same place ("malloc"),
 * which callers wrote and which is all that is known without debug information.
 */
static bool symbol_names_better(const struct symbol *sym, uint64_t start, const struct dwarf_place *p)
{
	const char *name = p->frame[p->nframes - 1].function;

	if (!p->has_function || !name)
		return true;
	if (start != p->start)
		return false;
	/* C++ static functions: the debug information has the bare name, the symbol the parameters too. */
	if (strncmp(sym->name, "_Z", 2) == 0 && !strchr(name, '('))
		return true;
	return !p->in_entry_range || (name[0] == '_' && sym->bind != STB_LOCAL && sym->name[0] != '_');
}

static void name_from_symbol(struct location *loc, const struct symbol *sym)
{
	struct frame_name *real = (struct frame_name *)&loc->frame[loc->nframes - 1];
	char *name = demangle_or_copy(sym->name);

	if (!name)
		return;
	free((char *)real->function);
	real->function = name;
}

static bool fill_location(struct entry *e, uint64_t addr, struct location *loc)
{
	uint64_t vaddr = addr - e->bias, start = 0, end = 0;
	struct symbols *symbols = file_symbols(e->file);
	struct dwarf_names *dwarf = file_dwarf(e->file);
	const struct symbol *sym = symbols ? symbols_find(symbols, vaddr, false, &start, &end) : NULL;
	struct dwarf_place p;
	bool ok, better;

	if (!dwarf || !dwarf_names_lookup(dwarf, vaddr, &p)) {
		loc->function_start = sym ? start + e->bias : 0;
		return one_frame(loc, sym ? demangle_or_copy(sym->name) : NULL);
	}
	better = sym && symbol_names_better(sym, start, &p);
	ok = take_frames(loc, &p);
	if (ok && better)
		name_from_symbol(loc, sym);
	if (p.has_function)
		loc->function_start = p.start + e->bias;
	else if (sym)
		loc->function_start = start + e->bias;
	dwarf_place_deinit(&p);
	return ok;
}

static struct location *location_new(struct entry *e, uint64_t addr)
{
	struct location *loc = calloc(1, sizeof(*loc));

	if (!loc)
		return NULL;
	*loc = no_location;
	loc->module = e->path;
	loc->build_id = e->build_id;
	loc->build_id_len = e->build_id_len;
	loc->module_offset = addr - e->bias;
	loc->stale = elffile_state(e->file->elf) == ELFFILE_STALE;
	if (file_has_names(e->file) && !fill_location(e, addr, loc)) {
		free(loc);
		return NULL;
	}
	if (loc->function_start)
		loc->offset = addr - loc->function_start;
	return loc;
}

const struct location *symbolizer_lookup(struct symbolizer *s, uint64_t addr)
{
	struct entry *e = entry_find(s, addr);
	struct location *loc;

	if (!e)
		return &no_location;
	loc = map64_get(&e->locations, addr);
	if (loc)
		return loc;
	loc = location_new(e, addr);
	if (!loc)
		return &no_location;
	if (!map64_put(&e->locations, addr, loc)) {
		location_free(loc);
		return &no_location;
	}
	return loc;
}

bool symbolizer_function(struct symbolizer *s, uint64_t addr, uint64_t *start, uint64_t *end)
{
	struct entry *e = entry_find(s, addr);
	struct symbols *symbols;
	struct dwarf_names *dwarf;
	struct dwarf_place p;

	if (!e || !file_has_names(e->file))
		return false;
	symbols = file_symbols(e->file);
	dwarf = file_dwarf(e->file);
	if (dwarf && dwarf_names_lookup(dwarf, addr - e->bias, &p)) {
		bool has_function = p.has_function;

		*start = p.start + e->bias;
		*end = p.end + e->bias;
		dwarf_place_deinit(&p);
		if (has_function)
			return true;
	}
	if (!symbols || !symbols_find(symbols, addr - e->bias, false, start, end))
		return false;
	*start += e->bias;
	*end += e->bias;
	return true;
}

bool symbolizer_data_name(struct symbolizer *s, uint64_t addr, char *buf, size_t len)
{
	struct entry *e = entry_find(s, addr);
	struct symbols *symbols = e && file_has_names(e->file) ? file_symbols(e->file) : NULL;
	const struct symbol *sym;
	uint64_t start, end;
	char *name;

	sym = symbols ? symbols_find(symbols, addr - e->bias, true, &start, &end) : NULL;
	name = sym ? demangle_or_copy(sym->name) : NULL;
	if (!name)
		return false;
	if (addr - e->bias > start)
		snprintf(buf, len, "%s+0x%" PRIx64, name, addr - e->bias - start);
	else
		snprintf(buf, len, "%s", name);
	free(name);
	return true;
}
