/*
 * A packet is filled in memory, a CPU has one, and written when it is full or when the writer is flushed. Only then does it
 * get a place: in the file of its CPU of the generation that is current, and of a flight recorder there must be room for
 * it first.
 *
 * A generation that begins needs no older one: its `names` say which threads and sockets there are. Packets that were
 * begun before go into it, too, so that threads that ended since the oldest of them began are among these.
 */
#include "watchctl/trace/flow/flow_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/write_all.h"
#include "watchctl/trace/flow/flow_known.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_member.h"

#define GENERATIONS 8u /* of a flight recorder, about */
#define NAMES_SHARE 4u /* the part of a flight recorder that its repeated names may take */
#define NOT_KNOWN UINT32_MAX

/* A CPU's packet, and the file that it goes to. */
struct flow_file {
	int fd;		     /* -1: none yet */
	uint32_t generation; /* that the file is of */
	uint32_t cpu;
	uint64_t size;	  /* of the file */
	uint32_t packets; /* in the file, those that could not be written among them */
	bool has_time;
	uint64_t now_ns; /* of the last event */
	uint32_t tid;
	uint64_t lost;
	struct flow_packet *packet;
	uint32_t n, events; /* words and events in it */
};

/* The files of a generation, and how large they are together. */
struct generation {
	uint32_t number;
	uint64_t bytes;
};

struct flow_writer {
	char *path;
	int dir;
	struct tracelog_identity id;
	struct flow_file *file; /* of each CPU, and behind them that of the names */
	unsigned int cpus;
	uint64_t ring;
	struct generation *kept; /* the last one is the current one */
	size_t nkept, kept_cap;
	uint64_t bytes;	  /* of all that are kept */
	uint64_t of_cpus; /* in the current one, without names */
	struct flow_known known;
	struct flow_counts counts;
};

static struct wc_error *cannot_write(const struct flow_writer *w, int err)
{
	return wc_error_errno(WC_ELOG, err, "cannot write the system's events to the log %s", w->path);
}

static struct generation *current(const struct flow_writer *w)
{
	return &w->kept[w->nkept - 1];
}

static void file_name(uint32_t generation, uint32_t cpu, char name[TRACELOG_NAME_MAX])
{
	if (cpu == FLOW_CPU_NAMES)
		snprintf(name, TRACELOG_NAME_MAX, TRACELOG_FLOW "%010u-names", generation);
	else
		snprintf(name, TRACELOG_NAME_MAX, TRACELOG_FLOW "%010u-%u", generation, cpu);
}

/* Opening */

static bool file_init(const struct flow_writer *w, struct flow_file *f, uint32_t cpu)
{
	f->cpu = cpu;
	f->tid = NOT_KNOWN;
	f->packet = malloc(FLOW_PACKET_BYTES);
	if (!f->packet)
		return false;
	*f->packet = (struct flow_packet){ .magic = TRACELOG_MAGIC, .stream_id = FLOW_STREAM_ID, .cpu = cpu };
	memcpy(f->packet->uuid, w->id.uuid, sizeof(f->packet->uuid));
	return true;
}

static bool make_files(struct flow_writer *w, unsigned int cpus)
{
	w->file = calloc((size_t)cpus + 1, sizeof(*w->file));
	if (!w->file)
		return false;
	w->cpus = cpus;
	for (unsigned int i = 0; i <= cpus; i++)
		w->file[i].fd = -1;
	for (unsigned int i = 0; i <= cpus; i++)
		if (!file_init(w, &w->file[i], i < cpus ? i : FLOW_CPU_NAMES))
			return false;
	return vec_push(w->kept, w->nkept, w->kept_cap, (struct generation){ 0 });
}

static void writer_free(struct flow_writer *w)
{
	for (unsigned int i = 0; w->file && i <= w->cpus; i++) {
		if (w->file[i].fd >= 0)
			close(w->file[i].fd);
		free(w->file[i].packet);
	}
	free(w->file);
	free(w->kept);
	flow_known_deinit(&w->known);
	if (w->dir >= 0)
		close(w->dir);
	free(w->path);
	free(w);
}

static void writer_freep(struct flow_writer **w)
{
	if (*w)
		writer_free(*w);
}

struct wc_error *flow_writer_open(const char *path, unsigned int cpus, uint64_t ring,
				  struct flow_writer **ret)
{
	const struct tracelog_stream stream = { FLOW_STREAM_BEGIN, flow_stream_text, "the system's events" };
	scoped(writer_freep) struct flow_writer *w = calloc(1, sizeof(*w));
	struct wc_error *err;

	if (!w)
		return &wc_enomem;
	w->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->path = strdup(path);
	w->ring = ring && ring < FLOW_RING_MIN ? FLOW_RING_MIN : ring;
	if (!w->path)
		return &wc_enomem;
	if (w->dir < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the log %s", path);
	err = tracelog_metadata_describe(w->dir, path, &stream, &w->id);
	if (err)
		return err;
	if (!make_files(w, cpus))
		return &wc_enomem;
	*ret = take_ptr(w);
	return NULL;
}

/* Packets */

static void empty_packet(struct flow_file *f)
{
	f->n = 0;
	f->events = 0;
}

static void drop_packet(struct flow_file *f)
{
	f->lost += f->events;
	empty_packet(f);
}

static uint64_t packet_bytes(const struct flow_file *f)
{
	return sizeof(*f->packet) + (uint64_t)f->n * sizeof(*f->packet->word);
}

/* Of the current generation. */
static int open_file(struct flow_writer *w, struct flow_file *f)
{
	char name[TRACELOG_NAME_MAX];

	if (f->fd >= 0 && f->generation == current(w)->number)
		return 0;
	if (f->fd >= 0)
		close(take_fd(f->fd));
	f->generation = current(w)->number;
	f->size = 0;
	f->packets = 0;
	file_name(f->generation, f->cpu, name);
	f->fd = tracelog_file_create(w->dir, name);
	return f->fd < 0 ? errno : 0;
}

static void finish_packet(struct flow_file *f, uint64_t len)
{
	struct flow_packet *p = f->packet;

	p->end_ns = f->now_ns;
	p->content_bits = p->packet_bits = len * 8;
	p->discarded = f->lost;
	p->packet = f->packets;
	p->crc32c = flow_packet_checksum(p, len);
}

static void count_written(struct flow_writer *w, struct flow_file *f, uint64_t len)
{
	f->size += len;
	w->bytes += len;
	current(w)->bytes += len;
	if (f->cpu != FLOW_CPU_NAMES)
		w->of_cpus += len;
	w->counts.bytes += len;
}

/* Into the current generation, where there is room for it. One that could not be written whole is cut off again. */
static struct wc_error *append_packet(struct flow_writer *w, struct flow_file *f)
{
	const uint64_t len = packet_bytes(f);
	int err = open_file(w, f);

	if (!err) {
		finish_packet(f, len);
		err = write_all(f->fd, f->packet, len);
		if (err && ftruncate(f->fd, (off_t)f->size) < 0)
			count_written(w, f, len); /* nothing reads it: its checksum does not fit */
	}
	f->packets++;
	if (err) {
		drop_packet(f);
		return cannot_write(w, err);
	}
	count_written(w, f, len);
	empty_packet(f);
	return NULL;
}

/* Generations */

static void remove_oldest(struct flow_writer *w)
{
	char name[TRACELOG_NAME_MAX];

	for (unsigned int i = 0; i <= w->cpus; i++) {
		file_name(w->kept[0].number, w->file[i].cpu, name);
		unlinkat(w->dir, name, 0);
	}
	w->bytes -= w->kept[0].bytes;
	w->nkept--;
	memmove(w->kept, w->kept + 1, w->nkept * sizeof(*w->kept));
}

/* As far as older generations can make it. */
static void make_room(struct flow_writer *w, uint64_t len)
{
	while (w->bytes + len > w->ring && w->nkept > 1)
		remove_oldest(w);
}

static struct wc_error *append_with_room(struct flow_writer *w, struct flow_file *f)
{
	if (w->ring)
		make_room(w, packet_bytes(f));
	return append_packet(w, f);
}

static struct flow_file *names_file(struct flow_writer *w)
{
	return &w->file[w->cpus];
}

/* When the oldest packet that is not written began; @or: there is none. */
static uint64_t oldest_packet(const struct flow_writer *w, uint64_t or)
{
	uint64_t ns = UINT64_MAX;

	for (unsigned int i = 0; i < w->cpus; i++)
		if (w->file[i].n && w->file[i].packet->begin_ns < ns)
			ns = w->file[i].packet->begin_ns;
	return ns == UINT64_MAX ? or : ns;
}

static void begin_packet(struct flow_file *f, uint64_t time_ns)
{
	f->packet->begin_ns = time_ns;
	f->packet->tid = f->tid;
}

static void append_event(struct flow_file *f, const uint32_t *word, uint32_t words)
{
	memcpy(f->packet->word + f->n, word, words * sizeof(*word));
	f->n += words;
	f->events++;
}

static void append_time(struct flow_file *f)
{
	const uint32_t word[FLOW_TIME_WORDS] = { FLOW_EXTENDED, FLOW_TIME, (uint32_t)f->now_ns,
						 (uint32_t)(f->now_ns >> 32) };

	begin_packet(f, f->now_ns);
	append_event(f, word, FLOW_TIME_WORDS);
	f->events--;
}

static struct wc_error *repeat_event(struct flow_writer *w, const uint32_t *from, uint32_t words)
{
	struct flow_file *f = names_file(w);
	struct wc_error *err = NULL;
	uint32_t word[FLOW_WORDS_MAX];

	memcpy(word, from, words * sizeof(*word));
	word[0] = flow_head(word[0] & FLOW_ID_MASK, f->now_ns);
	if ((word[0] & FLOW_ID_MASK) == FLOW_NAME)
		word[1] &= FLOW_TID_MASK; /* FLOW_NAME_WAS, which is 0 */
	if (f->n + words > FLOW_PACKET_WORDS)
		err = append_with_room(w, f);
	if (!f->n)
		append_time(f);
	append_event(f, word, words);
	return err;
}

/* Of all that is known, as much as there is room for. */
static struct wc_error *repeat_events(struct flow_writer *w)
{
	const uint64_t most = w->ring / NAMES_SHARE - FLOW_PACKET_BYTES;
	struct wc_error *err = NULL;
	uint32_t words;

	for (size_t i = 0; i < w->known.n && !err && current(w)->bytes < most; i++) {
		const uint32_t *word = flow_known_event(&w->known, i, &words);

		err = repeat_event(w, word, words);
	}
	return !err && names_file(w)->n ? append_with_room(w, names_file(w)) : err;
}

/* Repeats all that was true when the oldest packet that goes into this generation began, or since. */
static struct wc_error *repeat_names(struct flow_writer *w)
{
	struct flow_file *f = names_file(w);
	const uint32_t last = current(w)->number;
	const uint64_t before_ns = f->now_ns, time_ns = oldest_packet(w, before_ns);
	struct wc_error *err;

	if (!flow_known_forget(&w->known, time_ns, last > GENERATIONS ? last - GENERATIONS : 0))
		return &wc_enomem;
	f->now_ns = time_ns;
	err = repeat_events(w);
	f->now_ns = before_ns; /* times of names that are put go on from there */
	return err;
}

/* For all CPUs at once. */
static struct wc_error *begin_generation(struct flow_writer *w)
{
	struct flow_file *names = names_file(w);
	const struct generation next = { .number = current(w)->number + 1 };
	struct wc_error *err = names->n ? append_with_room(w, names) : NULL;

	if (err)
		return err;
	if (!vec_push(w->kept, w->nkept, w->kept_cap, next))
		return &wc_enomem;
	w->of_cpus = 0;
	return repeat_names(w);
}

static bool is_generation_full(const struct flow_writer *w, uint64_t len)
{
	return w->of_cpus && w->of_cpus + len > w->ring / GENERATIONS;
}

static struct wc_error *write_packet(struct flow_writer *w, struct flow_file *f)
{
	const uint64_t len = packet_bytes(f);
	struct wc_error *err = NULL;

	if (w->ring) {
		make_room(w, len);
		/* Names that were put may be all that is there. */
		if (is_generation_full(w, len) || w->bytes + len > w->ring)
			err = begin_generation(w);
	}
	if (err) {
		drop_packet(f);
		return err;
	}
	return f->n ? append_with_room(w, f) : NULL;
}

/* Events */

static struct wc_error *no_event(const struct flow_file *f, const char *why)
{
	return wc_error_hint(wc_error_new(WC_EFAIL,
					  "what the kernel's programs wrote for CPU %d is no event: %s",
					  (int)f->cpu, why),
			     "this is a mistake of watchctl; events before it are in the log");
}

/* NULL: a whole event is at @word, of which there are @n. */
static const char *why_no_event(const struct flow_file *f, const uint32_t *word, size_t n, uint32_t *words)
{
	*words = flow_words(word[0], n > 1 ? word[1] : 0);
	if (!*words)
		return "an unknown kind";
	if (*words > n)
		return "it is not whole";
	if ((word[0] & FLOW_ID_MASK) != FLOW_EXTENDED)
		return f->has_time ? NULL : "no time stands before it";
	return f->has_time && flow_time(word) < f->now_ns ? "its time goes back" : NULL;
}

static uint64_t time_of(const struct flow_file *f, const uint32_t *word)
{
	if ((word[0] & FLOW_ID_MASK) == FLOW_EXTENDED)
		return flow_time(word);
	return flow_time_after(f->now_ns, word[0]);
}

/* The thread that runs behind it, and how many events were lost in front of it. */
static void follow(struct flow_writer *w, struct flow_file *f, const uint32_t *word)
{
	f->tid = flow_runs_then(word, f->tid);
	if ((word[0] & FLOW_ID_MASK) == FLOW_LOST) {
		f->lost += word[1];
		w->counts.lost += word[1];
	}
}

static struct wc_error *put_event(struct flow_writer *w, struct flow_file *f, const uint32_t *word,
				  uint32_t words)
{
	const bool is_time = (word[0] & FLOW_ID_MASK) == FLOW_EXTENDED;
	struct wc_error *err = NULL;

	if (f->n + words > FLOW_PACKET_WORDS)
		err = write_packet(w, f);
	f->now_ns = time_of(f, word);
	f->has_time = true;
	if (!f->n)
		begin_packet(f, f->now_ns);
	append_event(f, word, words);
	f->events -= is_time;
	w->counts.events += !is_time;
	if (w->ring && !flow_known_note(&w->known, word, f->tid, f->now_ns, current(w)->number))
		err = wc_error_first(err, &wc_enomem);
	follow(w, f, word);
	return err;
}

struct wc_error *flow_writer_put(struct flow_writer *w, uint32_t cpu, const uint32_t *word, size_t n)
{
	struct flow_file *f = cpu == FLOW_CPU_NAMES ? names_file(w) : &w->file[cpu];
	uint32_t words;

	if (cpu != FLOW_CPU_NAMES && cpu >= w->cpus)
		return wc_error_new(WC_EFAIL, "events of CPU %u came, and there are %u CPUs", cpu, w->cpus);
	for (size_t i = 0; i < n; i += words) {
		const char *why = why_no_event(f, word + i, n - i, &words);
		struct wc_error *err = why ? no_event(f, why) : put_event(w, f, word + i, words);

		if (err)
			return err;
	}
	return NULL;
}

struct wc_error *flow_writer_flush(struct flow_writer *w)
{
	struct wc_error *err = NULL;

	for (unsigned int i = 0; i <= w->cpus; i++)
		if (w->file[i].n)
			err = wc_error_first(err, write_packet(w, &w->file[i]));
	return err;
}

void flow_writer_counts(const struct flow_writer *w, struct flow_counts *ret)
{
	*ret = w->counts;
	for (unsigned int i = 0; i <= w->cpus; i++)
		ret->bytes += w->file[i].n ? packet_bytes(&w->file[i]) : 0;
}

struct wc_error *flow_writer_close(struct flow_writer *w)
{
	struct wc_error *err;

	if (!w)
		return NULL;
	err = flow_writer_flush(w);
	writer_free(w);
	return err;
}
