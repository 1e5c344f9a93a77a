#include "watchctl/engine/code_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stackwalk/call_site.h"
#include "stackwalk/cfi.h"
#include "stackwalk/module_code.h"
#include "stackwalk/module_jit.h"
#include "stackwalk/symbolizer.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/engine/access_fact.h"
#include "watchctl/target/proc.h"

#define FACTS_MAX (1u << 17)

struct code_facts {
	pid_t pid;
	struct wire_area area; /* no write(): nobody looks into tables */
	struct event_sink sink;
	struct module_list modules;
	struct cfi *cfi;
	struct symbolizer *symbols;
	struct map64 facts;  /* pc -> struct code_fact, owned */
	struct map64 called; /* return addresses that were found to stand behind a call */
	bool met_unknown;
	uint64_t print;		 /* of what is mapped as code, see code_facts_moved() */
	struct module_list gone; /* those that the last look missed, if it missed any: starts and ends */
	uint64_t *rule_key,
		*fact_key; /* mirrors of the published tables' keys: the target's copy is not trusted */
};

struct code_facts *code_facts_new(pid_t pid, const struct wire_area *area, struct event_sink sink)
{
	struct code_facts *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->pid = pid;
	if (area)
		f->area = *area;
	f->sink = sink;
	f->cfi = cfi_new();
	f->symbols = symbolizer_new();
	f->rule_key = calloc(WIRE_RULES, sizeof(uint64_t));
	f->fact_key = calloc(WIRE_ACCESS_FACTS, sizeof(uint64_t));
	if (!f->cfi || !f->symbols || !f->rule_key || !f->fact_key) {
		code_facts_free(f);
		return NULL;
	}
	return f;
}

void code_facts_free(struct code_facts *f)
{
	if (!f)
		return;
	map64_deinit_values(&f->facts, free);
	map64_deinit(&f->called);
	module_list_deinit(&f->modules);
	module_list_deinit(&f->gone);
	cfi_free(f->cfi);
	symbolizer_free(f->symbols);
	free(f->rule_key);
	free(f->fact_key);
	free(f);
}

void code_facts_bound(struct code_facts *f)
{
	if (f->facts.n > FACTS_MAX)
		map64_deinit_values(&f->facts, free);
	if (f->called.n > FACTS_MAX)
		map64_deinit(&f->called);
}

/* Where @key goes in a table of @n slots; -1: no room near its place. *known: it is there already. */
static long find_slot(const uint64_t *keys, size_t n, uint64_t key, bool *known)
{
	uint64_t at = wire_hash(key);
	long free_slot = -1;
	unsigned int i;

	*known = false;
	for (i = 0; i < WIRE_PROBES; i++, at++) {
		uint64_t have = keys[at & (n - 1)];

		if (have == key) {
			*known = true;
			return (long)(at & (n - 1));
		}
		if (free_slot < 0 && (have == 0 || have == WIRE_KEY_GONE))
			free_slot = (long)(at & (n - 1));
		if (!have)
			break;
	}
	return free_slot;
}

static bool area_write(const struct code_facts *f, uint64_t offset, const void *buf, size_t len)
{
	return f->area.write && f->area.write(f->area.ctx, offset, buf, len);
}

/* Content first, key last: a reader that sees the key sees the content (x86 keeps stores in order). */
static void publish(struct code_facts *f, uint64_t at, const void *entry, size_t size, uint64_t key)
{
	if (!area_write(f, at + 8, (const char *)entry + 8, size - 8))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	area_write(f, at, &key, sizeof(key));
}

static void publish_rule(struct code_facts *f, uint64_t key, const struct unwind_rule *rule)
{
	struct wire_rule entry = { .rule = *rule };
	bool known;
	long slot = find_slot(f->rule_key, WIRE_RULES, key, &known);

	if (slot < 0 || known)
		return;
	f->rule_key[slot] = key;
	publish(f, WIRE_RULES_OFFSET + (uint64_t)slot * sizeof(entry), &entry, sizeof(entry), key);
}

static void publish_fact(struct code_facts *f, const struct code_fact *fact)
{
	uint64_t start, end;
	struct wire_access_fact entry;
	bool known;
	long slot;

	/* One without a size says that nothing can be said: looked up once more, not asked for again. */
	if (cfi_function(f->cfi, fact->pc, &start, &end) && start == fact->pc)
		return; /* a call may have led here: the instruction before need not have run */
	if (!access_fact_make(fact, &entry))
		entry = (struct wire_access_fact){ .base = -1, .index = -1 };
	slot = find_slot(f->fact_key, WIRE_ACCESS_FACTS, fact->pc, &known);
	if (slot < 0 || known)
		return;
	f->fact_key[slot] = fact->pc;
	publish(f, WIRE_FACTS_OFFSET + (uint64_t)slot * sizeof(entry), &entry, sizeof(entry), fact->pc);
}

static void withdraw_keys(struct code_facts *f, uint64_t *keys, size_t n, uint64_t table, size_t entry_size,
			  uint64_t start, uint64_t end)
{
	const uint64_t gone = WIRE_KEY_GONE;
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t addr = keys[i] & ~WIRE_RETURN_ADDRESS;

		if (keys[i] == WIRE_KEY_GONE || addr < start || addr >= end)
			continue;
		keys[i] = WIRE_KEY_GONE;
		area_write(f, table + i * entry_size, &gone, sizeof(gone));
	}
}

static void withdraw(struct code_facts *f, uint64_t start, uint64_t end)
{
	size_t i;

	withdraw_keys(f, f->rule_key, WIRE_RULES, WIRE_RULES_OFFSET, sizeof(struct wire_rule), start, end);
	withdraw_keys(f, f->fact_key, WIRE_ACCESS_FACTS, WIRE_FACTS_OFFSET, sizeof(struct wire_access_fact),
		      start, end);
	for (i = 0; i < f->facts.cap; i++) {
		struct map64_slot *s = &f->facts.slot[i];

		if (!s->used || !s->value || s->key < start || s->key >= end)
			continue;
		free(s->value);
		s->value = NULL;
	}
	for (i = 0; i < f->called.cap; i++)
		if (f->called.slot[i].key >= start && f->called.slot[i].key < end)
			f->called.slot[i].value = NULL;
	cfi_remove(f->cfi, start, end);
	symbolizer_remove(f->symbols, start, end);
}

static struct wc_error *tell_module(struct code_facts *f, enum event_type type, const struct module *m,
				    uint64_t now_ns)
{
	struct trace_event e = { .type = type, .time_ns = now_ns, .module = *m };

	return f->sink.put(f->sink.ctx, &e);
}

static bool same_module(const struct module *a, const struct module *b)
{
	return a->start == b->start && a->bias == b->bias && a->build_id_len == b->build_id_len &&
	       !memcmp(a->build_id, b->build_id, a->build_id_len) && !strcmp(a->path, b->path) &&
	       (a->end == b->end || !module_is_jit(a));
}

static bool listed(const struct module_list *l, const struct module *m)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (same_module(&l->v[i], m))
			return true;
	return false;
}

/* An injected handler, ours or another watchctl's: no code of the program's own. */
static bool is_handler(struct code_facts *f, const struct module *m)
{
	struct memory_view mem = proc_memory(&f->pid);
	uint8_t code[WIRE_CODE_SIZE];

	return module_is_jit(m) && m->end - m->start == sizeof(code) &&
	       memory_read(&mem, m->start, code, sizeof(code)) &&
	       memmem(code, sizeof(code), WIRE_DOORPLATE, strlen(WIRE_DOORPLATE));
}

/* The modules of now, with code that the program made. */
static struct wc_error *list_modules(struct code_facts *f, struct module_list *ret)
{
	struct wc_error *err = module_list_read(f->pid, ret);
	size_t i, kept = 0;

	if (err || !ret->n)
		return err;
	err = module_list_add_jit(f->pid, ret);
	for (i = 0; i < ret->n; i++) {
		if (!is_handler(f, &ret->v[i])) {
			ret->v[kept++] = ret->v[i];
			continue;
		}
		free(ret->v[i].path);
		free(ret->v[i].open_path);
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
	return print;
}

bool code_facts_moved(struct code_facts *f)
{
	uint64_t print = print_of_code(f->pid);

	return print && print != f->print;
}

unsigned int code_facts_before_gone(const struct code_facts *f, const uint64_t *frame, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (module_find(&f->gone, frame[i]))
			break;
	return i;
}

/* A frame pointer leads as far from other code of a JIT. False: no memory. */
static bool note_gone(struct module_list *gone, const struct module *m)
{
	return module_is_jit(m) ||
	       vec_push(gone->v, gone->n, gone->cap, (struct module){ .start = m->start, .end = m->end });
}

struct wc_error *code_facts_refresh(struct code_facts *f, uint64_t now_ns, bool *changed)
{
	struct module_list now = { 0 }, before = f->modules, gone = { 0 };
	uint64_t print = print_of_code(f->pid); /* first: what comes between is a change, later */
	struct wc_error *err = list_modules(f, &now);
	size_t i;

	if (changed)
		*changed = false;
	if (err || !now.n) {
		/* It has ended: what is known about its code stays true for the events still to come. */
		wc_error_free(err);
		module_list_deinit(&now);
		return NULL;
	}
	for (i = 0; i < before.n && !err; i++) {
		if (listed(&now, &before.v[i]))
			continue;
		withdraw(f, before.v[i].start, before.v[i].end);
		err = tell_module(f, EVENT_MODULE_GONE, &before.v[i], now_ns);
		if (!err && !note_gone(&gone, &before.v[i]))
			err = &wc_enomem;
		if (changed)
			*changed = true;
	}
	for (i = 0; i < now.n && !err; i++) {
		if (listed(&before, &now.v[i]))
			continue;
		withdraw(f, now.v[i].start, now.v[i].end); /* "no rule", said before it came */
		if (!cfi_add(f->cfi, &now.v[i]) || !symbolizer_add(f->symbols, &now.v[i]))
			err = &wc_enomem;
		else
			err = tell_module(f, EVENT_MODULE, &now.v[i], now_ns);
		if (changed)
			*changed = true;
	}
	f->modules = now;
	f->print = print;
	if (gone.n) {
		module_list_deinit(&f->gone);
		f->gone = gone;
	}
	module_list_deinit(&before);
	return err;
}

void code_facts_warm_up(struct code_facts *f)
{
	struct unwind_rule rule;
	size_t i;

	for (i = 0; i < f->modules.n; i++)
		cfi_rule(f->cfi, f->modules.v[i].start, &rule);
}

const struct module_list *code_facts_modules(const struct code_facts *f)
{
	return &f->modules;
}

bool code_facts_covers(const struct code_facts *f, uint64_t addr)
{
	return module_find(&f->modules, addr) != NULL;
}

bool code_facts_met_unknown(struct code_facts *f)
{
	bool met = f->met_unknown;

	f->met_unknown = false;
	return met;
}

static bool covers(struct code_facts *f, uint64_t addr)
{
	bool known = code_facts_covers(f, addr);

	f->met_unknown |= !known;
	return known;
}

/* From the process; once it is gone, from the module's file. */
static bool read_code(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct code_facts *f = ctx;
	struct memory_view mem = proc_memory(&f->pid);
	const struct module *m;
	struct module_code *code;
	bool ok;

	if (memory_read(&mem, addr, buf, len))
		return true;
	m = module_find(&f->modules, addr);
	code = m && !module_is_jit(m) ? module_code_new(m) : NULL;
	ok = code && module_code_read(code, addr, buf, len);
	module_code_free(code);
	return ok;
}

static uint64_t function_start(struct code_facts *f, uint64_t addr)
{
	uint64_t start, end;

	if (cfi_function(f->cfi, addr, &start, &end))
		return start;
	if (symbolizer_function(f->symbols, addr, &start, &end))
		return start;
	return 0;
}

/* A JIT writes other code where it had some: there a fact holds only as long as the bytes do. */
static bool fact_holds(struct code_facts *f, const struct code_fact *fact, bool is_jit)
{
	const struct memory_view mem = { read_code, f };
	struct code_fact now;

	if (!is_jit)
		return true;
	code_fact_fill(&now, fact->pc, function_start(f, fact->pc - 1), &mem);
	/* What cannot be read any more is as it was when it was seen. */
	return !now.at_len || !memcmp(&now, fact, sizeof(now));
}

struct wc_error *code_facts_at(struct code_facts *f, uint64_t pc, uint64_t now_ns,
			       const struct code_fact **ret)
{
	const struct memory_view mem = { read_code, f };
	const struct module *m = module_find(&f->modules, pc);
	struct code_fact *fact = map64_get(&f->facts, pc);
	struct trace_event e = { .type = EVENT_CODE, .time_ns = now_ns };
	bool is_jit = m && module_is_jit(m);

	*ret = fact;
	if (fact && fact_holds(f, fact, is_jit))
		return NULL;
	if (!fact) {
		fact = calloc(1, sizeof(*fact));
		if (!fact)
			return &wc_enomem;
		if (!map64_put(&f->facts, pc, fact)) {
			free(fact);
			return &wc_enomem;
		}
	}
	code_fact_fill(fact, pc, function_start(f, pc - 1), &mem);
	if (!is_jit)
		publish_fact(f, fact);
	e.code = *fact;
	*ret = fact;
	return f->sink.put(f->sink.ctx, &e);
}

/*
 * Where a frame pointer led to: is that code, behind a call? rbp may be anything in a program whose JIT
 * keeps no frame pointers. Of what cannot be read any more only the module is known.
 */
static bool is_return_address(struct code_facts *f, uint64_t pc)
{
	uint8_t code[CALL_SITE_MAX];

	if (!covers(f, pc))
		return false;
	if (map64_get(&f->called, pc))
		return true;
	if (!read_code(f, pc - sizeof(code), code, sizeof(code)))
		return true;
	if (!call_site_ends(code, sizeof(code)))
		return false;
	map64_put(&f->called, pc, f);
	return true;
}

void code_facts_check(struct code_facts *f, const uint64_t *frame, unsigned int *n, enum walk_end *why)
{
	unsigned int i;

	for (i = 0; i < *n; i++) {
		const struct module *m = module_find(&f->modules, frame[i]);

		if (!m || !module_is_jit(m))
			continue;
		/* Of compiled code, a return address of 0 is the end of the stack. */
		if (i + 1 < *n ? is_return_address(f, frame[i + 1]) : *why != WALK_END_COMPLETE)
			continue;
		*n = i + 1;
		*why = WALK_END_NO_RULE;
	}
}

static bool read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	return memory_read(ctx, addr, ret, sizeof(*ret));
}

enum walk_end code_facts_walk(struct code_facts *f, struct regs regs, bool exact,
			      const struct memory_view *mem, bool final, uint64_t *frame, unsigned int *n,
			      unsigned int cap)
{
	while (*n < cap) {
		uint64_t pc = regs.r[WREG_RIP], sp = regs.r[WREG_RSP];
		struct unwind_rule rule;

		cfi_rule(f->cfi, exact ? pc : pc - 1, &rule);
		if (covers(f, pc) || final)
			publish_rule(f, exact ? pc : pc | WIRE_RETURN_ADDRESS, &rule);
		switch (unwind_step(&rule, &regs, read_word, (void *)(uintptr_t)mem)) {
		case UNWIND_STEP_OK:
			break;
		case UNWIND_STEP_END:
			return WALK_END_COMPLETE;
		case UNWIND_STEP_UNREADABLE:
			return WALK_END_UNREADABLE;
		default:
			return WALK_END_NO_RULE;
		}
		exact = rule.kind == UNWIND_SIGFRAME;
		if (!exact && regs.r[WREG_RSP] <= sp)
			return WALK_END_NOT_ASCENDING;
		if (!regs.r[WREG_RIP])
			return rule.kind == UNWIND_FP ? WALK_END_NO_RULE : WALK_END_COMPLETE;
		if (rule.kind == UNWIND_FP && !is_return_address(f, regs.r[WREG_RIP]))
			return WALK_END_NO_RULE;
		frame[(*n)++] = regs.r[WREG_RIP];
	}
	return WALK_END_DEPTH;
}
