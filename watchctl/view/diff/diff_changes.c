#include "watchctl/view/diff/diff_changes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/view/diff/base/diff_hash.h"
#include "watchctl/view/diff/diff_detail.h"
#include "watchctl/view/event/step_change.h"
#include "watchctl/view/event/step_value.h"

#define TOKENS_START 0x5eedu /* not 0, of which a token that is 0 would make nothing */
#define TEXT_MAX 4608

/* Taking */

static bool is_pointee(const struct return_extra *e, unsigned int which, uint32_t nparams)
{
	return e->kind == RETURN_POINTEE && (which & RECORDING_CHANGED_POINTEES) && e->param < nparams &&
	       e->len <= CALL_POINTEE_MAX;
}

static bool is_data(const struct return_extra *e, unsigned int which)
{
	return (e->kind == RETURN_DATA || e->kind == RETURN_MEMBER) && (which & RECORDING_CHANGED_DATA);
}

/* The type of a member; NULL: it is none, or nothing is known of it. */
static const struct diff_type *type_of(const struct diff_canon *c, const struct return_extra *e)
{
	const struct diff_type *t = e->kind == RETURN_MEMBER ? diff_canon_type(c, e->type) : NULL;

	return t && t->e.size == e->len ? t : NULL;
}

static void put_data(struct diff_canon *c, const struct diff_type *type, const uint8_t *bytes, uint32_t len,
		     struct diff_tokens *k)
{
	const struct call_value v = {
		.state = VALUE_OK, .bytes = bytes, .size = len, .to_state = VALUE_NONE
	};

	const bool no_pointee = k->no_pointee;

	k->no_pointee = true;
	if (type)
		diff_canon_put(c, type, &v, 0, false, k);
	else
		diff_canon_put_words(c, bytes, len, k);
	k->no_pointee = no_pointee;
}

/* As the canon wants them: which bytes were not written. */
static const bool *unchanged(const struct call_value *v, const uint8_t *changed, bool *buf)
{
	for (uint32_t i = 0; i <= v->to_len; i++)
		buf[i] = !changed || !(changed[i / 8] >> i % 8 & 1);
	return buf;
}

static void put_pointee(struct diff_canon *c, const struct diff_type *type, const struct call_value *v,
			const uint8_t *changed, struct diff_tokens *k)
{
	bool buf[DIFF_UNSET_MAX];

	k->unset = v->to_len <= CALL_POINTEE_MAX ? unchanged(v, changed, buf) : NULL;
	diff_canon_put_after(c, type, v, k);
	k->unset = NULL;
}

static bool is_masked(const struct diff_function *f, uint32_t param)
{
	return (f->masked.params | f->masked.pointees) >> param & 1;
}

uint64_t diff_changes_hash(struct diff_canon *c, const struct diff_function *f, struct call_values_reader *r,
			   unsigned int which, struct diff_tokens *k)
{
	struct return_extra e;
	uint64_t h = 0;

	while (return_extra_next(r, &e)) {
		const struct call_value v = { .to_state = e.state, .to = e.bytes, .to_len = e.len };

		k->strong = TOKENS_START;
		if (is_pointee(&e, which, f->e.nparams) && f->param[e.param] && !is_masked(f, e.param)) {
			put_pointee(c, f->param[e.param], &v, e.changed, k);
			h += diff_mix(e.param + 1u, k->strong);
		} else if (is_data(&e, which)) {
			put_data(c, type_of(c, &e), e.bytes, e.len, k);
			h += diff_mix(diff_mix_bytes(e.offset, e.name, e.name_len), k->strong);
		}
	}
	return h;
}

static bool add(struct diff_detail *d, struct memory_change *c)
{
	if (c->label && (!c->is_data || c->object) &&
	    vec_push(d->changes.v, d->changes.n, d->changes.cap, *c))
		return true;
	free(c->label);
	free(c->object);
	return false;
}

static char *label_of(const struct return_extra *e, uint32_t at, const char *param)
{
	char text[400];

	step_change_label(e, at, param, text, sizeof(text));
	return strdup(text);
}

static bool take_pointee(struct diff_detail *d, const struct return_extra *e)
{
	struct memory_change c = { .param = e->param, .v = d->param[e->param].v, .changed = e->changed };

	if (d->param[e->param].masked || d->param[e->param].to_masked)
		return true;
	c.v.to_state = e->state;
	c.v.to = e->bytes;
	c.v.to_len = e->len;
	c.label = label_of(e, 0, d->param[e->param].name);
	return add(d, &c);
}

static bool take_word(struct diff_detail *d, const struct return_extra *e, uint32_t at)
{
	struct memory_change c = { .is_data = true, .offset = e->offset + at, .bytes = e->bytes + at };

	c.len = e->len - at < STEP_CHANGE_WORD ? e->len - at : STEP_CHANGE_WORD;
	c.object = strndup(e->name, e->name_len);
	c.label = label_of(e, at, NULL);
	return add(d, &c);
}

static bool take_member(struct diff_detail *d, const struct return_extra *e)
{
	struct memory_change c = { .is_data = true, .bytes = e->bytes, .len = e->len };

	c.type = type_of(&d->side->canon, e);
	c.object = strndup(e->name, e->name_len);
	c.label = label_of(e, 0, NULL);
	return add(d, &c);
}

static int by_place(const void *x, const void *y)
{
	const struct memory_change *a = x, *b = y;
	int d;

	if (a->is_data != b->is_data)
		return a->is_data ? 1 : -1;
	d = a->is_data ? strcmp(a->object, b->object) : 0;
	if (d)
		return d;
	if (a->is_data)
		return a->offset < b->offset ? -1 : a->offset > b->offset;
	return a->param < b->param ? -1 : a->param > b->param;
}

bool diff_changes_take(struct diff_detail *d, struct call_values_reader *r, unsigned int which)
{
	struct return_extra e;
	bool ok = true;

	while (ok && return_extra_next(r, &e)) {
		d->changes.left_out |= e.kind == RETURN_DATA_LEFT_OUT;
		if (is_pointee(&e, which, d->nparams))
			ok = take_pointee(d, &e);
		if (!is_data(&e, which))
			continue;
		if (e.kind == RETURN_MEMBER)
			ok = take_member(d, &e);
		for (uint32_t at = 0; ok && e.kind == RETURN_DATA && at < e.len; at += STEP_CHANGE_WORD)
			ok = take_word(d, &e, at);
	}
	if (d->changes.n)
		qsort(d->changes.v, d->changes.n, sizeof(*d->changes.v), by_place);
	return ok;
}

/* Comparing */

/* @of: the place; @c: what it is about there; NULL: it was not changed. */
static bool tokens_of(struct diff_detail *d, const struct memory_change *of, const struct memory_change *c,
		      struct diff_tokens *k)
{
	struct call_value v;

	*k = (struct diff_tokens){ .list = true };
	if (of->is_data) {
		if (c)
			put_data(&d->side->canon, c->type, c->bytes, c->len, k);
		return !k->no_memory;
	}
	/* Else it still is what it was at the entry. */
	v = c ? c->v : d->param[of->param].v;
	if (d->param[of->param].type)
		put_pointee(&d->side->canon, d->param[of->param].type, &v, c ? c->changed : NULL, k);
	return !k->no_memory;
}

static bool all_weak(const struct diff_tokens *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (!k->v[i].weak)
			return false;
	return true;
}

static void mark(struct memory_change *c, bool differs, const struct diff_token *first)
{
	c->differs = differs;
	c->member = first ? first->member : NULL;
}

struct comparing {
	struct diff_detail *a, *b;
	const struct diff_closeness *close;
	bool differs;
};

/* The place @of, of which @a and @b are what the calls have changed there; NULL: the call has not. */
static bool compare_one(struct comparing *w, const struct memory_change *of, struct memory_change *a,
			struct memory_change *b)
{
	const struct diff_token *token = NULL;
	struct diff_tokens ta, tb;
	bool ok = tokens_of(w->a, of, a, &ta), other = tokens_of(w->b, of, b, &tb), real;

	if (of->is_data && (!a || !b))
		real = w->close->all || !all_weak(a ? &ta : &tb);
	else
		real = (token = diff_tokens_differ(&ta, &tb, w->close)) != NULL;
	if (a)
		mark(a, real, token);
	if (b)
		mark(b, real, token);
	w->differs |= real;
	free(ta.v);
	free(tb.v);
	return ok && other;
}

bool diff_changes_compare(struct diff_detail *a, struct diff_detail *b, const struct diff_closeness *c,
			  bool *differs)
{
	struct memory_change *va = a->changes.v, *vb = b->changes.v;
	struct comparing w = { .a = a, .b = b, .close = c };
	size_t i = 0, k = 0;
	bool ok = true;

	while (ok && (i < a->changes.n || k < b->changes.n)) {
		const int order = i == a->changes.n ? 1 : k == b->changes.n ? -1 : by_place(&va[i], &vb[k]);

		if (order < 0)
			ok = compare_one(&w, &va[i], &va[i], NULL);
		else
			ok = compare_one(&w, &vb[k], order ? NULL : &va[i], &vb[k]);
		i += order <= 0;
		k += order >= 0;
	}
	*differs = w.differs;
	return ok;
}

/* Texts */

static void member_text(const struct step_values *values, const struct memory_change *c, char *buf,
			size_t cap)
{
	const struct return_extra e = { .kind = RETURN_MEMBER, .bytes = c->bytes, .len = c->len };

	step_change_member(values, &c->type->e, &e, buf, cap);
}

bool diff_changes_texts(struct diff_detail *d, const struct step_values *values)
{
	char text[TEXT_MAX];

	for (size_t i = 0; i < d->changes.n; i++) {
		struct memory_change *c = &d->changes.v[i];
		const struct diff_type *type = c->is_data ? NULL : d->param[c->param].type;

		if (c->text)
			continue;
		if (c->is_data && c->type)
			member_text(values, c, text, sizeof(text));
		else if (c->is_data)
			step_change_word(c->bytes, c->len, text, sizeof(text));
		else if (!step_value_pointee_text(values, type ? &type->e : NULL, &c->v, text, sizeof(text)))
			strcpy(text, "?");
		c->text = strdup(text);
		if (!c->text)
			return false;
	}
	return true;
}

void diff_changes_list(const struct diff_changes *c, size_t max, char *buf, size_t cap)
{
	size_t used = 0, listed = 0, i;

	buf[0] = '\0';
	for (i = 0; i < c->n && used < cap; i++) {
		if (!c->v[i].differs)
			continue;
		if (listed++ == max) {
			snprintf(buf + used, cap - used, " and more");
			return;
		}
		used += (size_t)snprintf(buf + used, cap - used, "%s%s%s%s", used ? ", " : "", c->v[i].label,
					 c->v[i].member ? "." : "", c->v[i].member ? c->v[i].member : "");
	}
}

const struct memory_change *diff_changes_find(const struct diff_changes *c, const struct memory_change *of)
{
	return c->n ? bsearch(of, c->v, c->n, sizeof(*c->v), by_place) : NULL;
}

void diff_changes_deinit(struct diff_changes *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].label);
		free(c->v[i].object);
		free(c->v[i].text);
	}
	free(c->v);
	*c = (struct diff_changes){ 0 };
}
