/*
 * Makes one call of a library function fail, in one program: preloaded, with FAIL_PLAN=file in the
 * environment, a file that says
 *
 *	sed read 3
 *
 * lets the third read() that the program sed itself makes return -1 and EIO, and file.report says where from:
 *
 *	failed read 3
 *	0x55d0c8a3b1e4		return addresses from that call's caller outwards, as glibc's backtrace()
 * finds them
 *	...
 *
 * Calls of the low-level libraries themselves are neither counted nor failed. With 0 nothing fails; when the
 * program ends, the report tells how often each was called: "count read 17". All is in the file, and nothing
 * in the environment, so that it is the same in every run. Other programs, started by it or starting it, are
 * left alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMES 128
#define RANGES 128

enum function {
	F_MALLOC,
	F_CALLOC,
	F_REALLOC,
	F_REALLOCARRAY,
	F_OPEN,
	F_OPEN64,
	F_READ,
	F_WRITE,
	F_CLOSE,
	F_FOPEN,
	F_FOPEN64,
	F_FCLOSE,
	F_FFLUSH,
	F_FWRITE,
	F_FREAD,
	F_SETLOCALE,
	F_OPENDIR,
	F_STRDUP,
	F_COUNT
};

static const char *const names[F_COUNT] = { "malloc",	 "calloc",  "realloc", "reallocarray", "open",
					    "open64",	 "read",    "write",   "close",	       "fopen",
					    "fopen64",	 "fclose",  "fflush",  "fwrite",       "fread",
					    "setlocale", "opendir", "strdup" };

static void *real[F_COUNT];
static atomic_long counts[F_COUNT];
static char report[4096];
static int wanted = -1;
static long nth;
static bool ready;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

/* Code of the libraries whose calls do not count. */
static struct {
	uintptr_t start, end;
} low[RANGES];
static size_t nlow;

static bool is_low(const char *path)
{
	static const char *const libraries[] = { "libc.so",  "ld-linux",    "libm.so",	 "libpthread",
						 "libdl.so", "librt.so",    "libgcc_s",	 "libstdc++",
						 "libc++",   "libcrypt.so", "libresolv", "fail_nth" };
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (strncmp(base, libraries[i], strlen(libraries[i])) == 0)
			return true;
	return false;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	(void)ctx;
	if (!is_low(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && nlow < RANGES; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			low[nlow].start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			low[nlow].end = low[nlow].start + info->dlpi_phdr[i].p_memsz;
			nlow++;
		}
	return 0;
}

static void put(int fd, const char *fmt, ...)
{
	char line[128];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	syscall(SYS_write, fd, line, (size_t)n);
}

static int open_report(void)
{
	return (int)syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The chain from @caller outwards. */
static void tell(int which, const void *caller)
{
	void *frame[FRAMES];
	int n = backtrace(frame, FRAMES), i = 0, fd = open_report();

	if (fd < 0)
		return;
	put(fd, "failed %s %ld\n", names[which], nth);
	while (i < n && frame[i] != caller)
		i++;
	for (; i < n; i++)
		put(fd, "%#lx\n", (unsigned long)(uintptr_t)frame[i]);
	syscall(SYS_close, fd);
}

/* Is it this call's turn? */
static bool fails(int which, const void *caller)
{
	static atomic_bool done;
	uintptr_t at = (uintptr_t)caller;
	long n;

	if (!ready)
		return false;
	for (size_t i = 0; i < nlow; i++)
		if (at >= low[i].start && at < low[i].end)
			return false;
	n = ++counts[which];
	if (which != wanted || n != nth || atomic_exchange(&done, true))
		return false;
	tell(which, caller);
	return true;
}

static bool read_plan(const char *path, char program[64], char call[64])
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	char line[256];
	long n;

	if (fd < 0)
		return false;
	n = syscall(SYS_read, fd, line, sizeof(line) - 1);
	syscall(SYS_close, fd);
	line[n > 0 ? n : 0] = '\0';
	return sscanf(line, "%63s %63s %ld", program, call, &nth) == 3;
}

__attribute__((constructor)) static void begin(void)
{
	const char *plan = getenv("FAIL_PLAN");
	char program[64], call[64];
	void *frame[2];

	if (!plan || !read_plan(plan, program, call) || strcmp(program, program_invocation_short_name) != 0)
		return;
	snprintf(report, sizeof(report), "%s.report", plan);
	backtrace(frame, 2); /* loads what it needs */
	dl_iterate_phdr(add_module, NULL);
	for (int i = 0; i < F_COUNT; i++)
		if (strcmp(names[i], call) == 0)
			wanted = i;
	unsetenv("LD_PRELOAD"); /* for this program only */
	ready = true;
}

__attribute__((destructor)) static void finish(void)
{
	int fd = ready && !nth ? open_report() : -1;

	for (int i = 0; fd >= 0 && i < F_COUNT; i++)
		put(fd, "count %s %ld\n", names[i], (long)counts[i]);
	if (fd >= 0)
		syscall(SYS_close, fd);
}

/* Constructors of libraries may come before ours. */
static void *real_of(int which)
{
	if (!real[which])
		real[which] = dlsym(RTLD_NEXT, names[which]);
	return real[which];
}

#define CALLER __builtin_return_address(0)

#define FAIL(which, number, value)          \
	do {                                \
		if (fails(which, CALLER)) { \
			errno = (number);   \
			return (value);     \
		}                           \
	} while (0)

void *malloc(size_t n)
{
	FAIL(F_MALLOC, ENOMEM, NULL);
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	FAIL(F_CALLOC, ENOMEM, NULL);
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	FAIL(F_REALLOC, ENOMEM, NULL);
	return __libc_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	FAIL(F_REALLOCARRAY, ENOMEM, NULL);
	return ((void *(*)(void *, size_t, size_t))real_of(F_REALLOCARRAY))(p, n, size);
}

static int open_as(void *real_open, const char *path, int flags, va_list ap)
{
	unsigned int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, unsigned int) : 0;

	return ((int (*)(const char *, int, ...))real_open)(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	FAIL(F_OPEN, EACCES, -1);
	va_start(ap, flags);
	fd = open_as(real_of(F_OPEN), path, flags, ap);
	va_end(ap);
	return fd;
}

int open64(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	FAIL(F_OPEN64, EACCES, -1);
	va_start(ap, flags);
	fd = open_as(real_of(F_OPEN64), path, flags, ap);
	va_end(ap);
	return fd;
}

ssize_t read(int fd, void *buf, size_t n)
{
	FAIL(F_READ, EIO, -1);
	return ((ssize_t(*)(int, void *, size_t))real_of(F_READ))(fd, buf, n);
}

ssize_t write(int fd, const void *buf, size_t n)
{
	FAIL(F_WRITE, ENOSPC, -1);
	return ((ssize_t(*)(int, const void *, size_t))real_of(F_WRITE))(fd, buf, n);
}

int close(int fd)
{
	FAIL(F_CLOSE, EIO, -1);
	return ((int (*)(int))real_of(F_CLOSE))(fd);
}

FILE *fopen(const char *path, const char *mode)
{
	FAIL(F_FOPEN, EACCES, NULL);
	return ((FILE * (*)(const char *, const char *)) real_of(F_FOPEN))(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	FAIL(F_FOPEN64, EACCES, NULL);
	return ((FILE * (*)(const char *, const char *)) real_of(F_FOPEN64))(path, mode);
}

int fclose(FILE *f)
{
	FAIL(F_FCLOSE, ENOSPC, EOF);
	return ((int (*)(FILE *))real_of(F_FCLOSE))(f);
}

int fflush(FILE *f)
{
	FAIL(F_FFLUSH, ENOSPC, EOF);
	return ((int (*)(FILE *))real_of(F_FFLUSH))(f);
}

size_t fwrite(const void *p, size_t size, size_t n, FILE *f)
{
	FAIL(F_FWRITE, ENOSPC, 0);
	return ((size_t(*)(const void *, size_t, size_t, FILE *))real_of(F_FWRITE))(p, size, n, f);
}

size_t fread(void *p, size_t size, size_t n, FILE *f)
{
	FAIL(F_FREAD, EIO, 0);
	return ((size_t(*)(void *, size_t, size_t, FILE *))real_of(F_FREAD))(p, size, n, f);
}

char *setlocale(int category, const char *locale)
{
	FAIL(F_SETLOCALE, 0, NULL);
	return ((char *(*)(int, const char *))real_of(F_SETLOCALE))(category, locale);
}

void *opendir(const char *path)
{
	FAIL(F_OPENDIR, EACCES, NULL);
	return ((void *(*)(const char *))real_of(F_OPENDIR))(path);
}

char *strdup(const char *s)
{
	FAIL(F_STRDUP, ENOMEM, NULL);
	return ((char *(*)(const char *))real_of(F_STRDUP))(s);
}
