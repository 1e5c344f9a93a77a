#include "watchctl/cli/patch/patch_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/insn/disasm.h"
#include "watchctl/code/symbols/code_image.h"
#include "watchctl/patch/plan/code_map.h"
#include "watchctl/patch/plan/patch_tactic.h"
#include "watchctl/view/words/json.h"

#define WHY_MAX 256

/* What a site is called: its function, or NULL, and how far into it. */
struct place {
	char *function; /* owned */
	uint64_t offset;
};

static void put_place(const struct patch_site *s, struct place *ret)
{
	bool named = s->function && s->function->name;

	ret->function = named ? code_image_name_shown(s->function->name) : NULL;
	ret->offset = s->function ? s->addr - s->function->start : 0;
}

static void put_insn(const struct patch_site *s, char *buf, size_t cap)
{
	const struct code_part *p = code_map_part(&s->module->map, s->addr);

	buf[0] = '\0';
	if (p)
		disasm_text(INSN_INTEL, p->bytes + (s->addr - p->start), p->len - (s->addr - p->start),
			    s->addr, buf, cap);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_json(struct patch_printer *p, const struct patch_site *s)
{
	const struct tactic_choice *c = &s->choice;
	char insn[160], why[WHY_MAX];
	struct json j = { 0 };
	struct place place;

	put_place(s, &place);
	put_insn(s, insn, sizeof(insn));
	tactic_why_text(c, why, sizeof(why));
	json_open(&j, NULL, '{');
	json_text(&j, "type", "patch_site");
	json_text_if(&j, "function", place.function);
	if (place.function)
		json_number(&j, "offset", place.offset);
	json_text(&j, "module", s->module->module.path);
	json_text_if(&j, "insn", insn);
	json_text(&j, "tactic", tactic_name(c->tactic));
	json_text(&j, "reason", why);
	json_hex(&j, "addr", s->addr);
	json_text(&j, "pattern", s->pattern->text);
	json_text(&j, "cost", tactic_cost_name(tactic_cost(c)));
	if (c->len) {
		json_hex(&j, "start", c->start);
		json_number(&j, "length", c->len);
		json_number(&j, "moved", c->moved);
	}
	if (c->via)
		json_hex(&j, "via", c->via);
	json_close(&j, '}');
	json_end_line(&j, p->out);
	json_deinit(&j);
	free(place.function);
}

static void print_row(struct patch_printer *p, const struct patch_site *s)
{
	char insn[160], why[WHY_MAX];
	struct place place;

	put_place(s, &place);
	put_insn(s, insn, sizeof(insn));
	tactic_why_text(&s->choice, why, sizeof(why));
	text_buf_printf(&p->rows, "%-8s %s 0x%" PRIx64 "  ", tactic_name(s->choice.tactic),
			base_name(s->module->module.path), s->addr);
	if (place.function && place.offset)
		text_buf_printf(&p->rows, "%s+0x%" PRIx64 "  ", place.function, place.offset);
	else if (place.function)
		text_buf_printf(&p->rows, "%s  ", place.function);
	text_buf_printf(&p->rows, "%s\n         %s\n", insn, why);
	free(place.function);
}

/* What has been collected is printed at once where all are wanted, and thrown away when they are too many. */
static void end_row(struct patch_printer *p)
{
	if (p->all)
		fputs(text_buf_text(&p->rows), p->out);
	if (p->all || p->nrows > PATCH_ROWS)
		text_buf_empty(&p->rows);
}

void patch_print_site(struct patch_printer *p, const struct patch_site *site)
{
	if (p->json) {
		print_json(p, site);
		return;
	}
	p->nrows++;
	if (!p->all && p->nrows > PATCH_ROWS) {
		text_buf_empty(&p->rows);
		return;
	}
	print_row(p, site);
	end_row(p);
}

/* Totals */

static double percent(size_t n, size_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0;
}

static size_t without_trap(const struct patch_totals *t)
{
	return t->sites - t->tactic[TACTIC_TRAP] - t->tactic[TACTIC_REFUSED];
}

static void print_json_totals(const struct patch_printer *p, const struct patch_totals *t)
{
	struct json j = { 0 };

	json_open(&j, NULL, '{');
	json_text(&j, "type", "patch_total");
	json_number(&j, "sites", t->sites);
	for (unsigned int i = 0; i < TACTICS; i++)
		json_number(&j, tactic_name(i), t->tactic[i]);
	json_number(&j, "without_trap", without_trap(t));
	json_open(&j, "reasons", '[');
	for (unsigned int i = 0; i < TACTICS; i++)
		for (unsigned int k = 0; k < WHY_KINDS; k++) {
			if (!t->why[i][k])
				continue;
			json_open(&j, NULL, '{');
			json_text(&j, "tactic", tactic_name(i));
			json_text(&j, "reason", tactic_why_short(k));
			json_number(&j, "count", t->why[i][k]);
			json_close(&j, '}');
		}
	json_close(&j, ']');
	json_number(&j, "modules", t->modules);
	json_number(&j, "functions", t->functions);
	json_number(&j, "instructions", t->instructions);
	json_number(&j, "jump_tables", t->tables);
	json_number(&j, "unresolved_jumps", t->unresolved);
	json_number(&j, "analysis_ns", t->sweep_ns);
	json_close(&j, '}');
	json_end_line(&j, p->out);
	json_deinit(&j);
}

static void print_reasons(const struct patch_printer *p, const struct patch_totals *t, enum tactic tactic)
{
	for (unsigned int k = 0; k < WHY_KINDS; k++)
		if (t->why[tactic][k])
			fprintf(p->out, "    %9zu  %s\n", t->why[tactic][k], tactic_why_short(k));
}

static void print_text_totals(const struct patch_printer *p, const struct patch_totals *t)
{
	for (unsigned int i = 0; i < TACTICS; i++) {
		if (!t->tactic[i])
			continue;
		fprintf(p->out, "%-8s %8zu  %6.2f %%\n", tactic_name(i), t->tactic[i],
			percent(t->tactic[i], t->sites));
		print_reasons(p, t, i);
	}
	fprintf(p->out,
		"%zu site%s, %.2f %% without a trap; %zu instructions in %zu functions of %zu module%s looked at, "
		"%zu jump tables, %zu unresolved jumps\n",
		t->sites, t->sites == 1 ? "" : "s", percent(without_trap(t), t->sites), t->instructions,
		t->functions, t->modules, t->modules == 1 ? "" : "s", t->tables, t->unresolved);
}

void patch_print_totals(struct patch_printer *p, const struct patch_totals *t)
{
	if (p->json) {
		print_json_totals(p, t);
		return;
	}
	if (!p->all && p->nrows > PATCH_ROWS)
		fprintf(p->out, "(%zu sites are not listed: --sites lists them)\n", p->nrows);
	else if (!p->all)
		fputs(text_buf_text(&p->rows), p->out);
	print_text_totals(p, t);
}

void patch_printer_deinit(struct patch_printer *p)
{
	text_buf_deinit(&p->rows);
}
