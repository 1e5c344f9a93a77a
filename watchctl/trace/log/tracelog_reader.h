/* tracelog_reader - the inside of a reader: its files, packets and events. See tracelog.h for what it is. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_READER_H
#define WATCHCTL_TRACE_LOG_TRACELOG_READER_H

#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_decode.h"

struct log_file {
	uint64_t number;
	int fd;		    /* -1: from memory, or it has been read and was removed */
	const uint8_t *mem; /* NULL: from fd */
	uint64_t size;	    /* when looked at last */
};

struct tracelog_reader {
	char *path;
	int dir; /* -1: none */
	struct tracelog_identity id;
	bool ring;
	bool following;
	struct log_file *file;
	size_t nfiles, cap;

	size_t current;	      /* file */
	uint64_t packet_at;   /* offset in the file of the packet that is read */
	uint64_t next_packet; /* ... of the one after it */
	size_t pos, end;      /* of the events left, from packet_at on */
	bool partial;	      /* the file ends inside this packet */
	uint8_t *buf;	      /* bytes of the file from buf_at on */
	size_t buf_cap, buf_len;
	uint64_t buf_at;
	uint64_t last_at; /* offset of the event that was taken last */
	size_t last_file;
	uint64_t done; /* bytes of the files before the current one */

	bool reemitting;   /* the beginning of a file */
	bool has_before;   /* what it re-emits was read already */
	bool has_any;	   /* an event was passed on */
	bool reports_past; /* and when the retelling began, none was */

	struct tracelog_decoder decoder;
	enum log_outcome state; /* LOG_EVENT until the end is reached */
	uint64_t ignored, missed, outrun, left_out;
	const char *why, *why_missed;
	struct log_gap *gap;
	size_t ngaps, gaps_cap;
	bool torn;	      /* a part of the current file is missing */
	bool has_packet;      /* one was read */
	uint64_t last_ns;     /* of the event that was taken last */
	uint32_t last_sum;    /* checksum of the packet that was read last */
	uint64_t realtime_ns; /* minus CLOCK_MONOTONIC, as a process event told */
	uint64_t may_check;   /* bytes that may still be summed up in the search for a packet */
	bool may_check_set;

	struct tracelog_reader *again; /* of a flight recorder: on one file, for tracelog_read_again() */
	size_t again_file;
	uint8_t *one; /* of a plain log: one event that is read again */
	size_t one_cap;
};

/* A reader without files, for the log @path. */
struct wc_error *tracelog_reader_new(const char *path, struct tracelog_reader **ret);

/* From memory: the @n files of a flight recorder, which must outlive the reader. */
struct wc_error *tracelog_reader_open_memory_ring(const char *metadata, size_t metadata_len,
						  const struct log_file *file, size_t n,
						  struct tracelog_reader **ret);

/* Looks for what came behind the files that are known. *@more: there is something. */
struct wc_error *tracelog_reader_look(struct tracelog_reader *r, bool *more);

/* As pread(2) of the whole; false: the file is shorter, or *@err. */
bool tracelog_reader_bytes(struct tracelog_reader *r, const struct log_file *f, uint64_t at, void *buf,
			   size_t len, struct wc_error **err);

/* Checks the head of a packet; a phrase about what is wrong with it, or NULL. */
const char *tracelog_check_head(const struct tracelog_identity *id, const uint8_t *head);

/* Of a packet of version 2, whose head is right: the first @len bytes, its content, are what was written. */
bool tracelog_checksum_fits(const uint8_t *packet, size_t len);

static inline uint64_t tracelog_head_u64(const uint8_t *head, size_t off)
{
	uint64_t v;

	__builtin_memcpy(&v, head + off, sizeof(v));
	return v;
}

#endif
