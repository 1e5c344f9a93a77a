#include "watchctl/view/event/probe_text.h"

#include <stdio.h>
#include <string.h>

#include "watchctl/base/words/format_spec.h"
#include "watchctl/view/event/view.h"

#define DIGITS 24 /* 64 bits in octal take 22 */

static void pad(struct text_buf *t, char c, size_t n)
{
	while (n--)
		text_buf_char(t, c);
}

/* Arguments */

static void put_padded(struct text_buf *t, const struct format_spec *s, const char *text, size_t len)
{
	size_t blanks = s->width > len ? s->width - len : 0;

	if (!s->left)
		pad(t, ' ', blanks);
	text_buf_put(t, text, len);
	if (s->left)
		pad(t, ' ', blanks);
}

/* Stores the digits of @v at the end of @buf; returns the first. Of 0 there are none. */
static const char *digits_of(uint64_t v, unsigned int base, bool capital, char buf[DIGITS])
{
	const char *digit = capital ? "0123456789ABCDEF" : "0123456789abcdef";
	char *p = buf + DIGITS - 1;

	*p = '\0';
	for (; v; v /= base)
		*--p = digit[v % base];
	return p;
}

/* Sign or base, zeros, digits; and blanks on one of the sides. */
static void put_number(struct text_buf *t, const struct format_spec *s, const char *prefix,
		       const char *digits, bool octal)
{
	const size_t n = strlen(digits), before = strlen(prefix);
	size_t zeros = s->precision < 0 ? !n : (size_t)s->precision > n ? (size_t)s->precision - n : 0;
	size_t len;

	if (octal && !zeros)
		zeros = 1;
	len = before + zeros + n;
	if (s->zeros && !s->left && s->precision < 0 && s->width > len) {
		zeros += s->width - len;
		len = s->width;
	}
	if (!s->left && s->width > len)
		pad(t, ' ', s->width - len);
	text_buf_put(t, prefix, before);
	pad(t, '0', zeros);
	text_buf_put(t, digits, n);
	if (s->left && s->width > len)
		pad(t, ' ', s->width - len);
}

static void put_signed(struct text_buf *t, const struct format_spec *s, uint64_t v)
{
	const unsigned int unused = 64 - s->bits;
	const int64_t value = (int64_t)(v << unused) >> unused;
	const char *sign = value < 0 ? "-" : s->plus ? "+" : s->blank ? " " : "";
	char buf[DIGITS];

	put_number(t, s, sign, digits_of(value < 0 ? -(uint64_t)value : (uint64_t)value, 10, false, buf),
		   false);
}

static void put_unsigned(struct text_buf *t, const struct format_spec *s, uint64_t v)
{
	const bool capital = s->conversion == 'X', hex = capital || s->conversion == 'x';
	const bool octal = s->conversion == 'o';
	const char *prefix = "";
	char buf[DIGITS];

	v = v << (64 - s->bits) >> (64 - s->bits);
	if (hex && s->alternate && v)
		prefix = capital ? "0X" : "0x";
	put_number(t, s, prefix,
		   digits_of(v,
			     hex     ? 16
			     : octal ? 8
				     : 10,
			     capital, buf),
		   octal && s->alternate);
}

static void put_pointer(struct text_buf *t, const struct format_spec *s, uint64_t v)
{
	const struct format_spec hex = { .left = s->left,
					 .alternate = true,
					 .width = s->width,
					 .precision = s->precision,
					 .bits = 64,
					 .conversion = 'x' };

	if (v)
		put_unsigned(t, &hex, v);
	else
		put_padded(t, s, "(nil)", strlen("(nil)"));
}

/* What is no string in the log is shown as the address that it is. */
static void put_text(struct text_buf *t, const struct format_spec *s, const struct probe_event *e,
		     unsigned int i)
{
	const char *text = e->string[i];
	size_t len;

	if (!(e->strings >> i & 1)) {
		put_pointer(t, &(struct format_spec){ .left = s->left, .width = s->width, .precision = -1 },
			    e->arg[i]);
		return;
	}
	if (e->unread >> i & 1 || !text) {
		put_padded(t, s, "(unreadable)", strlen("(unreadable)"));
		return;
	}
	len = s->precision < 0 ? strlen(text) : strnlen(text, (size_t)s->precision);
	put_padded(t, s, text, len);
}

/* A NUL would end the text. */
static void put_char(struct text_buf *t, const struct format_spec *s, uint64_t v)
{
	const char c = (char)v;

	put_padded(t, s, c ? &c : "\\0", c ? 1 : 2);
}

/* By the C library, which rounds right. */
static void put_float(struct text_buf *t, const struct format_spec *s, uint64_t v)
{
	char format[12];
	double d;

	memcpy(&d, &v, sizeof(d));
	snprintf(format, sizeof(format), "%%%s%s%s%s%s*.*%c", s->left ? "-" : "", s->plus ? "+" : "",
		 s->blank ? " " : "", s->alternate ? "#" : "", s->zeros ? "0" : "", s->conversion);
	text_buf_printf(t, format, (int)s->width, s->precision, d);
}

static void put_arg(struct text_buf *t, const struct format_spec *s, const struct probe_event *e,
		    unsigned int i)
{
	switch (s->conversion) {
	case 'd':
	case 'i':
		put_signed(t, s, e->arg[i]);
		break;
	case 'c':
		put_char(t, s, e->arg[i]);
		break;
	case 'p':
		put_pointer(t, s, e->arg[i]);
		break;
	case 's':
		put_text(t, s, e, i);
		break;
	default:
		if (format_spec_is_float(s))
			put_float(t, s, e->arg[i]);
		else
			put_unsigned(t, s, e->arg[i]);
		break;
	}
}

void probe_text_format(struct text_buf *t, const struct probe_event *e)
{
	const char *p = e->format ? e->format : "", *end, *percent;
	unsigned int next = 0;
	struct format_spec s;

	for (; (percent = strchr(p, '%')); p = end) {
		text_buf_put(t, p, (size_t)(percent - p));
		end = format_spec_read(percent, &s);
		if (s.conversion == '%') {
			text_buf_char(t, '%');
			continue;
		}
		if (!format_spec_is_known(&s)) {
			text_buf_put(t, percent, (size_t)(end - percent));
			continue;
		}
		if (e->withheld)
			text_buf_add(t, view_withheld);
		else if (next >= e->nargs)
			text_buf_char(t, '?');
		else
			put_arg(t, &s, e, next);
		next++;
	}
	text_buf_add(t, p);
}

void probe_text_value(struct text_buf *t, uint64_t value)
{
	text_buf_add(t, "0x");
	text_buf_hex(t, value, 1);
	text_buf_printf(t, " (%llu)", (unsigned long long)value);
}

static void put_recorded_value(struct text_buf *t, const struct probe_event *e)
{
	text_buf_add(t, "value ");
	if (e->withheld)
		text_buf_add(t, view_withheld);
	else if (e->nargs)
		probe_text_value(t, e->arg[0]);
	else
		text_buf_char(t, '?');
}

void probe_text_put(struct text_buf *t, const struct probe_event *e)
{
	const size_t begin = t->len;

	switch (e->kind) {
	case PROBE_KIND_LOG:
		probe_text_format(t, e);
		while (t->len > begin && t->bytes[t->len - 1] == '\n')
			text_buf_cut(t, t->len - 1);
		break;
	case PROBE_KIND_VALUE:
		put_recorded_value(t, e);
		break;
	case PROBE_KIND_STACK:
		text_buf_printf(t, "tag %s", e->format ? e->format : "?");
		if (!e->nargs && !e->withheld)
			break;
		text_buf_add(t, ", ");
		put_recorded_value(t, e);
		break;
	}
}

const char *probe_tactic_name(enum probe_tactic tactic)
{
	static const char *const name[] = {
		[PROBE_TACTIC_JUMP] = "jump",	  [PROBE_TACTIC_PADDING] = "padding",
		[PROBE_TACTIC_NOP] = "nop",	  [PROBE_TACTIC_PUN] = "pun",
		[PROBE_TACTIC_TRAP] = "trap",	  [PROBE_TACTIC_REFUSED] = "refused",
		[PROBE_TACTIC_SOURCE] = "source",
	};

	return name[tactic];
}

const char *probe_when_name(enum probe_when when)
{
	static const char *const name[] = {
		[PROBE_BEFORE] = "before", [PROBE_AFTER_IT] = "after", [PROBE_IN_PLACE] = "in_place"
	};

	return name[when];
}
