/* signature - a function's parameters and result as the debug information has them; in C++, as LLVM shows these so alone. */
#ifndef CALLTRACE_PASS_SIGNATURE_H
#define CALLTRACE_PASS_SIGNATURE_H

#include <llvm-c/Core.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIGNATURE_PARAMS_MAX 64 /* as the log has them: FUNCTION_PARAMS_MAX */

struct signature {
	char *text; /* watchctl/trace/calls/signature_text.h; free() it */
	unsigned int nparams;
	/* Where each is when the function is entered; NULL: nowhere, or not in one register of 8 bytes. */
	LLVMValueRef param[SIGNATURE_PARAMS_MAX];
	char *name[SIGNATURE_PARAMS_MAX]; /* free() it; "": it has none */
	int is_pointer[SIGNATURE_PARAMS_MAX];
	int has_result, result_is_pointer; /* one of at most 8 bytes, in a register */
};

/* False: there is no debug information, or no memory. signature_deinit() it in any case. */
int signature_read(LLVMValueRef f, struct signature *ret);
void signature_deinit(struct signature *s);

#ifdef __cplusplus
}
#endif

#endif
