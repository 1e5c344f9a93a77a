/*
 * accesslog-gen - writes a log of accesses and captures by a program that does not exist, of any size and as
 * odd as asked for: what the tests and benches of `export`, `report` and the others that read logs are fed.
 *
 *	accesslog-gen [-n ACCESSES] [-c CAPTURES] [-t THREADS] [-w WATCHES] [-f FRAMES] [-j] [-x] LOG
 *	-j	the clock jumps: a second forwards at a quarter, back by two at the half, an hour forwards at the end
 *	-x	names are hostile: quotes, controls, newlines, semicolons, formulas, bytes that are not UTF-8
 *
 * Access number i is by thread i % THREADS, to watch (i / 2) % WATCHES, a write when i is even; a write adds
 * one to the watch. Its stack has FRAMES frames from one of 64 ways through the program. A capture follows
 * each access until there are enough, under tag i % 3, with the value i. Frame number i is in function fI_0 or
 * fI_1; set_it() makes the writes, get_it() inlined into look() the reads, note() the captures. So a reader of
 * the log can be held to numbers that are known without reading it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_symbols.h"

#define CODE 0x400000u
#define PID 4000
#define PATH "/nowhere/bin/app"
#define HOSTILE_PATH "/nowhere/b;in/a \"p\np"
#define FRAMES_MAX 64
#define WAYS 64
#define BEGIN_NS 5000000000u
#define EPOCH_NS 1700000000000000000u /* 2023-11-14 22:13:20 UTC */

struct gen {
	struct event_sink sink;
	uint64_t n, captures, threads, watches, frames;
	bool jumps, hostile;
	uint64_t value[256];
};

static void put(const struct gen *g, const struct trace_event *e)
{
	struct wc_error *err = g->sink.put(g->sink.ctx, e);

	if (err) {
		fprintf(stderr, "accesslog-gen: %s\n", err->text);
		exit(1);
	}
}

static const char *hostile(uint64_t i)
{
	static const char *const name[] = {
		"a\"b'c",
		"new\nline\r\n",
		"semi;colon x",
		"=cmd|'/c calc'!A0",
		"bad \xff\xfe utf8 \xc3",
		"\x1b[31mred",
		"back\\slash\\N &amp;",
		"# 12 34/56 7.8: x:",
		"(paren) (x)",
		"-1+1",
		"tab\there",
		"\xe2\x80\xa8line sep",
		"<b>&lt;</b>",
		"\xed\xa0\x80surrogate",
		"@SUM(1)",
	};

	return name[i % (sizeof(name) / sizeof(name[0]))];
}

static void report_process(const struct gen *g)
{
	struct trace_event e = { .type = EVENT_PROCESS, .time_ns = BEGIN_NS };
	struct trace_event m = { .type = EVENT_MODULE, .time_ns = BEGIN_NS };

	e.process = (struct process_event){ .pid = PID,
					    .comm = g->hostile ? hostile(1) : "app",
					    .exe = g->hostile ? hostile(4) : PATH,
					    .cmdline = g->hostile ? hostile(6) : "app -x",
					    .realtime_ns = EPOCH_NS,
					    .host = "box" };
	put(g, &e);
	m.module = (struct module){ .path = (char *)(g->hostile ? HOSTILE_PATH : PATH),
				    .start = CODE,
				    .end = CODE + 0x100000,
				    .bias = CODE };
	put(g, &m);
}

static void report_watch(const struct gen *g, uint64_t i)
{
	struct trace_event e = { .type = EVENT_WATCH, .time_ns = BEGIN_NS + 1 };
	char name[64];

	snprintf(name, sizeof(name), "%s%llu", g->hostile ? hostile(i) : "flag", (unsigned long long)i);
	e.watch = (struct watch_event){ .id = (uint32_t)i,
					.name = name,
					.full_name = name,
					.addr = 0x600000 + i * 8,
					.size = 4,
					.access = ACCESS_READWRITE,
					.engine = "handler",
					.type = { .kind = VALUE_SIGNED, .name = (char *)"int" },
					.threads = 1,
					.threads_armed = 1,
					.verified = true,
					.slot = -1,
					.has_value = true };
	put(g, &e);
}

static void report_thread(const struct gen *g, uint64_t i)
{
	struct trace_event e = { .type = EVENT_THREAD, .time_ns = BEGIN_NS + 2 };
	char name[24];

	snprintf(name, sizeof(name), "worker%llu", (unsigned long long)(i % 1000));
	e.thread = (struct thread_event){ .pid = PID,
					  .tid = (int32_t)(PID + i),
					  .comm = g->hostile ? hostile(i) : name };
	put(g, &e);
}

static void report_tag(const struct gen *g, uint64_t i)
{
	static const char *const name[] = { "begin", "cache miss", NULL };
	struct trace_event e = { .type = EVENT_TAG, .time_ns = BEGIN_NS + 3 };

	e.tag = (struct tag_event){ .id = (uint32_t)i,
				    .name = g->hostile ? hostile(i + 2) : name[i],
				    .number = 7 };
	put(g, &e);
}

/* A write ends at 0x401000, a read at 0x401100. */
static void report_code(const struct gen *g)
{
	struct trace_event e = { .type = EVENT_CODE, .time_ns = BEGIN_NS + 4 };

	e.code = (struct code_fact){ .pc = CODE + 0x1000, .before_len = 2 };
	memcpy(e.code.before, "\x89\x07", 2);
	put(g, &e);
	e.code = (struct code_fact){ .pc = CODE + 0x1100, .before_len = 2 };
	memcpy(e.code.before, "\x8b\x07", 2);
	put(g, &e);
}

static uint64_t time_of(const struct gen *g, uint64_t i)
{
	uint64_t t = BEGIN_NS + 1000 + i * 500;

	if (!g->jumps)
		return t;
	if (i >= g->n / 4)
		t += 1000000000;
	if (i >= g->n / 2)
		t -= 2000000000;
	if (i == g->n - 1)
		t += 3600000000000;
	return t;
}

static void stack_of(const struct gen *g, uint64_t way, uint64_t innermost, uint64_t *frame)
{
	uint64_t i;

	frame[0] = innermost;
	for (i = 1; i < g->frames; i++)
		frame[i] = CODE + 0x2000 + i * 0x400 + (way >> i % 6 & 1) * 0x80;
}

static void put_access(struct gen *g, uint64_t i)
{
	struct trace_event e = { .type = EVENT_ACCESS, .time_ns = time_of(g, i) };
	bool write = i % 2 == 0;
	uint64_t watch = i / 2 % g->watches, frame[FRAMES_MAX];

	stack_of(g, i % WAYS, CODE + (write ? 0x1000 : 0x1100), frame);
	e.access =
		(struct access_event){ .watch = (uint32_t)watch,
				       .pid = PID,
				       .tid = (int32_t)(PID + i % g->threads),
				       .addr = 0x600000 + watch * 8,
				       .size = 4,
				       .has_old = true,
				       .has_new = true,
				       .old_value = g->value[watch],
				       .syscall = -1,
				       .walk_end = i % 1000 == 999 ? WALK_END_UNREADABLE : WALK_END_COMPLETE,
				       .nframes = (uint32_t)g->frames,
				       .frame = frame };
	g->value[watch] += write;
	e.access.new_value = g->value[watch];
	e.access.regs.r[WREG_RIP] = frame[0];
	e.access.regs.r[WREG_RDI] = e.access.addr;
	e.access.regs.r[WREG_RAX] = g->value[watch];
	put(g, &e);
}

static void put_capture(const struct gen *g, uint64_t i)
{
	struct trace_event e = { .type = EVENT_CAPTURE, .time_ns = time_of(g, i) + 100 };
	uint64_t frame[FRAMES_MAX];

	stack_of(g, i % WAYS, CODE + 0x1234, frame);
	e.capture = (struct capture_event){ .tag = (uint32_t)(i % 3),
					    .pid = PID,
					    .tid = (int32_t)(PID + i % g->threads),
					    .has_value = true,
					    .value = i,
					    .walk_end = WALK_END_COMPLETE,
					    .nframes = (uint32_t)g->frames,
					    .frame = frame };
	put(g, &e);
}

static void run(struct gen *g)
{
	uint64_t i, n = g->n > g->captures ? g->n : g->captures;

	report_process(g);
	for (i = 0; i < g->watches; i++)
		report_watch(g, i);
	for (i = 0; i < g->threads; i++)
		report_thread(g, i);
	for (i = 0; g->captures && i < 3; i++)
		report_tag(g, i);
	report_code(g);
	for (i = 0; i < n; i++) {
		if (i < g->n)
			put_access(g, i);
		if (i < g->captures)
			put_capture(g, i);
	}
}

/* Symbols: the program has no file. */

static struct wc_error *put_symbol(struct tracelog_symbols *s, const struct gen *g, uint64_t address,
				   const char *name, const char *inlined)
{
	struct symbol_function function[2] = { { .name = inlined, .file = "/src/inline.h", .line = 5 },
					       { .name = name, .file = "/src/app.c", .line = 17 } };
	const struct symbol_event e = { .path = g->hostile ? HOSTILE_PATH : PATH,
					.address = address,
					.start = address & ~0x7full,
					.nfunctions = inlined ? 2 : 1,
					.function = function + !inlined };

	return tracelog_symbols_put(s, &e);
}

static struct wc_error *put_symbols(struct tracelog_symbols *s, const struct gen *g)
{
	struct wc_error *err = put_symbol(s, g, 0x1000 - 2, "set_it", NULL);
	uint64_t i;
	char name[80];

	if (!err)
		err = put_symbol(s, g, 0x1100 - 2, "look", "get_it");
	if (!err)
		err = put_symbol(s, g, 0x1234 - 1, "note", NULL);
	for (i = 2; i < 2 * g->frames && !err; i++) {
		snprintf(name, sizeof(name), "%sf%u_%u", g->hostile ? hostile(i) : "", (unsigned int)(i / 2),
			 (unsigned int)(i % 2));
		err = put_symbol(s, g, 0x2000 + i / 2 * 0x400 + i % 2 * 0x80 - 1, name, NULL);
	}
	return err;
}

static struct wc_error *report_symbols(const struct gen *g, const char *log)
{
	struct tracelog_symbols *s;
	struct wc_error *err = tracelog_symbols_create(log, BEGIN_NS, &s);

	if (err)
		return err;
	err = put_symbols(s, g);
	if (!err)
		return tracelog_symbols_commit(s);
	tracelog_symbols_discard(s);
	return err;
}

static int usage(void)
{
	fputs("usage: accesslog-gen [-n ACCESSES] [-c CAPTURES] [-t THREADS] [-w WATCHES] [-f FRAMES] [-j] "
	      "[-x] "
	      "LOG\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static struct gen g = { .n = 1000, .threads = 4, .watches = 1, .frames = 16 };
	struct tracelog_writer *w;
	struct wc_error *err;
	int c;

	while ((c = getopt(argc, argv, "n:c:t:w:f:jx")) != -1) {
		uint64_t *number = c == 'n'   ? &g.n
				   : c == 'c' ? &g.captures
				   : c == 't' ? &g.threads
				   : c == 'w' ? &g.watches
				   : c == 'f' ? &g.frames
					      : NULL;

		if (number)
			*number = strtoull(optarg, NULL, 10);
		else if (c == 'j')
			g.jumps = true;
		else if (c == 'x')
			g.hostile = true;
		else
			return usage();
	}
	if (optind + 1 != argc || !g.threads || !g.watches || g.watches > 256 || !g.frames ||
	    g.frames > FRAMES_MAX)
		return usage();
	err = tracelog_writer_open(argv[optind], &w);
	if (!err) {
		g.sink = tracelog_writer_sink(w);
		run(&g);
		err = tracelog_writer_close(w);
	}
	if (!err)
		err = report_symbols(&g, argv[optind]);
	if (err) {
		fprintf(stderr, "accesslog-gen: %s\n", err->text);
		wc_error_free(err);
		return 1;
	}
	return 0;
}
