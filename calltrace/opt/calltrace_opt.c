/*
 * calltrace-opt - puts the tracer's code into a module of LLVM's, between two steps of a compiler: reads bitcode or IR,
 * writes bitcode or IR. Nothing is written unless all of it can be.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>

#include "calltrace/config/settings.h"
#include "calltrace/opt/opt_options.h"
#include "calltrace/opt/opt_output.h"
#include "calltrace/pass/inject.h"
#include "calltrace/pass/symbols.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/text_buf.h"

/* Reading */

/* Takes @why, which is LLVM's. */
static struct wc_error *refuse(const char *name, const char *what, char *why)
{
	struct wc_error *err;
	size_t len = strlen(why);

	while (len && why[len - 1] == '\n')
		len--;
	err = wc_error_new(WC_EFAIL, "%s is no %s:\n%.*s", name, what, (int)len, why);
	LLVMDisposeMessage(why);
	return err;
}

static struct wc_error *read_module(const char *input, LLVMContextRef context, LLVMModuleRef *ret)
{
	const bool is_stdin = !strcmp(input, "-");
	const char *name = is_stdin ? "standard input" : input;
	LLVMMemoryBufferRef bytes;
	struct wc_error *err;
	char *why = NULL;

	if (is_stdin ? LLVMCreateMemoryBufferWithSTDIN(&bytes, &why)
		     : LLVMCreateMemoryBufferWithContentsOfFile(input, &bytes, &why)) {
		err = wc_error_new(WC_EFAIL, "cannot read %s: %s", name, why);
		LLVMDisposeMessage(why);
		return err;
	}
	if (!LLVMGetBufferSize(bytes)) {
		LLVMDisposeMemoryBuffer(bytes);
		return wc_error_new(WC_EFAIL,
				    "%s is empty: it should be bitcode or IR of LLVM's, as clang -c "
				    "-emit-llvm makes it",
				    name);
	}
	/* The buffer is its own from here on. */
	if (LLVMParseIRInContext(context, bytes, ret, &why))
		return refuse(name, "bitcode or IR that LLVM " LLVM_MAJOR " can read", why);
	if (LLVMVerifyModule(*ret, LLVMReturnStatusAction, &why)) {
		LLVMDisposeModule(*ret);
		return refuse(name, "correct module", why);
	}
	LLVMDisposeMessage(why);
	return NULL;
}

/* Writing */

static struct wc_error *write_module(LLVMModuleRef m, const struct settings *s)
{
	const char *path = settings_text(s, SET_output_file);
	struct wc_error *err;

	if (!strcmp(settings_text(s, SET_output_language), "ir")) {
		char *text = LLVMPrintModuleToString(m);

		err = opt_output_write(path, text, strlen(text));
		LLVMDisposeMessage(text);
	} else {
		LLVMMemoryBufferRef bytes = LLVMWriteBitcodeToMemoryBuffer(m);

		err = opt_output_write(path, LLVMGetBufferStart(bytes), LLVMGetBufferSize(bytes));
		LLVMDisposeMemoryBuffer(bytes);
	}
	return err;
}

static struct wc_error *check_terminal(const struct settings *s)
{
	if (strcmp(settings_text(s, SET_output_file), "-") != 0 ||
	    !strcmp(settings_text(s, SET_output_language), "ir") || settings_is(s, SET_force_binary_output) ||
	    !isatty(STDOUT_FILENO))
		return NULL;
	return wc_error_new(WC_EUSAGE, "standard output is a terminal, and bitcode is nothing to be read: "
				       "redirect it, or use -o FILE, --output-language=ir or "
				       "--force-binary-output");
}

/* All */

static struct wc_error *transform(LLVMModuleRef m, const struct settings *s)
{
	const char *path = settings_text(s, SET_output_symbols_file);
	struct text_buf symbols = { 0 };
	struct wc_error *err = NULL;
	char *why = NULL;

	calltrace_inject(m, s, &symbols);
	if (LLVMVerifyModule(m, LLVMReturnStatusAction, &why))
		err = wc_error_new(WC_EFAIL,
				   "the module is not correct any more, which is an error of "
				   "calltrace-opt: %s",
				   why);
	LLVMDisposeMessage(why);
	if (!err && *path)
		err = symbols_write(path, &symbols, false);
	text_buf_deinit(&symbols);
	return err ? err : write_module(m, s);
}

static struct wc_error *run(const char *input, const struct settings *s)
{
	LLVMContextRef context;
	LLVMModuleRef m = NULL;
	struct wc_error *err = check_terminal(s);

	if (err)
		return err;
	context = LLVMContextCreate();
	err = read_module(input, context, &m);
	if (!err) {
		err = transform(m, s);
		LLVMDisposeModule(m);
	}
	LLVMContextDispose(context);
	return err;
}

int main(int argc, char **argv)
{
	struct settings s = { 0 };
	const char *input = "-";
	struct wc_error *err;
	int status = 0;
	bool is_done = false;

	err = opt_options_read(argc, argv, &s, &input, &is_done);
	if (!err && !is_done)
		err = settings_read(&s);
	if (!err && !is_done)
		err = run(input, &s);
	if (err) {
		status = err->kind == WC_EUSAGE ? WC_EUSAGE : WC_EFAIL;
		fprintf(stderr, "calltrace-opt: %s\n", err->text);
		wc_error_free(err);
	}
	settings_deinit(&s);
	return status;
}
