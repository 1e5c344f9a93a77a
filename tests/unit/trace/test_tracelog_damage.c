/* Whatever happens to a flight recorder or its log, nothing is read that was not written. */
#include "tests/unit/effort.h"
#include "tests/unit/tracelog_ring_sample.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/wait.h"

/* Damage */

struct files {
	char *metadata;
	size_t metadata_len, n;
	struct log_file file[32];
};

static uint8_t *bytes_of(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	uint8_t *bytes = malloc(4 << 20);

	assert_non_null(f);
	*len = fread(bytes, 1, 4 << 20, f);
	fclose(f);
	return bytes;
}

static void load_files(const char *log, struct files *ret)
{
	char path[160];
	uint64_t number;
	size_t len;

	snprintf(path, sizeof(path), "%s/metadata", log);
	ret->metadata = (char *)bytes_of(path, &ret->metadata_len);
	for (number = 0, ret->n = 0; number < 200; number++) {
		snprintf(path, sizeof(path), "%s/events.%010llu", log, (unsigned long long)number);
		if (access(path, F_OK))
			continue;
		assert_true(ret->n < 32);
		ret->file[ret->n] =
			(struct log_file){ .number = number, .fd = -1, .mem = bytes_of(path, &len) };
		ret->file[ret->n++].size = len;
	}
}

static uint64_t seed = 20261121;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

/* One of: zeroed from somewhere on, to the end of a page or of the file; cut; bytes overwritten. */
static void damage(struct log_file *f, uint8_t *bytes)
{
	uint64_t at = random_below(f->size), n = 0;

	switch (random_below(4)) {
	case 0:
		n = 4096 - at % 4096;
		memset(bytes + at, 0, n < f->size - at ? n : f->size - at);
		break;
	case 1:
		memset(bytes + at, 0, f->size - at);
		break;
	case 2:
		f->size = at;
		break;
	default:
		for (n = 1 + random_below(16); n--;)
			bytes[at + random_below(f->size - at)] = (uint8_t)random_below(256);
	}
}

static void damage_costs_the_packets_that_are_hit_and_is_never_misread(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct seen *whole = calloc(1, sizeof(*whole)), *s = calloc(1, sizeof(*s));
	struct tracelog_reader *r;
	struct files files;
	uint64_t missed, ignored;
	int round;
	size_t i;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 12000, BASE);
	OK(tracelog_writer_close(w));
	see_all(f->log, whole, &missed);
	load_files(f->log, &files);
	assert_true(files.n >= 10);
	for (round = 0; round < 300; round++) {
		size_t k = random_below(files.n);
		struct log_file saved = files.file[k];
		enum log_outcome outcome;

		files.file[k].mem = malloc(saved.size);
		memcpy((uint8_t *)files.file[k].mem, saved.mem, saved.size);
		damage(&files.file[k], (uint8_t *)files.file[k].mem);
		OK(tracelog_reader_open_memory_ring(files.metadata, files.metadata_len, files.file, files.n,
						    &r));
		memset(s, 0, sizeof(*s));
		s->damaged = true;
		outcome = see_more(r, s); /* checks each event */
		missed = tracelog_missed(r, NULL);
		ignored = tracelog_ignored(r, NULL);
		assert_true(outcome == LOG_END || k == files.n - 1);
		if (k < files.n - 1)
			assert_int_equal(s->last, whole->last);
		assert_true(missed + ignored <= saved.size);
		/* About 66 events of a packet of 16 KiB, four or five packets: no other file was lost. */
		assert_true(s->accesses + 700 > whole->accesses);
		tracelog_reader_close(r);
		free((void *)files.file[k].mem);
		files.file[k] = saved;
	}
	for (i = 0; i < files.n; i++)
		free((void *)files.file[i].mem);
	free(files.metadata);
	free(whole);
	free(s);
}

/* A plain log of @n accesses, in memory. */
static void plain_log(const struct fixture *f, uint64_t n, struct files *ret)
{
	struct tracelog_writer *w;
	char path[160];
	size_t len;

	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, BASE);
	OK(tracelog_writer_flush(w)); /* what all refer to has a packet of its own */
	sample_put_accesses(w, 1, n, BASE);
	OK(tracelog_writer_close(w));
	snprintf(path, sizeof(path), "%s/metadata", f->log);
	ret->metadata = (char *)bytes_of(path, &ret->metadata_len);
	snprintf(path, sizeof(path), "%s/events", f->log);
	ret->file[0] = (struct log_file){ .fd = -1, .mem = bytes_of(path, &len) };
	ret->file[0].size = len;
}

static void free_plain(struct files *p)
{
	free(p->metadata);
	free((void *)p->file[0].mem);
}

static enum log_outcome see_plain(const struct files *p, struct seen *s, struct log_damage *ret)
{
	struct tracelog_reader *r;
	enum log_outcome outcome;

	OK(tracelog_reader_open_memory(p->metadata, p->metadata_len, p->file[0].mem, p->file[0].size, &r));
	memset(s, 0, sizeof(*s));
	s->damaged = true;
	outcome = see_more(r, s); /* checks each event */
	tracelog_damage(r, ret);
	tracelog_reader_close(r);
	return outcome;
}

/* The issue's own case: it cost 93 % of a log. */
static void three_flipped_bytes_of_a_plain_log_cost_three_packets(void **state)
{
	struct seen *s = calloc(1, sizeof(*s));
	struct log_damage d;
	struct files p;
	uint8_t *bytes;
	int i;

	plain_log(*state, 5000, &p);
	bytes = (uint8_t *)p.file[0].mem;
	assert_int_equal(see_plain(&p, s, &d), LOG_END);
	assert_false(log_damage_is(&d));
	assert_int_equal(s->accesses, 5000);
	for (i = 1; i <= 3; i++) /* none is in the first packet, nor in the last */
		bytes[p.file[0].size * i / 4] ^= 0x10;
	assert_int_equal(see_plain(&p, s, &d), LOG_END);
	assert_int_equal(s->last, 5000);
	assert_int_equal(d.ngaps, 3);
	assert_int_equal(d.left_out, 0);
	assert_true(d.missed >= 3 * 60000 && d.missed <= 3 * 65536);
	/* A packet of 64 KiB holds about 330 hits. */
	assert_in_range(s->accesses, 5000 - 3 * 350, 5000 - 3 * 310);
	/* The packets' times, which the missing accesses fill. */
	assert_true(d.from_ns >= BASE + 1000 && d.to_ns > d.from_ns && d.to_ns < BASE + 5000 * 1000);
	free_plain(&p);
	free(s);
}

static void a_plain_log_that_is_damaged_anyhow_is_never_misread(void **state)
{
	struct seen *s = calloc(1, sizeof(*s));
	uint64_t read = 0, without_callers = 0, whole, first, first_bits;
	struct log_damage d;
	struct files p;
	uint8_t *saved;
	int round;

	plain_log(*state, 4000, &p);
	memcpy(&first_bits, p.file[0].mem + TRACELOG_OFF_PACKET, sizeof(first_bits));
	first = first_bits / 8;
	whole = p.file[0].size;
	saved = malloc(whole);
	memcpy(saved, p.file[0].mem, whole);
	for (round = 0; round < 600; round++) {
		struct log_file part = p.file[0];

		part.mem += first;
		part.size -= first;
		damage(&part, (uint8_t *)part.mem);
		p.file[0].size = first + part.size;
		see_plain(&p, s, &d);
		/* A packet that is cut off at its end leaves a log that is whole. */
		assert_true(log_damage_is(&d) || s->accesses == s->last);
		assert_int_equal(d.left_out, 0);
		read += s->accesses;
		without_callers += s->without_callers;
		memcpy((uint8_t *)p.file[0].mem, saved, whole);
		p.file[0].size = whole;
	}
	print_message("%u rounds: %.1f %% of the accesses were read\n", 600, (double)read / (600 * 40));
	assert_true(without_callers > 1000);
	free(saved);
	free_plain(&p);
	free(s);
}

static void what_was_described_in_a_lost_packet_is_left_out_and_counted(void **state)
{
	struct seen *s = calloc(1, sizeof(*s));
	struct log_damage d;
	struct files p;

	plain_log(*state, 1000, &p);
	((uint8_t *)p.file[0].mem)[200] ^= 1;
	assert_int_equal(see_plain(&p, s, &d), LOG_END);
	assert_int_equal(s->accesses, 0);
	assert_int_equal(d.left_out, 1000);
	assert_int_equal(d.ngaps, 1);
	assert_int_equal(d.from_ns, 0);
	assert_int_equal(d.to_ns, BASE + 1000);
	free_plain(&p);
	free(s);
}

/* Where the access numbered @n is. */
static uint64_t moving_address(uint64_t n)
{
	return 0x10000 + n / 100 * 64;
}

static void put_moving(struct tracelog_writer *w, uint64_t n)
{
	struct sample s;

	if (n % 100 == 0)
		put(w, (struct trace_event){ .type = EVENT_WATCH,
					     .time_ns = BASE + n * 1000,
					     .watch = { .id = 0,
							.name = "a",
							.full_name = "a",
							.addr = moving_address(n),
							.size = 8,
							.access = ACCESS_READWRITE,
							.engine = "handler",
							.slot = -1 } });
	sample_access(&s, n, BASE);
	s.e.access.watch = 0;
	s.e.access.addr = moving_address(n);
	put(w, s.e);
}

static void a_watch_that_moves_in_a_lost_packet_is_not_misplaced(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;
	uint8_t *metadata, *events;
	size_t metadata_len, len, at;
	uint64_t n, bits;
	char path[160];

	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, BASE);
	for (n = 1; n < 3000; n++)
		put_moving(w, n);
	OK(tracelog_writer_close(w));
	snprintf(path, sizeof(path), "%s/metadata", f->log);
	metadata = bytes_of(path, &metadata_len);
	snprintf(path, sizeof(path), "%s/events", f->log);
	events = bytes_of(path, &len);
	memcpy(&bits, events + TRACELOG_OFF_PACKET, sizeof(bits));
	for (at = bits / 8; at < len; at += bits / 8) {
		memcpy(&bits, events + at + TRACELOG_OFF_PACKET, sizeof(bits));
		events[at + 300] ^= 1;
		OK(tracelog_reader_open_memory((char *)metadata, metadata_len, events, len, &r));
		do {
			OK(tracelog_next(r, &e, &outcome));
			if (outcome == LOG_EVENT && e.type == EVENT_ACCESS && e.access.new_value >= 100)
				assert_int_equal(e.access.addr, moving_address(e.access.new_value));
		} while (outcome == LOG_EVENT);
		tracelog_reader_close(r);
		events[at + 300] ^= 1;
	}
	free(metadata);
	free(events);
}

static void remove_log(const char *log)
{
	DIR *d = opendir(log);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	rmdir(log);
}

/*
 * How many accesses the recorder has put, in memory that it shares with the test: when it is killed follows
 * from that, and not from how fast this machine is at the moment.
 */
static _Atomic uint64_t *shared_count(void)
{
	void *page = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED);
	return page;
}

static void record_until_killed(const struct fixture *f, bool plain, _Atomic uint64_t *count)
{
	struct tracelog_writer *w;
	uint64_t n;

	if (plain)
		OK(tracelog_writer_open(f->log, &w));
	else
		w = ring(f, MIB, 0);
	sample_begin(w, BASE);
	for (n = 1;; n += 10) {
		sample_put_accesses(w, n, n + 9, BASE);
		*count = n + 9;
		if (n % 1000 == 1)
			OK(tracelog_writer_flush(w));
	}
}

static void wait_for(const _Atomic uint64_t *count, uint64_t n)
{
	const struct timespec pause = { .tv_nsec = 20000 };
	const uint64_t until = wait_end_ns();

	while (*count < n) {
		assert_true(monotonic_ns() < until);
		nanosleep(&pause, NULL);
	}
}

struct victim {
	uint64_t accesses; /* that it puts at least, before it is killed */
	uint64_t more_us;  /* and so much later */
	bool plain;
};

/* Kills the recorder of a new log, and reads what is there. */
static void kill_one(const struct fixture *f, const struct victim *v, _Atomic uint64_t *count, struct seen *s)
{
	const struct timespec more = { .tv_nsec = (long)v->more_us * 1000 };
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct wc_error *err;
	int status;
	pid_t pid;

	*count = 0;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		record_until_killed(f, v->plain, count);
		_exit(1);
	}
	wait_for(count, v->accesses);
	nanosleep(&more, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	memset(s, 0, sizeof(*s));
	err = tracelog_reader_open(f->log, &r);
	if (err) { /* killed before it had begun: the metadata is not whole, or nothing is there */
		assert_int_equal(v->accesses, 0);
		assert_int_equal(err->kind, WC_ELOG);
		wc_error_free(err);
		return;
	}
	outcome = see_more(r, s); /* checks each event */
	assert_true(outcome == LOG_END || outcome == LOG_TRUNCATED);
	assert_int_equal(tracelog_missed(r, NULL), 0);
	if (s->accesses)
		assert_int_equal(s->accesses, s->last - s->first + 1);
	assert_true(s->last + 1000 >= v->accesses); /* what was flushed before is there */
	tracelog_reader_close(r);
}

/* A third while they begin, a third in their first packets, a third when a ring has begun to lose its oldest.
 */
static void killed_recorders_leave_nothing_to_misread(void **state)
{
	static const uint64_t least[] = { 0, 1, 5000 };
	struct fixture *f = *state;
	_Atomic uint64_t *count = shared_count();
	struct seen *s = calloc(1, sizeof(*s));
	unsigned int with_events = 0, wrapped = 0, n = effort(1000);
	size_t nfiles;
	int i;

	for (i = 0; i < (int)n; i++) {
		const struct victim v = { .accesses = least[i % 3] + (i % 3 ? random_below(2000) : 0),
					  .more_us = random_below(i % 3 ? 200 : 1000),
					  .plain = i % 5 == 4 };

		kill_one(f, &v, count, s);
		with_events += s->accesses > 0;
		wrapped += s->first > 1;
		if (!v.plain)
			assert_true(size_of_all(f->log, &nfiles) <= MIB);
		remove_log(f->log);
	}
	print_message("%u logs with events, %u of rings that had wrapped\n", with_events, wrapped);
	assert_true(with_events > n / 3);
	assert_true(wrapped > n / 10);
	munmap((void *)count, sizeof(*count));
	free(s);
}

/* What is there of a log */

static void replace(const char *dir, const char *name, const char *text)
{
	char path[160];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void a_directory_without_events_is_refused_and_empty_files_are_not_whole(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	struct seen s = { 0 };
	const char *why;

	mkdir(f->log, 0700);
	replace(f->log, "metadata",
		"/* CTF 1.8 */ trace { uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; };"
		"env { tracer_name = \"watchctl\"; format_major = 2; format_minor = 0; };");
	FAILS(tracelog_reader_open(f->log, &r), "has no file `events`");
	replace(f->log, "events.7", ""); /* not a name of ours */
	FAILS(tracelog_reader_open(f->log, &r), "has no file `events`");
	replace(f->log, "events.0000000007", "");
	replace(f->log, "events.0000000008", "");
	OK(tracelog_reader_open(f->log, &r));
	assert_int_equal(see_more(r, &s), LOG_TRUNCATED);
	assert_int_equal(tracelog_ignored(r, &why), 0);
	assert_non_null(strstr(why, "no events"));
	tracelog_reader_close(r);
	replace(f->log, "events.0000000009", "hello");
	OK(tracelog_reader_open(f->log, &r));
	assert_int_equal(see_more(r, &s), LOG_TRUNCATED);
	assert_int_equal(tracelog_ignored(r, NULL), 5);
	tracelog_reader_close(r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(damage_costs_the_packets_that_are_hit_and_is_never_misread),
		TEST(three_flipped_bytes_of_a_plain_log_cost_three_packets),
		TEST(a_plain_log_that_is_damaged_anyhow_is_never_misread),
		TEST(what_was_described_in_a_lost_packet_is_left_out_and_counted),
		TEST(a_watch_that_moves_in_a_lost_packet_is_not_misplaced),
		TEST(killed_recorders_leave_nothing_to_misread),
		TEST(a_directory_without_events_is_refused_and_empty_files_are_not_whole),
	};

	return cmocka_run_group_tests_name("tracelog_damage", tests, NULL, NULL);
}
