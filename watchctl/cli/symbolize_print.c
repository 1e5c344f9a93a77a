#include "watchctl/cli/symbolize_print.h"

#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/code/elf/debug_package.h"
#include "watchctl/view/words/json.h"

static const char *const state_word[] = {
	[SYMBOL_SOURCE_OK] = "ok",
	[SYMBOL_SOURCE_DEBUG_ONLY] = "debug-only",
	[SYMBOL_SOURCE_STALE] = "stale",
	[SYMBOL_SOURCE_MISSING] = "missing",
};

static const char *const detail_word[] = {
	[SYMBOL_DETAIL_NONE] = "none",
	[SYMBOL_DETAIL_EXPORTED] = "exported",
	[SYMBOL_DETAIL_SYMBOLS] = "symbols",
	[SYMBOL_DETAIL_LINES] = "lines",
};

/* Text */

/* What is wrong with @m; NULL: nothing. */
static const char *complaint(const struct symbolize_module *m)
{
	if (m->not_recognised)
		return "has no build id, so it is not known whether the file there is the one that ran (if it is: "
		       "--module-path PATH=PATH)";
	if (m->src.damaged)
		return m->src.state == SYMBOL_SOURCE_MISSING ? "the file is damaged: nothing is read from it"
							     : "the debug information is damaged: not used";
	if (m->src.state == SYMBOL_SOURCE_STALE)
		return "the file there has a different build id: it was replaced since the recording, and is not used";
	if (m->src.state == SYMBOL_SOURCE_MISSING)
		return "there is no such file (or no 64-bit ELF file), nor one of its build id";
	if (m->src.detail == SYMBOL_DETAIL_NONE)
		return "it is stripped, and has no debug information: no names";
	if (m->src.detail == SYMBOL_DETAIL_EXPORTED)
		return "no debug information: only functions that it exports have names";
	if (m->src.detail == SYMBOL_DETAIL_SYMBOLS)
		return "no debug information: functions have names, but no lines";
	return NULL;
}

static bool has_gap(const struct symbolize_module *m)
{
	/* The vdso, for one, never has lines; and where an earlier run had found some, it had found all. */
	return complaint(m) && m->src.module[0] == '/' && !m->with_lines;
}

static void print_build_id(const struct symbol_source *src, FILE *out)
{
	for (unsigned int i = 0; i < src->build_id_len; i++)
		fprintf(out, "%02x", src->build_id[i]);
	if (!src->build_id_len)
		fputs("none", out);
}

/* Which package would help, where that is known. True if there may be more help elsewhere. */
static bool print_gap(const struct symbolize_module *m, FILE *out)
{
	scoped(freep) char *advice = NULL;
	char path[512];

	fprintf(out, "  %s\n    %zu address%s, build id ", utf8_clean(m->src.module, path, sizeof(path)),
		m->addresses, m->addresses == 1 ? "" : "es");
	print_build_id(&m->src, out);
	fprintf(out, "\n    %s\n", complaint(m));
	if (m->src.damaged || m->not_recognised)
		return false;
	if (m->src.state == SYMBOL_SOURCE_OK)
		advice = debug_package_advice_at(m->src.module, m->src.build_id, m->src.build_id_len);
	if (advice)
		fprintf(out, "    %s\n", advice);
	return m->src.build_id_len > 0;
}

static void print_gaps(const struct symbolize *s, FILE *out)
{
	bool any = false, help = false;
	size_t n;
	const struct symbolize_module *m = symbolize_modules(s, &n);

	for (size_t i = 0; i < n; i++) {
		if (!has_gap(&m[i]))
			continue;
		if (!any)
			fputs("\nmodules with gaps:\n", out);
		any = true;
		help |= print_gap(&m[i], out);
	}
	if (help)
		fputs("\nDebug information is found by build id once it is installed, when DEBUGINFOD_URLS "
		      "names a "
		      "server that has it,\nor with --debug-dir DIR; then run this again.\n",
		      out);
}

void symbolize_print_text(const struct symbolize *s, const char *log, FILE *out)
{
	const struct symbolize_totals *t = symbolize_totals(s);
	char path[512];

	fprintf(out, "%zu code address%s: %zu with a function, %zu with file and line\n", t->addresses,
		t->addresses == 1 ? "" : "es", t->named, t->with_lines);
	if (t->outside)
		fprintf(out, "%zu more are in no module: nothing is known about them\n", t->outside);
	if (t->stored)
		fprintf(out, "the names are in %s now\n", utf8_clean(log, path, sizeof(path)));
	print_gaps(s, out);
}

/* JSON */

static void put_frames(struct json *j, const struct symbolize_address *a)
{
	json_open(j, "frames", '[');
	for (size_t i = 0; i < a->nframes; i++) {
		const struct frame_name *f = &a->frame[i];

		json_open(j, NULL, '{');
		if (f->function)
			json_text(j, "function", f->function);
		if (f->file)
			json_text(j, "file", f->file);
		if (f->file && f->line)
			json_number(j, "line", f->line);
		json_bool(j, "inlined", i + 1 < a->nframes);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static bool print_address(struct json *j, const struct symbolize_address *a, FILE *out)
{
	json_open(j, NULL, '{');
	json_text(j, "type", "address");
	json_text(j, "module", a->module);
	if (a->build_id_len)
		json_bytes(j, "build_id", a->build_id, a->build_id_len);
	json_hex(j, "address", a->address);
	if (a->start)
		json_number(j, "offset", a->address - a->start);
	put_frames(j, a);
	json_close(j, '}');
	return json_end_line(j, out);
}

static bool print_module(struct json *j, const struct symbolize_module *m, FILE *out)
{
	json_open(j, NULL, '{');
	json_text(j, "type", "module");
	json_text(j, "module", m->src.module);
	if (m->src.build_id_len)
		json_bytes(j, "build_id", m->src.build_id, m->src.build_id_len);
	json_text(j, "state", m->not_recognised ? "not-recognised" : state_word[m->src.state]);
	json_text(j, "detail", detail_word[m->src.detail]);
	json_bool(j, "damaged", m->src.damaged);
	if (m->src.debug_path)
		json_text(j, "debug_file", m->src.debug_path);
	json_number(j, "addresses", m->addresses);
	json_number(j, "named", m->named);
	json_number(j, "with_lines", m->with_lines);
	json_close(j, '}');
	return json_end_line(j, out);
}

static bool print_summary(struct json *j, const struct symbolize_totals *t, FILE *out)
{
	json_open(j, NULL, '{');
	json_text(j, "type", "summary");
	json_number(j, "addresses", t->addresses);
	json_number(j, "named", t->named);
	json_number(j, "with_lines", t->with_lines);
	json_number(j, "outside", t->outside);
	json_bool(j, "stored", t->stored);
	json_close(j, '}');
	return json_end_line(j, out);
}

struct wc_error *symbolize_print_json(const struct symbolize *s, FILE *out)
{
	scoped(json_deinit) struct json j = { 0 };
	const struct symbolize_address *a;
	const struct symbolize_module *m;
	bool ok = true;
	size_t n;

	a = symbolize_addresses(s, &n);
	for (size_t i = 0; i < n && ok; i++)
		ok = print_address(&j, &a[i], out);
	m = symbolize_modules(s, &n);
	for (size_t i = 0; i < n && ok; i++)
		ok = print_module(&j, &m[i], out);
	return ok && print_summary(&j, symbolize_totals(s), out) ? NULL : &wc_enomem;
}
