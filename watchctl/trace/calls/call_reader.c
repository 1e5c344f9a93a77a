#include "watchctl/trace/calls/call_reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_member.h"

struct indexed_packet {
	uint64_t offset, bytes;
	uint32_t number;
	uint64_t begin_ns, end_ns;
	bool is_bad, follows_gap;
};

struct call_file_map {
	char *name;
	pid_t pid, tid;
	uint64_t size; /* when it was opened: what is behind it comes too late */
	struct indexed_packet *packet;
	size_t n, cap;
	size_t at;	  /* the next one to be read */
	uint64_t from_ns; /* what is before it in that one is passed over */
	bool torn;
	uint64_t discarded;
};

struct call_reader {
	int dir;
	struct tracelog_identity id;
	struct call_file_map *file;
	size_t n, cap;
	/* A batch. */
	uint64_t time_ns[CALL_PACKET_EVENTS];
	uint32_t function[CALL_PACKET_EVENTS];
	uint8_t what[CALL_PACKET_EVENTS];
	struct call_more more[CALL_PACKET_EVENTS / 2]; /* into the packet: each is two words at least */
	size_t nmore;
	struct call_damage damage;
	/* A packet, or a part of a file in which one is looked for. */
	union {
		struct call_packet packet;
		uint8_t bytes[CALL_PACKET_BYTES];
	};
};

/* Files */

static void end_of_file(struct call_reader *r, uint64_t bytes, const char *why)
{
	r->damage.ignored += bytes;
	r->damage.why = r->damage.why ? r->damage.why : why;
}

/* How many bytes there were. */
static size_t read_at(int fd, uint64_t offset, void *buf, size_t len)
{
	size_t got = 0;
	ssize_t n;

	while (got < len && (n = pread(fd, (uint8_t *)buf + got, len - got, (off_t)(offset + got))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		got += (size_t)n;
	}
	return got;
}

/* NULL: @p, which has @left bytes up to the end of its file, is whole, as far as its head says. */
static const char *why_no_packet(const struct call_reader *r, const struct call_packet *p, uint64_t left)
{
	if (left < sizeof(*p))
		return "it ends in the middle of a packet";
	if (p->magic != TRACELOG_MAGIC || p->stream_id != CALL_STREAM_ID ||
	    memcmp(p->uuid, r->id.uuid, 16) != 0)
		return "what follows is no packet of this log";
	if (p->packet_bits != p->content_bits || p->packet_bits % 64 || p->packet_bits / 8 < sizeof(*p) ||
	    p->packet_bits / 8 > CALL_PACKET_BYTES || p->end_ns < p->begin_ns)
		return "the head of a packet makes no sense";
	if (p->packet_bits / 8 > left)
		return "it ends in the middle of a packet";
	return NULL;
}

/* Behind damage the next packet is found by its head; all of them begin at multiples of 8. */
static uint64_t next_packet(struct call_reader *r, int fd, uint64_t size, uint64_t offset)
{
	const size_t head = sizeof(struct call_packet);

	for (offset += 8; offset + head <= size;) {
		size_t n = read_at(fd, offset, r->bytes, sizeof(r->bytes)), i;

		for (i = 0; i + head <= n; i += 8) {
			struct call_packet p;

			memcpy(&p, r->bytes + i, head);
			if (!why_no_packet(r, &p, size - offset - i))
				return offset + i;
		}
		if (!i)
			break;
		offset += i;
	}
	return size;
}

static bool add_packet(struct call_file_map *f, const struct call_packet *p, uint64_t offset,
		       bool follows_gap)
{
	struct indexed_packet i = {
		.offset = offset,
		.bytes = p->packet_bits / 8,
		.number = p->packet,
		.begin_ns = p->begin_ns,
		.end_ns = p->end_ns,
		.follows_gap = follows_gap || p->packet != (f->n ? f->packet[f->n - 1].number + 1 : 0),
	};

	if (!f->n) {
		f->pid = p->pid;
		f->tid = p->tid;
	}
	return vec_push(f->packet, f->n, f->cap, i);
}

static void note_gap(struct call_reader *r, const char *why)
{
	r->damage.packets++;
	r->damage.why = r->damage.why ? r->damage.why : why;
}

static bool index_file(struct call_reader *r, struct call_file_map *f, int fd)
{
	uint64_t offset = 0, next;
	bool gap = false;

	while (offset < f->size) {
		struct call_packet p = { 0 };
		const char *why;

		read_at(fd, offset, &p, sizeof(p));
		why = why_no_packet(r, &p, f->size - offset);
		if (!why) {
			if (!add_packet(f, &p, offset, gap))
				return false;
			gap = false;
			offset += p.packet_bits / 8;
			continue;
		}
		next = next_packet(r, fd, f->size, offset);
		if (next == f->size) {
			end_of_file(r, f->size - offset, why);
			return true;
		}
		note_gap(r, why);
		gap = true;
		offset = next;
	}
	return true;
}

static struct wc_error *add_file(struct call_reader *r, const char *path, const char *name)
{
	scoped(closep) int fd = openat(r->dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct call_file_map f = { 0 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open %s/%s", path, name);
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return NULL;
	f.size = (uint64_t)st.st_size;
	f.name = strdup(name);
	if (f.name && index_file(r, &f, fd) && vec_push(r->file, r->n, r->cap, f))
		return NULL;
	free(f.name);
	free(f.packet);
	return &wc_enomem;
}

static int is_calls(const struct dirent *d)
{
	return tracelog_is_calls(d->d_name);
}

struct wc_error *call_reader_open(const char *path, struct call_reader **ret)
{
	scoped(call_reader_closep) struct call_reader *r = calloc(1, sizeof(*r));
	struct dirent **entry = NULL;
	struct wc_error *err;
	int n, i;

	if (!r)
		return &wc_enomem;
	r->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the log %s", path);
	err = tracelog_metadata_read(r->dir, path, &r->id, NULL);
	if (err)
		return err;
	n = scandirat(r->dir, ".", &entry, is_calls, alphasort);
	if (n < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot read the log %s", path);
	for (i = 0; i < n; i++) {
		if (!err)
			err = add_file(r, path, entry[i]->d_name);
		free(entry[i]);
	}
	free(entry);
	if (!err)
		*ret = take_ptr(r);
	return err;
}

void call_reader_close(struct call_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++) {
		free(r->file[i].name);
		free(r->file[i].packet);
	}
	if (r->dir >= 0)
		close(r->dir);
	free(r->file);
	free(r);
}

void call_reader_closep(struct call_reader **r)
{
	call_reader_close(*r);
}

size_t call_reader_threads(const struct call_reader *r)
{
	return r->n;
}

void call_reader_thread(const struct call_reader *r, size_t thread, struct call_thread *ret)
{
	const struct call_file_map *f = &r->file[thread];

	*ret = (struct call_thread){
		.pid = f->pid,
		.tid = f->tid,
		.begin_ns = f->n ? f->packet[0].begin_ns : 0,
		.end_ns = f->n ? f->packet[f->n - 1].end_ns : 0,
		.packets = f->n,
	};
}

void call_reader_damage(const struct call_reader *r, struct call_damage *ret)
{
	*ret = r->damage;
}

/* Events */

/* Into r->packet. False: it is damaged, and nothing in it is believed. */
static bool read_packet(struct call_reader *r, struct call_file_map *f, struct indexed_packet *i)
{
	scoped(closep) int fd = openat(r->dir, f->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct call_packet *p = &r->packet;
	bool ok = fd >= 0 && read_at(fd, i->offset, p, i->bytes) == i->bytes &&
		  p->packet_bits / 8 == i->bytes && call_packet_checksum(p, i->bytes) == p->crc32c;

	if (!ok && !i->is_bad)
		note_gap(r, "a packet is not what was written");
	i->is_bad = !ok;
	if (!ok || p->discarded <= f->discarded)
		return ok;
	r->damage.discarded += p->discarded - f->discarded;
	f->discarded = p->discarded;
	f->torn = true;
	return true;
}

static bool is_event(uint64_t word)
{
	return call_word_kind(word) == CALL_WORD_EVENT;
}

/* Words at @word, of which there are @n in the packet, before event @k. */
static size_t take_more(struct call_reader *r, const uint64_t *word, size_t n, size_t k)
{
	const uint64_t have = *word >> CALL_FUNCTION_SHIFT;

	if (have && have < n && (!is_event(word[1]) || have >= CALL_EVENT_WORDS))
		r->more[r->nmore++] = (struct call_more){ .at = k, .word = word + 1, .n = (size_t)have };
	return (size_t)have;
}

/* How many events there are in @n words at @word. */
static size_t unpack(struct call_reader *r, const uint64_t *word, size_t n, uint64_t time_ns)
{
	size_t k = 0;

	r->nmore = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t v = word[i];

		time_ns += (uint32_t)((uint32_t)(v >> CALL_TIME_SHIFT) - (uint32_t)time_ns);
		if (__builtin_expect((v & 3) == CALL_MORE, 0)) {
			const size_t nmore = r->nmore;

			i += take_more(r, word + i, n - i, k);
			if (r->nmore == nmore || !is_event(*r->more[nmore].word))
				continue;
			v = call_pack(CALL_MORE, 0, call_word_function(*r->more[nmore].word));
		}
		r->time_ns[k] = time_ns;
		r->function[k] = (uint32_t)(v >> CALL_FUNCTION_SHIFT);
		r->what[k++] = (uint8_t)(v & 3);
	}
	return k;
}

static size_t first_at(const struct call_reader *r, size_t n, uint64_t from_ns)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->time_ns[middle] < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The words behind event @first, which is the first one of @b, and its own. */
static void take_words(struct call_reader *r, size_t first, struct call_batch *b)
{
	size_t i = 0;

	while (first && i < r->nmore &&
	       (r->more[i].at < first || (r->more[i].at == first && !is_event(*r->more[i].word))))
		i++;
	b->more = r->more + i;
	b->nmore = r->nmore - i;
	for (; i < r->nmore; i++)
		r->more[i].at -= first;
}

bool call_reader_next(struct call_reader *r, size_t thread, struct call_batch *ret)
{
	struct call_file_map *f = &r->file[thread];

	*ret = (struct call_batch){ 0 };
	while (!ret->n && f->at < f->n) {
		struct indexed_packet *i = &f->packet[f->at++];
		size_t n, first;

		f->torn |= i->follows_gap;
		if (!read_packet(r, f, i)) {
			f->torn = true;
			continue;
		}
		n = unpack(r, r->packet.event, (i->bytes - sizeof(r->packet)) / sizeof(uint64_t),
			   r->packet.begin_ns);
		first = f->from_ns ? first_at(r, n, f->from_ns) : 0;
		*ret = (struct call_batch){ .n = n - first,
					    .time_ns = r->time_ns + first,
					    .function = r->function + first,
					    .what = r->what + first,
					    .torn = f->torn,
					    .packet = f->at - 1 };
		take_words(r, first, ret);
	}
	if (!ret->n)
		return false;
	f->torn = false;
	f->from_ns = 0;
	return true;
}

void call_reader_seek(struct call_reader *r, size_t thread, uint64_t time_ns)
{
	struct call_file_map *f = &r->file[thread];
	size_t low = 0, high = f->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (f->packet[middle].end_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	f->at = low;
	f->from_ns = time_ns;
	f->torn = false;
}

void call_reader_seek_packet(struct call_reader *r, size_t thread, size_t packet)
{
	struct call_file_map *f = &r->file[thread];

	f->at = packet;
	f->from_ns = 0;
	f->torn = false;
}
