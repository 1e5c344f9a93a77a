#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handler/wire.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/task.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/engine/intake/code_modules_impl.h"
#include "watchctl/target/proc/proc.h"

/* An injected handler, ours or another watchctl's: no code of the program's own. */
static bool is_handler(const struct code_modules *c, const struct module *m)
{
	struct memory_view mem = proc_memory(&c->pid);
	uint8_t code[WIRE_CODE_SIZE];

	return module_is_jit(m) && m->end - m->start == sizeof(code) &&
	       memory_read(&mem, m->start, code, sizeof(code)) &&
	       memmem(code, sizeof(code), WIRE_SIGNATURE, strlen(WIRE_SIGNATURE));
}

/* The modules of now, with code that the program made. */
static struct wc_error *list_modules(const struct code_modules *c, struct module_list *ret)
{
	struct wc_error *err = module_list_read(c->pid, ret);
	size_t i, kept = 0;

	if (err || !ret->n)
		return err;
	err = module_list_add_jit(c->pid, ret);
	for (i = 0; i < ret->n; i++) {
		if (is_handler(c, &ret->v[i]))
			module_deinit(&ret->v[i]);
		else
			ret->v[kept++] = ret->v[i];
	}
	ret->n = kept;
	return err;
}

/* A number that is another one when other code is mapped, but for what a JIT makes; 0: cannot be read. */
static uint64_t print_of_code(pid_t pid)
{
	scoped(freep) char *line = NULL;
	scoped(fclosep) FILE *maps = NULL;
	uint64_t print = HASH_START;
	char path[32];
	size_t cap = 0;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/maps", task_with_memory(pid));
	maps = fopen(path, "re");
	if (!maps)
		return 0;
	while ((len = getline(&line, &cap, maps)) > 0) {
		const char *perm = strchr(line, ' ');

		if (!perm || strlen(perm) < 5 || perm[3] != 'x' || !strchr(perm, '/'))
			continue;
		print = hash_bytes(print, line, (size_t)len);
	}
	return feof(maps) ? print : 0;
}

bool code_modules_moved(const struct code_modules *c)
{
	uint64_t print = print_of_code(c->pid);

	return print && print != c->print;
}

struct look {
	uint64_t same_ns;
	uint64_t begin_ns, end_ns; /* what is found was there at some time between */
	bool exact;		   /* all that came was reported, and when */
	struct module_list found;
};

static bool is_found(const struct look *l, const struct module *m)
{
	size_t i;

	for (i = 0; i < l->found.n; i++)
		if (code_modules_same(&l->found.v[i], m))
			return true;
	return false;
}

/* Where nobody knows when it went, what was walked through it since the last look is in doubt. */
static bool find_gone(struct code_modules *c, const struct look *l)
{
	bool ok = true;
	size_t i;

	for (i = c->nlatest; ok && i-- > 0;) {
		const struct latest_module *known = &c->latest[i];

		if (known->pid != c->pid || known->came_ns > l->begin_ns || is_found(l, &known->m))
			continue;
		if (!l->exact && !module_is_jit(&known->m))
			ok = code_modules_exchanged(c, &known->m, l->same_ns, false);
		ok = ok && code_modules_gone(c, i, l->end_ns, !l->exact || module_is_jit(&known->m));
	}
	return ok;
}

/* What has come meanwhile has taken its place. */
static bool is_outdated(const struct code_modules *c, const struct look *l, const struct module *m)
{
	size_t i;

	for (i = 0; i < c->nlatest; i++)
		if (c->latest[i].came_ns > l->begin_ns && !code_modules_same(&c->latest[i].m, m) &&
		    code_ranges_overlap(m->start, m->end, c->latest[i].m.start, c->latest[i].m.end))
			return true;
	return false;
}

static bool find_come(struct code_modules *c, struct look *l)
{
	uint64_t since;
	bool ok = true;
	size_t i, k;

	for (i = 0; ok && i < l->found.n; i++) {
		struct module *m = &l->found.v[i];

		if (is_outdated(c, l, m))
			continue;
		for (k = 0; k < c->nlatest && !code_modules_same(&c->latest[k].m, m); k++)
			;
		if (k < c->nlatest) {
			code_modules_adopt(c, k);
			continue;
		}
		since = code_modules_unread_since(c, m);
		ok = code_modules_came(c, m, c->pid, since ? since : l->begin_ns, !since);
		*m = (struct module){ 0 };
	}
	return ok;
}

/* Another program has another stack; while it is being executed, and where that cannot be read, none. */
enum program { SAME_PROGRAM, OTHER_PROGRAM, PROGRAM_UNKNOWN };

static enum program which_program(const struct code_modules *c)
{
	uint64_t now = c->stack_start ? proc_stack_start(c->pid) : 0;

	if (!c->stack_start || now == c->stack_start)
		return SAME_PROGRAM;
	return now ? OTHER_PROGRAM : PROGRAM_UNKNOWN;
}

/* The process has no memory any more, or that of another program. What else may fail says nothing about it.
 */
static bool has_ended(const struct wc_error *err, const struct look *l, enum program program)
{
	if (err)
		return err->kind == WC_ETARGET;
	return !l->found.n || program == OTHER_PROGRAM;
}

/* Nobody can look at it any more: what was reported of its memory without files is all that is known of that. */
static bool code_modules_look_end(struct code_modules *c, uint64_t now_ns)
{
	bool ok = true;
	size_t i;

	c->over = true;
	for (i = 0; ok && i < c->njit; i++) {
		struct module m = { .start = c->jit[i].start,
				    .end = c->jit[i].end,
				    .path = (char *)MODULE_JIT,
				    .open_path = (char *)MODULE_JIT },
			      copy;
		bool is_new = true;

		for (size_t k = 0; k < c->nlatest; k++)
			is_new &= !code_ranges_overlap(m.start, m.end, c->latest[k].m.start,
						       c->latest[k].m.end);
		ok = !is_new || (module_copy(&m, &copy) && code_modules_came(c, &copy, c->pid, now_ns, true));
	}
	return ok;
}

/* *ret: of the program that @found are of; unknown: it was just ending, or executing another one. */
static struct wc_error *look_once(struct code_modules *c, struct look *l, enum program *ret, bool *ok)
{
	struct wc_error *err;

	module_list_deinit(&l->found);
	l->found = (struct module_list){ 0 };
	l->begin_ns = monotonic_ns();
	l->exact = l->exact && c->events && map_events_are_complete(c->events);
	if (c->events)
		map_events_complete(c->events);
	err = list_modules(c, &l->found);
	l->end_ns = monotonic_ns();
	*ok = code_modules_take(c);
	l->exact = l->exact && map_events_are_complete(c->events);
	*ret = which_program(c);
	return err;
}

struct wc_error *code_modules_look(struct code_modules *c, uint64_t same_ns, bool *ret_looked)
{
	struct look l = { .same_ns = same_ns, .exact = true };
	uint64_t print = print_of_code(c->pid); /* first: what comes between is a change, later */
	enum program program;
	struct wc_error *err;
	bool ok, ended;

	*ret_looked = false;
	if (c->over)
		return NULL;
	c->wants_look = false;
	err = look_once(c, &l, &program, &ok);
	if (!err && ok && program == PROGRAM_UNKNOWN) /* a second one shows whether it has memory any more */
		err = look_once(c, &l, &program, &ok);
	ended = has_ended(err, &l, program);
	*ret_looked = !ended && !err && program == SAME_PROGRAM;
	c->wants_look |= !ended && !*ret_looked;
	wc_error_free(err);
	if (ok && *ret_looked)
		ok = find_gone(c, &l) && find_come(c, &l);
	else if (ok && ended)
		ok = code_modules_look_end(c, l.end_ns);
	if (*ret_looked)
		c->print = print;
	module_list_deinit(&l.found);
	return ok ? NULL : &wc_enomem;
}

static bool is_known(const struct code_modules *c, const struct module *m)
{
	size_t i;

	for (i = 0; i < c->nlatest; i++)
		if (code_modules_same(&c->latest[i].m, m))
			return true;
	return false;
}

struct wc_error *code_modules_look_at_child(struct code_modules *c, pid_t pid)
{
	struct module_list found = { 0 };
	struct wc_error *err = module_list_read(pid, &found);
	bool ok = true;
	size_t i;

	for (i = 0; i < found.n && ok; i++) {
		struct module m = found.v[i];

		if (is_known(c, &m))
			continue;
		found.v[i] = (struct module){ 0 };
		ok = code_modules_child_came(c, &m, pid, monotonic_ns(), true);
	}
	wc_error_free(err); /* it has ended, or may not be looked at */
	module_list_deinit(&found);
	return ok ? NULL : &wc_enomem;
}
