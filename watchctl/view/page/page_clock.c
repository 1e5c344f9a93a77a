#include "watchctl/view/page/page_clock.h"

#include "watchctl/base/clock.h"

uint64_t page_clock_past_ns(const struct page_clock *c, struct view_time t)
{
	return t.mono_ns > c->begin.mono_ns ? t.mono_ns - c->begin.mono_ns : 0;
}

uint64_t page_clock_ns(struct page_clock *c, struct view_time t)
{
	uint64_t ns;

	if (!c->has_begin) {
		c->has_begin = true;
		c->begin = t;
	}
	ns = page_clock_past_ns(c, t);
	if (ns > c->end_ns)
		c->end_ns = ns;
	return ns;
}

void page_clock_json(const struct page_clock *c, struct json *j)
{
	json_number(j, "made_ms", clock_ns(CLOCK_REALTIME) / 1000000);
	if (c->begin.real_ns)
		json_number(j, "begin_real_us", c->begin.real_ns / 1000);
	json_number(j, "end_ns", c->end_ns);
}

void page_ending_json(const struct replay_ending *ending, struct json *j)
{
	if (!ending || !ending->damage.why)
		return;
	json_text(j, "truncated", ending->damage.why);
	json_number(j, "ignored", ending->damage.ignored);
}
