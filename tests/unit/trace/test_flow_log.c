/* The system's events in a log: what was put comes back, all CPUs in the order of time; babeltrace2 agrees. */
#include "tests/unit/tracelog_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "watchctl/trace/flow/flow_reader.h"
#include "watchctl/trace/flow/flow_writer.h"
#include "watchctl/trace/log/tracelog_snapshot.h"

#define START 5000000000ull
#define WRAP (1ull << FLOW_TIME_BITS)

/* Words of events of a CPU, with times where they are needed. */
struct script {
	uint32_t word[1 << 16];
	size_t n;
	uint64_t now_ns;
	bool has_time;
};

static void add_time(struct script *s, uint64_t time_ns)
{
	const uint32_t word[] = { FLOW_EXTENDED, FLOW_TIME, (uint32_t)time_ns, (uint32_t)(time_ns >> 32) };

	memcpy(s->word + s->n, word, sizeof(word));
	s->n += FLOW_TIME_WORDS;
}

/* @field: n words behind the head. */
static void add(struct script *s, uint32_t id, uint64_t time_ns, const uint32_t *field, size_t n)
{
	if (!s->has_time || time_ns - s->now_ns >= WRAP)
		add_time(s, time_ns);
	s->has_time = true;
	s->now_ns = time_ns;
	s->word[s->n++] = flow_head(id, time_ns);
	memcpy(s->word + s->n, field, n * sizeof(*field));
	s->n += n;
}

#define ADD(s, id, time_ns, ...)                               \
	add(s, id, time_ns, (const uint32_t[]){ __VA_ARGS__ }, \
	    sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static void hand_over(struct flow_writer *w, uint32_t cpu, struct script *s)
{
	OK(flow_writer_put(w, cpu, s->word, s->n));
	s->n = 0;
}

static struct script *script_new(void)
{
	struct script *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	return s;
}

static struct flow_writer *begin(const char *log, unsigned int cpus, uint64_t ring)
{
	struct tracelog_writer *events;
	struct flow_writer *w;

	OK(tracelog_writer_open(log, &events));
	OK(tracelog_writer_close(events));
	OK(flow_writer_open(log, cpus, ring, &w));
	return w;
}

static struct flow_reader *reader(const char *log)
{
	struct flow_reader *r;

	OK(flow_reader_open(log, &r));
	return r;
}

static struct flow_event next(struct flow_reader *r)
{
	struct flow_event e;

	assert_true(flow_reader_next(r, &e));
	return e;
}

static void check_end(struct flow_reader *r)
{
	struct flow_damage d;
	struct flow_event e;

	assert_false(flow_reader_next(r, &e));
	flow_reader_damage(r, &d);
	assert_null(d.why);
	assert_int_equal(d.packets + d.ignored, 0);
}

static uint64_t count_events(struct flow_reader *r)
{
	struct flow_event e;
	uint64_t n = 0;

	while (flow_reader_next(r, &e))
		n++;
	return n;
}

#define CALL(call, kind, result) ((uint32_t)(call) | (uint32_t)(kind) << 9 | (uint32_t)(result) << 13)
#define SHORT(call, result) ((uint32_t)(call) | (uint32_t)(result) << 9)

static void add_waits(struct script *s)
{
	ADD(s, FLOW_SWITCH, START, 100 | FLOW_PREEMPTED << 24);
	ADD(s, FLOW_WAIT_CALL, START + 1, 101 | FLOW_BLOCKED << 24, 74);
	ADD(s, FLOW_WAIT_ON, START + 2, 102 | (uint32_t)(FLOW_SLEEPS | FLOW_WHY_FAULT) << 24,
	    CALL(7, FLOW_KIND_PIPE, 0x7fff1), 4711);
	ADD(s, FLOW_WAIT_FUTEX, START + 3, FLOW_SLEEPS << 24, 0x189 | 1 << 9, 0x1000, 0x7fff, 1, 2, 3);
	ADD(s, FLOW_WAIT_FUTEX, START + 4, 103, 0x80, 8, 0, 1, 2, 3);
}

static void check_waits(struct flow_reader *r)
{
	struct flow_event e = next(r);

	assert_true(e.id == FLOW_SWITCH && e.time_ns == START && e.cpu == 1 && e.tid == -1);
	assert_true(e.other == 100 && e.why == FLOW_PREEMPTED);
	e = next(r);
	assert_true(e.id == FLOW_WAIT_CALL && e.tid == 100 && e.other == 101 && e.call == 74);
	assert_int_equal(e.why, FLOW_BLOCKED);
	e = next(r);
	assert_true(e.id == FLOW_WAIT_ON && e.tid == 101 && e.call == 7 && e.kind == FLOW_KIND_PIPE);
	assert_true(e.op == 0x7fff1 && e.object == 4711 && e.why == (FLOW_SLEEPS | FLOW_WHY_FAULT));
	e = next(r);
	assert_true(e.id == FLOW_WAIT_FUTEX && e.tid == 102 && e.other == 0 && e.call == SYS_futex);
	assert_true(e.op == 0x189 && e.address == 0x7fff00001000 && e.has_words);
	assert_true(e.word[0] == 1 && e.word[1] == 2 && e.word[2] == 3);
	e = next(r);
	assert_true(e.id == FLOW_WAIT_FUTEX && e.tid == 0 && !e.has_words && !e.word[0] && e.op == 0x80);
}

static void add_threads(struct script *s)
{
	uint32_t name[7] = { 104 | FLOW_NAME_FORK << 24, 90, 80 };

	memcpy(name + 3, "sixteen letters!", 16);
	ADD(s, FLOW_WAKING, START + 5, 200 | FLOW_BY_SOFTIRQ << 24);
	ADD(s, FLOW_FORK, START + 6, 104 | 1 << 24);
	add(s, FLOW_NAME, START + 7, name, 7);
	ADD(s, FLOW_EXEC, START + 8, 103);
	name[0] = 90 | FLOW_NAME_EXEC << 24;
	add(s, FLOW_NAME, START + 9, name, 7);
	ADD(s, FLOW_EXIT, START + 10, 0x8b00);
	ADD(s, FLOW_SIGNAL, START + 11, 104 | 11u << 24, FLOW_BY_IRQ);
	ADD(s, FLOW_SIGNAL_TAKEN, START + 12, 64);
}

static void check_threads(struct flow_reader *r)
{
	struct flow_event e = next(r);

	assert_true(e.id == FLOW_WAKING && e.tid == 103 && e.other == 200 && e.why == FLOW_BY_SOFTIRQ);
	e = next(r);
	assert_true(e.id == FLOW_FORK && e.other == 104 && e.why == 1);
	e = next(r);
	assert_true(e.id == FLOW_NAME && e.other == 104 && e.why == FLOW_NAME_FORK && e.tid == 103);
	assert_true(e.pid == 90 && e.parent == 80);
	assert_string_equal(e.comm, "sixteen letters!");
	e = next(r);
	assert_true(e.id == FLOW_EXEC && e.other == 103);
	e = next(r);
	assert_true(e.id == FLOW_NAME && e.other == 90 && e.why == FLOW_NAME_EXEC);
	e = next(r); /* it has taken the number of its process */
	assert_true(e.id == FLOW_EXIT && e.tid == 90 && e.result == 0x8b00);
	e = next(r);
	assert_true(e.id == FLOW_SIGNAL && e.other == 104 && e.op == 11 && e.why == FLOW_BY_IRQ);
	e = next(r);
	assert_true(e.id == FLOW_SIGNAL_TAKEN && e.op == 64);
}

static void add_calls(struct script *s)
{
	ADD(s, FLOW_CALL, START + 13, SHORT(3, -9));
	ADD(s, FLOW_CALL_BIG, START + 14, 9, 0xfffff000, 0x7fff);
	ADD(s, FLOW_CALL_ON, START + 15, CALL(0, FLOW_KIND_UNIX, -11), 12345);
	ADD(s, FLOW_CALL_ON_BIG, START + 16, CALL(1, FLOW_KIND_FILE, 0), 77, 0, 1);
	ADD(s, FLOW_CALL_FUTEX, START + 17, SHORT(0x81, -110), 0x2000, 1);
}

static void check_calls(struct flow_reader *r)
{
	struct flow_event e = next(r);

	assert_true(e.id == FLOW_CALL && e.call == 3 && e.result == -9);
	e = next(r);
	assert_true(e.id == FLOW_CALL && e.call == 9 && e.result == 0x7ffffffff000);
	e = next(r);
	assert_true(e.id == FLOW_CALL_ON && e.kind == FLOW_KIND_UNIX && e.result == -11 && e.object == 12345);
	e = next(r);
	assert_true(e.id == FLOW_CALL_ON && e.call == 1 && e.kind == FLOW_KIND_FILE);
	assert_true(e.object == 77 && e.result == 1ll << 32);
	e = next(r);
	assert_true(e.id == FLOW_CALL_FUTEX && e.call == SYS_futex && e.op == 0x81 && e.result == -110);
	assert_int_equal(e.address, 0x100002000);
}

static void add_others(struct script *s)
{
	for (uint32_t id = FLOW_TIMER_SET; id <= FLOW_BLOCK_DONE; id++)
		ADD(s, id, START + 20 + id, 1000 + id);
	ADD(s, FLOW_SOCKET, START + 50, FLOW_KIND_UNIX, 60, 61, 0, 0);
	ADD(s, FLOW_SOCKET, START + 51, FLOW_KIND_INET | 80u << 16, 62, 4000u << 16, 0xaa, 0xbb);
	ADD(s, FLOW_STACK, START + 52, 2, 0x10, 1, 0x20, 2);
	ADD(s, FLOW_STACK, START + 53, 0);
	ADD(s, FLOW_LOST, START + 54, 5);
	ADD(s, FLOW_CALL, START + 55, 0);
	ADD(s, FLOW_SWITCH, START + 56, 1);
	ADD(s, FLOW_CALL, START + 57, 0);
}

static void check_others(struct flow_reader *r)
{
	struct flow_event e;

	for (uint32_t id = FLOW_TIMER_SET; id <= FLOW_BLOCK_DONE; id++) {
		e = next(r);
		assert_true(e.id == id && e.object == 1000 + id && e.time_ns == START + 20 + id);
	}
	e = next(r);
	assert_true(e.id == FLOW_SOCKET && e.object == 60 && e.word[0] == 61);
	e = next(r);
	assert_true(e.id == FLOW_SOCKET && e.object == 62 && e.word[0] == (80 | 4000u << 16));
	assert_true(e.word[1] == 0xaa && e.word[2] == 0xbb);
	e = next(r);
	assert_true(e.id == FLOW_STACK && e.depth == 2 && e.ip[0] == 0x100000010 && e.ip[1] == 0x200000020);
	e = next(r);
	assert_true(e.id == FLOW_STACK && !e.depth && e.tid == 90);
	e = next(r);
	assert_true(e.id == FLOW_LOST && e.result == 5);
	assert_int_equal(next(r).tid, -1);
	assert_int_equal(next(r).tid, -1);
	assert_int_equal(next(r).tid, 1);
}

static void write_all_kinds(const char *log)
{
	struct flow_writer *w = begin(log, 2, 0);
	struct script *s = script_new();
	struct flow_counts c;

	add_waits(s);
	add_threads(s);
	add_calls(s);
	add_others(s);
	hand_over(w, 1, s);
	flow_writer_counts(w, &c);
	assert_int_equal(c.events, 5 + 8 + 5 + 9 + 8);
	assert_int_equal(c.lost, 5);
	OK(flow_writer_close(w));
	free(s);
}

static void every_kind_comes_back(void **state)
{
	struct fixture *f = *state;
	struct flow_reader *r;
	struct flow_span span;

	write_all_kinds(f->log);
	r = reader(f->log);
	check_waits(r);
	check_threads(r);
	check_calls(r);
	check_others(r);
	check_end(r);
	flow_reader_span(r, &span);
	assert_true(span.begin_ns == START && span.end_ns == START + 57 && span.cpus == 1);
	assert_true(span.lost == 5 && !span.is_ring && span.realtime_ns > 0);
	flow_reader_close(r);
}

/* Event @n of CPU @cpu: some wait, so that packets begin with different threads. */
static uint64_t time_of(uint32_t cpu, uint64_t n)
{
	return START + 7 * cpu + n * 1009 + (n / 5000) * 3 * WRAP;
}

static void add_numbered(struct script *s, uint32_t cpu, uint64_t n)
{
	if (n % 3)
		ADD(s, FLOW_CALL_ON, time_of(cpu, n), CALL(1, FLOW_KIND_PIPE, n % 1000), (uint32_t)n);
	else
		ADD(s, FLOW_SWITCH, time_of(cpu, n), (uint32_t)(n % 100000 + 1));
}

static void put_numbered(struct flow_writer *w, struct script **s, uint32_t cpus, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++)
		for (uint32_t cpu = 0; cpu < cpus; cpu++) {
			add_numbered(s[cpu], cpu, n);
			if (s[cpu]->n > 8000)
				hand_over(w, cpu, s[cpu]);
		}
	for (uint32_t cpu = 0; cpu < cpus; cpu++)
		hand_over(w, cpu, s[cpu]);
}

static void check_numbered(const struct flow_event *e, uint32_t cpu, uint64_t n)
{
	assert_int_equal(e->cpu, cpu);
	assert_int_equal(e->time_ns, time_of(cpu, n));
	assert_int_equal(e->id, n % 3 ? FLOW_CALL_ON : FLOW_SWITCH);
	assert_int_equal(e->tid, n ? (int32_t)((n - 1) / 3 * 3 % 100000 + 1) : -1);
	if (n % 3)
		assert_int_equal(e->object, n);
}

static void write_numbered(const char *log, uint32_t cpus, uint64_t count)
{
	struct flow_writer *w = begin(log, cpus, 0);
	struct script *s[4] = { script_new(), script_new(), script_new(), script_new() };

	put_numbered(w, s, cpus, 0, count);
	OK(flow_writer_close(w));
	for (int i = 0; i < 4; i++)
		free(s[i]);
}

static void cpus_are_merged_over_packets(void **state)
{
	const uint64_t count = 40000;
	struct fixture *f = *state;
	struct flow_reader *r;

	write_numbered(f->log, 4, count);
	r = reader(f->log);
	for (uint64_t n = 0; n < count; n++)
		for (uint32_t cpu = 0; cpu < 4; cpu++) {
			const struct flow_event e = next(r);

			check_numbered(&e, cpu, n);
		}
	check_end(r);
	flow_reader_close(r);
}

static void a_time_is_found_from_everywhere(void **state)
{
	static const uint64_t to[] = { 39999, 0, 20000, 5000, 4999, 1, 33333 };
	struct fixture *f = *state;
	struct flow_reader *r;
	struct flow_event e;

	write_numbered(f->log, 2, 40000);
	r = reader(f->log);
	for (size_t i = 0; i < sizeof(to) / sizeof(*to); i++) {
		flow_reader_seek(r, time_of(0, to[i]));
		e = next(r);
		check_numbered(&e, 0, to[i]);
		e = next(r);
		check_numbered(&e, 1, to[i]);
	}
	flow_reader_seek(r, time_of(3, 40000));
	check_end(r);
	flow_reader_close(r);
}

static void what_is_flushed_can_be_read_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct flow_writer *w = begin(f->log, 1, 0);
	struct script *s = script_new();
	struct flow_reader *r;

	for (uint64_t n = 0; n < 5; n++) {
		put_numbered(w, &s, 1, n * 100, (n + 1) * 100);
		OK(flow_writer_flush(w));
		OK(flow_writer_flush(w));
		r = reader(f->log);
		assert_int_equal(count_events(r), (n + 1) * 100);
		check_end(r);
		flow_reader_close(r);
	}
	OK(flow_writer_close(w));
	free(s);
}

/* Flight recorders */

static void put_name(struct flow_writer *w, uint32_t cpu, struct script *s, uint64_t time_ns, uint32_t tid)
{
	uint32_t name[7] = { tid, tid, 1 };

	snprintf((char *)(name + 3), 16, "thread %u", tid);
	add(s, FLOW_NAME, time_ns, name, 7);
	hand_over(w, cpu, s);
}

static uint64_t bytes_of_flow(const char *log)
{
	char path[400];
	DIR *d = opendir(log);
	struct dirent *e;
	struct stat st;
	uint64_t sum = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", log, e->d_name);
		if (!strncmp(e->d_name, "flow.", 5) && stat(path, &st) == 0)
			sum += (uint64_t)st.st_size;
	}
	closedir(d);
	return sum;
}

/* Thread 7 stays, thread 8 ends soon; the socket 60 is used all the time, 70 is not. */
static void begin_ring(struct flow_writer *w, struct script **s)
{
	struct script *names = script_new();

	put_name(w, FLOW_CPU_NAMES, names, START, 7);
	put_name(w, FLOW_CPU_NAMES, names, START, 8);
	free(names);
	ADD(s[0], FLOW_SOCKET, START, FLOW_KIND_UNIX, 60, 61, 0, 0);
	ADD(s[0], FLOW_SOCKET, START, FLOW_KIND_UNIX, 70, 71, 0, 0);
	ADD(s[0], FLOW_SWITCH, START, 8);
	ADD(s[0], FLOW_EXIT, START, 0);
	hand_over(w, 0, s[0]);
}

static void check_ring(struct flow_reader *r)
{
	struct flow_event e = next(r);
	uint64_t before_ns = 0;

	assert_true(e.id == FLOW_NAME && e.cpu == FLOW_CPU_NAMES && e.other == 7 && e.why == FLOW_NAME_WAS);
	assert_string_equal(e.comm, "thread 7");
	e = next(r);
	assert_true(e.id == FLOW_SOCKET && e.object == 60 && e.word[0] == 61);
	while (flow_reader_next(r, &e)) {
		assert_true(e.time_ns >= before_ns);
		assert_true(e.id != FLOW_NAME || e.other == 7);
		assert_true(e.id != FLOW_SOCKET || e.object == 60);
		assert_true(e.id == FLOW_NAME || e.id == FLOW_SOCKET || e.tid >= 0);
		before_ns = e.time_ns;
	}
	check_end(r);
}

static void a_ring_keeps_its_bound_and_the_names(void **state)
{
	const uint64_t ring = FLOW_RING_MIN;
	struct fixture *f = *state;
	struct flow_writer *w = begin(f->log, 2, ring);
	struct script *s[2] = { script_new(), script_new() };
	struct flow_reader *r;
	struct flow_span span;

	begin_ring(w, s);
	for (uint64_t n = 0; n < 600000; n += 2000) {
		put_numbered(w, s, 2, n, n + 2000);
		ADD(s[0], FLOW_CALL_ON, s[0]->now_ns, CALL(0, FLOW_KIND_UNIX, 1), 60);
		hand_over(w, 0, s[0]);
		assert_true(bytes_of_flow(f->log) <= ring);
	}
	OK(flow_writer_close(w));
	assert_in_range(bytes_of_flow(f->log), ring / 2, ring);
	r = reader(f->log);
	flow_reader_span(r, &span);
	assert_true(span.is_ring && span.end_ns == time_of(1, 599999));
	check_ring(r);
	flow_reader_seek(r, span.begin_ns + (span.end_ns - span.begin_ns) / 2);
	assert_int_equal(next(r).id, FLOW_NAME);
	flow_reader_close(r);
	for (int i = 0; i < 2; i++)
		free(s[i]);
}

/* Names alone must not make it larger, either. */
static void a_ring_of_many_names_keeps_its_bound(void **state)
{
	struct fixture *f = *state;
	struct flow_writer *w = begin(f->log, 1, FLOW_RING_MIN);
	struct script *s = script_new();
	struct flow_reader *r;

	for (uint32_t tid = 1; tid < 200000; tid++)
		put_name(w, FLOW_CPU_NAMES, s, START + tid, tid);
	assert_true(bytes_of_flow(f->log) <= FLOW_RING_MIN);
	OK(flow_writer_close(w));
	r = reader(f->log);
	assert_true(count_events(r) > 0);
	check_end(r);
	flow_reader_close(r);
	free(s);
}

/* Damage */

static char *file_of(const struct fixture *f, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", f->log, name) > 0);
	return path;
}

static void flip(const char *path, off_t at)
{
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x41;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* All that comes is what was put, in order; *@gaps: how often something is missing. */
static uint64_t check_rest(struct flow_reader *r, uint64_t *gaps)
{
	struct flow_event e;
	uint64_t n = 0, count = 0;

	*gaps = 0;
	while (flow_reader_next(r, &e)) {
		if (e.id == FLOW_LOST) {
			assert_int_equal(e.tid, -1);
			++*gaps;
			continue;
		}
		while (time_of(0, n) < e.time_ns)
			n++;
		check_numbered(&e, 0, n);
		count++;
	}
	return count;
}

static void damage_costs_its_packet(void **state)
{
	/* In the head of the second packet, in its events, at its end. */
	static const off_t at[] = { 0, 5, 20, 24, 40, 48, 64, 68, 72, 76, 80, 30000, 60000 };
	struct fixture *f = *state;
	struct flow_reader *r;
	struct flow_damage d;
	struct flow_packet p;
	uint64_t gaps, left;
	char *path;

	write_numbered(f->log, 1, 40000);
	path = file_of(f, "flow.0000000000-0");
	{
		const int fd = open(path, O_RDONLY | O_CLOEXEC);

		assert_int_equal(pread(fd, &p, sizeof(p), 0), sizeof(p));
		close(fd);
	}
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
		flip(path, (off_t)(p.packet_bits / 8) + at[i]);
		r = reader(f->log);
		left = check_rest(r, &gaps);
		assert_in_range(left, 40000 - 8200, 40000 - 4000);
		assert_int_equal(gaps, 1);
		flow_reader_damage(r, &d);
		assert_int_equal(d.packets, 1);
		assert_non_null(d.why);
		flow_reader_close(r);
		flip(path, (off_t)(p.packet_bits / 8) + at[i]);
	}
	free(path);
}

static void a_file_can_end_anywhere(void **state)
{
	struct fixture *f = *state;
	struct flow_writer *w = begin(f->log, 1, 0);
	struct script *s = script_new();
	struct wc_error *err = NULL;
	struct flow_reader *r;
	struct flow_damage d;
	struct stat st;
	uint64_t gaps, n;
	char *path;

	for (uint64_t i = 0; i < 3; i++) {
		put_numbered(w, &s, 1, i * 10, i * 10 + 10);
		OK(flow_writer_flush(w));
	}
	OK(flow_writer_close(w));
	path = file_of(f, "flow.0000000000-0");
	assert_int_equal(stat(path, &st), 0);
	for (off_t size = st.st_size - 1; size > 0; size--) {
		assert_int_equal(truncate(path, size), 0);
		err = flow_reader_open(f->log, &r);
		if (err) /* see below */
			break;
		n = check_rest(r, &gaps);
		assert_true(gaps == 0 && (n == 20 || n == 10));
		flow_reader_damage(r, &d);
		assert_true(d.ignored > 0 || n * (uint64_t)size > 0);
		flow_reader_close(r);
	}
	wc_error_free(err);
	FAILS(flow_reader_open(f->log, &r), "it ends in the middle of a packet");
	assert_int_equal(truncate(path, 0), 0);
	FAILS(flow_reader_open(f->log, &r), "ended before it wrote any");
	free(path);
	free(s);
}

static void a_log_of_other_things_says_so(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *events;
	struct flow_reader *r;

	OK(tracelog_writer_open(f->log, &events));
	OK(tracelog_writer_close(events));
	FAILS(flow_reader_open(f->log, &r), "has no system events");
	FAILS(flow_reader_open("/nonexistent", &r), "/nonexistent");
}

static void what_is_no_event_is_refused(void **state)
{
	const uint32_t untimed[] = { flow_head(FLOW_SWITCH, 1), 1 };
	const uint32_t unknown[] = { flow_head(FLOW_IDS, 1), 1 };
	const uint32_t extended[] = { FLOW_EXTENDED, 1, 2, 3 };
	const uint32_t cut[] = { FLOW_EXTENDED, FLOW_TIME, 2 };
	const uint32_t deep[] = { flow_head(FLOW_STACK, 1), FLOW_STACK_MAX + 1 };
	struct fixture *f = *state;
	struct flow_writer *w = begin(f->log, 1, 0);

	FAILS_AS(WC_EFAIL, flow_writer_put(w, 0, untimed, 2), "no time");
	FAILS_AS(WC_EFAIL, flow_writer_put(w, 0, unknown, 2), "unknown");
	FAILS_AS(WC_EFAIL, flow_writer_put(w, 0, extended, 4), "unknown");
	FAILS_AS(WC_EFAIL, flow_writer_put(w, 0, cut, 3), "not whole");
	FAILS_AS(WC_EFAIL, flow_writer_put(w, 0, deep, 2), "unknown");
	FAILS_AS(WC_EFAIL, flow_writer_put(w, 1, untimed, 2), "CPU 1");
	OK(flow_writer_close(w));
}

static void a_full_disk_costs_no_packet_that_was_there(void **state)
{
	const struct rlimit small = { 3 * FLOW_PACKET_BYTES / 2, RLIM_INFINITY };
	struct fixture *f = *state;
	struct flow_writer *w = begin(f->log, 1, 0);
	struct script *s = script_new();
	struct wc_error *err = NULL;
	struct rlimit before;
	struct flow_reader *r;
	uint64_t gaps;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (uint64_t n = 0; n < 20000; n++)
		add_numbered(s, 0, n);
	err = flow_writer_put(w, 0, s->word, s->n);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ELOG);
	assert_non_null(strstr(err->text, f->log));
	wc_error_free(err);
	OK(flow_writer_close(w));
	r = reader(f->log);
	assert_in_range(check_rest(r, &gaps), 5000, 10000);
	flow_reader_close(r);
	free(s);
}

/* With the log */

static void files_go_with_the_log(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *events;
	struct flow_writer *w;
	struct script *s = script_new();

	OK(tracelog_writer_open(f->log, &events));
	OK(flow_writer_open(f->log, 1, 0, &w));
	put_numbered(w, &s, 1, 0, 100);
	OK(flow_writer_close(w));
	tracelog_writer_discard(events);
	assert_int_equal(access(f->log, F_OK), -1);
	free(s);
}

/* A recorder of the system's events writes no others. */
static void a_log_without_other_events_is_whole(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;

	write_numbered(f->log, 1, 10);
	OK(tracelog_reader_open(f->log, &r));
	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_END);
	tracelog_reader_close(r);
}

static void a_snapshot_has_them(void **state)
{
	struct fixture *f = *state;
	struct flow_reader *r;

	write_numbered(f->log, 2, 20000);
	OK(tracelog_snapshot(f->log, f->copy, 0, NULL));
	r = reader(f->copy);
	assert_int_equal(count_events(r), 40000);
	check_end(r);
	flow_reader_close(r);
}

static void check_line(const char *line, struct flow_reader *r, uint64_t *n)
{
	unsigned long long time_ns;
	char name[32];
	struct flow_event e;

	if (strstr(line, " time: "))
		return;
	if (sscanf(line, "[%llu] %*s %31[a-z_]", &time_ns, name) != 2)
		fail_msg("%s", line);
	assert_true(flow_reader_next(r, &e));
	assert_int_equal(e.time_ns, time_ns);
	++*n;
}

static uint64_t check_babeltrace2(const char *log)
{
	struct flow_reader *r = reader(log);
	char command[400], line[4096];
	uint64_t n = 0;
	FILE *p;

	snprintf(command, sizeof(command),
		 "babeltrace2 --clock-cycles --no-delta '%s' 2>&1 | sed '/^.*WARNING/d'", log);
	p = popen(command, "r");
	assert_non_null(p);
	while (fgets(line, sizeof(line), p))
		check_line(line, r, &n);
	assert_int_equal(pclose(p), 0);
	check_end(r);
	flow_reader_close(r);
	return n;
}

static void babeltrace2_reads_the_same(void **state)
{
	struct fixture *f = *state;

	write_numbered(f->log, 2, 12000);
	assert_int_equal(check_babeltrace2(f->log), 24000);
}

static void babeltrace2_knows_every_kind(void **state)
{
	struct fixture *f = *state;

	write_all_kinds(f->log);
	assert_int_equal(check_babeltrace2(f->log), 5 + 8 + 5 + 9 + 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_kind_comes_back),
		TEST(cpus_are_merged_over_packets),
		TEST(a_time_is_found_from_everywhere),
		TEST(what_is_flushed_can_be_read_meanwhile),
		TEST(a_ring_keeps_its_bound_and_the_names),
		TEST(a_ring_of_many_names_keeps_its_bound),
		TEST(damage_costs_its_packet),
		TEST(a_file_can_end_anywhere),
		TEST(a_log_of_other_things_says_so),
		TEST(what_is_no_event_is_refused),
		TEST(a_full_disk_costs_no_packet_that_was_there),
		TEST(files_go_with_the_log),
		TEST(a_log_without_other_events_is_whole),
		TEST(a_snapshot_has_them),
		TEST(babeltrace2_reads_the_same),
		TEST(babeltrace2_knows_every_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
