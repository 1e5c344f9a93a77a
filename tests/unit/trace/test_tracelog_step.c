/* The events of step recordings in the log: what was put comes back, in few bytes; damage ends it in good
 * order. */
#include "tests/unit/tracelog_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_format.h"

static const uint64_t call_site[] = { 0x555555555190 };
static const uint64_t callback[] = { 0x7ffff7c46a10, 0x7ffff7c46b20 };
static struct enumerator colours[] = { { (char *)"RED", 0 }, { (char *)"NONE", -1 } };
static const struct type_member members[] = { { "next", 2, 0, 0, 0 },
					      { "kind", 1, 8, 3, 2 },
					      { "", 0, 12, 0, 0 } };
static const struct function_param params[] = { { "n", 0 }, { NULL, 2 } };
/* int 7; a pointer to a node whose first 4 bytes are shown */
static const uint8_t values[] = { 0,	7, 0, 0, 0, 0, 0x10, 0x32, 0x54, 0x76, 0x55,
				  0x55, 0, 0, 3, 4, 0, 1,    2,	   3,	 4 };

static void put_types(struct tracelog_writer *w)
{
	put(w, (struct trace_event){ .type = EVENT_RECORDING,
				     .time_ns = 5,
				     .recording = { .stepper = "ptrace",
						    .planner = "LLDB 19.1.7",
						    .range = "from f to g",
						    .filters = "depth 10",
						    .instructions = true } });
	put(w, (struct trace_event){
		       .type = EVENT_TYPE,
		       .time_ns = 6,
		       .type_info = {
			       .id = 0, .kind = TYPE_SIGNED, .size = 4, .name = "int", .target = NO_TYPE } });
	put(w, (struct trace_event){ .type = EVENT_TYPE,
				     .time_ns = 6,
				     .type_info = { .id = 1,
						    .kind = TYPE_ENUM,
						    .size = 4,
						    .name = "enum colour",
						    .is_signed = true,
						    .target = NO_TYPE,
						    .nenumerators = 2,
						    .enumerator = colours } });
	put(w,
	    (struct trace_event){ .type = EVENT_TYPE,
				  .time_ns = 6,
				  .type_info = { .id = 2, .kind = TYPE_POINTER, .size = 8, .target = 3 } });
	put(w, (struct trace_event){ .type = EVENT_TYPE,
				     .time_ns = 6,
				     .type_info = { .id = 3,
						    .kind = TYPE_STRUCT,
						    .size = 16,
						    .name = "struct node",
						    .target = NO_TYPE,
						    .nmembers = 3,
						    .member = members } });
	put(w, (struct trace_event){ .type = EVENT_FUNCTION,
				     .time_ns = 7,
				     .function = { .id = 0,
						   .flags = FUNCTION_OVER,
						   .name = "f",
						   .module = "/usr/bin/app",
						   .build_id = (const uint8_t *)"\xde\xad",
						   .build_id_len = 2,
						   .address = 0x1160,
						   .size = 33,
						   .file = "app.c",
						   .line = 17,
						   .return_type = 0,
						   .nparams = 2,
						   .param = params } });
}

static struct trace_event call_at(uint64_t time_ns, uint64_t call, uint64_t parent, const uint64_t *frame,
				  uint32_t n)
{
	return (struct trace_event){ .type = EVENT_CALL,
				     .time_ns = time_ns,
				     .call = { .call = call,
					       .parent = parent,
					       .pid = 77,
					       .tid = 78,
					       .function = 0,
					       .depth = (uint16_t)call,
					       .flags = n ? CALL_CALLBACK : CALL_TAIL,
					       .sp = 0x7fffffffe000,
					       .walk_end = n > 1 ? WALK_END_DEPTH : WALK_END_COMPLETE,
					       .nframes = n,
					       .frame = frame,
					       .values = values,
					       .values_len = sizeof(values) } };
}

static struct trace_event return_at(uint64_t time_ns, uint64_t call, bool has_error)
{
	return (struct trace_event){ .type = EVENT_RETURN,
				     .time_ns = time_ns,
				     .ret = { .call = call,
					      .pid = 77,
					      .tid = 78,
					      .how = has_error ? RETURN_RETURNED : RETURN_EXCEPTION,
					      .has_error = has_error,
					      .error = has_error ? 2 : 0,
					      .values = values,
					      .values_len = has_error ? 5 : 0 } };
}

static void write_sample(const char *path)
{
	struct tracelog_writer *w;

	OK(tracelog_writer_open(path, &w));
	put(w, (struct trace_event){ .type = EVENT_THREAD,
				     .time_ns = 1,
				     .thread = { .pid = 77,
						 .tid = 78,
						 .comm = "worker",
						 .creator = 77,
						 .creating_call = 1ull << 40,
						 .stack_start = 0x7ffff0000000,
						 .stack_end = 0x7ffff0800000 } });
	put_types(w);
	put(w, (struct trace_event){ .type = EVENT_REGION,
				     .time_ns = 8,
				     .region = { .pid = 77,
						 .kind = REGION_HEAP,
						 .start = 0x1000,
						 .end = 0x3000,
						 .name = "[heap]" } });
	put(w,
	    (struct trace_event){ .type = EVENT_RANGE,
				  .time_ns = 9,
				  .range = { .occurrence = 3, .what = RANGE_BEGIN, .pid = 77, .tid = 78 } });
	put(w, (struct trace_event){ .type = EVENT_INPUT,
				     .time_ns = 9,
				     .input = { .pid = 77,
						.tid = 78,
						.call = 5,
						.kind = INPUT_FILE,
						.syscall = 0,
						.fd = 3,
						.result = 9,
						.offset = 1ull << 40,
						.size = 9,
						.hashed = 9,
						.hash = 0x123456789abcdef0,
						.name = "/tmp/in",
						.bytes = (const uint8_t *)"10/4",
						.len = 4 } });
	put(w, call_at(10, 1, 0, callback, 2));
	put(w, call_at(11, 2, 1, call_site, 1));
	put(w, call_at(12, 3, 2, NULL, 0));
	put(w, (struct trace_event){ .type = EVENT_STEP,
				     .time_ns = 13,
				     .step = { .pid = 77, .tid = 78, .call = 3, .ip = 0x555555555160 } });
	put(w, (struct trace_event){ .type = EVENT_SIGNAL,
				     .time_ns = 14,
				     .signal = { .pid = 77,
						 .tid = 78,
						 .signal = 11,
						 .code = -6,
						 .ip = 0x555555555161,
						 .call = 3 } });
	put(w, return_at(15, 3, true));
	put(w, return_at(16, 2, false));
	put(w, (struct trace_event){ .type = EVENT_BLOCKED,
				     .time_ns = 17,
				     .blocked = { .pid = 90,
						  .tid = 91,
						  .call = 0,
						  .syscall = -1,
						  .walk_end = WALK_END_DEPTH,
						  .nframes = 2,
						  .frame = callback } });
	OK(tracelog_writer_close(w));
}

#define SAMPLE_EVENTS 18

static struct trace_event next(struct tracelog_reader *r, enum event_type type)
{
	enum log_outcome outcome;
	struct trace_event e;

	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_EVENT);
	assert_int_equal(e.type, type);
	return e;
}

static void check_types(struct tracelog_reader *r)
{
	struct trace_event e = next(r, EVENT_RECORDING);

	assert_string_equal(e.recording.stepper, "ptrace");
	assert_string_equal(e.recording.planner, "LLDB 19.1.7");
	assert_string_equal(e.recording.range, "from f to g");
	assert_string_equal(e.recording.filters, "depth 10");
	assert_true(e.recording.instructions);
	e = next(r, EVENT_TYPE);
	assert_int_equal(e.type_info.kind, TYPE_SIGNED);
	assert_int_equal(e.type_info.size, 4);
	assert_string_equal(e.type_info.name, "int");
	assert_int_equal(e.type_info.target, NO_TYPE);
	e = next(r, EVENT_TYPE);
	assert_true(e.type_info.is_signed);
	assert_int_equal(e.type_info.nenumerators, 2);
	assert_string_equal(e.type_info.enumerator[1].name, "NONE");
	assert_int_equal(e.type_info.enumerator[1].value, -1);
	assert_int_equal(e.type_info.nmembers, 0);
	e = next(r, EVENT_TYPE);
	assert_int_equal(e.type_info.id, 2);
	assert_int_equal(e.type_info.target, 3);
	assert_null(e.type_info.name);
	e = next(r, EVENT_TYPE);
	assert_int_equal(e.type_info.nmembers, 3);
	assert_string_equal(e.type_info.member[0].name, "next");
	assert_int_equal(e.type_info.member[1].offset, 8);
	assert_int_equal(e.type_info.member[1].bit_offset, 3);
	assert_int_equal(e.type_info.member[1].bit_size, 2);
	assert_string_equal(e.type_info.member[2].name, "");
	e = next(r, EVENT_FUNCTION);
	assert_int_equal(e.function.flags, FUNCTION_OVER);
	assert_string_equal(e.function.name, "f");
	assert_string_equal(e.function.module, "/usr/bin/app");
	assert_int_equal(e.function.build_id_len, 2);
	assert_memory_equal(e.function.build_id, "\xde\xad", 2);
	assert_int_equal(e.function.address, 0x1160);
	assert_int_equal(e.function.size, 33);
	assert_string_equal(e.function.file, "app.c");
	assert_int_equal(e.function.line, 17);
	assert_int_equal(e.function.nparams, 2);
	assert_string_equal(e.function.param[0].name, "n");
	assert_null(e.function.param[1].name);
	assert_int_equal(e.function.param[1].type, 2);
}

static void check_call(struct tracelog_reader *r, uint64_t time_ns, uint64_t call, uint64_t parent,
		       const uint64_t *frame, uint32_t n)
{
	struct trace_event e = next(r, EVENT_CALL), want = call_at(time_ns, call, parent, frame, n);

	assert_int_equal(e.time_ns, time_ns);
	assert_int_equal(e.call.call, call);
	assert_int_equal(e.call.parent, parent);
	assert_int_equal(e.call.pid, 77);
	assert_int_equal(e.call.tid, 78);
	assert_int_equal(e.call.depth, want.call.depth);
	assert_int_equal(e.call.flags, want.call.flags);
	assert_int_equal(e.call.sp, want.call.sp);
	assert_int_equal(e.call.walk_end, want.call.walk_end);
	assert_int_equal(e.call.nframes, n);
	if (n)
		assert_memory_equal(e.call.frame, frame, n * sizeof(*frame));
	assert_int_equal(e.call.values_len, sizeof(values));
	assert_memory_equal(e.call.values, values, sizeof(values));
}

static void what_was_put_comes_back(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;

	write_sample(f->log);
	OK(tracelog_reader_open(f->log, &r));
	e = next(r, EVENT_THREAD);
	assert_int_equal(e.thread.creator, 77);
	assert_int_equal(e.thread.creating_call, 1ull << 40);
	assert_int_equal(e.thread.stack_start, 0x7ffff0000000);
	assert_int_equal(e.thread.stack_end, 0x7ffff0800000);
	check_types(r);
	e = next(r, EVENT_REGION);
	assert_int_equal(e.region.kind, REGION_HEAP);
	assert_int_equal(e.region.end, 0x3000);
	assert_string_equal(e.region.name, "[heap]");
	e = next(r, EVENT_RANGE);
	assert_int_equal(e.range.occurrence, 3);
	assert_int_equal(e.range.what, RANGE_BEGIN);
	assert_int_equal(e.range.tid, 78);
	e = next(r, EVENT_INPUT);
	assert_int_equal(e.input.kind, INPUT_FILE);
	assert_int_equal(e.input.pid, 77);
	assert_int_equal(e.input.offset, 1ull << 40);
	assert_int_equal(e.input.size, 9);
	assert_int_equal(e.input.hash, 0x123456789abcdef0);
	assert_string_equal(e.input.name, "/tmp/in");
	assert_int_equal(e.input.len, 4);
	assert_memory_equal(e.input.bytes, "10/4", 4);
	check_call(r, 10, 1, 0, callback, 2);
	check_call(r, 11, 2, 1, call_site, 1);
	check_call(r, 12, 3, 2, NULL, 0);
	e = next(r, EVENT_STEP);
	assert_int_equal(e.step.ip, 0x555555555160);
	assert_int_equal(e.step.pid, 77);
	assert_int_equal(e.step.call, 3);
	e = next(r, EVENT_SIGNAL);
	assert_int_equal(e.signal.signal, 11);
	assert_int_equal(e.signal.code, -6);
	assert_int_equal(e.signal.ip, 0x555555555161);
	e = next(r, EVENT_RETURN);
	assert_int_equal(e.ret.call, 3);
	assert_int_equal(e.ret.how, RETURN_RETURNED);
	assert_true(e.ret.has_error);
	assert_int_equal(e.ret.error, 2);
	assert_int_equal(e.ret.values_len, 5);
	assert_memory_equal(e.ret.values, values, 5);
	e = next(r, EVENT_RETURN);
	assert_int_equal(e.ret.how, RETURN_EXCEPTION);
	assert_false(e.ret.has_error);
	assert_int_equal(e.ret.values_len, 0);
	e = next(r, EVENT_BLOCKED);
	assert_int_equal(e.blocked.pid, 90);
	assert_int_equal(e.blocked.syscall, -1);
	assert_int_equal(e.blocked.walk_end, WALK_END_DEPTH);
	assert_int_equal(e.blocked.nframes, 2);
	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_END);
	tracelog_reader_close(r);
}

static void babeltrace2_reads_the_same(void **state)
{
	static const char *const parts[] = {
		"creator = 77, creating_call = 1099511627776, stack_start = 0x7FFFF0000000, stack_end = "
		"0x7FFFF0800000 }",
		"instructions = 1, mover = \"ptrace\", planner = \"LLDB 19.1.7\", range = \"from f to g\", "
		"filters = \"depth 10\", withheld = ( \"nothing\" : container = 0 ), inputs = ( \"none\" : "
		"container = 0 ), changes = 0 }",
		"{ call = 5, pid = 77, tid = 78, kind = ( \"file\" : container = 4 ), withheld = 0, syscall = 0, fd = 3, "
		"result = 9, offset = 1099511627776, input_size = 9, hashed = 9, hash = 0x123456789ABCDEF0, name = "
		"\"/tmp/in\", nbytes = 4, bytes = [ [0] = 0x31,",
		"enumerator = [ [0] = { value = 0, name = \"RED\" }, [1] = { value = -1, name = \"NONE\" } ]",
		"[1] = { type = 1, offset = 8, bit_offset = 3, bit_size = 2, name = \"kind\" }",
		"{ function = 0, flags = 1, address = 0x1160, function_size = 33, line = 17, return_type = "
		"0, name = \"f\", "
		"module = \"/usr/bin/app\", build_id = \"dead\", file = \"app.c\", nparams = 2, param = [ "
		"[0] = { type = 0, "
		"name = \"n\" }",
		"{ pid = 77, kind = ( \"heap\" : container = 1 ), start = 0x1000, end = 0x3000, name = "
		"\"[heap]\" }",
		"{ occurrence = 3, what = ( \"begin\" : container = 1 ), pid = 77, tid = 78 }",
		"{ call = 2, parent = 1, tid = 78, function = 0, depth = 2, flags = 0x2, sp = "
		"0x7FFFFFFFE000, stack = 1, "
		"nvalues = 21, values = [ [0] = 0x0, [1] = 0x7,",
		"{ call = 3, parent = 2, tid = 78, function = 0, depth = 3, flags = 0x1, sp = "
		"0x7FFFFFFFE000, "
		"stack = 4294967280,",
		"{ call = 3, tid = 78, ip = 0x555555555160 }",
		"{ call = 3, tid = 78, number = 11, code = -6, ip = 0x555555555161 }",
		"{ call = 3, tid = 78, function = 0, how = ( \"returned\" : container = 1 ), error = 2, "
		"nvalues = 5, "
		"values = [ [0] = 0x0, [1] = 0x7, [2] = 0x0, [3] = 0x0, [4] = 0x0 ] }",
		"{ call = 2, tid = 78, function = 0, how = ( \"exception\" : container = 2 ), nvalues = 0, "
		"values = [ ] }",
		"{ call = 0, tid = 91, syscall = -1, stack = 0 }",
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

static void a_call_takes_56_bytes_and_a_return_33_or_37_besides_their_values(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	char path[128];
	struct stat st;
	int i;

	OK(tracelog_writer_open(f->log, &w));
	put(w, (struct trace_event){
		       .type = EVENT_THREAD, .time_ns = 1, .thread = { .pid = 77, .tid = 78, .comm = "" } });
	for (i = 0; i < 100; i++) {
		put(w, call_at(10 + i, i + 1, 0, call_site, 1));
		put(w, return_at(10 + i, i + 1, i % 2));
	}
	OK(tracelog_writer_close(w));
	snprintf(path, sizeof(path), "%s/events", f->log);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 82 + (14 + 37) + (23 + 8) + 100 * (56 - 1 + sizeof(values)) + 50 * 33 +
					     50 * (37 + 5));
}

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

/*
 * What has no checksums is read event by event, damaged as it may be: makes the log's only packet one of
 * version 1.
 */
static void as_version_1(struct bytes *b)
{
	char *major = memmem(b->metadata, b->metadata_len, "format_major = 2", 16);
	uint64_t bits;

	assert_non_null(major);
	major[15] = '1';
	b->events_len -= TRACELOG_PACKET_START - TRACELOG_PACKET_HEAD;
	memmove(b->events + TRACELOG_PACKET_HEAD, b->events + TRACELOG_PACKET_START,
		b->events_len - TRACELOG_PACKET_HEAD);
	bits = b->events_len * 8;
	memcpy(b->events + TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	memcpy(b->events + TRACELOG_OFF_PACKET, &bits, sizeof(bits));
}

static struct bytes load(const struct fixture *f)
{
	struct bytes b;

	b.metadata = (char *)read_all(f->log, "metadata", &b.metadata_len);
	b.events = read_all(f->log, "events", &b.events_len);
	as_version_1(&b);
	return b;
}

static size_t drain(const struct bytes *b, size_t len, enum log_outcome *outcome)
{
	struct tracelog_reader *r;
	struct trace_event e;
	size_t n = 0;

	OK(tracelog_reader_open_memory(b->metadata, b->metadata_len, b->events, len, &r));
	for (;; n++) {
		OK(tracelog_next(r, &e, outcome));
		if (*outcome != LOG_EVENT)
			break;
	}
	tracelog_reader_close(r);
	return n;
}

static void cut_at_any_byte_it_yields_every_whole_event(void **state)
{
	struct fixture *f = *state;
	size_t len, n, last = 0;
	enum log_outcome outcome;
	struct bytes b;

	write_sample(f->log);
	b = load(f);
	for (len = 0; len <= b.events_len; len++) {
		/* A block of its own size, so that valgrind and asan see a read behind it. */
		struct bytes cut = b;

		cut.events = malloc(len ? len : 1);
		memcpy(cut.events, b.events, len);
		n = drain(&cut, len, &outcome);
		free(cut.events);
		assert_true(n >= last && n <= last + 1);
		last = n;
	}
	assert_int_equal(last, SAMPLE_EVENTS);
	free(b.metadata);
	free(b.events);
}

static void any_flipped_byte_ends_in_good_order(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	struct bytes b;
	size_t i;
	int bit;

	write_sample(f->log);
	b = load(f);
	for (i = 0; i < b.events_len; i++) {
		for (bit = 0; bit < 8; bit++) {
			b.events[i] ^= 1 << bit;
			assert_true(drain(&b, b.events_len, &outcome) <= SAMPLE_EVENTS + 2);
			assert_int_not_equal(outcome, LOG_EVENT);
			b.events[i] ^= 1 << bit;
		}
	}
	free(b.metadata);
	free(b.events);
}

/* As a log of minor version 2 has it. */
static void a_thread_event_of_an_older_log_has_no_creator(void **state)
{
	static const uint8_t fields[] = { 77, 0, 0, 0, 78, 0, 0, 0, 'w', 0 };
	const uint32_t size = TRACELOG_EVENT_HEAD + sizeof(fields);
	uint64_t bits = (TRACELOG_PACKET_HEAD + size) * 8;
	uint8_t packet[TRACELOG_PACKET_HEAD + TRACELOG_EVENT_HEAD + sizeof(fields)] = { 0 };
	uint8_t *event = packet + TRACELOG_PACKET_HEAD;
	uint32_t magic = TRACELOG_MAGIC;
	char *metadata = tracelog_metadata_text(packet + TRACELOG_OFF_UUID, 0, "box");
	struct tracelog_reader *r;
	struct trace_event e;

	strstr(metadata, "format_major = 2")[15] = '1';
	memcpy(packet, &magic, sizeof(magic));
	memcpy(packet + TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_OFF_PACKET, &bits, sizeof(bits));
	event[0] = EVENT_THREAD;
	memcpy(event + TRACELOG_OFF_SIZE, &size, sizeof(size));
	memcpy(event + TRACELOG_EVENT_HEAD, fields, sizeof(fields));
	OK(tracelog_reader_open_memory(metadata, strlen(metadata), packet, sizeof(packet), &r));
	e = next(r, EVENT_THREAD);
	assert_int_equal(e.thread.tid, 78);
	assert_string_equal(e.thread.comm, "w");
	assert_int_equal(e.thread.creator, 0);
	assert_int_equal(e.thread.stack_end, 0);
	tracelog_reader_close(r);
	free(metadata);
}

static const struct type_event type_int = { .kind = TYPE_SIGNED, .size = 4 };
static const struct type_event type_pointer = { .kind = TYPE_POINTER, .size = 8 };
static const struct type_event type_string = { .kind = TYPE_STRING, .size = 8 };

static void values_come_back_in_order(void **state)
{
	const uint8_t number[] = { 1, 2, 3, 4 }, pointer[] = { 8, 7, 6, 5, 4, 3, 2, 1 };
	const struct call_value v[] = {
		{ VALUE_OK, number, 4, VALUE_NONE, NULL, 0 },
		{ VALUE_OK, pointer, 8, VALUE_OK, number, 4 },
		{ VALUE_OPTIMIZED_OUT, NULL, 0, VALUE_NONE, NULL, 0 },
		{ VALUE_OK, pointer, 8, VALUE_CUT, (const uint8_t *)"ab", 2 },
		{ VALUE_OK, pointer, 8, VALUE_UNREADABLE, NULL, 0 },
	};
	const struct type_event *const type[] = { &type_int, &type_pointer, &type_int, &type_string,
						  &type_string };
	struct call_values_reader r;
	struct call_value got;
	uint8_t buf[128];
	size_t len = 0, i;

	for (i = 0; i < 5; i++)
		assert_true(call_values_put(buf, sizeof(buf), &len, type[i]->kind, &v[i]));
	assert_int_equal(len, 5 + (1 + 8 + 1 + 2 + 4) + 1 + (1 + 8 + 1 + 2 + 2) + (1 + 8 + 1));
	r = (struct call_values_reader){ buf, buf + len };
	for (i = 0; i < 5; i++) {
		assert_true(call_values_next(&r, type[i], &got));
		assert_int_equal(got.state, v[i].state);
		assert_int_equal(got.size, v[i].size);
		assert_int_equal(got.to_state, v[i].to_state);
		assert_int_equal(got.to_len, v[i].to_len);
		if (got.size)
			assert_memory_equal(got.bytes, v[i].bytes, got.size);
		if (got.to_len)
			assert_memory_equal(got.to, v[i].to, got.to_len);
	}
	assert_false(call_values_next(&r, &type_int, &got));
	assert_false(call_values_next(&r, NULL, &got));
}

static void a_value_that_does_not_fit_is_not_begun(void **state)
{
	const uint8_t pointer[8] = { 1 };
	const struct call_value v = { VALUE_OK, pointer, 8, VALUE_OK, pointer, 8 };
	uint8_t buf[20];
	size_t len, cap;

	for (cap = 0; cap < 20; cap++) {
		len = 0;
		assert_false(call_values_put(buf, cap, &len, TYPE_POINTER, &v));
		assert_int_equal(len, 0);
	}
	assert_true(call_values_put(buf, 20, &len, TYPE_POINTER, &v));
}

static void cut_values_are_refused_whole(void **state)
{
	const uint8_t pointer[8] = { 1 };
	const struct call_value v = { VALUE_OK, pointer, 8, VALUE_CUT, pointer, 3 };
	struct call_values_reader r;
	struct call_value got;
	uint8_t buf[32], *cut;
	size_t len = 0, n;

	assert_true(call_values_put(buf, sizeof(buf), &len, TYPE_STRING, &v));
	for (n = 0; n < len; n++) {
		cut = malloc(n ? n : 1);
		memcpy(cut, buf, n);
		r = (struct call_values_reader){ cut, cut + n };
		assert_false(call_values_next(&r, &type_string, &got));
		assert_ptr_equal(r.at, cut);
		free(cut);
	}
	buf[0] = 9; /* no such state */
	r = (struct call_values_reader){ buf, buf + len };
	assert_false(call_values_next(&r, &type_string, &got));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(what_was_put_comes_back),
		TEST(babeltrace2_reads_the_same),
		TEST(a_call_takes_56_bytes_and_a_return_33_or_37_besides_their_values),
		TEST(cut_at_any_byte_it_yields_every_whole_event),
		TEST(any_flipped_byte_ends_in_good_order),
		TEST(a_thread_event_of_an_older_log_has_no_creator),
		TEST(values_come_back_in_order),
		TEST(a_value_that_does_not_fit_is_not_begun),
		TEST(cut_values_are_refused_whole),
	};

	return cmocka_run_group_tests_name("tracelog_step", tests, NULL, NULL);
}
