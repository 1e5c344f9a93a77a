/*
 * chaos_process - what belongs to the process as a whole stays: descriptors, code, limits, timers,
 * dispositions.
 */
#include "tests/chaos/chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define FILES 64
#define CODES 16

struct linux_dirent64 {
	uint64_t ino, off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

struct open_file {
	int fd, flags;
	dev_t dev;
	ino_t ino;
};

struct code {
	const uint64_t *start;
	size_t words;
	uint64_t sum;
};

/* Of limits those whose values a watcher could want to change. */
static const int limits[] = { RLIMIT_NOFILE, RLIMIT_AS,		RLIMIT_STACK,
			      RLIMIT_CORE,   RLIMIT_SIGPENDING, RLIMIT_MEMLOCK };
#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static struct open_file files[FILES];
static unsigned int number_of_files, number_of_codes;
static struct code codes[CODES];
static struct rlimit first_limits[LIMITS];
static char first_directory[512];
static int proc_fd;
static int first_dumpable, first_no_new_privileges, first_nice;

/* All but the descriptor that lists them. */
static unsigned int list_files(struct open_file *ret)
{
	static char buf[8192];
	unsigned int n = 0;
	struct stat st;
	long got, at;
	int fd;

	lseek(proc_fd, 0, SEEK_SET);
	while ((got = syscall(SYS_getdents64, proc_fd, buf, sizeof(buf))) > 0) {
		for (at = 0; at < got; at += ((struct linux_dirent64 *)(void *)(buf + at))->reclen) {
			const struct linux_dirent64 *d = (const void *)(buf + at);

			fd = atoi(d->name);
			if (d->name[0] == '.' || fd == proc_fd || n == FILES)
				continue;
			if (fstat(fd, &st))
				fail("descriptor %d is listed, but not there", fd);
			ret[n++] = (struct open_file){ fd, fcntl(fd, F_GETFL), st.st_dev, st.st_ino };
		}
	}
	return n;
}

static void check_files(void)
{
	struct open_file now[FILES];
	unsigned int n = list_files(now), i;

	if (n != number_of_files)
		fail("%u descriptors are open instead of %u", n, number_of_files);
	for (i = 0; i < n; i++)
		if (now[i].fd != files[i].fd || now[i].dev != files[i].dev || now[i].ino != files[i].ino ||
		    now[i].flags != files[i].flags)
			fail("descriptor %d is another one than before", now[i].fd);
}

static uint64_t sum_of(const struct code *c)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < c->words; i++)
		sum = (sum << 1 | sum >> 63) ^ c->start[i];
	return sum;
}

static int add_code(struct dl_phdr_info *info, size_t size, void *unused)
{
	int i;

	(void)size;
	(void)unused;
	for (i = 0; i < info->dlpi_phnum && number_of_codes < CODES; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
			codes[number_of_codes] = (struct code){ (const void *)(info->dlpi_addr + p->p_vaddr),
								p->p_filesz / 8, 0 };
			codes[number_of_codes].sum = sum_of(&codes[number_of_codes]);
			number_of_codes++;
		}
	}
	return 0;
}

/* Changed code is not called so while the driver says that somebody may have put breakpoints there. */
static void check_code(void)
{
	uint32_t before = __atomic_load_n(&shared->code_changes, __ATOMIC_SEQ_CST);
	unsigned int i;

	for (i = 0; i < number_of_codes && !before; i++)
		if (sum_of(&codes[i]) != codes[i].sum &&
		    !__atomic_load_n(&shared->code_changes, __ATOMIC_SEQ_CST))
			fail("code at %p was changed", (const void *)codes[i].start);
}

static void check_timers(void)
{
	struct itimerval real;

	if (getitimer(ITIMER_REAL, &real) || real.it_interval.tv_sec != 86400 ||
	    real.it_value.tv_sec > 86400 || real.it_value.tv_sec < 40000)
		fail("the interval timer stands at %ld, every %ld s", real.it_value.tv_sec,
		     real.it_interval.tv_sec);
}

static void check_attributes(void)
{
	char directory[sizeof(first_directory)];
	struct rlimit l;
	unsigned int i;

	for (i = 0; i < LIMITS; i++)
		if (getrlimit((__rlimit_resource_t)limits[i], &l) || memcmp(&l, &first_limits[i], sizeof(l)))
			fail("resource limit %d has changed", limits[i]);
	if (!getcwd(directory, sizeof(directory)) || strcmp(directory, first_directory))
		fail("the working directory has changed");
	if (prctl(PR_GET_DUMPABLE) != first_dumpable ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != first_no_new_privileges)
		fail("dumpable or no_new_privs has changed");
	errno = 0;
	if (getpriority(PRIO_PROCESS, 0) != first_nice)
		fail("the priority has changed");
}

void process_init(void)
{
	struct itimerval day = { { 86400, 0 }, { 86400, 0 } };
	unsigned int i;

	setitimer(ITIMER_REAL, &day, NULL);
	proc_fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	number_of_files = list_files(files);
	for (i = 0; i < LIMITS; i++)
		getrlimit((__rlimit_resource_t)limits[i], &first_limits[i]);
	first_dumpable = prctl(PR_GET_DUMPABLE);
	first_no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	first_nice = getpriority(PRIO_PROCESS, 0);
	if (proc_fd < 0 || !getcwd(first_directory, sizeof(first_directory)))
		fail("/proc/self/fd");
	dl_iterate_phdr(add_code, NULL);
}

void look_at_process(unsigned int unused)
{
	unsigned int n;

	for (n = 0; turn(); n++) {
		if (!shared->over)
			check_files();
		signals_process_check();
		check_timers();
		check_attributes();
		if (n % 8 == 0)
			check_code();
		if (usleep(20000))
			fail("usleep() was interrupted");
	}
}
