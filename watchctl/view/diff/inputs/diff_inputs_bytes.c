#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "watchctl/view/diff/inputs/diff_inputs_impl.h"

/* Comparing one source */

struct cursor {
	const struct diff_source *s;
	size_t i;
	uint64_t pos; /* in input i */
};

static bool has_more(const struct cursor *c)
{
	return c->i < c->s->n;
}

/* Where has_more(). */
static const struct diff_input *current(const struct cursor *c)
{
	return &c->s->input[c->i];
}

/* What was recorded around position @pos of @in, of the bytes of that input alone. */
static void look_around(struct diff_input_side *side, const struct diff_source *s,
			const struct diff_input *in, uint64_t pos)
{
	uint64_t from = pos > DIFF_INPUT_SIDE ? pos - DIFF_INPUT_SIDE : 0;
	uint64_t to = pos + DIFF_INPUT_SIDE + 1 < in->e.len ? pos + DIFF_INPUT_SIDE + 1 : in->e.len;

	side->source = s;
	side->input = in;
	side->value = in->e.result;
	from = from < to ? from : to;
	side->len = (uint32_t)(to - from);
	side->at = (uint32_t)(pos - from < side->len ? pos - from : side->len);
	memcpy(side->bytes, in->e.bytes + from, side->len);
}

static void found(struct diff_input_difference *d, enum diff_input_what what, uint64_t offset,
		  const struct cursor *a, const struct cursor *b, uint64_t more)
{
	*d = (struct diff_input_difference){ .what = what, .offset = offset };
	look_around(&d->a, a->s, current(a), a->pos + more);
	look_around(&d->b, b->s, current(b), b->pos + more);
}

static uint64_t offset_of(const struct cursor *c)
{
	return current(c)->e.offset + c->pos;
}

static uint64_t recorded(const struct cursor *c)
{
	const struct input_event *e = &current(c)->e;

	return e->len > c->pos ? e->len - c->pos : 0;
}

static void forward(struct cursor *c, uint64_t n)
{
	c->pos += n;
	if (c->pos >= current(c)->e.size) {
		c->i++;
		c->pos = 0;
	}
}

/* True: they differ, and @d says where. */
static bool compare_piece(struct cursor *a, struct cursor *b, uint64_t n, struct diff_input_difference *d,
			  uint64_t *unseen)
{
	const struct input_event *x = &current(a)->e, *y = &current(b)->e;
	uint64_t known = recorded(a) < recorded(b) ? recorded(a) : recorded(b), i;
	bool whole = !a->pos && !b->pos && x->size == y->size && x->hashed == y->hashed && x->hashed;

	if (whole && x->hash == y->hash) {
		*unseen += x->size - x->hashed;
		return false;
	}
	known = known < n ? known : n;
	for (i = 0; i < known; i++)
		if (x->bytes[a->pos + i] != y->bytes[b->pos + i]) {
			found(d, DIFF_INPUT_BYTES, offset_of(b) + i, a, b, i);
			return true;
		}
	if (known < n && whole) {
		found(d, DIFF_INPUT_UNSEEN, offset_of(b) + known, a, b, known);
		return true;
	}
	*unseen += n - known;
	return false;
}

static bool compare_bytes(const struct diff_source *sa, const struct diff_source *sb,
			  struct diff_input_difference *d, uint64_t *unseen)
{
	struct cursor a = { sa, 0, 0 }, b = { sb, 0, 0 };

	while (has_more(&a) && has_more(&b)) {
		const struct input_event *x = &current(&a)->e, *y = &current(&b)->e;
		uint64_t left_x = x->size - a.pos, left_y = y->size - b.pos;
		uint64_t n = left_x < left_y ? left_x : left_y;

		/* They go to other places: that was decided by the program. */
		if (offset_of(&a) != offset_of(&b))
			return false;
		if (!x->size && !y->size && x->result == y->result) {
			a.i++;
			b.i++;
			continue;
		}
		if (!n) {
			found(d, x->result < 0 || y->result < 0 ? DIFF_INPUT_RESULT : DIFF_INPUT_END,
			      offset_of(&b), &a, &b, 0);
			return true;
		}
		if (compare_piece(&a, &b, n, d, unseen))
			return true;
		forward(&a, n);
		forward(&b, n);
	}
	return false;
}

static void set_values(struct diff_input_difference *d, enum diff_input_what what,
		       const struct diff_source *sa, const struct diff_source *sb, size_t i, int64_t a,
		       int64_t b)
{
	*d = (struct diff_input_difference){ .what = what };
	d->a = (struct diff_input_side){ .source = sa, .input = &sa->input[i], .value = a };
	d->b = (struct diff_input_side){ .source = sb, .input = &sb->input[i], .value = b };
}

/* Success is one result: the numbers of descriptors are the program's matter. */
static int64_t outcome(const struct input_event *e)
{
	return e->result < 0 ? e->result : 0;
}

static bool compare_outcomes(const struct diff_source *sa, const struct diff_source *sb,
			     struct diff_input_difference *d)
{
	size_t i;

	for (i = 0; i < sa->n && i < sb->n; i++)
		if (outcome(&sa->input[i].e) != outcome(&sb->input[i].e)) {
			set_values(d, DIFF_INPUT_RESULT, sa, sb, i, outcome(&sa->input[i].e),
				   outcome(&sb->input[i].e));
			return true;
		}
	return false;
}

static bool compare_links(const struct diff_source *sa, const struct diff_source *sb,
			  struct diff_input_difference *d)
{
	size_t i;

	for (i = 0; i < sa->n && i < sb->n; i++) {
		const struct input_event *x = &sa->input[i].e, *y = &sb->input[i].e;

		if (x->size == y->size && x->hash == y->hash)
			continue;
		found(d, DIFF_INPUT_BYTES, 0, &(struct cursor){ sa, i, 0 }, &(struct cursor){ sb, i, 0 }, 0);
		return true;
	}
	return false;
}

/* Of struct stat and struct statx: what a program decides by. False: it was not recorded. */
static bool read_status(const struct input_event *e, int64_t *size, int64_t *mode)
{
	struct statx x;
	struct stat s;

	if (e->result < 0)
		return false;
	if (e->syscall == SYS_statx && e->len >= sizeof(x)) {
		memcpy(&x, e->bytes, sizeof(x));
		*size = (int64_t)x.stx_size;
		*mode = x.stx_mode;
		return true;
	}
	if (e->syscall == SYS_statx || e->len < sizeof(s))
		return false;
	memcpy(&s, e->bytes, sizeof(s));
	*size = s.st_size;
	*mode = s.st_mode;
	return true;
}

static bool compare_status(const struct diff_source *sa, const struct diff_source *sb,
			   struct diff_input_difference *d)
{
	int64_t size_a, size_b, mode_a, mode_b;
	size_t i;

	for (i = 0; i < sa->n && i < sb->n; i++) {
		if (!read_status(&sa->input[i].e, &size_a, &mode_a) ||
		    !read_status(&sb->input[i].e, &size_b, &mode_b))
			continue;
		if (mode_a != mode_b) {
			set_values(d, DIFF_INPUT_MODE, sa, sb, i, mode_a, mode_b);
			return true;
		}
		if (size_a != size_b && S_ISREG(mode_a)) {
			set_values(d, DIFF_INPUT_SIZE, sa, sb, i, size_a, size_b);
			return true;
		}
	}
	return false;
}

bool diff_inputs_source(const struct diff_source *a, const struct diff_source *b,
			struct diff_input_difference *d, uint64_t *unseen)
{
	switch (a->kind) {
	case INPUT_FILE:
	case INPUT_STREAM:
	case INPUT_MAP:
		return compare_bytes(a, b, d, unseen);
	case INPUT_STATUS:
		return compare_outcomes(a, b, d) || compare_status(a, b, d);
	case INPUT_LINK:
		/* getcwd() has no name: which directory it was started in is known as a change. */
		return compare_outcomes(a, b, d) || (a->name[0] && compare_links(a, b, d));
	default:
		return compare_outcomes(a, b, d);
	}
}
