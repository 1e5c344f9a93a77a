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

static void check_parts(const struct locate_expr *e);

static void check_step(const struct locate_step *s)
{
	bool has_name = s->op == LOCATE_MEMBER || s->op == LOCATE_ARROW || s->op == LOCATE_CAST;
	bool has_number = s->op == LOCATE_INDEX || s->op == LOCATE_SLICE ||
			  (s->op >= LOCATE_ADD && s->op <= LOCATE_DIV);

	require(s->op <= LOCATE_NEGATE);
	require(has_name == (s->name && *s->name));
	require(has_number == (s->index && s->nindices));
	require(s->nindices <= (s->op == LOCATE_INDEX ? LOCATE_INDICES : 1));
	require(!s->operand || has_number);
	require(!s->stars || s->op == LOCATE_CAST);
	for (unsigned int i = 0; s->operand && i < s->nindices; i++)
		if (s->operand[i])
			check_parts(s->operand[i]);
}

static void check_parts(const struct locate_expr *e)
{
	if (e->is_raw) {
		require(!e->base && !e->nsteps && !e->nprefixes);
		return;
	}
	require(!!e->base + !!e->sized + e->is_number == 1);
	require((!e->base || *e->base) && e->nprefixes <= 2);
	require(!e->is_type || (e->base && !e->nsteps));
	if (e->sized)
		check_parts(e->sized);
	for (size_t i = 0; i < e->nprefixes; i++)
		require(e->prefix[i] && *e->prefix[i]);
	for (size_t i = 0; i < e->nsteps; i++)
		check_step(&e->step[i]);
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
