/*
 * Any text is an expression or a usage error, of a variable and of code: the parsers come to an end, and what
 * they accept has the parts that the search relies on.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/locate/code_name_parse.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/symbols/code_name_match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool claim)
{
	if (!claim)
		abort();
}

static void check_parts(const struct locate_expr *e)
{
	if (e->is_raw) {
		require(!e->base && !e->nsteps && !e->nprefixes);
		return;
	}
	require(e->base && *e->base && e->nprefixes <= 2);
	for (size_t i = 0; i < e->nprefixes; i++)
		require(e->prefix[i] && *e->prefix[i]);
	for (size_t i = 0; i < e->nsteps; i++) {
		bool has_name = e->step[i].op == LOCATE_MEMBER || e->step[i].op == LOCATE_ARROW;

		require(e->step[i].op <= LOCATE_DEREF);
		require(!has_name || (e->step[i].name && *e->step[i].name));
		require((e->step[i].op == LOCATE_INDEX) == (e->step[i].index && e->step[i].nindices));
		require(e->step[i].nindices <= LOCATE_INDICES);
	}
}

static void check_code(const char *text)
{
	struct code_expr e = { 0 };
	struct wc_error *err = code_name_parse(text, &e);
	enum hit_part part;
	size_t len;

	if (err)
		require(err->kind == WC_EUSAGE && err->text && *err->text);
	else if (!e.is_raw)
		require(e.nprefixes <= 2 && (e.name ? *e.name != '\0' : e.line > 0 && e.nprefixes > 0));
	if (e.name) {
		/* A name answers to itself, whatever it is. */
		code_name_fit(e.name, e.name, &part);
		require(strlen(code_name_word(e.name, &len)) >= len);
		free(code_name_shown(e.name));
	}
	wc_error_free(err);
	code_expr_deinit(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct locate_expr e = { 0 };
	char *text = strndup((const char *)data, size);
	struct wc_error *err = locate_parse(text, &e);

	check_code(text);

	if (err)
		require(err->kind == WC_EUSAGE && err->text && *err->text);
	else
		check_parts(&e);
	wc_error_free(err);
	locate_expr_deinit(&e);
	free(text);
	return 0;
}
