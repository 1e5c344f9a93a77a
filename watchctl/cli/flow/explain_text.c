#include <stdio.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/cli/flow/explain_print.h"
#include "watchctl/cli/flow/explain_stack.h"
#include "watchctl/cli/flow/explain_words.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/words/view_words.h"

struct showing {
	const struct explanation *e;
	const struct explain_show *show;
	struct explain_stacks *stacks;
	struct printer *printer;
};

static void print_stack(struct showing *s, const struct explained *x)
{
	unsigned int most = s->show->frames;
	size_t n;
	const struct view_frame *frame;

	if (s->show->no_stack)
		return;
	frame = explain_stack(s->stacks, x, most, &n);
	if (n)
		printer_stack(s->printer, frame, n, explain_stack_end(x, most));
	else
		printf("        (its stack cannot be walked)\n");
}

static void print_sentence(const struct explanation *e)
{
	char text[WORDS_SENTENCE];

	explain_sentence(e, text, sizeof(text));
	printf("%s.\n", text);
}

/* The members of a circle are in the links, with their stacks. */
static void print_culprit(struct showing *s, size_t rank)
{
	const struct culprit *c = &s->e->culprit[rank];
	const struct explained *x = &s->e->thread[c->who];
	char who[WORDS_WHO + 64], why[WORDS_SENTENCE];

	explain_who(x, who, sizeof(who));
	printf("\nculprit %zu%s: %s\n", rank + 1, c->guessed ? " (a guess)" : "", who);
	if (c->ncycle > 1 && !rank) {
		printf("    it is one of the %zu threads of the circle below\n", c->ncycle);
		return;
	}
	if (rank) { /* what the first one does, the sentence says */
		explain_why(s->e, c, why, sizeof(why));
		printf("    %s\n", why);
	}
	if (!c->ncycle || rank)
		print_stack(s, x);
}

/* ", asleep for 12.3 s"; "" where it is not known. */
static void since_text(const struct look_thread *t, char *buf, size_t cap)
{
	char time[48];

	buf[0] = '\0';
	if (!t->asleep_ns)
		return;
	text_duration(t->asleep_ns, time, sizeof(time));
	snprintf(buf, cap, ", asleep for %s", time);
}

static void print_link(struct showing *s, size_t number, size_t from, size_t to)
{
	const struct explained *x = &s->e->thread[from];
	char who[WORDS_WHO + 64], other[WORDS_WHO + 64], evidence[WORDS_TEXT], since[64];

	explain_who(x, who, sizeof(who));
	since_text(x->thread, since, sizeof(since));
	explain_who(&s->e->thread[to], other, sizeof(other));
	explain_evidence(s->e, from, to, evidence, sizeof(evidence));
	printf("\nlink %zu: %s%s\n    waits for %s\n    -> %s\n    known by: %s\n", number, who, since,
	       x->wait.what, other, evidence);
	print_stack(s, x);
}

/* The way to the first culprit, and round its circle. */
static void print_links(struct showing *s)
{
	const struct culprit *c = s->e->culprit;
	size_t number = 0;

	for (size_t i = 1; i < c->npath; i++)
		print_link(s, ++number, c->path[i - 1], c->path[i]);
	for (size_t i = 0; i < c->ncycle; i++)
		print_link(s, ++number, c->cycle[i], c->cycle[(i + 1) % c->ncycle]);
}

static void print_thread(struct showing *s, const struct explained *x)
{
	char who[WORDS_WHO + 64], since[64];

	explain_who(x, who, sizeof(who));
	since_text(x->thread, since, sizeof(since));
	printf("\n%s, state %c%s\n    waits for %s\n    known by: %s\n", who, x->thread->state, since,
	       x->wait.what, x->wait.evidence);
	for (size_t i = 0; i < x->wait.n; i++)
		printf("    -> %s %d%s: %s\n", x->wait.whom[i].tid ? "thread" : "process",
		       x->wait.whom[i].tid ? x->wait.whom[i].tid : x->wait.whom[i].pid,
		       x->wait.whom[i].guessed ? " (a guess)" : "", x->wait.whom[i].why);
	print_stack(s, x);
}

static void print_all(struct showing *s)
{
	const struct explanation *e = s->e;
	size_t n = e->nculprits;

	print_sentence(e);
	if (s->show->culprits && n > s->show->culprits)
		n = s->show->culprits;
	for (size_t i = 0; i < n; i++)
		print_culprit(s, i);
	if (e->nculprits)
		print_links(s);
	if (s->show->all)
		for (size_t i = 0; i < e->nthreads; i++)
			print_thread(s, &e->thread[i]);
}

static void print_ending(const struct explanation *e, const char *without)
{
	size_t stopped = 0;

	for (size_t i = 0; i < e->nthreads; i++)
		stopped += e->thread[i].thread->stopped;
	printf("\n%zu thread%s looked at, %zu of them of process %d; ", e->nthreads, plural(e->nthreads),
	       e->nown, e->pid);
	if (stopped)
		printf("%zu stopped for a moment to read registers\n", stopped);
	else
		printf("none was stopped\n");
	if (e->bounded)
		printf("there are more: only so many are looked at\n");
	if (without)
		printf("(BPF was not used: %s)\n", without);
}

struct wc_error *explain_print_text(const struct explanation *e, const struct explain_show *show,
				    const char *without)
{
	struct print_options options = {
		.colour = colour_is_wanted(show->colour, STDOUT_FILENO),
		.width = terminal_width(STDOUT_FILENO),
	};
	scoped(explain_stacks_freep) struct explain_stacks *stacks = explain_stacks_new();
	scoped(printer_freep) struct printer *printer = print_text_new(stdout, &options);
	struct showing s = { .e = e, .show = show, .stacks = stacks, .printer = printer };

	if (!stacks || !printer)
		return &wc_enomem;
	print_all(&s);
	print_ending(e, without);
	return NULL;
}
