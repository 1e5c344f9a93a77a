/*
 * A rule costs up to some microseconds to work out, and 1 to 5 ns to look up. Two tables remember: the words,
 * for walks that follow three registers, and whole rules for those that need them all (they are rare: the
 * first frames below a signal handler, hand-written assembly).
 *
 * Whole rules are larger than what can be written in one piece. Each entry has a sequence number, odd while
 * it is being written. A reader that finds it odd or changed makes the rule anew; so does a signal handler
 * that has interrupted the writer, which would wait in vain. A thread that dies in between leaves an entry
 * that is not used again.
 */
#include "stackwalk/self_rules.h"

#define RULES 1024u

uint64_t self_words[2][SELF_WORDS];

struct kept_rule {
	uint32_t seq;
	uint32_t id;
	uint64_t key;
	uint64_t word[3];
	uint64_t pad[3];
};

_Static_assert(sizeof(struct kept_rule) == 64, "one cache line");

static struct kept_rule kept[RULES] __attribute__((aligned(64)));

bool self_seen(struct self_seen *seen, uint32_t id)
{
	const uint32_t most = sizeof(seen->id) / sizeof(seen->id[0]);
	uint32_t i;

	for (i = 0; i < seen->n && i < most; i++)
		if (seen->id[i] == id)
			return true;
	if (!self_module_is_there(id))
		return false;
	seen->id[seen->n++ % most] = id;
	return true;
}

/*
 * The code that a signal handler returns to: mov rax, 15 (rt_sigreturn); syscall. glibc has CFI for it, musl
 * does not. Its address is where the handler returns to, before which nothing belongs to it.
 */
static bool is_sigreturn(const struct self_module *m, uint64_t pc)
{
	static const uint8_t code[2][9] = { { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 },
					    { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 } };
	static const uint8_t length[2] = { 9, 7 };
	unsigned int i, k;

	for (i = 0; i < 2; i++) {
		const uint8_t *p = (const uint8_t *)(uintptr_t)pc;

		if (pc < m->code || pc >= m->code_end || m->code_end - pc < length[i])
			continue;
		for (k = 0; k < length[i] && p[k] == code[i][k]; k++)
			;
		if (k == length[i])
			return true;
	}
	return false;
}

/* *@id: of the module that it came from; SELF_MODULE_PASSING: must not be kept. */
static void make_rule(uint64_t pc, bool exact, struct unwind_rule *ret, uint32_t *id)
{
	struct self_module m;

	*ret = (struct unwind_rule){ .kind = UNWIND_NO_RULE };
	*id = SELF_MODULE_PASSING;
	switch (self_module_find(pc - !exact, &m)) {
	case SELF_NO_MODULE:
		*ret = (struct unwind_rule){ .kind = UNWIND_FP,
					     .save = { UNWIND_SAME, -2, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME,
						       UNWIND_SAME, -1 } };
		return;
	case SELF_UNKNOWN:
		return;
	case SELF_MODULE:
		break;
	}
	*id = m.id;
	if (is_sigreturn(&m, pc))
		ret->kind = UNWIND_SIGFRAME;
	else if (m.image.frames.bytes)
		eh_frame_rule(&m.image, pc - !exact, ret);
}

static uint32_t rbp_slot(const struct unwind_rule *r)
{
	int16_t save = r->save[UNWIND_SAVE_RBP];

	if (save == UNWIND_SAME)
		return 0;
	return save < 0 && save >= -(int)FORM_SLOT_MAX ? (uint32_t)-save : FORM_SLOT_MAX + 1;
}

static uint32_t form_of(const struct unwind_rule *r)
{
	const uint32_t rbp_bit = 1u << UNWIND_SAVE_RBP, ra_bit = 1u << UNWIND_SAVE_RA;
	uint32_t words = (uint32_t)r->cfa_off / 8, slot = rbp_slot(r);

	switch (r->kind) {
	case UNWIND_FP:
		return FORM_JIT;
	case UNWIND_OUTERMOST:
		return FORM_END;
	case UNWIND_SIGFRAME:
		return FORM_SIGNAL;
	case UNWIND_NO_RULE:
		return FORM_NO_RULE;
	case UNWIND_CFA_REG:
		if (r->cfa_off <= 0 || r->cfa_off % 8 || words > FORM_WORDS_MAX || slot > FORM_SLOT_MAX ||
		    r->save[UNWIND_SAVE_RA] != -1 || r->from_rbp & (rbp_bit | ra_bit))
			return FORM_FULL;
		/* What is read must not lie below the register that it is counted from. */
		if (slot > words)
			return FORM_FULL;
		if (r->cfa_reg == WREG_RSP)
			return FORM(FORM_RSP, slot, words, 0);
		return r->cfa_reg == WREG_RBP ? FORM(FORM_RBP, slot, words, 0) : FORM_FULL;
	case UNWIND_CFA_DEREF:
		words = 0 - (uint32_t)(r->cfa_off / 8);
		if (r->cfa_reg != WREG_RBP || r->cfa_off >= 0 || r->cfa_off % 8 || words > FORM_WORDS_MAX ||
		    r->cfa_off2 || r->cfa_index || r->save[UNWIND_SAVE_RBP] != 0 ||
		    !(r->from_rbp & rbp_bit) || r->save[UNWIND_SAVE_RA] != -1 || r->from_rbp & ra_bit)
			return FORM_FULL;
		return FORM(FORM_DEREF, 0, words, 0);
	default:
		return FORM_FULL;
	}
}

/* The word at the @way'th place of @pc, if it is for it, as a form; else FORM_NONE. */
static uint32_t form_at(uint64_t pc, bool exact, uint32_t way)
{
	uint64_t word = __atomic_load_n(&self_words[exact][self_word_place(pc) ^ way], __ATOMIC_RELAXED);
	uint32_t form = (uint32_t)word ^ (way ? FORM_BESIDE : 0);

	return word >> 32 == pc >> 16 && !(form & FORM_BESIDE) ? form : FORM_NONE;
}

/* In its place, or beside it when that is free, or has an older word of its own; else one of the two. */
static void keep_form(uint64_t pc, bool exact, uint32_t form)
{
	uint64_t *words = self_words[exact], place = self_word_place(pc);
	uint64_t first = __atomic_load_n(&words[place], __ATOMIC_RELAXED);
	uint64_t second = __atomic_load_n(&words[place ^ 1], __ATOMIC_RELAXED);
	bool beside = first && form_at(pc, exact, 0) == FORM_NONE &&
		      (!second || form_at(pc, exact, 1) != FORM_NONE || pc & 2);

	if (beside)
		form |= FORM_BESIDE;
	__atomic_store_n(&words[place ^ beside], pc >> 16 << 32 | form, __ATOMIC_RELAXED);
}

uint32_t self_form(uint64_t pc, bool exact, struct self_seen *seen)
{
	bool keepable = pc < SELF_PC_LIMIT && pc >> 16;
	struct unwind_rule rule;
	uint32_t form, id, way;

	for (way = 0; keepable && way < 2; way++) {
		form = form_at(pc, exact, way);
		if (form != FORM_NONE && (!FORM_ID(form) || self_seen(seen, FORM_ID(form))))
			return form;
	}
	make_rule(pc, exact, &rule, &id);
	form = form_of(&rule);
	if (id != SELF_MODULE_PASSING && keepable) {
		form |= FORM(0, 0, 0, id);
		keep_form(pc, exact, form);
	}
	return form;
}

static struct kept_rule *rule_place(uint64_t key)
{
	return &kept[(key ^ key >> 10 ^ key >> 37) % RULES];
}

static bool find_kept(uint64_t key, struct self_seen *seen, struct unwind_rule *ret)
{
	struct kept_rule *k = rule_place(key);
	uint32_t seq = __atomic_load_n(&k->seq, __ATOMIC_ACQUIRE), id;
	uint64_t word[3], found;
	unsigned int i;

	found = __atomic_load_n(&k->key, __ATOMIC_RELAXED);
	id = __atomic_load_n(&k->id, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++)
		word[i] = __atomic_load_n(&k->word[i], __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!seq || seq & 1 || __atomic_load_n(&k->seq, __ATOMIC_RELAXED) != seq || found != key)
		return false;
	if (id && !self_seen(seen, id))
		return false;
	__builtin_memcpy(ret, word, sizeof(word));
	return true;
}

static void keep_rule(uint64_t key, uint32_t id, const struct unwind_rule *rule)
{
	struct kept_rule *k = rule_place(key);
	uint32_t seq = __atomic_load_n(&k->seq, __ATOMIC_RELAXED);
	uint64_t word[3];
	unsigned int i;

	if (seq & 1 ||
	    !__atomic_compare_exchange_n(&k->seq, &seq, seq + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__builtin_memcpy(word, rule, sizeof(word));
	__atomic_store_n(&k->key, key, __ATOMIC_RELAXED);
	__atomic_store_n(&k->id, id, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++)
		__atomic_store_n(&k->word[i], word[i], __ATOMIC_RELAXED);
	__atomic_store_n(&k->seq, seq + 2, __ATOMIC_RELEASE);
}

void self_rule(uint64_t pc, bool exact, struct self_seen *seen, struct unwind_rule *ret)
{
	uint64_t key = exact ? pc | SELF_PC_LIMIT : pc; /* a bit that no address has */
	uint32_t id;

	if (pc < SELF_PC_LIMIT && find_kept(key, seen, ret))
		return;
	make_rule(pc, exact, ret, &id);
	if (id != SELF_MODULE_PASSING && pc < SELF_PC_LIMIT)
		keep_rule(key, id, ret);
}
