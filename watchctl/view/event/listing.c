#include "watchctl/view/event/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/symbol_search.h"
#include "watchctl/code/symbols/source_path.h"

#define FILE_MAX ((size_t)16 << 20)
#define LINE_MAX_BYTES 1024 /* of what is shown of a line */
#define TAB 8

static const char why_missing[] = "the source file is not here";
static const char why_not_regular[] = "it is not a regular file";
static const char why_large[] = "the source file is larger than 16 MB";
static const char why_unreadable[] = "the source file cannot be read";
static const char why_not_text[] = "the source file is not text";
static const char why_no_line[] = "the source file has no such line";
static const char why_no_folder[] = "the directory of its compilation is not known";
static const char why_ambiguous[] = "several source files of the program have this name";

void listing_deinit(struct listing *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		free(l->v[i].text);
	free(l->v);
	*l = (struct listing){ 0 };
}

/* A whole file in memory. */
struct text {
	char *bytes;
	size_t len;
};

/* Of a path that anybody may have put into a log: devices, pipes and what never ends are not read. NULL:
 * read. */
static const char *read_file(const char *path, struct text *ret, struct stat *st, bool *no_memory)
{
	scoped(closep) int fd = -1;
	scoped(freep) char *bytes = NULL;
	size_t len = 0, size;

	if (stat(path, st) < 0)
		return errno == EACCES ? why_unreadable : why_missing;
	if (!S_ISREG(st->st_mode))
		return why_not_regular;
	fd = symbol_search_open_regular(path);
	if (fd < 0)
		return why_unreadable;
	/* What was looked at above may be another file by now. */
	if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
		return why_not_regular;
	if ((uint64_t)st->st_size > FILE_MAX)
		return why_large;
	size = (size_t)st->st_size;
	bytes = malloc(size + 1);
	if (!bytes) {
		*no_memory = true;
		return why_unreadable;
	}
	while (len < size) {
		ssize_t n = read(fd, bytes + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return why_unreadable;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (memchr(bytes, '\0', len))
		return why_not_text;
	ret->bytes = take_ptr(bytes);
	ret->len = len;
	return NULL;
}

/* @len bytes of a line, clean and with its tabs expanded. NULL: no memory. */
static char *line_text(const char *from, size_t len)
{
	size_t cap = len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES, used = 0, column = 0, i;
	scoped(freep) char *wide = malloc(cap * TAB + 1);
	char *clean;

	if (!wide)
		return NULL;
	for (i = 0; i < cap; i++) {
		if (from[i] == '\r' && i + 1 == len)
			break;
		if (from[i] == '\t') {
			do
				wide[used++] = ' ';
			while (++column % TAB);
			continue;
		}
		wide[used++] = from[i];
		column += (from[i] & 0xc0) != 0x80;
	}
	wide[used] = '\0';
	clean = malloc(used + 1);
	return clean ? utf8_clean(wide, clean, used + 1) : NULL;
}

static bool add_line(struct listing *l, size_t *cap, uint32_t line, bool here, const char *from, size_t len)
{
	char *text = line_text(from, len);

	if (text &&
	    vec_push(l->v, l->n, *cap, (struct listing_line){ .line = line, .here = here, .text = text }))
		return true;
	free(text);
	return false;
}

static bool take_lines(const struct text *t, uint32_t line, uint32_t around, struct listing *ret)
{
	uint64_t first = line > around ? line - around : 1, last = (uint64_t)line + around, at = 1;
	const char *p = t->bytes, *end = t->bytes + t->len;
	size_t cap = 0;

	for (; p < end && at <= last; at++) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((eol ? eol : end) - p);

		if (at >= first && !add_line(ret, &cap, (uint32_t)at, at == line, p, len))
			return false;
		p += len + (eol != NULL);
	}
	/* The line itself must be there: those before it alone would show another place. */
	if (at <= line) {
		listing_deinit(ret);
		ret->why = why_no_line;
	}
	return true;
}

static bool is_younger(const struct stat *source, const char *module)
{
	struct stat st;

	return module && stat(module, &st) == 0 && S_ISREG(st.st_mode) && source->st_mtime > st.st_mtime;
}

/* The path to open: @file itself or, in *@owned, where it was compiled. NULL: *@why, or no memory. */
static const char *full_path(const char *file, const char *module, char **owned, const char **why)
{
	enum source_found found = SOURCE_UNKNOWN;
	struct wc_error *err;

	if (file[0] == '/')
		return file;
	if (module && module[0] == '/') {
		err = source_path(module, file, owned, &found);
		if (err) {
			wc_error_free(err);
			return NULL;
		}
	}
	if (found != SOURCE_FOUND)
		*why = found == SOURCE_AMBIGUOUS ? why_ambiguous : why_no_folder;
	return *owned;
}

bool listing_source(const char *file, const char *module, uint32_t line, uint32_t around, struct listing *ret)
{
	scoped(freep) char *owned = NULL;
	struct text text = { 0 };
	bool no_memory = false, ok;
	const char *path;
	struct stat st;

	*ret = (struct listing){ 0 };
	if (!line) {
		ret->why = why_no_line;
		return true;
	}
	path = full_path(file, module, &owned, &ret->why);
	if (!path)
		return ret->why != NULL;
	ret->why = read_file(path, &text, &st, &no_memory);
	if (ret->why)
		return !no_memory;
	ok = take_lines(&text, line, around, ret);
	free(text.bytes);
	if (!ok)
		listing_deinit(ret);
	else if (!ret->why)
		ret->newer = is_younger(&st, module);
	return ok;
}
