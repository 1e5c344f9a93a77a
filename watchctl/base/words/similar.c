#include "watchctl/base/words/similar.h"

#include <stdio.h>
#include <string.h>

#include "watchctl/base/words/edit_distance.h"

#define NAME_MAX_LEN 40

void similar_init(struct similar *n, const char *text, size_t len)
{
	*n = (struct similar){ .text = text, .len = len };
}

void similar_offer(struct similar *n, const char *name)
{
	size_t len = strlen(name), at;
	unsigned int d;

	if (n->len > NAME_MAX_LEN || len > NAME_MAX_LEN || !n->len)
		return;
	d = edit_distance(n->text, n->len, name, len, false);
	/* The beginning of a name is near, however much is missing. */
	if (n->len >= 2 && len > n->len && !memcmp(n->text, name, n->len) && !(n->len == 2 && name[1] == '-'))
		d = 1;
	if (d > 1 + n->len / 4 || d >= len)
		return;

	if (n->n < SIMILAR_MAX)
		n->n++;
	else if (d >= n->distance[n->n - 1])
		return;
	for (at = n->n - 1; at > 0 && n->distance[at - 1] > d; at--) {
		n->best[at] = n->best[at - 1];
		n->distance[at] = n->distance[at - 1];
	}
	n->best[at] = name;
	n->distance[at] = d;
}

bool similar_list(const struct similar *n, char *buf, size_t cap)
{
	size_t i, used = 0;

	buf[0] = '\0';
	for (i = 0; i < n->n && used < cap; i++) {
		const char *before = i == 0 ? "" : i + 1 == n->n ? " or " : ", ";

		used += snprintf(buf + used, cap - used, "%s%s", before, n->best[i]);
	}
	return n->n != 0;
}
