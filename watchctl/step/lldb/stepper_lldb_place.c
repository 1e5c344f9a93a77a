#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/symbols/symbol_address.h"
#include "watchctl/step/lldb/stepper_lldb_impl.h"
#include "watchctl/target/proc/loader_hook.h"

const struct place *stepper_place_find(const struct stepper *m, uint64_t address)
{
	return map64_get(&m->by_address, address);
}

struct place *stepper_place(struct stepper *m, uint64_t address)
{
	struct place *p = map64_get(&m->by_address, address);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->address = address;
	p->point = p->from = NO_POINT;
	if (!map64_put(&m->by_address, address, p)) {
		free(p);
		return NULL;
	}
	if (!vec_push(m->place, m->nplaces, m->places_cap, p))
		return NULL; /* without a breakpoint, and released with the map */
	return p;
}

static bool is_needed(const struct stepper *m, const struct place *p)
{
	if (m->phase == PHASE_OVER || m->phase == PHASE_PAUSED || m->range.state == RANGE_DONE)
		return false;
	if (p->from != NO_POINT || p->to || p->loader || p->once || p->homes)
		return true;
	return m->recording && (p->point != NO_POINT || p->makes || track_awaits(m->track, p->address));
}

struct wc_error *stepper_place_sync(struct stepper *m, struct place *p)
{
	bool needed = is_needed(m, p);
	struct wc_error *err;

	if (needed == p->set)
		return NULL;
	if (!needed) {
		lldb_process_unbreak(m->process, p->address);
		p->set = false;
		return NULL;
	}
	err = lldb_process_break(m->process, p->address);
	p->set = !err;
	return err;
}

/* A function that cannot be stopped in is a function of which no calls are recorded, not the end of it all.
 */
struct wc_error *stepper_places_sync(struct stepper *m)
{
	size_t i, refused = 0;

	for (i = 0; i < m->nplaces; i++) {
		struct wc_error *err = stepper_place_sync(m, m->place[i]);

		refused += !!err;
		wc_error_free(err);
	}
	if (!refused)
		return NULL;
	return stepper_note(
		m, "LLDB could not set breakpoints at %zu functions: their calls are not recorded", refused);
}

void stepper_places_clear(struct stepper *m)
{
	size_t i;

	for (i = 0; i < m->nplaces; i++)
		if (m->place[i]->set) {
			lldb_process_unbreak(m->process, m->place[i]->address);
			m->place[i]->set = false;
		}
}

void stepper_places_free(struct stepper *m)
{
	size_t i;

	for (i = 0; i < m->by_address.cap; i++)
		if (m->by_address.slot[i].used)
			free(m->by_address.slot[i].value);
	map64_deinit(&m->by_address);
	free(m->place);
	m->place = NULL;
	m->nplaces = 0;
}

/* The libraries that may define pthread_create() and fork(), and the program, which may be linked statically.
 */
static bool may_define(const struct module_list *modules, const struct module *m)
{
	const char *base = strrchr(m->path, '/');

	base = base ? base + 1 : m->path;
	return m == modules->v || !strncmp(base, "libc.", 5) || !strncmp(base, "libpthread", 10) ||
	       !strncmp(base, "ld-musl", 7) || !strncmp(base, "libc-", 5);
}

static struct wc_error *add_maker(struct stepper *m, const struct module *in, const char *name,
				  enum maker what)
{
	uint64_t at = symbol_address(in, name);
	struct place *p = at ? stepper_place(m, at) : NULL;

	if (p)
		p->makes = what;
	return at && !p ? &wc_enomem : NULL;
}

static struct wc_error *add_makers(struct stepper *m, const struct module_list *modules)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < modules->n && !err; i++) {
		const struct module *in = &modules->v[i];

		if (!may_define(modules, in))
			continue;
		err = add_maker(m, in, "pthread_create", MAKES_THREAD);
		err = err ? err : add_maker(m, in, "fork", MAKES_PROCESS);
	}
	return err;
}

static struct wc_error *add_loader(struct stepper *m, const struct module_list *modules)
{
	uint64_t at = loader_hook_address(m->o.pid, modules), debug;
	const struct module *loader = at ? module_find(modules, at) : NULL;
	struct place *p = at ? stepper_place(m, at) : NULL;

	if (!at)
		return NULL;
	if (!p)
		return &wc_enomem;
	p->loader = true;
	debug = loader ? symbol_address(loader, "_r_debug") : 0;
	m->loader_state = debug ? debug + offsetof(struct r_debug, r_state) : 0;
	return NULL;
}

struct wc_error *stepper_places_prepare(struct stepper *m)
{
	struct module_list modules = { 0 };
	struct wc_error *err;

	err = module_list_read(m->o.pid, &modules);
	err = err ? err : add_makers(m, &modules);
	err = err ? err : add_loader(m, &modules);
	module_list_deinit(&modules);
	return err;
}

bool stepper_is_code(const struct stepper *m, uint64_t address)
{
	size_t low = 0, high = m->ncode;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (address < m->code[mid].start)
			high = mid;
		else if (address >= m->code[mid].end)
			low = mid + 1;
		else
			return true;
	}
	return false;
}
