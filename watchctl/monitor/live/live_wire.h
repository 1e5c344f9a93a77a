/*
 * live_wire - what a display and the process of its session say to each other, as bytes. Whatever is read is
 * checked: lengths, ends of texts, numbers that are out of range.
 *
 * What the session shall do it finds in a memory file; the rest goes through a socket that keeps messages
 * apart (SOCK_SEQPACKET), each a struct live_head and what belongs to it.
 */
#ifndef WATCHCTL_MONITOR_LIVE_LIVE_WIRE_H
#define WATCHCTL_MONITOR_LIVE_LIVE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/monitor/live/live.h"

#define LIVE_MESSAGE_MAX 65536u
#define LIVE_TEXT_MAX 16384u /* of an error; what is longer is cut */

/* Files of the session's process, beside 0, 1 and 2, which are the launched program's. */
enum { LIVE_CONTROL_FD = 3, LIVE_OWNER_FD, LIVE_ORDER_FD, LIVE_FDS };

enum live_type {
	LIVE_STARTED = 1, /* pid of the program */
	LIVE_FINISHED,	  /* struct live_ending */
	LIVE_ANSWER,	  /* error; id of the watch that was added */
	LIVE_STOP,
	LIVE_ADD,    /* watch */
	LIVE_REMOVE, /* id */
	LIVE_ENABLE, /* id, on */
};

struct live_head {
	uint32_t type;
	uint32_t number; /* of the question; an answer has that of its question */
};

/* Growing bytes; a failure is kept until the end. */
struct live_pack {
	uint8_t *v;
	size_t n, cap;
	bool failed;
};

void live_pack_deinit(struct live_pack *p);
void live_put_u64(struct live_pack *p, uint64_t v);
void live_put_text(struct live_pack *p, const char *text); /* NULL is kept as such */
void live_put_error(struct live_pack *p, const struct wc_error *err);
void live_put_watch(struct live_pack *p, const struct watch_request *w);
void live_put_head(struct live_pack *p, enum live_type type, uint32_t number);

/* Bytes that are taken one by one; the texts that are got lie in them. What is bad is zero, and stays bad. */
struct live_unpack {
	const uint8_t *at;
	size_t left;
	bool bad;
};

uint64_t live_get_u64(struct live_unpack *u);
const char *live_get_text(struct live_unpack *u);
struct wc_error *live_get_error(struct live_unpack *u); /* the caller's; NULL: none */
void live_get_watch(struct live_unpack *u, struct watch_request *ret);
bool live_get_head(struct live_unpack *u, struct live_head *ret);

/* What the session shall do; @log is the log's path, @own_directory what goes with it, or NULL. */
struct live_order {
	struct live_options options;
	const char *log, *own_directory;
	char **argv;			     /* of options.monitor.argv, to be freed */
	const char *redact[LIVE_REDACT_MAX]; /* of a session: options.redact.name */
};

void live_put_order(struct live_pack *p, const struct live_order *o);
bool live_get_order(struct live_unpack *u, struct live_order *ret);

/* How it ended. */
struct live_ending {
	enum session_end end;
	struct wc_error *err;
	const char *never_armed;
	bool never_collected;
};

void live_put_ending(struct live_pack *p, const struct live_ending *e);
bool live_get_ending(struct live_unpack *u, struct live_ending *ret);

/* One message. False: it could not be sent (errno). Never waits, and raises no signal. */
bool live_send(int fd, const struct live_pack *p);

enum live_received { LIVE_NOTHING, LIVE_MESSAGE, LIVE_CLOSED };

/* The next message into @buf, of LIVE_MESSAGE_MAX bytes, if there is one. */
enum live_received live_receive(int fd, uint8_t *buf, struct live_head *head, struct live_unpack *ret);

#endif
