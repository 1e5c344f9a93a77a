/* Making a log's directory and its files, and letting go of them. */
#include "watchctl/trace/log/tracelog_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/write_all.h"
#include "watchctl/trace/log/tracelog_files.h"

#define PACKETS_OF_FILE 4u /* a small file of a ring has at least so many packets */

static void make_uuid(uint8_t uuid[16])
{
	if (getrandom(uuid, 16, 0) != 16) {
		uint64_t seed[2] = { clock_ns(CLOCK_REALTIME), getpid() };

		memcpy(uuid, seed, 16);
	}
	uuid[6] = (uuid[6] & 0x0f) | 0x40; /* RFC 4122: random */
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

static struct wc_error *write_metadata(struct tracelog_writer *w, int dir)
{
	uint64_t real = clock_ns(CLOCK_REALTIME), mono = monotonic_ns();
	scoped(freep) char *text = NULL;
	scoped(closep) int fd = -1;
	char host[256] = "";
	int err;

	gethostname(host, sizeof(host) - 1);
	text = tracelog_metadata_text(w->uuid, real > mono ? real - mono : 0, host);
	if (!text)
		return &wc_enomem;
	fd = tracelog_file_create(dir, "metadata");
	err = fd < 0 ? errno : write_all(fd, text, strlen(text));
	/* Without it the rest is worth nothing: days of it must not depend on when the kernel writes it back.
	 */
	if (!err && w->ring && fsync(fd) < 0)
		err = errno;
	w->files.others = strlen(text);
	if (err)
		return wc_error_errno(WC_ELOG, err, "cannot write the metadata of the log %s", w->path);
	return NULL;
}

/* Fills the fresh directory; what it made is removed by the caller on error. */
static struct wc_error *create_files(struct tracelog_writer *w)
{
	struct wc_error *err;

	w->files.path = w->path;
	w->files.dir = open(w->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->files.dir < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the log's directory %s", w->path);
	err = write_metadata(w, w->files.dir);
	if (err)
		return err;
	w->mark = tracelog_mark_create(w->files.dir);
	if (w->mark < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot create the log %s", w->path);
	return tracelog_ring_next(&w->files);
}

static void remove_files(struct tracelog_writer *w)
{
	if (w->files.dir >= 0) {
		tracelog_ring_remove(&w->files);
		tracelog_beside_remove(w->files.dir);
		unlinkat(w->files.dir, "metadata", 0);
		unlinkat(w->files.dir, TRACELOG_RECORDER, 0);
	}
	rmdir(w->path);
}

static struct wc_error *make_directory(const char *path)
{
	if (mkdir(path, 0700) == 0)
		return NULL;
	if (errno == EEXIST)
		return wc_error_new(WC_ELOG, "log %s exists already; choose another name or remove it", path);
	if (errno == ENOENT)
		return wc_error_new(WC_ELOG,
				    "cannot create the log %s: the directory it should be in does not exist",
				    path);
	return wc_error_errno(WC_ELOG, errno, "cannot create the log %s", path);
}

static void writer_free(struct tracelog_writer *w)
{
	tracelog_ring_close(&w->files);
	if (w->mark >= 0)
		close(w->mark);
	tracelog_forget_stacks(w);
	map64_deinit(&w->processes);
	reemit_deinit(&w->reemit);
	free(w->packet.buf);
	free(w->path);
	free(w);
}

static struct tracelog_writer *writer_new(const char *path, const struct tracelog_bounds *b)
{
	struct tracelog_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->files.fd = w->files.dir = w->mark = -1;
	w->files.bounds = *b;
	w->ring = tracelog_ring_is_bounded(&w->files);
	w->packet_max = TRACELOG_PACKET_SIZE;
	if (w->ring && tracelog_ring_file_limit(&w->files) / PACKETS_OF_FILE < w->packet_max)
		w->packet_max = tracelog_ring_file_limit(&w->files) / PACKETS_OF_FILE;
	w->path = strdup(path);
	make_uuid(w->uuid);
	if (!w->path || !vec_reserve((void **)&w->packet.buf, &w->packet.cap, 2 * TRACELOG_PACKET_SIZE, 1)) {
		writer_free(w);
		return NULL;
	}
	encode_packet_begin(&w->packet, TRACELOG_MAJOR);
	return w;
}

static struct wc_error *writer_open(const char *path, const struct tracelog_bounds *b,
				    struct tracelog_writer **ret)
{
	struct tracelog_writer *w = writer_new(path, b);
	struct wc_error *err;

	if (!w)
		return &wc_enomem;
	err = make_directory(path);
	if (!err) {
		err = create_files(w);
		if (err)
			remove_files(w);
	}
	if (err) {
		writer_free(w);
		return err;
	}
	*ret = w;
	return NULL;
}

struct wc_error *tracelog_writer_open(const char *path, struct tracelog_writer **ret)
{
	return writer_open(path, &(struct tracelog_bounds){ 0 }, ret);
}

struct wc_error *tracelog_writer_open_ring(const char *path, const struct tracelog_bounds *b,
					   struct tracelog_writer **ret)
{
	if (!b->bytes && !b->keep_ns)
		return wc_error_new(WC_EUSAGE, "a flight recorder needs a bound: in bytes, in time, or both");
	if (b->bytes && b->bytes < TRACELOG_RING_MIN)
		return wc_error_new(
			WC_EUSAGE,
			"a flight recorder needs %u bytes at least: what each of its files repeats "
			"must fit several times",
			TRACELOG_RING_MIN);
	return writer_open(path, b, ret);
}

/* Begun when the disk was full already: without an event, it would look like one that was cut. */
static void drop_empty_file(struct tracelog_writer *w)
{
	char name[TRACELOG_NAME_MAX];

	if (!w->ring || w->files.nfiles < 2 || w->files.file[w->files.nfiles - 1].size)
		return;
	tracelog_file_name(w->files.file[w->files.nfiles - 1].number, name);
	unlinkat(w->files.dir, name, 0);
}

struct wc_error *tracelog_writer_close(struct tracelog_writer *w)
{
	struct wc_error *err;

	if (!w)
		return NULL;
	err = tracelog_writer_flush(w);
	/* A network file system may report the failed write only here. */
	if (close(take_fd(w->files.fd)) < 0 && !err && !w->failed)
		err = wc_error_errno(WC_ELOG, errno, "cannot complete the log %s", w->path);
	drop_empty_file(w);
	/* It is complete: those who follow it find that out when the mark is gone. */
	unlinkat(w->files.dir, TRACELOG_RECORDER, 0);
	writer_free(w);
	return err;
}

void tracelog_writer_closep(struct tracelog_writer **w)
{
	wc_error_free(tracelog_writer_close(*w));
}

void tracelog_writer_forget(struct tracelog_writer *w)
{
	w->files.fd = w->files.dir = w->mark = -1;
	writer_free(w);
}

void tracelog_writer_discard(struct tracelog_writer *w)
{
	if (!w)
		return;
	remove_files(w);
	writer_free(w);
}
