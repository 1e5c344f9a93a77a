#include "watchctl/trace/log/tracelog_get.h"

char *get_string(struct cursor *c)
{
	static char nothing[] = "";
	uint8_t *nul = memchr(c->p, '\0', c->end - c->p);
	char *s = (char *)c->p;

	if (!nul) {
		c->bad = true;
		c->p = c->end;
		return nothing;
	}
	c->p = nul + 1;
	return s;
}

char *get_optional(struct cursor *c)
{
	char *s = get_string(c);

	return *s ? s : NULL;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

void get_build_id(struct cursor *c, uint8_t id[BUILD_ID_MAX], uint8_t *len)
{
	const char *hex = get_string(c);
	size_t n = strlen(hex), i;

	if (n % 2 || n / 2 > BUILD_ID_MAX) {
		c->bad = true;
		return;
	}
	for (i = 0; i < n; i += 2) {
		int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);

		if (high < 0 || low < 0) {
			c->bad = true;
			return;
		}
		id[i / 2] = high << 4 | low;
	}
	*len = n / 2;
}
