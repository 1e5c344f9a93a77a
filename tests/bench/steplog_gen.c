/*
 * steplog-gen - writes a step log of a program that does not exist, of any size: what the tests and benches
 * of `diff` and `report` read. The program's behaviour is a function of -p alone; where its code, heap and
 * stacks lie, its numbers, its times and how its threads take turns are one of -s. So two logs of one -p
 * differ in nothing that a diff should tell, until -d puts one difference in, which is printed as a JSON
 * object.
 *
 *	steplog-gen [-n CALLS] [-t THREADS] [-p PROGRAM] [-s SEED] [-d KIND@CALL] LOG
 *	KIND: value (a parameter), result, error (it fails with errno), missing (a call and all in it), extra
 *
 * Each thread serves requests: it reads one, parses it by recursion, looks items up in loops, sorts them with
 * a callback out of qsort(), and sends a reply; some requests fail.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/steplog_change.h"
#include "tests/bench/steplog_tables.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/log/tracelog.h"

#define THREADS_MAX 64
#define DEPTH_MAX 64
#define HEAP_SIZE (1u << 30)
#define STACK_SIZE (8u << 20)
#define HEAP_BLOCK 64u /* between allocations */

struct thread {
	int32_t tid;
	uint64_t program; /* random numbers of what it does */
	uint64_t stack;	  /* its end */
	uint64_t heap;	  /* of its own, so that addresses do not depend on whose turn it was */
	uint64_t open[DEPTH_MAX];
	int function[DEPTH_MAX];
	int depth;
	int32_t request;
};

struct gen {
	struct event_sink sink;
	uint64_t time_ns, noise;
	int32_t pid;
	uint64_t code, libc, heap, stacks;
	uint64_t number, max; /* of calls */
	struct thread *t;     /* whose turn it is */
	uint8_t values[512];
	size_t len;
};

/* xorshift64* */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

static uint64_t seeded(uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u;

	draw(&state);
	return state;
}

static uint32_t below(struct gen *g, uint32_t n)
{
	return (uint32_t)(draw(&g->t->program) >> 33) % n;
}

static void put(struct gen *g, const struct trace_event *e)
{
	struct wc_error *err = g->sink.put(g->sink.ctx, e);

	if (err) {
		fprintf(stderr, "steplog-gen: %s\n", err->text);
		exit(1);
	}
}

static uint64_t tick(struct gen *g)
{
	return g->time_ns += 40 + (draw(&g->noise) >> 56);
}

/* Values */

static void put_value(struct gen *g, int type, const void *bytes, const void *to, size_t to_len)
{
	struct call_value v = {
		.bytes = bytes, .size = steplog_types[type].size, .to = to, .to_len = (uint32_t)to_len
	};

	v.to_state = to ? VALUE_OK : VALUE_NONE;
	if (!call_values_put(g->values, sizeof(g->values), &g->len, steplog_types[type].kind, &v))
		abort();
}

static void put_number(struct gen *g, int type, int64_t v)
{
	put_value(g, type, &v, NULL, 0);
}

static void put_double(struct gen *g, double v)
{
	put_value(g, T_DOUBLE, &v, NULL, 0);
}

static void put_pointer(struct gen *g, int type, uint64_t v, const void *to, size_t to_len)
{
	struct call_value value = {
		.bytes = (const uint8_t *)&v, .size = 8, .to = to, .to_len = (uint32_t)to_len
	};

	value.to_state = !v ? VALUE_NULL : to ? VALUE_OK : VALUE_NONE;
	if (!call_values_put(g->values, sizeof(g->values), &g->len, steplog_types[type].kind, &value))
		abort();
}

static void put_text(struct gen *g, const char *text)
{
	/* Constant texts are in the program's own data. */
	put_pointer(g, T_STRING, g->code + 0x8000 + strlen(text) * 16, text, strlen(text));
}

/* Calls: values are put first. */

static uint64_t address_of(const struct gen *g, int function)
{
	return steplog_functions[function].flags & FUNCTION_OVER
		       ? g->libc + 0x20000 + (uint64_t)function * 0x400
		       : g->code + 0x1000 + (uint64_t)function * 0x200;
}

static void enter(struct gen *g, int function)
{
	struct thread *t = g->t;
	int caller = t->depth ? t->function[t->depth - 1] : -1;
	bool callback = caller >= 0 && steplog_functions[caller].flags & FUNCTION_OVER;
	/* The return address; a callback has one more frame inside of the function that is stepped over. */
	uint64_t frame[2] = {
		caller < 0 ? g->code + 0x20 : address_of(g, caller) + 0x20 + (uint64_t)function * 8,
		caller < 0 ? 0 : address_of(g, caller) + 0x180,
	};
	struct trace_event e = { .type = EVENT_CALL, .time_ns = tick(g) };

	if (t->depth == DEPTH_MAX)
		abort();
	e.call = (struct call_event){
		.call = ++g->number,
		.parent = t->depth ? t->open[t->depth - 1] : 0,
		.pid = g->pid,
		.tid = t->tid,
		.function = (uint32_t)function,
		.depth = (uint16_t)t->depth,
		.flags = callback   ? CALL_CALLBACK
			 : t->depth ? 0
				    : CALL_FIRST,
		.sp = t->stack - 256 - (uint64_t)t->depth * 96,
		.nframes = callback ? 2 : 1,
		.frame = frame,
		.values = g->values,
		.values_len = (uint32_t)g->len,
	};
	put(g, &e);
	t->open[t->depth] = g->number;
	t->function[t->depth++] = function;
	g->len = 0;
}

static void fail(struct gen *g, int error)
{
	struct thread *t = g->t;
	struct trace_event e = { .type = EVENT_RETURN, .time_ns = tick(g) };

	t->depth--;
	e.ret = (struct return_event){
		.call = t->open[t->depth],
		.pid = g->pid,
		.tid = t->tid,
		.function = (uint32_t)t->function[t->depth],
		.how = RETURN_RETURNED,
		.has_error = error != 0,
		.error = error,
		.values = g->values,
		.values_len = (uint32_t)g->len,
	};
	put(g, &e);
	g->len = 0;
}

static void leave(struct gen *g)
{
	fail(g, 0);
}

/* The program */

static uint64_t allocate(struct gen *g, int64_t size)
{
	uint64_t p = g->t->heap;

	g->t->heap += HEAP_BLOCK;
	put_number(g, T_SIZE, size);
	enter(g, F_MALLOC);
	put_pointer(g, T_VOID_POINTER, p, NULL, 0);
	leave(g);
	return p;
}

static void release(struct gen *g, uint64_t p)
{
	put_pointer(g, T_VOID_POINTER, p, NULL, 0);
	enter(g, F_FREE);
	leave(g);
}

static void measure(struct gen *g, const char *text)
{
	put_text(g, text);
	enter(g, F_STRLEN);
	put_number(g, T_SIZE, (int64_t)strlen(text));
	leave(g);
}

static void parse_value(struct gen *g, int depth)
{
	static const char *const text[] = { "42", "\"a text with\\n a line\"", "[1, 2, 3]" };
	int kind = depth > 5 ? (int)below(g, 2) : (int)below(g, 3);
	uint32_t i, n;

	put_number(g, T_INT, depth);
	put_number(g, T_KIND, kind);
	put_text(g, text[kind]);
	enter(g, F_PARSE_VALUE);
	if (kind == 1)
		measure(g, text[kind]);
	n = kind == 2 ? 1 + below(g, 4) : 0;
	for (i = 0; i < n && g->number < g->max; i++)
		parse_value(g, depth + 1);
	put_number(g, T_KIND, kind);
	leave(g);
}

static uint64_t lookup(struct gen *g, int32_t key, uint64_t first)
{
	struct item item = { .next = first ? first - HEAP_BLOCK : 0, .key = key, .weight = key % 17 };
	uint64_t found = below(g, 20) ? first : 0;

	put_number(g, T_INT, key);
	put_pointer(g, T_ITEM_POINTER, first, &item, sizeof(item));
	enter(g, F_LOOKUP);
	put_pointer(g, T_ITEM_POINTER, found, found ? &item : NULL, found ? sizeof(item) : 0);
	leave(g);
	return found;
}

static double weigh(struct gen *g, uint64_t at)
{
	struct item item = { .key = (int32_t)below(g, 1000), .weight = 5 };
	double result = item.key * 0.25;

	put_number(g, T_INT, item.key);
	put_pointer(g, T_ITEM_POINTER, at, &item, sizeof(item));
	put_double(g, 0.25);
	enter(g, F_WEIGH);
	put_double(g, result);
	leave(g);
	return result;
}

static void sort(struct gen *g, uint64_t base, uint32_t n)
{
	uint32_t i, compares = n + below(g, n);

	put_pointer(g, T_VOID_POINTER, base, NULL, 0);
	put_number(g, T_SIZE, n);
	put_number(g, T_SIZE, sizeof(struct item));
	put_pointer(g, T_COMPARE, address_of(g, F_COMPARE), NULL, 0);
	enter(g, F_QSORT);
	for (i = 0; i < compares && g->number < g->max; i++) {
		struct item a = { .key = (int32_t)below(g, 100) }, b = { .key = (int32_t)below(g, 100) };

		put_pointer(g, T_ITEM_POINTER, base + i % n * sizeof(a), &a, sizeof(a));
		put_pointer(g, T_ITEM_POINTER, base + (i + 1) % n * sizeof(b), &b, sizeof(b));
		enter(g, F_COMPARE);
		put_number(g, T_INT, a.key - b.key);
		leave(g);
	}
	leave(g);
}

static bool read_request(struct gen *g, const struct request *req, uint64_t at)
{
	bool fails = below(g, 50) == 0;

	put_pointer(g, T_REQUEST_POINTER, at, req, sizeof(*req));
	put_number(g, T_INT, 4);
	enter(g, F_READ_REQUEST);
	put_number(g, T_INT, 4);
	put_pointer(g, T_VOID_POINTER, at, NULL, 0);
	put_number(g, T_SIZE, 4096);
	enter(g, F_READ);
	put_number(g, T_SIZE, fails ? -1 : req->len);
	fail(g, fails ? 104 : 0); /* ECONNRESET */
	put_number(g, T_INT, fails ? -1 : 0);
	leave(g);
	return !fails;
}

static void serve_request(struct gen *g)
{
	uint64_t at = allocate(g, sizeof(struct request)), item = 0;
	struct request req = { .id = g->t->request++, .len = 100 + (int32_t)below(g, 900), .name = at + 16 };
	uint32_t n = 3 + below(g, 40), i;
	double total = 0;

	if (read_request(g, &req, at)) {
		put_pointer(g, T_REQUEST_POINTER, at, &req, sizeof(req));
		put_text(g, "[1, [\"x\"]]");
		put_number(g, T_INT, req.len);
		enter(g, F_PARSE_REQUEST);
		parse_value(g, 0);
		put_number(g, T_INT, 0);
		leave(g);
		for (i = 0; i < n && g->number < g->max; i++) {
			if (!item)
				item = allocate(g, sizeof(struct item));
			if (lookup(g, (int32_t)i, item))
				total += weigh(g, item);
		}
		sort(g, at, n);
		put_pointer(g, T_REQUEST_POINTER, at, &req, sizeof(req));
		put_double(g, total);
		enter(g, F_SEND_REPLY);
		put_number(g, T_INT, 0);
		leave(g);
		if (item)
			release(g, item);
	}
	release(g, at);
}

/* What a recorder reports first */

static void report_module(struct gen *g, const char *path, uint64_t start, uint64_t size, uint8_t id)
{
	struct trace_event e = { .type = EVENT_MODULE, .time_ns = tick(g), .module_pid = g->pid };

	e.module = (struct module){ .start = start,
				    .end = start + size,
				    .bias = start,
				    .path = (char *)path,
				    .build_id = { id, 0x11, 0x22, 0x33 },
				    .build_id_len = 4 };
	put(g, &e);
}

static void report_region(struct gen *g, enum region_kind kind, uint64_t start, uint64_t size,
			  const char *name)
{
	struct trace_event e = { .type = EVENT_REGION, .time_ns = tick(g) };

	e.region = (struct region_event){ g->pid, kind, start, start + size, name };
	put(g, &e);
}

static void report_functions(struct gen *g)
{
	struct trace_event e = { .time_ns = tick(g) };
	uint32_t i;

	e.type = EVENT_TYPE;
	for (i = 0; i < T_COUNT; i++) {
		e.type_info = steplog_types[i];
		e.type_info.id = i;
		put(g, &e);
	}
	e.type = EVENT_FUNCTION;
	for (i = 0; i < F_COUNT; i++) {
		bool over = steplog_functions[i].flags & FUNCTION_OVER;

		e.function = steplog_functions[i];
		e.function.id = i;
		e.function.module = over ? "/nowhere/libc.so.6" : "/nowhere/server";
		e.function.build_id = (const uint8_t *)(over ? "\x02\x11\x22\x33" : "\x01\x11\x22\x33");
		e.function.build_id_len = 4;
		e.function.address = address_of(g, (int)i) - (over ? g->libc : g->code);
		e.function.size = over ? 0x400 : 0x200;
		e.function.file = over ? NULL : "server.c";
		e.function.line = over ? 0 : 10 + 20 * i;
		put(g, &e);
	}
}

static void report_beginning(struct gen *g, struct thread *threads, uint32_t n)
{
	struct trace_event e = { .type = EVENT_PROCESS, .time_ns = g->time_ns };
	uint32_t i;

	e.process = (struct process_event){ .pid = g->pid,
					    .comm = "server",
					    .exe = "/nowhere/server",
					    .cmdline = "server",
					    .realtime_ns = 1700000000000000000u,
					    .host = "box" };
	put(g, &e);
	report_module(g, "/nowhere/server", g->code, 0x10000, 1);
	report_module(g, "/nowhere/libc.so.6", g->libc, 0x200000, 2);
	report_region(g, REGION_HEAP, g->heap, (uint64_t)n * HEAP_SIZE, "[heap]");
	e = (struct trace_event){ .type = EVENT_RECORDING, .time_ns = g->time_ns };
	e.recording = (struct recording_event){
		.stepper = "none", .planner = "none", .range = "from serve", .filters = "all"
	};
	put(g, &e);
	report_functions(g);
	for (i = 0; i < n; i++) {
		report_region(g, REGION_STACK, threads[i].stack - STACK_SIZE, STACK_SIZE,
			      i ? NULL : "[stack]");
		e = (struct trace_event){ .type = EVENT_THREAD, .time_ns = g->time_ns };
		e.thread = (struct thread_event){ .pid = g->pid,
						  .tid = threads[i].tid,
						  .comm = i ? "worker" : "server",
						  .creator = i ? threads[0].tid : 0,
						  .stack_start = threads[i].stack - STACK_SIZE,
						  .stack_end = threads[i].stack };
		put(g, &e);
	}
	e = (struct trace_event){ .type = EVENT_RANGE, .time_ns = g->time_ns };
	e.range = (struct range_event){
		.occurrence = 1, .what = RANGE_BEGIN, .pid = g->pid, .tid = threads[0].tid
	};
	put(g, &e);
}

static uint64_t page(uint64_t *noise, uint64_t base, uint64_t spread)
{
	return base + (draw(noise) % spread << 12);
}

static void init(struct gen *g, struct thread *threads, uint32_t n, uint64_t program, uint64_t seed)
{
	uint32_t i;

	g->noise = seeded(seed);
	g->time_ns = 1000000000u + draw(&g->noise) % 1000000000000u;
	g->pid = 1000 + (int32_t)(draw(&g->noise) % 30000);
	g->code = page(&g->noise, 0x550000000000, 1u << 24);
	g->heap = page(&g->noise, g->code + 0x100000, 1u << 12);
	g->libc = page(&g->noise, 0x7f0000000000, 1u << 24);
	for (i = 0; i < n; i++) {
		threads[i].tid = g->pid + (int32_t)i * (1 + (int32_t)(seed % 3));
		threads[i].program = seeded(program * THREADS_MAX + i);
		threads[i].heap = g->heap + (uint64_t)i * HEAP_SIZE + 0x2a0;
		threads[i].stack = page(&g->noise, 0x7ff000000000 - (uint64_t)i * 0x100000000, 1u << 12);
	}
}

/* Requests are served whole; whose turn it is, is a matter of the seed. */
static void run(struct gen *g, struct thread *threads, uint32_t n)
{
	uint64_t each = g->max / n, done[THREADS_MAX] = { 0 };
	uint64_t max = g->max;
	uint32_t i, left = n;

	for (i = 0; i < n; i++) {
		g->t = &threads[i];
		put_number(g, T_INT, (int64_t)each);
		enter(g, F_SERVE);
		done[i] = 1;
	}
	while (left) {
		uint64_t before = g->number;

		i = (uint32_t)(draw(&g->noise) >> 40) % n;
		if (done[i] >= each)
			continue;
		g->t = &threads[i];
		g->max = before + (each - done[i]);
		serve_request(g);
		done[i] += g->number - before;
		left -= done[i] >= each;
	}
	g->max = max;
	for (i = n; i--;) {
		g->t = &threads[i];
		put_number(g, T_INT, 0);
		leave(g);
	}
}

static void report_ending(struct gen *g, struct thread *first)
{
	struct trace_event e = { .type = EVENT_RANGE, .time_ns = tick(g) };

	e.range = (struct range_event){
		.occurrence = 1, .what = RANGE_RETURNED, .pid = g->pid, .tid = first->tid
	};
	put(g, &e);
}

static int usage(void)
{
	fputs("usage: steplog-gen [-n CALLS] [-t THREADS] [-p PROGRAM] [-s SEED]\n"
	      "                   [-d value|result|error|missing|extra@CALL] LOG\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static struct thread threads[THREADS_MAX];
	uint64_t program = 1, seed = 1, n = 1;
	struct gen g = { .max = 1000 };
	struct change change = { 0 };
	struct tracelog_writer *w;
	struct wc_error *err;
	int c;

	while ((c = getopt(argc, argv, "n:t:p:s:d:")) != -1) {
		if (c == 'n')
			g.max = strtoull(optarg, NULL, 10);
		else if (c == 't')
			n = strtoull(optarg, NULL, 10);
		else if (c == 'p')
			program = strtoull(optarg, NULL, 10);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 10);
		else if (c != 'd' || !change_parse(optarg, &change))
			return usage();
	}
	if (optind + 1 != argc || n < 1 || n > THREADS_MAX)
		return usage();
	err = tracelog_writer_open(argv[optind], &w);
	if (!err) {
		change.to = tracelog_writer_sink(w);
		g.sink = (struct event_sink){ change_put, &change };
		init(&g, threads, (uint32_t)n, program, seed);
		report_beginning(&g, threads, (uint32_t)n);
		run(&g, threads, (uint32_t)n);
		report_ending(&g, threads);
		err = tracelog_writer_close(w);
	}
	if (err) {
		fprintf(stderr, "steplog-gen: %s\n", err->text);
		wc_error_free(err);
		return 1;
	}
	return 0;
}
