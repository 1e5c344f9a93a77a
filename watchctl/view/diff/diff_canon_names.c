/* Functions of libraries that are known by what they return. */
#include <string.h>

#include "watchctl/view/diff/diff_canon.h"

static const char *const noise[] = {
	"sysconf",
	"get_avphys_pages",
	"getloadavg",
	"arc4random",
	"arc4random_uniform",
	"clock",
	"ctime",
	"ctime_r",
	"difftime",
	"gmtime",
	"gmtime_r",
	"localtime",
	"localtime_r",
	"mktime",
	"pthread_self",
	"strftime",
	"time",
	"timegm",
	"times",
};

static const char *const seeded[] = {
	"initstate", "initstate_r", "seed48",  "seed48_r",  "srand",
	"srand48",   "srand48_r",   "srandom", "srandom_r",
};

/*
 * Hash tables whose seeds come from addresses or times ask these more or less often, and get other answers:
 * what they compare is not recorded, so nothing is lost.
 */
static const char *const memory[] = { "bcmp", "memchr", "memcmp", "memmem", "memrchr", "rawmemchr" };

static const char *const pids[] = {
	"clone",  "fork",      "getpgid", "getpgrp", "getpid", "getppid", "getsid",  "gettid",
	"setsid", "tcgetpgrp", "vfork",	  "wait",    "wait3",  "wait4",	  "waitpid",
};

static const char *const inputs[] = {
	"__isoc99_fscanf",
	"__isoc99_scanf",
	"access",
	"accept",
	"accept4",
	"clock",
	"clock_gettime",
	"connect",
	"fgetc",
	"fgets",
	"fopen",
	"fopen64",
	"fread",
	"fscanf",
	"fstat",
	"fstat64",
	"getaddrinfo",
	"getc",
	"getchar",
	"getcwd",
	"getdelim",
	"getenv",
	"gethostname",
	"getline",
	"getpid",
	"getrandom",
	"gettimeofday",
	"getuid",
	"isatty",
	"localtime",
	"lseek",
	"lseek64",
	"lstat",
	"lstat64",
	"mmap",
	"mmap64",
	"open",
	"open64",
	"openat",
	"opendir",
	"poll",
	"pread",
	"pread64",
	"read",
	"readdir",
	"readdir64",
	"readlink",
	"readv",
	"realpath",
	"recv",
	"recvfrom",
	"recvmsg",
	"scanf",
	"secure_getenv",
	"select",
	"stat",
	"stat64",
	"sysconf",
	"time",
	"times",
	"uname",
	"waitpid",
};

static const char *const allocators[] = {
	"__libc_calloc", "__libc_malloc", "aligned_alloc",  "asprintf",	      "calloc",	 "fdopen",
	"fopen",	 "fopen64",	  "malloc",	    "memalign",	      "mmap",	 "mmap64",
	"opendir",	 "operator new",  "operator new[]", "posix_memalign", "realloc", "reallocarray",
	"strdup",	 "strndup",	  "valloc",	    "wcsdup",
};

static const char *const fills_noise[] = {
	"__fxstat",    "__fxstat64", "__fxstatat",   "__fxstatat64",   "__lxstat",	"__lxstat64",
	"__xstat",     "__xstat64",  "adjtimex",     "arc4random_buf", "clock_gettime", "fstat",
	"fstat64",     "fstatat",    "fstatat64",    "fstatfs",	       "fstatfs64",	"fstatvfs",
	"fstatvfs64",  "getentropy", "getrandom",    "getrusage",      "gettimeofday",	"gmtime_r",
	"localtime_r", "lstat",	     "lstat64",	     "nanosleep",      "stat",		"stat64",
	"statfs",      "statfs64",   "statvfs",	     "statvfs64",      "statx",		"sysinfo",
	"time",	       "times",	     "timespec_get", "wait3",	       "wait4",
};

static const char *const creators[] = {
	"clone", "clone3", "pthread_create", "std::thread::_M_start_thread", "thrd_create",
};

/* Names of C++ end where their parameters begin. */
static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	size_t len = name ? strcspn(name, "(@") : 0, i;

	for (i = 0; name && i < n; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return true;
	return false;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

unsigned int diff_canon_flags(const char *name, bool over)
{
	return (over ? CANON_OVER : 0) | (is_one_of(name, noise, COUNT(noise)) ? CANON_RESULT_NOISE : 0) |
	       (over && is_one_of(name, memory, COUNT(memory)) ? CANON_MEMORY : 0) |
	       (over && is_one_of(name, fills_noise, COUNT(fills_noise)) ? CANON_FILLS_NOISE : 0) |
	       (is_one_of(name, seeded, COUNT(seeded)) ? CANON_PARAMS_NOISE : 0) |
	       (is_one_of(name, pids, COUNT(pids)) ? CANON_RESULT_PID : 0);
}

bool diff_canon_is_input(const char *name)
{
	return is_one_of(name, inputs, COUNT(inputs));
}

bool diff_canon_allocates(const char *name)
{
	return is_one_of(name, allocators, COUNT(allocators));
}

bool diff_canon_creates(const char *name)
{
	return is_one_of(name, creators, COUNT(creators));
}
