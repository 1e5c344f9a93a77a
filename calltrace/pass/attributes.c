#include "calltrace/pass/attributes.h"

#include <stddef.h>
#include <string.h>

static const char *const untrue[] = { "memory",
				      "readnone",
				      "readonly",
				      "writeonly",
				      "argmemonly",
				      "inaccessiblememonly",
				      "inaccessiblemem_or_argmemonly",
				      "speculatable",
				      "nosync" };

bool attributes_have(LLVMValueRef f, const char *name)
{
	const unsigned int kind = LLVMGetEnumAttributeKindForName(name, strlen(name));

	return kind && LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, kind);
}

bool attributes_have_text(LLVMValueRef f, const char *name)
{
	return LLVMGetStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, name, (unsigned int)strlen(name));
}

static void correct(LLVMValueRef v, bool is_call)
{
	unsigned int kind;
	size_t i;

	for (i = 0; i < sizeof(untrue) / sizeof(*untrue); i++) {
		kind = LLVMGetEnumAttributeKindForName(untrue[i], strlen(untrue[i]));
		if (kind && is_call)
			LLVMRemoveCallSiteEnumAttribute(v, LLVMAttributeFunctionIndex, kind);
		else if (kind)
			LLVMRemoveEnumAttributeAtIndex(v, LLVMAttributeFunctionIndex, kind);
	}
}

/* @f: a function, or a cast of it to a pointer of another type, as LLVM 14 has them. */
static void correct_calls(LLVMValueRef f)
{
	LLVMUseRef use;
	LLVMValueRef user;

	for (use = LLVMGetFirstUse(f); use; use = LLVMGetNextUse(use)) {
		user = LLVMGetUser(use);
		if ((LLVMIsACallInst(user) || LLVMIsAInvokeInst(user)) && LLVMGetCalledValue(user) == f)
			correct(user, true);
		else if (LLVMIsAConstantExpr(user) && LLVMGetConstOpcode(user) == LLVMBitCast)
			correct_calls(user);
	}
}

void attributes_correct(LLVMValueRef f)
{
	correct(f, false);
	correct_calls(f);
}

static const char *const unread[] = { "readnone", "writeonly", "initializes" };

static void correct_parameter(LLVMValueRef f, LLVMValueRef of, LLVMAttributeIndex index)
{
	LLVMUseRef use;
	size_t i;

	for (i = 0; i < sizeof(unread) / sizeof(*unread); i++) {
		const unsigned int kind = LLVMGetEnumAttributeKindForName(unread[i], strlen(unread[i]));

		if (!kind)
			continue;
		if (of == f)
			LLVMRemoveEnumAttributeAtIndex(f, index, kind);
		for (use = LLVMGetFirstUse(of); use; use = LLVMGetNextUse(use)) {
			LLVMValueRef user = LLVMGetUser(use);

			if ((LLVMIsACallInst(user) || LLVMIsAInvokeInst(user)) &&
			    LLVMGetCalledValue(user) == of)
				LLVMRemoveCallSiteEnumAttribute(user, index, kind);
		}
	}
	for (use = LLVMGetFirstUse(of); use; use = LLVMGetNextUse(use)) {
		LLVMValueRef user = LLVMGetUser(use);

		if (LLVMIsAConstantExpr(user) && LLVMGetConstOpcode(user) == LLVMBitCast)
			correct_parameter(f, user, index);
	}
}

void attributes_read_through(LLVMValueRef f, LLVMValueRef argument)
{
	unsigned int i;

	for (i = 0; i < LLVMCountParams(f); i++)
		if (LLVMGetParam(f, i) == argument)
			correct_parameter(f, f, i + 1);
}

static void add(LLVMValueRef f, const char *name)
{
	const unsigned int kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
	LLVMContextRef c = LLVMGetModuleContext(LLVMGetGlobalParent(f));

	LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(c, kind, 0));
}

void attributes_keep_apart(LLVMValueRef f)
{
	if (!attributes_have(f, "alwaysinline"))
		add(f, "noinline");
}

void attributes_keep_called(LLVMValueRef f)
{
	attributes_keep_apart(f);
	add(f, "noduplicate");
}
