#include "watchctl/cli/request/trace_choice.h"

#include <stdlib.h>
#include <unistd.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/cli/output/output.h"

#define BUFFERS (128u << 20) /* of all CPUs, where nothing else is asked for */
#define BUFFER_DEFAULT_MOST (64u << 20)
#define BUFFER_DEFAULT_LEAST (4u << 20)
#define MAX_RATE 100000u /* calls a second of one function */

static struct wc_error *add_name(const struct option_match *m, void *to)
{
	struct trace_names *n = to;

	return vec_push(n->v, n->n, n->cap, m->value) ? NULL : &wc_enomem;
}

static struct wc_error *add_functions_file(const struct option_match *m, void *to)
{
	return functions_file_read(to, m->value);
}

/* Adds those of files to those of the command line. */
static struct wc_error *join_names(struct trace_names *to, char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!vec_push(to->v, to->n, to->cap, v[i]))
			return &wc_enomem;
	return NULL;
}

const struct option trace_choice_options[] = {
	{ "--in", NULL, "MODULE",
	  "functions of this module of the process, like libssl.so.3, not of the program itself; may be repeated",
	  COMPLETE_FILE, NULL, .set = add_name, .at = offsetof(struct trace_choice, in) },
	{ "--source", NULL, "GLOB",
	  "only functions that are defined in source files like 'net/*.c', by debug information; may be repeated",
	  COMPLETE_NOTHING, NULL, .set = add_name, .at = offsetof(struct trace_choice, source) },
	{ "--function", NULL, "GLOB", "only functions that are called so, like 'SSL_*'; may be repeated",
	  COMPLETE_FUNCTION, NULL, .set = add_name, .at = offsetof(struct trace_choice, function) },
	{ "--not", NULL, "GLOB", "no functions that are called so; may be repeated", COMPLETE_FUNCTION, NULL,
	  .set = add_name, .at = offsetof(struct trace_choice, without) },
	{ "--functions-from", NULL, "FILE",
	  "the same from FILE: a glob a line, !GLOB for --not, # for comments; may be repeated",
	  COMPLETE_FILE, NULL, .set = add_functions_file, .at = offsetof(struct trace_choice, from) },
	{ "--min-size", NULL, "BYTES", "no functions that are smaller", COMPLETE_NOTHING, NULL,
	  OPTION_BYTES(struct trace_choice, min_size) },
	{ "--max-rate", NULL, "N",
	  "a function that is called more often in a second is switched off, and its calls are counted (default 100000; 0: none is)",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct trace_choice, max_rate, 0, UINT64_MAX) },
	{ 0 },
};

void trace_choice_init(struct trace_choice *q)
{
	*q = (struct trace_choice){ .max_rate = MAX_RATE };
}

struct wc_error *trace_choice_finish(struct trace_choice *q)
{
	struct wc_error *err = join_names(&q->function, q->from.function, q->from.nfunctions);

	return err ? err : join_names(&q->without, q->from.without, q->from.nwithout);
}

struct call_selection trace_choice_selection(const struct trace_choice *q)
{
	return (struct call_selection){ .module = q->in.v,
					.nmodules = q->in.n,
					.source = q->source.v,
					.nsources = q->source.n,
					.function = q->function.v,
					.nfunctions = q->function.n,
					.without = q->without.v,
					.nwithout = q->without.n,
					.min_size = q->min_size };
}

void trace_choice_deinit(struct trace_choice *q)
{
	free(q->in.v);
	free(q->source.v);
	free(q->function.v);
	free(q->without.v);
	functions_file_deinit(&q->from);
}

uint64_t trace_choice_buffer(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);
	const uint64_t each = BUFFERS / (uint64_t)(cpus > 0 ? cpus : 1);

	return each < BUFFER_DEFAULT_LEAST  ? BUFFER_DEFAULT_LEAST
	       : each > BUFFER_DEFAULT_MOST ? BUFFER_DEFAULT_MOST
					    : each;
}

void trace_say_begun(const struct call_trace *t)
{
	struct call_trace_counts c;

	call_trace_so_far(t, &c);
	output_say(NULL, "process %d: %zu function%s traced in %zu module%s, %zu refused%s%s%s",
		   call_trace_pid(t), c.functions, plural(c.functions), c.modules, plural(c.modules),
		   c.entries_refused, c.entries_refused ? " (" : "", c.entries_refused ? c.why : "",
		   c.entries_refused ? ")" : "");
	if (c.exits_refused)
		output_say(
			NULL,
			"%zu place%s where functions are left cannot be patched: calls that end there end when the caller goes on",
			c.exits_refused, plural(c.exits_refused));
}

void trace_say_counts(const struct call_trace_counts *c)
{
	output_say(
		NULL,
		"%llu call%s: %llu recorded, %llu lost, %llu of %zu function%s that were switched off; threads stood %.2f ms at most",
		(unsigned long long)c->called, plural(c->called), (unsigned long long)c->recorded,
		(unsigned long long)c->lost, (unsigned long long)c->switched_off, c->off, plural(c->off),
		(double)c->longest_stop_ns / 1e6);
	if (c->lost)
		output_say(
			NULL,
			"to lose less: choose functions (--function, --not, --min-size), a lower --max-rate, a larger --buffer, or --wait");
}
