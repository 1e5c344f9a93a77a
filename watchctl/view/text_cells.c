/* The pieces of lines that people read: cells, colours, places, values, times. */
#include "watchctl/view/printer_impl.h"

#include <string.h>
#include <time.h>

#include "watchctl/base/utf8.h"

static const char *const style_codes[STYLES] = {
	[STYLE_DIM] = "2",     [STYLE_WATCH] = "1",  [STYLE_READ] = "32",    [STYLE_WRITE] = "31",
	[STYLE_UPDATE] = "33", [STYLE_PLACE] = "36", [STYLE_ALERT] = "1;31", [STYLE_TAG] = "35",
};

void text_cell(struct printer *p, enum style style, const char *text, size_t width)
{
	size_t columns = utf8_columns(text);

	if (p->opt.colour && *text)
		fprintf(p->out, "\033[%sm%s\033[0m", style_codes[style], text);
	else
		fputs(text, p->out);
	if (columns < width)
		fprintf(p->out, "%*s", (int)(width - columns), "");
}

const char *text_kind(enum access_kind kind)
{
	switch (kind) {
	case ACCESS_READ:
		return "read";
	case ACCESS_WRITE:
		return "write";
	case ACCESS_READWRITE:
		return "rw";
	case ACCESS_EXECUTE:
		return "exec";
	case ACCESS_UNKNOWN:
		break;
	}
	return "?";
}

const char *text_kind_name(enum access_kind kind)
{
	static const char *const name[] = {
		[ACCESS_UNKNOWN] = "unknown",	  [ACCESS_READ] = "read",	[ACCESS_WRITE] = "write",
		[ACCESS_READWRITE] = "readwrite", [ACCESS_EXECUTE] = "execute",
	};

	return name[kind];
}

const char *text_access(uint32_t access)
{
	switch (access) {
	case ACCESS_READ:
		return "reads";
	case ACCESS_WRITE:
		return "writes";
	case ACCESS_EXECUTE:
		return "executions";
	default:
		return "reads and writes";
	}
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

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void text_place(const char *module, uint64_t module_offset, const char *function, uint64_t offset,
		uint64_t ip, char *buf, size_t cap)
{
	char clean[CELL_TEXT - 32];

	if (function) {
		utf8_clean(function, clean, sizeof(clean));
		snprintf(buf, cap, offset ? "%s+%llu" : "%s", clean, (unsigned long long)offset);
	} else if (module) {
		utf8_clean(text_base_name(module), clean, sizeof(clean));
		snprintf(buf, cap, "%s+0x%llx", clean, (unsigned long long)module_offset);
	} else {
		snprintf(buf, cap, "0x%llx", (unsigned long long)ip);
	}
}

void text_source(const char *file, unsigned int line, char *buf, size_t cap)
{
	char clean[256];

	buf[0] = '\0';
	if (!file)
		return;
	utf8_clean(text_base_name(file), clean, sizeof(clean));
	if (line)
		snprintf(buf, cap, "%s:%u", clean, line);
	else
		snprintf(buf, cap, "%s", clean);
}

void text_change(enum access_kind kind, const char *old_text, const char *new_text, bool same, char *buf,
		 size_t cap)
{
	char was[200], is[200];

	utf8_clean(old_text ? old_text : "?", was, sizeof(was));
	utf8_clean(new_text ? new_text : "?", is, sizeof(is));
	if (kind == ACCESS_EXECUTE)
		buf[0] = '\0';
	else if (new_text == view_withheld)
		snprintf(buf, cap, "%s", view_withheld);
	else if (kind == ACCESS_READ || (kind == ACCESS_UNKNOWN && same) || (!old_text && !new_text))
		snprintf(buf, cap, "%s", is);
	else if (same)
		snprintf(buf, cap, "%s (same)", is);
	else
		snprintf(buf, cap, "%s -> %s", was, is);
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
	snprintf(buf, cap, "%s.%06llu", p->clock, (unsigned long long)(ns % 1000000000u / 1000));
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

void text_number(uint64_t v, char *buf, size_t cap)
{
	snprintf(buf, cap, v < (uint64_t)1 << 40 ? "%llu" : "0x%llx", (unsigned long long)v);
}

void text_duration(uint64_t ns, char *buf, size_t cap)
{
	if (ns < 1000)
		snprintf(buf, cap, "%llu ns", (unsigned long long)ns);
	else if (ns < 1000000)
		snprintf(buf, cap, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, cap, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(buf, cap, "%.1f s", (double)ns / 1e9);
}
