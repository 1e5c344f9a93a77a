#include "calltrace/runtime/call_output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "calltrace/runtime/raw_call.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_format.h"

#define DIGITS 10

void output_begin(struct call_output *o, struct output_place *place, struct call_packet *packet, pid_t tid)
{
	*o = (struct call_output){ .place = place, .packet = packet, .tid = tid };
	packet->magic = TRACELOG_MAGIC;
	packet->stream_id = CALL_STREAM_ID;
	packet->pid = place->pid;
	packet->tid = tid;
	for (unsigned int i = 0; i < sizeof(packet->uuid); i++)
		packet->uuid[i] = place->uuid[i];
}

static void make_name(uint32_t number, char name[TRACELOG_NAME_MAX])
{
	static const char prefix[] = TRACELOG_CALLS;
	unsigned int len = 0;

	for (; prefix[len]; len++)
		name[len] = prefix[len];
	for (unsigned int i = DIGITS; i--; number /= 10)
		name[len + i] = (char)('0' + number % 10);
	name[len + DIGITS] = '\0';
}

static void raw_close(long fd)
{
	raw_call(SYS_close, fd, 0, 0, 0);
}

/* Whether @err may be gone the next time; of other reasons none is. */
static bool may_pass(long err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOSPC || err == -EDQUOT ||
	       err == -EINTR || err == -EIO;
}

/* The log's directory, or -errno; -ESTALE: another one has its name. */
static long open_directory(const struct output_place *p)
{
	struct stat st = { 0 };
	long fd = raw_call(SYS_openat, AT_FDCWD, (long)p->path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	if (raw_call(SYS_fstat, fd, (long)&st, 0, 0) < 0 || st.st_dev != p->device || st.st_ino != p->inode) {
		raw_close(fd);
		return -ESTALE;
	}
	return fd;
}

static long create_file(struct call_output *o, long dir)
{
	char name[TRACELOG_NAME_MAX];
	long fd;

	/* Numbers of another writer of the same log are taken. */
	do {
		o->number = atomic_fetch_add(&o->place->next_file, 1);
		make_name(o->number, name);
		fd = raw_call(SYS_openat, dir, (long)name,
			      O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	} while (fd == -EEXIST);
	o->has_file = fd >= 0;
	return fd;
}

/* Opens it again: it must be as we left it. O_NONBLOCK: a fifo by that name must not hang us. */
static long reopen_file(struct call_output *o, long dir)
{
	char name[TRACELOG_NAME_MAX];
	struct stat st = { 0 };
	long fd;

	make_name(o->number, name);
	fd = raw_call(SYS_openat, dir, (long)name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
		      0);
	if (fd < 0)
		return fd;
	if (raw_call(SYS_fstat, fd, (long)&st, 0, 0) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != o->size) {
		raw_close(fd);
		return -ESTALE;
	}
	return fd;
}

static long open_file(struct call_output *o)
{
	long dir = open_directory(o->place), fd;

	if (dir < 0)
		return dir;
	fd = o->has_file ? reopen_file(o, dir) : create_file(o, dir);
	raw_close(dir);
	return fd;
}

/* 0, or -errno. */
static long write_whole(long fd, const void *buf, uint64_t len)
{
	const char *p = buf;

	while (len) {
		long n = raw_call(SYS_write, fd, (long)p, (long)len, 0);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? n : -ENOSPC;
		p += n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* A packet that could not be written whole is cut off again. 0, or -errno. */
static long append(struct call_output *o, uint64_t len)
{
	const uint64_t pending = raw_signals_pending();
	long fd = open_file(o), err;

	if (fd < 0) {
		o->is_stopped = !may_pass(fd);
		return fd;
	}
	err = write_whole(fd, o->packet, len);
	if (err) {
		raw_sigxfsz_take_back(pending);
		o->is_stopped = raw_call(SYS_ftruncate, fd, (long)o->size, 0, 0) < 0;
	}
	raw_close(fd);
	return err;
}

static void write_packet(struct call_output *o)
{
	struct call_packet *p = o->packet;
	const uint64_t len = sizeof(*p) + o->n * sizeof(*p->event);

	p->begin_ns = o->begin_ns;
	p->end_ns = o->last_ns;
	p->content_bits = p->packet_bits = len * 8;
	p->discarded = o->discarded;
	p->packet = o->packets;
	p->crc32c = call_packet_checksum(p, len);
	if (!o->is_stopped)
		o->error = append(o, len);
	if (!o->is_stopped && !o->error) {
		o->size += len;
		o->packets++;
		o->reported = o->discarded;
	} else {
		o->discarded += o->n - o->values;
	}
	o->n = o->values = 0;
}

void output_flush(struct call_output *o)
{
	if (o->n)
		write_packet(o);
}

void output_turn(struct call_output *o, uint64_t time_ns)
{
	output_flush(o);
	o->begin_ns = time_ns;
}

uint32_t output_clear(struct call_output *o)
{
	const uint32_t n = o->n;
	uint64_t time_ns = o->begin_ns;
	uint32_t entered = 0;

	o->n = o->values = 0;
	o->last_ns = time_ns;
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t event = o->packet->event[i];
		const enum call_what what = event & ((1u << CALL_TIME_SHIFT) - 1);

		time_ns += (uint32_t)((uint32_t)(event >> CALL_TIME_SHIFT) - (uint32_t)time_ns);
		if (what == CALL_MORE)
			i += (uint32_t)(event >> CALL_FUNCTION_SHIFT);
		else if (what == CALL_ENTRY)
			entered++;
		else if (entered)
			entered--;
		else /* in place: it never gets further back than it was */
			output_put(o, what, time_ns, (uint32_t)(event >> CALL_FUNCTION_SHIFT));
	}
	return entered;
}

void output_put_words(struct call_output *o, const uint64_t *word, uint32_t n)
{
	if (!o->n || o->n + 1 + n > CALL_PACKET_EVENTS)
		output_turn(o, o->last_ns);
	o->packet->event[o->n++] = call_pack(CALL_MORE, o->last_ns, n);
	for (uint32_t i = 0; i < n; i++)
		o->packet->event[o->n++] = word[i];
	o->values += 1 + n;
}

void output_put_value(struct call_output *o, uint64_t word, uint64_t value)
{
	const uint64_t words[] = { word, value };

	output_put_words(o, words, 2);
}

/* Behind an event there is room for these: OUTPUT_FULL. */
void output_put_event(struct call_output *o, uint32_t type, uint64_t time_ns, uint64_t first, uint64_t second)
{
	output_put(o, CALL_MORE, time_ns, CALL_EVENT_WORDS);
	o->packet->event[o->n++] = call_word(CALL_WORD_EVENT, 0, type);
	o->packet->event[o->n++] = first;
	o->packet->event[o->n++] = second;
	o->values += CALL_EVENT_WORDS;
}

void output_finish(struct call_output *o)
{
	output_flush(o);
	if (!o->is_stopped && o->discarded > o->reported) {
		o->begin_ns = o->last_ns;
		write_packet(o);
	}
}
