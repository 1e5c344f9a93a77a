#include "watchctl/view/export/export_spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/write_all.h"

#define BUFFERED 256 /* chunks that are written with one call */

struct chunk {
	uint64_t before; /* as in the list */
	struct spill_record record[SPILL_RECORDS];
};

struct spill {
	int fd;		  /* -1: not made yet */
	uint64_t nchunks; /* in the file and in the buffer */
	size_t nbuffered;
	struct chunk buffer[BUFFERED];
};

struct spill *spill_new(void)
{
	struct spill *s = malloc(sizeof(*s));

	if (s) {
		s->fd = -1;
		s->nchunks = 0;
		s->nbuffered = 0;
	}
	return s;
}

static struct wc_error *cannot(const char *what)
{
	return wc_error_hint(wc_error_errno(WC_EFAIL, errno, "cannot %s a temporary file", what),
			     "set TMPDIR to a directory with enough space");
}

static int open_file(void)
{
	const char *folder = getenv("TMPDIR");
	char name[4096];
	int fd;

	if (!folder || !*folder || strlen(folder) > sizeof(name) - 40)
		folder = "/tmp";
	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	snprintf(name, sizeof(name), "%s/watchctl-export.XXXXXX", folder);
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	return fd;
}

static struct wc_error *export_spill_flush(struct spill *s)
{
	int why;

	if (s->fd < 0)
		s->fd = open_file();
	if (s->fd < 0)
		return cannot("make");
	why = write_all(s->fd, s->buffer, s->nbuffered * sizeof(s->buffer[0]));
	s->nbuffered = 0;
	errno = why;
	return why ? cannot("write") : NULL;
}

static struct wc_error *move_out(struct spill *s, struct spill_list *l)
{
	struct chunk *c = &s->buffer[s->nbuffered++];

	c->before = l->before;
	memcpy(c->record, l->record, sizeof(c->record));
	l->before = ++s->nchunks;
	l->n = 0;
	return s->nbuffered == BUFFERED ? export_spill_flush(s) : NULL;
}

/* A hundred thousand threads that do little take little. */
static bool grow(struct spill_list *l)
{
	size_t cap = !l->cap ? 4 : l->cap * 4 < SPILL_RECORDS ? l->cap * 4 : SPILL_RECORDS;
	struct spill_record *bigger = reallocarray(l->record, cap, sizeof(*l->record));

	if (!bigger)
		return false;
	l->record = bigger;
	l->cap = cap;
	return true;
}

struct wc_error *spill_put(struct spill *s, struct spill_list *l, const struct spill_record *r)
{
	struct wc_error *err = NULL;

	if (l->n == SPILL_RECORDS)
		err = move_out(s, l);
	else if (l->n == l->cap && !grow(l))
		return &wc_enomem;
	if (!err) {
		l->record[l->n++] = *r;
		l->total++;
	}
	return err;
}

static struct wc_error *read_chunk(struct spill *s, uint64_t number, struct chunk *ret)
{
	ssize_t n = pread(s->fd, ret, sizeof(*ret), (off_t)((number - 1) * sizeof(*ret)));

	if (n == (ssize_t)sizeof(*ret))
		return NULL;
	errno = n < 0 ? errno : EIO;
	return cannot("read");
}

/* The numbers of @l's chunks, the last one first: that is how they are linked. */
static struct wc_error *list_chunks(struct spill *s, const struct spill_list *l, uint64_t **ret, size_t *n)
{
	scoped(freep) uint64_t *number = NULL;
	uint64_t at = l->before;
	struct wc_error *err;
	struct chunk c;
	size_t cap = 0;

	for (*n = 0; at; at = c.before) {
		if (!vec_push(number, *n, cap, at))
			return &wc_enomem;
		err = read_chunk(s, at, &c);
		if (err)
			return err;
	}
	*ret = take_ptr(number);
	return NULL;
}

struct wc_error *spill_each(struct spill *s, struct spill_list *l,
			    void (*each)(void *ctx, const struct spill_record *r), void *ctx)
{
	scoped(freep) uint64_t *number = NULL;
	struct wc_error *err = s->nbuffered ? export_spill_flush(s) : NULL;
	struct chunk c;
	size_t n = 0, i;

	if (!err)
		err = list_chunks(s, l, &number, &n);
	while (!err && n) {
		err = read_chunk(s, number[--n], &c);
		for (i = 0; !err && i < SPILL_RECORDS; i++)
			each(ctx, &c.record[i]);
	}
	for (i = 0; !err && i < l->n; i++)
		each(ctx, &l->record[i]);
	return err;
}

void spill_list_deinit(struct spill_list *l)
{
	free(l->record);
	l->record = NULL;
}

void spill_free(struct spill *s)
{
	if (s && s->fd >= 0)
		close(s->fd);
	free(s);
}
