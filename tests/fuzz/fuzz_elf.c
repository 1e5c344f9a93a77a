/*
 * Any bytes are the file of a module, with its symbols and its debug information: names, places and rules
 * come out of it, or do not. What is asked here is what a session, a report and a step ask of a file.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/module_code.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/locate/code_name.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/locate/show.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/code/unwind/cfi.h"

#define START 0x400000u
#define SPAN 0x10000u

static const uint64_t places[] = { 0,	   0xf0,   0x100,  0x120,  0x140, 0x1000,
				   0x1008, 0x1010, 0x1020, 0x1031, 0x2000 };

#define PLACES (sizeof(places) / sizeof(places[0]))

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	if (addr % 5 == 4)
		return false;
	memset(buf, (int)(addr & 0x7f), len);
	return true;
}

static void ask_symbols(const struct module *m)
{
	struct symbolizer *s = symbolizer_new();

	require(s && symbolizer_add(s, m));
	for (size_t i = 0; i < PLACES; i++) {
		const struct location *l = symbolizer_lookup(s, m->start + places[i]);
		uint64_t start, end;
		char name[64];

		require(l && l->nframes >= 1);
		for (size_t k = 0; k < l->nframes; k++) {
			fuzz_read(l->frame[k].function);
			fuzz_read(l->frame[k].file);
		}
		if (symbolizer_function(s, m->start + places[i], &start, &end))
			require(start < end);
		if (symbolizer_data_name(s, m->start + places[i], name, sizeof(name)))
			fuzz_read(name);
	}
	symbolizer_free(s);
}

static void check_error(struct wc_error *err)
{
	if (err)
		require(err == &wc_enomem || (err->text && *err->text));
	wc_error_free(err);
}

static void check_variable(struct variable *v)
{
	fuzz_read(v->name);
	fuzz_read(v->module);
	fuzz_read(v->decl_file);
	fuzz_read(v->members);
	fuzz_read(v->type.name);
	require(v->npointers <= LOCATE_POINTERS);
	for (size_t i = 0; i < v->type.nenumerators; i++)
		fuzz_read(v->type.enumerators[i].name);
	if (v->type.bit_size)
		require(v->type.bit_offset + v->type.bit_size <= 64);
	variable_deinit(v);
}

static void ask_names(const struct module_list *l)
{
	static const char *const variables[] = { "a",	  "b.c",  "b.d[1]", "b.e->c", "*f",    "g.h",
						 "t.c:a", "n::q", "r",	    "x::y",   "nosuch" };
	static const char *const code[] = { "main", "k", "main+4", "t.c:7", "t.c:9", "n::m", "nosuch" };
	const struct memory_view mem = { read_memory, NULL };
	struct locator *locator = locator_new();
	bool missing;

	require(locator);
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		struct variable v = { 0 };
		struct wc_error *err = locate(locator, variables[i], l, &mem, &v, &missing);

		if (!err || v.null_pointer)
			check_variable(&v);
		check_error(err);
	}
	for (size_t i = 0; i < sizeof(code) / sizeof(code[0]); i++) {
		struct variable v = { 0 };
		struct wc_error *err = locate_code(locator, code[i], l, &mem, &v, &missing);
		struct code_range *range = NULL;
		size_t n = 0;

		if (!err)
			check_variable(&v);
		check_error(err);
		err = code_ranges(locator, code[i], l, &range, &n, &missing);
		for (size_t k = 0; !err && k < n; k++)
			require(range[k].start < range[k].end && (!k || range[k - 1].end <= range[k].start));
		check_error(err);
		free(range);
	}
	locator_free(locator);
}

/* What the REPL prints of it. */
static void ask_values(const struct module_list *l)
{
	static const char *const variables[] = { "b", "a", "f", "g", "x", "q", "*b.e", "main" };
	static const char formats[] = "\0xduotacfs";
	const struct memory_view mem = { read_memory, NULL };
	struct show_source s = { locator_new(), l, &mem, symbolizer_new() };

	require(s.locator && s.symbolizer && symbolizer_add(s.symbolizer, &l->v[0]));
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		char *text = NULL;
		struct shown at;

		check_error(show_value(&s, variables[i], formats[i % (sizeof(formats) - 1)], &text));
		fuzz_read(text);
		free(take_ptr(text));
		check_error(show_address(&s, variables[i], &text));
		fuzz_read(text);
		free(text);
		check_error(show_locate(&s, variables[i], &at));
	}
	symbolizer_free(s.symbolizer);
	locator_free(s.locator);
}

static void ask_code(const struct module_list *l)
{
	struct module_code *code = module_code_new(&l->v[0]);
	struct cfi *cfi = cfi_new();
	uint64_t start[8];
	uint8_t bytes[16];

	require(code && cfi && cfi_add(cfi, &l->v[0]));
	for (size_t i = 0; i < PLACES; i++) {
		uint64_t first, end, pc = l->v[0].start + places[i];
		struct unwind_rule rule;

		module_code_read(code, pc, bytes, sizeof(bytes));
		cfi_rule(cfi, pc, &rule);
		require(rule.kind <= UNWIND_FP);
		if (cfi_function(cfi, pc, &first, &end))
			require(first <= pc && pc < end);
	}
	thread_start_addresses(l, NULL, start, 8);
	cfi_free(cfi);
	module_code_free(code);
}

static void ask_head(int fd)
{
	struct module_elf head;
	uint8_t id[BUILD_ID_MAX], len;

	if (module_elf_from_file(fd, &head))
		require(head.nsegments && head.nsegments <= MODULE_ELF_SEGMENTS &&
			head.build_id_len <= BUILD_ID_MAX);
	if (module_elf_build_id(fd, id, &len))
		require(len && len <= BUILD_ID_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct module m = { .start = START, .end = START + SPAN, .bias = START, .path = (char *)"/fuzzed" };
	const struct module_list l = { &m, 1, 1 };
	char path[64];
	int fd;

	fd = memfd_create("elf", MFD_CLOEXEC);
	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m.open_path = path;
	ask_head(fd);
	ask_symbols(&m);
	ask_names(&l);
	ask_values(&l);
	ask_code(&l);
	close(fd);
	return 0;
}
