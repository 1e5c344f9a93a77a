/* What probes record, as the views show it: lines, the table by site, JSON, stacks by count, and in which order. */
#include "tests/unit/view_output.h"

#include "tests/unit/probe_sample.h"
#include "watchctl/view/event/reorder.h"

static void feed_one(void *to, struct trace_event e)
{
	feed(to, e);
}

static void feed_module(struct annotate *a)
{
	feed(a, (struct trace_event){ .type = EVENT_MODULE,
				      .time_ns = T0,
				      .module = { .start = 0x555555554000,
						  .end = 0x555555559000,
						  .bias = 0x555555554000,
						  .path = (char *)"/usr/bin/app" } });
}

static void feed_sample(struct annotate *a)
{
	feed_process(a);
	feed_module(a);
	put_probes(feed_one, a);
}

/* Ends without totals, and says what was lost on the way. */
static void feed_cut(struct annotate *a)
{
	feed_process(a);
	feed_module(a);
	put_probe_sites(feed_one, a);
	feed(a, probe_value());
	feed(a, (struct trace_event){ .type = EVENT_LOST, .lost = { WATCH_PROBES, 9, "no room" } });
}

static struct output print_chosen(void (*stream)(struct annotate *a), new_printer *printer,
				  const struct report_options *what, const struct event_choice *choice)
{
	const struct print_options options = { .utc = true };
	struct output o = { 0 };

	print_report(stream, printer, 0, &o, &options, what, choice);
	return o;
}

static struct output print(void (*stream)(struct annotate *a), new_printer *printer,
			   const struct report_options *what)
{
	return print_chosen(stream, printer, what, &(struct event_choice){ 0 });
}

static void has(const struct output *o, const char *part)
{
	if (!strstr(o->text, part))
		fail_msg("no \"%s\" in:\n%s", part, o->text);
}

static void has_not(const struct output *o, const char *part)
{
	if (strstr(o->text, part))
		fail_msg("\"%s\" in:\n%s", part, o->text);
}

static void a_line_has_probe_text_place_and_instruction(void **state)
{
	struct output o = print(feed_sample, print_text_new, &(struct report_options){ 0 });

	(void)state;
	has(&o,
	    "  worker/78     probe  on_cas  cas 0x7ffe00000040: -1 -> full (unreadable)  45 46 x  app+0x1160 ");
	has(&o, "lock cmpxchg dword ptr [rdi], esi\n");
	has(&o, "  probe  on_cas  value 0x2a (42)");
	has(&o, "  probe  on_cas  tag slow path, value 0x10000000000 (1099511627776)");
	has(&o, "    #1  app+0x1190\n    #2  0x7ffff7df0d0a\n");
	has(&o, "  probe  on_cas  cas (withheld)");
	has(&o,
	    "\nCOUNT  LOST  PROBE   SITE        SOURCE  THREADS  TACTIC   INSTRUCTION                        "
	    "REFUSED BECAUSE\n"
	    " 1234     3  on_cas  app+0x1160                1  pun      lock cmpxchg dword ptr [rdi], esi\n"
	    "    0     0  on_ret  app+0x1169                -  refused                                     "
	    "endbr64 must stay where it is\n"
	    "\nprobes: reached 1234 times: 5 recorded, 3 lost, in 0.0 s\n");
	has_not(&o, "access");
	free(o.text);
}

static void without_totals_the_events_are_counted(void **state)
{
	struct output o = print(feed_cut, print_text_new, &(struct report_options){ 0 });

	(void)state;
	has(&o, "  lost 9 events of probes: no room\n");
	has(&o, "\nCOUNT  LOST  PROBE   SITE ");
	has(&o, "\n    1        on_cas  app+0x1160 ");
	has(&o,
	    "probes: 1 recorded, 9 lost, in 0.0 s (the recording ends without a summary: these are the numbers "
	    "of its events)\n");
	free(o.text);
}

static void json_has_the_documented_names(void **state)
{
	struct output o = print(feed_sample, print_json_new, &(struct report_options){ 0 });

	(void)state;
	has(&o, "{\"type\":\"patch_site\",\"time_ns\":2000,");
	has(&o,
	    "\"pid\":77,\"probe\":\"on_ret\",\"ip\":\"0x555555555169\",\"module\":\"/usr/bin/app\",\"module_offset\":"
	    "\"0x1169\",\"tactic\":\"refused\",\"reason\":\"endbr64 must stay where it is\",\"addr\":\"0x1169\","
	    "\"pattern\":\"ret\",\"when\":\"after\"}\n");
	has(&o,
	    "\"pid\":77,\"tid\":78,\"comm\":\"worker\",\"probe\":\"on_cas\",\"text\":\"cas 0x7ffe00000040: -1 -> full "
	    "(unreadable)  45 46 x\",\"ip\":\"0x555555555160\",\"insn\":\"lock cmpxchg dword ptr [rdi], esi\","
	    "\"module\":\"/usr/bin/app\",\"module_offset\":\"0x1160\"}\n");
	has(&o, "\"probe\":\"on_cas\",\"value\":\"0x2a\",\"ip\":");
	has(&o, "\"probe\":\"on_cas\",\"tag\":\"slow path\",\"value\":\"0x10000000000\",\"ip\":");
	has(&o, "\"stack\":[{\"ip\":\"0x555555555160\",");
	has(&o, "],\"stack_end\":\"depth\"}\n");
	has(&o, "\"text\":\"cas (withheld)\",\"withheld\":[\"values\"],\"ip\":");
	has(&o, "{\"type\":\"probe_total\",\"probe\":\"on_cas\",\"pid\":77,\"ip\":\"0x555555555160\",");
	has(&o, "\"tactic\":\"pun\",\"count\":1234,\"lost\":3,\"recorded\":5,\"threads\":1}\n");
	has(&o,
	    "{\"type\":\"summary\",\"of\":\"probes\",\"reached\":1234,\"recorded\":5,\"lost\":3,\"filtered\":0,");
	has_not(&o, "\"watch\"");
	free(o.text);
}

static void without_tables_json_has_the_totals_as_they_come(void **state)
{
	struct output o = print(feed_sample, print_json_new, &(struct report_options){ .no_tables = true });

	(void)state;
	has(&o, "{\"type\":\"probe_total\",\"probe\":\"on_ret\",");
	has(&o, "\"count\":1234,\"lost\":3}\n");
	free(o.text);
}

static void of_a_part_the_totals_are_not_shown(void **state)
{
	struct output o = print(feed_sample, print_json_new, &(struct report_options){ .is_part = true });

	(void)state;
	has(&o, "\"tactic\":\"pun\",\"count\":5,\"recorded\":5,\"threads\":1}\n");
	has_not(&o, "\"type\":\"probe_total\",\"probe\":\"on_ret\"");
	free(o.text);
}

static void probes_are_chosen_by_name_and_stacks_by_tag(void **state)
{
	const char *const tag[] = { "slow path" };
	struct report_options what = { 0 };
	struct output o =
		print_chosen(feed_sample, print_text_new, &what, &(struct event_choice){ .watch = "on_ret" });

	(void)state;
	has(&o, "    0     0  on_ret  app+0x1169");
	has_not(&o, "on_cas");
	free(o.text);
	what.no_tables = true;
	o = print_chosen(feed_sample, print_text_new, &what,
			 &(struct event_choice){ .tag = tag, .ntags = 1 });
	has(&o, "tag slow path");
	has_not(&o, "cas 0x");
	free(o.text);
}

static void stacks_are_counted_under_their_tag_or_the_name_of_the_probe(void **state)
{
	const struct report_options what = { .stacks = true, .no_events = true, .no_tables = true };
	struct output o = print(feed_sample, print_folded_new, &what);

	(void)state;
	assert_string_equal(o.text, "[depth];[unknown];[app];[app] 1\n[app] 1\n");
	free(o.text);
	o = print(feed_sample, print_json_new, &what);
	has(&o, "{\"type\":\"stack_count\",\"tag\":\"slow path\",\"count\":1,");
	has(&o, "{\"type\":\"stack_count\",\"tag\":\"on_cas\",\"count\":1,");
	free(o.text);
}

static void events_of_a_site_that_was_never_reported_are_not_lost(struct annotate *a)
{
	feed(a, probe_value());
	feed(a, probe_empty());
	feed(a, probe_total(3, 7, 1));
}

static void what_is_not_known_is_not_made_up(void **state)
{
	struct output o = print(events_of_a_site_that_was_never_reported_are_not_lost, print_text_new,
				&(struct report_options){ 0 });

	(void)state;
	has(&o, "  ?/78          probe  probe 0  value 0x2a (42)  (place not known)\n");
	has(&o, "    7     1  probe 3  -   ");
	free(o.text);
	o = print(events_of_a_site_that_was_never_reported_are_not_lost, print_json_new,
		  &(struct report_options){ 0 });
	has(&o, "\"probe\":\"probe 0\",\"value\":\"0x2a\"}\n");
	has(&o, "{\"type\":\"probe_total\",\"probe\":\"probe 3\",\"count\":7,\"lost\":1,");
	free(o.text);
}

static uint32_t sites_reached;

/* Of 200 sites the first ones were reached. */
static void feed_many(struct annotate *a)
{
	feed_process(a);
	feed_module(a);
	for (uint32_t i = 0; i < 200; i++)
		feed(a, (struct trace_event){ .type = EVENT_PROBE_SITE,
					      .time_ns = T0,
					      .probe_site = { .id = 10 + i,
							      .pid = 77,
							      .probe = "many",
							      .pattern = "ret",
							      .ip = 0x555555555000 + i } });
	for (uint32_t i = 0; i < 200; i++)
		feed(a, probe_total(10 + i, i < sites_reached, 0));
}

static void of_many_sites_those_that_were_reached_are_shown(void **state)
{
	static const struct {
		uint32_t reached, shown;
		const char *text;
	} cases[] = { { 0, 20, "\n180 more sites are not shown, 0 of them reached: --json has them all.\n" },
		      { 30, 30, "\n170 more sites are not shown, 0 of them reached: --json has them all.\n" },
		      { 150, 100,
			"\n100 more sites are not shown, 50 of them reached: --json has them all.\n" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct output o;
		uint32_t rows = 0;

		sites_reached = cases[i].reached;
		o = print(feed_many, print_text_new, &(struct report_options){ 0 });
		for (const char *at = o.text; (at = strstr(at, "  many  ")); at++)
			rows++;
		assert_int_equal(rows, cases[i].shown);
		has(&o, cases[i].text);
		free(o.text);
	}
}

/* Order */

struct seen {
	char text[16][64];
	uint64_t time[16];
	size_t n;
};

static struct wc_error *see(void *ctx, const struct trace_event *e)
{
	struct seen *s = ctx;
	const char *string = e->probe.string[4];

	if (e->type != EVENT_PROBE)
		return NULL;
	snprintf(s->text[s->n], sizeof(s->text[0]), "%s|%s|%s|%llx",
		 e->probe.format ? e->probe.format : "none", e->probe.string[2] ? e->probe.string[2] : "none",
		 string ? string : "none",
		 e->probe.nframes ? (unsigned long long)e->probe.frame[e->probe.nframes - 1] : 0);
	s->time[s->n++] = e->time_ns;
	return NULL;
}

static void put_to_order(void *to, struct trace_event e)
{
	char format[64], string[64];
	uint64_t frame[8];
	struct event_sink sink = reorder_sink(to);

	/* What an event points to does not outlive the call. */
	if (e.type == EVENT_PROBE && e.probe.format)
		e.probe.format = strcpy(format, e.probe.format);
	if (e.type == EVENT_PROBE && e.probe.string[2])
		e.probe.string[2] = strcpy(string, e.probe.string[2]);
	if (e.type == EVENT_PROBE && e.probe.nframes)
		e.probe.frame = memcpy(frame, e.probe.frame, e.probe.nframes * sizeof(*frame));
	assert_null(sink.put(sink.ctx, &e));
	memset(format, 'x', sizeof(format) - 1);
	memset(string, 'x', sizeof(string) - 1);
	memset(frame, 0, sizeof(frame));
}

static void events_come_in_the_order_of_their_times_whole(void **state)
{
	struct seen s = { 0 };
	struct reorder *r = reorder_new((struct event_sink){ see, &s });

	(void)state;
	put_probes(put_to_order, r);
	assert_null(reorder_flush(r));
	reorder_free(r);
	assert_int_equal(s.n, 5);
	assert_int_equal(s.time[0], 2099);
	assert_string_equal(s.text[0], "|none|none|555555555160");
	assert_string_equal(s.text[1], "cas %p: %d -> %s %s %s %x %x %c\n|full||0");
	assert_string_equal(s.text[2], "none|none|none|0");
	assert_string_equal(s.text[3], "slow path|none|none|7ffff7df0d0a");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_probe_text_place_and_instruction),
		cmocka_unit_test(without_totals_the_events_are_counted),
		cmocka_unit_test(json_has_the_documented_names),
		cmocka_unit_test(without_tables_json_has_the_totals_as_they_come),
		cmocka_unit_test(of_a_part_the_totals_are_not_shown),
		cmocka_unit_test(probes_are_chosen_by_name_and_stacks_by_tag),
		cmocka_unit_test(stacks_are_counted_under_their_tag_or_the_name_of_the_probe),
		cmocka_unit_test(what_is_not_known_is_not_made_up),
		cmocka_unit_test(of_many_sites_those_that_were_reached_are_shown),
		cmocka_unit_test(events_come_in_the_order_of_their_times_whole),
	};

	return cmocka_run_group_tests_name("probe_view", tests, NULL, NULL);
}
