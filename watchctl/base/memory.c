/*
 * memory - see the header. ld(1), --wrap: our calls of malloc() come to __wrap_malloc(), and __real_malloc()
 * is the allocator's. Libraries' own calls are not seen.
 */
#include "watchctl/base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ran_out;

bool memory_ran_out(void)
{
	return __atomic_load_n(&ran_out, __ATOMIC_RELAXED);
}

static void *noted(void *p, bool wanted)
{
	if (!p && wanted)
		__atomic_store_n(&ran_out, true, __ATOMIC_RELAXED);
	return p;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names. */
void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_realloc(void *old, size_t len);
void *__real_reallocarray(void *old, size_t n, size_t len);
void *__real_aligned_alloc(size_t alignment, size_t len);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t len);
int __real_vasprintf(char **ret, const char *fmt, va_list ap);
int __real___vasprintf_chk(char **ret, int flag, const char *fmt, va_list ap);
FILE *__real_open_memstream(char **ret, size_t *len);

void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_realloc(void *old, size_t len);
void *__wrap_reallocarray(void *old, size_t n, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t len);
int __wrap_vasprintf(char **ret, const char *fmt, va_list ap);
int __wrap_asprintf(char **ret, const char *fmt, ...);
int __wrap___vasprintf_chk(char **ret, int flag, const char *fmt, va_list ap);
int __wrap___asprintf_chk(char **ret, int flag, const char *fmt, ...);
FILE *__wrap_open_memstream(char **ret, size_t *len);

void *__wrap_malloc(size_t len)
{
	return noted(__real_malloc(len), len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return noted(__real_calloc(n, len), n && len);
}

void *__wrap_realloc(void *old, size_t len)
{
	return noted(__real_realloc(old, len), len);
}

void *__wrap_reallocarray(void *old, size_t n, size_t len)
{
	return noted(__real_reallocarray(old, n, len), n && len);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
	return noted(__real_aligned_alloc(alignment, len), len);
}

char *__wrap_strdup(const char *s)
{
	return noted(__real_strdup(s), true);
}

char *__wrap_strndup(const char *s, size_t len)
{
	return noted(__real_strndup(s, len), true);
}

int __wrap_vasprintf(char **ret, const char *fmt, va_list ap)
{
	int n = __real_vasprintf(ret, fmt, ap);

	noted(n < 0 ? NULL : *ret, true);
	return n;
}

int __wrap_asprintf(char **ret, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = __wrap_vasprintf(ret, fmt, ap);
	va_end(ap);
	return n;
}

/* The same, of programs that are built with _FORTIFY_SOURCE. */
int __wrap___vasprintf_chk(char **ret, int flag, const char *fmt, va_list ap)
{
	int n = __real___vasprintf_chk(ret, flag, fmt, ap);

	noted(n < 0 ? NULL : *ret, true);
	return n;
}

int __wrap___asprintf_chk(char **ret, int flag, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = __wrap___vasprintf_chk(ret, flag, fmt, ap);
	va_end(ap);
	return n;
}

FILE *__wrap_open_memstream(char **ret, size_t *len)
{
	return noted(__real_open_memstream(ret, len), true);
}
/* NOLINTEND(bugprone-reserved-identifier) */
