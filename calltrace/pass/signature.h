/* signature - a function's parameters and result as the debug information has them; in C++, as LLVM shows these so alone. */
#ifndef CALLTRACE_PASS_SIGNATURE_H
#define CALLTRACE_PASS_SIGNATURE_H

#include <llvm-c/Core.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIGNATURE_PARAMS_MAX 64 /* as the log has them: FUNCTION_PARAMS_MAX */

/* The target of a pointer. */
struct signature_pointee {
	unsigned int size; /* of its type; 0: it has none */
	int is_char;
	/* For signature_write(): how many bytes of it are recorded, and whether as a string. */
	unsigned int bytes;
	int is_string;
};

struct signature {
	char *text; /* of signature_write(): watchctl/trace/calls/signature_text.h; free() it */
	unsigned int nparams;
	/* Where each is when the function is entered; NULL: nowhere, or not in one register of 8 bytes. */
	LLVMValueRef param[SIGNATURE_PARAMS_MAX];
	char *name[SIGNATURE_PARAMS_MAX]; /* free() it; "": it has none */
	int is_pointer[SIGNATURE_PARAMS_MAX];
	struct signature_pointee to[SIGNATURE_PARAMS_MAX];
	int has_result, result_is_pointer; /* one of at most 8 bytes, in a register */
	struct signature_pointee result_to;
};

/* False: there is no debug information, or no memory. signature_deinit() it in any case. */
int signature_read(LLVMValueRef f, struct signature *ret);

/* Makes the text. False: no memory. */
int signature_write(LLVMValueRef f, struct signature *s);
void signature_deinit(struct signature *s);

#ifdef __cplusplus
}
#endif

#endif
