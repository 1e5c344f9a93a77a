#include <stddef.h>
#include <string.h>

#include "calltrace/pass/inject_impl.h"

/* Behind a slot: if it was the last of its chunk, turn. Goes on at the block that is returned, before @to. */
static LLVMBasicBlockRef turn_if(struct inject *in, LLVMBasicBlockRef from, LLVMBasicBlockRef to,
				 LLVMValueRef full, LLVMValueRef value[2])
{
	LLVMBuilderRef b = in->builder;
	LLVMBasicBlockRef turn = LLVMInsertBasicBlockInContext(in->context, to, "calltrace.turn");
	LLVMBasicBlockRef next = LLVMInsertBasicBlockInContext(in->context, to, "calltrace.on");
	LLVMValueRef branch;

	LLVMPositionBuilderAtEnd(b, from);
	branch = LLVMBuildCondBr(b, LLVMBuildIsNotNull(b, full, ""), turn, next);
	LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(in->context, "prof", 4),
			LLVMMetadataAsValue(in->context, in->unlikely));
	LLVMPositionBuilderAtEnd(b, turn);
	LLVMSetInstructionCallConv(LLVMBuildCall2(b, in->turn_type, in->turn, value, 2, ""),
				   LLVMGetFunctionCallConv(in->turn));
	LLVMBuildBr(b, next);
	return next;
}

static LLVMValueRef what_of(struct inject *in, LLVMValueRef record, uint32_t kind)
{
	LLVMValueRef offset = LLVMConstInt(in->i64, kind, 0);

	return LLVMConstGEP2(in->i8, record, &offset, 1);
}

/* A slot of what happens. */
static LLVMBasicBlockRef write_event(struct inject *in, LLVMBasicBlockRef at, LLVMBasicBlockRef to,
				     LLVMValueRef record, uint32_t kind)
{
	LLVMValueRef value[2], full;

	LLVMPositionBuilderAtEnd(in->builder, at);
	value[0] = what_of(in, record, kind);
	value[1] = LLVMBuildCall2(in->builder, in->frame_type, in->frame, NULL, 0, "");
	full = LLVMBuildExtractValue(
		in->builder, LLVMBuildCall2(in->builder, in->write_type, in->write, value, 2, ""), 0, "");
	return turn_if(in, at, to, full, value);
}

/* @value in 64 bits. */
static LLVMValueRef bits_of(struct inject *in, LLVMValueRef value)
{
	LLVMTypeRef type = LLVMTypeOf(value);

	switch (LLVMGetTypeKind(type)) {
	case LLVMPointerTypeKind:
		return LLVMBuildPtrToInt(in->builder, value, in->i64, "");
	case LLVMFloatTypeKind:
		value = LLVMBuildBitCast(in->builder, value, in->i32, "");
		break;
	case LLVMDoubleTypeKind:
		return LLVMBuildBitCast(in->builder, value, in->i64, "");
	default:
		break;
	}
	return LLVMBuildZExtOrBitCast(in->builder, value, in->i64, "");
}

/* A slot of a value. @number: of its parameter. */
static LLVMBasicBlockRef write_value(struct inject *in, LLVMBasicBlockRef at, LLVMBasicBlockRef to,
				     LLVMValueRef record, uint32_t kind, uint32_t number, LLVMValueRef v)
{
	LLVMValueRef value[3], full;

	LLVMPositionBuilderAtEnd(in->builder, at);
	value[0] = what_of(in, record, kind);
	value[1] = LLVMConstIntToPtr(LLVMConstInt(in->i64, number, 0), in->ptr);
	value[2] = bits_of(in, v);
	full = LLVMBuildExtractValue(
		in->builder, LLVMBuildCall2(in->builder, in->value_type, in->value, value, 3, ""), 0, "");
	return turn_if(in, at, to, full, value);
}

/* Declares it at its first use: programs without it link with an older libcalltrace, too. */
static void declare_memory(struct inject *in)
{
	static const char *const attribute[] = { "nonlazybind", "nounwind" };
	LLVMTypeRef params[4] = { in->ptr, in->i64, in->i32, in->i32 };
	size_t i;

	if (in->memory)
		return;
	in->memory_type = LLVMFunctionType(in->nothing, params, 4, 0);
	in->memory = LLVMAddFunction(in->module, "__calltrace_memory", in->memory_type);
	for (i = 0; i < sizeof(attribute) / sizeof(*attribute); i++)
		LLVMAddAttributeAtIndex(
			in->memory, LLVMAttributeFunctionIndex,
			LLVMCreateEnumAttribute(
				in->context,
				LLVMGetEnumAttributeKindForName(attribute[i], strlen(attribute[i])), 0));
}

/* Behind the slot of the value @v, if what it points to is wanted. @number: as abi.h has it. */
static void record_memory(struct inject *in, LLVMBasicBlockRef at, LLVMValueRef record, uint32_t number,
			  LLVMValueRef v, const struct signature_pointee *to)
{
	LLVMValueRef value[4];

	if (!to->bytes)
		return;
	declare_memory(in);
	LLVMPositionBuilderAtEnd(in->builder, at);
	value[0] = record;
	value[1] = bits_of(in, v);
	value[2] = LLVMConstInt(in->i32, to->bytes | (to->is_string ? CALLTRACE_STRING : 0), 0);
	value[3] = LLVMConstInt(in->i32, number, 0);
	LLVMBuildCall2(in->builder, in->memory_type, in->memory, value, 4, "");
}

/* Ends block @from, which has no end: if (__calltrace_on) goto the block that is returned; goto @to. */
static LLVMBasicBlockRef begin_event(struct inject *in, LLVMBasicBlockRef from, LLVMBasicBlockRef to)
{
	LLVMBuilderRef b = in->builder;
	LLVMBasicBlockRef write = LLVMInsertBasicBlockInContext(in->context, to, "calltrace");
	LLVMValueRef on, branch;

	LLVMPositionBuilderAtEnd(b, from);
	on = LLVMBuildLoad2(b, in->i8, in->on, "");
	LLVMSetVolatile(on, 1);
	branch = LLVMBuildCondBr(b, LLVMBuildIsNotNull(b, on, ""), write, to);
	LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(in->context, "prof", 4),
			LLVMMetadataAsValue(in->context, in->likely));
	return write;
}

static void end_event(struct inject *in, LLVMBasicBlockRef at, LLVMBasicBlockRef to)
{
	LLVMPositionBuilderAtEnd(in->builder, at);
	LLVMBuildBr(in->builder, to);
}

void inject_event(struct inject *in, LLVMBasicBlockRef from, LLVMBasicBlockRef to, LLVMValueRef record,
		  uint32_t kind)
{
	end_event(in, write_event(in, begin_event(in, from, to), to, record, kind), to);
}

static void move(LLVMBuilderRef b, LLVMValueRef instruction, LLVMBasicBlockRef to)
{
	LLVMInstructionRemoveFromParent(instruction);
	LLVMPositionBuilderAtEnd(b, to);
	LLVMInsertIntoBuilder(b, instruction);
}

/* Entry */

static bool is_static_alloca(LLVMValueRef i)
{
	return LLVMIsAAllocaInst(i) && LLVMIsAConstantInt(LLVMGetOperand(i, 0));
}

/* Its variables stay in the first block: elsewhere they would be allocated each time. */
static void inject_entry(struct inject *in, LLVMValueRef f, LLVMValueRef record, const struct captured *c)
{
	LLVMBasicBlockRef at, body = LLVMGetEntryBasicBlock(f);
	LLVMBasicBlockRef entry = LLVMInsertBasicBlockInContext(in->context, body, "");
	LLVMValueRef i, next;
	uint32_t n;

	for (i = LLVMGetFirstInstruction(body); i; i = next) {
		next = LLVMGetNextInstruction(i);
		if (is_static_alloca(i))
			move(in->builder, i, entry);
	}
	at = write_event(in, begin_event(in, entry, body), body, record, CALLTRACE_ENTRY);
	for (n = 0; n < c->s.nparams; n++)
		if (c->s.param[n])
			at = write_value(in, at, body, record, CALLTRACE_VALUE, n, c->s.param[n]);
	for (n = 0; n < c->s.nparams; n++)
		if (c->s.param[n])
			record_memory(in, at, record, n, c->s.param[n], &c->s.to[n]);
	end_event(in, at, body);
}

/* Exits */

/* It has no code: a cast, or, before LLVM 19, a call for the debug information. */
static bool is_no_code(LLVMValueRef i)
{
	return LLVMIsABitCastInst(i) || LLVMIsADbgInfoIntrinsic(i);
}

/* A call that the compiler may make a jump of: it is followed by nothing that has code but @ret, the return of what it
 * returns. NULL: there is none. */
static LLVMValueRef find_tail_call(LLVMValueRef ret)
{
	LLVMValueRef call = LLVMGetPreviousInstruction(ret), callee, value;

	while (call && is_no_code(call))
		call = LLVMGetPreviousInstruction(call);
	if (!call || !LLVMIsACallInst(call) || !LLVMIsTailCall(call))
		return NULL;
	callee = LLVMGetCalledValue(call);
	if (LLVMIsAInlineAsm(callee) || (LLVMIsAFunction(callee) && LLVMGetIntrinsicID(callee)))
		return NULL;
	value = LLVMGetNumOperands(ret) ? LLVMGetOperand(ret, 0) : call;
	while (LLVMIsABitCastInst(value))
		value = LLVMGetOperand(value, 0);
	return value == call ? call : NULL;
}

/* The next that the thread does is to enter a function that is traced. Of others, the runtime could take the next call
 * of the caller's for it. */
static bool enters(struct inject *in, LLVMValueRef call)
{
	LLVMValueRef callee = calltrace_shim_function(LLVMGetCalledValue(call));

	return callee && choices_has(in->choices, callee) && calltrace_shim_is_exact(callee);
}

static void inject_exit(struct inject *in, LLVMBasicBlockRef block, LLVMValueRef record,
			const struct captured *c)
{
	LLVMValueRef last = LLVMGetBasicBlockTerminator(block), i, following;
	const bool unwinds = LLVMGetInstructionOpcode(last) == LLVMResume;
	const bool has_result = c->has_result && !unwinds && LLVMGetNumOperands(last);
	LLVMValueRef call = unwinds ? NULL : find_tail_call(last);
	LLVMBasicBlockRef next = LLVMGetNextBasicBlock(block), rest, at;
	enum calltrace_kind kind = unwinds ? CALLTRACE_UNWIND : CALLTRACE_EXIT;

	rest = next ? LLVMInsertBasicBlockInContext(in->context, next, "")
		    : LLVMAppendBasicBlockInContext(in->context, LLVMGetBasicBlockParent(block), "");
	/* A result that is wanted is waited for. */
	if (call && has_result && calltrace_shim_keep_call(call))
		call = NULL;
	if (call)
		kind = enters(in, call) ? CALLTRACE_TAIL : CALLTRACE_EXIT;
	for (i = call ? call : last; i; i = following) {
		following = LLVMGetNextInstruction(i);
		move(in->builder, i, rest);
	}
	at = begin_event(in, block, rest);
	if (has_result && !call) {
		at = write_value(in, at, rest, record, CALLTRACE_RESULT, 0, LLVMGetOperand(last, 0));
		record_memory(in, at, record, CALLTRACE_NUMBER_RESULT, LLVMGetOperand(last, 0),
			      &c->s.result_to);
	}
	end_event(in, write_event(in, at, rest, record, kind), rest);
}

static bool leaves(LLVMBasicBlockRef b)
{
	LLVMValueRef last = LLVMGetBasicBlockTerminator(b);
	const LLVMOpcode opcode = LLVMGetInstructionOpcode(last);

	return opcode == LLVMRet || opcode == LLVMResume;
}

void inject_events(struct inject *in, LLVMValueRef f, LLVMValueRef record, const struct captured *c)
{
	LLVMBasicBlockRef b, next, end;

	calltrace_shim_split_returns(f);
	/* Behind the last one come those that are made for exits. */
	end = LLVMGetLastBasicBlock(f);
	for (b = LLVMGetFirstBasicBlock(f); b; b = next) {
		next = b == end ? NULL : LLVMGetNextBasicBlock(b);
		if (leaves(b))
			inject_exit(in, b, record, c);
	}
	inject_entry(in, f, record, c);
}
