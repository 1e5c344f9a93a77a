/* inject_impl - what the files of the pass share. */
#ifndef CALLTRACE_PASS_INJECT_IMPL_H
#define CALLTRACE_PASS_INJECT_IMPL_H

#include <stddef.h>

#include "calltrace/abi.h"
#include "calltrace/pass/choice.h"
#include "calltrace/pass/inject.h"
#include "calltrace/pass/signature.h"

/* A module, and what of it all of its functions use. */
struct inject {
	LLVMModuleRef module;
	LLVMContextRef context;
	LLVMBuilderRef builder;
	LLVMTypeRef i8, i32, i64, ptr, nothing;
	LLVMValueRef on;   /* __calltrace_on */
	LLVMValueRef turn; /* __calltrace_turn() */
	LLVMTypeRef turn_type;
	LLVMValueRef write, frame; /* the assembly, and an intrinsic */
	LLVMTypeRef write_type, frame_type;
	LLVMValueRef value; /* the assembly for values */
	LLVMTypeRef value_type;
	LLVMValueRef memory; /* __calltrace_memory(); NULL: not used so far */
	LLVMTypeRef memory_type;
	LLVMMetadataRef likely, unlikely; /* branch weights */
	uint32_t id;			  /* of the module: the upper half of its functions' ids */
	uint32_t flags;			  /* enum calltrace_module_flags */
	const struct choices *choices;
	unsigned int typed,
		untyped; /* functions whose values are wanted, and whose types are known, or not */
};

/* Values of a function that are recorded: s.param[] has no others. Zero-initialised: none. */
struct captured {
	struct signature s;
	bool has_result;
};

/* The record of @c, which is traced; it may have no code of its own any more. Its type is in->ptr. */
LLVMValueRef inject_record(struct inject *in, const struct choice *c, const struct captured *values);

/* Writes slots at entry and exits of @f, whose record is @record. */
void inject_events(struct inject *in, LLVMValueRef f, LLVMValueRef record, const struct captured *c);

/* Events of the marks in all functions: of functions that were inlined, and of those that might have been. False: no
 * memory. */
bool inject_marks(struct inject *in, struct choices *c);

/* Block @from, which has no end, ends with an event, and goes on to @to. */
void inject_event(struct inject *in, LLVMBasicBlockRef from, LLVMBasicBlockRef to, LLVMValueRef record,
		  uint32_t kind);

/* The table of records is reported to the runtime. */
void inject_registration(struct inject *in);

#endif
