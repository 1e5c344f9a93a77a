#include "watchctl/trace/flow/flow_packets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_member.h"

#define SEARCH_CHUNK (64u << 10)

/* A file whose packets are looked for. */
struct search {
	struct flow_packets *all;
	struct flow_list *list;
	uint32_t generation;
	uint32_t next; /* number of a packet that follows without a gap */
	bool is_noted; /* damage, in front of what comes next */
	int fd;
	uint64_t size;
};

void flow_packets_note_gap(struct flow_packets *p, const char *why)
{
	p->damage.packets++;
	p->damage.why = p->damage.why ? p->damage.why : why;
}

static void note_end(struct flow_packets *p, uint64_t bytes, const char *why)
{
	p->damage.ignored += bytes;
	p->damage.why = p->damage.why ? p->damage.why : why;
}

/* NULL: @p, which has @left bytes up to the end of its file, is whole, as far as its head says. */
static const char *why_no_packet(const struct search *s, const struct flow_packet *p, uint64_t left)
{
	const uint64_t bytes = p->packet_bits / 8;

	if (left < sizeof(*p))
		return "it ends in the middle of a packet";
	if (p->magic != TRACELOG_MAGIC || p->stream_id != FLOW_STREAM_ID || p->cpu != s->list->cpu ||
	    memcmp(p->uuid, s->all->id.uuid, sizeof(p->uuid)) != 0)
		return "what follows is no packet of this file";
	if (p->packet_bits != p->content_bits || p->packet_bits % 32 || bytes < sizeof(*p) ||
	    bytes > FLOW_PACKET_BYTES || p->end_ns < p->begin_ns)
		return "the head of a packet makes no sense";
	return bytes > left ? "it ends in the middle of a packet" : NULL;
}

static size_t find_head(const struct search *s, const uint8_t *bytes, size_t n, uint64_t left)
{
	struct flow_packet p;
	size_t i;

	for (i = 0; i + sizeof(p) <= n; i += sizeof(uint32_t)) {
		memcpy(&p, bytes + i, sizeof(p));
		if (p.magic == TRACELOG_MAGIC && !why_no_packet(s, &p, left - i))
			break;
	}
	return i;
}

/* Behind damage the next packet is found by its head; all of them begin at multiples of 4. */
static uint64_t next_packet(const struct search *s, uint64_t offset)
{
	scoped(freep) uint8_t *bytes = malloc(SEARCH_CHUNK);

	for (offset += 4; bytes && offset + sizeof(struct flow_packet) <= s->size;) {
		const ssize_t n = pread(s->fd, bytes, SEARCH_CHUNK, (off_t)offset);
		size_t at;

		if (n < (ssize_t)sizeof(struct flow_packet))
			break;
		at = find_head(s, bytes, (size_t)n, s->size - offset);
		offset += at;
		if (at + sizeof(struct flow_packet) <= (size_t)n)
			return offset;
	}
	return s->size;
}

static bool add_place(struct search *s, const struct flow_packet *p, uint64_t offset)
{
	const struct flow_place place = {
		.offset = offset,
		.begin_ns = p->begin_ns,
		.end_ns = p->end_ns,
		.discarded = p->discarded,
		.bytes = (uint32_t)(p->packet_bits / 8),
		.generation = s->generation,
		.follows_gap = p->packet != s->next || s->list->is_cut,
		.is_noted = s->is_noted || s->list->is_cut,
	};

	s->is_noted = s->list->is_cut = false;
	s->next = p->packet + 1;
	s->all->bytes += place.bytes;
	return vec_push(s->list->place, s->list->n, s->list->cap, place);
}

/* There is no packet from @offset to @next. */
static void note_damage(struct search *s, uint64_t offset, uint64_t next, const char *why)
{
	if (next == s->size) {
		note_end(s->all, s->size - offset, why);
		s->list->is_cut = true;
		return;
	}
	flow_packets_note_gap(s->all, why);
	s->is_noted = true;
}

static bool find_packets(struct search *s)
{
	uint64_t offset = 0, next;

	while (offset < s->size) {
		struct flow_packet p = { 0 };
		const ssize_t n = pread(s->fd, &p, sizeof(p), (off_t)offset);
		const char *why = why_no_packet(s, &p, n == (ssize_t)sizeof(p) ? s->size - offset : 0);

		if (!why) {
			if (!add_place(s, &p, offset))
				return false;
			offset += p.packet_bits / 8;
			continue;
		}
		next = next_packet(s, offset);
		note_damage(s, offset, next, why);
		offset = next;
	}
	return true;
}

/* Files */

struct flow_name {
	uint32_t generation, cpu;
};

static bool parse_name(const char *name, struct flow_name *ret)
{
	const size_t prefix = strlen(TRACELOG_FLOW);
	char again[TRACELOG_NAME_MAX] = "";
	bool ok = tracelog_is_flow(name);

	*ret = (struct flow_name){ .cpu = FLOW_CPU_NAMES };
	if (ok && sscanf(name + prefix, "%10u-%u", &ret->generation, &ret->cpu) == 2)
		snprintf(again, sizeof(again), TRACELOG_FLOW "%010u-%u", ret->generation, ret->cpu);
	else if (ok && sscanf(name + prefix, "%10u-", &ret->generation) == 1)
		snprintf(again, sizeof(again), TRACELOG_FLOW "%010u-names", ret->generation);
	return !strcmp(again, name);
}

int flow_packets_file(const struct flow_packets *p, uint32_t generation, uint32_t cpu)
{
	char name[TRACELOG_NAME_MAX];

	if (cpu == FLOW_CPU_NAMES)
		snprintf(name, sizeof(name), TRACELOG_FLOW "%010u-names", generation);
	else
		snprintf(name, sizeof(name), TRACELOG_FLOW "%010u-%u", generation, cpu);
	return openat(p->dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
}

static struct flow_list *list_of(struct flow_packets *p, uint32_t cpu)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].cpu == cpu)
			return &p->list[i];
	return vec_push(p->list, p->n, p->cap, (struct flow_list){ .cpu = cpu }) ? &p->list[p->n - 1] : NULL;
}

static struct wc_error *add_file(struct flow_packets *p, const char *path, const struct flow_name *name)
{
	scoped(closep) int fd = flow_packets_file(p, name->generation, name->cpu);
	struct search s = { .all = p, .generation = name->generation, .fd = fd };
	struct stat st;

	/* The oldest ones of a flight recorder go meanwhile. */
	if (fd < 0 && errno == ENOENT)
		return NULL;
	if (fd < 0 || fstat(fd, &st) < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the system's events of the log %s", path);
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return NULL;
	s.list = list_of(p, name->cpu);
	s.size = (uint64_t)st.st_size;
	return s.list && find_packets(&s) ? NULL : &wc_enomem;
}

static int by_age(const void *a, const void *b)
{
	const struct flow_name *x = a, *y = b;

	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

/* By generation, and in it by CPU. */
static struct wc_error *find_files(const struct flow_packets *p, const char *path, struct flow_name **ret,
				   size_t *n)
{
	const int own = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scoped(closedirp) DIR *d = own < 0 ? NULL : fdopendir(own);
	scoped(freep) struct flow_name *name = NULL;
	const struct dirent *e;
	struct flow_name one;
	size_t cap = 0;

	*n = 0;
	if (!d) {
		struct wc_error *err = wc_error_errno(WC_ELOG, errno, "cannot read the log %s", path);

		if (own >= 0)
			close(own);
		return err;
	}
	while ((e = readdir(d)))
		if (parse_name(e->d_name, &one) && !vec_push(name, *n, cap, one))
			return &wc_enomem;
	if (name)
		qsort(name, *n, sizeof(*name), by_age);
	*ret = take_ptr(name);
	return NULL;
}

static struct wc_error *read_metadata(struct flow_packets *p, const char *path)
{
	scoped(freep) char *metadata = NULL;
	struct wc_error *err = tracelog_metadata_read(p->dir, path, &p->id, &metadata);

	if (!err)
		p->is_described = metadata && strstr(metadata, FLOW_STREAM_BEGIN);
	return err;
}

struct wc_error *flow_packets_open(const char *path, struct flow_packets *ret)
{
	scoped(freep) struct flow_name *name = NULL;
	struct wc_error *err;
	size_t n = 0;

	*ret = (struct flow_packets){ .dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	if (ret->dir < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the log %s", path);
	err = read_metadata(ret, path);
	if (!err)
		err = find_files(ret, path, &name, &n);
	if (err || !name)
		return err;
	ret->first_generation = name[0].generation;
	for (size_t i = 0; i < n && !err; i++)
		err = add_file(ret, path, &name[i]);
	return err;
}

void flow_packets_deinit(struct flow_packets *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->list[i].place);
	free(p->list);
	if (p->dir >= 0)
		close(p->dir);
}
