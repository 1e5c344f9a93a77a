#include "watchctl/step/model/step_changes.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"

#define WORD 8u
#define WORDS_MAX 512u		/* that a call changes: more are left out, and that is said */
#define AROUND_MAX 8192u	/* words of a call, with those that lie around what is changed */
#define POINTEES_MAX (4u << 10) /* bytes, likewise */

struct word {
	uint64_t address;
	uint8_t len;
	bool has_changed; /* else it only lies beside one that has */
	uint8_t bytes[WORD];
	uint8_t changed[WORD]; /* bit by bit */
};

struct changes_of_call {
	uint64_t call;
	struct word *word; /* by address */
	size_t n, cap;
	size_t nchanged;   /* words */
	uint8_t *pointees; /* as they go into the log */
	size_t pointees_len;
	bool left_out;
};

static void changes_free(struct changes_of_call *c)
{
	free(c->word);
	free(c->pointees);
	free(c);
}

static struct changes_of_call *changes_of(struct step_changes *c, uint64_t call)
{
	const size_t at = BISECT(c->n, i, c->v[i]->call < call);
	struct changes_of_call *add;

	if (at < c->n && c->v[at]->call == call)
		return c->v[at];
	add = calloc(1, sizeof(*add));
	if (!add || !vec_push(c->v, c->n, c->cap, add)) {
		free(add);
		return NULL;
	}
	add->call = call;
	memmove(c->v + at + 1, c->v + at, (c->n - 1 - at) * sizeof(*c->v));
	c->v[at] = add;
	return add;
}

static void add_change(struct word *to, const struct word *w)
{
	memcpy(to->bytes, w->bytes, sizeof(to->bytes));
	to->has_changed |= w->has_changed;
	for (size_t i = 0; i < WORD; i++)
		to->changed[i] |= w->changed[i];
}

/* At @at, where it belongs. */
static bool insert_word(struct changes_of_call *c, size_t at, const struct word *w)
{
	if (!vec_push(c->word, c->n, c->cap, *w))
		return false;
	memmove(c->word + at + 1, c->word + at, (c->n - 1 - at) * sizeof(*c->word));
	c->word[at] = *w;
	return true;
}

static bool take_word(struct changes_of_call *c, const struct word *w)
{
	const size_t at = BISECT(c->n, i, c->word[i].address < w->address);
	struct word *have = at < c->n && c->word[at].address == w->address ? &c->word[at] : NULL;
	const bool counts = w->has_changed && !(have && have->has_changed);

	if ((counts && c->nchanged == WORDS_MAX) || (!have && c->n == AROUND_MAX)) {
		c->left_out |= w->has_changed;
		return true;
	}
	c->nchanged += counts;
	if (!have)
		return insert_word(c, at, w);
	add_change(have, w);
	return true;
}

static bool take_data(struct changes_of_call *c, const struct step_record *rec)
{
	static const uint8_t nothing[WORD];
	const uint32_t len = rec->written.len;
	uint32_t at, n;

	for (at = 0; at < len; at += n) {
		struct word w = { .address = rec->written.address + at };

		n = len - at < WORD ? len - at : WORD;
		w.len = (uint8_t)n;
		memcpy(w.bytes, rec->stack + at, n);
		memcpy(w.changed, rec->stack + len + at, n);
		w.has_changed = memcmp(w.changed, nothing, WORD) != 0;
		if (!take_word(c, &w))
			return false;
	}
	return true;
}

/* The parameter whose pointee fetch @fetch gives; false: none. */
static bool param_of(const struct function_plan *plan, uint8_t fetch, uint8_t *ret)
{
	for (uint32_t i = 0; i < plan->function.nparams; i++)
		if (plan->recipe[i].to == fetch && plan->recipe[i].state == VALUE_OK) {
			*ret = (uint8_t)i;
			return true;
		}
	return false;
}

static bool take_pointee(struct changes_of_call *c, const struct step_record *rec,
			 const struct function_plan *plan)
{
	struct return_extra e = { .kind = RETURN_POINTEE,
				  .state = (enum value_state)rec->written.state,
				  .bytes = rec->stack,
				  .len = rec->written.len,
				  .changed = rec->stack + rec->written.len };

	if (!param_of(plan, rec->written.fetch, &e.param))
		return true;
	if (!c->pointees)
		c->pointees = malloc(POINTEES_MAX);
	if (!c->pointees)
		return false;
	c->left_out |= !return_extra_put(c->pointees, POINTEES_MAX, &c->pointees_len, &e);
	return true;
}

bool step_changes_take(struct step_changes *c, const struct step_record *rec,
		       const struct function_plan *plan)
{
	struct changes_of_call *of = changes_of(c, rec->inside);

	if (!of)
		return false;
	return rec->written.is_data ? take_data(of, rec) : take_pointee(of, rec, plan);
}

struct putting {
	struct step_changes *c;
	const struct changes_out *out;
	bool whole;
};

static struct wc_error *put_member(void *ctx, const struct changed_member *m)
{
	struct putting *p = ctx;
	const struct changes_out *o = p->out;
	struct return_extra e = { .kind = m->type == NO_TYPE ? RETURN_DATA : RETURN_MEMBER,
				  .type = m->type,
				  .offset = m->offset,
				  .name = m->path,
				  .name_len = (uint8_t)strlen(m->path),
				  .bytes = m->bytes,
				  .len = m->len };
	struct wc_error *err = told_types_tell(o->types, m->type, o->time_ns, o->sink);

	p->whole &= return_extra_put(o->buf, o->cap - 1, o->len, &e); /* one byte is for what is left out */
	return err;
}

/* Words that follow each other in one variable, from @i on; returns how many. */
static size_t run_of(struct step_changes *c, const struct changes_of_call *of, size_t i,
		     const struct step_global *g, struct members_run *ret)
{
	const uint64_t address = of->word[i].address;
	size_t k = i;

	*ret = (struct members_run){
		.of = g, .offset = (uint32_t)(address - g->start), .bytes = c->bytes, .changed = c->changed
	};
	for (; k < of->n && of->word[k].address == address + ret->len && of->word[k].address < g->end; k++) {
		memcpy(c->bytes + ret->len, of->word[k].bytes, of->word[k].len);
		memcpy(c->changed + ret->len, of->word[k].changed, of->word[k].len);
		ret->len += of->word[k].len;
	}
	return k - i;
}

static struct wc_error *put_data(struct step_changes *c, const struct changes_of_call *of, struct putting *p)
{
	const size_t room = of->n * WORD;
	struct wc_error *err = NULL;
	size_t i, n;

	if (!room)
		return NULL;
	if (!vec_reserve((void **)&c->bytes, &c->bytes_cap, room, 1) ||
	    !vec_reserve((void **)&c->changed, &c->changed_cap, room, 1) || !c->bytes || !c->changed)
		return &wc_enomem;
	for (i = 0; !err && i < of->n; i += n) {
		const struct step_global *g = step_globals_find(p->out->globals, of->word[i].address);
		struct members_run run;

		n = 1;
		if (!g)
			continue;
		n = run_of(c, of, i, g, &run);
		err = step_members_split(p->out->members, &run, put_member, p);
	}
	return err;
}

static struct wc_error *put_all(struct step_changes *c, const struct changes_of_call *of,
				const struct changes_out *o)
{
	const struct return_extra rest = { .kind = RETURN_DATA_LEFT_OUT };
	const size_t cap = o->cap - 1;
	struct putting p = { .c = c, .out = o, .whole = !of->left_out };
	struct wc_error *err;

	p.whole &= of->pointees_len <= cap - *o->len;
	if (of->pointees_len && of->pointees_len <= cap - *o->len) {
		memcpy(o->buf + *o->len, of->pointees, of->pointees_len);
		*o->len += of->pointees_len;
	}
	err = put_data(c, of, &p);
	if (!p.whole)
		return_extra_put(o->buf, o->cap, o->len, &rest);
	return err;
}

struct wc_error *step_changes_put(struct step_changes *c, uint64_t call, const struct changes_out *o)
{
	const size_t at = BISECT(c->n, i, c->v[i]->call < call);
	struct changes_of_call *of = at < c->n && c->v[at]->call == call ? c->v[at] : NULL;
	struct wc_error *err;

	if (!of)
		return NULL;
	err = put_all(c, of, o);
	changes_free(of);
	memmove(c->v + at, c->v + at + 1, (c->n - 1 - at) * sizeof(*c->v));
	c->n--;
	return err;
}

void step_changes_deinit(struct step_changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		changes_free(c->v[i]);
	free(c->v);
	free(c->bytes);
	free(c->changed);
	*c = (struct step_changes){ 0 };
}
