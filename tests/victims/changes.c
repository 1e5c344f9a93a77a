/* build: gcc -O0 -g -pthread */
/*
 * Functions that return nothing, and change memory: variables, what parameters point to, memory that is given back.
 * $FAULT says which of them does something else. Nothing that is changed shows in a parameter or a result of another
 * call.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pair {
	int first, second;
	char name[8];
};

static const char *const faults[] = { "none", "table",	"static", "total",  "ratio", "member",
				      "name", "number", "text",	  "thread", "spawn" };
enum { NONE, TABLE, STATIC, TOTAL, RATIO, MEMBER, NAME, NUMBER, TEXT, THREAD, SPAWN, FAULTS };

static int fault;
static int table[6];
static long total;
static double ratio;
static void *somewhere;
static struct stat seen;
static int shown;

__attribute__((noinline)) void fill_table(int n)
{
	for (int i = 0; i < 6; i++)
		table[i] = i * n + (i == 3 && (fault == TABLE));
}

__attribute__((noinline)) void add_up(void)
{
	static int calls;

	calls += 1 + (fault == STATIC);
	total += 40 + 2 * (fault == TOTAL);
	ratio = (fault == RATIO) ? 0.25 : 0.5;
}

/* Calls the one that does it: that is the one to be named. */
__attribute__((noinline)) void outer(void)
{
	add_up();
}

__attribute__((noinline)) void set_pair(struct pair *p)
{
	p->second = 7 + (fault == MEMBER);
	memcpy(p->name, "good", 5);
	p->name[3] = (char)('d' + (fault == NAME));
}

__attribute__((noinline)) void in_and_out(int *n)
{
	*n += 1 + (fault == NUMBER);
}

__attribute__((noinline)) void append(char *text)
{
	text[2] = 'c';
	text[3] = (char)('e' - (fault == TEXT));
	text[4] = '\0';
}

/* Memory that was given back is the allocator's, and random. */
__attribute__((noinline)) void give_back(struct pair *p)
{
	p->first = 3;
	free(p);
}

/* The allocator writes where an empty text was. */
__attribute__((noinline)) void give_back_empty(char *text)
{
	free(text);
}

__attribute__((noinline)) void close_file(FILE *f)
{
	fclose(f);
}

/* Times and numbers of files are others in any two runs. */
__attribute__((noinline)) void look(const char *path)
{
	if (stat(path, &seen))
		abort();
}

/* Behind the @len bytes lies what differs in any two runs. */
__attribute__((noinline)) void show(const char *text, int len)
{
	shown = text[len - 1];
}

__attribute__((noinline)) void look_around(void)
{
	char text[32];

	look("/proc/self/stat");
	give_back_empty(calloc(1, 24));
	close_file(fopen("/dev/null", "r"));
	snprintf(text, sizeof(text), "same%08d", (int)getpid());
	show(text, 4);
}

/* Where it lies differs in every run. */
__attribute__((noinline)) void remember(void)
{
	somewhere = malloc(64);
}

static void *wait_for_end(void *arg)
{
	pause();
	return arg;
}

__attribute__((noinline)) void watched(void)
{
	struct pair on_stack, *in_heap = malloc(sizeof(*in_heap));
	char text[32] = "ab";
	int n = 5;

	pthread_t thread;

	if (fault == THREAD && pthread_create(&thread, NULL, wait_for_end, NULL))
		abort();
	if (fault == SPAWN && system("true"))
		abort();
	memset(&on_stack, 0, sizeof(on_stack));
	memset(in_heap, 0, sizeof(*in_heap));
	fill_table(2);
	outer();
	set_pair(&on_stack);
	in_and_out(&n);
	append(text);
	give_back(in_heap);
	remember();
	look_around();
}

int main(void)
{
	const char *name = getenv("FAULT");

	for (int i = 0; name && i < FAULTS; i++)
		if (!strcmp(name, faults[i]))
			fault = i;
	watched();
	return 0;
}
