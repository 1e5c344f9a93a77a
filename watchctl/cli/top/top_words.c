#include "watchctl/cli/top/top_words.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void top_count_text(uint64_t n, char *buf, size_t cap)
{
	char digits[24];
	size_t len = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), i, used = 0;

	for (i = 0; i < len && used + 2 < cap; i++) {
		if (i && (len - i) % 3 == 0)
			buf[used++] = ',';
		buf[used++] = digits[i];
	}
	buf[used] = '\0';
}

void top_rate_text(double rate, char *buf, size_t cap)
{
	char number[TOP_WORD];

	if (rate > 0 && rate < 9.95) {
		snprintf(buf, cap, "%.1f/s", rate);
		return;
	}
	top_count_text((uint64_t)(rate + 0.5), number, sizeof(number));
	snprintf(buf, cap, "%s/s", number);
}

void top_elapsed_text(uint64_t ns, char *buf, size_t cap)
{
	unsigned long long s = ns / 1000000000u;

	if (s < 60)
		snprintf(buf, cap, "%llu.%llu s", s, (unsigned long long)(ns / 100000000u % 10));
	else if (s < 3600)
		snprintf(buf, cap, "%llu:%02llu", s / 60, s % 60);
	else
		snprintf(buf, cap, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
}

void top_time_text(struct view_time t, char *buf, size_t cap)
{
	uint64_t ns = t.real_ns ? t.real_ns : t.mono_ns;
	time_t second = (time_t)(ns / 1000000000u);
	unsigned int ms = (unsigned int)(ns / 1000000u % 1000);
	char clock[16];
	struct tm tm;

	if (!t.real_ns || !localtime_r(&second, &tm)) {
		snprintf(buf, cap, "%llu.%03u s", (unsigned long long)(t.mono_ns / 1000000000u), ms);
		return;
	}
	strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	snprintf(buf, cap, "%s.%03u", clock, ms);
}

/* How much of one row, of @steps, the column fills; anything above 0 is seen in the lowest row. */
static int filled(double value, double max, int row, int rows, int steps)
{
	double whole = max > 0 ? value / max * rows * steps : 0;
	int level = (int)(whole + 0.5) - (rows - 1 - row) * steps;

	if (level < 0)
		level = 0;
	if (value > 0 && row == rows - 1 && !level)
		level = 1;
	return level < steps ? level : steps;
}

void top_graph_text(const double *column, size_t n, double max, int row, int rows, bool utf8, char *buf,
		    size_t cap)
{
	static const char *const blocks[] = { " ",	"\u2581", "\u2582", "\u2583", "\u2584",
					      "\u2585", "\u2586", "\u2587", "\u2588" };
	static const char *const signs[] = { " ", ".", ":", "|", "#" };
	size_t used = 0, i;

	for (i = 0; i < n; i++) {
		const char *s = utf8 ? blocks[filled(column[i], max, row, rows, 8)]
				     : signs[filled(column[i], max, row, rows, 4)];
		size_t len = strlen(s);

		if (used + len + 1 > cap)
			break;
		memcpy(buf + used, s, len);
		used += len;
	}
	buf[used] = '\0';
}

const char *top_plural(uint64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}
