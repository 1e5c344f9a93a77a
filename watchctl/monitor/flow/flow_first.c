#include "watchctl/monitor/flow/flow_first.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/flow/explain/socket_ends.h"
#include "watchctl/flow/kernel/kernel_tasks.h"
#include "watchctl/trace/flow/flow_format.h"

struct first {
	uint32_t *word;
	size_t n, cap;
	uint64_t time_ns, salt;
	uint32_t ns;
	bool failed;
};

static void put(struct first *f, const uint32_t *word, size_t n)
{
	for (size_t i = 0; i < n && !f->failed; i++)
		f->failed = !vec_push(f->word, f->n, f->cap, word[i]);
}

static bool put_name(void *ctx, const struct tasks_record *r)
{
	struct first *f = ctx;
	/* How: FLOW_NAME_WAS, which is 0. */
	uint32_t word[8] = { flow_head(FLOW_NAME, f->time_ns), (uint32_t)r->tid, (uint32_t)r->pid,
			     (uint32_t)r->parent };

	/* Of one that has ended no event comes any more by which the log would say so. */
	if (r->tid && !r->exit_state) {
		memcpy(&word[4], r->comm, sizeof(uint32_t) * 4);
		put(f, word, sizeof(word) / sizeof(word[0]));
	}
	return !f->failed;
}

static uint32_t address_key(const struct first *f, const uint8_t address[16])
{
	uint32_t word[4];

	memcpy(word, address, sizeof(word));
	return flow_address_key(word, f->ns, f->salt);
}

static void put_socket(struct first *f, const struct socket_end *s)
{
	const bool is_unix = s->family == SOCKET_UNIX;
	const uint32_t word[] = {
		flow_head(FLOW_SOCKET, f->time_ns),
		(is_unix ? FLOW_KIND_UNIX : FLOW_KIND_INET) | (is_unix ? 0 : (uint32_t)s->own.port << 16),
		s->inode,
		is_unix ? s->peer : (uint32_t)s->other.port << 16,
		is_unix ? 0 : address_key(f, s->own.addr),
		is_unix ? 0 : address_key(f, s->other.addr),
	};

	if (s->inode && (is_unix ? s->peer != 0 : s->other.port != 0))
		put(f, word, sizeof(word) / sizeof(word[0]));
}

static void put_sockets(struct first *f)
{
	struct socket_ends *ends = socket_ends_new();
	const struct socket_end *s;
	size_t n = 0;

	if (!ends) {
		f->failed = true;
		return;
	}
	s = socket_ends_all(ends, &n);
	for (size_t i = 0; i < n; i++)
		put_socket(f, &s[i]);
	socket_ends_free(ends);
}

static struct wc_error *put_names(struct first *f)
{
	const char *why;
	struct kernel_tasks *k = kernel_tasks_open(&why);
	bool all;

	if (!k)
		return wc_error_new(WC_EFAIL, "cannot read the threads that there are: %s", why);
	all = kernel_tasks_read(k, put_name, f);
	kernel_tasks_close(k);
	if (f->failed)
		return &wc_enomem;
	return all ? NULL : wc_error_new(WC_EFAIL, "the kernel told fewer threads than there are");
}

struct wc_error *flow_first_tell(uint64_t salt, kernel_flow_take take, void *ctx)
{
	struct first f = { .salt = salt, .time_ns = monotonic_ns() };
	const uint32_t time[] = { FLOW_EXTENDED, FLOW_TIME, (uint32_t)f.time_ns,
				  (uint32_t)(f.time_ns >> 32) };
	struct wc_error *err;
	struct stat ns;

	if (stat("/proc/self/ns/net", &ns) == 0)
		f.ns = (uint32_t)ns.st_ino;
	put(&f, time, sizeof(time) / sizeof(time[0]));
	err = put_names(&f);
	if (!err)
		put_sockets(&f);
	if (!err && f.failed)
		err = &wc_enomem;
	if (!err)
		err = take(ctx, FLOW_CPU_NAMES, f.word, f.n);
	free(f.word);
	return err;
}
