/*
 * Which instructions a mnemonic may be. Zydis and capstone have different names for a few: what people type is
 * capstone's, or one of the manual's others, and the sweep has Zydis'. So a name is compared in every spelling here, and
 * the one that capstone has decides where it can.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/patch/plan/near_name.h"
#include "watchctl/patch/plan/pattern_impl.h"

/* Conditions: Zydis', capstone's, and what else the manual has. */
static const char *const conditions[][4] = {
	{ "b", "b", "c", "nae" },     { "nb", "ae", "nc", "nb" }, { "z", "e", "z", "z" },
	{ "nz", "ne", "nz", "nz" },   { "be", "be", "na", "na" }, { "nbe", "a", "nbe", "nbe" },
	{ "l", "l", "nge", "nge" },   { "nl", "ge", "nl", "nl" }, { "le", "le", "ng", "ng" },
	{ "nle", "g", "nle", "nle" }, { "p", "p", "pe", "pe" },	  { "np", "np", "po", "po" },
};

static const char *const with_condition[] = { "j", "set", "cmov" };

static const char *const others[][2] = {
	{ "mov", "movabs" }, { "xlat", "xlatb" },    { "ret", "retf" },	  { "ret", "retfq" },
	{ "call", "lcall" }, { "jmp", "ljmp" },	     { "fwait", "wait" }, { "shl", "sal" },
	{ "int1", "icebp" }, { "movsxd", "movslq" },
};

static bool fits(const char *glob, const char *name)
{
	return !fnmatch(glob, name, 0);
}

static bool fits_condition(const char *glob, const char *name)
{
	for (size_t i = 0; i < sizeof(with_condition) / sizeof(*with_condition); i++) {
		size_t n = strlen(with_condition[i]);

		for (size_t k = 0;
		     !strncmp(name, with_condition[i], n) && k < sizeof(conditions) / sizeof(*conditions);
		     k++) {
			char other[16];

			for (size_t j = 1; !strcmp(name + n, conditions[k][0]) && j < 4; j++) {
				snprintf(other, sizeof(other), "%s%s", with_condition[i], conditions[k][j]);
				if (fits(glob, other))
					return true;
			}
		}
	}
	return false;
}

static bool fits_other(const char *glob, const char *name)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(name, others[i][0]) && fits(glob, others[i][1]))
			return true;
	return false;
}

static struct wc_error *no_such_name(const struct pattern *p, const struct pattern_element *e)
{
	struct near_names near = { .query = e->name };
	char list[120];

	for (size_t i = 1; i < insn_scan_names(); i++)
		near_names_offer(&near, insn_scan_name((uint16_t)i));
	near_names_text(&near, list, sizeof(list));
	return pattern_error(p, WC_ENAME, e->at, "no instruction is called \"%s\"%s", e->name, list);
}

struct wc_error *pattern_find_names(const struct pattern *p, struct pattern_element *e)
{
	bool any = false;

	if (e->kind != ELEMENT_INSN)
		return NULL;
	e->may = calloc(insn_scan_names(), sizeof(*e->may));
	if (!e->may)
		return &wc_enomem;
	for (size_t i = 1; i < insn_scan_names(); i++) {
		const char *name = insn_scan_name((uint16_t)i);

		e->may[i] = fits(e->name, name) || fits_condition(e->name, name) || fits_other(e->name, name);
		any |= e->may[i];
	}
	return any ? NULL : no_such_name(p, e);
}
