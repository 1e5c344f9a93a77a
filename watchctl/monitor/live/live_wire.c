#include "watchctl/monitor/live/live_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"

#define ORDER_VERSION 1u
#define ARGUMENTS_MAX 1000000u

void live_pack_deinit(struct live_pack *p)
{
	free(p->v);
	*p = (struct live_pack){ 0 };
}

static void put_bytes(struct live_pack *p, const void *bytes, size_t len)
{
	if (p->failed || !vec_reserve((void **)&p->v, &p->cap, p->n + len, 1)) {
		p->failed = true;
		return;
	}
	memcpy(p->v + p->n, bytes, len);
	p->n += len;
}

void live_put_u64(struct live_pack *p, uint64_t v)
{
	put_bytes(p, &v, sizeof(v));
}

void live_put_text(struct live_pack *p, const char *text)
{
	size_t len = text ? strlen(text) + 1 : 0;

	live_put_u64(p, len);
	if (len)
		put_bytes(p, text, len);
}

void live_put_error(struct live_pack *p, const struct wc_error *err)
{
	size_t len = err ? strnlen(err->text, LIVE_TEXT_MAX - 1) : 0;

	live_put_u64(p, err ? err->kind : 0);
	if (!err)
		return;
	live_put_u64(p, (uint64_t)(int64_t)err->sys_errno);
	live_put_u64(p, len + 1);
	put_bytes(p, err->text, len);
	put_bytes(p, "", 1);
}

void live_put_head(struct live_pack *p, enum live_type type, uint32_t number)
{
	const struct live_head head = { type, number };

	put_bytes(p, &head, sizeof(head));
}

static void put_texts(struct live_pack *p, const char *const *text, unsigned int n)
{
	unsigned int i;

	live_put_u64(p, n);
	for (i = 0; i < n; i++)
		live_put_text(p, text[i]);
}

void live_put_watch(struct live_pack *p, const struct watch_request *w)
{
	live_put_text(p, w->expr);
	live_put_u64(p, w->size);
	live_put_u64(p, w->access);
	live_put_u64(p, (uint64_t)(int64_t)w->slot);
	live_put_u64(p, w->follow);
	live_put_u64(p, w->withheld);
	live_put_text(p, w->condition);
	live_put_u64(p, w->changes);
	live_put_text(p, w->thread);
	put_texts(p, w->callers, w->ncallers);
	put_texts(p, w->not_callers, w->nnot_callers);
	live_put_u64(p, w->sample);
	put_bytes(p, &w->rate, sizeof(w->rate));
}

static void put_monitor(struct live_pack *p, const struct monitor_options *o)
{
	uint64_t argc = 0;
	unsigned int i;

	live_put_u64(p, (uint64_t)(int64_t)o->pid);
	while (o->argv && o->argv[argc])
		argc++;
	live_put_u64(p, argc);
	for (i = 0; i < argc; i++)
		live_put_text(p, o->argv[i]);
	live_put_u64(p, o->nwatches);
	for (i = 0; i < o->nwatches; i++)
		live_put_watch(p, &o->watch[i]);
	live_put_u64(p, o->engine);
	live_put_u64(p, o->frames);
	live_put_u64(p, o->buffer_size);
	live_put_u64(p, o->private_ring);
	live_put_u64(p, o->pending);
	live_put_u64(p, o->follow_fork);
	live_put_u64(p, o->follow_exec);
	live_put_u64(p, o->tags);
	live_put_u64(p, o->tag_frames);
	live_put_u64(p, o->tag_ring_size);
}

void live_put_order(struct live_pack *p, const struct live_order *o)
{
	live_put_u64(p, ORDER_VERSION);
	put_monitor(p, &o->options.monitor);
	live_put_text(p, o->log);
	live_put_text(p, o->own_directory);
	live_put_u64(p, o->options.bounds.bytes);
	live_put_u64(p, o->options.bounds.keep_ns);
	live_put_u64(p, o->options.count);
	live_put_u64(p, o->options.time_ns);
	live_put_u64(p, o->options.redact.all);
	put_texts(p, o->options.redact.name, (unsigned int)o->options.redact.n);
}

void live_put_ending(struct live_pack *p, const struct live_ending *e)
{
	live_put_u64(p, e->end);
	live_put_error(p, e->err);
	live_put_text(p, e->never_armed);
	live_put_u64(p, e->never_collected);
}

/* Taking apart */

static const void *get_bytes(struct live_unpack *u, uint64_t len)
{
	const void *at = u->at;

	if (u->bad || len > u->left) {
		u->bad = true;
		return NULL;
	}
	u->at += len;
	u->left -= len;
	return at;
}

uint64_t live_get_u64(struct live_unpack *u)
{
	const void *at = get_bytes(u, sizeof(uint64_t));
	uint64_t v = 0;

	if (at)
		memcpy(&v, at, sizeof(v));
	return v;
}

/* At most @max, else it is bad. */
static uint64_t get_up_to(struct live_unpack *u, uint64_t max)
{
	uint64_t v = live_get_u64(u);

	if (v <= max)
		return v;
	u->bad = true;
	return 0;
}

const char *live_get_text(struct live_unpack *u)
{
	uint64_t len = live_get_u64(u);
	const char *text = len ? get_bytes(u, len) : NULL;

	if (text && text[len - 1] == '\0')
		return text;
	u->bad |= text != NULL;
	return NULL;
}

struct wc_error *live_get_error(struct live_unpack *u)
{
	uint64_t kind = get_up_to(u, WC_ELOG);
	const char *text;
	struct wc_error *err;
	int sys_errno;

	if (!kind)
		return NULL;
	sys_errno = (int)(int64_t)live_get_u64(u);
	text = live_get_text(u);
	err = wc_error_new((enum wc_kind)kind, "%s", text ? text : "the session failed");
	if (err != &wc_enomem)
		err->sys_errno = sys_errno;
	return err;
}

bool live_get_head(struct live_unpack *u, struct live_head *ret)
{
	const void *at = get_bytes(u, sizeof(*ret));

	if (at)
		memcpy(ret, at, sizeof(*ret));
	return at;
}

static unsigned int get_texts(struct live_unpack *u, const char **ret, unsigned int max)
{
	unsigned int n = (unsigned int)get_up_to(u, max), i;

	for (i = 0; i < n; i++) {
		ret[i] = live_get_text(u);
		u->bad |= !ret[i];
	}
	return n;
}

void live_get_watch(struct live_unpack *u, struct watch_request *ret)
{
	struct watch_request w = { .expr = live_get_text(u) };
	const void *rate;

	w.size = (uint32_t)get_up_to(u, UINT32_MAX);
	w.access = (unsigned int)get_up_to(u, UINT32_MAX);
	w.slot = (int)(int64_t)live_get_u64(u);
	w.follow = get_up_to(u, 1);
	w.withheld = get_up_to(u, 1);
	w.condition = live_get_text(u);
	w.changes = get_up_to(u, 1);
	w.thread = live_get_text(u);
	w.ncallers = get_texts(u, w.callers, MONITOR_CALLERS);
	w.nnot_callers = get_texts(u, w.not_callers, MONITOR_CALLERS);
	w.sample = live_get_u64(u);
	rate = get_bytes(u, sizeof(w.rate));
	if (rate)
		memcpy(&w.rate, rate, sizeof(w.rate));
	u->bad |= !w.expr || w.slot < -1 || w.slot > 3 ||
		  (w.access != ACCESS_READ && w.access != ACCESS_WRITE && w.access != ACCESS_READWRITE &&
		   w.access != ACCESS_EXECUTE);
	*ret = w;
}

static char **get_argv(struct live_unpack *u)
{
	uint64_t n = get_up_to(u, ARGUMENTS_MAX), i;
	char **argv = n ? calloc(n + 1, sizeof(*argv)) : NULL;

	u->bad |= n && !argv;
	for (i = 0; i < n && argv; i++) {
		argv[i] = (char *)(uintptr_t)live_get_text(u);
		u->bad |= !argv[i];
	}
	return argv;
}

static void get_monitor(struct live_unpack *u, struct monitor_options *o, char ***argv)
{
	unsigned int i;

	o->pid = (pid_t)get_up_to(u, INT32_MAX);
	o->argv = *argv = get_argv(u);
	o->nwatches = (unsigned int)get_up_to(u, MONITOR_WATCHES);
	for (i = 0; i < o->nwatches; i++)
		live_get_watch(u, &o->watch[i]);
	o->engine = (enum monitor_engine)get_up_to(u, MONITOR_PTRACE);
	o->frames = (unsigned int)get_up_to(u, UINT32_MAX);
	o->buffer_size = live_get_u64(u);
	o->private_ring = get_up_to(u, 1);
	o->pending = get_up_to(u, 1);
	o->follow_fork = get_up_to(u, 1);
	o->follow_exec = get_up_to(u, 1);
	o->tags = get_up_to(u, 1);
	o->tag_frames = (unsigned int)get_up_to(u, UINT32_MAX);
	o->tag_ring_size = live_get_u64(u);
}

bool live_get_order(struct live_unpack *u, struct live_order *ret)
{
	struct live_order o = { 0 };

	u->bad |= live_get_u64(u) != ORDER_VERSION;
	get_monitor(u, &o.options.monitor, &o.argv);
	o.log = live_get_text(u);
	o.own_directory = live_get_text(u);
	o.options.bounds.bytes = live_get_u64(u);
	o.options.bounds.keep_ns = live_get_u64(u);
	o.options.count = live_get_u64(u);
	o.options.time_ns = live_get_u64(u);
	o.options.redact.all = get_up_to(u, 1);
	o.options.redact.n = get_texts(u, o.redact, LIVE_REDACT_MAX);
	u->bad |= !o.log || u->left;
	*ret = o;
	ret->options.redact.name = ret->redact;
	return !u->bad;
}

bool live_get_ending(struct live_unpack *u, struct live_ending *ret)
{
	struct live_ending e = { .end = (enum session_end)get_up_to(u, SESSION_GAVE_UP) };

	e.err = live_get_error(u);
	e.never_armed = live_get_text(u);
	e.never_collected = get_up_to(u, 1);
	*ret = e;
	return !u->bad;
}

/* The socket */

bool live_send(int fd, const struct live_pack *p)
{
	ssize_t n;

	if (p->failed || p->n > LIVE_MESSAGE_MAX) {
		errno = p->failed ? ENOMEM : EMSGSIZE;
		return false;
	}
	do
		n = send(fd, p->v, p->n, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)p->n;
}

enum live_received live_receive(int fd, uint8_t *buf, struct live_head *head, struct live_unpack *ret)
{
	struct live_unpack u = { .at = buf };
	ssize_t n;

	do
		n = recv(fd, buf, LIVE_MESSAGE_MAX, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return LIVE_NOTHING;
	if (n <= 0)
		return LIVE_CLOSED;
	u.left = (size_t)n;
	if (!live_get_head(&u, head))
		return LIVE_CLOSED;
	*ret = u;
	return LIVE_MESSAGE;
}
