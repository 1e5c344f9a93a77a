/*
 * The page: its skeleton, style and script are files of their own (page*.html, .css, .js), built into the
 * program; what comes from the log stands in two blocks of data that a browser never runs. The policy in the
 * head names the script and the style by their checksums, so that nothing else could run either.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "page_assets.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/page/page.h"
#include "watchctl/view/page/page_impl.h"

#define ASSETS 200000 /* bytes at most, of the three together */

/* Made by tools/page.mk; each ends with a NUL. */
extern const char page_body_html[], page_body_html_end[];
extern const char page_style_css[], page_style_css_end[];
extern const char page_script_js[], page_script_js_end[];

static const char policy[] =
	"default-src 'none'; script-src '" PAGE_SCRIPT_HASH "'; style-src '" PAGE_STYLE_HASH
	"'; img-src data:; base-uri 'none'; form-action 'none'";

static void put_asset(const char *start, const char *end, FILE *out)
{
	fwrite(start, 1, (size_t)(end - start), out);
}

static void put_text(const char *s, FILE *out)
{
	for (; *s; s++) {
		if (*s == '<')
			fputs("&lt;", out);
		else if (*s == '&')
			fputs("&amp;", out);
		else
			fputc(*s, out);
	}
}

/* JSON has '<' in texts only, where it may be written in another way: no tag can begin in it. */
static void put_json(const struct json *j, FILE *out)
{
	const char *p = j->line.bytes, *end = p + j->line.len;

	while (p < end) {
		const char *at = memchr(p, '<', (size_t)(end - p));
		const char *stop = at ? at : end;

		fwrite(p, 1, (size_t)(stop - p), out);
		if (at)
			fputs(PAGE_ESCAPED_LESS, out);
		p = stop + (at != NULL);
	}
}

static void put_base64(const struct page_bytes *b, FILE *out)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char line[4096] = "";
	size_t used = 0, i;

	for (i = 0; i < b->n; i += 3) {
		size_t left = b->n - i;
		uint32_t v = (uint32_t)b->v[i] << 16 | (left > 1 ? b->v[i + 1] << 8 : 0) |
			     (left > 2 ? b->v[i + 2] : 0);

		line[used++] = digit[v >> 18];
		line[used++] = digit[v >> 12 & 63];
		line[used++] = left > 1 ? digit[v >> 6 & 63] : '=';
		line[used++] = left > 2 ? digit[v & 63] : '=';
		if (used == sizeof(line)) {
			fwrite(line, 1, used, out);
			used = 0;
		}
	}
	fwrite(line, 1, used, out);
}

static void put_title(struct page *p, FILE *out)
{
	char clean[200];
	size_t i;

	for (i = 0; i < p->nwatches && i < 4; i++) {
		fputs(i ? ", " : "", out);
		put_text(utf8_clean(p->watch[i]->w->e.name, clean, sizeof(clean)), out);
	}
	fputs(i ? " - " : "", out);
	put_text(utf8_clean(p->opt.log, clean, sizeof(clean)), out);
	fputs(" - watchctl", out);
}

static void put_page(struct page *p, const struct json *data, const struct page_bytes *events, FILE *out)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"",
	      out);
	fputs(policy, out);
	fputs("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
	      out);
	put_title(p, out);
	fputs("</title>\n<style>", out);
	put_asset(page_style_css, page_style_css_end, out);
	fputs("</style></head>\n", out);
	put_asset(page_body_html, page_body_html_end, out);
	fputs("<script type=\"application/json\" id=\"data\">", out);
	put_json(data, out);
	fputs("</script>\n<script type=\"text/plain\" id=\"events\">", out);
	put_base64(events, out);
	fputs("</script>\n<script>", out);
	put_asset(page_script_js, page_script_js_end, out);
	fputs("</script>\n</body></html>\n", out);
}

/* The chosen ones as the encoder wants them. */
static struct page_event *plain_events(struct page_detail *const *d, size_t n)
{
	struct page_event *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = d[i]->e;
	return v;
}

/* The rows that found no room: what happened there has no values of its own, as page_data.js knows by the
 * place. */
static void join_rest(struct page *p, struct page_event *v, size_t n, const struct page_reported *reported)
{
	for (size_t i = 0; i < n; i++) {
		const struct page_combo *c = &p->tables.combo[v[i].what];

		if (!c->capture && c->place >= reported->sites)
			v[i].series = PAGE_REST_SERIES;
	}
}

/*
 * Whatever the log is, the accesses with registers have room in the time line: beside all that is bounded by
 * a room, a combination takes 28 bytes (of its five numbers only the count is not small, and the counts add
 * up to the length of the log), a row of registers 17 a register, and what is in the time line 45 before
 * base64.
 */
static_assert(PAGE_ROOM_HEAD + PAGE_ROOM_PROCESSES + PAGE_ROOM_NOTES + PAGE_ROOM_TAGS + PAGE_ROOM_WATCHES +
			      PAGE_ROOM_PICTURES + PAGE_ROOM_THREADS + PAGE_ROOM_TEXTS + PAGE_ROOM_FRAMES +
			      PAGE_ROOM_STACKS + PAGE_ROOM_SITES + PAGE_ROOM_LISTINGS +
			      (PAGE_COMBOS + 2 * PAGE_SITES) * 28 + PAGE_DETAILS * (WREG_COUNT * 17 + 4) +
			      PAGE_DETAILS * 45 / 3 * 4 + ASSETS <
		      PAGE_BYTES,
	      "the other parts of the page leave no space for its time line");

/* What is left of the page for the time line, in bytes before base64 makes a third more of them. */
static size_t room_for_events(const struct page *p, const struct json *data)
{
	size_t most = p->opt.max_bytes ? p->opt.max_bytes : PAGE_EVENT_BYTES;
	size_t fixed = strlen(page_body_html) + strlen(page_style_css) + strlen(page_script_js);
	size_t used = page_cost(data, 0) + fixed + PAGE_ROOM_HEAD;
	size_t left = used < PAGE_BYTES ? (PAGE_BYTES - used) / 4 * 3 : 0;

	return left < most ? left : most;
}

struct wc_error *page_write(struct page *p, const struct replay_ending *ending, FILE *out)
{
	scoped(freep) struct page_detail **detail = NULL;
	scoped(freep) struct page_event *extra = NULL;
	struct page_reported reported = { .ending = ending };
	struct page_bytes bytes = { 0 };
	struct json data = { 0 };
	bool ok = !p->no_memory && page_choice_list(&p->choice, &detail, &reported.ndetails);

	if (ok)
		extra = plain_events(detail, reported.ndetails);
	reported.detail = detail;
	ok = ok && extra && page_json(p, &reported, &data);
	if (ok) {
		join_rest(p, p->events.v, p->events.n, &reported);
		join_rest(p, extra, reported.ndetails, &reported);
	}
	ok = ok && page_events_encode(&p->events, extra, reported.ndetails, room_for_events(p, &data), &bytes,
				      &reported.nevents);
	ok = ok && page_json_end(p, &reported, &data);
	if (ok)
		put_page(p, &data, &bytes, out);
	free(bytes.v);
	json_deinit(&data);
	return ok ? NULL : &wc_enomem;
}
