#include "watchctl/cli/options/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/words/similar.h"

const struct option *option_walk_next(struct option_walk *w)
{
	while (w->row[0]) {
		const struct option *o = w->row[w->depth];

		if (o->more) {
			assert(w->depth + 1 < OPTION_DEPTH);
			w->row[++w->depth] = o->more;
		} else if (o->name) {
			w->row[w->depth]++;
			return o;
		} else if (w->depth) {
			w->row[--w->depth]++;
		} else {
			break;
		}
	}
	return NULL;
}

static bool is_called(const char *name, const char *text, size_t len)
{
	return name && strlen(name) == len && !memcmp(name, text, len);
}

/* Finds it; the kind and the value are still to be filled in. */
static bool find_exact(const struct option *table, const char *text, size_t len, struct option_match *ret)
{
	struct option_walk w = { .row = { table } };
	const struct option *o;

	while ((o = option_walk_next(&w))) {
		if (is_called(o->name, text, len) || is_called(o->alias, text, len)) {
			*ret = (struct option_match){ .option = o, .at = w };
			return true;
		}
	}
	return false;
}

static struct wc_error *unknown(const struct option *table, const char *text, size_t len)
{
	struct option_walk w = { .row = { table } };
	const struct option *o;
	struct similar similar;
	char list[160];

	similar_init(&similar, text, len);
	while ((o = option_walk_next(&w))) {
		similar_offer(&similar, o->name);
		if (o->alias)
			similar_offer(&similar, o->alias);
	}
	if (similar_list(&similar, list, sizeof(list)))
		return wc_error_new(WC_EUSAGE, "there is no option %.*s; did you mean %s?", (int)len, text,
				    list);
	return wc_error_new(WC_EUSAGE, "there is no option %.*s (--help lists them)", (int)len, text);
}

/* The value behind the option's name: @attached ("=5", "5"), or the next word. */
static struct wc_error *take_value(struct option_scan *s, const char *attached, struct option_match *m)
{
	const struct option *o = m->option;

	if (!o->arg && attached)
		return wc_error_new(WC_EUSAGE, "option %s takes no argument", o->name);
	m->kind = OPTION_FOUND;
	m->value = attached;
	if (!o->arg || attached)
		return NULL;
	if (s->next == s->argc)
		return wc_error_new(WC_EUSAGE, "option %s needs an argument: %s", o->name, o->arg);
	m->value = s->argv[s->next++];
	return NULL;
}

static struct wc_error *match_option(struct option_scan *s, const char *text, struct option_match *ret)
{
	size_t len = strcspn(text, "=");

	if (find_exact(s->options, text, strlen(text), ret))
		return take_value(s, NULL, ret);
	if (text[1] == '-') {
		if (find_exact(s->options, text, len, ret))
			return take_value(s, text[len] ? text + len + 1 : NULL, ret);
		return unknown(s->options, text, len);
	}
	if (find_exact(s->options, text, 2, ret) && ret->option->arg)
		return take_value(s, text + 2, ret);
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

struct wc_error *option_set(const struct option_match *m, void *request)
{
	struct wc_error *err;
	void *to = request;

	for (unsigned int i = 0; i < m->at.depth; i++) {
		const struct option *table = m->at.row[i];

		to = (char *)to + table->at;
		err = table->find ? table->find(m, &to) : NULL;
		if (err)
			return err;
	}
	return m->option->set(m, (char *)to + m->option->at);
}

struct wc_error *option_parse(int argc, char **argv, const struct option *options, void *request,
			      option_taker *take)
{
	struct option_scan s = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct option_match m = { 0 };
	struct wc_error *err;

	do {
		err = option_next(&s, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = option_set(&m, request);
		else if (!err && m.kind == OPTION_WORD)
			err = take(request, m.value);
		while (!err && m.kind == OPTION_DASHES && s.next < argc)
			err = take(request, argv[s.next++]);
	} while (!err && m.kind != OPTION_END);
	return err;
}

struct wc_error *option_parse_alone(int argc, char **argv, const struct option *options, void *request,
				    const char *only)
{
	struct option_scan s = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct option_match m = { 0 };
	struct wc_error *err;

	do {
		err = option_next(&s, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = option_set(&m, request);
		else if (!err && m.kind != OPTION_END)
			err = wc_error_new(WC_EUSAGE, "%s", only);
	} while (!err && m.kind != OPTION_END);
	return err;
}

struct wc_error *option_parse_launch(int argc, char **argv, const struct option *options, void *request,
				     option_taker *take, char *const **program)
{
	struct option_scan s = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct option_match m = { 0 };
	struct wc_error *err;

	do {
		err = option_next(&s, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = option_set(&m, request);
		else if (!err && m.kind == OPTION_WORD)
			err = take(request, m.value);
	} while (!err && m.kind != OPTION_DASHES && m.kind != OPTION_END);
	if (err || m.kind == OPTION_END)
		return err;
	if (s.next == argc)
		return wc_error_new(WC_EUSAGE, "the program to start is missing after --");
	*program = argv + s.next;
	return NULL;
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

/* Setters */

struct wc_error *option_set_flag(const struct option_match *m, void *to)
{
	*(bool *)to = true;
	return NULL;
}

struct wc_error *option_set_text(const struct option_match *m, void *to)
{
	*(const char **)to = m->value;
	return NULL;
}

struct wc_error *option_set_choice(const struct option_match *m, void *to)
{
	return option_choice(m, to);
}

struct wc_error *option_set_time(const struct option_match *m, void *to)
{
	return option_time(m, to);
}

struct wc_error *option_set_bytes(const struct option_match *m, void *to)
{
	return option_bytes(m, to);
}

struct wc_error *option_set_u64(const struct option_match *m, void *to)
{
	return option_number(m, m->option->min, m->option->max, to);
}

struct wc_error *option_set_u32(const struct option_match *m, void *to)
{
	uint64_t n;
	struct wc_error *err = option_set_u64(m, &n);

	if (!err)
		*(uint32_t *)to = (uint32_t)n;
	return err;
}

struct wc_error *option_set_int(const struct option_match *m, void *to)
{
	uint64_t n;
	struct wc_error *err = option_set_u64(m, &n);

	if (!err)
		*(int *)to = (int)n;
	return err;
}
