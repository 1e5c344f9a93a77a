/*
 * chaos_births - threads, children and mappings that come and go.
 */
#include "tests/chaos/chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE 4
#define STACK (128 << 10)
#define LENGTH (64 << 10)

/* The threads' stacks are given, so that glibc does not map and unmap any. */
static uint8_t __attribute__((aligned(4096))) stacks[2][AT_ONCE][STACK];

struct newborn {
	pthread_t thread;
	unsigned int variable, reads;
	uint64_t sum;
};

static void *live_for_a_moment(void *arg)
{
	struct newborn *b = arg;
	unsigned int i;

	for (i = 0; i < b->reads; i++)
		b->sum += variable_number(b->variable)->value != UINT64_MAX;
	return b;
}

void make_threads(unsigned int number)
{
	uint64_t random = number + 77;
	struct newborn b[AT_ONCE];
	pthread_attr_t attr;
	unsigned int i;
	void *ret;

	while (turn()) {
		for (i = 0; i < AT_ONCE; i++) {
			b[i] = (struct newborn){ .variable =
							 (unsigned int)next_random(&random) % CHAOS_VARIABLES,
						 .reads = (unsigned int)next_random(&random) % 3 };
			pthread_attr_init(&attr);
			pthread_attr_setstack(&attr, stacks[number][i], STACK);
			if (pthread_create(&b[i].thread, &attr, live_for_a_moment, &b[i]))
				fail("pthread_create()");
			pthread_attr_destroy(&attr);
		}
		for (i = 0; i < AT_ONCE; i++) {
			if (pthread_join(b[i].thread, &ret) || ret != &b[i] || b[i].sum != b[i].reads)
				fail("a thread did not do what it was made for");
			self->variable[b[i].variable].reads += b[i].reads;
			__atomic_fetch_add(&shared->born, 1, __ATOMIC_RELAXED);
		}
		if (usleep(5000 + (unsigned int)next_random(&random) % 10000))
			fail("usleep() was interrupted");
	}
}

/* In a child: its own copy of a variable is written, which nobody watches. */
static void child_checks(int code)
{
	chaos_alpha.value = 1;
	chaos_alpha.value = 2;
	_exit(chaos_alpha.value == 2 ? code : 99);
}

int child_main(int code)
{
	return code;
}

static pid_t spawn(int code)
{
	char text[16], *const argv[] = { "chaos", "child", text, NULL }, *const envp[] = { NULL };
	pid_t pid;

	snprintf(text, sizeof(text), "%d", code);
	return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, envp) ? -1 : pid;
}

void make_children(unsigned int how)
{
	uint64_t random = how + 177;
	int code, status;
	pid_t pid;

	while (turn()) {
		code = (int)next_random(&random) % 90;
		pid = how ? spawn(code) : fork();
		if (pid == 0)
			child_checks(code);
		if (pid < 0)
			fail("a child could not be made");
		if (waitpid(pid, &status, 0) != pid)
			fail("waitpid()");
		if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
			fail("a child (%s) ended with status %#x instead of exit code %d",
			     how ? "spawned" : "forked", (unsigned int)status, code);
		__atomic_fetch_add(&shared->children, 1, __ATOMIC_RELAXED);
		if (usleep(10000 + (unsigned int)next_random(&random) % 30000))
			fail("usleep() was interrupted");
	}
}

static void check_mapping(uint64_t *random)
{
	uint8_t fill = (uint8_t)next_random(random), *p, *q;
	size_t i;

	p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		fail("mmap()");
	memset(p, fill, LENGTH);
	if (mprotect(p, LENGTH, PROT_READ))
		fail("mprotect()");
	q = mremap(p, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE);
	if (q == MAP_FAILED)
		fail("mremap()");
	for (i = 0; i < LENGTH; i++)
		if (q[i] != fill)
			fail("a byte of a mapping has changed");
	if (munmap(q, 2 * LENGTH))
		fail("munmap()");
	__atomic_fetch_add(&shared->mappings, 1, __ATOMIC_RELAXED);
}

void make_mappings(unsigned int unused)
{
	uint64_t random = 277;

	while (turn()) {
		check_mapping(&random);
		if (usleep(3000 + (unsigned int)next_random(&random) % 7000))
			fail("usleep() was interrupted");
	}
}
