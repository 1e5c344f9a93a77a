/* Whatever happens to a flight recorder or its log, nothing is read that was not written. */
#include "tests/unit/tracelog_ring_sample.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "watchctl/base/clock.h"

/* Damage */

struct files {
	char *metadata;
	size_t metadata_len, n;
	struct log_file file[32];
};

static uint8_t *bytes_of(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	uint8_t *bytes = malloc(1 << 20);

	assert_non_null(f);
	*len = fread(bytes, 1, 1 << 20, f);
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

static void damage_costs_the_rest_of_a_file_and_is_never_misread(void **state)
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
	const uint64_t until = monotonic_ns() + 100 * 1000000000ull;

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
static void a_thousand_killed_recorders_leave_nothing_to_misread(void **state)
{
	static const uint64_t least[] = { 0, 1, 5000 };
	struct fixture *f = *state;
	_Atomic uint64_t *count = shared_count();
	struct seen *s = calloc(1, sizeof(*s));
	unsigned int with_events = 0, wrapped = 0;
	size_t nfiles;
	int i;

	for (i = 0; i < 1000; i++) {
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
	assert_true(with_events > 333);
	assert_true(wrapped > 200);
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

static void a_directory_without_events_is_refused_and_empty_files_are_an_empty_log(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	struct seen s = { 0 };

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
	assert_int_equal(see_more(r, &s), LOG_END);
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
		TEST(damage_costs_the_rest_of_a_file_and_is_never_misread),
		TEST(a_thousand_killed_recorders_leave_nothing_to_misread),
		TEST(a_directory_without_events_is_refused_and_empty_files_are_an_empty_log),
	};

	return cmocka_run_group_tests_name("tracelog_damage", tests, NULL, NULL);
}
