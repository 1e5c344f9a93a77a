#include "watchctl/cli/request/step_pace.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/base/utf8.h"
#include "watchctl/step/model/step_select.h"

#define SHARE_PERCENT 20u
#define CALLS_MIN 1000u /* fewer do not show what a run consists of */
#define SECOND_NS 1000000000.0
#define NAME_MAX_BYTES 512u

/* "1,234,567" */
static void add_number(struct text_buf *t, uint64_t n)
{
	char digits[24];
	size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), i;

	for (i = 0; i < len; i++)
		text_buf_printf(t, "%s%c", i && !((len - i) % 3) ? "," : "", digits[i]);
}

/* To two digits: more would only flicker. */
static uint64_t rounded(double n)
{
	uint64_t unit = 1, whole = (uint64_t)n;

	while (whole / unit >= 100)
		unit *= 10;
	return whole / unit * unit;
}

static unsigned int percent(uint64_t part, uint64_t all)
{
	return (unsigned int)((double)part * 100 / (double)all);
}

static bool needs_quotes(const char *pattern)
{
	for (; *pattern; pattern++)
		if (!isalnum((unsigned char)*pattern) && !strchr("_:.,+-@%", *pattern))
			return true;
	return false;
}

/* As a word for a shell, of a pattern that matches just this name. */
static void add_pattern(struct text_buf *t, const char *name, size_t len)
{
	char raw[2 * NAME_MAX_BYTES + 1], pattern[sizeof(raw)], *end = raw;
	bool quotes;
	size_t i;

	for (i = 0; i < len && i < NAME_MAX_BYTES; i++) {
		if (strchr("*?[\\", name[i]))
			*end++ = '\\';
		*end++ = name[i];
	}
	*end = '\0';
	utf8_clean(raw, pattern, sizeof(pattern)); /* '?' for each byte that is none, which matches that */
	quotes = needs_quotes(pattern);
	text_buf_add(t, quotes ? "--skip '" : "--skip ");
	for (i = 0; pattern[i]; i++)
		text_buf_printf(t, pattern[i] == '\'' ? "'\\%c'" : "%c", pattern[i]);
	text_buf_add(t, quotes ? "'" : "");
}

static void add_name(struct text_buf *t, const char *name)
{
	char bare[NAME_MAX_BYTES + 1], clean[NAME_MAX_BYTES + 1];

	snprintf(bare, sizeof(bare), "%.*s", (int)step_select_bare(name), name);
	text_buf_add(t, utf8_clean(bare, clean, sizeof(clean)));
}

static void add_most(struct text_buf *t, uint64_t calls, const struct step_most *most, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		text_buf_printf(t, i ? " and %u %% of " : "; %u %% are of ", percent(most[i].calls, calls));
		add_name(t, most[i].name);
	}
	text_buf_add(t, ":");
	for (i = 0; i < n; i++) {
		text_buf_char(t, ' ');
		add_pattern(t, most[i].name, step_select_bare(most[i].name));
	}
	text_buf_add(t, n == 1 ? " leaves it out" : " leaves them out");
}

char *step_pace_text(uint64_t calls, uint64_t ns, const struct step_most most[STEP_MOST])
{
	struct text_buf t = { 0 };
	char *ret = NULL;
	size_t n = 0;

	add_number(&t, calls);
	text_buf_add(&t, calls == 1 ? " call, " : " calls, ");
	add_number(&t, rounded((double)calls * SECOND_NS / (double)(ns ? ns : 1)));
	text_buf_add(&t, "/s");
	while (n < STEP_MOST && most[n].name && percent(most[n].calls, calls) >= SHARE_PERCENT)
		n++;
	if (calls >= CALLS_MIN && n)
		add_most(&t, calls, most, n);
	else if (calls >= CALLS_MIN && !most[0].name && percent(most[0].calls, calls) >= SHARE_PERCENT)
		text_buf_printf(&t, "; %u %% are of a function without a name: --depth may leave it out",
				percent(most[0].calls, calls));
	if (!t.failed)
		ret = strdup(text_buf_text(&t));
	text_buf_deinit(&t);
	return ret;
}
