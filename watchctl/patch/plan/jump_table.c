/*
 * Jump tables. Those that hold addresses need no analysis: the dynamic linker relocates each entry, and in a program
 * that is not relocated every word that may be an address is taken for one. What is left are tables of distances, which
 * gcc and clang write for position independent code:
 *
 *	lea	table(%rip), %rbx
 *	movslq	(%rbx,%rax,4), %rax
 *	add	%rbx, %rax
 *	jmp	*%rax
 *
 * with each entry the distance from the table to a place in the function. The table is found by the lea, which may be far from
 * the jump, out of a loop. Where it ends is not said: so it is read until an entry leads to no instruction, or
 * another one begins. That may read too much, which only marks places as targets that are none.
 *
 * An indirect jump whose address is the result of an addition, in a function for which no such table was found, is not
 * resolved: hand-written code computes addresses in other ways. A jump to an address that is loaded as it is goes
 * through a pointer, and all of those are marked.
 */
#include "watchctl/patch/plan/code_map.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_regs.h"
#include "watchctl/patch/plan/code_map_impl.h"

/* Longer switches exist, in generated code; 65536 cases are more than any known. */
#define ENTRIES_MAX 65536u

/* So far back the address of an indirect jump is looked for. */
#define LOOK_BACK 24u

static int compare_references(const void *a, const void *b)
{
	const struct code_reference *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

static bool entry_at(const struct code_data *data, uint64_t table, size_t i, uint64_t *ret)
{
	size_t len = 0;
	const uint8_t *bytes = data->bytes(data->ctx, table, &len);
	int32_t distance;

	if (!bytes || len < 4 * (i + 1))
		return false;
	memcpy(&distance, bytes + 4 * i, sizeof(distance));
	*ret = table + (uint64_t)(int64_t)distance;
	return true;
}

static bool leads_to_code(const struct code_map *m, uint64_t addr)
{
	const unsigned int wanted = MARK_START | MARK_KNOWN;

	return (code_map_marks(m, addr) & wanted) == wanted;
}

/* The entries up to @limit, where something else begins. False: there are none. */
static bool read_table(struct code_map *m, const struct code_data *data, uint64_t table, uint64_t limit)
{
	uint64_t target;
	size_t i;

	for (i = 0; i < ENTRIES_MAX && table + 4 * i < limit; i++) {
		if (!entry_at(data, table, i, &target) || !leads_to_code(m, target))
			break;
		code_map_mark(m, target, MARK_TAKEN);
	}
	return i > 0;
}

/* Whether the first entry leads into the function @f that refers to the table, or with @anywhere to any code. */
static bool is_table(const struct code_map *m, const struct code_data *data, const struct code_reference *r,
		     const struct map_function *f, bool anywhere)
{
	uint64_t target;

	if (r->to & 3 || !entry_at(data, r->to, 0, &target) || !leads_to_code(m, target))
		return false;
	return anywhere || (f && target >= f->start && target < f->end);
}

static uint64_t limit_of(const struct code_map *m, size_t i)
{
	size_t next = i + 1;

	while (next < m->nreferences && m->reference[next].to == m->reference[i].to)
		next++;
	return next < m->nreferences ? m->reference[next].to : UINT64_MAX;
}

/* How the address of an indirect jump comes about. */
enum origin {
	ORIGIN_LOADED, /* it is read from memory, or is not known to be anything else */
	ORIGIN_ADDED,  /* of a distance: a table */
};

static bool insn_at(const struct code_map *m, uint64_t at, struct insn *ret)
{
	const struct code_part *p = code_map_part(m, at);

	return p && insn_decode(p->bytes + (at - p->start), p->len - (at - p->start), at, ret);
}

static bool is_arithmetic(const struct code_map *m, uint64_t at)
{
	static const char *const names[] = { "add", "sub", "lea",  "shl",    "sal", "or",
					     "xor", "and", "imul", "movsxd", NULL };
	const struct code_part *p = code_map_part(m, at);
	const char *name = p ? insn_name(p->bytes + (at - p->start), p->len - (at - p->start)) : NULL;

	for (const char *const *n = names; name && *n; n++)
		if (!strcmp(name, *n))
			return true;
	return false;
}

/* lea of a fixed place is a pointer, which is marked. */
static bool is_plain_address(const struct code_map *m, uint64_t at)
{
	struct insn_brief i;

	return code_map_insn(m, at, &i) && i.is_lea && i.has_rip;
}

static enum origin origin_of(const struct code_map *m, uint64_t jump, int reg)
{
	uint64_t at = jump;
	struct insn i;

	for (unsigned int n = 0; n < LOOK_BACK && code_map_before(m, at, &at); n++) {
		if (!insn_at(m, at, &i))
			break;
		if (!(i.writes >> reg & 1))
			continue;
		return is_arithmetic(m, at) && !is_plain_address(m, at) ? ORIGIN_ADDED : ORIGIN_LOADED;
	}
	return ORIGIN_LOADED;
}

static bool is_computed(const struct code_map *m, uint64_t jump)
{
	struct insn i;

	return insn_at(m, jump, &i) && !i.target_in_mem && i.target_reg >= 0 &&
	       origin_of(m, jump, i.target_reg) == ORIGIN_ADDED;
}

/* Tables of the function @f alone. @anywhere as is_table() has it. */
static bool read_tables_of(struct code_map *m, const struct code_data *data, const struct map_function *f,
			   bool anywhere)
{
	bool found = false;

	for (size_t i = 0; i < m->nreferences; i++) {
		const struct code_reference *r = &m->reference[i];

		if (r->from >= f->start && r->from < f->end && is_table(m, data, r, f, anywhere))
			found |= read_table(m, data, r->to, limit_of(m, i));
	}
	return found;
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The functions for which a table was found, sorted. */
struct found {
	uint64_t *v;
	size_t n;
};

static void resolve(struct code_map *m, const struct code_data *data, const struct found *found,
		    uint64_t jump)
{
	struct map_function *f = code_map_function(m, jump);

	if (!f || !is_computed(m, jump))
		return;
	if (found->n && bsearch(&f->start, found->v, found->n, sizeof(*found->v), compare_addresses))
		return;
	/* A part that was split off has its table's targets elsewhere. */
	if (read_tables_of(m, data, f, true))
		return;
	m->nunresolved++;
	f->jump = jump;
}

void code_map_read_tables(struct code_map *m, const struct code_data *data)
{
	struct found found = { calloc(m->nreferences + 1, sizeof(*found.v)), 0 };

	if (!found.v) {
		m->failed = true;
		return;
	}
	if (m->nreferences)
		qsort(m->reference, m->nreferences, sizeof(*m->reference), compare_references);
	for (size_t i = 0; i < m->nreferences; i++) {
		const struct code_reference *r = &m->reference[i];
		const struct map_function *f = code_map_function(m, r->from);

		if (!is_table(m, data, r, f, false))
			continue;
		m->ntables += read_table(m, data, r->to, limit_of(m, i));
		found.v[found.n++] = f->start;
	}
	qsort(found.v, found.n, sizeof(*found.v), compare_addresses);
	for (size_t i = 0; i < m->njumps; i++)
		resolve(m, data, &found, m->jump[i]);
	free(found.v);
}
