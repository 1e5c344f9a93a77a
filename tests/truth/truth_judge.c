/*
 * The verdict against what happened. The same hit is put to access_resolve() with all that a recording tells,
 * and again with less: it may then know less, but may not be wrong.
 */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>

#include "tests/truth/truth.h"

enum part { KIND = 1, INSN = 2 };

/* All that may stay unknown, and why. A form names its class; nothing else is let pass. */
static struct unknown_class {
	const char *name, *reason;
	unsigned int parts;
	unsigned long kinds, insns;
} classes[] = {
	{ "control transfer",
	  "ret and jumps through memory: rip tells where they went, and nothing where from; a jump's "
	  "kind only where what is watched of the pointer is rip's",
	  KIND | INSN, 0, 0 },
	{ "far transfer", "the same, and what else they read or push around rip is not looked for",
	  KIND | INSN, 0, 0 },
	{ "load of ss", "the processor holds its trap back until the next instruction has run", KIND | INSN,
	  0, 0 },
	{ "beside a rep",
	  "rip is at a rep that may or may not have begun: the store before it and the rep both fit",
	  KIND | INSN, 0, 0 },
	{ "at a gather",
	  "rip is at a gather or scatter, which traps there if a page fault interrupts it: the instruction "
	  "before "
	  "it, and it, both fit",
	  KIND | INSN, 0, 0 },
	{ "block of a rep",
	  "source and destination pass the watch within one block, and the processor may report late", KIND,
	  0, 0 },
	{ "gs base", "it is not recorded, so what lies behind it cannot be computed", KIND | INSN, 0, 0 },
	{ "bytes of rip",
	  "what is watched are bytes that rip, or the return address, has too: a jump or call fits as well",
	  KIND | INSN, 0, 0 },
};

#define CLASSES (sizeof(classes) / sizeof(*classes))

static const struct knowledge {
	const char *name;
	bool armed, values, caller, steps;
} knowledge[] = {
	{ "all that a recording tells", true, true, true, true },
	{ "not what it was armed for", false, true, true, true },
	{ "not whether steps of a rep trap one by one", true, true, true, false },
	{ "no values", true, false, true, true },
	{ "no caller", true, true, false, true },
	{ "none of these", false, false, false, false },
};

#define KNOWLEDGE (sizeof(knowledge) / sizeof(*knowledge))

static struct tally {
	unsigned long right, unknown, wrong;
} tally[KNOWLEDGE];

struct group {
	const char *name;
	unsigned long forms, right, unknown, wrong;
	const struct truth_form *last;
};

static struct group groups[64];
static unsigned long ranges, bad_ranges, not_blamed;

static struct group *group_of(const struct truth_form *f)
{
	struct group *g = groups;

	while (g->name && strcmp(g->name, f->group) != 0)
		g++;
	g->name = f->group;
	if (g->last != f)
		g->forms++;
	g->last = f;
	return g;
}

/* AMD's processors report each step of a repeated string instruction by itself. */
static bool steps_trap(void)
{
	static int known = -1;
	unsigned int a, b = 0, c = 0, d = 0;

	if (known < 0)
		known = __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx &&
			d == signature_AMD_edx;
	return known;
}

/* Whether what is watched of the 8 bytes at @at is what @pointer has there, and not only zeros. */
static bool is_part_of(const struct truth_watch *w, const struct truth_hit *h, uint64_t at, uint64_t pointer)
{
	uint8_t value[8], wanted[8];
	bool any = false;

	memcpy(value, &h->value, 8);
	memcpy(wanted, &pointer, 8);
	for (unsigned int i = 0; i < w->size; i++) {
		uint64_t k = w->addr + i - at;

		if (k >= 8)
			continue;
		if (value[i] != wanted[k])
			return false;
		any |= value[i];
	}
	return any;
}

/* Where a jump's pointer, a ret's slot, or a call's return address would have them. */
static bool are_bytes_of_rip(const struct truth_watch *w, const struct truth_hit *h)
{
	uint64_t rip = h->regs.r[WREG_RIP], rsp = h->regs.r[WREG_RSP];

	return (w->type != ACCESS_WRITE &&
		(is_part_of(w, h, w->addr & ~7ull, rip) || is_part_of(w, h, rsp - 8, rip))) ||
	       is_part_of(w, h, rsp, (uintptr_t)truth_back);
}

static struct unknown_class *class_named(const char *name)
{
	for (size_t i = 0; i < CLASSES; i++)
		if (!strcmp(classes[i].name, name))
			return &classes[i];
	return NULL;
}

/* Notes what is unknown in its class. False: there is none for it. */
static bool accept(const struct truth_case *c, const struct truth_watch *w, const struct truth_hit *h,
		   unsigned int parts)
{
	struct unknown_class *k = class_named(c->form->accept);

	if ((!k || parts & ~k->parts) && are_bytes_of_rip(w, h))
		k = class_named("bytes of rip");
	if (!k || parts & ~k->parts)
		return false;
	k->kinds += !!(parts & KIND);
	k->insns += !!(parts & INSN);
	return true;
}

static bool is_in_callee(const struct truth_case *c, const struct truth_hit *h)
{
	const uint8_t *rip = (const uint8_t *)(uintptr_t)h->regs.r[WREG_RIP];

	return c->form->flags & FORM_CALL && rip != c->form->end && rip >= truth_forms_begin &&
	       rip < truth_forms[0].fn;
}

static bool insn_is_wrong(const struct truth_case *c, const struct truth_hit *h,
			  const struct access_verdict *v)
{
	const struct truth_form *f = c->form;

	return v->insn && (v->insn != (uintptr_t)f->insn || v->len != f->end - f->insn ||
			   memcmp(v->bytes, f->insn, v->len) != 0 || v->in_caller != is_in_callee(c, h));
}

/* What access.h calls written, whatever else: not wrong of an instruction that does both, and not all. */
static bool is_least(const struct truth_watch *w, const struct access_verdict *v)
{
	return w->type == ACCESS_WRITE && v->kind == ACCESS_WRITE && !v->confirmed;
}

static bool kind_is_wrong(const struct truth_case *c, const struct truth_watch *w,
			  const struct access_verdict *v)
{
	/* A step of it may do less than the whole. */
	if (c->form->flags & FORM_REPEATED)
		return v->kind & ~c->kind;
	if (is_least(w, v) && c->kind & ACCESS_WRITE)
		return false;
	return v->kind && v->kind != c->kind;
}

/* It is one of the accesses that the manual names, or the part of one that a step of a rep makes. */
static bool range_is_wrong(const struct truth_case *c, const struct access_verdict *v)
{
	const struct truth_form *f = c->form;

	if (!truth_overlap(v->range_addr, v->range_len, c->watch.addr, c->watch.size))
		return true;
	for (unsigned int i = 0; i < f->naccess; i++) {
		uint64_t start = truth_at(c->a, f->access[i].off), len = f->access[i].len;

		if (f->access[i].maybe)
			continue;
		if (v->range_addr == start && v->range_len == len)
			return false;
		if (f->flags & FORM_REPEATED && v->range_addr >= start &&
		    v->range_addr + v->range_len <= start + len)
			return false;
	}
	return true;
}

static void ask(const struct truth_case *c, const struct truth_watch *w, const struct truth_run *r,
		unsigned int hit, const struct knowledge *k, struct access_verdict *ret)
{
	const struct truth_hit *h = &r->hit[hit];
	struct code_fact pc, caller;
	struct access_query q = {
		.regs = &h->regs,
		.addr = w->addr,
		.size = w->size,
		.armed = k->armed ? w->type : 0,
		.steps_trap = k->steps && steps_trap(),
		.has_old = k->values,
		.has_new = k->values,
		.old_value = hit ? r->hit[hit - 1].value : r->before,
		.new_value = h->value,
		.pc = &pc,
		.caller = k->caller ? &caller : NULL,
	};

	truth_facts(h, &pc, &caller);
	access_resolve(&q, ret);
}

static void show(const struct truth_case *c, const struct truth_watch *w, const struct truth_run *r,
		 unsigned int hit, const struct knowledge *k, const struct access_verdict *v,
		 const char *what)
{
	const struct truth_hit *h = &r->hit[hit];

	complain(c->form,
		 "%s, knowing %s: kind %d, is %d; insn %#lx, is %#lx; rip end%+ld; in caller %d; confirmed "
		 "%d; range "
		 "A%+ld %u; hit %u of %u, watched %u bytes at A%+ld for %s",
		 what, k->name, v->kind, c->kind, (unsigned long)v->insn,
		 (unsigned long)(uintptr_t)c->form->insn,
		 (long)(h->regs.r[WREG_RIP] - (uintptr_t)c->form->end), v->in_caller, v->confirmed,
		 v->has_range ? (long)(v->range_addr - c->a) : 0L, v->has_range ? v->range_len : 0, hit + 1,
		 r->nhits, w->size, (long)(w->addr - c->a), w->type == ACCESS_WRITE ? "writes" : "all");
}

static void judge_hit(const struct truth_case *c, const struct truth_watch *w, const struct truth_run *r,
		      unsigned int hit, size_t known)
{
	const struct knowledge *k = &knowledge[known];
	struct group *g = group_of(c->form);
	struct access_verdict v;
	unsigned int parts;
	bool wrong;

	ask(c, w, r, hit, k, &v);
	wrong = insn_is_wrong(c, &r->hit[hit], &v) || kind_is_wrong(c, w, &v);
	parts = (v.insn ? 0 : INSN) |
		(v.kind && (v.kind == c->kind || c->form->flags & FORM_REPEATED) ? 0 : KIND);
	tally[known].wrong += wrong;
	tally[known].unknown += !wrong && parts;
	tally[known].right += !wrong && !parts;
	if (wrong)
		show(c, w, r, hit, k, &v, "WRONG");
	if (v.has_range) {
		ranges++;
		if (range_is_wrong(c, &v)) {
			bad_ranges++;
			show(c, w, r, hit, k, &v, "WRONG RANGE");
		}
	}
	if (known)
		return;
	g->wrong += wrong;
	g->unknown += !wrong && parts;
	g->right += !wrong && !parts;
	if (!wrong && parts && !accept(c, w, &r->hit[hit], parts))
		show(c, w, r, hit, k, &v, "UNKNOWN without a class");
}

/*
 * Nothing accessed the place, so nobody asks; if somebody else had, from elsewhere, and had come to lie
 * behind this instruction, would it be blamed? Only where it names the bytes.
 */
static void judge_idle(const struct truth_case *c)
{
	struct truth_hit h = { .addr = c->watch.addr };
	struct access_query q = { .regs = &h.regs, .addr = c->watch.addr, .size = c->watch.size };
	static const int order[15] = { WREG_RAX, WREG_RCX, WREG_RDX, WREG_RBX, WREG_RBP,
				       WREG_RSI, WREG_RDI, WREG_R8,  WREG_R9,  WREG_R10,
				       WREG_R11, WREG_R12, WREG_R13, WREG_R14, WREG_R15 };
	struct code_fact pc, caller;
	struct access_verdict v;

	/* The registers are those at the form's end: those of an instruction in the middle are not known. */
	if (c->sure || c->maybe || c->form->end[0] != 0xc3)
		return;
	for (unsigned int i = 0; i < 15; i++)
		h.regs.r[order[i]] = truth_out[i];
	h.regs.r[WREG_RSP] = truth_out[15] - 8;
	h.regs.r[WREG_RIP] = (uintptr_t)c->form->end;
	q.pc = &pc;
	truth_facts(&h, &pc, &caller);
	access_resolve(&q, &v);
	if (v.confirmed)
		complain(c->form, "blamed for what it did not touch: %u bytes at A%+ld", c->watch.size,
			 (long)(c->watch.addr - c->a));
	else
		not_blamed++;
}

void judge_case(const struct truth_case *c)
{
	struct truth_watch w = c->watch;

	if (!c->rw.nhits)
		judge_idle(c);
	for (size_t known = 0; known < KNOWLEDGE; known++) {
		const struct knowledge *k = &knowledge[known];

		/* Decoys: an instruction that explains all is contradicted by nothing else than these. */
		if (c->form->flags & FORM_DECOY && !(k->values && k->caller))
			continue;
		w.type = ACCESS_READWRITE;
		for (unsigned int i = 0; i < c->rw.nhits && i < HITS_MAX; i++)
			judge_hit(c, &w, &c->rw, i, known);
		w.type = ACCESS_WRITE;
		for (unsigned int i = 0; i < c->w.nhits && i < HITS_MAX; i++)
			judge_hit(c, &w, &c->w, i, known);
	}
}

bool judge_report(void)
{
	unsigned long wrong = 0;

	printf("\n%-32s %6s %8s %8s %8s\n", "verdicts, by instructions", "forms", "right", "unknown",
	       "wrong");
	for (const struct group *g = groups; g->name; g++)
		printf("%-32s %6lu %8lu %8lu %8lu\n", g->name, g->forms, g->right, g->unknown, g->wrong);
	printf("\n%-45s %8s %8s %8s\n", "verdicts, by what is known", "right", "unknown", "wrong");
	for (size_t i = 0; i < KNOWLEDGE; i++) {
		printf("%-45s %8lu %8lu %8lu\n", knowledge[i].name, tally[i].right, tally[i].unknown,
		       tally[i].wrong);
		wrong += tally[i].wrong;
	}
	printf("accessed bytes told: %lu times, %lu wrong; not blamed for what they did not touch: %lu\n",
	       ranges, bad_ranges, not_blamed);
	printf("\n%-18s %6s %6s  of all that a recording tells: unknown, and why\n", "class", "kind", "insn");
	for (size_t i = 0; i < CLASSES; i++)
		printf("%-18s %6lu %6lu  %s\n", classes[i].name, classes[i].kinds, classes[i].insns,
		       classes[i].reason);
	return !wrong && !bad_ranges;
}
