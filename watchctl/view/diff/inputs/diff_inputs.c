#include "watchctl/view/diff/inputs/diff_inputs_impl.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

/* Collecting */

static uint8_t *copy_of(const void *bytes, size_t n)
{
	uint8_t *copy = malloc(n + 1);

	if (!copy)
		return NULL;
	if (n)
		memcpy(copy, bytes, n);
	copy[n] = '\0'; /* so that the last text of a list ends, too */
	return copy;
}

static bool keep(uint8_t **at, size_t *len, const struct input_event *e)
{
	free(*at);
	*at = copy_of(e->bytes, e->len);
	*len = e->len;
	return *at != NULL;
}

/* The counter of what the kernel makes up anew for each run; NULL: it is compared. */
static uint64_t *noise_of(struct diff_inputs *in, const struct input_event *e)
{
	const char *name = e->name ? e->name : "";

	if (e->kind == INPUT_CLOCK)
		return &in->clocks;
	if (e->kind == INPUT_RANDOM)
		return &in->randoms;
	return !strncmp(name, "/proc/", 6) || !strncmp(name, "/sys/", 5) ? &in->system : NULL;
}

static bool is_of(const struct diff_source *s, const struct input_event *e)
{
	return s->kind == e->kind && !strcmp(s->name, e->name ? e->name : "");
}

static struct diff_source *source_of(struct diff_inputs *in, const struct input_event *e)
{
	struct diff_source s = { .kind = e->kind, .fd = e->fd };
	size_t i;

	for (i = in->n; i-- > 0;)
		if (is_of(&in->source[i], e))
			return &in->source[i];
	s.name = strdup(e->name ? e->name : "");
	if (!s.name || !vec_push(in->source, in->n, in->cap, s)) {
		free(s.name);
		return NULL;
	}
	return &in->source[in->n - 1];
}

static struct wc_error *add_event(struct diff_inputs *in, const struct input_event *e, uint64_t time_ns)
{
	struct diff_source *s = source_of(in, e);
	struct diff_input i = { .e = *e, .number = in->count, .time_ns = time_ns };

	i.e.name = NULL;
	i.e.bytes = s ? copy_of(e->bytes, e->len) : NULL;
	if (!i.e.bytes || !vec_push(s->input, s->n, s->cap, i)) {
		free((void *)i.e.bytes);
		return &wc_enomem;
	}
	return NULL;
}

struct wc_error *diff_inputs_add(struct diff_inputs *in, const struct input_event *e, uint64_t time_ns)
{
	uint64_t *noise;

	in->withheld |= e->withheld;
	in->count++;
	switch (e->kind) {
	case INPUT_ARGUMENTS:
		return keep(&in->arguments, &in->arguments_len, e) ? NULL : &wc_enomem;
	case INPUT_ENVIRONMENT:
		return keep(&in->environment, &in->environment_len, e) ? NULL : &wc_enomem;
	case INPUT_DIRECTORY:
		free(in->directory);
		in->directory = strdup(e->name ? e->name : "");
		return in->directory ? NULL : &wc_enomem;
	default:
		break;
	}
	noise = noise_of(in, e);
	if (noise) {
		++*noise;
		return NULL;
	}
	return add_event(in, e, time_ns);
}

void diff_inputs_deinit(struct diff_inputs *in)
{
	size_t i, k;

	for (i = 0; i < in->n; i++) {
		for (k = 0; k < in->source[i].n; k++)
			free((void *)in->source[i].input[k].e.bytes);
		free(in->source[i].input);
		free(in->source[i].name);
	}
	free(in->source);
	free(in->directory);
	free(in->arguments);
	free(in->environment);
	*in = (struct diff_inputs){ 0 };
}

/* Comparing */

/* A content that differs is more than the size that does. */
static bool is_earlier(const struct diff_input_difference *d, const struct diff_input_difference *than)
{
	bool size = d->what == DIFF_INPUT_SIZE, than_size = than->what == DIFF_INPUT_SIZE;

	if (size != than_size)
		return than_size;
	return d->b.input->number < than->b.input->number;
}

struct pairing {
	struct diff_inputs *a, *b;
	const struct map64 *noise;
	struct map64 *learns; /* instead: what differs is put there */
	struct diff_input_result *r;
	bool no_memory;
};

static void compare_pair(struct pairing *p, struct diff_source *a, struct diff_source *b)
{
	struct diff_input_difference d;

	a->has_mate = b->has_mate = true;
	if ((p->noise && map64_get(p->noise, a->identity)) || !diff_inputs_source(a, b, &d, &p->r->unseen))
		return;
	if (p->learns && !map64_put(p->learns, a->identity, p->learns))
		p->no_memory = true;
	if (!p->r->differs || is_earlier(&d, &p->r->first))
		p->r->first = d;
	p->r->differs = true;
	p->r->sources++;
}

static struct wc_error *compare_all(struct pairing *p)
{
	size_t i;

	if (!diff_inputs_start(p->a, p->b, p->r) || !diff_inputs_identify(p->a, p->r, true) ||
	    !diff_inputs_identify(p->b, p->r, false))
		return &wc_enomem;
	p->r->compared = p->a->recorded >= INPUTS_RANGE && p->b->recorded >= INPUTS_RANGE &&
			 !p->a->withheld && !p->b->withheld;
	for (i = 0; p->r->compared && i < p->a->n; i++) {
		struct diff_source *o = diff_inputs_mate(p->b, &p->a->source[i]);

		if (o)
			compare_pair(p, &p->a->source[i], o);
	}
	for (i = 0; p->r->compared && i < p->a->n; i++) {
		struct diff_source *s = &p->a->source[i],
				   *o = s->has_mate ? NULL : diff_inputs_likely_mate(p->b, s);

		if (o)
			compare_pair(p, s, o);
	}
	return p->no_memory ? &wc_enomem : NULL;
}

struct wc_error *diff_inputs_compare(struct diff_inputs *a, struct diff_inputs *b, const struct map64 *noise,
				     struct diff_input_result *ret)
{
	struct pairing p = { .a = a, .b = b, .noise = noise, .r = ret };

	return compare_all(&p);
}

bool diff_inputs_learn(struct diff_inputs *a, struct diff_inputs *b, struct map64 *noise, uint64_t *learned)
{
	struct diff_input_result r = { 0 };
	struct pairing p = { .a = a, .b = b, .noise = noise, .learns = noise, .r = &r };
	struct wc_error *err = compare_all(&p);

	*learned += r.sources;
	diff_input_result_deinit(&r);
	return !err;
}

void diff_input_result_deinit(struct diff_input_result *r)
{
	free(r->change);
	*r = (struct diff_input_result){ 0 };
}
