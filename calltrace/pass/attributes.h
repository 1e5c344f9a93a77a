/* attributes - what LLVM is told about functions, and must be told otherwise when they record. */
#ifndef CALLTRACE_PASS_ATTRIBUTES_H
#define CALLTRACE_PASS_ATTRIBUTES_H

#include <stdbool.h>

#include <llvm-c/Core.h>

bool attributes_have(LLVMValueRef f, const char *name);

/* One that is a text: LLVM 14 has "coroutine.presplit" so. */
bool attributes_have_text(LLVMValueRef f, const char *name);

/* @f writes to memory now, and so do calls of it. */
void attributes_correct(LLVMValueRef f);

/* @f reads what its @argument points to, whatever else it does with that. */
void attributes_read_through(LLVMValueRef f, LLVMValueRef argument);

/* The frame of @f is to stay its own. */
void attributes_keep_apart(LLVMValueRef f);

/* Before the optimizer: it is neither inlined, nor are there copies of it for some of its arguments, which would be inlined. */
void attributes_keep_called(LLVMValueRef f);

#endif
