#include "watchctl/monitor/slots/holders.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/proc/proc.h"

#define LINK_MAX 256
#define DELETED " (deleted)"
#define BOX_LINK "/memfd:" PTRACE_BOX_FILE DELETED

/* "exe" and the like. Its length; 0: it cannot be read. */
static size_t read_link(pid_t pid, const char *name, char buf[LINK_MAX])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	n = readlink(path, buf, LINK_MAX - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* By the program that it runs: this one, or one of that name. */
static bool runs_watchctl(pid_t pid)
{
	char link[LINK_MAX], path[64];
	size_t len = read_link(pid, "exe", link), cut = strlen(DELETED);
	const char *base;

	if (!len)
		return false;
	if (len > cut && !strcmp(link + len - cut, DELETED))
		link[len - cut] = '\0';
	base = strrchr(link, '/');
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return (base && !strcmp(base + 1, "watchctl")) || same_file(path, "/proc/self/exe");
}

static bool read_command(pid_t pid, struct holder *h)
{
	char path[64], *text = malloc(HOLDER_COMMAND);
	ssize_t n = 0, i;

	if (!text)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, text, HOLDER_COMMAND - 1);
	while (n > 0 && !text[n - 1])
		n--;
	text[n > 0 ? n : 0] = '\0';
	for (i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	h->command = text;
	h->follows_fork = strstr(text, "--fork follow") || strstr(text, "--fork=follow");
	return true;
}

/* Whom the pidfd @fd of process @pid is of; 0: of one that has ended. */
static pid_t pidfd_target(pid_t pid, const char *fd)
{
	char path[64], line[128];
	int target = 0;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", pid, fd);
	scoped(fclosep) FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pid: %d", &target) == 1)
			break;
	return target > 0 ? target : 0;
}

/* Of a tracer and its guard alike: only the tracer's is taken. */
static bool read_box(struct holder *h, const char *fd_name)
{
	struct wire_control *control = aligned_alloc(_Alignof(struct wire_control), sizeof(*control));
	struct ptrace_box *box = aligned_alloc(_Alignof(struct ptrace_box), sizeof(*box));
	char path[64];
	bool read;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", h->pid, fd_name);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	read = control && box && fd >= 0 &&
	       pread(fd, control, sizeof(*control), 0) == (ssize_t)sizeof(*control) &&
	       pread(fd, box, sizeof(*box), PTRACE_BOX_OFFSET) == (ssize_t)sizeof(*box) &&
	       control->magic == WIRE_MAGIC && control->version == WIRE_VERSION &&
	       box->magic == PTRACE_BOX_MAGIC && box->version == PTRACE_BOX_VERSION &&
	       box->helper.tracer_pid == h->pid;
	if (!read || h->box) {
		free(control);
		free(box);
		return read;
	}
	h->control = control;
	h->box = box;
	return true;
}

static bool take_file(struct holder *h, const char *fd)
{
	char name[32], link[LINK_MAX];
	pid_t target;

	snprintf(name, sizeof(name), "fd/%.16s", fd);
	if (!read_link(h->pid, name, link))
		return true;
	if (!strcmp(link, "anon_inode:[perf_event]"))
		h->perf_events++;
	if (!strcmp(link, BOX_LINK))
		read_box(h, fd);
	if (strcmp(link, "anon_inode:[pidfd]") != 0 || !h->is_watchctl)
		return true;
	target = pidfd_target(h->pid, fd);
	return !target || vec_push(h->target, h->ntargets, h->cap, target);
}

static void holder_deinit(struct holder *h)
{
	free(h->command);
	free(h->target);
	free(h->control);
	free(h->box);
}

/* False: no memory. */
static bool take_files(struct holder *h)
{
	struct dirent *entry;
	char path[64];
	bool ok = true;

	snprintf(path, sizeof(path), "/proc/%d/fd", h->pid);
	scoped(closedirp) DIR *dir = opendir(path);
	while (ok && dir && (entry = readdir(dir)))
		ok = entry->d_name[0] == '.' || take_file(h, entry->d_name);
	return ok;
}

struct reading {
	struct holder_list list;
	bool no_memory;
};

static bool look_at(void *ctx, pid_t pid)
{
	struct reading *r = ctx;
	struct holder h = { .pid = pid };
	struct proc_status s;
	bool keep;

	if (pid == getpid() || !proc_status_read(pid, pid, &s) || s.kthread)
		return true;
	snprintf(h.name, sizeof(h.name), "%s", s.name);
	h.is_watchctl = runs_watchctl(pid);
	r->no_memory = !take_files(&h);
	keep = h.perf_events || h.box || h.ntargets;
	if (!r->no_memory && keep)
		r->no_memory = !read_command(pid, &h) || !vec_push(r->list.v, r->list.n, r->list.cap, h);
	if (r->no_memory || !keep)
		holder_deinit(&h);
	return !r->no_memory;
}

struct wc_error *holders_read(struct holder_list *ret)
{
	struct reading r = { 0 };

	proc_each(look_at, &r);
	if (r.no_memory) {
		holders_deinit(&r.list);
		return &wc_enomem;
	}
	*ret = r.list;
	return NULL;
}

void holders_deinit(struct holder_list *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		holder_deinit(&l->v[i]);
	free(l->v);
	*l = (struct holder_list){ 0 };
}

bool holder_watches(const struct holder *h, pid_t pid)
{
	size_t i;

	for (i = 0; h->perf_events && !h->box && i < h->ntargets; i++)
		if (h->target[i] == pid)
			return true;
	return false;
}

bool holder_keeps(const struct holder *h, pid_t pid)
{
	unsigned int i;

	for (i = 0; h->box && i < BOX_PROCESSES; i++)
		if (h->box->process[i].pid == pid)
			return true;
	return false;
}

const struct holder *holders_find(const struct holder_list *l, pid_t pid)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->v[i].pid == pid)
			return &l->v[i];
	return NULL;
}
