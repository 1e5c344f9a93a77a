/* Watches that come and go while a session runs, under each engine, against what the victim did. */
#include "tests/unit/effort.h"
#include "tests/unit/live_scene.h"

#include <inttypes.h>

static const enum monitor_engine engines[] = { MONITOR_HANDLER, MONITOR_RING, MONITOR_PTRACE };
static const char *const names[] = { "", "handler", "ring", "ptrace" };

#define ENGINES (sizeof(engines) / sizeof(engines[0]))

/* A session that begins with nothing, on a puppet of its own. */
struct scene {
	enum monitor_engine engine;
	struct actor a;
	struct live *l;
};

static void scene_begin_as(struct scene *s, enum monitor_engine engine, const char *victim, bool pending)
{
	struct live_options o;

	print_message("%s\n", names[engine]);
	s->engine = engine;
	actor_start(&s->a, victim, NULL);
	o = live_on(s->a.pid, engine);
	o.monitor.pending = pending;
	s->l = live_begin(&o);
}

static void scene_begin(struct scene *s, enum monitor_engine engine)
{
	scene_begin_as(s, engine, "puppet", false);
}

static void scene_end(struct scene *s, struct tally *t)
{
	live_tally(s->l, t);
	assert_unharmed(s->a.pid, s->engine);
	actor_end(&s->a);
}

static void a_watch_that_is_added_records_and_one_that_is_removed_does_not(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request flag = write_of("flag"), other = write_of("v_short");
		struct scene s;
		struct tally t;
		uint32_t id, second;

		scene_begin(&s, engines[i]);
		actor_does(&s.a, "write 3");
		id = live_adds(s.l, &flag);
		actor_does(&s.a, "write 5");
		second = live_adds(s.l, &other);
		actor_does(&s.a, "types");
		live_ok(live_remove(s.l, id));
		actor_does(&s.a, "write 4");
		actor_does(&s.a, "types");
		scene_end(&s, &t);
		assert_int_not_equal(id, second);
		assert_account(&t, id);
		assert_account(&t, second);
		assert_int_equal(t.accesses[id], 5);
		assert_int_equal(t.summary[id].counted, 5);
		assert_int_equal(t.accesses[second], 2);
	}
}

static void a_watch_that_is_disabled_keeps_its_id_and_its_counts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request flag = write_of("flag");
		uint64_t start;
		struct scene s;
		struct tally t;
		uint32_t id;

		scene_begin(&s, engines[i]);
		id = live_adds(s.l, &flag);
		start = monotonic_ns();
		for (int n = 0; n < 25; n++) { /* more often than an engine has places */
			actor_does(&s.a, "write 2");
			live_ok(live_enable(s.l, id, false));
			live_ok(live_enable(s.l, id, false));
			actor_does(&s.a, "write 3");
			live_ok(live_enable(s.l, id, true));
			live_ok(live_enable(s.l, id, true));
		}
		print_message("  %llu ms for one of 100 answers\n",
			      (unsigned long long)(monotonic_ns() - start) / 100000000);
		scene_end(&s, &t);
		assert_account(&t, id);
		assert_int_equal(t.accesses[id], 50);
		assert_int_equal(t.summary[id].counted, 50);
		assert_int_equal(t.reported[id], 26);
		assert_non_null(strstr(t.notes, "flag (watch 0) is disabled"));
	}
}

static void a_fifth_watch_is_refused_until_one_is_removed_and_ids_are_never_used_again(void **state)
{
	static const char *const vars[] = { "flag", "v_short", "v_uint", "v_ll" };

	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request fifth = write_of("v_double"), w;
		struct scene s;
		struct tally t;
		uint32_t id[4], last, unused;

		scene_begin(&s, engines[i]);
		for (int k = 0; k < 4; k++) {
			w = write_of(vars[k]);
			id[k] = live_adds(s.l, &w);
			assert_int_equal(id[k], k);
		}
		live_fails(live_add(s.l, &fifth, &unused), WC_ESLOTS, "remove one");
		actor_does(&s.a, "types");
		live_ok(live_remove(s.l, id[1]));
		last = live_adds(s.l, &fifth);
		assert_true(last >= 4);
		live_fails(live_remove(s.l, id[1]), WC_ENAME, "no watch 1");
		live_fails(live_enable(s.l, 77, true), WC_ENAME, "no watch 77");
		actor_does(&s.a, "types");
		actor_does(&s.a, "write 2");
		scene_end(&s, &t);
		for (uint32_t k = 0; k < 4; k++)
			assert_account(&t, k);
		assert_account(&t, last);
		assert_int_equal(t.accesses[0], 2);
		assert_int_equal(t.accesses[1], 1);
		assert_int_equal(t.accesses[2], 2);
		assert_int_equal(t.accesses[3], 2);
		assert_int_equal(t.accesses[last], 1);
	}
}

static void an_add_that_fails_changes_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request flag = write_of("flag"), bad = write_of("no_such_name"), w;
		struct scene s;
		struct tally t;
		uint32_t id, unused;

		scene_begin(&s, engines[i]);
		live_fails(live_add(s.l, &bad, &unused), WC_ENAME, "no_such_name");
		assert_unharmed(s.a.pid, s.engine);
		id = live_adds(s.l, &flag);
		w = flag;
		w.condition = "new ==";
		live_fails(live_add(s.l, &w, &unused), WC_EUSAGE, "");
		w = write_of("big");
		w.size = 32; /* four registers, of which three are left */
		live_fails(live_add(s.l, &w, &unused), WC_EUSAGE, "too many");
		w = write_of("v_ll");
		w.slot = 2;
		if (engines[i] == MONITOR_RING)
			live_fails(live_add(s.l, &w, &unused), WC_ENOTSUP, "ring");
		actor_does(&s.a, "write 6");
		live_fails(live_add(s.l, &bad, &unused), WC_ENAME, "no_such_name");
		scene_end(&s, &t);
		assert_account(&t, id);
		assert_int_equal(t.accesses[id], 6);
		for (uint32_t k = 0; k < IDS; k++)
			assert_int_equal(t.summaries[k], k == id);
	}
}

static void ranges_executes_reads_and_conditions_work_when_they_come_later(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request range = write_of("big"), code = write_of("write_flag"),
				     reads = write_of("flag"), cond = write_of("flag");
		struct scene s;
		struct tally t;
		uint32_t a, b, c, d;

		scene_begin(&s, engines[i]);
		range.size = 16;
		range.expr = "big[2]"; /* and big[3], which is written */
		a = live_adds(s.l, &range);
		actor_does(&s.a, "types");
		live_ok(live_remove(s.l, a));
		code.access = ACCESS_EXECUTE;
		b = live_adds(s.l, &code);
		reads.access = ACCESS_READ;
		c = live_adds(s.l, &reads);
		cond.condition = "new >= 3";
		d = live_adds(s.l, &cond);
		actor_does(&s.a, "write 5");
		actor_does(&s.a, "read 4");
		scene_end(&s, &t);
		for (uint32_t k = 0; k < 4; k++)
			assert_account(&t, k);
		assert_int_equal(t.accesses[a], 1);
		assert_int_equal(t.accesses[b], 5);
		assert_int_equal(t.accesses[c], 4);
		assert_int_equal(t.accesses[d], 2);
		assert_int_equal(t.summary[d].filtered, 3);
	}
}

/* Where the hammer's counter is. */
static uint64_t counter_of(pid_t pid)
{
	char command[300];
	uint64_t address, base;
	FILE *f;

	snprintf(command, sizeof(command), "nm %s/hammer | grep ' counter$'; cat /proc/%d/maps", victim_dir,
		 pid);
	f = popen(command, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%" SCNx64 " %*s %*s %" SCNx64, &address, &base), 2);
	pclose(f);
	return base + address;
}

static int64_t counted(pid_t pid, uint64_t counter)
{
	struct memory_view mem = proc_memory(&pid);
	int64_t n;

	assert_true(memory_read(&mem, counter, &n, sizeof(n)));
	return n;
}

/* Until it has gone on for a while. */
static void wait_for_blows(pid_t pid, uint64_t counter)
{
	const int64_t before = counted(pid, counter);

	WAIT_UNTIL(counted(pid, counter) >= before + 300);
}

static void under_fire_every_hit_is_accounted_for(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request counter = write_of("counter"), scratch = write_of("scratch");
		struct live_options o;
		struct actor a;
		struct tally t;
		struct live *l;
		uint32_t id = 0, other, n = 0;
		uint64_t total, sum = 0, counter_at;

		print_message("%s\n", names[engines[i]]);
		actor_start(&a, "hammer", "3");
		counter_at = counter_of(a.pid);
		o = live_on(a.pid, engines[i]);
		o.bounds.bytes = 0;
		l = live_begin(&o);
		other = live_adds(l, &scratch);
		for (n = 0; n < effort(12); n++) {
			id = live_adds(l, &counter);
			wait_for_blows(a.pid, counter_at);
			live_ok(live_enable(l, id, false));
			wait_for_blows(a.pid, counter_at);
			live_ok(live_enable(l, id, true));
			wait_for_blows(a.pid, counter_at);
			if (n % 3 == 0)
				live_ok(live_enable(l, other, n % 2));
			live_ok(live_remove(l, id));
		}
		live_tally(l, &t);
		assert_unharmed(a.pid, engines[i]);
		total = hammer_end(&a);
		for (uint32_t k = 0; k <= id; k++) {
			assert_account(&t, k);
			assert_true(t.summary[k].counted > 0);
			sum += k == other ? 0 : t.summary[k].counted;
		}
		assert_true(sum <= total);
		for (uint32_t k = 0; k <= id; k++)
			print_message("%llu ", (unsigned long long)t.summary[k].lost);
		print_message("  %llu of %llu counted\n", (unsigned long long)sum, (unsigned long long)total);
	}
}

static void a_path_is_followed_also_when_it_comes_later_and_while_it_was_disabled(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request len = write_of("list.head->len"), flag = write_of("flag");
		struct scene s;
		struct tally t;
		uint32_t id, other;

		scene_begin_as(&s, engines[i], "mover", false);
		len.follow = true;
		id = live_adds(s.l, &len);
		actor_does(&s.a, "len 5");
		actor_does(&s.a, "head b");
		WAIT_UNTIL(logged_places(s.l, id) >= 2); /* the ring engine moves it afterwards */
		actor_does(&s.a, "len 6");
		actor_does(&s.a, "lenof a 60");
		live_ok(live_enable(s.l, id, false));
		actor_does(&s.a, "len 61");
		actor_does(&s.a, "head a");
		live_ok(live_enable(s.l, id, true));
		actor_does(&s.a, "len 7");
		actor_does(&s.a, "lenof b 8");
		live_ok(live_remove(s.l, id));
		actor_does(&s.a, "head b"); /* its hook has gone */
		actor_does(&s.a, "len 9");
		other = live_adds(s.l, &flag); /* in the same place */
		actor_does(&s.a, "head a");
		actor_does(&s.a, "via outer 3");
		scene_end(&s, &t);
		assert_account(&t, id);
		assert_account(&t, other);
		assert_int_equal(t.accesses[id], 3);
		assert_int_equal(t.accesses[other], 3);
	}
}

/* On a machine where watchctl gets no CPU for long, a new thread goes on unwatched: that is said. */
static void assert_seen_or_said(const struct tally *t, uint32_t id, uint64_t n)
{
	if (t->accesses[id] != n && (t->accesses[id] > n || !strstr(t->notes, "not seen")))
		fail_msg("watch %u: %llu of %llu accesses; notes: %s", id,
			 (unsigned long long)t->accesses[id], (unsigned long long)n, t->notes);
}

static void each_threads_own_variable_comes_and_goes_with_its_hooks(void **state)
{
	static const char *const vars[] = { "flag", "list.count", "ratio" };

	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request mine = write_of("mine"), w;
		struct scene s;
		struct tally t;
		uint32_t id, last = 0;

		scene_begin_as(&s, engines[i], "mover", false);
		id = live_adds(s.l, &mine);
		actor_does(&s.a, "tls 2");
		if (engines[i] != MONITOR_RING) { /* which arms new threads when it notices them */
			actor_does(&s.a, "tlsthread 3");
			actor_does(&s.a, "tlsstorm 20 2");
		}
		for (int k = 0; k < 3; k++) { /* takes every register: the hooks for new threads give way */
			w = write_of(vars[k]);
			last = live_adds(s.l, &w);
		}
		actor_does(&s.a, "tls 1");
		actor_does(&s.a, "via inner 4");
		actor_does(&s.a, "double 2");
		live_ok(live_remove(s.l, id));
		actor_does(&s.a, "tls 5");
		w = write_of("list.head");
		live_adds(s.l, &w);
		scene_end(&s, &t);
		for (uint32_t k = 0; k <= last; k++)
			assert_account(&t, k);
		assert_seen_or_said(&t, id, engines[i] == MONITOR_RING ? 3 : 46);
		assert_int_equal(t.accesses[1], 4);
		assert_int_equal(t.accesses[last], 1);
	}
}

static void what_a_library_brings_can_be_waited_for(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request w = write_of("libplugin.so:plugin_state"), flag = write_of("flag");
		char line[300];
		struct scene s;
		struct tally t;
		uint32_t id, other;

		scene_begin_as(&s, engines[i], "puppet", true);
		id = live_adds(s.l, &w);
		other = live_adds(s.l, &flag);
		live_ok(live_enable(s.l, id, false));
		live_ok(live_enable(s.l, id, true));
		snprintf(line, sizeof(line), "dlopen %s/libplugin.so", victim_dir);
		actor_does(&s.a, line);
		WAIT_UNTIL(logged_places(s.l, id) >= 1);
		actor_does(&s.a, "plugin 4");
		actor_does(&s.a, "write 2");
		scene_end(&s, &t);
		assert_account(&t, id);
		assert_account(&t, other);
		/* With its constructor's, where the loader can be made to wait for us. */
		assert_int_equal(t.accesses[id], engines[i] == MONITOR_RING ? t.accesses[id] : 5);
		assert_in_range(t.accesses[id], 4, 5);
		assert_int_equal(t.accesses[other], 2);
	}
}

/* A shell that becomes a puppet, and a puppet that becomes another program. */
static void watches_go_along_into_the_next_program(void **state)
{
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request flag = write_of("flag"), other = write_of("v_ll"),
				     gone = write_of("environ");
		char path[300], line[300];
		struct live_options o;
		struct actor a;
		struct tally t;
		struct live *l;
		uint32_t id, off, in_shell;

		print_message("%s\n", names[engines[i]]);
		snprintf(path, sizeof(path), "%s/becomes", victim_dir);
		victim_sh("printf '#!/bin/sh\\necho pid $$\\nread go\\nexec \"$go\"\\n' > @/becomes && chmod "
			  "+x @/becomes");
		actor_start(&a, "becomes", NULL);
		o = live_on(a.pid, engines[i]);
		o.monitor.follow_exec = true;
		l = live_begin(&o);
		in_shell = live_adds(l, &gone);
		live_ok(live_remove(l, in_shell));
		snprintf(line, sizeof(line), "%s/puppet", victim_dir);
		actor_report(&a, line);
		assert_non_null(fgets(line, sizeof(line), a.out)); /* "pid", of the puppet */
		WAIT_UNTIL(logged_programs(l) >= 2);
		id = live_adds(l, &flag);
		off = live_adds(l, &other);
		live_ok(live_enable(l, off, false));
		actor_does(&a, "write 3");
		actor_does(&a, "types");
		snprintf(line, sizeof(line), "write 2");
		actor_does(&a, line);
		live_tally(l, &t);
		assert_account(&t, id);
		assert_account(&t, off);
		assert_int_equal(t.accesses[id], 5);
		assert_int_equal(t.accesses[off], 0);
		assert_int_equal(t.processes, 2);
		assert_unharmed(a.pid, engines[i]);
		actor_end(&a);
	}
}

/* Ten hits, one pending signal, which comes when nobody wants it any more. */
static void hits_that_wait_in_a_thread_are_lost_with_their_watch_and_harm_nobody(void **state)
{
	struct watch_request flag = write_of("flag");
	struct scene s;
	struct tally t;
	uint32_t id, second;

	(void)state;
	scene_begin(&s, MONITOR_HANDLER);
	id = live_adds(s.l, &flag);
	actor_does(&s.a, "write 2");
	actor_does(&s.a, "block");
	actor_does(&s.a, "write 10");
	live_ok(live_remove(s.l, id));
	second = live_adds(s.l, &flag);
	actor_does(&s.a, "unblock");
	actor_does(&s.a, "write 3");
	scene_end(&s, &t);
	assert_account(&t, id);
	assert_account(&t, second);
	assert_int_equal(t.summary[id].counted, 12);
	assert_int_equal(t.summary[id].lost, 10);
	assert_int_equal(t.accesses[second], 3);
}

static void a_register_of_ones_choice_can_be_given_to_the_next(void **state)
{
	static const enum monitor_engine can[] = { MONITOR_HANDLER, MONITOR_PTRACE };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct watch_request flag = write_of("flag"), other = write_of("v_ll");
		struct scene s;
		struct tally t;
		uint32_t id = 0;

		scene_begin(&s, can[i]);
		flag.slot = other.slot = 1;
		for (int n = 0; n < 3; n++) {
			uint32_t unused;

			id = live_adds(s.l, &flag);
			live_fails(live_add(s.l, &other, &unused), WC_ESLOTS, "");
			actor_does(&s.a, "write 4");
			live_ok(live_remove(s.l, id));
			actor_does(&s.a, "write 5");
			id = live_adds(s.l, &other);
			actor_does(&s.a, "types");
			live_ok(live_remove(s.l, id));
		}
		live_tally(s.l, &t);
		assert_int_equal(ptraced_dr7(s.a.pid), 0);
		actor_end(&s.a);
		for (uint32_t k = 0; k <= id; k++) {
			if (!t.reported[k])
				continue; /* refused */
			assert_account(&t, k);
			assert_true(t.accesses[k] == 4 || t.accesses[k] == 1);
		}
	}
}

/* Whoever traces such a process cannot let go of its first thread, which has ended and stays until the last.
 */
static void a_first_thread_that_has_ended_does_not_hold_up_the_end(void **state)
{
	struct watch_request flag = write_of("flag");
	struct scene s;
	struct tally t;
	uint32_t id;

	(void)state;
	scene_begin_as(&s, MONITOR_PTRACE, "lifecycle", false);
	id = live_adds(s.l, &flag);
	actor_does(&s.a, "leader");
	actor_does(&s.a, "write 3");
	live_tally(s.l, &t);
	assert_account(&t, id);
	assert_int_equal(t.accesses[id], 3);
	actor_does(&s.a, "write 4");
	actor_end(&s.a);
}

/* The build folder that this test is in, as libstackwalk's parts are. */
static bool build_tagged(void)
{
	char self[256], command[1024];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *at;

	self[n > 0 ? n : 0] = '\0';
	at = strstr(self, "/tests/unit/");
	if (!at)
		return false;
	*at = '\0';
	snprintf(command, sizeof(command),
		 "gcc -O2 -g -Istackwalk -pthread -o @/tagged tests/victims/tagged.c %s/libstackwalk-parts.a "
		 "-ldl",
		 self);
	return victim_sh(command);
}

/* Each access of `flag` is followed by a capture whose value is what was written: one order of time. */
static void accesses_of_a_watch_that_comes_later_are_in_order_with_captures(void **state)
{
	struct watch_request flag = write_of("flag");
	enum log_outcome outcome = LOG_EVENT;
	uint64_t accesses = 0, captures = 0, wrong = 0;
	struct tracelog_reader *r = NULL;
	enum event_type last = EVENT_CAPTURE;
	struct live_options o;
	struct trace_event e;
	char path[256];
	struct actor a;
	struct live *l;
	uint32_t id;

	(void)state;
	if (!build_tagged()) {
		print_message("skipped: the victim cannot be linked with libstackwalk\n");
		skip();
	}
	actor_start(&a, "tagged", NULL);
	o = live_on(a.pid, MONITOR_AUTO);
	snprintf(path, sizeof(path), "%s", o.log);
	o.monitor.tags = true;
	l = live_begin(&o);
	actor_does(&a, "flag 5");
	id = live_adds(l, &flag);
	actor_does(&a, "flag 300");
	live_ok(live_remove(l, id));
	actor_does(&a, "flag 7");
	live_ok(live_stop(l));
	live_ok(tracelog_reader_open(path, &r));
	while (outcome == LOG_EVENT) {
		live_ok(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT || (e.type != EVENT_ACCESS && e.type != EVENT_CAPTURE))
			continue;
		accesses += e.type == EVENT_ACCESS;
		captures += e.type == EVENT_CAPTURE;
		wrong += e.type == EVENT_ACCESS && last == EVENT_ACCESS;
		last = e.type;
	}
	tracelog_reader_close(r);
	live_close(l);
	assert_int_equal(accesses, 300);
	assert_int_equal(captures, 312);
	assert_int_equal(wrong, 0);
	assert_unharmed(a.pid, MONITOR_AUTO);
	actor_end(&a);
}

/* Waits for the end of @storms; returns the writes of them all. */
static uint64_t storms_end(const struct actor *a, unsigned int storms)
{
	uint64_t written = 0;
	char answer[64];

	for (; storms; storms--) {
		assert_non_null(fgets(answer, sizeof(answer), a->out));
		assert_int_equal(strncmp(answer, "ok ", 3), 0);
		written += strtoull(answer + 3, NULL, 10);
	}
	return written;
}

/* Threads are born and die while everything changes; each watch's own account must hold. */
static void threads_that_are_born_meanwhile_do_not_upset_the_accounts(void **state)
{
	unsigned int seed = 9;

	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		struct watch_request writes = write_of("flag"), both = write_of("flag");
		uint64_t sum = 0, written = 0;
		uint32_t id[2], last = 0;
		unsigned int storms = 0;
		struct scene s;
		struct tally t;

		scene_begin(&s, engines[i]);
		both.access = ACCESS_READWRITE;
		for (int n = 0; n < 6; n++) {
			for (int k = 0; k < 4; k++, storms++)
				actor_report(&s.a, "storm 80 10");
			id[0] = live_adds(s.l, &writes);
			id[1] = live_adds(s.l, &both);
			pause_ms(rand_r(&seed) % 30);
			live_ok(live_enable(s.l, id[n % 2], false));
			pause_ms(rand_r(&seed) % 10);
			live_ok(live_enable(s.l, id[n % 2], true));
			if (n == 5) { /* all there is to count, however slow the machine */
				actor_report(&s.a, "storm 80 10");
				written = storms_end(&s.a, storms + 1);
			}
			live_ok(live_remove(s.l, id[0]));
			live_ok(live_remove(s.l, id[1]));
			last = id[1];
		}
		scene_end(&s, &t);
		for (uint32_t k = 0; k <= last; k++) {
			assert_account(&t, k);
			sum += t.summary[k].counted;
		}
		assert_true(sum > 0);
		assert_true(sum <= 2 * written);
		print_message("  %llu counted by two watches, of %llu writes\n", (unsigned long long)sum,
			      (unsigned long long)written);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_watch_that_is_added_records_and_one_that_is_removed_does_not),
		cmocka_unit_test(a_watch_that_is_disabled_keeps_its_id_and_its_counts),
		cmocka_unit_test(a_fifth_watch_is_refused_until_one_is_removed_and_ids_are_never_used_again),
		cmocka_unit_test(an_add_that_fails_changes_nothing),
		cmocka_unit_test(ranges_executes_reads_and_conditions_work_when_they_come_later),
		cmocka_unit_test(a_path_is_followed_also_when_it_comes_later_and_while_it_was_disabled),
		cmocka_unit_test(each_threads_own_variable_comes_and_goes_with_its_hooks),
		cmocka_unit_test(what_a_library_brings_can_be_waited_for),
		cmocka_unit_test(watches_go_along_into_the_next_program),
		cmocka_unit_test(accesses_of_a_watch_that_comes_later_are_in_order_with_captures),
		cmocka_unit_test(hits_that_wait_in_a_thread_are_lost_with_their_watch_and_harm_nobody),
		cmocka_unit_test(a_register_of_ones_choice_can_be_given_to_the_next),
		cmocka_unit_test(a_first_thread_that_has_ended_does_not_hold_up_the_end),
		cmocka_unit_test(threads_that_are_born_meanwhile_do_not_upset_the_accounts),
		cmocka_unit_test(under_fire_every_hit_is_accounted_for),
	};

	if (live_session_asked(argc, argv))
		return live_session_main();
	if (!scene_has_hardware())
		return 77;
	return cmocka_run_group_tests(tests, scene_setup, victim_cleanup);
}
