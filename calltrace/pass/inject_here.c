#include <stdio.h>

#include "calltrace/config/filters.h"
#include "calltrace/config/settings.h"
#include "calltrace/pass/inject.h"
#include "calltrace/pass/marks.h"
#include "calltrace/pass/symbols.h"
#include "watchctl/base/error.h"
#include "watchctl/base/text_buf.h"

/* Takes @err. A build goes on: what it builds is complete but for us. */
static void warn(struct wc_error *err, const char *and_then)
{
	fprintf(stderr, "calltrace: %s%s\n", err->text, and_then);
	wc_error_free(err);
}

static bool inject(LLVMModuleRef m, const struct settings *s)
{
	const char *path = settings_text(s, SET_output_symbols_file);
	struct text_buf symbols = { 0 };
	const bool has_changed = calltrace_inject(m, s, &symbols);
	struct wc_error *err = *path && symbols.len ? symbols_write(path, &symbols, true) : NULL;

	if (err)
		warn(err, "");
	text_buf_deinit(&symbols);
	return has_changed;
}

/* Wrong settings are told at the end. */
bool calltrace_mark_here(LLVMModuleRef m)
{
	struct settings s = { 0 };
	struct wc_error *err = settings_read(&s);
	bool has_changed = false;

	if (err || !settings_is(&s, SET_inject_instrumentation))
		has_changed = false;
	else if (settings_is(&s, SET_before_inlining))
		has_changed = marks_place(m, &s);
	else if (s.filters && filters_capture(s.filters))
		has_changed = choices_keep_apart(m, &s);
	wc_error_free(err);
	settings_deinit(&s);
	return has_changed;
}

bool calltrace_inject_here(LLVMModuleRef m)
{
	struct settings s = { 0 };
	struct wc_error *err = settings_read(&s);
	bool has_changed = false;
	size_t len;

	if (err) {
		warn(err, "");
		fprintf(stderr, "calltrace: the functions of %s are not traced\n",
			LLVMGetSourceFileName(m, &len));
	} else {
		has_changed = inject(m, &s);
	}
	settings_deinit(&s);
	return has_changed;
}
