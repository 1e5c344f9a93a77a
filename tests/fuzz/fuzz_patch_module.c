/*
 * Any bytes are the file of a module that is to be patched: its code is swept, jump tables, pointers and landing pads are
 * read, and all its instructions are planned for. What comes out lies within what there is.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/patch/plan/patch_plan.h"
#include "watchctl/patch/plan/trampoline.h"

#define TRAMPOLINE_AWAY 0x100000u

static void check_error(struct wc_error *err)
{
	if (err)
		require(err == &wc_enomem || (err->text && *err->text));
	wc_error_free(err);
}

static void check_map(const struct code_map *m)
{
	for (size_t i = 0; i < m->nfunctions; i++) {
		require(m->function[i].start <= m->function[i].end);
		require(!i || m->function[i - 1].end <= m->function[i].start);
		fuzz_read(m->function[i].name);
	}
	for (size_t i = 0; i < m->npaddings; i++) {
		const struct code_part *p = code_map_part(m, m->padding[i].start);

		require(p && m->padding[i].len <= p->start + p->len - m->padding[i].start);
	}
}

/* The code that would run in place of what is overwritten. */
static void check_trampoline(const struct patch_site *s)
{
	static struct trampoline t;
	const struct trampoline_probe probe = { .offset = (uint16_t)(s->addr - s->choice.start),
						.site = 0x7000 };
	const struct trampoline_request q = {
		.addr = s->choice.start,
		.bytes = s->bytes,
		.moved = s->choice.moved,
		.len = s->choice.len,
		.probe = &probe,
		.nprobes = 1,
		.at = s->choice.start + TRAMPOLINE_AWAY,
		.switch_at = s->choice.start + 2ul * TRAMPOLINE_AWAY,
		.entry_at = s->choice.start + 2ul * TRAMPOLINE_AWAY + 8,
	};

	if (trampoline_make(&q, &t) != TRAMPOLINE_OK)
		return;
	require(t.len && t.len <= TRAMPOLINE_MAX);
	for (size_t i = 0; i < TRAMPOLINE_INSNS; i++)
		require(t.copy[i] == TRAMPOLINE_NONE || t.copy[i] < t.len);
}

static void check_site(const struct patch_site *s)
{
	const struct tactic_choice *c = &s->choice;
	char text[256];

	require(c->tactic < TACTICS && c->why < WHY_KINDS);
	tactic_why_text(c, text, sizeof(text));
	fuzz_read(text);
	if (c->tactic == TACTIC_REFUSED)
		return;
	require(code_map_marks(&s->module->map, s->addr) & MARK_START);
	require(!s->function || (s->function->start <= s->addr && s->addr < s->function->end));
	if (!c->len)
		return;
	require(c->moved <= PATCH_SITE_BYTES && c->len <= PATCH_SITE_BYTES);
	require(code_map_part(&s->module->map, c->start));
	if (c->start <= s->addr && s->addr - c->start < TRAMPOLINE_INSNS && c->moved)
		check_trampoline(s);
}

static void plan_all(const struct module *m)
{
	struct patch_modules modules = { 0 };
	struct patch_query q = { 0 };
	const struct patch_site *site;
	struct patch_plan *plan = NULL;
	struct patch_module p = { 0 };
	struct wc_error *err = patch_module_open(m, NULL, &p);

	if (err) {
		check_error(err);
		return;
	}
	modules.v = malloc(sizeof(*modules.v));
	q.pattern = calloc(1, sizeof(*q.pattern));
	require(modules.v && q.pattern && !pattern_parse("*", q.pattern));
	modules.v[0] = p;
	modules.n = modules.cap = 1;
	q.npatterns = q.pattern_cap = 1;
	err = patch_plan_make(&q, &modules, false, &plan);
	while (!err) {
		err = patch_plan_next(plan, &site);
		if (err || !site)
			break;
		check_site(site);
		if (patch_plan_totals(plan)->sites == 1)
			check_map(&site->module->map);
	}
	check_error(err);
	patch_plan_free(plan);
	patch_query_deinit(&q);
	patch_modules_deinit(&modules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct module m = { .start = 0x400000, .end = 0x410000, .bias = 0x400000, .path = (char *)"/fuzzed" };
	char path[64];
	int fd;

	fd = memfd_create("elf", MFD_CLOEXEC);
	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m.open_path = path;
	plan_all(&m);
	close(fd);
	return 0;
}
