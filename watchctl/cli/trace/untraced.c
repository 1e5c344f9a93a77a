#include "watchctl/cli/trace/untraced.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"

#define NAME_MAX_SHOWN 400 /* of a note, and of a line */

/* "lib.so.1  name", or its place. */
static char *name_of(const struct call_untraced *u, char *buf, size_t cap)
{
	char offset[32], raw[NAME_MAX_SHOWN], places[40] = "";
	int width = (int)(sizeof(raw) - sizeof(places) - 1);

	snprintf(offset, sizeof(offset), "0x%" PRIx64, u->module_offset);
	if (u->at_end)
		snprintf(places, sizeof(places), "  (%u place%s)", u->places, plural(u->places));
	width -= snprintf(raw, sizeof(raw), "%.100s  ", text_base_name(u->module));
	snprintf(raw, sizeof(raw), "%.100s  %.*s%s", text_base_name(u->module), width,
		 u->function ? u->function : offset, places);
	return utf8_clean(raw, buf, cap);
}

static const char *heading(const struct call_untraced *u)
{
	return u->at_end ? "not all ends seen" : "not traced";
}

/* Text */

static int by_reason(const void *a, const void *b)
{
	const struct call_untraced *x = a, *y = b;
	int order = (x->at_end > y->at_end) - (x->at_end < y->at_end);

	if (!order)
		order = strcmp(x->why, y->why);
	if (!order)
		order = strcmp(x->module, y->module);
	return order ? order : (x->module_offset > y->module_offset) - (x->module_offset < y->module_offset);
}

static size_t alike(const struct call_untraced *v, size_t n)
{
	size_t k = 1;

	while (k < n && v[k].at_end == v->at_end && !strcmp(v[k].why, v->why))
		k++;
	return k;
}

/* Sorts @v. */
static void print_text(FILE *out, struct call_untraced *v, size_t n)
{
	char name[NAME_MAX_SHOWN];

	if (n)
		qsort(v, n, sizeof(*v), by_reason);
	for (size_t i = 0, k; i < n; i += k) {
		k = alike(&v[i], n - i);
		fprintf(out, "%s, %zu function%s: %s\n", heading(&v[i]), k, plural(k), v[i].why);
		for (size_t j = i; j < i + k; j++)
			fprintf(out, "    %s\n", name_of(&v[j], name, sizeof(name)));
	}
}

/* JSON */

static bool print_json(FILE *out, const struct call_untraced *u)
{
	struct json j = { 0 };
	bool ok;

	json_open(&j, NULL, '{');
	json_text(&j, "type", "untraced");
	json_text(&j, "module", u->module);
	json_text_if(&j, "function", u->function);
	json_hex(&j, "module_offset", u->module_offset);
	json_text(&j, "place", u->at_end ? "end" : "entry");
	json_number(&j, "places", u->places);
	json_text(&j, "reason", u->why);
	json_close(&j, '}');
	ok = json_end_line(&j, out);
	json_deinit(&j);
	return ok;
}

/* The log */

static struct wc_error *note(struct untraced_list *l, const struct call_untraced *v, size_t n)
{
	char name[NAME_MAX_SHOWN], text[NAME_MAX_SHOWN + 200];
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < n && l->noted < UNTRACED_NOTES && !err; i++, l->noted++) {
		snprintf(text, sizeof(text), "%s: %s: %s", heading(&v[i]), name_of(&v[i], name, sizeof(name)),
			 v[i].why);
		err = recorder_note(l->log, text);
	}
	if (err || i == n)
		return err;
	snprintf(text, sizeof(text),
		 "... and %zu more that are not traced, or not all ends of which are seen", n - i);
	return recorder_note(l->log, text);
}

struct wc_error *untraced_tell(struct untraced_list *l, const struct call_trace *t)
{
	scoped(freep) struct call_untraced *v = NULL;
	struct call_untraced now;
	size_t n = 0, cap = 0;

	while (call_trace_untraced(t, &l->next, &now)) {
		if (!vec_push(v, n, cap, now) || (l->json && !print_json(l->out, &now)))
			return &wc_enomem;
	}
	if (!l->json)
		print_text(l->out, v, n);
	if (!l->json && !n && !l->told)
		fputs("all chosen functions are traced, and all of their ends are seen\n", l->out);
	fflush(l->out);
	l->told = true;
	return l->log ? note(l, v, n) : NULL;
}
