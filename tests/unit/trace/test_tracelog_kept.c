/*
 * The content of a log stays as it is, byte for byte: one of every event, as it is written, against files that were
 * written before. They change only together with the version of the format, or where an event is new.
 *
 *	tests/unit/trace/kept/events	a line an event: its number, its time, its fields as bytes
 *	tests/unit/trace/kept/symbols	likewise, of the names that `watchctl symbolize` adds
 *	tests/unit/trace/kept/ring	the same of a flight recorder, in short: files, events, their checksum
 *	tests/unit/trace/kept/metadata	without what is of the machine and of the moment
 *
 * A text that differs is left in $BUILD/kept, to be compared with them, and to be copied if it was meant.
 */
#include "tests/unit/tracelog_fixture.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/trace/rows/event_copy.h"
#include "watchctl/trace/log/tracelog_check.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_symbols.h"

#define KEPT "tests/unit/trace/kept"
#define PID 77
#define TID 78

static const uint64_t frames[] = { 0x555555555160, 0x555555555190, 0x7ffff7df0d0a };
static struct enumerator colours[] = { { (char *)"RED", 0 }, { (char *)"GREEN", 1 }, { (char *)"NONE", -1 } };
static const struct type_member members[] = { { "next", 2, 0, 0, 0 },
					      { "kind", 1, 8, 3, 2 },
					      { "", 0, 12, 0, 0 } };
static const struct function_param params[] = { { "n", 0 }, { NULL, 2 } };
static const struct symbol_function inlined[] = { { "inner", "app.h", 3 }, { "outer", NULL, 0 } };
static const uint8_t build_id[] = { 0xde, 0xad, 0x00, 0xef };
static const uint8_t values[] = { 0,	7, 0, 0, 0, 0, 0x10, 0x32, 0x54, 0x76, 0x55,
				  0x55, 0, 0, 3, 4, 0, 1,    2,	   3,	 4 };

/* Writing */

static struct wc_error *put_next(struct event_sink to, struct trace_event e, uint64_t *now)
{
	e.time_ns = *now += 10;
	return to.put(to.ctx, &e);
}

#define PUT(...) OK(put_next(to, (struct trace_event){ __VA_ARGS__ }, &now))

static void put_process(struct event_sink to)
{
	uint64_t now = 1000;

	PUT(EVENT_PROCESS, .process = { .pid = PID,
					.parent = 7,
					.comm = "app",
					.exe = "/usr/bin/app",
					.cmdline = "app -x \"y\"",
					.realtime_ns = 1700000000000000000u,
					.host = "box" });
	PUT(EVENT_THREAD, .thread = { .pid = PID,
				      .tid = TID,
				      .comm = "worker",
				      .creator = PID,
				      .creating_call = 1ull << 40,
				      .stack_start = 0x7ffff0000000,
				      .stack_end = 0x7ffff0800000 });
	PUT(EVENT_MODULE, .module_pid = 90,
	    .module = { .start = 0x555555554000,
			.end = 0x555555559000,
			.bias = 0x555555554001,
			.deleted = true,
			.path = (char *)"/usr/bin/app",
			.build_id = { 0xde, 0xad, 0x00, 0xef },
			.build_id_len = 4 });
	PUT(EVENT_WATCH, .watch = { .id = 0,
				    .name = "flag",
				    .full_name = "app.c:flag",
				    .addr = 0x555555558010,
				    .size = 4,
				    .per_thread = true,
				    .filter = "new > 3",
				    .steps_trap = true,
				    .access = ACCESS_READWRITE,
				    .engine = "handler",
				    .why = "asked for",
				    .module = "/usr/bin/app",
				    .type = { .kind = VALUE_ENUM,
					      .name = (char *)"enum colour",
					      .enum_signed = true,
					      .bit_offset = 3,
					      .bit_size = 5,
					      .enumerators = colours,
					      .nenumerators = 3 },
				    .threads = 5,
				    .threads_armed = 4,
				    .verified = true,
				    .kernel = true,
				    .has_value = true,
				    .value = 0x1122334455667788,
				    .slot = -1,
				    .withheld = true });
	PUT(EVENT_WATCH, .watch = { .id = 1,
				    .name = "p",
				    .full_name = "p",
				    .addr = 0x555555558020,
				    .size = 8,
				    .access = ACCESS_WRITE,
				    .engine = "ring",
				    .slot = 2 });
	PUT(EVENT_CODE, .code = { .pc = 0x555555555160,
				  .function_start = 0x555555555140,
				  .before_len = 6,
				  .before = { 0x89, 0x05, 0xe4, 0x2e },
				  .at_len = 1,
				  .at = { 0xc3 } });
}

static struct access_event access_with(uint64_t value)
{
	struct access_event a = {
		.watch = 1,
		.pid = PID,
		.tid = TID,
		.addr = 0x555555558024,
		.size = 4,
		.has_old = true,
		.has_new = true,
		.syscall = -1,
		.old_value = value - 1,
		.new_value = value,
		.walk_end = WALK_END_DEPTH,
		.nframes = 3,
		.frame = frames,
	};
	int i;

	for (i = 0; i < WREG_COUNT; i++)
		a.regs.r[i] = 0x1000 + (uint64_t)i;
	a.regs.r[WREG_RIP] = frames[0];
	return a;
}

static void put_accesses(struct event_sink to)
{
	uint64_t now = 2000;
	struct access_event a = access_with(42);

	PUT(EVENT_ACCESS, .access = a); /* short */
	now -= 15;			/* and one that comes late */
	a.displaced = true;
	PUT(EVENT_ACCESS, .access = a);
	now += 20;
	a = access_with(43);
	a.old_uncertain = true;
	PUT(EVENT_ACCESS, .access = a); /* whole, from here on */
	a = access_with(44);
	a.in_kernel = true;
	a.kernel_kind = ACCESS_WRITE;
	a.kernel_function = "copy_to_user";
	a.syscall = 0;
	PUT(EVENT_ACCESS, .access = a);
	a = access_with(45);
	a.has_old = a.has_new = false;
	a.withheld = WITHHELD_VALUES | WITHHELD_REGS;
	a.known_kind = ACCESS_WRITE;
	a.known_in_caller = true;
	a.known_insn = 0x55555555515a;
	PUT(EVENT_ACCESS, .access = a);
	a = access_with(46);
	a.pid = 90;
	a.tid = 91;
	PUT(EVENT_ACCESS, .access = a);
}

static void put_captures(struct event_sink to)
{
	struct capture_event c = { .tag = 0,
				   .pid = PID,
				   .tid = TID,
				   .walk_end = WALK_END_COMPLETE,
				   .nframes = 2,
				   .frame = frames + 1 };
	uint64_t now = 3000;

	PUT(EVENT_TAG, .tag = { .id = 0, .name = "miss" });
	PUT(EVENT_TAG, .tag = { .id = 1, .number = 1ull << 63 });
	PUT(EVENT_CAPTURE, .capture = c);
	now -= 15;
	c.has_value = true;
	c.value = 0xfedcba9876543210;
	PUT(EVENT_CAPTURE, .capture = c);
	now += 20;
	c.has_value = false;
	c.withheld = true;
	PUT(EVENT_CAPTURE, .capture = c);
}

static void put_types(struct event_sink to)
{
	uint64_t now = 4000;

	PUT(EVENT_RECORDING, .recording = { .stepper = "ptrace",
					    .planner = "LLDB 19.1.7",
					    .range = "from f to g",
					    .filters = "depth 10",
					    .instructions = true,
					    .withheld = RECORDING_WITHHELD_SOME,
					    .inputs = INPUTS_RANGE });
	PUT(EVENT_TYPE,
	    .type_info = { .id = 0, .kind = TYPE_SIGNED, .size = 4, .name = "int", .target = NO_TYPE });
	PUT(EVENT_TYPE, .type_info = { .id = 1,
				       .kind = TYPE_ENUM,
				       .size = 4,
				       .name = "enum colour",
				       .is_signed = true,
				       .target = NO_TYPE,
				       .nenumerators = 3,
				       .enumerator = colours });
	PUT(EVENT_TYPE, .type_info = { .id = 2, .kind = TYPE_POINTER, .size = 8, .target = 3 });
	PUT(EVENT_TYPE, .type_info = { .id = 3,
				       .kind = TYPE_STRUCT,
				       .size = 16,
				       .name = "struct node",
				       .target = NO_TYPE,
				       .nmembers = 3,
				       .member = members });
	PUT(EVENT_FUNCTION, .function = { .id = 0,
					  .flags = FUNCTION_OVER,
					  .name = "f",
					  .module = "/usr/bin/app",
					  .build_id = build_id,
					  .build_id_len = sizeof(build_id),
					  .address = 0x1160,
					  .size = 33,
					  .file = "app.c",
					  .line = 17,
					  .return_type = 0,
					  .nparams = 2,
					  .param = params });
	PUT(EVENT_REGION,
	    .region = { .pid = PID, .kind = REGION_HEAP, .start = 0x1000, .end = 0x3000, .name = "[heap]" });
}

static void put_calls(struct event_sink to)
{
	struct call_event call = { .call = 1,
				   .pid = PID,
				   .tid = TID,
				   .function = 0,
				   .flags = CALL_FIRST,
				   .sp = 0x7fffffffe000,
				   .walk_end = WALK_END_COMPLETE,
				   .nframes = 3,
				   .frame = frames,
				   .values = values,
				   .values_len = sizeof(values) };
	struct return_event ret = { .call = 2, .pid = PID, .tid = TID, .how = RETURN_EXCEPTION };
	uint64_t now = 5000;

	PUT(EVENT_RANGE, .range = { .occurrence = 3, .what = RANGE_BEGIN, .pid = PID, .tid = TID });
	PUT(EVENT_CALL, .call = call);
	call = (struct call_event){ .call = 2,
				    .parent = 1,
				    .pid = PID,
				    .tid = TID,
				    .depth = 1,
				    .flags = CALL_TAIL,
				    .sp = 0x7fffffffdff0 };
	PUT(EVENT_CALL, .call = call);
	PUT(EVENT_STEP, .step = { .pid = PID, .tid = TID, .call = 2, .ip = 0x555555555163 });
	PUT(EVENT_SIGNAL,
	    .signal = { .pid = PID, .tid = TID, .signal = 11, .code = -6, .ip = 0x555555555164, .call = 2 });
	PUT(EVENT_INPUT, .input = { .pid = PID,
				    .tid = TID,
				    .call = 2,
				    .kind = INPUT_FILE,
				    .syscall = 0,
				    .fd = 3,
				    .result = 4,
				    .offset = 4096,
				    .size = 4,
				    .hashed = 4,
				    .hash = 0x0123456789abcdef,
				    .name = "/etc/passwd",
				    .bytes = (const uint8_t *)"root",
				    .len = 4 });
	PUT(EVENT_INPUT, .input = { .pid = PID,
				    .tid = TID,
				    .kind = INPUT_STREAM,
				    .withheld = true,
				    .syscall = 45,
				    .fd = -1,
				    .result = -11 });
	PUT(EVENT_RETURN, .ret = ret);
	ret = (struct return_event){ .call = 1,
				     .pid = PID,
				     .tid = TID,
				     .how = RETURN_RETURNED,
				     .has_error = true,
				     .error = 2,
				     .values = values,
				     .values_len = 6 };
	PUT(EVENT_RETURN, .ret = ret);
	PUT(EVENT_BLOCKED, .blocked = { .pid = PID,
					.tid = TID,
					.call = 1,
					.syscall = 202,
					.walk_end = WALK_END_NO_RULE,
					.nframes = 2,
					.frame = frames });
}

static void put_probes(struct event_sink to)
{
	struct probe_event p = { .site = 0,
				 .pid = PID,
				 .tid = TID,
				 .kind = PROBE_KIND_LOG,
				 .format = "n %d of %s, %s",
				 .nargs = 3,
				 .strings = 6,
				 .unread = 4,
				 .arg = { 7, 0x1000, 0x2000 },
				 .string = { NULL, "here" } };
	uint64_t now = 6000;

	PUT(EVENT_PROBE_SITE, .probe_site = { .id = 0,
					      .pid = PID,
					      .probe = "count",
					      .pattern = "f+3",
					      .ip = 0x555555555163,
					      .when = PROBE_AFTER_IT,
					      .tactic = PROBE_TACTIC_PUN,
					      .why = "too short",
					      .ninsn = 3,
					      .insn = { 0x48, 0x89, 0xe5 } });
	PUT(EVENT_PROBE, .probe = p);
	now -= 15;
	p = (struct probe_event){
		.pid = PID, .tid = TID, .kind = PROBE_KIND_VALUE, .nargs = 1, .arg = { 9 }
	};
	PUT(EVENT_PROBE, .probe = p);
	now += 20;
	p = (struct probe_event){ .pid = PID,
				  .tid = TID,
				  .kind = PROBE_KIND_STACK,
				  .format = "tag",
				  .walk_end = WALK_END_COMPLETE,
				  .nframes = 3,
				  .frame = frames };
	PUT(EVENT_PROBE, .probe = p);
	p = (struct probe_event){
		.pid = PID, .tid = TID, .kind = PROBE_KIND_LOG, .format = "%d", .withheld = true
	};
	PUT(EVENT_PROBE, .probe = p);
	PUT(EVENT_PROBE_TOTAL, .probe_total = { .site = 0, .count = 1ull << 33, .lost = 5 });
}

static void put_end(struct event_sink to)
{
	uint64_t now = 7000;

	PUT(EVENT_LOST, .lost = { .watch = 1, .count = 7, .why = "ring full" });
	PUT(EVENT_NOTE, .note = { "exec" });
	PUT(EVENT_MODULE_GONE,
	    .module = { .start = 0x555555554000, .end = 0x555555559000, .path = (char *)"/usr/bin/app" });
	PUT(EVENT_SUMMARY, .summary = { .watch = 0,
					.has_counted = true,
					.counted = 12,
					.recorded = 4,
					.lost = 7,
					.filtered = 1,
					.duration_ns = 6000 });
	PUT(EVENT_SUMMARY, .summary = { .watch = WATCH_CAPTURES, .recorded = 3, .duration_ns = 1 });
}

static void put_all(struct event_sink to)
{
	put_process(to);
	put_accesses(to);
	put_captures(to);
	put_types(to);
	put_calls(to);
	put_probes(to);
	put_end(to);
}

static void write_all(const char *log)
{
	struct tracelog_writer *w;

	OK(tracelog_writer_open(log, &w));
	put_all(tracelog_writer_sink(w));
	OK(tracelog_writer_close(w));
}

/* Reading */

static char *read_text(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	struct stat st;
	char *text;

	if (!f)
		fail_msg("no %s", path);
	assert_int_equal(fstat(fileno(f), &st), 0);
	text = calloc(1, (size_t)st.st_size + 1);
	*len = fread(text, 1, (size_t)st.st_size, f);
	fclose(f);
	return text;
}

static uint64_t number_at(const char *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

/* The events of the packets in @path, a line each. */
static void list_events(const char *path, FILE *to)
{
	size_t len;
	char *bytes = read_text(path, &len), *p = bytes;

	while (p < bytes + len) {
		char *end = p + number_at(p + TRACELOG_OFF_CONTENT, 8) / 8;

		for (p += TRACELOG_PACKET_START; p < end; p += number_at(p + TRACELOG_OFF_SIZE, 4)) {
			fprintf(to, "%u %llu ", (unsigned int)number_at(p, 2),
				(unsigned long long)number_at(p + TRACELOG_OFF_TIME, 8));
			for (size_t i = TRACELOG_EVENT_HEAD; i < number_at(p + TRACELOG_OFF_SIZE, 4); i++)
				fprintf(to, "%02x", (uint8_t)p[i]);
			fputc('\n', to);
		}
	}
	free(bytes);
}

static char *events_of(const char *log, const char *name)
{
	char path[128], *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	snprintf(path, sizeof(path), "%s/%s", log, name);
	list_events(path, to);
	fclose(to);
	return text;
}

static int is_packets(const struct dirent *d)
{
	return !strncmp(d->d_name, "events.", 7);
}

static char *ring_of(const char *log)
{
	struct dirent **entry;
	int n = scandir(log, &entry, is_packets, alphasort), i;
	char path[400], *lines = NULL, *text = NULL;
	size_t len, events = 0;
	FILE *to = open_memstream(&lines, &len);

	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", log, entry[i]->d_name);
		list_events(path, to);
		free(entry[i]);
	}
	free(entry);
	fclose(to);
	for (size_t k = 0; k < len; k++)
		events += lines[k] == '\n';
	assert_true(asprintf(&text, "%d files, %zu events, %08x\n", n, events, crc32c(0, lines, len)) > 0);
	free(lines);
	return text;
}

/* Lines that begin with one of these are of the machine and of the moment. */
static bool is_of_the_moment(const char *line)
{
	static const char *const names[] = { "\tuuid = ", "\thostname = ", "\toffset_s = ", "\toffset = " };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(line, names[i], strlen(names[i])))
			return true;
	return false;
}

static char *metadata_of(const char *log)
{
	char path[128], *all, *rest, *line, *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	snprintf(path, sizeof(path), "%s/metadata", log);
	rest = all = read_text(path, &len);
	while ((line = strsep(&rest, "\n")) && rest)
		if (!is_of_the_moment(line))
			fprintf(to, "%s\n", line);
	fclose(to);
	free(all);
	return text;
}

/* @text, which is freed, must be what was kept as @name. */
static void check_kept(const char *name, char *text)
{
	const char *build = getenv("BUILD");
	char path[200];
	size_t len;
	char *kept;
	FILE *f;

	snprintf(path, sizeof(path), KEPT "/%s", name);
	kept = access(path, R_OK) ? calloc(1, 1) : read_text(path, &len);
	if (strcmp(kept, text)) {
		snprintf(path, sizeof(path), "%s/kept", build ? build : "build");
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/kept/%s", build ? build : "build", name);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
		fail_msg("%s is not " KEPT "/%s", path, name);
	}
	free(kept);
	free(text);
}

static void check_same(const struct fixture *f)
{
	char *first = events_of(f->log, "events"), *again = events_of(f->copy, "events");

	assert_string_equal(first, again);
	free(first);
	free(again);
}

/* Tests */

static void every_event_is_written_as_it_was(void **state)
{
	struct fixture *f = *state;

	write_all(f->log);
	check_kept("events", events_of(f->log, "events"));
	check_kept("metadata", metadata_of(f->log));
}

static void what_was_read_is_written_as_it_was(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	struct tracelog_reader *r;
	struct tracelog_writer *w;
	struct event_sink sink;
	struct trace_event e;

	write_all(f->log);
	OK(tracelog_reader_open(f->log, &r));
	OK(tracelog_writer_open(f->copy, &w));
	sink = tracelog_writer_sink(w);
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		OK(sink.put(sink.ctx, &e));
	}
	assert_int_equal(outcome, LOG_END);
	tracelog_reader_close(r);
	OK(tracelog_writer_close(w));
	check_same(f);
}

/* By the time the copies are written, the memory behind the originals has been freed and overwritten. */
static void copies_are_whole_without_what_they_were_made_of(void **state)
{
	struct trace_event *copy[200], e;
	struct fixture *f = *state;
	enum log_outcome outcome;
	struct tracelog_reader *r;
	struct tracelog_writer *w;
	struct event_sink sink;
	size_t n = 0;

	mallopt(M_PERTURB, 0xa5);
	write_all(f->log);
	OK(tracelog_reader_open(f->log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		assert_in_range(n, 0, sizeof(copy) / sizeof(*copy) - 1);
		copy[n++] = event_dup(&e);
	}
	assert_int_equal(outcome, LOG_END);
	tracelog_reader_close(r);
	OK(tracelog_writer_open(f->copy, &w));
	sink = tracelog_writer_sink(w);
	for (size_t i = 0; i < n; i++) {
		OK(sink.put(sink.ctx, copy[i]));
		free(copy[i]);
	}
	OK(tracelog_writer_close(w));
	check_same(f);
}

static void names_that_were_added_are_written_as_they_were(void **state)
{
	const struct symbol_event symbol = { .path = "/usr/bin/app",
					     .build_id = build_id,
					     .build_id_len = sizeof(build_id),
					     .address = 0x1163,
					     .start = 0x1160,
					     .nfunctions = 2,
					     .function = inlined };
	struct fixture *f = *state;
	struct tracelog_symbols *s;

	write_all(f->log);
	OK(tracelog_symbols_create(f->log, 1010, &s));
	OK(tracelog_symbols_put(s, &symbol));
	OK(tracelog_symbols_commit(s));
	check_kept("symbols", events_of(f->log, "symbols"));
}

static void a_flight_recorder_writes_as_it_did(void **state)
{
	const struct tracelog_bounds bounds = { .bytes = TRACELOG_RING_MIN };
	struct fixture *f = *state;
	struct tracelog_writer *w;
	struct event_sink to;
	uint64_t now = 8000;

	OK(tracelog_writer_open_ring(f->log, &bounds, &w));
	to = tracelog_writer_sink(w);
	put_all(to);
	for (uint64_t i = 0; i < 8000; i++) {
		struct access_event a = access_with(i);

		if (i % 1000 == 0)
			PUT(EVENT_CAPTURE, .capture = { .tag = i / 1000 % 2,
							.pid = PID,
							.tid = TID,
							.nframes = 1,
							.frame = frames });
		PUT(EVENT_ACCESS, .access = a);
	}
	OK(tracelog_writer_close(w));
	check_kept("ring", ring_of(f->log));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_event_is_written_as_it_was),
		TEST(what_was_read_is_written_as_it_was),
		TEST(copies_are_whole_without_what_they_were_made_of),
		TEST(names_that_were_added_are_written_as_they_were),
		TEST(a_flight_recorder_writes_as_it_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
