/* Made of struct slots alone. The members are described in watchctl-list(1). */
#include <stdio.h>

#include "watchctl/cli/output/slots_print.h"
#include "watchctl/view/words/json.h"

static void slots_json_begin(struct json *j, const struct slots *s, const char *type)
{
	json_open(j, NULL, '{');
	json_text(j, "type", type);
	json_number(j, "pid", (uint64_t)s->pid);
	json_text(j, "comm", s->name);
}

static void slots_json_end(struct json *j)
{
	json_close(j, '}');
	json_end_line(j, stdout);
}

static void put_what(struct json *j, const struct slots *s, uint64_t addr, uint32_t size,
		     enum access_kind access)
{
	char name[SLOT_NAME];

	if (addr)
		json_hex(j, "addr", addr);
	else
		json_bool(j, "per_thread", true);
	json_number(j, "size", size);
	json_text(j, "access", slots_access(access));
	if (slots_name(s, addr, name))
		json_text(j, "name", name);
}

static void put_registers(struct json *j, const struct slots *s, const struct slot_thread *t)
{
	unsigned int n;

	if (t->sight != SLOT_SEEN)
		return;
	json_open(j, "registers", '[');
	for (n = 0; n < SLOTS; n++) {
		const struct slot_register *r = &t->reg[n];

		if (!r->armed)
			continue;
		json_open(j, NULL, '{');
		json_number(j, "register", n);
		put_what(j, s, r->addr, r->size, r->access);
		if (r->session >= 0) {
			json_number(j, "owner_pid", (uint64_t)s->session[r->session].owner);
			json_bool(j, "owner_alive", s->session[r->session].lives);
		}
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_slots(struct json *j, const struct slots *s, const struct slot_thread *t, slots_like *like,
		      size_t n)
{
	static const char *const sight[] = { "seen", "none", "traced", "busy", "denied" };
	size_t i;

	slots_json_begin(j, s, "slots");
	json_number(j, "threads", s->nthreads);
	json_number(j, "alike", n);
	json_open(j, "tids", '[');
	for (i = 0; i < s->nthreads; i++)
		if (&s->thread[i] == t || (like && like(&s->thread[i], t)))
			json_number(j, NULL, (uint64_t)s->thread[i].tid);
	json_close(j, ']');
	if (t->used >= 0)
		json_number(j, "used", (uint64_t)t->used);
	if (t->used >= 0)
		json_number(j, "unexplained", t->unexplained_max);
	json_text(j, "sight", sight[t->sight]);
	put_registers(j, s, t);
	slots_json_end(j);
}

static void begin_holder(struct json *j, const struct slots *s, const char *what, pid_t owner)
{
	slots_json_begin(j, s, "holder");
	json_text(j, "holder", what);
	if (owner)
		json_number(j, "owner_pid", (uint64_t)owner);
}

static void put_watches(struct json *j, const struct slots *s, const struct slot_session *one)
{
	unsigned int k;

	if (!one->knows_watches)
		return;
	json_open(j, "watches", '[');
	for (k = 0; one->lives && k < one->nwatches; k++) {
		const struct slot_watch *w = &one->watch[k];

		json_open(j, NULL, '{');
		put_what(j, s, w->addr, w->size, w->access);
		if (w->slot >= 0)
			json_number(j, "register", (uint64_t)w->slot);
		if (w->for_itself)
			json_bool(j, "for_itself", true);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_session(struct json *j, const struct slots *s, const struct slot_session *one)
{
	begin_holder(j, s, "watchctl", one->owner);
	json_text(j, "engine", slots_engine(one->engine));
	if (one->other_version) {
		json_number(j, "version", one->placed->version);
	} else {
		json_bool(j, "alive", one->lives);
		json_bool(j, "certain", true);
	}
	if (one->command)
		json_text(j, "command", one->command);
	if (one->own_tracer)
		json_number(j, "keeper_pid", (uint64_t)one->own_tracer);
	if (one->inherited_from)
		json_number(j, "inherited_from", (uint64_t)one->inherited_from);
	put_watches(j, s, one);
	slots_json_end(j);
}

static void put_others(struct json *j, const struct slots *s)
{
	size_t i;

	if (s->tracer) {
		begin_holder(j, s, "debugger", s->tracer);
		json_text(j, "owner_comm", s->tracer_name);
		json_bool(j, "certain", false);
		slots_json_end(j);
	}
	for (i = 0; i < s->nperf; i++) {
		begin_holder(j, s, "perf", s->perf[i]->pid);
		json_text(j, "owner_comm", s->perf[i]->name);
		json_bool(j, "certain", false);
		json_text(j, "command", s->perf[i]->command);
		json_number(j, "perf_events", s->perf[i]->perf_events);
		slots_json_end(j);
	}
}

void slots_print_json(const struct slots *s, bool threads)
{
	struct json j = { 0 };
	size_t i, n;

	for (i = 0; i < s->nthreads; i++) {
		if (threads)
			put_slots(&j, s, &s->thread[i], NULL, 1);
		else if (slots_is_first(s, i, slots_alike, &n))
			put_slots(&j, s, &s->thread[i], slots_alike, n);
	}
	for (i = 0; i < s->nsessions; i++)
		put_session(&j, s, &s->session[i]);
	put_others(&j, s);
	json_deinit(&j);
}
