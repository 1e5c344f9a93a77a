/*
 * The profile format of Callgrind ("Callgrind Format Specification" in Valgrind's manual), for KCachegrind and
 * callgrind_annotate: of each function the time that is its own, and of each pair of caller and callee how many
 * calls there were and how long they lasted; in nanoseconds.
 *
 *	fn=(3) work		a function, by object (ob) and file (fl)
 *	17 900			its own time, at the line where it begins
 *	cfn=(4) put		a function that it calls, by cob and cfi
 *	calls=2 40		how often, and where that begins
 *	17 350			how long that lasted, at the line where the caller begins: call sites are not known
 *
 * Outermost calls are made by ROOT, so that they are counted, too.
 *
 * With recursion the time of calls inside of calls would count again and again. Hence the time of a call to f counts
 * only where no other f is open in its thread: the calls to f together last as long as at least one f is open,
 * which callgrind_annotate --inclusive=yes prints, and direct recursion adds nothing to f in KCachegrind, which takes
 * functions that call each other for one cycle.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/export/export_text.h"

#define ROOT "[threads]"

/* A text that has a number in the file; written out where it comes first. */
struct grind_name {
	struct grind_name *same_hash;
	char *text;
	uint32_t number; /* 1.. */
	bool written;
};

struct grind_names {
	struct map64 by_hash;
	uint32_t n;
};

/* A function, told apart by its name, its file and its object. */
struct grind_node {
	struct grind_node *same_hash;
	struct grind_name *key[3]; /* name, file, object */
	struct grind_pair *pair;   /* the calls that it made; the one that came last is first */
	uint32_t number, line;	   /* 1..; 0: not known */
	uint64_t self_ns;
	bool written;
};

struct grind_pair {
	struct grind_pair *next;
	struct grind_node *to;
	uint64_t calls, ns;
};

/* A function in a thread. */
struct grind_open {
	size_t nopen; /* calls of it */
};

/* Beside export_thread.open. */
struct grind_call {
	struct grind_node *node;
	struct grind_open *function;
	uint64_t begin_ns, inside_ns; /* inside: all calls that it made */
};

struct grind_thread {
	struct grind_call *call;
	size_t n, cap;
	struct map64 open; /* struct grind_node -> struct grind_open */
};

struct callgrind_writer {
	struct export_writer w;
	struct export_threads threads; /* user: struct grind_thread */
	struct grind_names functions, files, objects;
	struct map64 by_function; /* struct view_function -> struct grind_node */
	struct map64 by_key;	  /* hash of the three names -> struct grind_node */
	struct map64 by_ends;	  /* numbers of two nodes -> struct grind_pair */
	struct grind_node **node; /* the first is ROOT */
	size_t nnodes, cap;
	struct text_buf text;
	uint64_t total_ns; /* of all own times */
};

/* Functions */

static struct grind_name *name_of(struct callgrind_writer *g, struct grind_names *names, const char *text)
{
	struct grind_name *first, *n;
	uint64_t hash;

	text_buf_empty(&g->text);
	export_text_clean(&g->text, text && *text ? text : "???");
	if (g->text.failed)
		return NULL;
	hash = hash_text(HASH_START, text_buf_text(&g->text));
	first = map64_get(&names->by_hash, hash);
	for (n = first; n; n = n->same_hash)
		if (!strcmp(n->text, text_buf_text(&g->text)))
			return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct grind_name){ .same_hash = first,
				  .text = strdup(text_buf_text(&g->text)),
				  .number = ++names->n };
	if (n->text && map64_put(&names->by_hash, hash, n))
		return n;
	free(n->text);
	free(n);
	return NULL;
}

static struct grind_node *node_of_names(struct callgrind_writer *g, const char *function, const char *file,
					const char *object, uint32_t line)
{
	struct grind_name *key[3] = { name_of(g, &g->functions, function), name_of(g, &g->files, file),
				      name_of(g, &g->objects, object) };
	struct grind_node *first, *n;
	uint64_t hash;

	if (!key[0] || !key[1] || !key[2])
		return NULL;
	hash = ((uint64_t)key[0]->number << 40) ^ ((uint64_t)key[1]->number << 20) ^ key[2]->number;
	first = map64_get(&g->by_key, hash);
	for (n = first; n; n = n->same_hash)
		if (!memcmp(n->key, key, sizeof(key)))
			return n;
	n = calloc(1, sizeof(*n));
	if (!n || !vec_push(g->node, g->nnodes, g->cap, n)) {
		free(n);
		return NULL;
	}
	n->same_hash = first;
	memcpy(n->key, key, sizeof(key));
	n->number = (uint32_t)g->nnodes;
	n->line = line;
	return map64_put(&g->by_key, hash, n) ? n : NULL;
}

static struct grind_node *node_of_function(struct callgrind_writer *g, const struct view_function *f)
{
	struct grind_node *n = map64_get(&g->by_function, (uintptr_t)f);

	if (n)
		return n;
	n = node_of_names(g, f->text, f->e.file, f->e.module, f->e.line);
	return n && map64_put(&g->by_function, (uintptr_t)f, n) ? n : NULL;
}

static struct grind_node *root_of(struct callgrind_writer *g)
{
	return g->nnodes ? g->node[0] : node_of_names(g, ROOT, NULL, NULL, 0);
}

static struct grind_pair *pair_of(struct callgrind_writer *g, struct grind_node *from, struct grind_node *to)
{
	uint64_t key = (uint64_t)from->number << 32 | to->number;
	struct grind_pair *p = map64_get(&g->by_ends, key);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p || !map64_put(&g->by_ends, key, p)) {
		free(p);
		return NULL;
	}
	p->to = to;
	p->next = from->pair;
	from->pair = p;
	return p;
}

/* Calls */

static struct export_thread *thread_of(struct callgrind_writer *g, int32_t pid, int32_t tid)
{
	struct export_thread *th = export_thread_get(&g->threads, pid, tid);

	if (th && !th->user)
		th->user = calloc(1, sizeof(struct grind_thread));
	return th && th->user ? th : NULL;
}

static struct grind_open *open_of(struct grind_thread *t, const struct grind_node *n)
{
	struct grind_open *o = map64_get(&t->open, (uintptr_t)n);

	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (o && map64_put(&t->open, (uintptr_t)n, o))
		return o;
	free(o);
	return NULL;
}

/* Counts the innermost call of a thread, which ends. False: no memory. */
static bool count_call(struct callgrind_writer *g, struct grind_thread *t, uint64_t end_ns)
{
	struct grind_call *c = &t->call[--t->n], *by = t->n ? c - 1 : NULL;
	uint64_t took = end_ns - c->begin_ns, self = took - c->inside_ns;
	struct grind_node *from = by ? by->node : root_of(g);
	struct grind_pair *p = from ? pair_of(g, from, c->node) : NULL;

	c->node->self_ns += self;
	g->total_ns += self;
	c->function->nopen--;
	if (by)
		by->inside_ns += took;
	if (!p)
		return false;
	p->calls++;
	if (!c->function->nopen)
		p->ns += took;
	return true;
}

static void end_calls(struct callgrind_writer *g, struct export_thread *th, size_t n, uint64_t time_ns)
{
	time_ns = export_thread_time(th, time_ns);
	for (; n; n--) {
		if (!count_call(g, th->user, time_ns))
			export_fail(&g->w, &wc_enomem);
		export_calls_pop(&g->threads, th);
	}
}

/* False: no memory. */
static bool begin_call(struct callgrind_writer *g, struct export_thread *th, const struct view_call *v)
{
	struct grind_thread *t = th->user;
	struct grind_node *node = root_of(g) ? node_of_function(g, v->function) : NULL;
	struct grind_call c = { .node = node, .function = node ? open_of(t, node) : NULL };

	c.begin_ns = export_thread_time(th, v->time.mono_ns);
	if (!c.function || !vec_push(t->call, t->n, t->cap, c))
		return false;
	c.function->nopen++;
	if (export_calls_push(&g->threads, th, v))
		return true;
	c.function->nopen--;
	t->n--;
	return false;
}

static void on_call(void *ctx, const struct view_call *v)
{
	struct callgrind_writer *g = ctx;
	struct export_thread *th = thread_of(g, v->raw->pid, v->raw->tid);

	if (th)
		end_calls(g, th, export_calls_ended_by(th, v), v->time.mono_ns);
	if (!th || !begin_call(g, th, v))
		export_fail(&g->w, &wc_enomem);
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct callgrind_writer *g = ctx;
	struct export_thread *th = thread_of(g, r->raw->pid, r->raw->tid);
	size_t n = th ? export_calls_ended_with(th, r->raw->call) : 0;

	if (!th)
		export_fail(&g->w, &wc_enomem);
	else if (n)
		end_calls(g, th, n, r->time.mono_ns);
}

/* The file */

/* "fl=(2) app.c", later "fl=(2)". */
static void put_name(FILE *out, const char *what, struct grind_name *n)
{
	fprintf(out, "%s=(%" PRIu32 ")%s%s\n", what, n->number, n->written ? "" : " ",
		n->written ? "" : n->text);
	n->written = true;
}

/* Functions of one name have a number each. */
static void put_function(FILE *out, const char *what, struct grind_node *n)
{
	fprintf(out, "%s=(%" PRIu32 ")%s%s\n", what, n->number, n->written ? "" : " ",
		n->written ? "" : n->key[0]->text);
	n->written = true;
}

static void put_node(FILE *out, struct grind_node *n)
{
	const struct grind_pair *p;

	putc('\n', out);
	put_name(out, "ob", n->key[2]);
	put_name(out, "fl", n->key[1]);
	put_function(out, "fn", n);
	fprintf(out, "%" PRIu32 " %" PRIu64 "\n", n->line, n->self_ns);
	for (p = n->pair; p; p = p->next) {
		put_name(out, "cob", p->to->key[2]);
		put_name(out, "cfi", p->to->key[1]);
		put_function(out, "cfn", p->to);
		fprintf(out, "calls=%" PRIu64 " %" PRIu32 "\n%" PRIu32 " %" PRIu64 "\n", p->calls,
			p->to->line, n->line, p->ns);
	}
}

static struct wc_error *export_callgrind_finish(struct export_writer *w)
{
	struct callgrind_writer *g = (struct callgrind_writer *)w;
	FILE *out = export_out_file(w->out);
	size_t i;

	for (i = 0; i < g->threads.n; i++)
		end_calls(g, g->threads.v[i], g->threads.v[i]->nopen, 0);
	text_buf_empty(&g->text);
	export_text_clean(&g->text, w->log);
	if (g->text.failed || w->err)
		return w->err ? NULL : &wc_enomem;
	fprintf(out,
		"# callgrind format\nversion: 1\ncreator: watchctl " WATCHCTL_VERSION "\ncmd: %s\n"
		"positions: line\nevents: Nanoseconds\nsummary: %" PRIu64 "\n",
		text_buf_text(&g->text), g->total_ns);
	for (i = 0; i < g->nnodes; i++)
		put_node(out, g->node[i]);
	fprintf(out, "\ntotals: %" PRIu64 "\n", g->total_ns);
	return NULL;
}

static void free_name(void *name)
{
	struct grind_name *n = name, *next;

	for (; n; n = next) {
		next = n->same_hash;
		free(n->text);
		free(n);
	}
}

static void callgrind_free(struct export_writer *w)
{
	struct callgrind_writer *g = (struct callgrind_writer *)w;
	size_t i;

	for (i = 0; i < g->threads.n; i++) {
		struct grind_thread *t = g->threads.v[i]->user;

		if (!t)
			continue;
		free(t->call);
		map64_deinit_values(&t->open, free);
	}
	export_threads_deinit(&g->threads);
	map64_deinit_values(&g->functions.by_hash, free_name);
	map64_deinit_values(&g->files.by_hash, free_name);
	map64_deinit_values(&g->objects.by_hash, free_name);
	map64_deinit(&g->by_function);
	map64_deinit(&g->by_key);
	map64_deinit_values(&g->by_ends, free);
	for (i = 0; i < g->nnodes; i++)
		free(g->node[i]);
	free(g->node);
	text_buf_deinit(&g->text);
	free(g);
}

struct export_writer *export_callgrind_new(void)
{
	static const struct view_ops ops = { .call = on_call, .ret = on_return };
	struct callgrind_writer *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->w = (struct export_writer){ .ops = &ops,
				       .finish = export_callgrind_finish,
				       .free = callgrind_free };
	return &g->w;
}
