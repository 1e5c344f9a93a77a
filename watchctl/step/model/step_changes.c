#include "watchctl/step/model/step_changes.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"

#define WORD 8u
#define WORDS_MAX 512u		/* of a call: more are left out, and that is said */
#define POINTEES_MAX (4u << 10) /* bytes, likewise */

struct word {
	uint64_t address;
	uint8_t len;
	uint8_t bytes[WORD];
};

struct changes_of_call {
	uint64_t call;
	struct word *word; /* by address */
	size_t n, cap;
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

static bool take_word(struct changes_of_call *c, uint64_t address, const uint8_t *bytes, uint32_t len)
{
	const size_t at = BISECT(c->n, i, c->word[i].address < address);
	struct word w = { .address = address, .len = (uint8_t)len };

	memcpy(w.bytes, bytes, len);
	if (at < c->n && c->word[at].address == address) {
		c->word[at] = w;
		return true;
	}
	if (c->n == WORDS_MAX) {
		c->left_out = true;
		return true;
	}
	if (!vec_push(c->word, c->n, c->cap, w))
		return false;
	memmove(c->word + at + 1, c->word + at, (c->n - 1 - at) * sizeof(*c->word));
	c->word[at] = w;
	return true;
}

static bool take_data(struct changes_of_call *c, const struct step_record *rec)
{
	uint32_t at, n;

	for (at = 0; at < rec->written.len; at += n) {
		n = rec->written.len - at < WORD ? rec->written.len - at : WORD;
		if (!take_word(c, rec->written.address + at, rec->stack + at, n))
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

/* Words that follow each other in one variable, from @i on; returns how many. */
static size_t run_of(const struct changes_of_call *c, size_t i, const struct step_global *g, uint8_t *bytes,
		     uint32_t *len)
{
	size_t k = i;

	*len = 0;
	do {
		memcpy(bytes + *len, c->word[k].bytes, c->word[k].len);
		*len += c->word[k].len;
		k++;
	} while (k < c->n && c->word[k].address == c->word[i].address + *len && c->word[k].address < g->end);
	return k - i;
}

static bool put_data(const struct changes_of_call *c, const struct step_globals *globals, uint8_t *buf,
		     size_t cap, size_t *len)
{
	uint8_t bytes[WORDS_MAX * WORD];
	bool whole = true;
	size_t i, n;

	for (i = 0; i < c->n; i += n) {
		const struct step_global *g = step_globals_find(globals, c->word[i].address);
		struct return_extra e = { .kind = RETURN_DATA, .bytes = bytes };
		size_t name;

		n = 1;
		if (!g)
			continue;
		n = run_of(c, i, g, bytes, &e.len);
		name = strlen(g->name);
		e.offset = (uint32_t)(c->word[i].address - g->start);
		e.name = g->name;
		e.name_len = (uint8_t)(name < UINT8_MAX ? name : UINT8_MAX);
		whole &= return_extra_put(buf, cap, len, &e);
	}
	return whole;
}

void step_changes_put(struct step_changes *c, uint64_t call, const struct step_globals *globals, uint8_t *buf,
		      size_t cap, size_t *len)
{
	const struct return_extra rest = { .kind = RETURN_DATA_LEFT_OUT };
	const size_t at = BISECT(c->n, i, c->v[i]->call < call);
	struct changes_of_call *of = at < c->n && c->v[at]->call == call ? c->v[at] : NULL;
	bool whole;

	if (!of)
		return;
	cap--; /* for @rest */
	whole = !of->left_out && of->pointees_len <= cap - *len;
	if (of->pointees_len && of->pointees_len <= cap - *len) {
		memcpy(buf + *len, of->pointees, of->pointees_len);
		*len += of->pointees_len;
	}
	whole &= put_data(of, globals, buf, cap, len);
	if (!whole)
		return_extra_put(buf, cap + 1, len, &rest);
	changes_free(of);
	memmove(c->v + at, c->v + at + 1, (c->n - 1 - at) * sizeof(*c->v));
	c->n--;
}

void step_changes_deinit(struct step_changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		changes_free(c->v[i]);
	free(c->v);
	*c = (struct step_changes){ 0 };
}
