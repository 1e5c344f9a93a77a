#include "watchctl/monitor/calls/call_functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/symbols/code_image.h"
#include "watchctl/patch/plan/code_map.h"
#include "watchctl/step/model/track.h"

void call_functions_deinit(struct call_functions *f)
{
	for (size_t i = 0; i < f->nfiles; i++) {
		module_deinit(&f->file[i].m);
		code_source_ranges_free(f->file[i].sources);
	}
	for (size_t i = 0; i < f->n; i++)
		free(f->function[i].name);
	free(f->file);
	free(f->function);
	free(f->site);
	free(f->refused);
	free(f->module_found);
	free(f->callee);
	code_source_choice_free(f->sources);
	wc_error_free(f->err);
	map64_deinit(&f->by_addr);
	map64_deinit(&f->landing);
	map64_deinit(&f->called);
}

/* The modules */

static bool same_file(const struct module *a, const struct module *b)
{
	return a->bias == b->bias && !strcmp(a->path, b->path) && a->build_id_len == b->build_id_len &&
	       !memcmp(a->build_id, b->build_id, a->build_id_len);
}

/* UINT32_MAX: no memory. */
static uint32_t file_of(struct call_functions *f, const struct module *m, bool is_selected)
{
	struct call_file file = { .is_selected = is_selected };

	for (size_t i = f->nfiles; i--;)
		if (same_file(&f->file[i].m, m))
			return (uint32_t)i;
	if (!module_copy(m, &file.m))
		return UINT32_MAX;
	if (!vec_push(f->file, f->nfiles, f->file_cap, file)) {
		module_deinit(&file.m);
		return UINT32_MAX;
	}
	return (uint32_t)(f->nfiles - 1);
}

static bool is_selected_module(struct call_functions *f, const struct module_list *all,
			       const struct module *m)
{
	const struct call_selection *s = &f->selection;
	bool ret = false;

	if (!s->nmodules)
		return m->is_program;
	if (!f->module_found)
		f->module_found = calloc(s->nmodules, sizeof(*f->module_found));
	if (!f->module_found) {
		f->failed = true;
		return false;
	}
	for (size_t i = 0; i < s->nmodules; i++)
		if (module_by_name(all, s->module[i]) == m)
			ret = f->module_found[i] = true;
	return ret;
}

const char *call_functions_missing_module(const struct call_functions *f)
{
	for (size_t i = 0; i < f->selection.nmodules; i++)
		if (!f->module_found || !f->module_found[i])
			return f->selection.module[i];
	return NULL;
}

/* Libraries that have functions which leave otherwise than by returning. */
static bool may_leave(const struct module *m)
{
	static const char *const begins[] = { "libc.so.",     "libc-2.",      "libpthread",   "libgcc_s.so",
					      "libstdc++.so", "libc++abi.so", "libunwind.so", "ld-musl-" };
	const char *name = basename(m->path);

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (!strncmp(name, begins[i], strlen(begins[i])))
			return true;
	return false;
}

static void read_sources(struct call_functions *f, struct call_file *file)
{
	const struct call_selection *s = &f->selection;
	struct wc_error *err;

	if (!s->nsources || file->sources)
		return;
	if (!f->sources)
		f->sources = code_source_choice_new(s->source, s->nsources);
	err = f->sources ? code_source_choose(f->sources, &file->m, &file->sources) : &wc_enomem;
	f->err = wc_error_first(f->err, err);
}

static bool wants_chosen_module(struct call_functions *f, const struct module_list *all,
				const struct module *m)
{
	struct wc_error *err = call_choice_look(f->choice, all);
	const bool chosen = !err && call_choice_wants_module(f->choice, m);

	f->err = wc_error_first(f->err, err);
	f->last_module = NULL; /* of another look, what lies at the same place in our memory is another one */
	if (!chosen && !may_leave(m)) /* a C library has where handlers return to */
		return false;
	f->failed |= file_of(f, m, chosen) == UINT32_MAX;
	return true;
}

bool call_functions_wants_module(struct call_functions *f, const struct module_list *all,
				 const struct module *m)
{
	bool selected;
	uint32_t file;

	if (f->choice)
		return wants_chosen_module(f, all, m);
	selected = is_selected_module(f, all, m);
	if (!selected && !may_leave(m))
		return false;
	file = file_of(f, m, selected);
	f->failed |= file == UINT32_MAX;
	if (selected && file != UINT32_MAX)
		read_sources(f, &f->file[file]);
	return true;
}

/* Which functions are wanted */

static bool fits_any(const char *name, const char *const *glob, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (code_image_name_fits(name, glob[i]))
			return true;
	return false;
}

static bool is_selected(const struct call_selection *s, const struct map_function *f)
{
	if (s->min_size && f->end - f->start < s->min_size)
		return false;
	if (s->nfunctions && !(f->name && fits_any(f->name, s->function, s->nfunctions)))
		return false;
	return !f->name || !fits_any(f->name, s->without, s->nwithout);
}

/*
 * It ends calls that do not return: by an exception, longjmp, the end of a thread; or goes on elsewhere. What ends the process or executes
 * another program is none of them: a child of vfork() does that on its parent's stack.
 */
static bool is_extra(const struct map_function *f)
{
	const enum track_leaves leaves = f->name ? track_leaves_of(f->name) : TRACK_NORMAL;

	return leaves == TRACK_THROWS || leaves == TRACK_FORCES || leaves == TRACK_RESUMES ||
	       leaves == TRACK_CATCHES || leaves == TRACK_JUMPS || leaves == TRACK_ENDS_THREAD ||
	       leaves == TRACK_SWITCHES;
}

static bool has_source(const struct call_functions *f, uint32_t file, uint64_t addr)
{
	const struct code_source_ranges *r = f->file[file].sources;

	return !f->selection.nsources || (r && code_source_ranges_have(r, addr));
}

/* The point at @addr, of the file; NULL: none. */
static struct call_point *point_at(const struct call_functions *f, const struct module *m, uint64_t addr)
{
	return call_choice_point(f->choice, m->bias + addr);
}

/* @file: that it is in. */
static bool is_wanted(const struct call_functions *f, uint32_t file, const struct map_function *function,
		      bool *extra)
{
	bool selected;

	*extra = false;
	if (f->choice)
		return point_at(f, &f->file[file].m, function->start);
	selected = f->file[file].is_selected && is_selected(&f->selection, function) &&
		   has_source(f, file, function->start);
	*extra = !selected && is_extra(function);
	return selected || *extra;
}

/*
 * Signal handlers return to code of the C library that does nothing but call rt_sigreturn (arch/x86/entry/syscalls/syscall_64.tbl: 15):
 * mov $0xf,%rax; syscall in glibc, mov $0xf,%eax; syscall in musl.
 */
static void find_restorers(struct call_functions *f, const struct patch_module *m)
{
	static const struct {
		uint8_t bytes[9];
		size_t len;
	} code[] = { { { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 9 },
		     { { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 }, 7 } };

	for (size_t i = 0; i < m->map.nparts; i++)
		for (size_t k = 0; k < sizeof(code) / sizeof(code[0]); k++) {
			const struct code_part *p = &m->map.part[i];
			const uint8_t *at = p->bytes, *end = p->bytes + p->len;

			for (; f->nrestorers < CALL_RESTORERS &&
			       (at = memmem(at, (size_t)(end - at), code[k].bytes, code[k].len));
			     at++)
				f->restorer[f->nrestorers++] =
					m->module.bias + p->start + (uint64_t)(at - p->bytes);
		}
}

bool call_functions_is_restorer(const struct call_functions *f, uint64_t address)
{
	for (size_t i = 0; i < f->nrestorers; i++)
		if (f->restorer[i] == address)
			return true;
	return false;
}

static bool wants_function(struct call_functions *f, const struct patch_site *site)
{
	if (site->function != f->last || site->module != f->last_module) {
		const uint32_t before = f->last ? f->last_file : UINT32_MAX;

		f->last = site->function;
		f->last_module = site->module;
		f->last_file = file_of(f, &site->module->module, false);
		if (f->last_file != before)
			find_restorers(f, site->module);
		f->last_wanted = f->last_file != UINT32_MAX &&
				 is_wanted(f, f->last_file, site->function, &f->last_extra);
	}
	return f->last_wanted;
}

/* The functions */

static uint64_t key_of(uint32_t file, uint64_t addr)
{
	uint64_t key = hash_bytes(HASH_START, &file, sizeof(file));

	return hash_bytes(key, &addr, sizeof(addr));
}

/* Jumps of a function, as far as they say how it may end, and begin. */
static void look_at_jumps(const struct code_map *map, const struct map_function *in, uint64_t entry,
			  struct call_function *ret)
{
	struct insn_brief i;

	for (uint64_t at = in->start; at < in->end && code_map_insn(map, at, &i); at += i.len) {
		if (i.flow != INSN_JUMP && i.flow != INSN_COND)
			continue;
		if (i.has_target && (i.target == entry || i.target == in->start))
			ret->loops_to_start = true;
		else if (!i.has_target || i.target < in->start || i.target >= in->end)
			ret->jumps_away = true;
	}
}

/* The function that is entered at @site; UINT32_MAX: no memory. */
static uint32_t add_function(struct call_functions *f, const struct patch_site *site)
{
	const struct map_function *in = site->function;
	struct call_function new = { .file = f->last_file, .is_extra = f->last_extra };
	uint64_t key;

	/* One that lies in another: of that, only the rest is its own. */
	new.addr = site->addr - in->start <= 4 ? in->start : site->addr;
	new.size = in->end - new.addr;
	key = key_of(new.file, in->start);
	look_at_jumps(&site->module->map, in, site->addr, &new);
	if (in->name && new.addr == in->start) {
		new.leaves = (uint8_t)track_leaves_of(in->name);
		new.name = code_image_name_shown(in->name);
		if (!new.name)
			return UINT32_MAX;
	}
	if (!vec_push(f->function, f->n, f->cap, new)) {
		free(new.name);
		return UINT32_MAX;
	}
	/* What leaves @in leaves the first that was entered in it: nothing but a count depends on which of them that is. */
	if (!map64_get(&f->by_addr, key) && !map64_put(&f->by_addr, key, (void *)(uintptr_t)f->n))
		return UINT32_MAX;
	return (uint32_t)(f->n - 1);
}

/* Marks: what is known of a site until it has a number. */
#define MARK_PLACE 7u
#define MARK_BEGINS 8u
#define MARK_ENDS 16u
#define MARK_LANDS 32u
#define MARK_BITS 6u

static uint32_t mark_of(uint32_t number, enum call_place place)
{
	return number << MARK_BITS | (uint32_t)place;
}

/* To where a traced function begins: that is entered then, and its end is theirs. To a part that was split off: nothing has ended. */
static bool goes_on_traced(struct call_functions *f, const struct code_map *map, uint64_t target)
{
	const struct map_function *to = code_map_function(map, target);
	const struct code_part *part = code_map_part(map, target);
	bool extra;

	if (!part || part->is_stubs || !to)
		return false;
	if (!(code_map_marks(map, target) & MARK_ENTRY) || (to->name && strstr(to->name, ".cold")))
		return true;
	return is_wanted(f, f->last_file, to, &extra);
}

static enum call_place entry_place(struct call_functions *f, const struct code_map *map, uint64_t addr)
{
	struct insn_brief i;

	if (!code_map_insn(map, addr, &i))
		return CALL_ENTRY;
	if (i.flow == INSN_RET)
		return CALL_WHOLE;
	return i.flow == INSN_JUMP && !(i.has_target && goes_on_traced(f, map, i.target)) ? CALL_STUB
											  : CALL_ENTRY;
}

static bool wants_entry(struct call_functions *f, const struct patch_site *site, uint32_t *mark)
{
	uint32_t function = add_function(f, site);

	if (function == UINT32_MAX) {
		f->failed = true;
		return false;
	}
	*mark = function << MARK_BITS | entry_place(f, &site->module->map, site->addr);
	return true;
}

static bool wants_exit(struct call_functions *f, const struct patch_site *site, uint32_t *mark)
{
	const struct code_map *map = &site->module->map;
	const uintptr_t function =
		(uintptr_t)map64_get(&f->by_addr, key_of(f->last_file, site->function->start));
	struct insn_brief i;

	if (!function || !code_map_insn(map, site->addr, &i))
		return false;
	if (i.flow != INSN_RET && i.has_target && goes_on_traced(f, map, i.target))
		return false;
	*mark = (uint32_t)(function - 1) << MARK_BITS | (i.flow == INSN_RET ? CALL_RETURN : CALL_JUMP);
	return true;
}

/* The choice of `watchctl step` */

/* The function of @point, which is in the file @file; UINT32_MAX: no memory. @site: its own code; NULL: that is elsewhere. */
static uint32_t function_of_point(struct call_functions *f, struct call_point *point, uint32_t file,
				  const struct patch_site *site)
{
	struct call_function *function;
	struct call_function new = { .file = file };
	char *name = NULL;

	if (point->function != CALL_POINT_NEW)
		return point->function;
	if (point->name && !(name = strdup(point->name)))
		return UINT32_MAX;
	if (site) {
		point->function = add_function(f, site);
	} else {
		new.addr = point->address - f->file[file].m.bias;
		point->function =
			vec_push(f->function, f->n, f->cap, new) ? (uint32_t)(f->n - 1) : UINT32_MAX;
	}
	if (point->function == UINT32_MAX) {
		free(name);
		return UINT32_MAX;
	}
	function = &f->function[point->function];
	if (name) {
		free(function->name);
		function->name = name;
	}
	function->address = point->address;
	function->leaves = point->leaves;
	function->is_over = point->over;
	return point->function;
}

/* That nothing is told of. */
static uint32_t hidden_function(struct call_functions *f, const struct patch_site *site)
{
	const struct call_function new = { .file = f->last_file, .is_hidden = true };
	uint32_t ret;

	if (site) {
		ret = add_function(f, site);
		if (ret != UINT32_MAX)
			f->function[ret].is_hidden = true;
		return ret;
	}
	if (!f->has_any) {
		if (!vec_push(f->function, f->n, f->cap, new))
			return UINT32_MAX;
		f->any = (uint32_t)(f->n - 1);
		f->has_any = true;
	}
	return f->any;
}

/* False: no memory. */
static bool find_landings(struct call_functions *f, const struct patch_site *site)
{
	const struct code_map *map = &site->module->map;
	const struct map_function *in = site->function;
	struct insn_brief i;

	map64_deinit(&f->called);
	f->landed = in;
	for (uint64_t at = in->start; at < in->end && code_map_insn(map, at, &i); at += i.len) {
		const struct code_part *to = i.has_target ? code_map_part(map, i.target) : NULL;
		uint64_t callee = to ? i.target + site->module->module.bias : 1;

		if (to && to->is_stubs && !call_choice_point(f->choice, callee))
			callee = 1; /* another module's function, which is recorded there */
		if (i.flow == INSN_CALL && !map64_put(&f->called, at + i.len, (void *)(uintptr_t)callee))
			return false;
	}
	return true;
}

/* Whether a call that is recorded may return to @site; *@callee: in the process; 0: it is not known. */
static bool is_landing(struct call_functions *f, const struct patch_site *site, uint64_t *callee)
{
	const uint64_t ip = site->module->module.bias + site->addr;
	const struct call_point *p;

	if (!site->function || !call_choice_is_in_module(f->choice, ip))
		return false;
	if (f->landed != site->function && !find_landings(f, site)) {
		f->failed = true;
		return false;
	}
	*callee = (uintptr_t)map64_get(&f->called, site->addr);
	if (!*callee)
		return false;
	*callee = *callee == 1 ? 0 : *callee;
	p = call_choice_point(f->choice, *callee);
	return !*callee || (p && !p->over) || call_choice_is_code(f->choice, ip);
}

static bool wants_chosen_entry(struct call_functions *f, const struct patch_site *site, bool is_end,
			       uint32_t *mark)
{
	const struct module *m = &site->module->module;
	struct call_point *point = point_at(f, m, site->addr);
	uint32_t function;
	enum call_place place = CALL_MARK;

	if (!point && site->addr - site->function->start <= 4)
		point = point_at(f, m, site->function->start);
	if (!point && !is_end)
		return false;
	if (point) {
		point->met = true;
		function = function_of_point(f, point, f->last_file, site);
		place = point->over ? CALL_ENTRY : entry_place(f, &site->module->map, site->addr);
	} else {
		function = hidden_function(f, site);
	}
	f->failed |= function == UINT32_MAX;
	*mark = mark_of(function, place);
	return !f->failed;
}

static bool wants_stub(struct call_functions *f, const struct patch_site *site, uint32_t *mark)
{
	const struct module *m = &site->module->module;
	struct call_point *point = point_at(f, m, site->addr);
	uint32_t function;

	if (!point)
		point = point_at(f, m, site->addr - 4); /* an endbr64 is in front */
	if (!point || !point->over)
		return false;
	point->met = true;
	function = function_of_point(f, point, f->last_file, NULL);
	f->failed |= function == UINT32_MAX;
	*mark = mark_of(function, CALL_ENTRY);
	return !f->failed;
}

/* Where a function is left, or where a call returns to; both may be one. */
static bool wants_chosen_end(struct call_functions *f, const struct patch_site *site, bool is_end,
			     uint32_t *mark)
{
	uint64_t callee = 0;
	const bool lands = is_landing(f, site, &callee);

	*mark = 0;
	if (site->pattern->kind == PATTERN_EXIT && wants_exit(f, site, mark)) {
		if (f->function[call_functions_marked(f, *mark)].is_over && (*mark & MARK_PLACE) == CALL_JUMP)
			return false;
		*mark |= lands ? MARK_LANDS : 0;
		return true;
	}
	if (!lands && !is_end)
		return false;
	f->failed |= !vec_push(f->callee, f->ncallees, f->callee_cap, callee);
	*mark = (uint32_t)(f->ncallees - 1) << MARK_BITS | (lands ? CALL_LANDING | MARK_LANDS : CALL_MARK);
	return !f->failed;
}

static bool wants_chosen(struct call_functions *f, const struct patch_site *site, uint32_t *mark)
{
	const uint64_t ip = site->module->module.bias + site->addr;
	bool is_function, begins = ip == call_choice_from(f->choice, &is_function),
			  ends = ip == call_choice_to(f->choice), wanted;

	f->last_file = file_of(f, &site->module->module, false);
	if (f->last_file == UINT32_MAX || hidden_function(f, NULL) == UINT32_MAX) {
		f->failed = true;
		return false;
	}
	if (f->last_module != site->module) {
		find_restorers(f, site->module);
		f->landed = NULL;
	}
	f->last_module = site->module;
	f->last = site->function;
	f->last_extra = false;
	switch (site->pattern->kind) {
	case PATTERN_ENTRY:
		f->begins_at_entry |= begins;
		wanted = site->function && wants_chosen_entry(f, site, begins || ends, mark);
		break;
	case PATTERN_STUB:
		wanted = wants_stub(f, site, mark);
		break;
	default:
		wanted = wants_chosen_end(f, site, begins || ends, mark);
		break;
	}
	*mark |= (begins ? MARK_BEGINS : 0) | (ends ? MARK_ENDS : 0);
	return wanted;
}

bool call_functions_wants(struct call_functions *f, const struct patch_site *site, uint32_t *mark)
{
	if (f->choice)
		return !f->failed && wants_chosen(f, site, mark);
	if (!site->function || f->failed || !wants_function(f, site))
		return false;
	return site->pattern->kind == PATTERN_ENTRY ? wants_entry(f, site, mark) : wants_exit(f, site, mark);
}

uint32_t call_functions_marked(const struct call_functions *f, uint32_t mark)
{
	const enum call_place place = (enum call_place)(mark & MARK_PLACE);

	return place == CALL_LANDING || place == CALL_MARK ? f->any : mark >> MARK_BITS;
}

uint64_t call_site_passed(const struct call_site *s)
{
	return s->seen + __atomic_load_n(&s->counter->count, __ATOMIC_RELAXED) +
	       __atomic_load_n(&s->counter->lost, __ATOMIC_RELAXED);
}

/* The sites of a function come one behind the other. */
static bool add_refused(struct call_functions *f, uint32_t function, bool at_end, const char *why)
{
	const struct call_refused new = { function, at_end, 1, why };

	for (size_t i = f->nrefused; i-- && f->refused[i].function == function;)
		if (f->refused[i].at_end == at_end && !strcmp(f->refused[i].why, why)) {
			f->refused[i].places++;
			return true;
		}
	return vec_push(f->refused, f->nrefused, f->refused_cap, new);
}

bool call_functions_refusal_counts(const struct call_functions *f, const struct call_refused *r)
{
	return !r->at_end || !f->function[r->function].entry_refused;
}

bool call_functions_lands(const struct call_functions *f, uint64_t address)
{
	return map64_get(&f->landing, address);
}

/* One that ends or begins the range, and is not patched. */
static struct wc_error *end_refused(const struct call_site *s, const char *why)
{
	return wc_error_new(
		WC_ENOTSUP,
		"the range cannot %s at 0x%llx, which cannot be patched (%s); --stepper ptrace can",
		s->begins ? "begin" : "end", (unsigned long long)s->ip, why);
}

bool call_functions_placed(struct call_functions *f, uint32_t site, uint64_t ip, uint32_t mark,
			   struct probe_counter *counter, const char *why, const char *why_short)
{
	const enum call_place place = (enum call_place)(mark & MARK_PLACE);
	const struct call_site new = { .function = call_functions_marked(f, mark),
				       .place = place,
				       .callee = place == CALL_LANDING ? f->callee[mark >> MARK_BITS] : 0,
				       .begins = mark & MARK_BEGINS,
				       .ends = mark & MARK_ENDS,
				       .lands = mark & MARK_LANDS,
				       .ip = ip,
				       .counter = counter };
	struct call_function *function = &f->function[new.function];
	bool entry = call_place_is_entry(new.place);

	while (f->nsites <= site)
		if (!vec_push(f->site, f->nsites, f->site_cap, (struct call_site){ 0 }))
			return false;
	f->site[site] = new;
	f->landings_refused += new.lands && !counter;
	if (new.lands && counter && !map64_put(&f->landing, ip, f))
		return false;
	if (!counter && (new.begins || new.ends))
		f->err = wc_error_first(f->err, end_refused(&new, why));
	if (counter) {
		if (entry) {
			function->at = counter;
			function->entry = site;
		}
		return true;
	}
	if (new.place == CALL_LANDING || new.place == CALL_MARK)
		return true;
	if (!f->why[0] && !function->is_extra)
		snprintf(f->why, sizeof(f->why), "%s", why);
	if (entry)
		function->entry_refused = true;
	else
		function->exit_refused = true;
	return function->is_extra || function->is_hidden || add_refused(f, new.function, !entry, why_short);
}
