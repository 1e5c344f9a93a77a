#include "watchctl/cli/request/functions_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define LINE_MAX_BYTES 4096

struct file_reader {
	const char *path;
	unsigned int number; /* of the line, from 1 on */
	char line[LINE_MAX_BYTES + 1];
};

static struct wc_error *error_at(const struct file_reader *r, const char *at, const char *sentence)
{
	const int column = (int)(at - r->line);

	return wc_error_new(WC_EUSAGE, "%s:%u: %s, at column %d of the line:\n  %s\n  %*s^", r->path,
			    r->number, sentence, column + 1, r->line, column, "");
}

/* The next line, without its end. *@more: there was one. */
static struct wc_error *read_line(struct file_reader *r, FILE *f, bool *more)
{
	size_t n = 0;
	int c;

	r->number++;
	while ((c = getc(f)) != EOF && c != '\n') {
		if ((c < ' ' && c != '\t' && c != '\r') || c == 0x7f)
			return wc_error_new(
				WC_EUSAGE,
				"%s:%u: byte %zu is no text: a file of function names is wanted, a glob a line",
				r->path, r->number, n + 1);
		if (n == LINE_MAX_BYTES)
			return wc_error_new(
				WC_EUSAGE, "%s:%u: the line is longer than %d bytes: a glob a line is wanted",
				r->path, r->number, LINE_MAX_BYTES);
		r->line[n++] = c == '\t' || c == '\r' ? ' ' : (char)c;
	}
	if (c == EOF && ferror(f))
		return wc_error_errno(WC_EUSAGE, errno, "cannot read the file of functions %s", r->path);
	r->line[n] = 0;
	*more = c != EOF || n;
	return NULL;
}

/* "::" is a part of names. NULL: there is no other colon. */
static const char *single_colon(const char *glob)
{
	for (const char *at = strchr(glob, ':'); at; at = strchr(at + 2, ':'))
		if (at[1] != ':')
			return at;
	return NULL;
}

static struct wc_error *take_line(struct functions_file *f, struct file_reader *r)
{
	char *at = r->line + strspn(r->line, " "), *glob;
	bool without = *at == '!';
	size_t len;

	at += without;
	at += strspn(at, " ");
	len = strcspn(at, "#");
	while (len && at[len - 1] == ' ')
		len--;
	if (!len)
		return without ? error_at(r, at, "Expected a glob behind '!'") : NULL;
	glob = strndup(at, len);
	if (!glob)
		return &wc_enomem;
	if (single_colon(glob)) {
		at += single_colon(glob) - glob;
		free(glob);
		return error_at(r, at,
				"Expected the name of a function without its module, which --in chooses");
	}
	if (without ? vec_push(f->without, f->nwithout, f->without_cap, glob)
		    : vec_push(f->function, f->nfunctions, f->function_cap, glob))
		return NULL;
	free(glob);
	return &wc_enomem;
}

struct wc_error *functions_file_read(struct functions_file *f, const char *path)
{
	scoped(fclosep) FILE *from = fopen(path, "re");
	struct file_reader r = { .path = path };
	const size_t before = f->nfunctions + f->nwithout;
	struct wc_error *err = NULL;
	bool more = true;

	if (!from)
		return wc_error_errno(WC_EUSAGE, errno, "cannot open the file of functions %s", path);
	while (!err && more) {
		err = read_line(&r, from, &more);
		if (!err && more)
			err = take_line(f, &r);
	}
	if (!err && f->nfunctions + f->nwithout == before)
		err = wc_error_new(WC_EUSAGE, "the file of functions %s holds no glob: give one a line",
				   path);
	return err;
}

void functions_file_deinit(struct functions_file *f)
{
	for (size_t i = 0; i < f->nfunctions; i++)
		free(f->function[i]);
	for (size_t i = 0; i < f->nwithout; i++)
		free(f->without[i]);
	free(f->function);
	free(f->without);
}
