#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/task.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/code_name.h"
#include "watchctl/engine/plan/filter.h"
#include "watchctl/monitor/monitored.h"

unsigned int monitor_pointers(const struct monitor *m, unsigned int i)
{
	return m->options.watch[i].follow ? m->watch[i].variable.npointers : 0;
}

bool monitor_is_per_thread(const struct monitored *w)
{
	return w->variable.thread_local_storage;
}

/* The fewest registers that watch @i can do with; of one that was not found yet, one. */
static unsigned int least_registers(const struct monitor *m, unsigned int i)
{
	const struct monitored *w = &m->watch[i];
	unsigned int n = w->armed ? w->nparts : 1;

	if (!w->armed && w->size && !monitor_is_per_thread(w))
		n = range_registers(w->variable.addr, w->size);
	return n + monitor_pointers(m, i);
}

/* What is left for watch @i when all others get the least they need. */
static unsigned int registers_left(const struct monitor *m, unsigned int i)
{
	unsigned int used = monitor_pointers(m, i), k;

	for (k = 0; k < MONITOR_WATCHES; k++)
		if (k != i && monitor_wants(m, k))
			used += least_registers(m, k);
	return used < RANGE_PARTS ? RANGE_PARTS - used : 0;
}

static struct wc_error *no_size(const struct watch_request *r)
{
	return wc_error_new(WC_EUSAGE, "the size of %s is not known: choose it with -s, 1 to %u bytes",
			    r->expr, RANGE_MAX);
}

/* Too large for the registers that are left: what would fit, by number or by name. */
static struct wc_error *too_large(const struct monitor *m, unsigned int i, unsigned int left)
{
	const struct watch_request *r = &m->options.watch[i];
	const struct monitored *w = &m->watch[i];
	unsigned int pointers = monitor_pointers(m, i);
	char registers[160];

	if (!left && pointers)
		return wc_error_new(
			WC_ESLOTS,
			"%s with --follow takes %u debug registers, one for it and one for each pointer on its path, "
			"and a CPU has four: name a shorter path, or omit --follow",
			r->expr, pointers + 1);
	if (!left)
		return wc_error_new(WC_ESLOTS, "no debug register is left for %s: a CPU has four", r->expr);
	snprintf(registers, sizeof(registers),
		 left == RANGE_PARTS ? "the four debug registers of a CPU cover"
				     : "the %u debug register%s that the other watches leave cover%s",
		 left, left == 1 ? "" : "s", left == 1 ? "s" : "");
	if (w->variable.members && !r->size)
		return wc_error_new(
			WC_EUSAGE,
			"%s is %u bytes long, and from its address %s at most %u: name a part of it (%s), or "
			"choose the first bytes with -s %u",
			r->expr, w->size, registers, range_longest(w->variable.addr, left),
			w->variable.members, range_longest(w->variable.addr, left));
	return wc_error_new(
		WC_EUSAGE,
		"%u bytes of %s are too many: from its address (0x%llx), %s at most %u bytes: choose fewer with -s",
		w->size, r->expr, (unsigned long long)w->variable.addr, registers,
		range_longest(w->variable.addr, left));
}

/* Nothing of a process lies where addresses end, and a range that goes on there has no last byte. */
static struct wc_error *check_end(const struct watch_request *r, const struct monitored *w)
{
	if (w->variable.addr <= UINT64_MAX - w->size)
		return NULL;
	return wc_error_new(
		WC_ENAME,
		"%u byte%s from 0x%llx on reach%s the end of the address space, which is no memory of a process: %s "
		"cannot be watched",
		w->size, w->size == 1 ? "" : "s", (unsigned long long)w->variable.addr,
		w->size == 1 ? "es" : "", r->expr);
}

static struct wc_error *check_slot(const struct watch_request *r, const struct monitored *w)
{
	if (r->slot < 0 || w->nparts == 1)
		return NULL;
	return wc_error_new(
		WC_EUSAGE,
		"-i names one debug register, and %u bytes of %s at 0x%llx take %u: omit -i, or choose 1, 2, 4 or 8 "
		"aligned bytes with -s",
		w->size, r->expr, (unsigned long long)w->variable.addr, w->nparts);
}

/* Each thread's copy may lie elsewhere, but always aligned as its type is. */
static struct wc_error *plan_per_thread(const struct watch_request *r, struct monitored *w)
{
	if (w->size != 1 && w->size != 2 && w->size != 4 && w->size != 8)
		return wc_error_new(
			WC_EUSAGE,
			"%s is thread-local and %u bytes long: only 1, 2, 4 or 8 bytes of a thread-local variable can "
			"be watched; choose them with -s, or name a part of it%s%s%s",
			r->expr, w->size, w->variable.members ? " (" : "",
			w->variable.members ? w->variable.members : "", w->variable.members ? ")" : "");
	w->nparts = 1;
	w->part[0] = (struct range_part){ .size = w->size, .want_size = w->size };
	return NULL;
}

/* Right after proc_map_at() said false of @at, a byte of watch @i. */
static struct wc_error *not_mapped(const struct monitor *m, unsigned int i, uint64_t at)
{
	const int error = errno;

	if (proc_is_ending(m->pid, task_with_memory(m->pid)))
		return wc_error_context(proc_unread_error(m->pid), "%s cannot be armed",
					m->options.watch[i].expr);
	errno = error;
	if (error || at == m->watch[i].variable.addr)
		return proc_map_error(m->pid, at);
	return wc_error_context(proc_map_error(m->pid, at), "the range reaches into an unmapped page");
}

static struct wc_error *check_mapped(const struct monitor *m, unsigned int i)
{
	const struct monitored *w = &m->watch[i];
	uint64_t first = w->variable.addr, last = first + w->size - 1;
	struct proc_map map;

	for (uint64_t at = first;; at = last) {
		if (!proc_map_at(m->pid, at, &map))
			return not_mapped(m, i, at);
		if (m->options.watch[i].access == ACCESS_EXECUTE && !map.exec)
			return wc_error_new(WC_ENAME,
					    "there is no code at 0x%llx: that memory cannot be executed",
					    (unsigned long long)at);
		if (at == last)
			return NULL;
	}
}

/* Of what shows where it is, without the places that only say when to look again. */
static void drop_bounds(struct variable *v)
{
	unsigned int i, n = 0;

	for (i = 0; i < v->npointers; i++)
		if (!(v->bounds >> i & 1))
			v->pointer[n++] = v->pointer[i];
	v->npointers = n;
	v->bounds = 0;
}

static struct wc_error *plan_registers(const struct monitor *m, unsigned int i, struct monitored *w)
{
	const struct watch_request *r = &m->options.watch[i];
	unsigned int left;
	struct wc_error *err;

	if (r->access == ACCESS_EXECUTE)
		w->size = 1;
	else if (!r->size && w->variable.size > UINT32_MAX)
		w->size = UINT32_MAX;
	else
		w->size = r->size ? r->size : (uint32_t)w->variable.size;
	if (!w->size)
		return no_size(r);
	if (monitor_is_per_thread(w))
		return plan_per_thread(r, w);
	err = check_end(r, w);
	if (err)
		return err;
	left = registers_left(m, i);
	if (r->follow && w->variable.bounds && range_registers(w->variable.addr, w->size) > left) {
		drop_bounds(&w->variable);
		left = registers_left(m, i);
	}
	w->nparts = range_plan(w->variable.addr, w->size, left, w->part);
	if (!w->nparts)
		return too_large(m, i, left);
	err = check_mapped(m, i);
	return err ? err : check_slot(r, w);
}

/* "new==0, caller f, one in 10": what the log says about hits that are missing. */
static char *filter_text(const struct watch_request *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	const char *comma = "";
	unsigned int i;

	if (!f)
		return NULL;
#define PUT(...)                         \
	do {                             \
		fputs(comma, f);         \
		fprintf(f, __VA_ARGS__); \
		comma = ", ";            \
	} while (0)
	if (r->condition)
		PUT("%s", r->condition);
	if (r->changes)
		PUT("changes");
	if (r->thread)
		PUT("thread %s", r->thread);
	for (i = 0; i < r->ncallers; i++)
		PUT("caller %s", r->callers[i]);
	for (i = 0; i < r->nnot_callers; i++)
		PUT("not caller %s", r->not_callers[i]);
	if (r->sample > 1)
		PUT("one in %llu", (unsigned long long)r->sample);
	if (r->rate > 0)
		PUT("at most %g a second", r->rate);
#undef PUT
	if (fclose(f) || !len) {
		free(text);
		return NULL;
	}
	return text;
}

static struct wc_error *add_ranges(struct monitor *m, const struct module_list *modules, const char *function,
				   struct wire_filter *f, uint32_t *count, bool *missing)
{
	struct code_range *range = NULL;
	size_t n = 0, i;
	struct wc_error *err = code_ranges(m->locator, function, modules, &range, &n, missing);

	for (i = 0; i < n && !err; i++) {
		uint32_t at = f->ncallers + f->nnot_callers;

		if (at == FILTER_RANGES) {
			err = wc_error_new(
				WC_ENOTSUP,
				"the functions given with --caller and --not-caller have code in more than %u places "
				"(\"%s\" alone in %zu): choose one with FILE.c:FUNCTION or LIB.so:FUNCTION",
				FILTER_RANGES, function, n);
			break;
		}
		f->callers[at] = (struct filter_range){ range[i].start, range[i].end };
		(*count)++;
	}
	free(range);
	return err;
}

static struct wc_error *plan_filter(struct monitor *m, unsigned int i, const struct module_list *modules,
				    bool *missing)
{
	const struct watch_request *r = &m->options.watch[i];
	struct monitored *w = &m->watch[i];
	struct filter_spec spec = {
		.condition = r->condition,
		.changes = r->changes,
		.thread = r->thread,
		.sample = r->sample,
		.rate = r->rate,
		.has_value = r->access != ACCESS_EXECUTE,
	};
	struct value_type type = w->size == w->variable.size ? w->variable.type : (struct value_type){ 0 };
	uint32_t size = w->size < 8 ? w->size : 8;
	struct wc_error *err;
	unsigned int k;

	if (w->nparts > 1 && (r->condition || r->changes))
		return wc_error_new(
			WC_EUSAGE,
			"%s takes %u debug registers, each with its own value, so that there can be no condition on "
			"the whole value: watch a part of it with -s or by name",
			r->expr, w->nparts);
	err = filter_compile(&spec, &type, size, &w->filter);
	for (k = 0; k < r->ncallers && !err; k++)
		err = add_ranges(m, modules, r->callers[k], &w->filter, &w->filter.ncallers, missing);
	for (k = 0; k < r->nnot_callers && !err; k++)
		err = add_ranges(m, modules, r->not_callers[k], &w->filter, &w->filter.nnot_callers, missing);
	if (err)
		return err;
	free(w->filter_text);
	w->filter_text = filter_text(r);
	return NULL;
}

struct wc_error *monitor_plan(struct monitor *m, unsigned int i, bool *missing)
{
	const struct watch_request *r = &m->options.watch[i];
	struct monitored *w = &m->watch[i];
	struct memory_view mem = proc_memory(&m->pid);
	struct module_list modules = { 0 };
	struct wc_error *err = module_list_read(m->pid, &modules);

	*missing = false;
	w->waits = false;
	w->nparts = 0;
	if (!err) {
		variable_deinit(&w->variable);
		err = r->access == ACCESS_EXECUTE
			      ? locate_code(m->locator, r->expr, &modules, &mem, &w->variable, missing)
			      : locate(m->locator, r->expr, &modules, &mem, &w->variable, missing);
	}
	w->has_bounds = w->variable.bounds;
	if (err && r->follow && w->variable.null_pointer) {
		wc_error_free(err);
		module_list_deinit(&modules);
		w->waits = true;
		return NULL;
	}
	if (!err)
		err = plan_registers(m, i, w);
	if (!err)
		err = plan_filter(m, i, &modules, missing);
	module_list_deinit(&modules);
	return err;
}
