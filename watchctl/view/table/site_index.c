#include "watchctl/view/table/site_index.h"

#include <string.h>

#include "watchctl/base/hash.h"

#define KNOWN_MAX 65536u /* ways that lead to a site fast; then they are learned anew */

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0xff51afd7ed558ccdu;
	return h ^ h >> 32;
}

/* The address that the site is known by. */
static uint64_t address_of(const struct view_access *a)
{
	return a->ip ? a->ip : a->raw->regs.r[WREG_RIP];
}

static uint64_t kind_hash(const struct view_access *a)
{
	return mix(a->watch->e.id, a->kind | a->origin << 8 | !a->ip << 16);
}

static uint64_t hash_of(const struct view_access *a)
{
	const struct location *l = a->location;

	if (!l->module)
		return mix(kind_hash(a), address_of(a));
	return mix(hash_text(kind_hash(a), l->module), l->module_offset);
}

static bool is_site(const struct site_key *s, const struct view_access *a)
{
	const struct location *x = s->location, *y = a->location;

	if (s->watch != a->watch || s->kind != a->kind || s->origin != a->origin || s->after != !a->ip)
		return false;
	if (!x->module || !y->module)
		return x->module == y->module && s->ip == address_of(a);
	return x->module_offset == y->module_offset &&
	       (x->module == y->module || !strcmp(x->module, y->module));
}

/* Locations live long and are the same for the same address: no text is hashed for a place seen before. */
struct site_key *site_index_find(struct site_index *x, const struct view_access *a)
{
	uint64_t fast =
		mix(mix(kind_hash(a), (uintptr_t)a->location), a->location->module ? 0 : address_of(a));
	struct site_key *key = map64_get(&x->known, fast);

	if (key && is_site(key, a))
		return key;
	key = map64_get(&x->sites, hash_of(a));
	while (key && !is_site(key, a))
		key = key->same_hash;
	if (x->known.n >= KNOWN_MAX)
		map64_deinit(&x->known);
	if (key)
		map64_put(&x->known, fast, key);
	return key;
}

bool site_index_add(struct site_index *x, const struct view_access *a, struct site_key *key)
{
	uint64_t hash = hash_of(a);
	struct site_key *chain = map64_get(&x->sites, hash);

	if (!map64_put(&x->sites, hash, key))
		return false;
	*key = (struct site_key){
		.same_hash = chain,
		.watch = a->watch,
		.kind = a->kind,
		.origin = a->origin,
		.ip = address_of(a),
		.after = !a->ip,
		.location = a->location,
		.insn = a->insn ? strdup(a->insn) : NULL,
	};
	return true;
}

void site_index_deinit(struct site_index *x)
{
	map64_deinit(&x->sites);
	map64_deinit(&x->known);
}
