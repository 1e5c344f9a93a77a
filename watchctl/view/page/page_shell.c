#include "watchctl/view/page/page_shell.h"

#include <string.h>

#include "page_assets.h"
#include "watchctl/view/page/page_room.h"

struct page_shell {
	const char *policy;
	const char *style, *body, *script; /* NUL-terminated */
};

/* Made by tools/page.mk; each ends with a NUL. */
extern const char page_body_html[], page_style_css[], page_script_js[];
extern const char page_calls_html[], page_calls_css[], page_calls_js[];
extern const char page_flow_html[], page_flow_css[], page_flow_js[];

#define POLICY(script, style)                                            \
	"default-src 'none'; script-src '" script "'; style-src '" style \
	"'; img-src data:; base-uri 'none'; form-action 'none'"

const struct page_shell page_shell_watches = {
	.policy = POLICY(PAGE_SCRIPT_HASH, PAGE_STYLE_HASH),
	.style = page_style_css,
	.body = page_body_html,
	.script = page_script_js,
};

const struct page_shell page_shell_calls = {
	.policy = POLICY(CALLS_SCRIPT_HASH, CALLS_STYLE_HASH),
	.style = page_calls_css,
	.body = page_calls_html,
	.script = page_calls_js,
};

const struct page_shell page_shell_flow = {
	.policy = POLICY(FLOW_SCRIPT_HASH, FLOW_STYLE_HASH),
	.style = page_flow_css,
	.body = page_flow_html,
	.script = page_flow_js,
};

void page_shell_begin(const struct page_shell *s, FILE *out)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"",
	      out);
	fputs(s->policy, out);
	fputs("\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
	      out);
}

void page_shell_body(const struct page_shell *s, FILE *out)
{
	fputs("</title>\n<style>", out);
	fputs(s->style, out);
	fputs("</style></head>\n", out);
	fputs(s->body, out);
}

void page_shell_script(const struct page_shell *s, FILE *out)
{
	fputs("<script>", out);
	fputs(s->script, out);
	fputs("</script>\n", out);
}

void page_shell_end(FILE *out)
{
	fputs("</body></html>\n", out);
}

void page_shell_text(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else
			fputc(*text, out);
	}
}

/* JSON has '<' in texts only, where it may be written in another way: no tag can begin in it. */
void page_shell_json(const char *id, const struct json *j, FILE *out)
{
	const char *p = j->line.bytes, *end = p + j->line.len;

	fprintf(out, "<script type=\"application/json\" id=\"%s\">", id);
	while (p < end) {
		const char *at = memchr(p, '<', (size_t)(end - p));
		const char *stop = at ? at : end;

		fwrite(p, 1, (size_t)(stop - p), out);
		if (at)
			fputs(PAGE_ESCAPED_LESS, out);
		p = stop + (at != NULL);
	}
	fputs("</script>\n", out);
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

void page_shell_bytes(const char *id, const struct page_bytes *b, FILE *out)
{
	fprintf(out, "<script type=\"text/plain\" id=\"%s\">", id);
	put_base64(b, out);
	fputs("</script>\n", out);
}

size_t page_shell_size(const struct page_shell *s)
{
	return strlen(s->style) + strlen(s->body) + strlen(s->script);
}
