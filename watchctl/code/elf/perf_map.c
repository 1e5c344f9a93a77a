/*
 * The file grows while the program runs, and code addresses are used again: later lines win. It lies in /tmp,
 * where anybody may write: one of another owner than the process, us or root is not believed.
 */
#include "watchctl/code/elf/perf_map.h"

#include <asm/param.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/interval.h"

/* What a large program has is some ten megabytes. One may write more to keep us busy: it is not read. */
#define SIZE_MAX_READ (128u << 20)
#define LINES_MAX (4u << 20) /* what comes behind has no names */
#define PAUSE_NS 100000000u  /* between two looks at the file */
#define SHARE 10u	     /* reading it takes no more than a tenth of the time */
#define PATH_LEN 96

struct perf_map {
	pid_t pid;
	uint64_t known_ns, until_ns;
	char *text;
	off_t size;	       /* of the file, when it was read */
	struct intervals code; /* item: offset of the name in text */
	uint64_t again_ns;     /* when to look at the file again */
};

struct perf_map *perf_map_new(pid_t pid, uint64_t known_ns, uint64_t until_ns)
{
	struct perf_map *m = calloc(1, sizeof(*m));

	if (m) {
		m->pid = pid;
		m->known_ns = known_ns;
		m->until_ns = until_ns;
	}
	return m;
}

static void perf_map_forget(struct perf_map *m)
{
	intervals_deinit(&m->code);
	free(take_ptr(m->text));
	m->size = 0;
}

void perf_map_free(struct perf_map *m)
{
	if (!m)
		return;
	perf_map_forget(m);
	free(m);
}

pid_t perf_map_pid(const struct perf_map *m)
{
	return m->pid;
}

/* The moment of boot and of a process's start are only known that well. */
#define START_SLACK_NS 3000000000u

/* CLOCK_REALTIME; 0: there is no such process. */
static uint64_t start_time_ns(pid_t pid)
{
	struct timespec real, boot;
	uint64_t ticks;

	if (!task_start_ticks(pid, &ticks))
		return 0;
	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return (uint64_t)(real.tv_sec - boot.tv_sec) * 1000000000u + ticks * (1000000000u / HZ);
}

static bool is_same_process(const struct perf_map *m)
{
	uint64_t start = start_time_ns(m->pid);

	return start && start < m->known_ns + START_SLACK_NS;
}

/* The process's own number in the innermost of its pid namespaces; @pid where that is not known. */
static pid_t inner_pid(pid_t pid)
{
	scoped(fclosep) FILE *f = NULL;
	char path[PATH_LEN], line[512];
	pid_t inner = pid;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *last = strrchr(line, '\t');

		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		if (last && atoi(last + 1) > 0)
			inner = atoi(last + 1);
		break;
	}
	return inner;
}

static bool is_believable(const struct perf_map *m, const struct stat *st, bool alive)
{
	char path[PATH_LEN];
	struct stat process;

	if (!S_ISREG(st->st_mode) || st->st_size > SIZE_MAX_READ)
		return false;
	if (!alive &&
	    (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec > m->until_ns)
		return false;
	if (st->st_uid == 0 || st->st_uid == geteuid())
		return true;
	snprintf(path, sizeof(path), "/proc/%d", m->pid);
	/* As root we may read everything: then the owner must be the process's. */
	return alive ? stat(path, &process) == 0 && process.st_uid == st->st_uid : geteuid() == 0;
}

static int open_map(const struct perf_map *m, struct stat *st, bool alive)
{
	char path[2][PATH_LEN];

	snprintf(path[0], PATH_LEN, "/proc/%d/root/tmp/perf-%d.map", m->pid, inner_pid(m->pid));
	snprintf(path[1], PATH_LEN, "/tmp/perf-%d.map", m->pid);
	/* A process of that number today is not the one of the log. */
	for (int i = alive ? 0 : 1; i < 2; i++) {
		scoped(closep) int fd =
			open(path[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);

		if (fd >= 0 && fstat(fd, st) == 0 && is_believable(m, st, alive))
			return take_fd(fd);
	}
	return -1;
}

static bool take_line(struct perf_map *m, char *line, uint32_t number)
{
	uint64_t start, size;
	char *end;

	start = strtoull(line, &end, 16);
	if (end == line || *end != ' ')
		return true;
	line = end;
	size = strtoull(line, &end, 16);
	if (end == line || *end != ' ' || !size || start + size < start)
		return true;
	end++;
	return vec_push(m->code.v, m->code.n, m->code.cap,
			(struct interval){ start, start + size, 0, number, (uint32_t)(end - m->text) });
}

static bool perf_map_parse(struct perf_map *m)
{
	uint32_t number = 0;
	char *next;

	for (char *line = m->text; line && *line; line = next) {
		next = strchr(line, '\n');
		/* The program may be in the middle of the last line. */
		if (!next)
			break;
		*next++ = '\0';
		if (number == LINES_MAX)
			break;
		if (!take_line(m, line, number++))
			return false;
	}
	intervals_sort(&m->code);
	return true;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void read_map(struct perf_map *m)
{
	scoped(closep) int fd = -1;
	struct stat st;
	size_t len = 0;
	ssize_t n;
	bool alive = is_same_process(m);

	if (!alive && !m->until_ns)
		return;
	fd = open_map(m, &st, alive);
	if (fd < 0 || st.st_size == m->size)
		return;
	perf_map_forget(m);
	m->text = malloc((size_t)st.st_size + 1);
	if (!m->text)
		return;
	while (len < (size_t)st.st_size && (n = read(fd, m->text + len, (size_t)st.st_size - len)) > 0)
		len += (size_t)n;
	m->text[len] = '\0';
	m->size = st.st_size;
	if (!perf_map_parse(m))
		perf_map_forget(m);
}

/* Reads the file if it has changed, and looks for that at most ten times a second. */
static void perf_map_refresh(struct perf_map *m)
{
	uint64_t begin, spent;

	if (clock_ns(CLOCK_MONOTONIC) < m->again_ns)
		return;
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID); /* not time: that others run meanwhile costs us nothing */
	read_map(m);
	spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	m->again_ns =
		clock_ns(CLOCK_MONOTONIC) + (spent * SHARE > PAUSE_NS ? spent * SHARE : (uint64_t)PAUSE_NS);
}

const char *perf_map_find(struct perf_map *m, uint64_t addr, uint64_t *start)
{
	const struct interval *best = NULL;

	perf_map_refresh(m);
	for (const struct interval *i = NULL; (i = intervals_find(&m->code, addr, i));)
		if (!best || i->rank > best->rank)
			best = i;
	if (!best)
		return NULL;
	*start = best->start;
	return m->text + best->item;
}
