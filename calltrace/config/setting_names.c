#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "calltrace/config/settings.h"
#include "watchctl/base/error.h"
#include "watchctl/base/words/similar.h"

#define SETTING_ROW(name, type, place, fallback, text) { #name, type, place, fallback, text },
const struct setting_row setting_rows[SETTING_COUNT] = { SETTINGS(SETTING_ROW) };

static bool is_name(const char *name, const char *text)
{
	for (; *name && *text; name++, text++)
		if (*name != *text && (*name != '_' || *text != '-'))
			return false;
	return *name == *text;
}

void settings_option_name(enum setting which, char ret[SETTING_NAME_MAX])
{
	size_t i;

	snprintf(ret, SETTING_NAME_MAX, "%s", setting_rows[which].name);
	for (i = 0; ret[i]; i++)
		if (ret[i] == '_')
			ret[i] = '-';
}

void settings_variable_name(enum setting which, char ret[SETTING_NAME_MAX])
{
	size_t i;

	snprintf(ret, SETTING_NAME_MAX, "CALLTRACE_%s", setting_rows[which].name);
	for (i = 0; ret[i]; i++)
		ret[i] = (char)toupper((unsigned char)ret[i]);
}

bool settings_find(const char *name, enum setting *ret)
{
	size_t i;

	for (i = 0; i < SETTING_COUNT; i++) {
		if (is_name(setting_rows[i].name, name)) {
			*ret = (enum setting)i;
			return true;
		}
	}
	return false;
}

bool settings_find_negation(const char *name, enum setting *ret)
{
	return !strncmp(name, "no-", 3) && settings_find(name + 3, ret) &&
	       setting_rows[*ret].type == SETTING_BOOL;
}

struct wc_error *settings_unknown(const char *name, const char *prefix)
{
	char known[SETTING_COUNT][SETTING_NAME_MAX + 16], own[SETTING_NAME_MAX], list[256], asked[256];
	struct similar near;
	size_t i;

	snprintf(asked, sizeof(asked), "%s%s", prefix, name);
	similar_init(&near, asked, strlen(asked));
	for (i = 0; i < SETTING_COUNT; i++) {
		snprintf(own, sizeof(own), "%s", setting_rows[i].name);
		if (*prefix)
			settings_option_name((enum setting)i, own);
		snprintf(known[i], sizeof(known[i]), "%s%s", prefix, own);
		similar_offer(&near, known[i]);
	}
	if (similar_list(&near, list, sizeof(list)))
		return wc_error_new(WC_EUSAGE, "there is no %s: did you mean %s?", asked, list);
	return wc_error_new(WC_EUSAGE, "there is no %s: calltrace-opt --help lists what there is", asked);
}
