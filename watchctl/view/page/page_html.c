/* Writes the page: what was collected as data, in the room that the other parts leave, in its shell. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/page/page.h"
#include "watchctl/view/page/page_impl.h"
#include "watchctl/view/page/page_shell.h"

#define ASSETS 200000 /* bytes at most, of the three together */

static void put_title(struct page *p, FILE *out)
{
	char clean[200];
	size_t i;

	for (i = 0; i < p->nwatches && i < 4; i++) {
		fputs(i ? ", " : "", out);
		page_shell_text(utf8_clean(p->watch[i]->w->e.name, clean, sizeof(clean)), out);
	}
	fputs(i ? " - " : "", out);
	page_shell_text(utf8_clean(p->opt.log, clean, sizeof(clean)), out);
	fputs(" - watchctl", out);
}

static void put_page(struct page *p, const struct json *data, const struct page_bytes *events, FILE *out)
{
	page_shell_begin(&page_shell_watches, out);
	put_title(p, out);
	page_shell_body(&page_shell_watches, out);
	page_shell_json("data", data, out);
	page_shell_bytes("events", events, out);
	page_shell_script(&page_shell_watches, out);
	page_shell_end(out);
}

/* The chosen ones as the encoder wants them. */
static struct page_event *plain_events(struct page_detail *const *d, size_t n)
{
	struct page_event *v = calloc(n + 1, sizeof(*v));

	for (size_t i = 0; v && i < n; i++)
		v[i] = d[i]->e;
	return v;
}

/* The rows that found no room: what happened there has no values of its own, as page_data.js knows by the
 * place. */
static void join_rest(struct page *p, struct page_event *v, size_t n, const struct page_reported *reported)
{
	for (size_t i = 0; i < n; i++) {
		const struct page_combo *c = &p->tables.combo[v[i].what];

		if (!c->capture && c->place >= reported->sites)
			v[i].series = PAGE_REST_SERIES;
	}
}

/*
 * Whatever the log is, the accesses with registers have room in the time line: beside all that is bounded by
 * a room, a combination takes 28 bytes (of its five numbers only the count is not small, and the counts add
 * up to the length of the log), a row of registers 17 a register, and what is in the time line 45 before
 * base64.
 */
static_assert(PAGE_ROOM_HEAD + PAGE_ROOM_PROCESSES + PAGE_ROOM_NOTES + PAGE_ROOM_TAGS + PAGE_ROOM_WATCHES +
			      PAGE_ROOM_PICTURES + PAGE_ROOM_THREADS + PAGE_ROOM_TEXTS + PAGE_ROOM_FRAMES +
			      PAGE_ROOM_STACKS + PAGE_ROOM_SITES + PAGE_ROOM_LISTINGS +
			      (PAGE_COMBOS + 2 * PAGE_SITES) * 28 + PAGE_DETAILS * (WREG_COUNT * 17 + 4) +
			      PAGE_DETAILS * 45 / 3 * 4 + ASSETS <
		      PAGE_BYTES,
	      "the other parts of the page leave no space for its time line");

/* What is left of the page for the time line, in bytes before base64 makes a third more of them. */
static size_t room_for_events(const struct page *p, const struct json *data)
{
	size_t most = p->opt.max_bytes ? p->opt.max_bytes : PAGE_EVENT_BYTES;
	size_t used = page_cost(data, 0) + page_shell_size(&page_shell_watches) + PAGE_ROOM_HEAD;
	size_t left = used < PAGE_BYTES ? (PAGE_BYTES - used) / 4 * 3 : 0;

	return left < most ? left : most;
}

struct wc_error *page_write(struct page *p, const struct replay_ending *ending, FILE *out)
{
	scoped(freep) struct page_detail **detail = NULL;
	scoped(freep) struct page_event *extra = NULL;
	struct page_reported reported = { .ending = ending };
	struct page_bytes bytes = { 0 };
	struct json data = { 0 };
	bool ok = !p->no_memory && page_choice_list(&p->choice, &detail, &reported.ndetails);

	if (ok)
		extra = plain_events(detail, reported.ndetails);
	reported.detail = detail;
	ok = ok && extra && page_json(p, &reported, &data);
	if (ok) {
		join_rest(p, p->events.v, p->events.n, &reported);
		join_rest(p, extra, reported.ndetails, &reported);
	}
	ok = ok && page_events_encode(&p->events, extra, reported.ndetails, room_for_events(p, &data), &bytes,
				      &reported.nevents);
	ok = ok && page_json_end(p, &reported, &data);
	if (ok)
		put_page(p, &data, &bytes, out);
	free(bytes.v);
	json_deinit(&data);
	return ok ? NULL : &wc_enomem;
}
