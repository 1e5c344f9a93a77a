/* Text and dates: wraps lines, and names the days on which things are due. */
#include <stdio.h>
#include <string.h>

struct date {
	int year, month, day;
};

static int is_leap(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && is_leap(year));
}

static int day_of_year(struct date d)
{
	int n = d.day;

	for (int m = 1; m < d.month; m++)
		n += days_in(d.year, m);
	return n;
}

static long day_number(struct date d)
{
	long y = d.year - 1;

	return y * 365 + y / 4 - y / 100 + y / 400 + day_of_year(d);
}

static const char *weekday(struct date d)
{
	static const char *const names[] = { "Sunday",	 "Monday", "Tuesday", "Wednesday",
					     "Thursday", "Friday", "Saturday" };

	return names[day_number(d) % 7];
}

static struct date next_day(struct date d)
{
	d.day++;
	if (d.day > days_in(d.year, d.month)) {
		d.day = 1;
		d.month++;
	}
	if (d.month > 12) {
		d.month = 1;
		d.year++;
	}
	return d;
}

static struct date add_days(struct date d, int n)
{
	while (n-- > 0)
		d = next_day(d);
	return d;
}

static int is_workday(struct date d)
{
	const char *name = weekday(d);

	return name[0] != 'S';
}

static struct date due(struct date from, int workdays)
{
	while (workdays > 0) {
		from = next_day(from);
		if (is_workday(from))
			workdays--;
	}
	return from;
}

static int word_length(const char *s)
{
	int n = 0;

	while (s[n] && s[n] != ' ')
		n++;
	return n;
}

static int fits(int column, int length, int width)
{
	return column + length + (column > 0) <= width;
}

static int put_word(char *out, int at, const char *word, int length, int gap)
{
	if (gap)
		out[at++] = ' ';
	memcpy(out + at, word, (size_t)length);
	return at + length;
}

static int wrap(const char *text, int width, char *out)
{
	int at = 0, column = 0, lines = 1;

	while (*text) {
		int length = word_length(text), before = at;

		if (!fits(column, length, width)) {
			out[at++] = '\n';
			before = at;
			column = 0;
			lines++;
		}
		at = put_word(out, at, text, length, column > 0);
		column += at - before;
		text += length;
		while (*text == ' ')
			text++;
	}
	out[at] = '\0';
	return lines;
}

static void print_date(const char *what, struct date d)
{
	printf("%s: %s, %04d-%02d-%02d\n", what, weekday(d), d.year, d.month, d.day);
}

int main(void)
{
	const struct date start = { 2023, 12, 27 }, leap = { 2024, 2, 20 };
	char out[512];
	int lines;

	lines = wrap("the invoice is due ten working days after it was sent, or at the end of the month", 24,
		     out);
	printf("%s\n(%d lines)\n", out, lines);
	print_date("sent", start);
	print_date("in ten days", add_days(start, 10));
	print_date("due", due(start, 10));
	print_date("due after leap day", due(leap, 9));
	printf("%ld days between\n", day_number(leap) - day_number(start));
	return 0;
}
