/* The bytes of a log: any damage ends it in good order, and what is no log is refused by name. */
#include "tests/unit/tracelog_small.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "watchctl/trace/log/tracelog_check.h"
#include "watchctl/trace/log/tracelog_format.h"

/* The check values are those of RFC 3720, B.4, and of the catalogue of CRCs. */
static void the_checksum_is_crc32c_with_and_without_the_cpus_instruction(void **state)
{
	uint8_t bytes[300] = { 0 };
	size_t i;

	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_table(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(crc32c(0, bytes, i), crc32c_table(0, bytes, i));
		assert_int_equal(crc32c(crc32c(0, bytes, i), bytes + i, sizeof(bytes) - i),
				 crc32c_table(0, bytes, sizeof(bytes)));
	}
}

/* As large as packets are: with lanes, one at a time and several, and what is left behind them. */
static void the_checksum_of_much_is_the_same_by_lanes(void **state)
{
	static const size_t len[] = { 3071, 3072, 3073, 3079, 3080, 6143, 6144, 9999, 65456, 65536 };
	uint8_t *bytes = malloc(65537);
	uint32_t x = 1;

	assert_non_null(bytes);
	for (size_t i = 0; i < 65537; i++) {
		x = x * 1103515245u + 12345u;
		bytes[i] = (uint8_t)(x >> 16);
	}
	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		assert_int_equal(crc32c(0, bytes, len[i]), crc32c_table(0, bytes, len[i]));
		assert_int_equal(crc32c(x, bytes + 1, len[i]), crc32c_table(x, bytes + 1, len[i]));
	}
	free(bytes);
}

static uint8_t *read_all(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	uint8_t *bytes = malloc(1 << 20);

	assert_non_null(f);
	*len = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

struct bytes {
	char *metadata;
	uint8_t *events;
	size_t metadata_len, events_len;
};

static struct bytes load(const struct fixture *f)
{
	struct bytes b;
	char path[128];

	snprintf(path, sizeof(path), "%s/metadata", f->log);
	b.metadata = (char *)read_all(path, &b.metadata_len);
	snprintf(path, sizeof(path), "%s/events", f->log);
	b.events = read_all(path, &b.events_len);
	return b;
}

static void bytes_free(struct bytes *b)
{
	free(b->metadata);
	free(b->events);
}

/* Reads @b to its end: how many events, and how it ended. */
static size_t drain(const struct bytes *b, size_t len, enum log_outcome *outcome, uint64_t *ignored)
{
	struct tracelog_reader *r;
	struct trace_event e;
	size_t n = 0;
	const char *why;

	OK(tracelog_reader_open_memory(b->metadata, b->metadata_len, b->events, len, &r));
	for (;; n++) {
		OK(tracelog_next(r, &e, outcome));
		if (*outcome != LOG_EVENT)
			break;
	}
	*ignored = tracelog_ignored(r, &why);
	assert_int_equal(*outcome == LOG_TRUNCATED, why != NULL);
	tracelog_reader_close(r);
	return n;
}

static void cut_at_any_byte_it_yields_every_whole_packet(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	size_t len, n, packets = 0, at = 0, i, end[8] = { 0 }, events[8] = { 0 };
	struct tracelog_writer *w;
	uint64_t ignored, bits;
	struct bytes b;

	OK(tracelog_writer_open(f->log, &w));
	put_context(w);
	OK(tracelog_writer_flush(w));
	put(w, access_at(2000, 42, stack_a, 3));
	put(w, access_at(2001, 43, stack_b, 2));
	OK(tracelog_writer_flush(w));
	put_ending(w);
	OK(tracelog_writer_close(w));
	b = load(f);
	for (; at < b.events_len; at = end[packets]) {
		memcpy(&bits, b.events + at + TRACELOG_OFF_PACKET, sizeof(bits));
		end[++packets] = at + bits / 8;
	}
	assert_int_equal(packets, 3);
	events[1] = 5, events[2] = 7, events[3] = 11;
	for (len = 0; len <= b.events_len; len++) {
		/* A block of its own size, so that valgrind and asan see a read behind it. */
		struct bytes cut = b;

		for (i = 0; i < 3 && end[i + 1] <= len;)
			i++;
		cut.events = malloc(len ? len : 1);
		memcpy(cut.events, b.events, len);
		n = drain(&cut, len, &outcome, &ignored);
		free(cut.events);
		assert_int_equal(n, events[i]);
		assert_int_equal(outcome, len && len == end[i] ? LOG_END : LOG_TRUNCATED);
		assert_int_equal(ignored, len - end[i]);
	}
	bytes_free(&b);
}

static void with_any_flipped_bit_a_packet_is_not_read(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint64_t ignored;
	struct bytes b;
	size_t i;
	int bit;

	small_write(f->log);
	b = load(f);
	for (i = 0; i < b.events_len; i++) {
		for (bit = 0; bit < 8; bit++) {
			b.events[i] ^= 1 << bit;
			assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), 0);
			assert_int_equal(outcome, LOG_TRUNCATED);
			assert_int_equal(ignored, b.events_len);
			b.events[i] ^= 1 << bit;
		}
	}
	bytes_free(&b);
}

static void what_follows_a_whole_packet_is_counted_as_ignored(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint64_t ignored;
	struct bytes b;

	small_write(f->log);
	b = load(f);
	memset(b.events + b.events_len, 0, 5000);
	assert_int_equal(drain(&b, b.events_len + 5000, &outcome, &ignored), SMALL_EVENTS);
	assert_int_equal(outcome, LOG_TRUNCATED);
	assert_int_equal(ignored, 5000);
	bytes_free(&b);
}

static void unknown_ids_and_trailing_fields_are_stepped_over(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint8_t tail[14 + 9 + 5];
	uint64_t ignored, bits;
	struct bytes b;
	uint32_t size;
	uint16_t id;

	small_write(f->log);
	b = load(f);
	/* From a newer minor version: an event 99, and a note with five more bytes. */
	memset(tail, 0, sizeof(tail));
	id = 99, size = 14;
	memcpy(tail, &id, 2), memcpy(tail + TRACELOG_OFF_SIZE, &size, 4);
	memcpy(b.events + b.events_len, tail, 14);
	id = EVENT_NOTE, size = 14 + 5 + 5;
	memcpy(tail, &id, 2), memcpy(tail + TRACELOG_OFF_SIZE, &size, 4);
	memcpy(tail + 14, "hello", 5);
	tail[18] = '\0';
	memcpy(b.events + b.events_len + 14, tail, size);
	b.events_len += 14 + size;
	bits = b.events_len * 8;
	memcpy(b.events + TRACELOG_OFF_CONTENT, &bits, 8);
	memcpy(b.events + TRACELOG_OFF_PACKET, &bits, 8);
	size = tracelog_packet_checksum(b.events, b.events_len);
	memcpy(b.events + TRACELOG_OFF_CHECKSUM, &size, 4);
	assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), SMALL_EVENTS + 1);
	assert_int_equal(outcome, LOG_END);
	bytes_free(&b);
}

static void what_was_flushed_survives_a_killed_recorder(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	struct tracelog_writer *w;
	uint64_t ignored;
	struct bytes b;

	OK(tracelog_writer_open(f->log, &w));
	put_context(w);
	OK(tracelog_writer_flush(w));
	put(w, access_at(2000, 42, stack_a, 3));
	b = load(f);
	assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), 5);
	assert_int_equal(outcome, LOG_END);
	bytes_free(&b);
	OK(tracelog_writer_close(w));
}

/* RLIMIT_FSIZE makes write(2) come back short, then fail, just as a full disk does. */
static void a_full_disk_is_reported_and_leaves_whole_packets(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, tight;
	enum log_outcome outcome;
	struct tracelog_writer *w;
	struct event_sink sink;
	struct wc_error *err = NULL;
	struct trace_event e;
	uint64_t ignored;
	struct bytes b;
	size_t n;
	int i;

	OK(tracelog_writer_open(f->log, &w));
	sink = tracelog_writer_sink(w);
	getrlimit(RLIMIT_FSIZE, &old);
	tight = old;
	tight.rlim_cur = 200000;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tight);
	for (i = 0; i < 100000 && !err; i++) {
		e = access_at(i, i + 1, stack_a, 3);
		err = sink.put(sink.ctx, &e);
	}
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	FAILS(err, "File too large (the ");
	FAILS(sink.put(sink.ctx, &e), "given up");
	OK(tracelog_writer_close(w));
	b = load(f);
	n = drain(&b, b.events_len, &outcome, &ignored);
	assert_int_equal(outcome, LOG_END);
	assert_true(n > 800 && n < 900);
	bytes_free(&b);
}

static void replace(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void what_is_not_a_log_is_refused_by_name(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	char metadata[128], events[128];

	snprintf(metadata, sizeof(metadata), "%s/metadata", f->log);
	snprintf(events, sizeof(events), "%s/events", f->log);
	FAILS(tracelog_reader_open(f->log, &r), "there is no log");
	FAILS(tracelog_reader_open("/etc/passwd", &r), "a log is a directory");
	mkdir(f->log, 0700);
	FAILS(tracelog_reader_open(f->log, &r), "has no file `metadata`");
	replace(metadata, "");
	FAILS(tracelog_reader_open(f->log, &r), "metadata is empty");
	replace(metadata, "hello");
	FAILS(tracelog_reader_open(f->log, &r), "not a log of watchctl");
	replace(metadata, "\x57\x1d\xd1\x75...");
	FAILS(tracelog_reader_open(f->log, &r), "another tracer");
	replace(metadata, "/* CTF 1.8 */ env { tracer_name = \"lttng-modules\"; };");
	FAILS(tracelog_reader_open(f->log, &r), "made by lttng-modules, not");
	replace(metadata, "/* CTF 1.8 */ env { tracer_name = \"watchctl\"; };");
	FAILS(tracelog_reader_open(f->log, &r), "damaged or incomplete");
	replace(metadata, "/* CTF 1.8 */ trace { uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; };"
			  "env { tracer_name = \"watchctl\"; format_major = 3; format_minor = 3; };");
	FAILS(tracelog_reader_open(f->log, &r), "made by a newer version of watchctl (its format is 3.3");
	replace(metadata, "/* CTF 1.8 */ trace { uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; };"
			  "env { tracer_name = \"watchctl\"; format_major = 1; format_minor = 9; };");
	FAILS(tracelog_reader_open(f->log, &r), "has no file `events`");
	mkfifo(events, 0600);
	FAILS(tracelog_reader_open(f->log, &r), "not a regular file");
	unlink(events);
	replace(events, "");
	OK(tracelog_reader_open(f->log, &r));
	tracelog_reader_close(r);
}

static void packets_of_another_log_are_refused(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint64_t ignored;
	struct bytes b;

	small_write(f->log);
	b = load(f);
	b.events[TRACELOG_OFF_UUID] ^= 1;
	assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), 0);
	assert_int_equal(outcome, LOG_TRUNCATED);
	assert_int_equal(ignored, b.events_len);
	bytes_free(&b);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_checksum_is_crc32c_with_and_without_the_cpus_instruction),
		cmocka_unit_test(the_checksum_of_much_is_the_same_by_lanes),
		TEST(cut_at_any_byte_it_yields_every_whole_packet),
		TEST(with_any_flipped_bit_a_packet_is_not_read),
		TEST(what_follows_a_whole_packet_is_counted_as_ignored),
		TEST(unknown_ids_and_trailing_fields_are_stepped_over),
		TEST(what_was_flushed_survives_a_killed_recorder),
		TEST(a_full_disk_is_reported_and_leaves_whole_packets),
		TEST(what_is_not_a_log_is_refused_by_name),
		TEST(packets_of_another_log_are_refused),
	};

	return cmocka_run_group_tests_name("tracelog_bytes", tests, NULL, NULL);
}
