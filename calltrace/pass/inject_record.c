#include <stddef.h>
#include <string.h>

#include <llvm-c/Comdat.h>

#include "calltrace/pass/inject_impl.h"
#include "calltrace/pass/symbols.h"

#define ON "__calltrace_on"

/* Constants */

static LLVMValueRef number(struct inject *in, uint32_t n)
{
	return LLVMConstInt(in->i32, n, 0);
}

static LLVMValueRef text(struct inject *in, const char *s, size_t len)
{
	LLVMValueRef value = LLVMConstStringInContext(in->context, s, (unsigned int)len, 0);
	LLVMValueRef global = LLVMAddGlobal(in->module, LLVMTypeOf(value), "calltrace.text");

	LLVMSetInitializer(global, value);
	LLVMSetLinkage(global, LLVMPrivateLinkage);
	LLVMSetGlobalConstant(global, 1);
	LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
	LLVMSetAlignment(global, 1);
	return global;
}

/* From where @record has it, at @offset. The linker knows it: nothing is relocated when the program starts. */
static LLVMValueRef relative(struct inject *in, LLVMValueRef target, LLVMValueRef record, size_t offset)
{
	LLVMValueRef at = LLVMConstAdd(LLVMConstPtrToInt(record, in->i64), LLVMConstInt(in->i64, offset, 0));

	return LLVMConstTrunc(LLVMConstSub(LLVMConstPtrToInt(target, in->i64), at), in->i32);
}

/* The record */

/* It goes with its function, whether that is one of several in a comdat group or one that the linker finds unused. */
static void tie(struct inject *in, LLVMValueRef record, LLVMValueRef f)
{
	static const char kind[] = "associated";
	LLVMMetadataRef of = LLVMValueAsMetadata(f);

	LLVMGlobalSetMetadata(record, LLVMGetMDKindIDInContext(in->context, kind, sizeof(kind) - 1),
			      LLVMMDNodeInContext2(in->context, &of, 1));
	if (LLVMGetComdat(f))
		LLVMSetComdat(record, LLVMGetComdat(f));
}

LLVMValueRef inject_record(struct inject *in, const struct choice *c, const struct captured *values)
{
	LLVMTypeRef member[] = { in->i64, in->i32, in->i32, in->i32, in->i32, in->i32, in->i32 };
	LLVMTypeRef type = LLVMStructTypeInContext(in->context, member, sizeof(member) / sizeof(*member), 0);
	LLVMValueRef record = LLVMAddGlobal(in->module, type, "calltrace.function");
	LLVMValueRef alias = NULL, f = c->function;
	const size_t len = strlen(c->linkage_name);

	/* Its name may be another module's at run time; this one is what is here. */
	if (f) {
		alias = LLVMAddAlias2(in->module, LLVMGlobalGetValueType(f), 0, f, "calltrace.code");
		LLVMSetLinkage(alias, LLVMPrivateLinkage);
	}
	LLVMValueRef value[] = {
		LLVMConstInt(in->i64, symbol_id(in->id, c, len), 0),
		alias ? relative(in, alias, record, offsetof(struct calltrace_function, address))
		      : number(in, 0),
		relative(in, text(in, c->linkage_name, len), record,
			 offsetof(struct calltrace_function, name)),
		c->file ? relative(in, text(in, c->file, strlen(c->file)), record,
				   offsetof(struct calltrace_function, file))
			: number(in, 0),
		number(in, c->line),
		number(in, c->insns),
		values->s.text ? relative(in, text(in, values->s.text, strlen(values->s.text)), record,
					  offsetof(struct calltrace_function, signature))
			       : number(in, 0),
	};
	LLVMSetInitializer(record,
			   LLVMConstStructInContext(in->context, value, sizeof(value) / sizeof(*value), 0));
	LLVMSetLinkage(record, LLVMPrivateLinkage);
	LLVMSetGlobalConstant(record, 1);
	LLVMSetSection(record, CALLTRACE_SECTION);
	LLVMSetAlignment(record, _Alignof(struct calltrace_function));
	if (f)
		tie(in, record, f);
	return LLVMConstBitCast(record, in->ptr);
}

/* Registration */

/* One in each executable and library, whichever of its objects the linker takes it from. */
static void make_one(struct inject *in, LLVMValueRef global, const char *name)
{
	LLVMComdatRef group = LLVMGetOrInsertComdat(in->module, name);

	LLVMSetComdatSelectionKind(group, LLVMAnyComdatSelectionKind);
	LLVMSetComdat(global, group);
	LLVMSetLinkage(global, LLVMLinkOnceODRLinkage);
	LLVMSetVisibility(global, LLVMHiddenVisibility);
}

static LLVMValueRef bound(struct inject *in, const char *name)
{
	LLVMValueRef global = LLVMAddGlobal(in->module, in->i8, name);

	/* Weak: a module of which the linker has left out all functions has no table. */
	LLVMSetLinkage(global, LLVMExternalWeakLinkage);
	LLVMSetVisibility(global, LLVMHiddenVisibility);
	return global;
}

/* @name: of a function that calls @callee with @n of the values. */
static LLVMValueRef caller(struct inject *in, const char *name, const char *callee, LLVMValueRef *value,
			   unsigned int n)
{
	LLVMTypeRef params[4] = { in->ptr, in->ptr, in->ptr, in->i32 },
		    type = LLVMFunctionType(in->nothing, params, n, 0);
	LLVMValueRef outside = LLVMAddFunction(in->module, callee, type);
	LLVMValueRef f = LLVMAddFunction(in->module, name, LLVMFunctionType(in->nothing, NULL, 0, 0));

	make_one(in, f, name);
	LLVMAddAttributeAtIndex(
		f, LLVMAttributeFunctionIndex,
		LLVMCreateEnumAttribute(in->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
	LLVMPositionBuilderAtEnd(in->builder, LLVMAppendBasicBlockInContext(in->context, f, ""));
	LLVMBuildCall2(in->builder, type, outside, value, n, "");
	LLVMBuildRetVoid(in->builder);
	return f;
}

void inject_registration(struct inject *in)
{
	LLVMValueRef value[4], constructor, destructor;

	in->on = LLVMAddGlobal(in->module, in->i8, ON);
	LLVMSetInitializer(in->on, LLVMConstInt(in->i8, 0, 0));
	make_one(in, in->on, ON);
	value[0] = bound(in, "__start_" CALLTRACE_SECTION);
	value[1] = bound(in, "__stop_" CALLTRACE_SECTION);
	value[2] = in->on;
	value[3] = number(in, in->flags);
	constructor = caller(in, "__calltrace_constructor", "__calltrace_register", value, 4);
	destructor = caller(in, "__calltrace_destructor", "__calltrace_unregister", value, 1);
	calltrace_shim_constructor(in->module, constructor, constructor);
	calltrace_shim_destructor(in->module, destructor, destructor);
}
