#include <stddef.h>

#include "calltrace/pass/inject_impl.h"

/*
 * Ends block @from with:
 *
 *	if (__calltrace_on) { take a slot and write it; if it was the last of its chunk, turn }
 *	goto @to
 *
 * The new blocks come before @to.
 */
void inject_event(struct inject *in, LLVMBasicBlockRef from, LLVMBasicBlockRef to, LLVMValueRef record,
		  uint32_t kind)
{
	LLVMBuilderRef b = in->builder;
	LLVMBasicBlockRef write = LLVMInsertBasicBlockInContext(in->context, to, "calltrace");
	LLVMBasicBlockRef turn = LLVMInsertBasicBlockInContext(in->context, to, "calltrace.turn");
	const unsigned int profile = LLVMGetMDKindIDInContext(in->context, "prof", 4);
	LLVMValueRef on, offset = LLVMConstInt(in->i64, kind, 0), what, frame, value[2], full, branch;

	LLVMPositionBuilderAtEnd(b, from);
	on = LLVMBuildLoad2(b, in->i8, in->on, "");
	LLVMSetVolatile(on, 1);
	branch = LLVMBuildCondBr(b, LLVMBuildIsNotNull(b, on, ""), write, to);
	LLVMSetMetadata(branch, profile, LLVMMetadataAsValue(in->context, in->likely));

	LLVMPositionBuilderAtEnd(b, write);
	what = LLVMConstGEP2(in->i8, record, &offset, 1);
	frame = LLVMBuildCall2(b, in->frame_type, in->frame, NULL, 0, "");
	value[0] = what;
	value[1] = frame;
	full = LLVMBuildExtractValue(b, LLVMBuildCall2(b, in->write_type, in->write, value, 2, ""), 0, "");
	branch = LLVMBuildCondBr(b, LLVMBuildIsNotNull(b, full, ""), turn, to);
	LLVMSetMetadata(branch, profile, LLVMMetadataAsValue(in->context, in->unlikely));

	LLVMPositionBuilderAtEnd(b, turn);
	LLVMSetInstructionCallConv(LLVMBuildCall2(b, in->turn_type, in->turn, value, 2, ""),
				   LLVMGetFunctionCallConv(in->turn));
	LLVMBuildBr(b, to);
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
static void inject_entry(struct inject *in, LLVMValueRef f, LLVMValueRef record)
{
	LLVMBasicBlockRef body = LLVMGetEntryBasicBlock(f);
	LLVMBasicBlockRef entry = LLVMInsertBasicBlockInContext(in->context, body, "");
	LLVMValueRef i, next;

	for (i = LLVMGetFirstInstruction(body); i; i = next) {
		next = LLVMGetNextInstruction(i);
		if (is_static_alloca(i))
			move(in->builder, i, entry);
	}
	inject_event(in, entry, body, record, CALLTRACE_ENTRY);
}

/* Exits */

/* A call that the compiler may make a jump of: it is followed by nothing but the return of what it returns. */
static bool is_tail_call(LLVMValueRef call, LLVMValueRef ret)
{
	LLVMValueRef callee;

	if (!call || !LLVMIsACallInst(call) || !LLVMIsTailCall(call))
		return false;
	callee = LLVMGetCalledValue(call);
	if (LLVMIsAInlineAsm(callee) || (LLVMIsAFunction(callee) && LLVMGetIntrinsicID(callee)))
		return false;
	return !LLVMGetNumOperands(ret) || LLVMGetOperand(ret, 0) == call;
}

/* The next that the thread does is to enter a function that is traced. Of others, the runtime could take the next call
 * of the caller's for it. */
static bool enters(struct inject *in, LLVMValueRef call)
{
	LLVMValueRef callee = LLVMIsAFunction(LLVMGetCalledValue(call));

	return callee && choices_has(in->choices, callee) && calltrace_shim_is_exact(callee);
}

static void inject_exit(struct inject *in, LLVMBasicBlockRef block, LLVMValueRef record)
{
	LLVMValueRef last = LLVMGetBasicBlockTerminator(block), before = LLVMGetPreviousInstruction(last);
	const bool unwinds = LLVMGetInstructionOpcode(last) == LLVMResume;
	const bool jumps = !unwinds && is_tail_call(before, last);
	LLVMBasicBlockRef next = LLVMGetNextBasicBlock(block), rest;
	enum calltrace_kind kind = unwinds ? CALLTRACE_UNWIND : CALLTRACE_EXIT;

	rest = next ? LLVMInsertBasicBlockInContext(in->context, next, "")
		    : LLVMAppendBasicBlockInContext(in->context, LLVMGetBasicBlockParent(block), "");
	if (jumps) {
		move(in->builder, before, rest);
		kind = enters(in, before) ? CALLTRACE_TAIL : CALLTRACE_EXIT;
	}
	move(in->builder, last, rest);
	inject_event(in, block, rest, record, kind);
}

static bool leaves(LLVMBasicBlockRef b)
{
	LLVMValueRef last = LLVMGetBasicBlockTerminator(b);
	const LLVMOpcode opcode = LLVMGetInstructionOpcode(last);

	return opcode == LLVMRet || opcode == LLVMResume;
}

void inject_events(struct inject *in, LLVMValueRef f, LLVMValueRef record)
{
	LLVMBasicBlockRef b, next, end;

	/* Behind the last one come those that are made for exits. */
	end = LLVMGetLastBasicBlock(f);
	for (b = LLVMGetFirstBasicBlock(f); b; b = next) {
		next = b == end ? NULL : LLVMGetNextBasicBlock(b);
		if (leaves(b))
			inject_exit(in, b, record);
	}
	inject_entry(in, f, record);
}
