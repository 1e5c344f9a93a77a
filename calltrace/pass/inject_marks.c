#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calltrace/pass/inject_impl.h"
#include "calltrace/pass/marks.h"

/* The marks of a function, in the order of its blocks. */
struct found {
	LLVMValueRef *mark;
	size_t n, cap;
};

static bool find_marks(LLVMValueRef f, struct found *ret)
{
	uint32_t index, kind;
	LLVMBasicBlockRef b;
	LLVMValueRef i;

	ret->n = 0;
	for (b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
		for (i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
			if (!mark_is(i, &index, &kind))
				continue;
			if (ret->n == ret->cap) {
				const size_t cap = ret->cap ? 2 * ret->cap : 64;
				LLVMValueRef *more = reallocarray(ret->mark, cap, sizeof(*more));

				if (!more)
					return false;
				ret->mark = more;
				ret->cap = cap;
			}
			ret->mark[ret->n++] = i;
		}
	}
	return true;
}

/* @name is that of the function with the mark, or of a copy that the optimizer has made of it: "work.specialized.1". */
static bool is_its_own(const char *name, const char *marked)
{
	const size_t len = strlen(marked);

	return !strncmp(name, marked, len) && (!name[len] || name[len] == '.');
}

/* The first mark is the entry of the function itself: what was inlined comes behind it. */
static bool begins_with_its_own(const struct choices *c, const struct choice *f, const struct found *found)
{
	uint32_t index, kind;

	return found->n && LLVMGetInstructionParent(found->mark[0]) == LLVMGetEntryBasicBlock(f->function) &&
	       mark_is(found->mark[0], &index, &kind) && kind == CALLTRACE_ENTRY && index < c->nmarked &&
	       is_its_own(f->linkage_name, c->marked[index].linkage_name);
}

/*
 * A function has one record for its own code, which goes with that where the linker leaves it out, and another one for
 * where it is inlined.
 */
static LLVMValueRef record_of(struct inject *in, struct marked *m, bool is_own)
{
	struct choice inlined = *m->choice;
	LLVMValueRef *record = is_own ? &m->own_record : &m->inlined_record;

	inlined.function = NULL;
	if (!*record)
		*record = inject_record(in, is_own ? m->choice : &inlined, &(struct captured){ 0 });
	return *record;
}

/* Makes an event of @mark in @f. False: it cannot be told what it is, and it is gone. */
static bool expand(struct inject *in, struct choices *c, const struct choice *f, LLVMValueRef mark,
		   bool is_entry)
{
	LLVMBasicBlockRef from = LLVMGetInstructionParent(mark), rest;
	uint32_t index = 0, kind = 0;
	struct marked *m;

	if (!mark_is(mark, &index, &kind) || index >= c->nmarked) {
		LLVMInstructionEraseFromParent(mark);
		return false;
	}
	m = &c->marked[index];
	if (kind == CALLTRACE_ENTRY && !is_entry)
		kind |= CALLTRACE_INLINED;
	rest = calltrace_shim_split(mark);
	LLVMInstructionEraseFromParent(mark);
	inject_event(in, from, rest, record_of(in, m, f->has_marks && m->choice == f), kind);
	return true;
}

bool inject_marks(struct inject *in, struct choices *c)
{
	struct found found = { 0 };
	bool is_whole = true;
	size_t i, k, lost = 0;

	for (i = 0; i < c->n && is_whole; i++) {
		struct choice *f = &c->choice[i];

		if (!f->function)
			continue;
		is_whole = find_marks(f->function, &found);
		f->has_marks = is_whole && begins_with_its_own(c, f, &found);
		for (k = 0; k < found.n; k++)
			lost += !expand(in, c, f, found.mark[k], !k && f->has_marks);
	}
	free(found.mark);
	if (is_whole)
		marks_forget(in->module);
	if (lost)
		fprintf(stderr,
			"calltrace: %zu entries and exits of inlined functions are not traced: the optimizer "
			"has merged them. --calltrace-before-inlining=false leaves out none that is called\n",
			lost);
	return is_whole;
}
