/* The events of probes in the log: what was put comes back, and damage ends it in good order. */
#include "tests/unit/tracelog_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/probe_sample.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/redact.h"

static void put_to_log(void *to, struct trace_event e)
{
	put(to, e);
}

static void write_sample(const char *path)
{
	struct tracelog_writer *w;

	OK(tracelog_writer_open(path, &w));
	put(w, (struct trace_event){ .type = EVENT_THREAD,
				     .time_ns = 1,
				     .thread = { .pid = 77, .tid = 78, .comm = "worker" } });
	put_probes(put_to_log, w);
	OK(tracelog_writer_close(w));
}

static struct trace_event next(struct tracelog_reader *r, enum event_type type)
{
	enum log_outcome outcome;
	struct trace_event e;

	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_EVENT);
	assert_int_equal(e.type, type);
	return e;
}

static void check_site(const struct probe_site_event *s)
{
	assert_int_equal(s->id, 0);
	assert_int_equal(s->pid, 77);
	assert_string_equal(s->probe, "on_cas");
	assert_string_equal(s->pattern, "insn:lock cmpxchg");
	assert_int_equal(s->ip, PROBE_IP);
	assert_int_equal(s->when, PROBE_BEFORE);
	assert_int_equal(s->tactic, PROBE_TACTIC_PUN);
	assert_string_equal(s->why, "the bytes behind it are a part of the jump");
	assert_int_equal(s->ninsn, 4);
	assert_memory_equal(s->insn, "\xf0\x0f\xb1\x37", 4);
}

static void check_same_text(const char *got, const char *want)
{
	if (want)
		assert_string_equal(got, want);
	else
		assert_null(got);
}

static void check_probe(struct tracelog_reader *r, struct trace_event want)
{
	struct trace_event got = next(r, EVENT_PROBE);
	unsigned int i;

	assert_int_equal(got.time_ns, want.time_ns);
	assert_int_equal(got.probe.site, want.probe.site);
	assert_int_equal(got.probe.pid, 77);
	assert_int_equal(got.probe.tid, 78);
	assert_int_equal(got.probe.kind, want.probe.kind);
	check_same_text(got.probe.format, want.probe.format);
	assert_int_equal(got.probe.nargs, want.probe.nargs);
	assert_int_equal(got.probe.strings, want.probe.strings);
	assert_int_equal(got.probe.unread, want.probe.unread);
	assert_int_equal(got.probe.withheld, want.probe.withheld);
	for (i = 0; i < PROBE_EVENT_ARGS; i++) {
		assert_int_equal(got.probe.arg[i], want.probe.arg[i]);
		check_same_text(got.probe.string[i], want.probe.string[i]);
	}
	assert_int_equal(got.probe.walk_end, want.probe.walk_end);
	assert_int_equal(got.probe.nframes, want.probe.nframes);
	if (want.probe.nframes)
		assert_memory_equal(got.probe.frame, want.probe.frame, want.probe.nframes * sizeof(uint64_t));
}

static void what_was_put_comes_back(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;

	write_sample(f->log);
	OK(tracelog_reader_open(f->log, &r));
	next(r, EVENT_THREAD);
	e = next(r, EVENT_PROBE_SITE);
	check_site(&e.probe_site);
	e = next(r, EVENT_PROBE_SITE);
	assert_int_equal(e.probe_site.id, 7);
	assert_int_equal(e.probe_site.tactic, PROBE_TACTIC_REFUSED);
	assert_int_equal(e.probe_site.ninsn, 0);
	check_probe(r, probe_log());
	check_probe(r, probe_value());
	check_probe(r, probe_tagged());
	check_probe(r, probe_empty());
	check_probe(r, probe_withheld());
	e = next(r, EVENT_PROBE_TOTAL);
	assert_int_equal(e.probe_total.site, 0);
	assert_int_equal(e.probe_total.count, 1234);
	assert_int_equal(e.probe_total.lost, 3);
	next(r, EVENT_PROBE_TOTAL);
	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_END);
	tracelog_reader_close(r);
}

static void a_string_is_cut_to_what_a_probe_may_have(void **state)
{
	struct fixture *f = *state;
	struct trace_event e = probe_log(), got;
	struct tracelog_writer *w;
	struct tracelog_reader *r;
	char text[200];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	e.probe.string[2] = text;
	OK(tracelog_writer_open(f->log, &w));
	put_probe_sites(put_to_log, w);
	put(w, e);
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	next(r, EVENT_PROBE_SITE);
	next(r, EVENT_PROBE_SITE);
	got = next(r, EVENT_PROBE);
	assert_int_equal(strlen(got.probe.string[2]), PROBE_EVENT_STRING);
	assert_string_equal(got.probe.string[4], "");
	tracelog_reader_close(r);
}

static void babeltrace2_reads_the_same(void **state)
{
	static const char *const parts[] = {
		"{ site = 0, pid = 77, ip = 0x555555555160, when = ( \"before\" : container = 0 ), tactic = ( \"pun\" : "
		"container = 3 ), probe = \"on_cas\", pattern = \"insn:lock cmpxchg\", why = \"the bytes behind it are a "
		"part of the jump\", ninsn = 4, insn = [ [0] = 0xF0, [1] = 0xF, [2] = 0xB1, [3] = 0x37 ] }",
		"{ site = 0, tid = 78, stack = 4294967280, before_ns = 0, kind = ( \"log\" : container = 1 ), withheld = "
		"0, strings = 0x1C, unread = 0x8, format = \"cas %p: %d -> %s %s %s %x %x %c\\n\", nargs = 8, arg = [ [0] "
		"= 0x7FFE00000040, [1] = 0xFFFFFFFFFFFFFFFF,",
		"nstrings = 2, text = [ [0] = \"full\", [1] = ",
		"kind = ( \"value\" : container = 2 )",
		"nargs = 1, arg = [ [0] = 0x2A ], nstrings = 0, text = [ ] }",
		"{ site = 0, tid = 78, stack = 0, before_ns = 0, kind = ( \"stack\" : container = 3 ), withheld = 0, "
		"strings = 0x0, unread = 0x0, format = \"slow path\", nargs = 1, arg = [ [0] = 0x10000000000 ]",
		"{ site = 0, tid = 78, stack = 1, before_ns = 3,",
		"withheld = 1,",
		"{ site = 0, count = 1234, lost = 3 }",
		"{ site = 7, count = 0, lost = 0 }",
	};
	struct fixture *f = *state;
	char command[256], *text = calloc(1, 1 << 20);
	size_t i, n;
	FILE *p;

	write_sample(f->log);
	snprintf(command, sizeof(command), "babeltrace2 --clock-seconds --names all '%s' 2>&1", f->log);
	p = popen(command, "r");
	assert_non_null(p);
	n = fread(text, 1, (1 << 20) - 1, p);
	assert_true(n > 0);
	assert_int_equal(pclose(p), 0);
	for (i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (!strstr(text, parts[i]))
			fail_msg("no \"%s\" in:\n%s", parts[i], text);
	free(text);
}

/* A flight recorder */

#define RING_EVENTS 40000

static void each_file_of_a_ring_says_what_its_events_refer_to(void **state)
{
	const struct tracelog_bounds bounds = { .bytes = 1u << 20 };
	uint64_t first = UINT64_MAX, n = 0, i;
	struct fixture *f = *state;
	struct tracelog_writer *w;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;
	size_t sites = 0, threads = 0;

	OK(tracelog_writer_open_ring(f->log, &bounds, &w));
	put(w, (struct trace_event){ .type = EVENT_PROCESS, .process = { .pid = 77, .comm = "app" } });
	put(w, (struct trace_event){ .type = EVENT_THREAD,
				     .thread = { .pid = 77, .tid = 78, .comm = "worker" } });
	put_probe_sites(put_to_log, w);
	for (i = 0; i < RING_EVENTS; i++) {
		e = probe_tagged();
		e.time_ns = 5000 + i;
		e.probe.arg[0] = i;
		put(w, e);
	}
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		sites += e.type == EVENT_PROBE_SITE;
		threads += e.type == EVENT_THREAD;
		if (e.type != EVENT_PROBE)
			continue;
		if (!n++)
			first = e.probe.arg[0];
		assert_true(sites == 2 && threads == 1);
		assert_int_equal(e.probe.arg[0], first + n - 1);
		assert_int_equal(e.probe.pid, 77);
		assert_int_equal(e.probe.nframes, 3);
	}
	assert_int_equal(outcome, LOG_END);
	assert_true(first > 0 && first != UINT64_MAX);
	assert_int_equal(first + n, RING_EVENTS);
	tracelog_reader_close(r);
}

/* Damage */

struct bytes {
	char *metadata;
	uint8_t *events;
	size_t metadata_len, events_len;
};

static uint8_t *read_all(const char *dir, const char *name, size_t *len)
{
	uint8_t *bytes = malloc(1 << 20);
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	assert_non_null(f);
	*len = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

/* The sample as a log of version 1, which has no checksums: its events are read whatever is in them. */
static struct bytes load(const struct fixture *f)
{
	struct bytes b;
	uint64_t bits;
	char *major;

	b.metadata = (char *)read_all(f->log, "metadata", &b.metadata_len);
	b.events = read_all(f->log, "events", &b.events_len);
	major = memmem(b.metadata, b.metadata_len, "format_major = 2", 16);
	assert_non_null(major);
	major[15] = '1';
	b.events_len -= TRACELOG_PACKET_START - TRACELOG_PACKET_HEAD;
	memmove(b.events + TRACELOG_PACKET_HEAD, b.events + TRACELOG_PACKET_START,
		b.events_len - TRACELOG_PACKET_HEAD);
	bits = b.events_len * 8;
	memcpy(b.events + TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	memcpy(b.events + TRACELOG_OFF_PACKET, &bits, sizeof(bits));
	return b;
}

/* What comes makes sense, and ends. */
static size_t drain(const struct bytes *b, size_t len)
{
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;
	size_t n, i;

	OK(tracelog_reader_open_memory(b->metadata, b->metadata_len, b->events, len, &r));
	for (n = 0;; n++) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_PROBE_SITE)
			assert_true(e.probe_site.ninsn <= sizeof(e.probe_site.insn) && e.probe_site.probe);
		if (e.type != EVENT_PROBE)
			continue;
		assert_true(e.probe.nargs <= PROBE_EVENT_ARGS);
		assert_true(e.probe.kind == PROBE_KIND_VALUE || e.probe.format);
		for (i = 0; i < PROBE_EVENT_ARGS; i++)
			assert_int_equal(e.probe.string[i] != NULL,
					 (e.probe.strings & ~e.probe.unread) >> i & 1);
	}
	tracelog_reader_close(r);
	return n;
}

static void cut_at_any_byte_it_yields_every_whole_event(void **state)
{
	struct fixture *f = *state;
	size_t len, n, last = 0;
	struct bytes b;

	write_sample(f->log);
	b = load(f);
	for (len = 0; len <= b.events_len; len++) {
		n = drain(&b, len);
		assert_true(n >= last && n <= last + 1);
		last = n;
	}
	assert_int_equal(last, 1 + PROBE_SAMPLE_EVENTS);
	free(b.metadata);
	free(b.events);
}

static void with_any_byte_changed_it_ends_in_good_order(void **state)
{
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct fixture *f = *state;
	struct bytes b;
	size_t i, k;

	write_sample(f->log);
	b = load(f);
	for (i = TRACELOG_PACKET_HEAD; i < b.events_len; i++) {
		const uint8_t was = b.events[i];

		for (k = 0; k < sizeof(values); k++) {
			b.events[i] = values[k];
			drain(&b, b.events_len);
		}
		b.events[i] = was;
	}
	free(b.metadata);
	free(b.events);
}

/* Redaction */

struct kept {
	struct trace_event v[16];
	size_t n;
};

static struct wc_error *keep(void *ctx, const struct trace_event *e)
{
	struct kept *k = ctx;

	k->v[k->n++] = *e;
	return NULL;
}

static void any_rule_withholds_what_probes_have_recorded(void **state)
{
	const char *const name[] = { "slow *", "on_ret", "nothing" };
	const struct redact_rules rules = { .name = name, .n = 3 };
	struct trace_event site = { .type = EVENT_PROBE_SITE,
				    .probe_site = { .probe = "on_ret", .ninsn = 1 } };
	struct trace_event log = probe_log(), tagged = probe_tagged(), empty = probe_empty();
	struct kept k = { 0 };
	struct redact *r;
	size_t unused = 0;

	(void)state;
	OK(redact_new(&rules, (struct event_sink){ keep, &k }, &r));
	OK(redact_sink(r).put(r, &site));
	OK(redact_sink(r).put(r, &log));
	OK(redact_sink(r).put(r, &tagged));
	OK(redact_sink(r).put(r, &empty));
	assert_int_equal(k.n, 5); /* and a note */
	assert_int_equal(k.v[0].probe_site.ninsn, 1);
	assert_true(k.v[2].probe.withheld);
	assert_int_equal(k.v[2].probe.nargs, 0);
	assert_int_equal(k.v[2].probe.arg[0], 0);
	assert_null(k.v[2].probe.string[2]);
	assert_string_equal(k.v[2].probe.format, log.probe.format);
	assert_true(k.v[3].probe.withheld);
	assert_string_equal(k.v[3].probe.format, "slow path");
	assert_int_equal(k.v[3].probe.nframes, 3);
	assert_false(k.v[4].probe.withheld); /* there was nothing */
	assert_string_equal(redact_unused(r, &unused), "nothing");
	redact_free(r);
}

static void instructions_outside_of_files_are_withheld_with_all_values(void **state)
{
	const struct redact_rules rules = { .all = true };
	struct trace_event site = { .type = EVENT_PROBE_SITE,
				    .probe_site = { .probe = "f", .ip = PROBE_IP, .ninsn = 1 } };
	struct trace_event module = { .type = EVENT_MODULE,
				      .module = { .start = 0x555555554000, .end = 0x555555559000 } };
	struct kept k = { 0 };
	struct redact *r;

	(void)state;
	OK(redact_new(&rules, (struct event_sink){ keep, &k }, &r));
	OK(redact_sink(r).put(r, &site));
	OK(redact_sink(r).put(r, &module));
	OK(redact_sink(r).put(r, &site));
	assert_int_equal(k.v[0].probe_site.ninsn, 0);
	assert_int_equal(k.v[k.n - 1].probe_site.ninsn, 1);
	redact_free(r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(what_was_put_comes_back),
		TEST(a_string_is_cut_to_what_a_probe_may_have),
		TEST(babeltrace2_reads_the_same),
		TEST(each_file_of_a_ring_says_what_its_events_refer_to),
		TEST(cut_at_any_byte_it_yields_every_whole_event),
		TEST(with_any_byte_changed_it_ends_in_good_order),
		TEST(any_rule_withholds_what_probes_have_recorded),
		TEST(instructions_outside_of_files_are_withheld_with_all_values),
	};

	return cmocka_run_group_tests_name("tracelog_probe", tests, NULL, NULL);
}
