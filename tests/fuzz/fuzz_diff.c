/*
 * Any two logs can be compared, whatever is in them: diff comes to an end, and what it finds can be printed,
 * fit for a terminal, for programs and for a browser. The good log is the input; the bad one is the same with
 * some bytes changed, left out or put in, as the first bytes of the input say, so that most of it still
 * aligns.
 */
#include <stdio.h>

#include "tests/fuzz/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/log.h"
#include "watchctl/view/diff/diff_print.h"

#define EDIT_BYTES 6

static char good[FUZZ_LOG_PATH], bad[FUZZ_LOG_PATH];

/* Where, what, how many: one edit of the bad log. */
static void write_bad(const uint8_t *edit, const uint8_t *events, size_t len)
{
	size_t at = len ? (edit[0] | (size_t)edit[1] << 8) % len : 0, n = edit[3] % 64;
	uint8_t *copy = malloc(len + 64);

	require(copy);
	memcpy(copy, events, len);
	if (edit[2] % 3 == 0 && len) {
		copy[at] ^= edit[4] ? edit[4] : 1;
	} else if (edit[2] % 3 == 1 && at + n <= len) {
		memmove(copy + at, copy + at + n, len - at - n);
		len -= n;
	} else if (at + n <= len) {
		memmove(copy + at + n, copy + at, len - at);
		len += n;
	}
	fuzz_log_events(bad, copy, len);
	free(copy);
}

enum form { FORM_TEXT, FORM_JSON, FORM_HTML };

static void print(struct diff_result *r, enum form form)
{
	const struct diff_print_options o = { .width = 100, .groups = 20 };
	struct wc_error *err;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	require(out);
	err = form == FORM_TEXT	  ? diff_print_text(r, out, &o)
	      : form == FORM_JSON ? diff_print_json(r, out)
				  : diff_print_html(r, out, &o);
	require(!fclose(out) && text);
	if (!err && form == FORM_TEXT)
		check_text(text, len);
	else if (!err && form == FORM_JSON)
		check_json_lines(text, len);
	else if (!err)
		check_html(text, len);
	wc_error_free(err);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const logs[] = { good };
	struct diff_options o = { .good = logs, .ngood = 1, .bad = bad };
	struct diff_result *r = NULL;
	struct wc_error *err;

	if (!*good) {
		fuzz_log_make("diff.good", good);
		fuzz_log_make("diff.bad", bad);
	}
	if (size < EDIT_BYTES)
		return 0;
	o.by_name = data[5] & 1;
	o.anyway = data[5] & 2;
	o.weak = data[5] & 4;
	fuzz_log_events(good, data + EDIT_BYTES, size - EDIT_BYTES);
	write_bad(data, data + EDIT_BYTES, size - EDIT_BYTES);
	err = diff_run(&o, &r);
	for (enum form form = FORM_TEXT; !err && form <= FORM_HTML; form++)
		print(r, form);
	wc_error_free(err);
	diff_result_free(r);
	return 0;
}
