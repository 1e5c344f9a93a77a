/* build: gcc -O2 -g -pthread */
/*
 * resist_memory - does to its own memory what makes a watch on it difficult, a line at a time, and accounts
 *for what it accessed: "pid N" first, "ok TEXT" after each line.
 *
 *	write N			so many writes to `word`
 *	on N			which of four pages the others are about
 *	map KIND		that page: private, shared, huge (a transparent huge page), file FILE
 *				(shared with whoever maps it), fault (userfaultfd: nobody fills it before
 *"fill"); tells its address
 *	touch N			so many writes to its first word; read N: so many reads; tells the word's
 *value unmap | move | forget | protect | unprotect | collapse | split munmap, mremap to another place (tells
 *it), MADV_DONTNEED, mprotect(PROT_NONE) and back, MADV_COLLAPSE, mprotect of one small page beside it fill
 *the fault is answered; a thread that touched the page goes on waits			a thread touches the
 *page, and waits there; "met" tells when it has come through
 *	strangers		unmaps every mapping that was not there at its start; tells how many
 *	limit WHAT		RLIMIT_AS, RLIMIT_MEMLOCK with mlockall, or RLIMIT_NOFILE (with all
 *descriptors in use): used up; for MEMLOCK and NOFILE it becomes nobody where it is root; "none": no signal
 *may be queued
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE (2UL << 20)
#define PAGE 4096UL
#define MAPS 512
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

volatile long word __attribute__((aligned(64)));

static struct {
	volatile long *at;
	size_t len;
} pages[4];
static int on;
static int faults = -1;
static volatile bool met;

static struct mapping {
	unsigned long start, end;
} at_start[MAPS];
static int nat_start;

static void answer(const char *text)
{
	printf("ok %s\n", text);
}

static void tell_address(void)
{
	printf("ok 0x%lx\n", (unsigned long)pages[on].at);
}

/* Mappings of the page */

static volatile long *map_anonymous(size_t len, int flags)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	pages[on].len = len;
	return p == MAP_FAILED ? NULL : p;
}

/* Aligned to its size, in the midst of more. */
static volatile long *map_huge(void)
{
	char *p = (char *)map_anonymous(3 * HUGE, MAP_PRIVATE);

	p = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
	madvise(p, HUGE, MADV_HUGEPAGE);
	memset(p, 1, HUGE);
	pages[on].len = HUGE;
	return (volatile long *)p;
}

static volatile long *map_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)PAGE))
		return NULL;
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	pages[on].len = PAGE;
	return p == MAP_FAILED ? NULL : p;
}

static volatile long *map_faulting(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	volatile long *p = map_anonymous(PAGE, MAP_PRIVATE);

	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	reg.range.start = (uintptr_t)p;
	reg.range.len = PAGE;
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &reg))
		return NULL;
	return p;
}

static void map(const char *kind, const char *path)
{
	pages[on].at = !strcmp(kind, "huge")   ? map_huge()
		       : !strcmp(kind, "file") ? map_file(path)
		       : !strcmp(kind, "fault")
			       ? map_faulting()
			       : map_anonymous(PAGE, strcmp(kind, "shared") ? MAP_PRIVATE : MAP_SHARED);
	tell_address();
}

static void move(void)
{
	void *p = mremap((void *)(uintptr_t)pages[on].at, pages[on].len, pages[on].len,
			 MREMAP_MAYMOVE | MREMAP_FIXED, map_anonymous(pages[on].len, MAP_PRIVATE));

	pages[on].at = p;
	tell_address();
}

static void fill(void)
{
	static char zeros[PAGE] __attribute__((aligned(4096)));
	struct uffdio_copy copy = { .dst = (uintptr_t)pages[on].at, .src = (uintptr_t)zeros, .len = PAGE };

	printf("ok %d\n", ioctl(faults, UFFDIO_COPY, &copy) ? errno : 0);
}

static void *touch_and_tell(void *unused)
{
	(void)unused;
	pages[on].at[0] = 1;
	met = true;
	return NULL;
}

static void wait_at_page(void)
{
	pthread_t t;

	met = false;
	pthread_create(&t, NULL, touch_and_tell, NULL);
	pthread_detach(t);
	answer("");
}

/* Everything that it does not know */

static int read_maps(struct mapping *to)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (fgets(line, sizeof(line), f) && n < MAPS)
		if (sscanf(line, "%lx-%lx", &to[n].start, &to[n].end) == 2)
			n++;
	fclose(f);
	return n;
}

static bool was_there(const struct mapping *m)
{
	int i;

	for (i = 0; i < nat_start; i++)
		if (m->start < at_start[i].end && at_start[i].start < m->end)
			return true;
	return false;
}

static void unmap_strangers(void)
{
	static struct mapping now[MAPS];
	int i, n = read_maps(now), gone = 0;

	for (i = 0; i < n; i++) {
		if (was_there(&now[i]) || now[i].start >> 47)
			continue;
		gone += !syscall(SYS_munmap, now[i].start, now[i].end - now[i].start);
	}
	printf("ok %d\n", gone);
}

/* Limits */

static void become_nobody(void)
{
	if (!geteuid() && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		_exit(1);
	prctl(PR_SET_DUMPABLE, 1);
}

static unsigned long in_use(const char *what)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	unsigned long kb = 0;

	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, what, strlen(what)))
			kb = strtoul(line + strlen(what), NULL, 10);
	fclose(f);
	return kb * 1024;
}

static void limit(const char *what)
{
	struct rlimit r;
	int failed = 0;

	if (!strcmp(what, "AS")) {
		r.rlim_cur = r.rlim_max = in_use("VmSize:") + 64 * PAGE;
		failed = setrlimit(RLIMIT_AS, &r);
	} else if (!strcmp(what, "MEMLOCK")) {
		r.rlim_cur = r.rlim_max = in_use("VmSize:") + 64 * PAGE;
		failed = setrlimit(RLIMIT_MEMLOCK, &r);
		become_nobody();
		failed |= mlockall(MCL_CURRENT | MCL_FUTURE);
	} else if (!strcmp(what, "NOFILE")) {
		r.rlim_cur = r.rlim_max = 64;
		failed = setrlimit(RLIMIT_NOFILE, &r);
		while (open("/dev/null", O_RDONLY) >= 0)
			;
	} else {
		r.rlim_cur = r.rlim_max = 0;
		failed = setrlimit(RLIMIT_SIGPENDING, &r);
		become_nobody();
	}
	printf("ok %d\n", failed ? errno : 0);
}

/* Obeying */

__attribute__((noinline)) static void write_to(volatile long *p, long n)
{
	long i;

	for (i = 1; i <= n; i++)
		*p = i;
}

__attribute__((noinline)) static long read_from(const volatile long *p, long n)
{
	long i, last = 0;

	for (i = 0; i < n; i++)
		last = *p;
	return last;
}

static bool change(const char *cmd)
{
	int r;

	if (!strcmp(cmd, "unmap"))
		r = munmap((void *)(uintptr_t)pages[on].at, pages[on].len);
	else if (!strcmp(cmd, "forget"))
		r = madvise((void *)(uintptr_t)pages[on].at, pages[on].len, MADV_DONTNEED);
	else if (!strcmp(cmd, "protect"))
		r = mprotect((void *)(uintptr_t)pages[on].at, pages[on].len, PROT_NONE);
	else if (!strcmp(cmd, "unprotect"))
		r = mprotect((void *)(uintptr_t)pages[on].at, pages[on].len, PROT_READ | PROT_WRITE);
	else if (!strcmp(cmd, "collapse"))
		r = madvise((void *)(uintptr_t)pages[on].at, pages[on].len, MADV_COLLAPSE);
	else if (!strcmp(cmd, "split"))
		r = mprotect((char *)(uintptr_t)pages[on].at + 16 * PAGE, PAGE, PROT_READ);
	else
		return false;
	printf("ok %d\n", r ? errno : 0);
	return true;
}

static void obey(const char *cmd, const char *first, const char *second)
{
	if (change(cmd))
		return;
	if (!strcmp(cmd, "on")) {
		on = atoi(first) & 3;
		answer("");
	} else if (!strcmp(cmd, "map")) {
		map(first, second);
	} else if (!strcmp(cmd, "move")) {
		move();
	} else if (!strcmp(cmd, "touch")) {
		write_to(pages[on].at, atol(first));
		answer("");
	} else if (!strcmp(cmd, "read")) {
		printf("ok %ld\n", read_from(pages[on].at, atol(first)));
	} else if (!strcmp(cmd, "fill")) {
		fill();
	} else if (!strcmp(cmd, "waits")) {
		wait_at_page();
	} else if (!strcmp(cmd, "met")) {
		answer(met ? "yes" : "no");
	} else if (!strcmp(cmd, "strangers")) {
		unmap_strangers();
	} else if (!strcmp(cmd, "limit")) {
		limit(first);
	} else {
		write_to(&word, atol(first));
		answer("");
	}
}

int main(void)
{
	char line[4096], cmd[32], first[32], second[4000];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	free(malloc(PAGE));
	nat_start = read_maps(at_start);
	nat_start = read_maps(at_start);
	while (fgets(line, sizeof(line), stdin)) {
		*cmd = *first = *second = '\0';
		sscanf(line, "%31s %31s %3999s", cmd, first, second);
		obey(cmd, first, second);
	}
	return 0;
}
