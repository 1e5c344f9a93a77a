#include "calltrace/pass/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/DebugInfo.h>

#include "calltrace/config/filters.h"
#include "calltrace/pass/attributes.h"
#include "calltrace/pass/inject.h"
#include "calltrace/pass/marks.h"

/* Functions that cannot be traced */

/* The runtime must be able to run where they do, and their frame must be one that the psABI knows. */
static bool is_ordinary_convention(LLVMValueRef f)
{
	switch (LLVMGetFunctionCallConv(f)) {
	case LLVMCCallConv:
	case LLVMFastCallConv:
	case LLVMColdCallConv:
	case LLVMX8664SysVCallConv:
	case LLVMX86VectorCallCallConv:
	case LLVMPreserveMostCallConv:
	case LLVMPreserveAllCallConv:
	case LLVMSwiftCallConv:
	case LLVMCXXFASTTLSCallConv:
		return true;
	default:
		return false;
	}
}

static bool is_resolver(LLVMModuleRef m, LLVMValueRef f)
{
	LLVMValueRef i;

	for (i = LLVMGetFirstGlobalIFunc(m); i; i = LLVMGetNextGlobalIFunc(i))
		if (calltrace_shim_function(LLVMGetGlobalIFuncResolver(i)) == f)
			return true;
	return false;
}

/* NULL: it can be. */
static const char *why_impossible(LLVMModuleRef m, const struct choice *c)
{
	if (strncmp(LLVMGetTarget(m), "x86_64", 6) != 0)
		return "functions of x86-64 are traced, and this is none";
	if (LLVMGetLinkage(c->function) == LLVMAvailableExternallyLinkage)
		return "the program has its body from another module";
	if (!strncmp(c->linkage_name, "__calltrace_", 12))
		return "it is part of the tracer";
	if (attributes_have(c->function, "naked"))
		return "it is naked: it has no frame";
	if (is_resolver(m, c->function))
		return "it is the resolver of an IFUNC: it runs before the module is relocated";
	if (!is_ordinary_convention(c->function))
		return "its calling convention is none of the psABI";
	return NULL;
}

/* Facts */

/* The path of @file as the compiler was given it; NULL: it is not known. */
static char *path_of(LLVMMetadataRef file)
{
	unsigned int nfolder = 0, nname = 0;
	const char *folder, *name;
	char *ret;
	int len;

	if (!file)
		return NULL;
	folder = LLVMDIFileGetDirectory(file, &nfolder);
	name = LLVMDIFileGetFilename(file, &nname);
	if (!nname)
		return NULL;
	if (name[0] == '/' || !nfolder)
		return strndup(name, nname);
	len = asprintf(&ret, "%.*s/%.*s", (int)nfolder, folder, (int)nname, name);
	return len < 0 ? NULL : ret;
}

static uint32_t count_instructions(LLVMValueRef f)
{
	LLVMBasicBlockRef b;
	LLVMValueRef i;
	uint32_t n = 0;

	for (b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
		for (i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
			n += !LLVMIsADbgInfoIntrinsic(i); /* calls, before LLVM 19 */
	return n;
}

static struct choice facts_of(LLVMValueRef f)
{
	LLVMMetadataRef subprogram = LLVMGetSubprogram(f);
	struct choice c = { .function = f };
	size_t len;

	c.linkage_name = LLVMGetValueName2(f, &len);
	c.name = calltrace_shim_demangle(c.linkage_name);
	c.file = subprogram ? path_of(LLVMDIScopeGetFile(subprogram)) : NULL;
	c.line = subprogram ? LLVMDISubprogramGetLine(subprogram) : 0;
	c.insns = count_instructions(f);
	return c;
}

/* The choice */

static bool choose(struct choice *c, LLVMModuleRef m, const struct settings *s)
{
	size_t len;
	const struct filter_subject subject = { .name = c->name,
						.linkage_name = c->linkage_name,
						.file = c->file ? c->file : LLVMGetSourceFileName(m, &len),
						.insns = c->insns };
	const char *rule;

	if (!settings_is(s, SET_inject_instrumentation)) {
		c->why = strdup("inject_instrumentation is false");
	} else {
		c->is_traced = filters_choose(s->filters, &subject, &rule, &c->capture);
		c->why = strdup(rule ? rule : "no rule is against it");
	}
	return c->why;
}

/* @marked: as it was before functions were inlined; NULL: it was not there. */
static bool add_function(struct choices *c, LLVMModuleRef m, LLVMValueRef f, struct marked *marked,
			 const struct settings *s)
{
	struct choice *each = &c->choice[c->n++];
	const char *why;

	*each = facts_of(f);
	if (marked) {
		marked->choice = each;
		each->insns = marked->insns;
	}
	if (!each->name)
		return false;
	why = why_impossible(m, each);
	c->can_trace = c->can_trace || !why;
	if (why)
		each->why = strdup(why);
	return (why ? each->why != NULL : choose(each, m, s)) &&
	       map64_put(&c->of, (uint64_t)(uintptr_t)f, each);
}

/* One that was inlined wherever it was called, and has gone. */
static bool add_inlined(struct choices *c, struct marked *marked)
{
	struct choice *each = &c->choice[c->n++];

	*each = (struct choice){ .linkage_name = marked->linkage_name,
				 .name = calltrace_shim_demangle(marked->linkage_name),
				 .file = *marked->file ? strdup(marked->file) : NULL,
				 .line = marked->line,
				 .insns = marked->insns,
				 .is_traced = marked->is_traced,
				 .why = strdup(marked->why) };
	marked->choice = each;
	return each->name && each->why;
}

bool choices_make(struct choices *c, LLVMModuleRef m, const struct settings *s)
{
	struct map64 marked = { 0 };
	LLVMValueRef f;
	size_t n = 0, i;
	bool is_whole = marks_read(m, &c->marked, &c->nmarked);

	for (i = 0; i < c->nmarked && is_whole; i++) {
		f = LLVMGetNamedFunction(m, c->marked[i].linkage_name);
		is_whole = !f || map64_put(&marked, (uint64_t)(uintptr_t)f, &c->marked[i]);
	}
	for (f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
		n += !LLVMIsDeclaration(f);
	c->choice = calloc(n + c->nmarked + 1, sizeof(*c->choice));
	is_whole = is_whole && c->choice;
	for (f = LLVMGetFirstFunction(m); f && is_whole; f = LLVMGetNextFunction(f))
		if (!LLVMIsDeclaration(f))
			is_whole = add_function(c, m, f, map64_get(&marked, (uint64_t)(uintptr_t)f), s);
	for (i = 0; i < c->nmarked && is_whole; i++)
		if (!c->marked[i].choice)
			is_whole = add_inlined(c, &c->marked[i]);
	map64_deinit(&marked);
	return is_whole;
}

void choices_deinit(struct choices *c)
{
	size_t i;

	for (i = 0; c->choice && i < c->n; i++) {
		free(c->choice[i].name);
		free(c->choice[i].file);
		free(c->choice[i].why);
	}
	free(c->choice);
	marks_free(c->marked, c->nmarked);
	map64_deinit(&c->of);
	*c = (struct choices){ 0 };
}

bool choices_keep_apart(LLVMModuleRef m, const struct settings *s)
{
	struct choices c = { 0 };
	bool has_changed = false;

	if (choices_make(&c, m, s)) {
		for (size_t i = 0; i < c.n; i++) {
			if (!c.choice[i].is_traced || !c.choice[i].capture)
				continue;
			attributes_keep_called(c.choice[i].function);
			has_changed = true;
		}
	}
	choices_deinit(&c);
	return has_changed;
}
