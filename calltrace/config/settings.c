#include "calltrace/config/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calltrace/config/filters.h"
#include "calltrace/config/toml.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"

#define FILE_NAME "calltrace.toml"

/* Values */

static bool is_one_of(const char *value, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(value, *words))
			return true;
	return false;
}

static const char *const yes[] = { "true", "1", "yes", "on", NULL };
static const char *const no[] = { "false", "0", "no", "off", NULL };
static const char *const languages[] = { "bitcode", "ir", NULL };

/* NULL: @value is of the type; or what is. */
static const char *wrong(enum setting_type type, const char *value)
{
	switch (type) {
	case SETTING_BOOL:
		return is_one_of(value, yes) || is_one_of(value, no) ? NULL : "true and false are";
	case SETTING_LANGUAGE:
		return is_one_of(value, languages) ? NULL : "bitcode and ir are";
	default:
		return NULL;
	}
}

struct wc_error *settings_set(struct settings *s, enum setting which, const char *value, const char *from)
{
	const char *right = wrong(setting_rows[which].type, value);
	char *own;

	if (right)
		return wc_error_new(WC_EUSAGE, "%s: '%s' is no value for it: %s", from, value, right);
	own = strdup(value);
	if (!own)
		return &wc_enomem;
	free(s->value[which]);
	s->value[which] = own;
	return NULL;
}

const char *settings_text(const struct settings *s, enum setting which)
{
	return s->value[which] ? s->value[which] : setting_rows[which].fallback;
}

bool settings_is(const struct settings *s, enum setting which)
{
	return is_one_of(settings_text(s, which), yes);
}

/* The environment */

static struct wc_error *read_environment(struct settings *s)
{
	struct wc_error *err = NULL;
	char name[SETTING_NAME_MAX];
	const char *value;
	size_t i;

	for (i = 0; i < SETTING_COUNT && !err; i++) {
		settings_variable_name((enum setting)i, name);
		value = getenv(name);
		if (value && !s->value[i])
			err = settings_set(s, (enum setting)i, value, name);
	}
	return err;
}

/* calltrace.toml */

/* The nearest one, from the working directory upward, or NULL. *@err: it cannot be told. */
static char *find_file(struct wc_error **err)
{
	char path[PATH_MAX + sizeof("/" FILE_NAME)], *slash;

	*err = NULL;
	if (!getcwd(path, PATH_MAX))
		return NULL;
	for (;;) {
		const size_t len = strcmp(path, "/") ? strlen(path) : 0;

		memcpy(path + len, "/" FILE_NAME, sizeof("/" FILE_NAME));
		if (!access(path, F_OK)) {
			char *ret = strdup(path);

			if (!ret)
				*err = &wc_enomem;
			return ret;
		}
		path[len] = '\0';
		slash = strrchr(path, '/');
		if (!slash)
			return NULL;
		slash[slash == path] = '\0';
	}
}

/* The value of @v as an option would say it: a path is relative to the folder of the file at @path. */
static char *text_of(const struct toml_value *v, enum setting_type type, const char *path)
{
	char *ret = NULL;
	int len;

	if (type == SETTING_BOOL)
		return v->type == TOML_BOOL ? strdup(v->is_true ? "true" : "false") : NULL;
	if (v->type != TOML_STRING || strlen(v->string) != v->len)
		return NULL;
	if (type != SETTING_PATH || !*v->string || *v->string == '/' || !strcmp(v->string, "-"))
		return strdup(v->string);
	len = asprintf(&ret, "%.*s/%s", (int)(strrchr(path, '/') - path), path, v->string);
	return len < 0 ? NULL : ret;
}

/* @v is of the top level. */
static struct wc_error *take_value(struct settings *s, const struct toml *t, const struct toml_value *v)
{
	scoped(wc_error_freep) struct wc_error *unknown = NULL;
	scoped(freep) char *text = NULL;
	enum setting i;

	if (!strcmp(v->key, "block") || !strcmp(v->key, "allow"))
		return NULL;
	if (!settings_find(v->key, &i)) {
		unknown = settings_unknown(v->key, "");
		return toml_error(t, v, unknown->text);
	}
	text = text_of(v, setting_rows[i].type, t->path);
	if (!text)
		return toml_error(t, v,
				  setting_rows[i].type == SETTING_BOOL ? "true or false must be here"
								       : "a text in quotes must be here");
	if (wrong(setting_rows[i].type, text))
		return toml_error(t, v, "bitcode or ir must be here");
	return s->value[i] ? NULL : settings_set(s, i, text, v->key);
}

static struct wc_error *read_file(struct settings *s)
{
	scoped(toml_freep) struct toml *t = NULL;
	scoped(freep) char *path = NULL;
	struct wc_error *err;
	bool has_rules = false;
	size_t i;

	path = find_file(&err);
	if (!err && path)
		err = toml_read(path, &t);
	for (i = 0; !err && t && i < t->n; i++) {
		const struct toml_value *v = &t->value[i];

		if (!*v->table && v->key)
			err = take_value(s, t, v);
		else if (!strcmp(v->table, "block") || !strcmp(v->table, "allow"))
			has_rules = true;
		else if (!v->key && !v->index)
			err = toml_error(t, v, "it has [[block]] and [[allow]], and no other tables");
	}
	if (err || !t)
		return err;
	/* Wrong ones are told, also if another file is named. */
	err = filters_new(t, &s->filters);
	if (!err && !has_rules) {
		filters_free(s->filters);
		s->filters = NULL;
	}
	return err;
}

static struct wc_error *read_filters(struct settings *s)
{
	const char *path = settings_text(s, SET_filters_file);
	scoped(toml_freep) struct toml *t = NULL;
	struct wc_error *err;
	size_t i;

	if (!*path)
		return NULL;
	filters_free(s->filters);
	s->filters = NULL;
	err = toml_read(path, &t);
	for (i = 0; !err && i < t->n; i++) {
		const struct toml_value *v = &t->value[i];
		const char *name = *v->table ? v->table : v->key;

		if (strcmp(name, "block") != 0 && strcmp(name, "allow") != 0)
			err = toml_error(t, v,
					 "a file of filters has [[block]] and [[allow]], and nothing else");
	}
	return err ? err : filters_new(t, &s->filters);
}

struct wc_error *settings_read(struct settings *s)
{
	struct wc_error *err = read_environment(s);

	if (!err)
		err = read_file(s);
	return err ? err : read_filters(s);
}

void settings_deinit(struct settings *s)
{
	size_t i;

	for (i = 0; i < SETTING_COUNT; i++)
		free(s->value[i]);
	filters_free(s->filters);
	*s = (struct settings){ 0 };
}
