#include "calltrace/pass/marks.h"

#include <stdlib.h>
#include <string.h>

#include "calltrace/abi.h"
#include "calltrace/pass/attributes.h"
#include "calltrace/pass/inject.h"

#define MARK "__calltrace_mark"
#define CHOICES "calltrace.choices"

enum { OF_NAME, OF_FILE, OF_LINE, OF_INSNS, OF_TRACED, OF_WHY, OF_COUNT };

/* Placing */

struct placing {
	LLVMValueRef mark;
	LLVMTypeRef type, i32;
	const struct choices *choices;
	uint32_t index; /* of the function at hand */
};

/* Each of the calls in @f, of any kind. */
static void each_call(LLVMValueRef f, void (*fn)(void *ctx, LLVMValueRef call), void *ctx)
{
	LLVMBasicBlockRef b;
	LLVMValueRef i;

	for (b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
		for (i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
			if (LLVMIsACallInst(i) || LLVMIsAInvokeInst(i))
				fn(ctx, i);
}

struct search {
	LLVMValueRef self;
	bool is_recursive, returns_twice;
};

static void look_at_call(void *ctx, LLVMValueRef call)
{
	struct search *s = ctx;
	LLVMValueRef callee = calltrace_shim_function(LLVMGetCalledValue(call));
	const unsigned int twice = LLVMGetEnumAttributeKindForName("returns_twice", 13);

	s->is_recursive |= callee == s->self;
	s->returns_twice |= LLVMGetCallSiteEnumAttribute(call, LLVMAttributeFunctionIndex, twice) ||
			    (callee && attributes_have(callee, "returns_twice"));
}

static void keep_call(void *ctx, LLVMValueRef call)
{
	LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, ctx);
}

/* One that calls itself is left to become a loop; one in which a longjmp() may end keeps its calls, as the stack tells
 * which of them are over. */
static bool may_be_inlined(LLVMContextRef c, LLVMValueRef f)
{
	struct search s = { .self = f };

	each_call(f, look_at_call, &s);
	if (s.returns_twice)
		each_call(f, keep_call,
			  LLVMCreateEnumAttribute(c, LLVMGetEnumAttributeKindForName("noinline", 8), 0));
	return !s.is_recursive && !s.returns_twice && !attributes_have(f, "noinline") &&
	       !attributes_have(f, "optnone") && !attributes_have(f, "presplitcoroutine") &&
	       !attributes_have_text(f, "coroutine.presplit");
}

static void place(struct placing *p, LLVMBuilderRef b, enum calltrace_kind kind)
{
	LLVMValueRef value[2] = { LLVMConstInt(p->i32, p->index, 0), LLVMConstInt(p->i32, kind, 0) };

	LLVMBuildCall2(b, p->type, p->mark, value, 2, "");
}

static void place_exit(void *ctx, LLVMBuilderRef b, LLVMValueRef before)
{
	struct placing *p = ctx;
	LLVMValueRef callee =
		LLVMIsACallInst(before) ? calltrace_shim_function(LLVMGetCalledValue(before)) : NULL;

	if (LLVMGetInstructionOpcode(before) == LLVMResume)
		place(p, b, CALLTRACE_UNWIND);
	else if (callee && choices_has(p->choices, callee) && calltrace_shim_is_exact(callee))
		place(p, b, CALLTRACE_TAIL);
	else
		place(p, b, CALLTRACE_EXIT);
}

static void place_entry(struct placing *p, LLVMBuilderRef b, LLVMValueRef f)
{
	LLVMValueRef i = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(f));

	while (LLVMIsAAllocaInst(i))
		i = LLVMGetNextInstruction(i);
	LLVMPositionBuilderBefore(b, i);
	place(p, b, CALLTRACE_ENTRY);
}

/* The list */

static LLVMMetadataRef text(LLVMContextRef c, const char *s)
{
	return LLVMMDStringInContext2(c, s, strlen(s));
}

static LLVMMetadataRef number(struct placing *p, uint32_t n)
{
	return LLVMValueAsMetadata(LLVMConstInt(p->i32, n, 0));
}

static void list(struct placing *p, LLVMModuleRef m, LLVMContextRef c, const struct choice *each)
{
	LLVMMetadataRef member[OF_COUNT] = {
		[OF_NAME] = text(c, each->linkage_name),  [OF_FILE] = text(c, each->file ? each->file : ""),
		[OF_LINE] = number(p, each->line),	  [OF_INSNS] = number(p, each->insns),
		[OF_TRACED] = number(p, each->is_traced), [OF_WHY] = text(c, each->why),
	};

	LLVMAddNamedMetadataOperand(m, CHOICES,
				    LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, member, OF_COUNT)));
}

bool marks_place(LLVMModuleRef m, const struct settings *s)
{
	LLVMContextRef c = LLVMGetModuleContext(m);
	LLVMTypeRef i32 = LLVMInt32TypeInContext(c), params[2] = { i32, i32 };
	struct placing p = { .i32 = i32 };
	struct choices all = { 0 };
	LLVMValueRef personality;
	LLVMBuilderRef b;

	if (LLVMGetNamedFunction(m, MARK) || !choices_make(&all, m, s) || !all.can_trace) {
		choices_deinit(&all);
		return false;
	}
	b = LLVMCreateBuilderInContext(c);
	p.choices = &all;
	p.type = LLVMFunctionType(LLVMVoidTypeInContext(c), params, 2, 0);
	p.mark = LLVMAddFunction(m, MARK, p.type);
	calltrace_shim_is_mark(p.mark);
	personality = calltrace_shim_personality(m);
	for (; p.index < all.n; p.index++) {
		const struct choice *each = &all.choice[p.index];

		list(&p, m, c, each);
		if (each->is_traced && each->capture)
			attributes_keep_called(each->function);
		if (!each->is_traced || each->capture || !may_be_inlined(c, each->function))
			continue;
		calltrace_shim_each_exit(each->function, personality, place_exit, &p);
		place_entry(&p, b, each->function);
		attributes_correct(each->function);
	}
	LLVMDisposeBuilder(b);
	choices_deinit(&all);
	return true;
}

/* Reading */

static char *take_text(LLVMValueRef v)
{
	unsigned int len;
	const char *s = LLVMGetMDString(v, &len);

	return strndup(s, len);
}

static uint32_t take_number(LLVMValueRef v)
{
	return (uint32_t)LLVMConstIntGetZExtValue(v);
}

bool marks_read(LLVMModuleRef m, struct marked **ret, size_t *n)
{
	const unsigned int count = LLVMGetNamedMetadataNumOperands(m, CHOICES);
	LLVMValueRef *node = calloc(count + 1, sizeof(*node)), member[OF_COUNT];
	struct marked *marked = calloc(count + 1, sizeof(*marked));
	unsigned int i;
	bool is_whole = node && marked;

	if (is_whole)
		LLVMGetNamedMetadataOperands(m, CHOICES, node);
	for (i = 0; i < count && is_whole; i++) {
		LLVMGetMDNodeOperands(node[i], member);
		marked[i] = (struct marked){ .linkage_name = take_text(member[OF_NAME]),
					     .file = take_text(member[OF_FILE]),
					     .line = take_number(member[OF_LINE]),
					     .insns = take_number(member[OF_INSNS]),
					     .is_traced = take_number(member[OF_TRACED]),
					     .why = take_text(member[OF_WHY]) };
		is_whole = marked[i].linkage_name && marked[i].file && marked[i].why;
	}
	free(node);
	*ret = marked;
	*n = marked ? count : 0;
	return is_whole;
}

void marks_free(struct marked *marked, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		free(marked[i].linkage_name);
		free(marked[i].file);
		free(marked[i].why);
	}
	free(marked);
}

bool mark_is(LLVMValueRef i, uint32_t *index, uint32_t *kind)
{
	LLVMValueRef callee = LLVMIsACallInst(i) ? calltrace_shim_function(LLVMGetCalledValue(i)) : NULL;
	size_t len;

	if (!callee || strcmp(LLVMGetValueName2(callee, &len), MARK) != 0)
		return false;
	*index = *kind = UINT32_MAX;
	if (!LLVMIsAConstantInt(LLVMGetOperand(i, 0)) || !LLVMIsAConstantInt(LLVMGetOperand(i, 1)))
		return true;
	*index = take_number(LLVMGetOperand(i, 0));
	*kind = take_number(LLVMGetOperand(i, 1));
	return true;
}

void marks_forget(LLVMModuleRef m)
{
	LLVMValueRef mark = LLVMGetNamedFunction(m, MARK);

	if (mark)
		LLVMDeleteFunction(mark);
	calltrace_shim_forget_metadata(m, CHOICES);
}
