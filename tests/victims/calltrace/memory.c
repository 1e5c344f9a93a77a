/*
 * memory - functions that say what their pointers point to: "memory FUNCTION NAME STATE BYTES", a call's in one line each:
 * BYTES in hex; STATE ok, cut: there is more or it cannot be read, unreadable, or null. In C and in C++.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define APART __attribute__((noinline))
#define PAGE 4096
#define STRING_MAX 1024
#define THREADS 2
#define CALLS 300

struct node {
	int32_t v[3];
	struct node *next;
};

static char *said[THREADS + 1]; /* by each thread */
static __thread FILE *out;
static volatile int zero; /* a value that the compiler does not know */
static volatile int errors;
static volatile intptr_t sum; /* results are wanted */
static char *pages;	      /* two of them; the one behind them is not there */
static char *end;

static void say(const char *function, const char *name, const char *state, const void *bytes, size_t n)
{
	size_t i;

	fprintf(out, "memory %s %s %s ", function, name, state);
	for (i = 0; i < n; i++)
		fprintf(out, "%02x", ((const unsigned char *)bytes)[i]);
	fprintf(out, "\n");
}

/* How many bytes of @n at @p are there. */
static size_t readable(const void *p, size_t n)
{
	const char *at = (const char *)p;

	if ((uintptr_t)at < PAGE || at == end)
		return 0;
	return at >= pages && at < end && (size_t)(end - at) < n ? (size_t)(end - at) : n;
}

static void say_bytes(const char *function, const char *name, const void *p, size_t wanted)
{
	const size_t n = readable(p, wanted);

	say(function, name, !p ? "null" : !n ? "unreadable" : n < wanted ? "cut" : "ok", p, n);
}

static void say_string(const char *function, const char *name, const char *s)
{
	const size_t n = readable(s, STRING_MAX), len = n ? strnlen(s, n) : 0;

	say(function, name, !s ? "null" : !n ? "unreadable" : len == n ? "cut" : "ok", s, len);
}

APART static int string(const char *text, int n)
{
	errors += errno != 77;
	say_string("string", "text", text);
	errno = 77;
	return n + zero;
}

APART static int characters(char *c)
{
	say_string("characters", "c", c);
	return zero;
}

/* Recorded is what is there as the function begins, and not as it becomes. */
APART static int buffer(char *buf, void *raw, int n)
{
	say_bytes("buffer", "buf", buf, 64);
	say_bytes("buffer", "raw", raw, 20);
	if (buf && readable(buf, 64))
		memset(buf, 'x', readable(buf, 64));
	errno = 77;
	return n + zero;
}

APART static int typed(struct node *p, const int32_t *numbers, double *d, uint8_t *more)
{
	say_bytes("typed", "p", p, sizeof(*p));
	say_bytes("typed", "numbers", numbers, 16);
	say_bytes("typed", "d", d, sizeof(*d));
	say_bytes("typed", "more", more, 1000);
	return zero;
}

/* The result is what is there as the function ends. */
APART static char *result(char *text, int n)
{
	text[0] = (char)('A' + n);
	say_string("result", "return", text + n);
	return text + n + zero;
}

/* A call whose result is wanted, in the place of which would be a jump. */
APART static char *jumps(char *text, int n)
{
	say_string("jumps", "return", text + n + 1);
	text[0] = (char)('A' + n + 1);
	return result(text, n + 1);
}

APART static char *no_result(int n)
{
	say_bytes("no_result", "return", n ? (char *)(intptr_t)n : NULL, 1);
	return n ? (char *)(intptr_t)(n + zero) : NULL;
}

/* Arguments of all kinds, which are to survive. */
APART static double many(int a, double b, const char *c, float d, long e, const char *f, int g, long h,
			 long i, const char *j, double k)
{
	say_string("many", "c", c);
	say_string("many", "f", f);
	say_string("many", "j", j);
	errors += a != 1 || b != 2 || d != 4 || e != 5 || g != 7 || h != 8 || i != 9 || k != 11;
	return b * 2;
}

APART static void on_signal(int n)
{
	char text[] = "in a handler 0";

	text[13] = (char)('0' + n % 10);
	errno = 77;
	string(text, n);
}

static void strings(void)
{
	static char longest[2000];
	int i;

	errno = 77;
	string("hello", 1);
	string("", 2);
	string(NULL, 3);
	string((const char *)8, 4);
	string(end, 5);
	memset(pages, 'p', 2 * PAGE);
	string(end - 10, 6);
	end[-1] = '\0';
	string(end - 10, 7);
	string(end - 1, 8);
	string(pages + PAGE - 5, 9);
	for (i = 1022; i < 1028; i++) {
		memset(longest, 'l', sizeof(longest));
		longest[i] = '\0';
		string(longest, i);
	}
	characters(longest);
	characters(NULL);
}

static void buffers(void)
{
	static char text[128] = "GET / HTTP/1.0\r\n";
	static uint8_t raw[128];
	struct node n = { { 1, -2, 3 }, NULL };
	int32_t numbers[4] = { 4, -5, 6, 7 };
	double d = 2.5;
	int i;

	for (i = 0; i < 128; i++)
		raw[i] = (uint8_t)(255 - i);
	buffer(text, raw, 0);
	buffer(text, raw + 1, 1);
	buffer(NULL, NULL, 2);
	buffer((char *)16, (void *)4095, 3);
	memset(pages, 7, 2 * PAGE);
	buffer(end - 10, end - 20, 4);
	buffer(end - 64, end - 19, 5);
	buffer(pages + PAGE - 30, end, 6);
	typed(&n, numbers, &d, (uint8_t *)pages + 3000);
	typed(&n, (int32_t *)(void *)(end - 8), &d, (uint8_t *)pages + PAGE - 1000);
}

static void results(void)
{
	char text[64] = "abcdefghijkl";
	int i;

	for (i = 0; i < 3; i++)
		sum += (intptr_t)result(text, i);
	sum += (intptr_t)jumps(text, 1);
	sum += (intptr_t)no_result(0);
	sum += (intptr_t)no_result(24);
	errors += many(1 + zero, 2, &"third"[zero], 4, 5, &"sixth"[zero], 7, 8, 9, &"tenth"[zero], 11) != 4;
}

static FILE *own_out(int i)
{
	static size_t size[THREADS + 1];

	return open_memstream(&said[i], &size[i]);
}

static void *thread(void *number)
{
	const int n = (int)(intptr_t)number;
	char text[64];
	int i;

	out = own_out(n);
	for (i = 0; i < CALLS; i++) {
		snprintf(text, sizeof(text), "%d of thread %d", i, n);
		errno = 77;
		string(text, i);
	}
	fclose(out);
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];
	int i;

	pages = (char *)mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	end = pages + 2 * PAGE;
	munmap(end, PAGE);
	out = own_out(0);
	strings();
	buffers();
	results();
	signal(SIGUSR1, on_signal);
	for (i = 0; i < 3; i++)
		raise(SIGUSR1);
	fclose(out);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, thread, (void *)(intptr_t)(i + 1));
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i <= THREADS; i++)
		fputs(said[i], stdout);
	return errors ? 1 : 0;
}
