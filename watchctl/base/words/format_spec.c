#include "watchctl/base/words/format_spec.h"

#include <string.h>

static bool take_flag(struct format_spec *s, char c)
{
	switch (c) {
	case '-':
		return s->left = true;
	case '+':
		return s->plus = true;
	case ' ':
		return s->blank = true;
	case '#':
		return s->alternate = true;
	case '0':
		return s->zeros = true;
	default:
		return false;
	}
}

static unsigned int take_number(const char **p)
{
	unsigned int n = 0;

	for (; **p >= '0' && **p <= '9'; ++*p) {
		n = 10 * n + (unsigned int)(**p - '0');
		if (n > FORMAT_FIELD_MAX)
			n = FORMAT_FIELD_MAX;
	}
	return n;
}

static unsigned int take_size(const char **p)
{
	static const struct {
		char text[3];
		unsigned int bits;
	} size[] = { { "hh", 8 }, { "h", 16 }, { "ll", 64 }, { "l", 64 },
		     { "z", 64 }, { "j", 64 }, { "t", 64 } };
	size_t i;

	for (i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		if (strncmp(*p, size[i].text, strlen(size[i].text)) != 0)
			continue;
		*p += strlen(size[i].text);
		return size[i].bits;
	}
	return 32;
}

const char *format_spec_read(const char *p, struct format_spec *ret)
{
	*ret = (struct format_spec){ .precision = -1 };
	for (p++; take_flag(ret, *p); p++)
		;
	ret->width = take_number(&p);
	if (*p == '.') {
		p++;
		ret->precision = (int)take_number(&p);
	}
	ret->bits = take_size(&p);
	ret->conversion = *p;
	return *p ? p + 1 : p;
}

bool format_spec_is_float(const struct format_spec *s)
{
	return s->conversion && strchr("eEfFgGaA", s->conversion);
}

bool format_spec_is_known(const struct format_spec *s)
{
	return s->conversion && (strchr("diuxXocps", s->conversion) || format_spec_is_float(s));
}
