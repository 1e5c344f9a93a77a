#include "watchctl/code/lookup/locate_near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/words/edit_distance.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/symbols/locate_match.h"

#define NOT_NEAR 1000u

/* Typing errors first, then names that begin with the query, then those that hold it. */
static unsigned int distance(const char *query, const char *key)
{
	size_t lq = strlen(query), lk = strlen(key), gap = lq > lk ? lq - lk : lk - lq;
	size_t allowed = lq < 3 ? 1 : lq / 3;
	unsigned int d;

	if (strcasecmp(query, key) == 0)
		return 0;
	if (gap <= allowed) {
		d = edit_distance(query, lq, key, lk, true);
		if (d <= allowed)
			return d * 4;
	}
	if (lq >= 2 && strncasecmp(query, key, lq) == 0)
		return 20 + (unsigned int)(gap < 100 ? gap : 100);
	if (lq >= 3 && strcasestr(key, query))
		return 130 + (unsigned int)(gap < 100 ? gap : 100);
	if (lk >= 4 && strcasestr(query, key))
		return 240 + (unsigned int)(gap < 100 ? gap : 100);
	return NOT_NEAR;
}

/* Without the arguments of templates and the parameters of functions, "S<int>::f(int)::n" -> "S::f::n". */
static void cut_arguments(char *name)
{
	char *to = name;

	for (const char *from = name; *from;) {
		const char *behind = *from == '<' ? locate_skip_balanced(from) : locate_skip_parameters(from);

		if (behind)
			from = behind;
		else
			*to++ = *from++;
	}
	*to = '\0';
}

/* The same without what a person may have left out, or written in another way: then others are nearer. */
static unsigned int distance_to(const char *query, const char *key)
{
	bool has_arguments = strpbrk(query, "<(");
	scoped(freep) char *plain = strpbrk(key, "<(") ? strdup(key) : NULL;
	scoped(freep) char *asked = plain && has_arguments ? strdup(query) : NULL;
	unsigned int d = distance(query, key), other;

	if (!plain || (has_arguments && !asked))
		return d;
	cut_arguments(plain);
	if (asked)
		cut_arguments(asked);
	other = distance(asked ? asked : query, plain) + has_arguments;
	return other < d ? other : d;
}

bool near_takes(const struct near *near, const char *key)
{
	unsigned int d = distance_to(near->query, key);

	if (near->but_itself && strcmp(key, near->query) == 0)
		return false;
	return d != NOT_NEAR && (near->n < NEAR_MAX || d < near->best[NEAR_MAX - 1].distance);
}

void near_offer(struct near *near, const char *key, const char *name)
{
	unsigned int d = distance_to(near->query, key);
	size_t at = near->n;
	char *copy;

	if (!near_takes(near, key))
		return;
	for (size_t i = 0; i < near->n; i++)
		if (strcmp(near->best[i].name, name) == 0)
			return;
	copy = strdup(name);
	if (!copy)
		return;
	if (near->n == NEAR_MAX)
		free(near->best[at = NEAR_MAX - 1].name);
	else
		near->n++;
	for (; at > 0 && near->best[at - 1].distance > d; at--)
		near->best[at] = near->best[at - 1];
	near->best[at].name = copy;
	near->best[at].distance = d;
}

char *near_text(const struct near *near)
{
	char *text = NULL;
	size_t len;
	FILE *f;

	if (!near->n)
		return NULL;
	f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	for (size_t i = 0; i < near->n; i++)
		fprintf(f, "%s'%s'", i == 0 ? "" : i + 1 == near->n ? " or " : ", ", near->best[i].name);
	fclose(f);
	return text;
}

void near_deinit(struct near *near)
{
	for (size_t i = 0; i < near->n; i++)
		free(near->best[i].name);
	near->n = 0;
}
