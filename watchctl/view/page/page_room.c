#include "watchctl/view/page/page_room.h"

#include <string.h>

#include "watchctl/base/text_buf.h"

void page_room_begin(struct page_room *r, struct json *j, size_t bytes)
{
	*r = (struct page_room){ .j = j, .left = bytes };
}

size_t page_cost(const struct json *j, size_t start)
{
	size_t cost = j->line.len - start;
	const char *p = j->line.bytes + start, *end = j->line.bytes + j->line.len;

	while (p < end && (p = memchr(p, '<', (size_t)(end - p)))) {
		cost += strlen(PAGE_ESCAPED_LESS) - 1;
		p++;
	}
	return cost;
}

void page_row_begin(struct page_room *r)
{
	r->start = r->j->line.len;
	r->comma = r->j->comma;
}

bool page_row_end(struct page_room *r)
{
	size_t cost = r->j->line.failed ? 0 : page_cost(r->j, r->start);

	if (cost > r->left) {
		text_buf_cut(&r->j->line, r->start);
		r->j->comma = r->comma;
		return false;
	}
	r->left -= cost;
	return true;
}
