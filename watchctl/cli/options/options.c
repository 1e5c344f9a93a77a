#include "watchctl/cli/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/cli/options/similar.h"

static const struct option *find_exact(const struct option *table, const char *text, size_t len)
{
	for (; table->name; table++) {
		if (strlen(table->name) == len && !memcmp(table->name, text, len))
			return table;
		if (table->alias && strlen(table->alias) == len && !memcmp(table->alias, text, len))
			return table;
	}
	return NULL;
}

static struct wc_error *unknown(const struct option *table, const char *text, size_t len)
{
	struct similar similar;
	char list[160];

	similar_init(&similar, text, len);
	for (; table->name; table++) {
		similar_offer(&similar, table->name);
		if (table->alias)
			similar_offer(&similar, table->alias);
	}
	if (similar_list(&similar, list, sizeof(list)))
		return wc_error_new(WC_EUSAGE, "there is no option %.*s; did you mean %s?", (int)len, text,
				    list);
	return wc_error_new(WC_EUSAGE, "there is no option %.*s (--help lists them)", (int)len, text);
}

/* The value behind the option's name: @attached ("=5", "5"), or the next word. */
static struct wc_error *take_value(struct option_scan *s, const struct option *o, const char *attached,
				   struct option_match *ret)
{
	const char *value = attached;

	if (!o->arg && attached)
		return wc_error_new(WC_EUSAGE, "option %s takes no argument", o->name);
	if (o->arg && !attached) {
		if (s->next == s->argc)
			return wc_error_new(WC_EUSAGE, "option %s needs an argument: %s", o->name, o->arg);
		value = s->argv[s->next++];
	}
	*ret = (struct option_match){ .kind = OPTION_FOUND, .option = o, .value = value };
	return NULL;
}

static struct wc_error *match_option(struct option_scan *s, const char *text, struct option_match *ret)
{
	size_t len = strcspn(text, "=");
	const struct option *o;

	o = find_exact(s->options, text, strlen(text));
	if (o)
		return take_value(s, o, NULL, ret);
	if (text[1] == '-') {
		o = find_exact(s->options, text, len);
		if (o)
			return take_value(s, o, text[len] ? text + len + 1 : NULL, ret);
		return unknown(s->options, text, len);
	}
	o = find_exact(s->options, text, 2);
	if (o && o->arg)
		return take_value(s, o, text + 2, ret);
	return unknown(s->options, text, strlen(text));
}

struct wc_error *option_next(struct option_scan *s, struct option_match *ret)
{
	const char *text;

	if (s->next == s->argc) {
		*ret = (struct option_match){ .kind = OPTION_END };
		return NULL;
	}
	text = s->argv[s->next++];
	if (!strcmp(text, "--")) {
		*ret = (struct option_match){ .kind = OPTION_DASHES };
		return NULL;
	}
	if (text[0] == '-' && text[1])
		return match_option(s, text, ret);
	*ret = (struct option_match){ .kind = OPTION_WORD, .value = text };
	return NULL;
}

bool option_is(const struct option_match *m, const char *name)
{
	return m->kind == OPTION_FOUND &&
	       (!strcmp(m->option->name, name) || (m->option->alias && !strcmp(m->option->alias, name)));
}

struct wc_error *option_number(const struct option_match *m, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(m->value, &end, 10);
	if (errno || *end || m->value[0] < '0' || m->value[0] > '9' || n < min || n > max)
		return wc_error_new(WC_EUSAGE, "option %s wants a number from %llu to %llu, not \"%s\"",
				    m->option->name, (unsigned long long)min, (unsigned long long)max,
				    m->value);
	*ret = n;
	return NULL;
}

struct wc_error *option_time(const struct option_match *m, uint64_t *ret)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 },   { "s", 1 },	  { "ms", 1e-3 }, { "us", 1e-6 },
		      { "m", 60 }, { "min", 60 }, { "h", 3600 },  { "d", 86400 } };
	char *end;
	double n = strtod(m->value, &end);
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]) && strcmp(end, units[i].unit) != 0; i++)
		;
	if (end == m->value || i == sizeof(units) / sizeof(units[0]) ||
	    !(n * units[i].seconds >= 1e-9 && n * units[i].seconds <= 1e9))
		return wc_error_new(WC_EUSAGE,
				    "option %s wants a time like 30s, 10m, 2h or 500ms, not \"%s\"",
				    m->option->name, m->value);
	*ret = (uint64_t)(n * units[i].seconds * 1e9 + 0.5); /* 100us is not 99999 ns */
	return NULL;
}

struct wc_error *option_bytes(const struct option_match *m, uint64_t *ret)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	uint64_t n;
	unsigned int shift = 0;

	errno = 0;
	n = strtoull(m->value, &end, 10);
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		end += end[1] == 'B' ? 2 : strncmp(end + 1, "iB", 2) == 0 ? 3 : 1;
	}
	if (errno || *end || m->value[0] < '0' || m->value[0] > '9' || n > UINT64_MAX >> shift)
		return wc_error_new(WC_EUSAGE, "option %s wants a size like 2G, 512M or 64K, not \"%s\"",
				    m->option->name, m->value);
	*ret = n << shift;
	return NULL;
}

struct wc_error *option_choice(const struct option_match *m, unsigned int *ret)
{
	const char *word = m->option->words;
	unsigned int i;

	for (i = 0; *word; i++) {
		size_t len = strcspn(word, " ");

		if (strlen(m->value) == len && !memcmp(word, m->value, len)) {
			*ret = i;
			return NULL;
		}
		word += len + strspn(word + len, " ");
	}
	return wc_error_new(WC_EUSAGE, "option %s wants one of \"%s\", not \"%s\"", m->option->name,
			    m->option->words, m->value);
}

struct wc_error *option_one_log(const char **log, const char *word, const char *takes)
{
	if (*log)
		return wc_error_new(WC_EUSAGE, "%s one log; \"%s\" is one too many", takes, word);
	*log = word;
	return NULL;
}
