/*
 * Any text is an expression or a usage error: the parser comes to an end, and what it accepts has the
 * parts that the search for the variable relies on.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stackwalk/locate_parse.h"

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
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct locate_expr e = { 0 };
	char *text = strndup((const char *)data, size);
	struct wc_error *err = locate_parse(text, &e);

	if (err)
		require(err->kind == WC_EUSAGE && err->text && *err->text);
	else
		check_parts(&e);
	wc_error_free(err);
	locate_expr_deinit(&e);
	free(text);
	return 0;
}
