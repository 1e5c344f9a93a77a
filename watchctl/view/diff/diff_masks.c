#include "watchctl/view/diff/diff_masks.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/private_file.h"
#include "watchctl/base/vec.h"

#define COMMENT " # "
#define BLANKS " \t\r"

/* The colon in front of ARG; NULL: there is none. "::" belongs to a name, and so does what is in brackets. */
static const char *argument_of(const char *text)
{
	const char *colon = strrchr(text, ':');

	if (!colon || colon == text || colon[-1] == ':' || strpbrk(colon, "()<>"))
		return NULL;
	return colon;
}

bool diff_masks_has(const struct diff_masks *m, const char *text)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		if (!strcmp(m->v[i].text, text))
			return true;
	return false;
}

struct wc_error *diff_masks_add(struct diff_masks *m, const char *text, const char *why, bool learned)
{
	const char *argument = argument_of(text);
	struct diff_mask mask = { .learned = learned };

	if (!*text || *text == ':' || (argument && (!argument[1] || !strcmp(argument, ":*"))) ||
	    (!argument && text[strlen(text) - 1] == ':'))
		return wc_error_new(
			WC_EUSAGE,
			"\"%s\" is not a mask: it must be FUNC, FUNC:ARG, FUNC:*ARG, FUNC:return or FUNC:changes",
			text);
	if (diff_masks_has(m, text))
		return NULL;
	mask.text = strdup(text);
	mask.why = why ? strdup(why) : NULL;
	if (!mask.text || (why && !mask.why) || !vec_push(m->v, m->n, m->cap, mask)) {
		free(mask.text);
		free(mask.why);
		return &wc_enomem;
	}
	return NULL;
}

struct wc_error *diff_masks_withhold(struct diff_masks *m, const char *text)
{
	size_t before = m->n;
	struct wc_error *err = diff_masks_add(m, text, "withheld", false);

	if (m->n > before)
		m->v[before].withheld = true;
	return err;
}

static bool is_blank(char c)
{
	return strchr(BLANKS, c); /* the end of the line, too */
}

/* The sign of a comment: by itself, for it may be part of a name. NULL: there is none. */
static char *comment_of(char *line)
{
	char *sign = line;

	while ((sign = strchr(sign + 1, '#')))
		if (is_blank(sign[-1]) && is_blank(sign[1]))
			break;
	return sign;
}

static struct wc_error *add_line(struct diff_masks *m, char *line)
{
	char *comment, *end;

	line += strspn(line, " \t");
	if (*line == '#' || *line == '\n' || !*line)
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	comment = comment_of(line);
	if (comment) {
		*comment++ = '\0';
		comment += *comment != '\0';
	}
	for (end = line + strlen(line); end > line && is_blank(end[-1]); end--)
		end[-1] = '\0';
	return diff_masks_add(m, line, comment, false);
}

struct wc_error *diff_masks_read(struct diff_masks *m, const char *path)
{
	scoped(fclosep) FILE *f = fopen(path, "re");
	scoped(freep) char *line = NULL;
	struct wc_error *err = NULL;
	unsigned int number = 0;
	size_t cap = 0;

	if (!f)
		return wc_error_errno(WC_EFAIL, errno, "cannot open the masks %s", path);
	while (!err && getline(&line, &cap, f) >= 0) {
		number++;
		err = add_line(m, line);
	}
	if (err)
		return wc_error_context(err, "%s:%u", path, number);
	return ferror(f) ? wc_error_new(WC_EFAIL, "cannot read the masks %s", path) : NULL;
}

struct wc_error *diff_masks_write(const struct diff_masks *m, const char *path)
{
	scoped(fclosep) FILE *f = private_file_fopen(path);
	size_t i;

	if (!f)
		return wc_error_errno(WC_EFAIL, errno, "cannot write the masks %s", path);
	fputs("# What watchctl diff ignores: FUNC, FUNC:ARG, FUNC:*ARG (what it points to), FUNC:return.\n",
	      f);
	for (i = 0; i < m->n; i++)
		if (!m->v[i].withheld)
			fprintf(f, "%s%s%s\n", m->v[i].text, m->v[i].why ? COMMENT : "",
				m->v[i].why ? m->v[i].why : "");
	if (fflush(f) || ferror(f))
		return wc_error_errno(WC_EFAIL, errno, "cannot write the masks %s", path);
	return NULL;
}

static bool matches(const char *pattern, const char *name, size_t len)
{
	scoped(freep) char *copy = strndup(name, len);

	return copy && fnmatch(pattern, copy, 0) == 0;
}

bool diff_name_matches(const char *pattern, size_t len, const char *name)
{
	scoped(freep) char *copy = strndup(pattern, len);
	size_t bare;

	if (!name || !copy)
		return false;
	bare = strcspn(name, "(@");
	return !strcmp(copy, name) || matches(copy, name, strlen(name)) ||
	       (bare && matches(copy, name, bare));
}

static uint64_t params_called(const struct function_event *f, const char *name)
{
	uint64_t bits = 0;
	uint32_t i;
	char *end;

	if (*name == '#') {
		i = (uint32_t)strtoul(name + 1, &end, 10);
		return !*end && i >= 1 && i <= 64 ? 1ull << (i - 1) : 0;
	}
	for (i = 0; i < f->nparams && i < 64; i++)
		if (f->param[i].name && fnmatch(name, f->param[i].name, 0) == 0)
			bits |= 1ull << i;
	return bits;
}

static bool apply(const char *text, const struct function_event *f, struct diff_masked *ret)
{
	const char *argument = argument_of(text);
	uint64_t bits;

	if (!diff_name_matches(text, argument ? (size_t)(argument - text) : strlen(text), f->name))
		return false;
	if (!argument) {
		ret->calls = true;
		return true;
	}
	argument++;
	if (!strcmp(argument, "calls")) {
		ret->optional = true;
		return true;
	}
	if (!strcmp(argument, "changes")) {
		ret->changes = true;
		return true;
	}
	if (!strcmp(argument, "return")) {
		ret->result = true;
		return true;
	}
	bits = params_called(f, argument + (*argument == '*'));
	ret->pointees |= bits;
	if (*argument != '*')
		ret->params |= bits;
	return bits != 0;
}

struct diff_masked diff_masks_of(struct diff_masks *m, const struct function_event *f)
{
	struct diff_masked ret = { 0 };
	size_t i;

	if (m->no_values)
		ret = (struct diff_masked){
			.result = true, .changes = true, .params = UINT64_MAX, .pointees = UINT64_MAX
		};
	for (i = 0; i < m->n; i++)
		m->v[i].hits += apply(m->v[i].text, f, &ret);
	return ret;
}

void diff_masks_deinit(struct diff_masks *m)
{
	size_t i;

	for (i = 0; i < m->n; i++) {
		free(m->v[i].text);
		free(m->v[i].why);
	}
	free(m->v);
	*m = (struct diff_masks){ 0 };
}
