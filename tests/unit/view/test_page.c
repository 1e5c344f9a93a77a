/* What goes into the page: counted again here from the same events, and read back by another decoder. */
#include "tests/unit/view_stream.h"

#include "watchctl/view/event/replay.h"
#include "watchctl/view/page/page.h"
#include "watchctl/view/page/page_buckets.h"
#include "watchctl/view/page/page_choice.h"
#include "watchctl/view/page/page_events.h"
#include "watchctl/view/page/page_room.h"
#include "watchctl/view/page/page_tables.h"

static uint64_t seed;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static int seeded(void **state)
{
	seed = 88172645463325252u;
	return 0;
}

/* Parts of time */

#define SAMPLES 20000u

static void parts_add_up_to_what_was_counted(void **state)
{
	static uint64_t ns[SAMPLES], value[SAMPLES];
	static uint8_t kind[SAMPLES];
	struct value_type type = { .kind = VALUE_SIGNED };
	struct page_buckets b;
	uint64_t t = 0;
	size_t i, k, at;

	assert_true(page_buckets_init(&b, 256));
	for (i = 0; i < SAMPLES; i++) {
		struct page_sample s = {
			.has_value = i % 3 != 0, .size = 4, .type = &type, .changes = i % 5 == 0
		};

		t += rnd() % 3000;
		ns[i] = t;
		s.kind = kind[i] = (uint8_t)(rnd() % 5);
		s.value = value[i] = rnd() & 0xffffffff;
		page_buckets_add(&b, t, &s);
	}
	assert_in_range(b.n, 128, 256);
	for (at = 0; at < b.n; at++) {
		uint64_t n[5] = { 0 }, changes = 0;
		int32_t min = INT32_MAX, max = INT32_MIN;
		size_t first = SAMPLES, last = SAMPLES;

		for (i = 0; i < SAMPLES; i++) {
			if (ns[i] / b.width_ns != at)
				continue;
			n[kind[i]]++;
			changes += i % 5 == 0;
			if (i % 3 == 0)
				continue;
			first = first == SAMPLES ? i : first;
			last = i;
			min = (int32_t)value[i] < min ? (int32_t)value[i] : min;
			max = (int32_t)value[i] > max ? (int32_t)value[i] : max;
		}
		for (k = 0; k < 5; k++)
			assert_int_equal(b.v[at].n[k], n[k]);
		assert_int_equal(b.v[at].changes, changes);
		assert_int_equal(b.v[at].has_value, first != SAMPLES);
		if (first == SAMPLES)
			continue;
		assert_int_equal(b.v[at].first, value[first]);
		assert_int_equal(b.v[at].last, value[last]);
		assert_int_equal((int32_t)b.v[at].min, min);
		assert_int_equal((int32_t)b.v[at].max, max);
	}
	page_buckets_deinit(&b);
}

static void the_last_moment_there_is_fits(void **state)
{
	struct value_type type = { 0 };
	struct page_sample s = { .size = 8, .type = &type, .kind = ACCESS_READ };
	struct page_buckets b;

	assert_true(page_buckets_init(&b, 256));
	page_buckets_add(&b, 0, &s);
	page_buckets_add(&b, UINT64_MAX, &s);
	assert_int_equal(b.v[0].n[ACCESS_READ], 1);
	assert_int_equal(b.v[b.n - 1].n[ACCESS_READ], 1);
	page_buckets_deinit(&b);
}

/* The list of events */

struct decoder {
	const uint8_t *p, *end;
};

static uint64_t take(struct decoder *d)
{
	uint64_t v = 0;
	unsigned int shift = 0;

	for (;; shift += 7) {
		assert_true(d->p < d->end);
		v |= (uint64_t)(*d->p & 127) << shift;
		if (!(*d->p++ & 128))
			return v;
	}
}

/* As page_events.h says it; the series of each is its `what` here. */
static size_t decode(const struct page_bytes *b, bool numbered, struct page_event *ret, bool *detail)
{
	struct decoder d = { b->v, b->v + b->n };
	uint64_t seen[PAGE_SERIES] = { 0 }, seq = 0, ns = 0;
	size_t n = 0;

	while (d.p < d.end) {
		struct page_event *e = &ret[n];
		uint64_t flags, from;

		seq = numbered ? seq + take(&d) : n;
		ns += take(&d);
		flags = take(&d);
		*e = (struct page_event){ .seq = seq,
					  .ns = ns,
					  .what = (uint32_t)(flags >> PAGE_EV_BITS),
					  .flags = flags & (PAGE_EV_OLD | PAGE_EV_NEW | PAGE_EV_UNCERTAIN) };
		from = seen[e->what];
		if (flags & PAGE_EV_OLD) {
			if (!(flags & PAGE_EV_AS_SEEN))
				from ^= take(&d);
			e->old_value = seen[e->what] = from;
		}
		if (flags & PAGE_EV_NEW)
			e->new_value = seen[e->what] = from ^ take(&d);
		detail[n++] = flags & PAGE_EV_DETAIL;
	}
	return n;
}

static struct page_event made[SAMPLES], back[SAMPLES];
static bool detail[SAMPLES];

static void make_events(struct page_events *e)
{
	uint64_t t = 0;
	size_t i;

	for (i = 0; i < SAMPLES; i++) {
		uint32_t series = (uint32_t)(rnd() % 5);

		t += rnd() % (i % 100 ? 5000 : 1u << 30);
		made[i] =
			(struct page_event){ .seq = i, .ns = t, .what = series, .series = (uint16_t)series };
		made[i].flags = rnd() % 4;
		if (made[i].flags & PAGE_EV_OLD && rnd() % 2)
			made[i].flags |= PAGE_EV_UNCERTAIN;
		made[i].old_value = made[i].flags & PAGE_EV_OLD ? rnd() >> rnd() % 64 : 0;
		made[i].new_value = made[i].flags & PAGE_EV_NEW ? rnd() >> rnd() % 64 : 0;
		assert_true(page_events_add(e, &made[i]));
	}
}

static void assert_same_event(const struct page_event *a, const struct page_event *b)
{
	assert_int_equal(a->seq, b->seq);
	assert_int_equal(a->ns, b->ns);
	assert_int_equal(a->what, b->what);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->old_value, b->old_value);
	assert_int_equal(a->new_value, b->new_value);
}

static void all_events_come_back_as_long_as_they_fit(void **state)
{
	struct page_events e;
	struct page_bytes b;
	size_t n, i;

	page_events_init(&e, SAMPLES);
	make_events(&e);
	assert_true(page_events_encode(&e, made + 7, 1, SIZE_MAX, &b, &n));
	assert_int_equal(n, SAMPLES);
	assert_int_equal(decode(&b, false, back, detail), SAMPLES);
	for (i = 0; i < SAMPLES; i++) {
		assert_same_event(&back[i], &made[i]);
		assert_int_equal(detail[i], i == 7);
	}
	free(b.v);
	page_events_deinit(&e);
}

static void what_does_not_fit_is_an_even_share_and_those_with_registers(void **state)
{
	struct page_event extra[4];
	struct page_events e;
	struct page_bytes b;
	size_t n, i, next = 0;

	page_events_init(&e, 3000);
	make_events(&e);
	assert_int_equal(e.stride, 8);
	assert_int_equal(e.n, SAMPLES / 8);
	extra[0] = made[3];
	extra[1] = made[4];
	extra[2] = made[4096];
	extra[3] = made[SAMPLES - 1];
	assert_true(page_events_encode(&e, extra, 4, SIZE_MAX, &b, &n));
	assert_int_equal(n, SAMPLES / 8 + 3);
	assert_int_equal(decode(&b, true, back, detail), n);
	for (i = 0; i < n; i++) {
		bool chosen = back[i].seq == 3 || back[i].seq == 4 || back[i].seq == 4096 ||
			      back[i].seq == SAMPLES - 1;

		assert_same_event(&back[i], &made[back[i].seq]);
		assert_int_equal(detail[i], chosen);
		if (back[i].seq % 8 == 0) {
			assert_int_equal(back[i].seq, next);
			next += 8;
		} else {
			assert_true(chosen);
		}
	}
	assert_int_equal(next, SAMPLES);
	free(b.v);
	page_events_deinit(&e);
}

static void too_many_bytes_make_the_share_smaller(void **state)
{
	struct page_events e;
	struct page_bytes b;
	size_t n;

	page_events_init(&e, SAMPLES);
	make_events(&e);
	assert_true(page_events_encode(&e, NULL, 0, 20000, &b, &n));
	assert_true(b.n <= 20000);
	assert_true(e.stride > 1);
	assert_int_equal(n, (SAMPLES + e.stride - 1) / e.stride);
	assert_int_equal(decode(&b, true, back, detail), n);
	free(b.v);
	page_events_deinit(&e);
}

/* Those with registers */

static void choose(struct page_choice *c, uint64_t n, uint64_t rare)
{
	uint64_t i;

	for (i = 0; i < n; i++) {
		struct page_event e = { .seq = i, .ns = i };
		struct regs regs = { .r = { i } };

		assert_true(page_choice_offer(c, &e, &regs, i == rare ? 1 : 0, i % 1000 == 17));
	}
}

static void all_are_chosen_as_long_as_they_fit(void **state)
{
	struct page_choice c;
	struct page_detail **d;
	size_t n, i;

	page_choice_init(&c, PAGE_DETAILS);
	choose(&c, PAGE_DETAILS, 0);
	assert_true(page_choice_list(&c, &d, &n));
	assert_int_equal(n, PAGE_DETAILS);
	for (i = 0; i < n; i++) {
		assert_int_equal(d[i]->e.seq, i);
		assert_int_equal(d[i]->regs.r[0], i);
	}
	free(d);
	page_choice_deinit(&c);
}

static void of_more_the_ends_rare_places_and_changes_are_chosen(void **state)
{
	const uint64_t all = 300000, rare = 123457;
	struct page_choice c;
	struct page_detail **d;
	uint64_t gap = 0, nchanges = 0;
	bool has_rare = false;
	size_t n, i;

	page_choice_init(&c, PAGE_DETAILS);
	choose(&c, all, rare);
	assert_true(page_choice_list(&c, &d, &n));
	assert_in_range(n, 6000, PAGE_DETAILS);
	for (i = 0; i < n; i++) {
		assert_int_equal(d[i]->regs.r[0], d[i]->e.seq);
		if (i) {
			assert_true(d[i]->e.seq > d[i - 1]->e.seq);
			gap = d[i]->e.seq - d[i - 1]->e.seq > gap ? d[i]->e.seq - d[i - 1]->e.seq : gap;
		}
		has_rare |= d[i]->e.seq == rare;
		nchanges += d[i]->e.seq % 1000 == 17;
	}
	for (i = 0; i < PAGE_ENDS; i++) {
		assert_int_equal(d[i]->e.seq, i);
		assert_int_equal(d[n - 1 - i]->e.seq, all - 1 - i);
	}
	assert_true(has_rare);
	assert_int_equal(nchanges, all / 1000);
	assert_true(gap <= 64);
	free(d);
	page_choice_deinit(&c);
}

/* The page itself */

static char *page_of(void (*feed_it)(struct annotate *a), const struct replay_ending *ending)
{
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT);
	struct page_options o = { .log = "some </script><b>log" };
	struct page *p = page_new(a, &o);
	struct wc_error *err;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(p);
	if (feed_it)
		feed_it(a);
	annotate_finish(a);
	err = page_write(p, ending, out);
	if (err)
		fail_msg("%s", err->text);
	fclose(out);
	page_free(p);
	annotate_free(a);
	return text;
}

static void assert_has(const char *page, const char *text)
{
	if (!strstr(page, text))
		fail_msg("the page has no %s", text);
}

static void accesses_and_the_balance_are_in_the_page(void **state)
{
	char *page = page_of(feed_session, NULL);

	assert_has(page, "\"accesses\":5,\"captures\":0");
	assert_has(page,
		   "\"summary\":{\"counted\":9,\"recorded\":5,\"lost\":3,\"filtered\":0,\"complete\":true}");
	assert_has(page, "\"insn\":\"mov dword ptr [rdi], eax\"");
	assert_has(page, "\"insn\":\"syscall\"");
	assert_has(page, "\"cmdline\":\"app -x\"");
	/* Bytes that are no UTF-8 do not come through; control characters only escaped. */
	assert_has(page, "thread \\u001b[31m\xef\xbf\xbd \\\"x\\\" caf\xc3\xa9");
	free(page);
}

static void captures_and_their_tags_are_in_the_page(void **state)
{
	char *page = page_of(feed_captures, NULL);

	assert_has(page, "\"accesses\":1,\"captures\":4");
	assert_has(page, "{\"name\":\"cache-miss\",\"captures\":3}");
	assert_has(page, "{\"name\":\"42\",\"captures\":1}");
	free(page);
}

static void feed_hostile(struct annotate *a)
{
	struct trace_event e = { .type = EVENT_NOTE,
				 .time_ns = T0,
				 .note = { "</script><img src=x onerror=alert(1)><!--" } };

	feed_process(a);
	feed_watch(a, 0, "</title><script>alert(2)</script>", ACCESS_READWRITE);
	feed(a, e);
}

/* Nothing from a log can end the block of data that it stands in, or begin anything else. */
static void markup_from_the_log_is_never_markup_in_the_page(void **state)
{
	char *page = page_of(feed_hostile, NULL), *body = strstr(page, "<body>"), *data, *end;

	assert_non_null(body);
	assert_null(strstr(page, "<img"));
	assert_null(strstr(page, "<script>alert"));
	assert_null(strstr(page, "</script><b>log"));
	assert_has(page, "<title>&lt;/title>&lt;script>alert(2)&lt;/script> - some &lt;/script>&lt;b>log - "
			 "watchctl</title>");
	data = strstr(body, "<script type=\"application/json\" id=\"data\">");
	assert_non_null(data);
	end = strstr(data, "</script>");
	assert_non_null(end);
	assert_null(memchr(data + 1, '<', (size_t)(end - data - 1)));
	assert_has(data, "\\u003c/script>\\u003cimg src=x onerror=alert(1)>\\u003c!--");
	free(page);
}

#define ODD 5000u
#define ODD_WATCHES 1500u

/* What no recorder writes: watches that were never reported, sizes and bit fields that make no sense, any
 * address. */
static void feed_odd(struct annotate *a)
{
	static uint64_t frame[STACK_MAX];
	size_t i, k;

	feed_process(a);
	for (i = 0; i < 40; i++) {
		struct trace_event e = { .type = EVENT_WATCH, .time_ns = rnd() };

		e.watch = (struct watch_event){ .id = (uint32_t)(rnd() % ODD_WATCHES),
						.name = i % 2 ? "" : "\xff<&\"" };
		e.watch.size = (uint32_t)(rnd() % 40);
		e.watch.access = (uint32_t)(rnd() % 9);
		e.watch.type.kind = rnd() % 9;
		e.watch.type.bit_offset = (uint8_t)rnd();
		e.watch.type.bit_size = (uint8_t)(rnd() % 65);
		feed(a, e);
	}
	for (i = 0; i < ODD; i++) {
		struct trace_event e;

		for (k = 0; k < STACK_MAX; k++)
			frame[k] = rnd() >> rnd() % 64;
		e = access_at(rnd() % 1000000, (int32_t)rnd(), rnd(), rnd(), frame,
			      1 + (uint32_t)(rnd() % STACK_MAX));
		e.access.watch = (uint32_t)(rnd() % ODD_WATCHES);
		e.access.pid = (int32_t)rnd();
		e.access.size = (uint32_t[]){ 1, 2, 4, 8 }[rnd() % 4];
		e.access.has_old = rnd() % 2;
		e.access.has_new = rnd() % 2;
		e.access.walk_end = (uint8_t)(rnd() % (WALK_END_UNKNOWN_PC + 1));
		e.access.in_kernel = rnd() % 2;
		e.access.syscall = (int32_t)rnd();
		e.time_ns = i % 7 ? e.time_ns : rnd();
		feed(a, e);
		feed(a, with_value(capture_at(rnd() % 1000000, (int32_t)rnd(), (uint32_t)rnd(), frame,
					      (uint32_t)(rnd() % 9)),
				   rnd()));
	}
}

static void odd_events_are_counted_and_do_no_harm(void **state)
{
	char *page = page_of(feed_odd, NULL);

	assert_has(page, "\"accesses\":5000,\"captures\":5000");
	assert_has(page, "</body></html>");
	free(page);
}

static void an_empty_log_and_one_cut_short_give_a_page(void **state)
{
	struct replay_ending ending = { .damage = { .ignored = 17,
						    .why = "it ends in the middle of an event" } };
	char *page = page_of(NULL, &ending);

	assert_has(page, "\"truncated\":\"it ends in the middle of an event\",\"ignored\":17");
	assert_has(page, "\"watches\":[],\"notes\":[]");
	free(page);
}

static size_t shorter;

/* Names as long and as costly as a log may have them, or as usual ones, each another one. */
static char *costly(size_t n, size_t i)
{
	static char text[70000];

	n /= shorter;
	memset(text, '<', n);
	snprintf(text + n, 24, "%zu", i);
	return text;
}

#define HUGE_THREADS 100000u
#define HUGE_MODULES 2000u
#define HUGE_MODULE 0x1000u
#define HUGE_WATCHES 1200u

static void feed_huge_names(struct annotate *a)
{
	size_t i;

	for (i = 0; i < 250; i++)
		feed(a,
		     (struct trace_event){ .type = EVENT_PROCESS,
					   .time_ns = T0,
					   .process = { .pid = (int32_t)i, .cmdline = costly(60000, i) } });
	for (i = 0; i < HUGE_WATCHES; i++) {
		struct trace_event e = { .type = EVENT_WATCH, .time_ns = T0 };

		e.watch = (struct watch_event){ .id = (uint32_t)i,
						.name = costly(2000, i),
						.addr = FLAG_ADDR,
						.size = 8,
						.access = ACCESS_READWRITE };
		e.watch.type = (struct value_type){ .kind = VALUE_POINTER };
		feed(a, e);
	}
	for (i = 0; i < 3000; i++)
		feed_tag(a, (uint32_t)i, costly(3000, i), 0);
	for (i = 0; i < 1200; i++)
		feed(a,
		     (struct trace_event){ .type = EVENT_NOTE, .time_ns = T0, .note = { costly(5000, i) } });
	for (i = 0; i < HUGE_MODULES; i++)
		feed(a, (struct trace_event){ .type = EVENT_MODULE,
					      .time_ns = T0,
					      .module = { .start = CODE + i * HUGE_MODULE,
							  .end = CODE + (i + 1) * HUGE_MODULE,
							  .path = costly(4000, i) } });
}

/* As many threads, places, stacks and combinations as a page may have, and more; nothing is as it was before.
 */
static void feed_huge(struct annotate *a)
{
	uint64_t frame[32];
	size_t i, k;

	feed_huge_names(a);
	for (i = 0; i < 2 * HUGE_THREADS; i++) {
		struct trace_event e;

		for (k = 0; k < 32; k++)
			frame[k] = CODE + rnd() % (HUGE_MODULES * HUGE_MODULE);
		e = access_at(i, (int32_t)(1 + i % HUGE_THREADS), rnd(), rnd(), frame,
			      i % 4 ? 1 : 2 + (uint32_t)(rnd() % 30));
		for (k = 0; k < WREG_COUNT; k++)
			if (k != WREG_RIP)
				e.access.regs.r[k] = rnd() | 1ul << 63;
		e.access.size = 8;
		e.access.watch = (uint32_t)(rnd() % HUGE_WATCHES);
		feed(a, e);
		if (i % 16 == 0)
			feed(a, capture_at(i, 1 + (int32_t)(i % 500), (uint32_t)(rnd() % 3000), frame, 1));
	}
}

static uint64_t number_in(const char *page, const char *name)
{
	const char *at = strstr(page, name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, 10);
}

static char *huge_page(size_t shorter_names)
{
	char *page;

	shorter = shorter_names;
	page = page_of(feed_huge, NULL);
	assert_in_range(strlen(page), PAGE_BYTES / 3, PAGE_BYTES);
	assert_has(page, "</body></html>");
	assert_int_equal(number_in(page, "\"accesses\":"), 2 * HUGE_THREADS);
	assert_true(number_in(page, "\"sites_left_out\":") > 0);
	assert_true(number_in(page, "\"threads_left_out\":") >= 2 * HUGE_THREADS - 2 * PAGE_THREADS);
	assert_true(number_in(page, "\"stacks_left_out\":") > 0);
	assert_true(number_in(page, "\"notes_left_out\":") >= 200);
	assert_true(number_in(page, "\"events\":") > number_in(page, "\"details\":"));
	return page;
}

static void long_names_make_no_page_larger_than_it_may_be(void **state)
{
	char *page = huge_page(1);

	assert_true(number_in(page, "\"tags_left_out\":") > 0);
	assert_has(page, "\"pictures_left_out\":true");
	free(page);
}

static void many_of_all_make_no_page_larger_than_it_may_be(void **state)
{
	free(huge_page(300));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(parts_add_up_to_what_was_counted, seeded),
		cmocka_unit_test(the_last_moment_there_is_fits),
		cmocka_unit_test_setup(all_events_come_back_as_long_as_they_fit, seeded),
		cmocka_unit_test_setup(what_does_not_fit_is_an_even_share_and_those_with_registers, seeded),
		cmocka_unit_test_setup(too_many_bytes_make_the_share_smaller, seeded),
		cmocka_unit_test(all_are_chosen_as_long_as_they_fit),
		cmocka_unit_test(of_more_the_ends_rare_places_and_changes_are_chosen),
		cmocka_unit_test(accesses_and_the_balance_are_in_the_page),
		cmocka_unit_test(captures_and_their_tags_are_in_the_page),
		cmocka_unit_test(markup_from_the_log_is_never_markup_in_the_page),
		cmocka_unit_test_setup(odd_events_are_counted_and_do_no_harm, seeded),
		cmocka_unit_test_setup(long_names_make_no_page_larger_than_it_may_be, seeded),
		cmocka_unit_test_setup(many_of_all_make_no_page_larger_than_it_may_be, seeded),
		cmocka_unit_test(an_empty_log_and_one_cut_short_give_a_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
