/* Writes the page: the texts of values come behind the script, which paints the calls before they are there. */
#include <stdlib.h>

#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/callpage/callpage_impl.h"
#include "watchctl/view/page/page_shell.h"

static void put_title(const struct callpage *p, FILE *out)
{
	char clean[200];

	page_shell_text(utf8_clean(p->opt.log, clean, sizeof(clean)), out);
	page_shell_text(" - calls - watchctl", out);
}

static void put_page(const struct callpage *p, const struct json *data, const struct json *texts,
		     const struct page_bytes *columns, const struct page_bytes *values, FILE *out)
{
	page_shell_begin(&page_shell_calls, out);
	put_title(p, out);
	page_shell_body(&page_shell_calls, out);
	page_shell_json("data", data, out);
	page_shell_bytes("columns", columns, out);
	page_shell_script(&page_shell_calls, out);
	page_shell_bytes("values", values, out);
	page_shell_json("texts", texts, out);
	page_shell_end(out);
}

struct wc_error *callpage_write(struct callpage *p, const struct replay_ending *ending, FILE *out)
{
	struct page_bytes columns = { 0 }, values = { 0 };
	struct json data = { 0 }, texts = { 0 };
	size_t start[CALLPAGE_COLUMNS];
	bool ok;

	ok = !p->no_memory && callpage_calls_encode(&p->kept, p->clock.end_ns, &columns, start, &values) &&
	     callpage_json(p, ending, start, &data) && callpage_texts_json(p, &texts);
	if (ok)
		put_page(p, &data, &texts, &columns, &values, out);
	free(columns.v);
	free(values.v);
	json_deinit(&data);
	json_deinit(&texts);
	return ok ? NULL : &wc_enomem;
}
