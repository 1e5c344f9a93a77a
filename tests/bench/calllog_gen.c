/*
 * calllog-gen - writes a log whose calls are in LOG/calls.N, as the compile-time pass makes them, of any size: what the
 * tests and benches of `report` and `export` are fed. A reader of the log can be held to what follows from the pattern
 * without reading it (tests/e2e/test_calls_log.py).
 *
 *	calllog-gen [-n EVENTS] [-t THREADS] [-f FUNCTIONS] [-d DEPTH] [-g] [-u] [-v] LOG
 *	-n	of each thread
 *	-d	calls nest no deeper
 *	-g	events number n/2 to n/2 + 4 of the second thread are missing
 *	-u	calls of function 3 are there, but no event says what it is
 *	-v	each call has two parameters, int32_t x and const void *p 0x10000 + x, and each exit the result int32_t x
 *
 * Thread number t, 0.., is 4000 + t of the process 4000. Its events follow from x, which is t + 1 at first and goes on
 * before each by x = x * 1103515245 + 12345 mod 2^31: the time goes on by 10 + (x >> 8) % 90 ns; then, with c = (x >>
 * 16) % 8 and the depth as the thread knows it,
 *
 *	event 0		an exit: its call began before the recording
 *	at depth 0, or c < 4 and below DEPTH		an entry of function (x >> 20) % FUNCTIONS
 *	else		an exit of the innermost call, which was not seen where c is 7
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/trace/calls/call_writer.h"
#include "watchctl/trace/log/tracelog.h"

#define PID 4000
#define BEGIN_NS 5000000000u
#define EPOCH_NS 1700000000000000000u /* 2023-11-14 22:13:20 UTC */
#define DEPTH_MAX 1000
#define UNTOLD 3u

struct gen {
	uint64_t n, threads, functions, depth;
	bool gap, untold, values;
};

static void must(struct wc_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "calllog-gen: %s\n", err->text);
	exit(1);
}

static void put(struct event_sink sink, uint64_t time_ns, struct trace_event e)
{
	e.time_ns = time_ns;
	must(sink.put(sink.ctx, &e));
}

/* "_ZN3app4fun7Ei" is app::fun7(int); two are of other languages. */
static void function_name(uint64_t i, char *buf, size_t cap)
{
	char name[32];

	snprintf(name, sizeof(name), "fun%llu", (unsigned long long)i);
	if (i == 1)
		snprintf(buf, cap, "_RNvC3app%zu%s", strlen(name), name);
	else if (i == 2)
		snprintf(buf, cap, "%s", name);
	else
		snprintf(buf, cap, "_ZN3app%zu%sEi", strlen(name), name);
}

enum { TYPE_ID_INT, TYPE_ID_POINTER };

static void write_types(struct event_sink sink)
{
	static const struct type_event type[] = {
		{ .id = TYPE_ID_INT, .kind = TYPE_SIGNED, .size = 4, .name = "int32_t", .target = NO_TYPE },
		{ .id = TYPE_ID_POINTER,
		  .kind = TYPE_POINTER,
		  .size = 8,
		  .name = "const void *",
		  .target = NO_TYPE },
	};

	for (size_t i = 0; i < sizeof(type) / sizeof(type[0]); i++)
		put(sink, BEGIN_NS - 1000, (struct trace_event){ .type = EVENT_TYPE, .type_info = type[i] });
}

static void write_functions(const struct gen *g, struct event_sink sink)
{
	struct function_param param[] = { { "x", TYPE_ID_INT }, { "p", TYPE_ID_POINTER } };
	char name[64];

	for (uint64_t i = 0; i < g->functions; i++) {
		struct trace_event e = { .type = EVENT_FUNCTION };

		if (g->untold && i == UNTOLD)
			continue;
		function_name(i, name, sizeof(name));
		e.function = (struct function_event){ .id = (uint32_t)i,
						      .flags = FUNCTION_NO_TYPES,
						      .name = name,
						      .module = "/nowhere/bin/app",
						      .file = "app.cc",
						      .line = (uint32_t)(10 * i + 10),
						      .return_type = NO_TYPE };
		if (g->values) {
			e.function.flags = 0;
			e.function.return_type = TYPE_ID_INT;
			e.function.nparams = 2;
			e.function.param = param;
		}
		put(sink, BEGIN_NS - 1000, e);
	}
}

static void write_log(const struct gen *g, const char *path)
{
	struct trace_event process = { .type = EVENT_PROCESS };
	struct tracelog_writer *log;
	struct event_sink sink;
	char comm[COMM_LEN];

	must(tracelog_writer_open(path, &log));
	sink = tracelog_writer_sink(log);
	process.process = (struct process_event){ .pid = PID,
						  .comm = "app",
						  .exe = "/nowhere/bin/app",
						  .cmdline = "app",
						  .realtime_ns = EPOCH_NS,
						  .host = "nowhere" };
	put(sink, BEGIN_NS - 2000, process);
	for (uint64_t t = 0; t < g->threads; t++) {
		struct trace_event e = { .type = EVENT_THREAD };

		snprintf(comm, sizeof(comm), "worker%u", (unsigned int)t);
		e.thread = (struct thread_event){ .pid = PID, .tid = (int32_t)(PID + t), .comm = comm };
		put(sink, BEGIN_NS - 1500, e);
	}
	if (g->values)
		write_types(sink);
	write_functions(g, sink);
	must(tracelog_writer_close(log));
}

static void put_value(uint8_t *buf, size_t *len, enum type_kind kind, uint64_t value, uint32_t size)
{
	const struct call_value v = {
		.state = VALUE_OK, .bytes = (const uint8_t *)&value, .size = size, .to_state = VALUE_NONE
	};

	call_values_put(buf, 64, len, kind, &v);
}

static void put_with_values(struct call_stream *s, enum call_what what, uint64_t time_ns, uint32_t function,
			    uint32_t x)
{
	uint8_t buf[64];
	size_t len = 0;

	put_value(buf, &len, TYPE_SIGNED, x, 4);
	if (what == CALL_ENTRY)
		put_value(buf, &len, TYPE_POINTER, 0x10000u + (uint64_t)x, 8);
	call_stream_put_with(s, what, time_ns, function,
			     &(struct call_besides){ .values = buf, .values_len = (uint32_t)len });
}

static void write_thread(const struct gen *g, struct call_writer *w, uint64_t t)
{
	uint32_t open[DEPTH_MAX], x = (uint32_t)t + 1;
	uint64_t time_ns = BEGIN_NS, depth = 0;
	struct call_stream s;

	must(call_stream_open(w, PID, (pid_t)(PID + t), &s));
	for (uint64_t i = 0; i < g->n; i++) {
		bool missing = g->gap && t == 1 && i >= g->n / 2 && i < g->n / 2 + 5, entry;
		enum call_what what;
		uint32_t c, function;

		x = (x * 1103515245u + 12345u) & 0x7fffffffu;
		time_ns += 10 + (x >> 8) % 90;
		c = (x >> 16) % 8;
		entry = i && (!depth || (c < 4 && depth < g->depth));
		if (entry)
			open[depth++] = (uint32_t)((x >> 20) % g->functions);
		else if (i)
			depth--;
		function = i ? open[entry ? depth - 1 : depth] : 0;
		what = entry ? CALL_ENTRY : i && c == 7 ? CALL_EXIT_UNSEEN : CALL_EXIT;
		if (missing && i == g->n / 2)
			must(call_stream_flush(&s)); /* the gap is at the beginning of a packet */
		if (missing)
			call_stream_lost(&s, 1);
		else if (g->values)
			put_with_values(&s, what, time_ns, function, x);
		else
			call_stream_put(&s, what, time_ns, function);
	}
	must(call_stream_close(&s));
}

static uint64_t number(const char *text, uint64_t most)
{
	uint64_t n = strtoull(text, NULL, 10);

	if (n && n <= most)
		return n;
	fprintf(stderr, "calllog-gen: \"%s\" is not from 1 to %llu\n", text, (unsigned long long)most);
	exit(2);
}

int main(int argc, char **argv)
{
	struct gen g = { .n = 1000, .threads = 3, .functions = 8, .depth = 20 };
	struct call_writer *w;
	int option;

	while ((option = getopt(argc, argv, "n:t:f:d:guv")) != -1) {
		if (option == 'n')
			g.n = number(optarg, UINT64_MAX);
		else if (option == 't')
			g.threads = number(optarg, 10000);
		else if (option == 'f')
			g.functions = number(optarg, 100000);
		else if (option == 'd')
			g.depth = number(optarg, DEPTH_MAX);
		else if (option == 'g')
			g.gap = true;
		else if (option == 'u')
			g.untold = true;
		else if (option == 'v')
			g.values = true;
		else
			return 2;
	}
	if (optind != argc - 1) {
		fprintf(stderr,
			"usage: calllog-gen [-n EVENTS] [-t THREADS] [-f FUNCTIONS] [-d DEPTH] [-g] [-u] [-v] LOG\n");
		return 2;
	}
	write_log(&g, argv[optind]);
	must(call_writer_open(argv[optind], &w));
	for (uint64_t t = 0; t < g.threads; t++)
		write_thread(&g, w, t);
	call_writer_close(w);
	return 0;
}
