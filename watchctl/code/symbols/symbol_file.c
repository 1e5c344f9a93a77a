#include "watchctl/code/symbols/symbol_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/fault_guard.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/dwarf/dwarf_names.h"
#include "watchctl/code/symbols/code_name_match.h"
#include "watchctl/code/symbols/symbols.h"

struct symbol_file {
	struct elffile *elf;
	struct symbols *symbols;   /* NULL: not read yet */
	struct dwarf_names *dwarf; /* NULL: not read yet */
	bool has_facts;
	struct symbol_facts facts;
	char *debug_path;  /* facts.debug_path, if it was reported */
	unsigned int harm; /* 1: no debug information, 2: nothing is read */
};

/* Answers */

struct symbol_answer *symbol_answer_new(struct strings *pool, uint64_t start, const struct frame_name *frame,
					size_t nframes)
{
	struct symbol_answer *a = strings_room(pool, sizeof(*a) + nframes * sizeof(*frame));

	if (!a)
		return NULL;
	a->start = start;
	a->nframes = (uint32_t)nframes;
	for (size_t i = 0; i < nframes; i++)
		a->frame[i] = (struct frame_name){ strings_keep(pool, frame[i].function),
						   strings_keep(pool, frame[i].file), frame[i].line };
	return a;
}

/* Lines beat names, names beat nothing; more inlined calls are more. */
static unsigned int worth(const struct symbol_answer *a)
{
	unsigned int sum = 0;

	for (uint32_t i = 0; a && i < a->nframes; i++)
		sum += (a->frame[i].function ? 1 : 0) + (a->frame[i].file ? 1000 : 0);
	return sum;
}

struct symbol_answer *symbol_answer_better(struct symbol_answer *a, struct symbol_answer *b)
{
	if (!a || !b)
		return a ? a : b;
	return worth(b) > worth(a) ? b : a;
}

/* The file */

struct symbol_file *symbol_file_new(const struct module *m, const struct symbol_search *search)
{
	struct symbol_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->elf = elffile_new_searched(m, search);
	if (!f->elf) {
		free(f);
		return NULL;
	}
	return f;
}

void symbol_file_free(struct symbol_file *f)
{
	if (!f)
		return;
	symbols_free(f->symbols);
	dwarf_names_free(f->dwarf);
	elffile_free(f->elf);
	free(f->debug_path);
	free(f);
}

bool symbol_file_hold(struct symbol_file *f)
{
	return elffile_hold(f->elf);
}

bool symbol_file_is_in_place(const struct symbol_file *f)
{
	return elffile_is_in_place(f->elf);
}

bool symbol_file_is_for(const struct symbol_file *f, const struct module *m)
{
	return elffile_is_for(f->elf, m);
}

void symbol_file_did_harm(struct symbol_file *f)
{
	f->harm++;
	f->has_facts = false;
}

/* In this very process: then nothing of the file is read any more. */
static void abandon(struct symbol_file *f)
{
	f->harm = 2;
	f->has_facts = false;
	f->symbols = NULL;
	f->dwarf = NULL;
	elffile_abandon(f->elf);
}

/* What is asked of a file, and the answer; the file may make the libraries that read it fault. */
struct question {
	struct symbol_file *file;
	uint64_t vaddr, start, end;
	struct strings *pool;
	struct symbol_answer *answer;
	char *name;
	bool is;
};

static void symbol_file_ask(struct question *q, void (*run)(void *ctx))
{
	struct question first = *q;

	if (fault_guarded(run, q))
		return;
	abandon(first.file);
	*q = first;
	run(q); /* what can be said without it */
}

static bool has_names(struct symbol_file *f)
{
	enum elffile_state state = f->harm > 1 ? ELFFILE_MISSING : elffile_state(f->elf);

	return state == ELFFILE_OK || state == ELFFILE_DEBUG_ONLY;
}

static struct symbols *file_symbols(struct symbol_file *f)
{
	if (!f->symbols)
		f->symbols = symbols_new(f->elf);
	return f->symbols;
}

static struct dwarf_names *file_dwarf(struct symbol_file *f)
{
	if (!f->dwarf && !f->harm)
		f->dwarf = dwarf_names_new(f->elf);
	return f->dwarf;
}

static enum symbol_detail detail_of(struct symbol_file *f)
{
	const struct symbols *symbols;
	uint64_t bias;

	if (!has_names(f))
		return SYMBOL_DETAIL_NONE;
	if (!f->harm && elffile_dwarf(f->elf, &bias))
		return SYMBOL_DETAIL_LINES;
	symbols = file_symbols(f);
	if (!symbols || !symbols_has_code(symbols))
		return SYMBOL_DETAIL_NONE;
	return symbols_are_exported_only(symbols) ? SYMBOL_DETAIL_EXPORTED : SYMBOL_DETAIL_SYMBOLS;
}

static enum symbol_source_state source_state(enum elffile_state state)
{
	switch (state) {
	case ELFFILE_OK:
		return SYMBOL_SOURCE_OK;
	case ELFFILE_DEBUG_ONLY:
		return SYMBOL_SOURCE_DEBUG_ONLY;
	case ELFFILE_STALE:
		return SYMBOL_SOURCE_STALE;
	case ELFFILE_MISSING:
		break;
	}
	return SYMBOL_SOURCE_MISSING;
}

static void find_facts(void *ctx)
{
	struct symbol_file *f = ((struct question *)ctx)->file;

	f->facts = (struct symbol_facts){ .damaged = f->harm > 0 };
	f->facts.state = f->harm > 1 ? SYMBOL_SOURCE_MISSING : source_state(elffile_state(f->elf));
	f->facts.detail = detail_of(f);
	f->facts.debug_path = f->harm > 1 ? NULL : elffile_debug_path(f->elf);
	f->has_facts = true;
}

const struct symbol_facts *symbol_file_facts(struct symbol_file *f)
{
	struct question q = { .file = f };

	if (!f->has_facts)
		symbol_file_ask(&q, find_facts);
	return &f->facts;
}

static void find_stale(void *ctx)
{
	struct question *q = ctx;

	q->is = q->file->harm < 2 && elffile_state(q->file->elf) == ELFFILE_STALE;
}

bool symbol_file_is_stale(struct symbol_file *f)
{
	struct question q = { .file = f };

	if (f->has_facts)
		return f->facts.state == SYMBOL_SOURCE_STALE;
	symbol_file_ask(&q, find_stale);
	return q.is;
}

bool symbol_file_set_facts(struct symbol_file *f, const struct symbol_facts *facts)
{
	char *path = facts->debug_path ? strdup(facts->debug_path) : NULL;

	if (facts->debug_path && !path)
		return false;
	free(f->debug_path);
	f->debug_path = path;
	f->facts = *facts;
	f->facts.debug_path = path;
	f->has_facts = true;
	return true;
}

/* Names */

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

/* "f.cold", "f.cold.1" */
static bool ends_in_cold(const char *name)
{
	const char *cold = strstr(name, ".cold");

	return cold && (!cold[5] || (cold[5] == '.' && strspn(cold + 6, "0123456789") == strlen(cold + 6)));
}

/*
 * The name for people, malloc'd: demangled, and without the version and what compilers append to copies
 * ("f.constprop.0"), as debug information has it too. ".cold" stays: offsets in that part do not count from
 * where f starts. NULL: no memory.
 */
static char *shown_name(const char *symbol)
{
	const char *version = strchr(symbol, '@');
	scoped(freep) char *plain = NULL;
	enum hit_part part = HIT_WHOLE;
	scoped(freep) char *name = NULL;
	bool cold = false;
	char *ret;

	plain = version && version > symbol ? strndup(symbol, (size_t)(version - symbol)) : strdup(symbol);
	if (!plain)
		return NULL;
	do
		cold |= ends_in_cold(plain);
	while (code_name_cut_suffix(plain, &part));
	name = demangle(plain);
	if (!cold)
		return name ? take_ptr(name) : take_ptr(plain);
	if (asprintf(&ret, "%s%s", name ? name : plain, name ? " [clone .cold]" : ".cold") < 0)
		return NULL;
	return ret;
}

static struct symbol_answer *from_symbol(const struct symbol *sym, uint64_t start, struct strings *pool)
{
	scoped(freep) char *name = sym ? shown_name(sym->name) : NULL;
	const struct frame_name frame = { .function = name };

	return symbol_answer_new(pool, sym ? start : 0, &frame, 1);
}

static struct symbol_answer *from_dwarf(const struct dwarf_place *p, const struct symbol *sym, uint64_t start,
					struct strings *pool)
{
	scoped(freep) struct frame_name *frame = calloc(p->nframes, sizeof(*frame));
	scoped(freep) char *better = NULL;

	if (!frame)
		return NULL;
	for (size_t i = 0; i < p->nframes; i++)
		frame[i] = (struct frame_name){ p->frame[i].function, p->frame[i].file, p->frame[i].line };
	if (sym && symbol_names_better(sym, start, p))
		better = shown_name(sym->name);
	if (better)
		frame[p->nframes - 1].function = better;
	return symbol_answer_new(pool, p->has_function ? p->start : sym ? start : 0, frame, p->nframes);
}

static void resolve(void *ctx)
{
	struct question *q = ctx;
	struct symbols *symbols = has_names(q->file) ? file_symbols(q->file) : NULL;
	struct dwarf_names *dwarf = has_names(q->file) ? file_dwarf(q->file) : NULL;
	const struct symbol *sym;
	uint64_t start = 0, end = 0;
	struct dwarf_place p;

	sym = symbols ? symbols_find(symbols, q->vaddr, false, &start, &end) : NULL;
	if (dwarf && dwarf_names_lookup(dwarf, q->vaddr, &p)) {
		q->answer = from_dwarf(&p, sym, start, q->pool);
		dwarf_place_deinit(&p);
	} else {
		q->answer = from_symbol(sym, start, q->pool);
	}
	if (q->answer)
		q->answer->from_file = true;
}

struct symbol_answer *symbol_file_resolve(struct symbol_file *f, uint64_t vaddr, struct strings *pool)
{
	struct question q = { .file = f, .vaddr = vaddr, .pool = pool };

	symbol_file_ask(&q, resolve);
	return q.answer;
}

static void find_function(void *ctx)
{
	struct question *q = ctx;
	struct symbols *symbols;
	struct dwarf_names *dwarf;
	struct dwarf_place p;

	if (!has_names(q->file))
		return;
	symbols = file_symbols(q->file);
	dwarf = file_dwarf(q->file);
	if (dwarf && dwarf_names_lookup(dwarf, q->vaddr, &p)) {
		q->is = p.has_function;
		q->start = p.start;
		q->end = p.end;
		dwarf_place_deinit(&p);
	}
	if (!q->is)
		q->is = symbols && symbols_find(symbols, q->vaddr, false, &q->start, &q->end);
}

bool symbol_file_function(struct symbol_file *f, uint64_t vaddr, uint64_t *start, uint64_t *end)
{
	struct question q = { .file = f, .vaddr = vaddr };

	symbol_file_ask(&q, find_function);
	*start = q.start;
	*end = q.end;
	return q.is;
}

static void find_data_name(void *ctx)
{
	struct question *q = ctx;
	struct symbols *symbols = has_names(q->file) ? file_symbols(q->file) : NULL;
	const struct symbol *sym;

	sym = symbols ? symbols_find(symbols, q->vaddr, true, &q->start, &q->end) : NULL;
	q->name = sym ? demangle_or_copy(sym->name) : NULL;
}

char *symbol_file_data_name(struct symbol_file *f, uint64_t vaddr, uint64_t *start)
{
	struct question q = { .file = f, .vaddr = vaddr };

	symbol_file_ask(&q, find_data_name);
	*start = q.start;
	return q.name;
}
