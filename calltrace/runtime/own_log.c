#include "calltrace/runtime/own_log.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/code/elf/build_id_notes.h"
#include "watchctl/trace/calls/call_metadata.h"
#include "watchctl/trace/calls/call_signature.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_writer.h"

/* The file that a descriptor leads to. */
struct file_identity {
	dev_t device;
	ino_t inode;
};

enum { OWN_DIRECTORY, OWN_EVENTS, OWN_MARK, OWN_FILES };

struct own_log {
	struct tracelog_writer *w;
	struct event_sink sink;
	struct signature_types types;
	struct file_identity file[OWN_FILES];
	pid_t pid;
	struct own_log *next; /* in @forgotten */
};

/* Of this process's ancestors: reachable, so that no leak checker of the program's takes them for leaks. */
static struct own_log *forgotten;

/* Paths */

static bool path_add(char *ret, size_t cap, const char *text, size_t len)
{
	size_t have = strlen(ret);

	if (have + len >= cap)
		return false;
	memcpy(ret + have, text, len);
	ret[have + len] = '\0';
	return true;
}

/* The meaning of the letter @c behind a percent sign; NULL: none. */
static const char *path_field(char c, uint32_t number, char buf[16])
{
	switch (c) {
	case 'p':
		snprintf(buf, 16, "%d", getpid());
		return buf;
	case 'n':
		snprintf(buf, 16, "%u", number);
		return buf;
	case 'e':
		return program_invocation_short_name;
	case '%':
		return "%";
	default:
		return NULL;
	}
}

struct wc_error *own_log_path(const char *text, uint32_t number, char *ret, size_t cap)
{
	const char *field;
	char buf[16];
	bool fits = true;

	*ret = '\0';
	if (*text != '/') {
		if (!getcwd(ret, cap))
			return wc_error_errno(WC_ELOG, errno, "cannot find out the working directory");
		fits = path_add(ret, cap, "/", 1);
	}
	for (; *text && fits; text++) {
		if (*text != '%') {
			fits = path_add(ret, cap, text, 1);
			continue;
		}
		field = path_field(*++text, number, buf);
		if (!field)
			return wc_error_new(WC_EUSAGE,
					    "CALLTRACE_OUTPUT has a %% that is not followed by p, n, e "
					    "or another %%: write %%%% for a percent sign");
		fits = path_add(ret, cap, field, strlen(field));
	}
	return fits ? NULL : wc_error_new(WC_EUSAGE, "CALLTRACE_OUTPUT is too long: choose a shorter path");
}

/* Descriptors */

static int *descriptor(struct own_log *l, int i)
{
	return i == OWN_DIRECTORY ? &l->w->files.dir : i == OWN_EVENTS ? &l->w->files.fd : &l->w->mark;
}

static bool identify(int fd, struct file_identity *ret)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	ret->device = st.st_dev;
	ret->inode = st.st_ino;
	return true;
}

static bool descriptor_is_ours(struct own_log *l, int i)
{
	struct file_identity now;

	return identify(*descriptor(l, i), &now) && now.device == l->file[i].device &&
	       now.inode == l->file[i].inode;
}

/* The number that it had belongs to the program now, and is not closed. */
static bool reopen(struct own_log *l, int i)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const int dir = l->w->files.dir;

	*descriptor(l, i) =
		i == OWN_DIRECTORY ? open(l->w->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		: i == OWN_EVENTS  ? openat(dir, TRACELOG_PLAIN, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC)
				   : openat(dir, TRACELOG_RECORDER, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (descriptor_is_ours(l, i)) {
		if (i == OWN_MARK)
			fcntl(*descriptor(l, i), F_OFD_SETLK, &lock);
		return true;
	}
	closep(descriptor(l, i));
	*descriptor(l, i) = -1;
	return false;
}

static struct wc_error *check_descriptors(struct own_log *l)
{
	for (int i = 0; i < OWN_FILES; i++)
		if (!descriptor_is_ours(l, i) && !reopen(l, i))
			return wc_error_new(WC_ELOG,
					    "the program has closed the files of the log %s, and they "
					    "cannot be opened again",
					    l->w->path);
	return NULL;
}

/* Events */

static struct wc_error *put_event(struct own_log *l, struct trace_event *e)
{
	struct wc_error *err = check_descriptors(l);

	e->time_ns = monotonic_ns();
	return err ? err : l->sink.put(l->sink.ctx, e);
}

static size_t read_proc(const char *path, char *buf, size_t len)
{
	scoped(fclosep) FILE *f = fopen(path, "re");
	size_t n = f ? fread(buf, 1, len - 1, f) : 0;

	buf[n] = '\0';
	return n;
}

static void read_comm(pid_t tid, char *buf, size_t len)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	read_proc(path, buf, len);
	buf[strcspn(buf, "\n")] = '\0';
}

static void read_program(char *ret, size_t cap)
{
	ssize_t len = readlink("/proc/self/exe", ret, cap - 1);

	ret[len > 0 ? len : 0] = '\0';
}

static struct wc_error *put_process(struct own_log *l)
{
	char comm[64], exe[PATH_MAX], cmdline[4096], host[256] = "";
	struct trace_event e = { .type = EVENT_PROCESS };
	size_t n, i;

	read_comm(l->pid, comm, sizeof(comm));
	read_program(exe, sizeof(exe));
	n = read_proc("/proc/self/cmdline", cmdline, sizeof(cmdline));
	for (i = 0; i + 1 < n; i++)
		if (!cmdline[i])
			cmdline[i] = ' ';
	gethostname(host, sizeof(host) - 1);
	e.process = (struct process_event){ .pid = l->pid,
					    .comm = comm,
					    .exe = exe,
					    .cmdline = cmdline,
					    .realtime_ns = clock_ns(CLOCK_REALTIME),
					    .host = host };
	return put_event(l, &e);
}

struct wc_error *own_log_put_thread(struct own_log *l, pid_t tid, const char *comm)
{
	struct trace_event e = { .type = EVENT_THREAD };
	char now[64];

	read_comm(tid, now, sizeof(now));
	e.thread = (struct thread_event){ .pid = l->pid, .tid = tid, .comm = *now ? now : comm };
	return put_event(l, &e);
}

struct wc_error *own_log_put_event_type(struct own_log *l, uint32_t type, const char *name,
					const char *format)
{
	struct trace_event e = { .type = EVENT_PROBE_SITE };

	e.probe_site = (struct probe_site_event){
		.id = type, .pid = l->pid, .probe = name, .pattern = format, .tactic = PROBE_TACTIC_SOURCE
	};
	return put_event(l, &e);
}

struct wc_error *own_log_put_note(struct own_log *l, const char *text)
{
	struct trace_event e = { .type = EVENT_NOTE, .note = { .text = text } };

	return put_event(l, &e);
}

struct wc_error *own_log_put_lost(struct own_log *l, uint64_t count)
{
	struct trace_event e = { .type = EVENT_LOST,
				 .lost = { .watch = WATCH_CALLS,
					   .count = count,
					   .why = "discarded by the call tracer in the program" } };

	return put_event(l, &e);
}

/* Functions */

struct own_module {
	uintptr_t at; /* in it */
	uintptr_t bias;
	char path[PATH_MAX]; /* "": unknown */
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct own_module *m = ctx;
	bool is_it = false;

	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && m->at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
			is_it = true;
	}
	if (!is_it)
		return 0;
	m->bias = info->dlpi_addr;
	for (unsigned int i = 0; i < info->dlpi_phnum && !m->build_id_len; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + p->p_vaddr);

		if (p->p_type == PT_NOTE)
			m->build_id_len = build_id_in_notes(at, at + p->p_memsz, m->build_id);
	}
	/* The program itself: glibc has no name for it, musl this one. */
	if (!info->dlpi_name || !info->dlpi_name[0] || !strcmp(info->dlpi_name, "/proc/self/exe"))
		read_program(m->path, sizeof(m->path));
	else
		snprintf(m->path, sizeof(m->path), "%s", info->dlpi_name);
	return 1;
}

static void find_module(const void *record, struct own_module *ret)
{
	*ret = (struct own_module){ .at = (uintptr_t)record };
	dl_iterate_phdr(look_at, ret);
}

void own_log_module_name(const void *record, char *ret, size_t cap)
{
	struct own_module m;

	find_module(record, &m);
	snprintf(ret, cap, "%s", m.path);
}

static uintptr_t behind(const int32_t *offset)
{
	return (uintptr_t)offset + (uintptr_t)(intptr_t)*offset;
}

struct wc_error *own_log_put_functions(struct own_log *l, const struct calltrace_function *begin,
				       const struct calltrace_function *end, uint32_t base)
{
	struct wc_error *err = check_descriptors(l); /* once for tens of thousands */
	struct trace_event e = { .type = EVENT_FUNCTION, .time_ns = monotonic_ns() };
	struct own_module m;

	find_module(begin, &m);
	for (const struct calltrace_function *f = begin; f < end && !err; f++) {
		struct call_signature s = { .return_type = NO_TYPE };

		if (f->signature)
			err = call_signature_read(&l->types, (const char *)behind(&f->signature), e.time_ns,
						  l->sink, &s);
		e.function = (struct function_event){
			.id = base + (uint32_t)(f - begin),
			.flags = f->signature ? 0 : FUNCTION_NO_TYPES,
			.name = f->name ? (const char *)behind(&f->name) : NULL,
			.module = *m.path ? m.path : NULL,
			.build_id = m.build_id,
			.build_id_len = m.build_id_len,
			.address = f->address ? behind(&f->address) - m.bias : 0,
			.file = f->file ? (const char *)behind(&f->file) : NULL,
			.line = f->line,
			.return_type = s.return_type,
			.nparams = s.nparams,
			.param = s.param,
		};
		if (!err)
			err = l->sink.put(l->sink.ctx, &e);
		call_signature_deinit(&s);
	}
	return err;
}

/* The log */

static struct wc_error *describe(struct own_log *l, struct output_place *place)
{
	struct tracelog_identity id;
	struct wc_error *err = call_metadata_describe(l->w->files.dir, place->path, &id);

	if (err)
		return err;
	for (int i = 0; i < OWN_FILES; i++)
		if (!identify(*descriptor(l, i), &l->file[i]))
			return wc_error_errno(WC_ELOG, errno, "cannot read the log %s", place->path);
	place->device = l->file[OWN_DIRECTORY].device;
	place->inode = l->file[OWN_DIRECTORY].inode;
	memcpy(place->uuid, id.uuid, sizeof(place->uuid));
	place->pid = l->pid;
	return NULL;
}

struct wc_error *own_log_open(struct output_place *place, struct own_log **ret)
{
	struct own_log *l = calloc(1, sizeof(*l));
	struct wc_error *err;

	if (!l)
		return &wc_enomem;
	l->pid = getpid();
	err = tracelog_writer_open(place->path, &l->w);
	if (err) {
		free(l);
		return err;
	}
	l->sink = tracelog_writer_sink(l->w);
	err = describe(l, place);
	if (!err)
		err = put_process(l);
	if (!err)
		err = own_log_put_thread(l, l->pid, "");
	if (!err)
		err = own_log_flush(l);
	if (err) {
		own_log_discard(l);
		return err;
	}
	*ret = l;
	return NULL;
}

struct wc_error *own_log_flush(struct own_log *l)
{
	struct wc_error *err = check_descriptors(l);

	return err ? err : tracelog_writer_flush(l->w);
}

struct wc_error *own_log_close(struct own_log *l)
{
	struct wc_error *err = check_descriptors(l);

	/* The writer closes what is not ours: it is left as it is, like that of a program that was killed. */
	if (err) {
		own_log_give_up(l);
		return err;
	}
	err = tracelog_writer_close(l->w);
	signature_types_deinit(&l->types);
	free(l);
	return err;
}

void own_log_discard(struct own_log *l)
{
	tracelog_writer_discard(l->w);
	signature_types_deinit(&l->types);
	free(l);
}

static void close_ours(struct own_log *l)
{
	for (int i = 0; i < OWN_FILES; i++)
		if (descriptor_is_ours(l, i))
			close(*descriptor(l, i));
}

void own_log_give_up(struct own_log *l)
{
	close_ours(l);
	tracelog_writer_forget(l->w);
	signature_types_deinit(&l->types);
	free(l);
}

void own_log_forget(struct own_log *l)
{
	if (!l)
		return;
	close_ours(l);
	l->next = forgotten;
	forgotten = l;
}
