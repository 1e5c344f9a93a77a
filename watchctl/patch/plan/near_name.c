#include "watchctl/patch/plan/near_name.h"

#include <stdio.h>
#include <stdbool.h>
#include <string.h>

#include "watchctl/base/words/edit_distance.h"

static bool is_there(const struct near_names *near, const char *name)
{
	for (size_t i = 0; i < near->n; i++)
		if (!strcmp(near->best[i], name))
			return true;
	return false;
}

void near_names_offer(struct near_names *near, const char *name)
{
	size_t len = strlen(near->query), n = strlen(name), i;
	size_t limit = len < 3 ? 1 : len / 3;
	unsigned int d;

	/* The distance is no less than the difference in length, and cheaper not to compute. */
	if ((n > len ? n - len : len - n) > limit)
		return;
	d = edit_distance(near->query, len, name, n, true);
	if (d > limit || is_there(near, name))
		return;
	for (i = near->n < NEAR_NAMES ? near->n++ : NEAR_NAMES - 1; i && near->distance[i - 1] > d; i--) {
		near->best[i] = near->best[i - 1];
		near->distance[i] = near->distance[i - 1];
	}
	near->best[i] = name;
	near->distance[i] = d;
}

void near_names_text(const struct near_names *near, char *buf, size_t cap)
{
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < near->n && n < cap; i++)
		n += (size_t)snprintf(buf + n, cap - n, "%s%s%s",
				      i ? i + 1 == near->n ? " or " : ", " : "; did you mean ", near->best[i],
				      i + 1 == near->n ? "?" : "");
}
