/*
 * inject - what the pass does to a module: a record for each function that is traced, and code at its entry and exits
 * which writes a slot (calltrace/abi.h). Over LLVM's C interface, whose headers say who owns what: all that is made here
 * belongs to the module.
 */
#ifndef CALLTRACE_PASS_INJECT_H
#define CALLTRACE_PASS_INJECT_H

#include <stdbool.h>

#include <llvm-c/Core.h>

#ifdef __cplusplus
extern "C" {
#endif

struct settings;
struct text_buf;

/*
 * Injects what is said above into the functions of @m that @s chooses; idempotent. Appends the lines of all of them to
 * @symbols. True: something has changed.
 */
bool calltrace_inject(LLVMModuleRef m, const struct settings *s, struct text_buf *symbols);

/* The same in a compiler, as the environment and calltrace.toml want it; sentences go to standard error. */
bool calltrace_inject_here(LLVMModuleRef m);

/* Before functions are inlined: places marks (marks.h), if that is wanted. */
bool calltrace_mark_here(LLVMModuleRef m);

/* Of the shim, where LLVM has no C interface: */

/* @f runs when the module is loaded, or unloaded, before other constructors and after other destructors of the
 * default priority; the entry lives as long as @key, which is in a comdat group of its own. */
void calltrace_shim_constructor(LLVMModuleRef m, LLVMValueRef f, LLVMValueRef key);
void calltrace_shim_destructor(LLVMModuleRef m, LLVMValueRef f, LLVMValueRef key);

/* @linkage_name as its language has it; itself, if it is of none. NULL: no memory. free() it. */
char *calltrace_shim_demangle(const char *linkage_name);

/* The function that @v is, below casts of pointers, which LLVM 14 has; NULL: it is none. */
LLVMValueRef calltrace_shim_function(LLVMValueRef v);

/* @call stays a call, and does not become a jump. False: it must be one. */
bool calltrace_shim_keep_call(LLVMValueRef call);

/* Calls at the ends of @f that share a return get one each, as code generation does it to make jumps of them: what comes
 * before a return that they share would keep them calls. */
void calltrace_shim_split_returns(LLVMValueRef f);

/* @f, which does not exist, is the function whose calls are marks: they stay, and keep their order. */
void calltrace_shim_is_mark(LLVMValueRef f);

/* Where exceptions go that leave functions of @m; NULL: it knows none. */
LLVMValueRef calltrace_shim_personality(LLVMModuleRef m);

/* @fn, with @b before each instruction by which @f may be left: a return, the resuming of an exception (which is made, for
 * calls that may throw one), or a call that must be a jump. */
void calltrace_shim_each_exit(LLVMValueRef f, LLVMValueRef personality,
			      void (*fn)(void *ctx, LLVMBuilderRef b, LLVMValueRef before), void *ctx);

/* Ends the block before @at, without a branch; returns that which begins with @at. */
LLVMBasicBlockRef calltrace_shim_split(LLVMValueRef at);

/* Removes the named metadata @name, if there are any. */
void calltrace_shim_forget_metadata(LLVMModuleRef m, const char *name);

/* The linker takes the body of @f that is here, and no other. */
bool calltrace_shim_is_exact(LLVMValueRef f);

#ifdef __cplusplus
}
#endif

#endif
