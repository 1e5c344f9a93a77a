#include "watchctl/view/event/time_bound.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000u

/* "5", "1.25" -> in units of @unit_ns, exact to the nanosecond; *@end is behind it. False: not a number. */
static bool parse_amount(const char *s, uint64_t *whole, uint64_t *fraction_ns, const char **end)
{
	uint64_t place = SECOND_NS / 10;

	*whole = *fraction_ns = 0;
	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(*whole, 10u, whole) ||
		    __builtin_add_overflow(*whole, (unsigned int)(*s - '0'), whole))
			return false;
	if (*s == '.')
		for (s++; *s >= '0' && *s <= '9'; s++, place /= 10)
			*fraction_ns += place * (unsigned int)(*s - '0');
	*end = s;
	return true;
}

static bool parse_after(const char *s, struct time_bound *ret)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ns", 1 },
		      { "us", 1000 },
		      { "ms", 1000000 },
		      { "s", SECOND_NS },
		      { "", SECOND_NS },
		      { "m", 60ull * SECOND_NS },
		      { "min", 60ull * SECOND_NS },
		      { "h", 3600ull * SECOND_NS } };
	uint64_t whole, fraction;
	size_t i;

	if (!parse_amount(s, &whole, &fraction, &s))
		return false;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(s, units[i].name))
			break;
	if (i == sizeof(units) / sizeof(units[0]) || __builtin_mul_overflow(whole, units[i].ns, &ret->ns))
		return false;
	fraction = (uint64_t)((unsigned __int128)fraction * units[i].ns / SECOND_NS);
	ret->kind = TIME_AFTER_BEGIN;
	return !__builtin_add_overflow(ret->ns, fraction, &ret->ns);
}

/* Two digits and what must follow them. */
static bool parse_two(const char **s, int max, char next, int *ret)
{
	const char *p = *s;

	if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9' || (next && p[2] != next))
		return false;
	*ret = (p[0] - '0') * 10 + p[1] - '0';
	*s = p + 2 + (next != 0);
	return *ret <= max;
}

static bool parse_clock(const char *s, struct time_bound *ret)
{
	uint64_t second;

	if (!parse_two(&s, 23, ':', &ret->clock[0]) || !parse_two(&s, 59, 0, &ret->clock[1]))
		return false;
	if (*s == ':') {
		if (!parse_amount(s + 1, &second, &ret->ns, &s) || second > 60)
			return false;
		ret->clock[2] = (int)second;
	}
	if (*s == 'Z') {
		ret->utc = true;
		s++;
	}
	return !*s;
}

static bool parse_date(const char *s, struct time_bound *ret)
{
	int used = 0;

	if (sscanf(s, "%4d-%2d-%2d%n", &ret->date[0], &ret->date[1], &ret->date[2], &used) != 3 ||
	    used != 10 || (s[used] != 'T' && s[used] != ' '))
		return false;
	ret->kind = TIME_DATE;
	return ret->date[1] >= 1 && ret->date[1] <= 12 && ret->date[2] >= 1 && ret->date[2] <= 31 &&
	       parse_clock(s + used + 1, ret);
}

static bool parse(const char *s, struct time_bound *ret)
{
	const char *end;
	uint64_t fraction;

	if (*s == '+')
		return parse_after(s + 1, ret);
	if (strchr(s, '-'))
		return parse_date(s, ret);
	if (strchr(s, ':')) {
		ret->kind = TIME_OF_DAY;
		return parse_clock(s, ret);
	}
	ret->kind = TIME_MONOTONIC;
	return parse_amount(s, &ret->ns, &fraction, &end) && !*end && !strchr(s, '.');
}

struct wc_error *time_bound_parse(const char *option, const char *text, bool utc, struct time_bound *ret)
{
	*ret = (struct time_bound){ .utc = utc, .text = text };
	if (parse(text, ret))
		return NULL;
	return wc_error_new(WC_EUSAGE,
			    "option %s wants a time: \"+1.5s\" after the log's beginning, \"12:34:56.789\", "
			    "\"2026-11-21T12:34:56Z\", or the nanoseconds of time_ns; not \"%s\"",
			    option, text);
}

static time_t to_seconds(struct tm *tm, bool utc)
{
	tm->tm_isdst = -1;
	return utc ? timegm(tm) : mktime(tm);
}

struct wc_error *time_bound_resolve(const struct time_bound *t, struct view_time begin, uint64_t *ret)
{
	time_t begun = (time_t)(begin.real_ns / SECOND_NS);
	struct tm tm = { 0 };
	__int128 real;

	if (t->kind == TIME_MONOTONIC || t->kind == TIME_AFTER_BEGIN) {
		*ret = t->ns;
		if (t->kind == TIME_AFTER_BEGIN && __builtin_add_overflow(begin.mono_ns, t->ns, ret))
			*ret = UINT64_MAX;
		return NULL;
	}
	if (!begin.real_ns || !(t->utc ? gmtime_r(&begun, &tm) : localtime_r(&begun, &tm)))
		return wc_error_new(WC_ENAME,
				    "the log does not have the time of day: \"%s\" cannot be found in it "
				    "(\"+1.5s\", after its beginning, can)",
				    t->text);
	if (t->kind == TIME_DATE) {
		tm.tm_year = t->date[0] - 1900;
		tm.tm_mon = t->date[1] - 1;
		tm.tm_mday = t->date[2];
	}
	tm.tm_hour = t->clock[0];
	tm.tm_min = t->clock[1];
	tm.tm_sec = t->clock[2];
	real = (__int128)to_seconds(&tm, t->utc) * SECOND_NS + t->ns;
	if (t->kind == TIME_OF_DAY && real < begin.real_ns) {
		tm.tm_mday++;
		real = (__int128)to_seconds(&tm, t->utc) * SECOND_NS + t->ns;
	}
	real -= (__int128)begin.real_ns - begin.mono_ns;
	*ret = real < 0 ? 0 : real > UINT64_MAX ? UINT64_MAX : (uint64_t)real;
	return NULL;
}
