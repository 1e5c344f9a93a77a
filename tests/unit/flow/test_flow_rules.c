/* Rules of the graph of causes: each statement, which of two wins, what is wrong in a text, and what the graph makes of them. */
#include "tests/unit/flow/flow_events.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/flow/rules/flow_rules.h"

static struct flow_rules *rules_of(const char *text)
{
	struct flow_rules *r;
	struct wc_error *err = flow_rules_new_text("a.rules", text, &r);

	if (err)
		print_error("%s\n", err->text);
	assert_null(err);
	return r;
}

static const struct flow_profile *of(struct flow_rules *r, const char *process, const char *thread)
{
	const struct flow_profile *p = flow_rules_profile(r, process, thread);

	assert_non_null(p);
	return p;
}

static enum flow_wait_class on(const struct flow_profile *p, int call, int kind)
{
	const struct flow_event e = {
		.id = FLOW_WAIT_ON, .why = FLOW_SLEEPS, .call = (uint16_t)call, .kind = (uint8_t)kind
	};

	return flow_rules_wait(p, &e, false);
}

static enum flow_wait_class futex(const struct flow_profile *p, uint32_t op, uint32_t word, bool locks)
{
	const struct flow_event e = { .id = FLOW_WAIT_FUTEX,
				      .why = FLOW_SLEEPS,
				      .call = SYS_futex,
				      .op = op,
				      .has_words = true,
				      .word = { word } };

	return flow_rules_wait(p, &e, locks);
}

static enum flow_wait_class because(const struct flow_profile *p, uint32_t id, unsigned int why)
{
	const struct flow_event e = { .id = id, .why = (uint8_t)why, .call = SYS_epoll_wait };

	return flow_rules_wait(p, &e, false);
}

static void test_by_default_work_comes_from_others_and_disks_are_needed(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *r = rules_of("");
	const struct flow_profile *p = of(r, "app", "app");

	assert_int_equal(on(p, SYS_epoll_wait, FLOW_KIND_EPOLL), FLOW_WAIT_IDLE);
	assert_int_equal(on(p, SYS_read, FLOW_KIND_PIPE), FLOW_WAIT_IDLE);
	assert_int_equal(on(p, SYS_recvmsg, FLOW_KIND_OTHER), FLOW_WAIT_IDLE);
	assert_int_equal(on(p, SYS_read, FLOW_KIND_FILE), FLOW_WAIT_OUT);
	assert_int_equal(on(p, SYS_read, FLOW_KIND_NONE), FLOW_WAIT_OUT);
	assert_int_equal(on(p, SYS_write, FLOW_KIND_PIPE), FLOW_WAIT_OUT);
	assert_int_equal(on(p, SYS_wait4, FLOW_KIND_NONE), FLOW_WAIT_OUT);
	assert_int_equal(futex(p, FUTEX_WAIT, 2, true), FLOW_WAIT_OUT);
	assert_int_equal(futex(p, FUTEX_WAIT, 2, false), FLOW_WAIT_IDLE);
	assert_int_equal(futex(p, FUTEX_LOCK_PI_PRIVATE, 7, false), FLOW_WAIT_OUT);
	(void)state;
}

static void test_where_no_call_waits_the_reason_decides(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *r =
		rules_of("idle process odd stopped, page-fault\ninside process odd no-call");
	const struct flow_profile *p = of(r, "app", "app");

	assert_int_equal(because(p, FLOW_SWITCH, FLOW_PREEMPTED), FLOW_WAIT_NONE);
	assert_int_equal(because(p, FLOW_SWITCH, FLOW_IDLE), FLOW_WAIT_IDLE);
	assert_int_equal(because(p, FLOW_SWITCH, FLOW_SLEEPS), FLOW_WAIT_IDLE);
	assert_int_equal(because(p, FLOW_WAIT_CALL, FLOW_SLEEPS), FLOW_WAIT_IDLE);
	assert_int_equal(because(p, FLOW_WAIT_CALL, FLOW_BLOCKED), FLOW_WAIT_OUT);
	assert_int_equal(because(p, FLOW_WAIT_CALL, FLOW_STOPPED), FLOW_WAIT_OUT);
	assert_int_equal(because(p, FLOW_WAIT_CALL, FLOW_SLEEPS | FLOW_WHY_FAULT), FLOW_WAIT_OUT);
	p = of(r, "odd", "worker");
	assert_int_equal(because(p, FLOW_WAIT_CALL, FLOW_STOPPED), FLOW_WAIT_IDLE);
	assert_int_equal(because(p, FLOW_WAIT_CALL, FLOW_SLEEPS | FLOW_WHY_FAULT), FLOW_WAIT_IDLE);
	assert_int_equal(because(p, FLOW_SWITCH, FLOW_SLEEPS), FLOW_WAIT_OUT);
	(void)state;
}

static void test_the_last_rule_that_fits_wins(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *r =
		rules_of("inside process db* poll, select	# call-outs\n"
			 "idle process db* thread io-?, \"my io\" poll\n");

	assert_int_equal(on(of(r, "web", "io-1"), SYS_poll, 0), FLOW_WAIT_IDLE);
	assert_int_equal(on(of(r, "dbd", "main"), SYS_poll, 0), FLOW_WAIT_OUT);
	assert_int_equal(on(of(r, "dbd", "main"), SYS_select, 0), FLOW_WAIT_OUT);
	assert_int_equal(on(of(r, "dbd", "io-1"), SYS_poll, 0), FLOW_WAIT_IDLE);
	assert_int_equal(on(of(r, "dbd", "my io"), SYS_poll, 0), FLOW_WAIT_IDLE);
	assert_int_equal(on(of(r, "dbd", "io-1"), SYS_select, 0), FLOW_WAIT_OUT);
	assert_int_equal(on(of(r, "dbd", "io-12"), SYS_poll, 0), FLOW_WAIT_OUT);
	(void)state;
}

static void test_names_that_fit_the_same_patterns_have_one_profile(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *r = rules_of("inside process db* poll\n");

	assert_ptr_equal(of(r, "db1", "x"), of(r, "db2", "y"));
	assert_ptr_not_equal(of(r, "db1", "x"), of(r, "web", "x"));
	(void)state;
}

static void test_kinds_of_futexes_are_told_apart(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *r = rules_of("inside process a futex on contended\n"
								 "inside process b futex on monotonic\n"
								 "idle process c futex on mutex\n");
	const uint32_t by_clock = FUTEX_WAIT_BITSET_PRIVATE;

	assert_int_equal(futex(of(r, "a", "a"), FUTEX_WAIT, 2, false), FLOW_WAIT_OUT);
	assert_int_equal(futex(of(r, "a", "a"), FUTEX_WAIT, 3, false), FLOW_WAIT_IDLE);
	assert_int_equal(futex(of(r, "b", "b"), by_clock, 0, false), FLOW_WAIT_OUT);
	assert_int_equal(futex(of(r, "b", "b"), by_clock | FUTEX_CLOCK_REALTIME, 0, false), FLOW_WAIT_IDLE);
	assert_int_equal(futex(of(r, "b", "b"), FUTEX_WAIT_PRIVATE, 0, false), FLOW_WAIT_IDLE);
	assert_int_equal(futex(of(r, "c", "c"), FUTEX_WAIT, 2, true), FLOW_WAIT_IDLE);
	(void)state;
}

static enum flow_return returns(const struct flow_profile *p, int call, int kind)
{
	const struct flow_event e = {
		.id = FLOW_CALL_ON, .call = (uint16_t)call, .kind = (uint8_t)kind, .result = 1
	};

	return flow_rules_return(p, &e);
}

static void test_returns_begin_and_end_units(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *r = rules_of("begin process s read, recvfrom on inet\n"
								 "end process s write on inet\n"
								 "keep process s recvfrom\n");
	const struct flow_profile *p = of(r, "s", "s");

	assert_int_equal(returns(p, SYS_read, FLOW_KIND_INET), FLOW_RETURN_BEGINS);
	assert_int_equal(returns(p, SYS_read, FLOW_KIND_PIPE), FLOW_RETURN_PLAIN);
	assert_int_equal(returns(p, SYS_write, FLOW_KIND_INET), FLOW_RETURN_ENDS);
	assert_int_equal(returns(p, SYS_recvfrom, FLOW_KIND_INET), FLOW_RETURN_PLAIN);
	assert_int_equal(returns(of(r, "other", "s"), SYS_read, FLOW_KIND_INET), FLOW_RETURN_PLAIN);
	assert_int_equal(on(p, SYS_read, FLOW_KIND_INET), FLOW_WAIT_IDLE);
	(void)state;
}

static void test_connections_can_be_none(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *none = rules_of("");
	scoped(flow_rules_freep) struct flow_rules *r =
		rules_of("false message, wakeup from app to logger on pipe\n"
			 "true message from app to logger\n"
			 "false lock\n");
	const struct flow_profile *app = of(r, "app", "t"), *logger = of(r, "x", "logger");

	assert_false(flow_rules_have_false(none));
	assert_true(flow_rules_have_false(r));
	assert_true(flow_rules_false(r, FLOW_EDGE_WAKEUP, FLOW_KIND_PIPE, app, logger));
	assert_false(flow_rules_false(r, FLOW_EDGE_WAKEUP, FLOW_KIND_UNIX, app, logger));
	assert_false(flow_rules_false(r, FLOW_EDGE_WAKEUP, FLOW_KIND_PIPE, logger, app));
	assert_false(flow_rules_false(r, FLOW_EDGE_MESSAGE, FLOW_KIND_PIPE, app, logger));
	assert_true(flow_rules_false(r, FLOW_EDGE_LOCK, FLOW_KIND_NONE, logger, app));
	(void)state;
}

static void test_a_set_can_be_used_for_some_processes(void **state)
{
	scoped(flow_rules_freep) struct flow_rules *r = rules_of("use go process caddy\n");

	assert_int_equal(futex(of(r, "caddy", "caddy"), FUTEX_WAIT_PRIVATE, 2, false), FLOW_WAIT_OUT);
	assert_int_equal(futex(of(r, "other", "other"), FUTEX_WAIT_PRIVATE, 2, false), FLOW_WAIT_IDLE);
	(void)state;
}

static void check_error(const char *text, const char *expected)
{
	struct flow_rules *r = NULL;
	scoped(wc_error_freep) struct wc_error *err = flow_rules_new_text("a.rules", text, &r);

	assert_non_null(err);
	assert_null(r);
	assert_int_equal(err->kind, WC_EUSAGE);
	assert_string_equal(err->text, expected);
}

static void test_errors_show_the_word(void **state)
{
	check_error(
		"\n# more\nidle process x epol_wait",
		"\"epol_wait\" is no system call (did you mean epoll_wait, epoll_pwait or epoll_pwait2?), at column 16 of line 3 of a.rules:\n"
		"  idle process x epol_wait\n"
		"                 ^");
	check_error("\tidel poll\n",
		    "\"idel\" is no statement (did you mean idle?), at column 2 of line 1 of a.rules:\n"
		    "   idel poll\n"
		    "   ^");
	check_error("idle read on pype",
		    "\"pype\" is no kind of object (did you mean pipe?), at column 14 of line 1 of a.rules:\n"
		    "  idle read on pype\n"
		    "               ^");
	check_error(
		"use zzzzzzz",
		"\"zzzzzzz\" is no set of rules that watchctl-flow-rules(5) lists, at column 5 of line 1 of "
		"a.rules:\n  use zzzzzzz\n      ^");
	check_error("idle poll, # and", "Expected a system call, at column 12 of line 1 of a.rules:\n"
					"  idle poll, # and\n"
					"             ^");
	check_error("idle read on mutex",
		    "\"mutex\" is a kind of waits in futex alone, at column 14 of line 1 of a.rules:\n"
		    "  idle read on mutex\n"
		    "               ^");
	check_error(
		"begin close",
		"No return of close is recorded: it can neither begin nor end a unit of work, at column 7 of "
		"line 1 of a.rules:\n  begin close\n        ^");
	check_error("idle process \"a poll",
		    "The name has no end: expected \", at column 14 of line 1 of a.rules:\n"
		    "  idle process \"a poll\n"
		    "               ^");
	check_error(
		"false mesage",
		"\"mesage\" is no kind of connection (did you mean message?), at column 7 of line 1 of a.rules:\n"
		"  false mesage\n"
		"        ^");
	check_error("join work write", "Expected \"from\", at column 11 of line 1 of a.rules:\n"
				       "  join work write\n"
				       "            ^");
	check_error("idle poll select", "Expected the end of the line, at column 11 of line 1 of a.rules:\n"
					"  idle poll select\n"
					"            ^");
	(void)state;
}

static void test_every_shipped_set_is_well_formed(void **state)
{
	const char *name, *text;
	size_t i;

	for (i = 0; flow_rules_set(i, &name, &text); i++) {
		scoped(flow_rules_freep) struct flow_rules *r = NULL;
		struct wc_error *err = flow_rules_new(&name, 1, &r);

		if (err)
			print_error("%s\n", err->text);
		assert_null(err);
	}
	assert_in_range(i, 2, 100);
	(void)state;
}

static void test_a_file_is_read_and_a_name_that_is_neither_is_an_error(void **state)
{
	char path[] = "/tmp/flow-rules-XXXXXX";
	const char *asked[] = { path }, *wrong[] = { "ngin" };
	const char text[] = "inside epoll_wait\n";
	const int fd = mkstemp(path);
	scoped(flow_rules_freep) struct flow_rules *r = NULL;
	struct flow_rules *none = NULL;
	struct wc_error *err;

	assert_int_not_equal(fd, -1);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	err = flow_rules_new(asked, 1, &r);
	unlink(path);
	assert_null(err);
	assert_int_equal(on(of(r, "x", "x"), SYS_epoll_wait, 0), FLOW_WAIT_OUT);

	err = flow_rules_new(wrong, 1, &none);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENAME);
	assert_non_null(strstr(err->text, "nginx"));
	wc_error_free(err);
	(void)state;
}

/* In the graph */

static struct flow_graph *graph_by(const char *text)
{
	struct flow_graph *g = flow_graph_new_by(rules_of(text));

	assert_non_null(g);
	name(g, 10, 10, "client");
	name(g, 20, 20, "server");
	name(g, 21, 20, "worker");
	RUN(1, 0, 10);
	RUN(1, 1, 20);
	return g;
}

/* How many units a thread had, and where the last one began. */
static size_t units(struct flow_graph *g, int32_t tid, uint64_t *last)
{
	size_t n, count = 0;
	const struct flow_node *node = flow_graph_nodes(g, &n);

	for (size_t i = 0; i < n; i++)
		if (tid_of(g, (uint32_t)i) == tid) {
			*last = node[i].begin_ns;
			count++;
		}
	return count;
}

static void test_a_loop_that_does_not_sleep_takes_units_one_by_one(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = graph_by("begin process server read on inet\n");
	uint64_t last;

	DONE_ON(5, 1, 20, SYS_read, INET, 7, 10); /* the first one is what it runs for */
	DONE_ON(6, 1, 20, SYS_read, INET, 7, 10); /* more of that */
	DONE_ON(8, 1, 20, SYS_read, INET, 9, -11);
	DONE_ON(9, 1, 20, SYS_read, INET, 9, 10);
	flow_graph_end(g);
	assert_int_equal(units(g, 20, &last), 2);
	assert_int_equal(last, 9);
	(void)state;
}

static void test_a_unit_ends_where_its_reply_is_sent(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g =
		graph_by("begin process server read on inet\nend process server write on inet\n");
	uint64_t last;

	DONE_ON(5, 1, 20, SYS_read, INET, 7, 10);
	DONE_ON(6, 1, 20, SYS_write, INET, 7, 10);
	DONE_ON(9, 1, 20, SYS_read, INET, 7, 10);
	flow_graph_end(g);
	assert_int_equal(units(g, 20, &last), 3); /* what is between is neither's */
	assert_int_equal(last, 9);
	(void)state;
}

static void test_a_thread_has_the_rules_of_its_process_and_of_its_name_now(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g =
		graph_by("inside process server thread worker poll\n");
	uint64_t last;

	RUN(2, 1, 21);
	SLEEP_IN(5, 1, 21, SYS_poll);
	WAKE(10, 0, 10, 21, THREAD);
	EV(11, 1, 0, FLOW_SWITCH, .other = 21);
	name(g, 21, 20, "helper");
	SLEEP_IN(15, 1, 21, SYS_poll);
	WAKE(20, 0, 10, 21, THREAD);
	flow_graph_end(g);
	assert_int_equal(units(g, 21, &last), 2);
	assert_int_equal(last, 20);
	(void)state;
}

static void test_a_false_connection_is_dropped_and_the_others_stay(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = graph_by("false message to server on pipe\n");
	const struct flow_edge *e;
	size_t n;

	SLEEP_ON(5, 1, 20, SYS_read, PIPE, 77);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(14, 0, 10, SYS_write, PIPE, 77, 8);
	RUN(15, 1, 20);
	SLEEP_IN(20, 1, 20, SYS_poll);
	WAKE(30, 0, 10, 20, THREAD);
	EV(31, 0, 10, FLOW_CALL, .call = SYS_kill);
	flow_graph_end(g);
	flow_graph_edges(g, &n);
	assert_int_equal(n, 1);
	assert_null(edge_into(g, 20, 12, 0));
	e = edge_into(g, 20, 30, 0);
	assert_non_null(e);
	assert_int_equal(e->from_ns, 30);
	assert_true(e->flags & FLOW_EDGE_BEGINS);
	(void)state;
}

/* A waking says it already; where the reader did not sleep only the rule does. */
static void test_calls_on_one_object_are_joined(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g =
		graph_by("join work from process client write on eventfd to read on eventfd\n");
	const struct flow_edge *e;
	size_t n;

	SLEEP_ON(5, 1, 20, SYS_read, EVENTFD, 77);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, EVENTFD, 77, 8);
	RUN(12, 1, 20);
	DONE_ON(13, 1, 20, SYS_read, EVENTFD, 77, 8);
	flow_graph_edges(g, &n);
	assert_int_equal(n, 1);

	DONE_ON(20, 0, 10, SYS_write, EVENTFD, 77, 8);
	DONE_ON(21, 1, 20, SYS_read, EVENTFD, 78, 8);
	DONE_ON(22, 1, 20, SYS_write, EVENTFD, 77, 8); /* of another process than the rule's */
	DONE_ON(23, 1, 20, SYS_read, EVENTFD, 77, 8);
	flow_graph_end(g);
	flow_graph_edges(g, &n);
	assert_int_equal(n, 2);
	e = edge_into(g, 20, 23, 0);
	assert_int_equal(e->kind, FLOW_EDGE_WORK);
	assert_int_equal(tid_of(g, e->from), 10);
	assert_int_equal(e->from_ns, 20);
	assert_int_equal(e->to_ns, 23);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_default_work_comes_from_others_and_disks_are_needed),
		cmocka_unit_test(test_where_no_call_waits_the_reason_decides),
		cmocka_unit_test(test_the_last_rule_that_fits_wins),
		cmocka_unit_test(test_names_that_fit_the_same_patterns_have_one_profile),
		cmocka_unit_test(test_kinds_of_futexes_are_told_apart),
		cmocka_unit_test(test_returns_begin_and_end_units),
		cmocka_unit_test(test_connections_can_be_none),
		cmocka_unit_test(test_a_set_can_be_used_for_some_processes),
		cmocka_unit_test(test_errors_show_the_word),
		cmocka_unit_test(test_every_shipped_set_is_well_formed),
		cmocka_unit_test(test_a_file_is_read_and_a_name_that_is_neither_is_an_error),
		cmocka_unit_test(test_a_loop_that_does_not_sleep_takes_units_one_by_one),
		cmocka_unit_test(test_a_unit_ends_where_its_reply_is_sent),
		cmocka_unit_test(test_a_thread_has_the_rules_of_its_process_and_of_its_name_now),
		cmocka_unit_test(test_calls_on_one_object_are_joined),
		cmocka_unit_test(test_a_false_connection_is_dropped_and_the_others_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
