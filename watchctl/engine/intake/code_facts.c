#include "watchctl/engine/intake/code_facts.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/map64.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/insn/call_site.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/engine/intake/access_fact.h"
#include "watchctl/patch/apply/patch_copies.h"
#include "watchctl/target/proc/proc.h"

#define INT3 0xcc
#define FACTS_MAX (1u << 17)
#define SKEW_NS 20000u /* between the clocks of records, and the kernel's of what it reports */
#define COPIES_MIN_NS 20000000ull
#define COPIES_MAX_NS 1000000000ull

struct code_facts {
	pid_t pid;
	struct wire_area area; /* no write(): nobody looks into tables */
	struct event_sink sink;
	struct code_facts_hooks hooks;
	struct code_modules *modules;
	uint64_t heard_ns; /* when what the kernel reports was taken last */
	struct cfi *cfi;
	struct symbolizer *symbols;
	struct map64 facts;  /* pc -> struct code_fact, owned */
	struct map64 called; /* return addresses that were found to stand behind a call */
	bool met_unknown;
	uint64_t *rule_key,
		*fact_key; /* mirrors of the published tables' keys: the target's copy is not trusted */
	uint64_t rules_withdrawn;	     /* how often */
	struct patch_copies *copies;	     /* NULL: there was no reason to look for patches */
	uint64_t copies_ns, copies_every_ns; /* of the last look, and how long until the next one */
};

static void withdraw_published(void *ctx, uint64_t start, uint64_t end);

static void on_task(void *ctx, const struct map_event *e)
{
	struct code_facts *f = ctx;

	if (f->hooks.task)
		f->hooks.task(f->hooks.ctx, e);
}

struct code_facts *code_facts_new(pid_t pid, const struct wire_area *area, struct event_sink sink)
{
	struct code_facts *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->pid = pid;
	if (area)
		f->area = *area;
	f->sink = sink;
	f->modules = code_modules_new(pid, &(struct code_modules_hooks){ withdraw_published, on_task, f });
	f->cfi = cfi_new();
	f->symbols = symbolizer_new();
	f->rule_key = calloc(WIRE_RULES, sizeof(uint64_t));
	f->fact_key = calloc(WIRE_ACCESS_FACTS, sizeof(uint64_t));
	if (!f->modules || !f->cfi || !f->symbols || !f->rule_key || !f->fact_key) {
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
	code_modules_free(f->modules);
	cfi_free(f->cfi);
	symbolizer_free(f->symbols);
	patch_copies_free(f->copies);
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
static void code_facts_publish(struct code_facts *f, uint64_t at, const void *entry, size_t size,
			       uint64_t key)
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
	code_facts_publish(f, WIRE_RULES_OFFSET + (uint64_t)slot * sizeof(entry), &entry, sizeof(entry), key);
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
	code_facts_publish(f, WIRE_FACTS_OFFSET + (uint64_t)slot * sizeof(entry), &entry, sizeof(entry),
			   fact->pc);
}

static bool withdraw_keys(struct code_facts *f, uint64_t *keys, size_t n, uint64_t table, size_t entry_size,
			  uint64_t start, uint64_t end)
{
	const uint64_t gone = WIRE_KEY_GONE;
	bool any = false;
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t addr = keys[i] & ~WIRE_RETURN_ADDRESS;

		if (keys[i] == WIRE_KEY_GONE || addr < start || addr >= end)
			continue;
		keys[i] = WIRE_KEY_GONE;
		area_write(f, table + i * entry_size, &gone, sizeof(gone));
		any = true;
	}
	return any;
}

static void withdraw_published(void *ctx, uint64_t start, uint64_t end)
{
	struct code_facts *f = ctx;

	if (withdraw_keys(f, f->rule_key, WIRE_RULES, WIRE_RULES_OFFSET, sizeof(struct wire_rule), start,
			  end)) {
		f->rules_withdrawn++;
		area_write(f, offsetof(struct wire_control, rules_withdrawn), &f->rules_withdrawn,
			   sizeof(f->rules_withdrawn));
	}
	withdraw_keys(f, f->fact_key, WIRE_ACCESS_FACTS, WIRE_FACTS_OFFSET, sizeof(struct wire_access_fact),
		      start, end);
}

static void withdraw(struct code_facts *f, uint64_t start, uint64_t end)
{
	size_t i;

	withdraw_published(f, start, end);
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

bool code_facts_listen(struct code_facts *f, bool family, const struct code_facts_hooks *hooks)
{
	f->hooks = *hooks;
	return code_modules_listen(f->modules, family);
}

bool code_facts_are_reported(const struct code_facts *f)
{
	return code_modules_are_reported(f->modules);
}

bool code_facts_hear_children(const struct code_facts *f)
{
	return code_modules_hears_children(f->modules);
}

struct wc_error *code_facts_restart(struct code_facts *f, bool *changed)
{
	if (!code_modules_restart(f->modules))
		return &wc_enomem;
	return code_facts_refresh(f, monotonic_ns(), changed);
}

static struct wc_error *code_facts_flush(struct code_facts *f)
{
	return f->hooks.flush ? f->hooks.flush(f->hooks.ctx) : NULL;
}

static struct wc_error *report_module(struct code_facts *f, const struct module_change *c)
{
	struct trace_event e = { .type = c->came ? EVENT_MODULE : EVENT_MODULE_GONE,
				 .time_ns = c->time_ns,
				 .module_pid = c->pid == f->pid ? 0 : c->pid,
				 .module = *c->module };
	struct wc_error *err = NULL;

	if (e.module_pid && f->hooks.child)
		err = f->hooks.child(f->hooks.ctx, c->pid, c->time_ns);
	return err ? err : f->sink.put(f->sink.ctx, &e);
}

/*
 * Accesses that are queued are reported before a module that they may refer to is gone, and before one comes that they
 * do not refer to.
 */
static struct wc_error *on_change(struct code_facts *f, const struct module_change *c)
{
	struct wc_error *err = c->came && !c->in_turn ? NULL : code_facts_flush(f);

	withdraw(f, c->module->start, c->module->end); /* "no rule", said before it came */
	if (module_is_jit(c->module))
		f->copies_every_ns = 0;
	if (!err && c->came && (!cfi_add(f->cfi, c->module) || !symbolizer_add(f->symbols, c->module)))
		err = &wc_enomem;
	return err ? err : report_module(f, c);
}

static struct wc_error *happen(struct code_facts *f, uint64_t until_ns, bool *changed)
{
	struct wc_error *err = NULL;
	struct module_change c;
	bool ok = true;

	*changed = false;
	while (!err && code_modules_next(f->modules, until_ns, &c, &ok)) {
		*changed = true;
		err = on_change(f, &c);
	}
	return err || ok ? err : &wc_enomem;
}

struct wc_error *code_facts_hear(struct code_facts *f)
{
	f->heard_ns = monotonic_ns();
	return code_modules_take(f->modules) ? NULL : &wc_enomem;
}

/* What was mapped before an access had been told when the access was made. */
struct wc_error *code_facts_catch_up(struct code_facts *f, uint64_t until_ns, bool *changed)
{
	bool heard = until_ns < f->heard_ns && f->heard_ns - until_ns > SKEW_NS;
	struct wc_error *err = heard ? NULL : code_facts_hear(f);

	*changed = false;
	return err ? err : happen(f, until_ns, changed);
}

bool code_facts_want_look(const struct code_facts *f)
{
	return code_modules_wants_look(f->modules);
}

bool code_facts_over(const struct code_facts *f)
{
	return code_modules_over(f->modules);
}

bool code_facts_moved(struct code_facts *f)
{
	return code_modules_moved(f->modules);
}

enum code_doubt code_facts_doubt(const struct code_facts *f, uint64_t addr, uint64_t time_ns)
{
	return code_modules_doubt(f->modules, addr, time_ns);
}

unsigned int code_facts_shared(const struct code_facts *f, pid_t pid, const uint64_t *frame, unsigned int n)
{
	return code_modules_shared(f->modules, pid, frame, n);
}

struct wc_error *code_facts_look_at_child(struct code_facts *f, pid_t pid, bool *changed)
{
	struct wc_error *err = code_modules_look_at_child(f->modules, pid);

	*changed = false;
	return err ? err : happen(f, 0, changed);
}

/* Patches have memory of theirs with code in it, as a JIT's. */
static bool may_be_patched(const struct code_facts *f)
{
	const struct module_list *l = code_facts_modules(f);

	for (size_t i = 0; i < l->n; i++)
		if (module_is_jit(&l->v[i]))
			return true;
	return false;
}

/* Patches come after their memory: where there are none yet, it looks again, and less and less often. */
static void look_for_patches(struct code_facts *f)
{
	uint64_t now = monotonic_ns();

	if (now - f->copies_ns < f->copies_every_ns || !may_be_patched(f))
		return;
	if (!f->copies)
		f->copies = patch_copies_new(f->pid);
	f->copies_ns = now;
	f->copies_every_ns = f->copies_every_ns < COPIES_MIN_NS	  ? COPIES_MIN_NS
			     : f->copies_every_ns < COPIES_MAX_NS ? 2 * f->copies_every_ns
								  : COPIES_MAX_NS;
	if (f->copies)
		patch_copies_look(f->copies);
}

struct wc_error *code_facts_refresh(struct code_facts *f, uint64_t same_ns, bool *changed)
{
	struct wc_error *err;
	bool looked;

	*changed = false;
	err = code_modules_look(f->modules, same_ns, &looked);
	if (!err)
		err = happen(f, 0, changed);
	if (!err && *changed)
		look_for_patches(f); /* while the process is there to be looked at */
	return err;
}

void code_facts_warm_up(struct code_facts *f)
{
	const struct module_list *l = code_facts_modules(f);
	struct unwind_rule rule;
	size_t i;

	for (i = 0; i < l->n; i++)
		cfi_rule(f->cfi, l->v[i].start, &rule);
}

const struct module_list *code_facts_modules(const struct code_facts *f)
{
	return code_modules_list(f->modules);
}

static const struct module *code_facts_find(const struct code_facts *f, uint64_t addr)
{
	return module_find(code_facts_modules(f), addr);
}

uint64_t code_facts_original(struct code_facts *f, uint64_t pc)
{
	const struct module *m = code_facts_find(f, pc);
	uint64_t found;

	if (m && !module_is_jit(m))
		return 0;
	found = f->copies ? patch_copies_original(f->copies, pc) : 0;
	if (found)
		return found;
	look_for_patches(f);
	return f->copies ? patch_copies_original(f->copies, pc) : 0;
}

bool code_facts_covers(const struct code_facts *f, uint64_t addr)
{
	return code_facts_find(f, addr) != NULL;
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

/* What the process has mapped there is still @m. */
static bool is_mapped(const struct code_facts *f, const struct module *m, uint64_t addr)
{
	size_t len = strlen(m->path), most = sizeof((struct proc_map){ 0 }.name) - 1;
	struct proc_map map;

	return proc_map_at(f->pid, addr, &map) && map.exec &&
	       !strcmp(map.name, m->path + (len > most ? len - most : 0));
}

/*
 * A breakpoint, such as a uprobe's, hides the first byte of an instruction, which is executed elsewhere. True if
 * nothing else distinguishes @code from the file's.
 */
static bool only_breakpoints_differ(const uint8_t *code, const uint8_t *file, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (code[i] != file[i] && code[i] != INT3)
			return false;
	return true;
}

/*
 * From the process: code can be changed in memory. But something else may be there by now; then, and once the
 * process is gone, from the module's file.
 */
static bool read_code(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct code_facts *f = ctx;
	struct memory_view mem = proc_memory(&f->pid);
	const struct module *m = code_facts_find(f, addr);
	scoped(freep) uint8_t *file = malloc(len);
	bool in_file = m && file && cfi_code(f->cfi, addr, file, len);

	if (!code_modules_over(f->modules) && !code_modules_changing(f->modules, addr) &&
	    memory_read(&mem, addr, buf, len) &&
	    (!in_file || !memcmp(file, buf, len) || is_mapped(f, m, addr))) {
		look_for_patches(f);
		if (f->copies)
			patch_copies_restore(f->copies, addr, buf, len);
		if (in_file && only_breakpoints_differ(buf, file, len))
			memcpy(buf, file, len);
		return true;
	}
	if (in_file)
		memcpy(buf, file, len);
	return in_file;
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
	const struct module *m = code_facts_find(f, pc);
	struct code_fact *fact = map64_get(&f->facts, pc);
	struct trace_event e = { .type = EVENT_CODE, .time_ns = now_ns };
	bool is_jit = m && module_is_jit(m);

	*ret = fact;
	if (fact && fact_holds(f, fact, is_jit))
		return NULL;
	if (fact) {
		struct wc_error *err = code_facts_flush(
			f); /* of what is queued, some may be about the code that was there */

		if (err)
			return err;
	} else {
		fact = calloc(1, sizeof(*fact));
		if (!fact)
			return &wc_enomem;
		if (!map64_put(&f->facts, pc, fact)) {
			free(fact);
			return &wc_enomem;
		}
	}
	code_fact_fill(fact, pc, function_start(f, pc - 1), &mem);
	if (!is_jit && !code_modules_changing(f->modules, pc))
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
		const struct module *m = code_facts_find(f, frame[i]);

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
		bool known = covers(f, pc) || final, by_table;
		enum unwind_step_result step;
		struct unwind_rule rule;

		cfi_rule(f->cfi, exact ? pc : pc - 1, &rule);
		by_table = cfi_has_table_only(f->cfi, exact ? pc : pc - 1);
		/* Where libunwind may go on, whoever walks by rules must hand the stack over each time. */
		if (known && !by_table && !code_modules_changing(f->modules, pc))
			publish_rule(f, exact ? pc : pc | WIRE_RETURN_ADDRESS, &rule);
		if (by_table)
			step = cfi_step_by_table(f->cfi, exact, mem, &regs);
		else
			step = unwind_step(&rule, &regs, read_word, (void *)(uintptr_t)mem);
		switch (step) {
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
		if (!exact && !by_table && regs.r[WREG_RSP] <= sp)
			return WALK_END_NOT_ASCENDING;
		if (!regs.r[WREG_RIP])
			return rule.kind == UNWIND_FP ? WALK_END_NO_RULE : WALK_END_COMPLETE;
		if ((rule.kind == UNWIND_FP || by_table) && !is_return_address(f, regs.r[WREG_RIP]))
			return WALK_END_NO_RULE;
		frame[(*n)++] = regs.r[WREG_RIP];
	}
	return WALK_END_DEPTH;
}
