#include "watchctl/target/proc/proc.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"

#define TASK_EXITING 0x4u /* PF_EXITING of include/linux/sched.h */
#define EACH_TIMES 16u	  /* more would go on for as long as somebody forks all the time */
#define GENERATIONS 64u
#define EXEC_LOOKS 20u
#define EXEC_LOOK_NS 1000000

/* The kernel's list of ids, outermost namespace first: the last one is what the program itself sees. */
static void parse_ids(struct proc_status *s, const char *list)
{
	unsigned int n = 0;
	char *end;

	for (; n < PROC_DEPTH; list = end) {
		long id = strtol(list, &end, 10);

		if (end == list)
			break;
		s->ids[n++] = (pid_t)id;
	}
	s->depth = n ? n - 1 : 0;
	s->ns_id = s->ids[s->depth];
}

pid_t proc_id_at(const struct proc_status *s, unsigned int depth)
{
	return s->ids[depth < s->depth ? depth : s->depth];
}

static void parse_status_line(struct proc_status *s, const char *key, char *value)
{
	if (!strcmp(key, "Name"))
		snprintf(s->name, sizeof(s->name), "%.16s", value);
	else if (!strcmp(key, "State"))
		s->state = value[0];
	else if (!strcmp(key, "Tgid"))
		s->tgid = (pid_t)strtol(value, NULL, 10);
	else if (!strcmp(key, "PPid"))
		s->parent = (pid_t)strtol(value, NULL, 10);
	else if (!strcmp(key, "TracerPid"))
		s->tracer = (pid_t)strtol(value, NULL, 10);
	else if (!strcmp(key, "Uid"))
		sscanf(value, "%*u %" SCNu32, &s->uid);
	else if (!strcmp(key, "Seccomp"))
		s->seccomp = (int)strtol(value, NULL, 10);
	else if (!strcmp(key, "NSpid"))
		parse_ids(s, value);
	else if (!strcmp(key, "Kthread"))
		s->kthread = value[0] == '1';
	else if (!strcmp(key, "VmSize"))
		s->has_memory = true;
	else if (!strcmp(key, "VmStk"))
		s->stack_kb = strtoull(value, NULL, 10);
	else if (!strcmp(key, "SigPnd"))
		s->pending = s->thread_pending = strtoull(value, NULL, 16);
	else if (!strcmp(key, "ShdPnd"))
		s->pending |= strtoull(value, NULL, 16);
	else if (!strcmp(key, "SigBlk"))
		s->blocked = strtoull(value, NULL, 16);
	else if (!strcmp(key, "SigIgn"))
		s->ignored = strtoull(value, NULL, 16);
	else if (!strcmp(key, "SigCgt"))
		s->caught = strtoull(value, NULL, 16);
	else if (!strcmp(key, "x86_Thread_features"))
		s->shadow_stack = strstr(value, "shstk") != NULL;
}

static void parse_status(struct proc_status *s, char *text)
{
	char *line, *rest = NULL;

	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *colon = strchr(line, ':');

		if (!colon)
			continue;
		*colon++ = '\0';
		parse_status_line(s, line, colon + strspn(colon, " \t"));
	}
}

/* By pieces that end with a line; of one that is longer than a piece (Groups) we want nothing. No memory is
 * asked for: a thread may stand still meanwhile. */
bool proc_status_read(pid_t pid, pid_t tid, struct proc_status *ret)
{
	struct proc_status s = { 0 };
	char path[64], text[2048];
	size_t have = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		size_t end = have + (size_t)n, cut = end;

		while (cut && text[cut - 1] != '\n')
			cut--;
		if (cut) {
			text[cut - 1] = '\0';
			parse_status(&s, text);
		}
		have = end - cut;
		if (have == sizeof(text) - 1)
			have = 0;
		memmove(text, text + end - have, have);
	}
	if (!s.state)
		return false;
	*ret = s;
	return true;
}

uint64_t proc_ignored_signals(const struct proc_status *s)
{
	const uint64_t by_default =
		1ull << (SIGCHLD - 1) | 1ull << (SIGCONT - 1) | 1ull << (SIGURG - 1) | 1ull << (SIGWINCH - 1);

	return s->ignored | (by_default & ~s->caught);
}

bool proc_is_ending(pid_t pid, pid_t tid)
{
	char text[1024], state;
	unsigned int flags;
	const char *stat = task_stat(pid, tid, text, sizeof(text));

	if (!stat || sscanf(stat, "%c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return true;
	return state == 'Z' || state == 'X' || flags & TASK_EXITING;
}

bool proc_is_thread_of(pid_t pid, pid_t tid)
{
	char text[1024];

	return task_stat(pid, tid, text, sizeof(text));
}

bool proc_threads(pid_t pid, struct thread_ids *ret)
{
	struct thread_ids ids = { 0 };
	struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	scoped(closedirp) DIR *dir = opendir(path);
	if (!dir)
		return false;
	while ((errno = 0, entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0 && !vec_push(ids.v, ids.n, ids.cap, tid)) {
			thread_ids_deinit(&ids);
			return false;
		}
	}
	if (errno) {
		thread_ids_deinit(&ids);
		return false;
	}
	*ret = ids;
	return true;
}

static bool may_open_one_more(void)
{
	scoped(closedirp) DIR *dir = opendir("/proc/self/task");

	return dir != NULL;
}

static bool is_starved(int error)
{
	return error == ENOMEM || error == EMFILE || error == ENFILE || !may_open_one_more();
}

static struct wc_error *starved_error(pid_t pid)
{
	return wc_error_new(WC_EFAIL,
			    "process %d cannot be examined: there is no memory or no file descriptor left",
			    pid);
}

struct wc_error *proc_unread_error(pid_t pid)
{
	bool starved = is_starved(errno);

	if (kill(pid, 0) && errno == ESRCH)
		return wc_error_new(WC_ETARGET, "process %d ended", pid);
	if (!starved)
		return wc_error_new(WC_ETARGET, "process %d is just ending, or executing another program",
				    pid);
	return starved_error(pid);
}

bool thread_ids_have(const struct thread_ids *t, pid_t tid)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		if (t->v[i] == tid)
			return true;
	return false;
}

void thread_ids_deinit(struct thread_ids *t)
{
	free(t->v);
	*t = (struct thread_ids){ 0 };
}

int proc_seccomp(pid_t pid)
{
	struct thread_ids ids;
	struct proc_status s;
	int mode = 0;
	size_t i;

	if (!proc_threads(pid, &ids))
		return 0;
	for (i = 0; i < ids.n && mode != 1; i++)
		if (proc_status_read(pid, ids.v[i], &s) && s.seccomp)
			mode = s.seccomp;
	thread_ids_deinit(&ids);
	return mode;
}

static bool is_32_bit(pid_t pid)
{
	unsigned char ident[EI_NIDENT];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", task_with_memory(pid));
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, ident, sizeof(ident)) == sizeof(ident) && ident[EI_CLASS] == ELFCLASS32;
}

/*
 * What /proc calls a process must be what system calls take for it: else another one would be stopped, and
 * written to. The kernel lists our own numbers from the namespace of that mount down to ours.
 */
static struct wc_error *check_proc_itself(void)
{
	char line[1024];
	int numbers = 0;

	scoped(fclosep) FILE *f = fopen("/proc/self/status", "re");
	if (!f)
		return wc_error_new(WC_ENOTSUP,
				    "/proc is not mounted here, or belongs to another PID namespace: "
				    "watchctl needs it (mount -t proc proc /proc)");
	while (fgets(line, sizeof(line), f)) {
		char *at = line;

		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		for (strsep(&at, "\t "); at && *at; numbers++)
			strsep(&at, "\t ");
	}
	if (numbers > 1)
		return wc_error_new(
			WC_ENOTSUP,
			"the mounted /proc belongs to another PID namespace, so that its process ids are wrong here: "
			"mount the right one (mount -t proc proc /proc), or run watchctl outside this namespace");
	return NULL;
}

/*
 * The file is for its owner alone, the calls are for whoever may trace: CAP_SYS_PTRACE is enough for these.
 * Nothing lies at address 0, so "nothing there" is the answer to those who may ask.
 */
static bool may_reach_memory(pid_t pid)
{
	char byte;
	struct iovec local = { &byte, 1 }, remote = { NULL, 1 };

	return process_vm_readv(task_with_memory(pid), &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT;
}

struct wc_error *proc_check(pid_t pid)
{
	struct wc_error *err = check_proc_itself();
	struct proc_status s;
	char path[64];
	pid_t task;

	if (err)
		return err;
	if (!proc_status_read(pid, pid, &s)) {
		bool starved = is_starved(errno);

		if (kill(pid, 0) && errno == ESRCH)
			return wc_error_new(WC_ETARGET, "there is no process %d: list processes with ps -e",
					    pid);
		if (starved)
			return starved_error(pid);
		return wc_error_new(
			WC_EPERM, "process %d is hidden from this user: run watchctl as its owner or as root",
			pid);
	}
	if (s.tgid != pid)
		return wc_error_new(WC_ETARGET, "%d is a thread of process %d: watch it with -p %d", pid,
				    s.tgid, s.tgid);
	task = task_with_memory(pid);
	if (task != pid && !proc_status_read(pid, task, &s))
		s.state = 'X';
	if (s.state == 'Z' || s.state == 'X')
		return wc_error_new(
			WC_ETARGET,
			"process %d (%s) is a zombie: it has ended, and its parent has not waited for it",
			pid, s.name);
	if (s.kthread || !s.has_memory)
		return wc_error_new(WC_ETARGET,
				    "%d (%s) is a kernel thread: it has no variables of its own to watch",
				    pid, s.name);
	snprintf(path, sizeof(path), "/proc/%d/mem", task_with_memory(pid));
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == ESRCH || errno == ENOENT))
		return wc_error_new(WC_ETARGET, "process %d ended", pid);
	if (fd < 0 && !may_reach_memory(pid))
		return wc_error_errno(
			WC_EPERM, EACCES,
			"process %d (%s) belongs to user %u, or does not permit tracing: run watchctl as its owner, "
			"as root, or with CAP_SYS_PTRACE",
			pid, s.name, s.uid);
	if (is_32_bit(pid))
		return wc_error_new(WC_ENOTSUP,
				    "process %d (%s) is a 32-bit program: only x86-64 is supported", pid,
				    s.name);
	return NULL;
}

/* process_vm_readv() or process_vm_writev(), by another thread where the first one has ended. */
static ssize_t copy_memory(ssize_t (*copy)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
					   unsigned long, unsigned long),
			   pid_t pid, const struct iovec *local, const struct iovec *remote)
{
	ssize_t n = copy(pid, local, 1, remote, 1, 0);
	pid_t task;

	if (n >= 0 || errno != ESRCH)
		return n;
	task = task_with_memory(pid);
	errno = ESRCH;
	return task == pid ? -1 : copy(task, local, 1, remote, 1, 0);
}

static bool read_mem_file(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", task_with_memory(pid));
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && pread(fd, buf, len, (off_t)addr) == (ssize_t)len;
}

static bool proc_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len }, remote = { (void *)(uintptr_t)addr, len };
	pid_t pid = *(const pid_t *)ctx;

	if (copy_memory(process_vm_readv, pid, &local, &remote) == (ssize_t)len)
		return true;
	/* Execute-only pages and the like: the file goes through the same check with ptrace's rights. */
	return errno != ESRCH && read_mem_file(pid, addr, buf, len);
}

struct memory_view proc_memory(const pid_t *pid)
{
	return (struct memory_view){ proc_read, (void *)(uintptr_t)pid };
}

size_t proc_read_some(pid_t pid, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len }, remote = { (void *)(uintptr_t)addr, len };
	ssize_t got = copy_memory(process_vm_readv, pid, &local, &remote);

	return got > 0 ? (size_t)got : 0;
}

bool proc_write(pid_t pid, uint64_t addr, const void *buf, size_t len)
{
	struct iovec local = { (void *)(uintptr_t)buf, len }, remote = { (void *)(uintptr_t)addr, len };

	return copy_memory(process_vm_writev, pid, &local, &remote) == (ssize_t)len;
}

bool proc_write_force(pid_t pid, uint64_t addr, const void *buf, size_t len)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", task_with_memory(pid));
	scoped(closep) int fd = open(path, O_RDWR | O_CLOEXEC);

	return fd >= 0 && pwrite(fd, buf, len, (off_t)addr) == (ssize_t)len;
}

/* "running", "-1 SP PC", or "NR ARG*6 SP PC" (proc_pid_syscall() in fs/proc/base.c) */
static bool read_syscall(pid_t pid, pid_t tid, char *text, size_t cap)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, cap - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

bool proc_in_syscall(pid_t pid, pid_t tid, long *number, uint64_t *arg)
{
	char text[256];
	unsigned long long first;

	if (!read_syscall(pid, tid, text, sizeof(text)) || sscanf(text, "%ld %llx", number, &first) != 2)
		return false;
	*arg = first;
	return *number >= 0;
}

bool proc_resting(pid_t pid, pid_t tid, uint64_t *sp, uint64_t *pc)
{
	char text[256], *last, *before;

	if (!read_syscall(pid, tid, text, sizeof(text)) || !(last = strrchr(text, ' ')))
		return false;
	*last = '\0';
	before = strrchr(text, ' ');
	if (!before)
		return false;
	*sp = strtoull(before + 1, NULL, 16);
	*pc = strtoull(last + 1, NULL, 16);
	return true;
}

/*
 * Where in /proc, as a folder, process 0 would be: each has its place by its number. Learned from two that
 * follow each other, for the kernel's number is nobody's promise. False: it is not so here.
 */
static bool first_place(int dir, off_t *ret)
{
	_Alignas(struct dirent64) char buf[4096];
	const struct dirent64 *d = NULL, *next;
	ssize_t n, at;

	while ((n = getdents64(dir, buf, sizeof(buf))) > 0) {
		for (at = 0, d = NULL; at < n; at += next->d_reclen, d = next) {
			next = (const struct dirent64 *)(buf + at);
			if (!d || !atoi(d->d_name) || !atoi(next->d_name))
				continue;
			*ret = d->d_off - atoi(next->d_name);
			return true;
		}
	}
	return false;
}

/* The one with the lowest number from @from on, as of now. 0: none. */
static pid_t next_process(int dir, off_t place, pid_t from)
{
	/* Room for one: more would be read ahead, and who is forked meanwhile is not in that. */
	_Alignas(struct dirent64) char buf[offsetof(struct dirent64, d_name) + sizeof("123456789012")];

	if (lseek(dir, place + from, SEEK_SET) < 0 || getdents64(dir, buf, sizeof(buf)) <= 0)
		return 0;
	return (pid_t)atoi(((const struct dirent64 *)buf)->d_name);
}

/* As far as they are there now. */
static void each_listed(bool (*fn)(void *ctx, pid_t pid), void *ctx)
{
	scoped(closedirp) DIR *dir = opendir("/proc");
	const struct dirent *d;

	while (dir && (d = readdir(dir))) {
		pid_t pid = (pid_t)atoi(d->d_name);

		if (pid > 0 && !fn(ctx, pid))
			break;
	}
}

void proc_each(bool (*fn)(void *ctx, pid_t pid), void *ctx)
{
	scoped(closep) int dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	off_t place;
	pid_t pid = 0;

	if (dir < 0 || !first_place(dir, &place)) { /* we may see too few to learn it */
		each_listed(fn, ctx);
		return;
	}
	while ((pid = next_process(dir, place, pid + 1)))
		if (!fn(ctx, pid))
			break;
}

struct search {
	const struct proc_namespace *ns;
	pid_t inner, found;
};

static uint64_t file_id(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* The pid namespace @up above that of @pid. 0: not known. */
static uint64_t namespace_above(pid_t pid, unsigned int up)
{
	uint64_t id;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && up--) {
		int above = ioctl(fd, NS_GET_PARENT);

		close(fd);
		fd = above;
	}
	if (fd < 0)
		return 0;
	id = file_id(fd);
	close(fd);
	return id;
}

void proc_namespace_read(pid_t pid, struct proc_namespace *ret)
{
	struct proc_status s;

	*ret = (struct proc_namespace){ .id = namespace_above(pid, 0) };
	if (proc_status_read(pid, pid, &s))
		ret->depth = s.depth;
}

static bool is_inner(void *ctx, pid_t pid)
{
	struct search *s = ctx;
	struct proc_status status;

	if (!proc_status_read(pid, pid, &status) || status.depth < s->ns->depth ||
	    proc_id_at(&status, s->ns->depth) != s->inner ||
	    namespace_above(pid, status.depth - s->ns->depth) != s->ns->id)
		return true;
	s->found = pid;
	return false;
}

pid_t proc_global_pid(const struct proc_namespace *ns, pid_t inner)
{
	struct search s = { .ns = ns, .inner = inner, .found = inner };

	if (ns->depth && ns->id)
		proc_each(is_inner, &s);
	return s.found;
}

void proc_describe(pid_t pid, char *buf, size_t len)
{
	struct proc_status s;

	if (proc_status_read(pid, pid, &s))
		snprintf(buf, len, "%s (process %d)", s.name, pid);
	else
		snprintf(buf, len, "process %d", pid);
}

bool proc_descends_from(pid_t pid, pid_t ancestor)
{
	struct proc_status s;
	unsigned int i;

	for (i = 0; i < GENERATIONS && pid > 1 && pid != ancestor; i++)
		pid = proc_status_read(pid, pid, &s) ? s.parent : 0;
	return pid == ancestor;
}

uint64_t proc_own_start_time(void)
{
	static uint64_t start;
	static pid_t whose; /* a child that was forked is not its parent */
	const pid_t self = getpid();

	if (__atomic_load_n(&whose, __ATOMIC_ACQUIRE) != self) {
		__atomic_store_n(&start, proc_start_time(self), __ATOMIC_RELAXED);
		__atomic_store_n(&whose, self, __ATOMIC_RELEASE);
	}
	return __atomic_load_n(&start, __ATOMIC_RELAXED);
}

uint64_t proc_start_time(pid_t pid)
{
	uint64_t ticks;

	return task_start_ticks(pid, &ticks) ? ticks : 0;
}

bool proc_lives(pid_t pid, uint64_t start)
{
	struct proc_status s;

	return start && proc_start_time(pid) == start && proc_status_read(pid, pid, &s) && s.state != 'Z' &&
	       s.state != 'X';
}

/* A number of /proc/PID/stat, counted as in proc_pid_stat(5). 0: it is not known. */
static uint64_t stat_number(pid_t pid, int number)
{
	char text[1024];
	const char *p = task_stat(pid, 0, text, sizeof(text));
	int field;

	for (field = 3; p && field < number; field++) {
		p = strchr(p, ' ');
		p += p != NULL;
	}
	return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t proc_stack_start(pid_t pid)
{
	return stat_number(pid, 28);
}

uint64_t proc_heap_start(pid_t pid)
{
	return stat_number(pid, 47);
}

bool proc_has_execed(pid_t pid, uint64_t stack_start)
{
	unsigned int i;

	for (i = 0; stack_start && i < EXEC_LOOKS; i++) {
		uint64_t now = proc_stack_start(pid);

		if (now && now != stack_start)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = EXEC_LOOK_NS }, NULL);
	}
	return false;
}
