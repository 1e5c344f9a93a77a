#include "watchctl/step/model/step_pointees.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"

/* An allocator keeps its lists in the first bytes of memory that was given back. */
#define ALLOCATORS_BYTES 32u
#define PAGE 4096u

struct kept_pointee {
	uint64_t call, pointer;
	struct fetch fetch;
	uint8_t index; /* of the fetch */
	uint8_t state;
	uint16_t len;	 /* that the fetch gave */
	uint8_t *bytes;	 /* they, and of a string what lies behind them, perhaps never written */
	uint32_t nbytes; /* all of that */
};

static bool is_shown(uint8_t state)
{
	return state == VALUE_OK || state == VALUE_CUT;
}

/* As much of the memory behind a string as the string may grow into. */
static void read_behind(struct kept_pointee *k, const struct memory_view *memory)
{
	const uint32_t want = k->fetch.len + 1u;
	uint32_t n;

	for (; k->nbytes < want; k->nbytes += n) {
		n = PAGE - (uint32_t)((k->pointer + k->nbytes) % PAGE);
		n = n < want - k->nbytes ? n : want - k->nbytes;
		if (!memory_read(memory, k->pointer + k->nbytes, k->bytes + k->nbytes, n))
			return;
	}
}

static bool keep(struct step_pointees *p, uint64_t call, const struct fetch_list *l, uint32_t i,
		 const struct fetched *f, const struct memory_view *memory)
{
	const struct fetch *from = &l->v[i];
	struct kept_pointee k = { .call = call, .fetch = *from, .index = (uint8_t)i, .state = f->state[i] };

	if (!is_shown(k.state) || from->base >= i || f->len[from->base] < sizeof(k.pointer))
		return true;
	memcpy(&k.pointer, f->bytes + f->at[from->base], sizeof(k.pointer));
	k.nbytes = k.len = f->len[i];
	k.bytes = malloc((k.len > from->len ? k.len : from->len) + 1u);
	if (k.bytes && k.len)
		memcpy(k.bytes, f->bytes + f->at[i], k.len);
	if (k.bytes && from->op == FETCH_STRING)
		read_behind(&k, memory);
	if (k.bytes && vec_push(p->v, p->n, p->cap, k))
		return true;
	free(k.bytes);
	return false;
}

bool step_pointees_keep(struct step_pointees *p, uint64_t call, const struct fetch_list *l,
			const struct fetched *f, const struct memory_view *memory)
{
	for (uint32_t i = 0; i < l->n && i < f->n; i++)
		if (l->v[i].again && !keep(p, call, l, i, f, memory))
			return false;
	return true;
}

static bool is_same(const struct kept_pointee *k, const struct fetched *f)
{
	return f->state[0] == k->state && f->len[0] == k->len &&
	       memcmp(f->bytes + f->at[0], k->bytes, k->len) == 0;
}

/* A bit for each byte, and for the NUL byte behind a string. Of those that were not seen before nothing is known. */
static void mark_changes(const struct kept_pointee *k, const uint8_t *bytes, uint32_t len, uint8_t state,
			 uint8_t *bits)
{
	const bool ends = k->fetch.op == FETCH_STRING && state == VALUE_OK;

	memset(bits, 0, RETURN_CHANGED_BYTES(len));
	for (uint32_t i = 0; i < len + ends && i < k->nbytes; i++)
		if ((i < len ? bytes[i] : 0) != k->bytes[i])
			bits[i / 8] |= (uint8_t)(1u << i % 8);
}

static void tell(const struct kept_pointee *k, const struct fetched *f,
		 void (*changed)(void *ctx, const struct changed_pointee *c), void *ctx)
{
	const uint32_t len = is_shown(f->state[0]) ? f->len[0] : 0;
	const uint8_t *bytes = f->bytes + f->at[0];
	uint8_t bits[RETURN_CHANGED_BYTES(CALL_POINTEE_MAX)];
	const struct changed_pointee c = { k->index, f->state[0], bytes, bits, len };

	mark_changes(k, bytes, len, f->state[0], bits);
	changed(ctx, &c);
}

void step_pointees_end(struct step_pointees *p, uint64_t call, const struct fetch_source *s,
		       void (*changed)(void *ctx, const struct changed_pointee *c), void *ctx)
{
	struct fetched f;
	/* Calls are numbered in the order of their entries. */
	const size_t first = BISECT(p->n, k, p->v[k].call < call);
	size_t end = first;

	while (end < p->n && p->v[end].call == call)
		end++;
	for (size_t i = first; i < end; i++) {
		const struct kept_pointee *k = &p->v[i];

		if (s) {
			fetch_again(&k->fetch, k->pointer, s, &f);
			if (!is_same(k, &f))
				tell(k, &f, changed, ctx);
		}
		free(k->bytes);
	}
	if (end == first)
		return;
	memmove(p->v + first, p->v + end, (p->n - end) * sizeof(*p->v));
	p->n -= end - first;
}

bool step_pointees_frees(const char *name)
{
	static const char *const names[] = {
		"free",	       "cfree",	     "realloc",		 "reallocarray",
		"fclose",      "pclose",     "closedir",	 "freeaddrinfo",
		"freeifaddrs", "freelocale", "operator delete(", "operator delete[](",
		"_ZdlPv",      "_ZdaPv",
	};
	const size_t exact = 10;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (i < exact ? strcmp(name, names[i]) == 0 : strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

void step_pointees_drop(struct step_pointees *p, uint64_t address)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct kept_pointee *k = &p->v[i];

		if (k->pointer < address + ALLOCATORS_BYTES && k->pointer + (k->len ? k->len : 1) > address)
			free(k->bytes);
		else
			p->v[kept++] = *k;
	}
	p->n = kept;
}

void step_pointees_forget(struct step_pointees *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].bytes);
	p->n = 0;
}

void step_pointees_deinit(struct step_pointees *p)
{
	step_pointees_forget(p);
	free(p->v);
	*p = (struct step_pointees){ 0 };
}
