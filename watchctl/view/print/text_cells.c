/* The pieces of lines that people read: cells, colours, places, values, times. */
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"

#include <string.h>
#include <time.h>

#include "watchctl/base/utf8.h"

static const char *const style_codes[STYLES] = {
	[STYLE_DIM] = "2",     [STYLE_WATCH] = "1",  [STYLE_READ] = "32",    [STYLE_WRITE] = "31",
	[STYLE_UPDATE] = "33", [STYLE_PLACE] = "36", [STYLE_ALERT] = "1;31", [STYLE_TAG] = "35",
};

void text_cell(struct printer *p, enum style style, const char *text, size_t width)
{
	size_t columns = width ? utf8_columns(text) : 0;

	if (p->opt.colour && *text)
		fprintf(p->out, "\033[%sm%s\033[0m", style_codes[style], text);
	else
		fputs(text, p->out);
	if (columns < width)
		fprintf(p->out, "%*s", (int)(width - columns), "");
}

enum style text_kind_style(enum access_kind kind)
{
	switch (kind) {
	case ACCESS_READ:
		return STYLE_READ;
	case ACCESS_WRITE:
		return STYLE_WRITE;
	default:
		return STYLE_UPDATE;
	}
}

/* "12:34:56.789012", without printf: there are millions of them. */
static void text_clock(const char *clock, uint32_t us, char *buf, size_t cap)
{
	size_t n = strlen(clock);

	if (n + 8 > cap) {
		snprintf(buf, cap, "%s", clock);
		return;
	}
	memcpy(buf, clock, n);
	buf[n] = '.';
	for (size_t i = n + 6; i > n; i--, us /= 10)
		buf[i] = (char)('0' + us % 10);
	buf[n + 7] = '\0';
}

void text_time(struct printer *p, struct view_time t, char *buf, size_t cap)
{
	uint64_t ns = t.real_ns ? t.real_ns : t.mono_ns;
	uint64_t second = ns / 1000000000u;
	time_t clock = second;
	struct tm tm;

	if (!t.real_ns) {
		snprintf(buf, cap, "%8llu.%06llu", (unsigned long long)second,
			 (unsigned long long)(ns % 1000000000u / 1000));
		return;
	}
	if (second != p->second || !p->clock[0]) {
		if (!(p->opt.utc ? gmtime_r(&clock, &tm) : localtime_r(&clock, &tm)))
			memset(&tm, 0, sizeof(tm));
		strftime(p->clock, sizeof(p->clock), "%H:%M:%S", &tm);
		p->second = second;
	}
	text_clock(p->clock, (uint32_t)(ns % 1000000000u / 1000), buf, cap);
}

bool text_overflows(const struct printer *p, size_t columns)
{
	return p->opt.width && columns > p->opt.width;
}

void text_begin_ending(struct printer *p)
{
	if (!p->ended)
		fputc('\n', p->out);
	p->ended = true;
}
