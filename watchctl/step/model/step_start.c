#include "watchctl/step/model/step_start.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"

static struct wc_error *put_start(pid_t pid, uint64_t time_ns, enum input_kind kind, const char *name,
				  const uint8_t *bytes, size_t len, struct event_sink sink)
{
	struct trace_event e = { .type = EVENT_INPUT, .time_ns = time_ns };

	e.input = (struct input_event){
		.pid = pid,
		.tid = pid,
		.kind = kind,
		.syscall = -1,
		.fd = -1,
		.size = len,
		.hashed = (uint32_t)len,
		.hash = hash_bytes(HASH_START, bytes, len),
		.name = name,
		.bytes = bytes,
		.len = (uint32_t)len,
	};
	return sink.put(sink.ctx, &e);
}

static size_t read_file(pid_t pid, const char *file, uint8_t *buf, size_t cap)
{
	char path[64];
	size_t len = 0;
	ssize_t n = 1;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && len < cap) {
		n = read(fd, buf + len, cap - len);
		if (n > 0)
			len += (size_t)n;
	}
	return len;
}

static struct wc_error *put_directory(pid_t pid, uint64_t time_ns, struct event_sink sink)
{
	char path[64], name[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	n = readlink(path, name, sizeof(name) - 1);
	if (n <= 0)
		return NULL;
	name[n] = '\0';
	return put_start(pid, time_ns, INPUT_DIRECTORY, name, NULL, 0, sink);
}

struct wc_error *step_start_report(pid_t pid, uint64_t time_ns, struct event_sink sink)
{
	scoped(freep) uint8_t *buf = malloc(INPUT_BYTES_MAX);
	struct wc_error *err;
	size_t n;

	if (!buf)
		return &wc_enomem;
	err = put_directory(pid, time_ns, sink);
	n = read_file(pid, "cmdline", buf, INPUT_BYTES_MAX);
	if (!err && n)
		err = put_start(pid, time_ns, INPUT_ARGUMENTS, NULL, buf, n, sink);
	n = read_file(pid, "environ", buf, INPUT_BYTES_MAX);
	if (!err && n)
		err = put_start(pid, time_ns, INPUT_ENVIRONMENT, NULL, buf, n, sink);
	return err;
}
