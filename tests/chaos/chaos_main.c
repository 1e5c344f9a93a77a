/*
 * chaos - a program with many threads, all of which do something and check that it is done as if nobody were
 * looking. Reported what to do, and asked, through a page that it shares with the driver: chaos.h.
 *
 *	chaos PAGE default|own|ignored SEED	the last but one: what SIGTRAP does; prints "pid N" once it runs
 *	chaos child CODE			exits with CODE
 *
 * Ends with 0 when it is told that it is over, with 13 as soon as something is not as it should be: what it
 * was is then in the page and on standard error. Nothing is allocated once it runs, so that its mappings stay
 * what they are.
 */
#include "tests/chaos/chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FAILED 13
#define WRITERS CHAOS_VARIABLES
#define READERS 2

struct chaos_variable __attribute__((aligned(64))) chaos_alpha, chaos_beta, chaos_gamma, chaos_delta,
	chaos_quiet;
struct chaos_shared *shared;
enum chaos_traps chaos_own_traps;
__thread struct chaos_thread *self;
static __thread unsigned int self_number;
static uint64_t seed;

/* The first thread that fails shows: others may stumble over what it found. */
void fail(const char *fmt, ...)
{
	static uint32_t first;
	char text[CHAOS_FAILURE - 64];
	int error = errno, n;
	va_list ap;

	if (__atomic_exchange_n(&first, 1, __ATOMIC_SEQ_CST))
		for (;;)
			pause();
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = snprintf(shared->failure, sizeof(shared->failure), "thread %s (%ld): %s (errno %d)",
		     self ? self->name : "?", syscall(SYS_gettid), text, error);
	__atomic_store_n(&shared->failed, 1, __ATOMIC_SEQ_CST);
	if (write(2, shared->failure, (size_t)n) < 0 || write(2, "\n", 1) < 0)
		_exit(FAILED);
	_exit(FAILED);
}

void checked(void)
{
	__atomic_fetch_add(&shared->checks, 1, __ATOMIC_RELAXED);
}

uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct chaos_variable *variable_number(unsigned int i)
{
	struct chaos_variable *const all[CHAOS_VARIABLES] = { &chaos_alpha, &chaos_beta, &chaos_gamma,
							      &chaos_delta };

	return all[i % CHAOS_VARIABLES];
}

bool stopped_since(uint32_t before)
{
	uint32_t now = __atomic_load_n(&shared->stops, __ATOMIC_SEQ_CST);

	return now != before || now % 2;
}

static bool must_rest(void)
{
	return !__atomic_load_n(&shared->over, __ATOMIC_SEQ_CST) &&
	       ((self->obeys & REST_HOLD && __atomic_load_n(&shared->hold, __ATOMIC_SEQ_CST)) ||
		(self->obeys & REST_QUIET && __atomic_load_n(&shared->quiet, __ATOMIC_SEQ_CST)));
}

/* Looks again once it is not resting any more: who has said meanwhile that it shall saw that it does. */
static void rest(void)
{
	const struct timespec a_moment = { 0, 500000 };

	while (must_rest()) {
		__atomic_store_n(&self->resting, 1, __ATOMIC_SEQ_CST);
		while (must_rest()) {
			__atomic_fetch_add(&self->beats, 1, __ATOMIC_RELAXED);
			if (syscall(SYS_nanosleep, &a_moment, NULL))
				fail("nanosleep() while resting");
		}
		__atomic_store_n(&self->resting, 0, __ATOMIC_SEQ_CST);
	}
}

bool turn(void)
{
	uint64_t by_gs;

	__atomic_fetch_add(&self->beats, 1, __ATOMIC_RELAXED);
	__asm__ volatile("movq %%gs:0, %0" : "=r"(by_gs));
	if (by_gs != *(const uint64_t *)(const void *)self->name)
		fail("gs does not lead to where it did");
	signals_thread_check();
	rest();
	checked();
	return !__atomic_load_n(&shared->over, __ATOMIC_SEQ_CST);
}

struct job {
	const char *name;
	void (*run)(unsigned int);
	unsigned int argument, obeys;
	pthread_t thread;
};

static struct job jobs[CHAOS_THREADS];
static unsigned int number_of_jobs;

static void add(const char *name, void (*run)(unsigned int), unsigned int argument, unsigned int obeys)
{
	jobs[number_of_jobs++] = (struct job){ name, run, argument, obeys, 0 };
}

static void *run_job(void *arg)
{
	const struct job *j = arg;

	self_number = (unsigned int)(j - jobs);
	self = &shared->thread[self_number];
	snprintf(self->name, sizeof(self->name), "%s", j->name);
	pthread_setname_np(pthread_self(), self->name);
	self->obeys = j->obeys;
	syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, self->name);
	signals_thread_init(self_number);
	j->run(j->argument);
	return NULL;
}

static void choose_jobs(void)
{
	static const char *const writer[WRITERS] = { "alpha", "beta", "gamma", "delta" };
	unsigned int i;

	for (i = 0; i < WRITERS; i++)
		add(writer[i], write_and_check, i, REST_HOLD);
	for (i = 0; i < READERS; i++)
		add("reader", read_and_check, i, REST_HOLD);
	for (i = 0; i < calls_number(); i++)
		add(call_name(i), sleep_and_check, i, 0);
	add("feeder", feed_stream, 0, 0);
	add("stream", read_stream, 0, 0);
	add("receiver", receive_signals, 0, 0);
	add("queuer", queue_signals, 0, 0);
	add("trapper", trap_and_check, 0, 0);
	add("births", make_threads, 0, REST_HOLD | REST_QUIET);
	add("births", make_threads, 1, REST_HOLD | REST_QUIET);
	add("forks", make_children, 0, REST_QUIET);
	add("spawns", make_children, 1, REST_QUIET);
	add("mappings", make_mappings, 0, REST_QUIET);
	add("process", look_at_process, 0, 0);
}

static bool map_page(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || ftruncate(fd, sizeof(*shared)))
		return false;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared != MAP_FAILED;
}

int main(int argc, char **argv)
{
	unsigned int i;

	if (argc == 3 && !strcmp(argv[1], "child"))
		return child_main(atoi(argv[2]));
	if (argc != 4 || !map_page(argv[1])) {
		fprintf(stderr, "usage: chaos PAGE default|own|ignored SEED\n");
		return 2;
	}
	chaos_own_traps = *argv[2] == 'o' ? TRAPS_OWN : *argv[2] == 'i' ? TRAPS_IGNORED : TRAPS_DEFAULT;
	seed = strtoull(argv[3], NULL, 10);
	mallopt(M_ARENA_MAX, 1);
	calls_init();
	signals_init();
	choose_jobs();
	shared->threads = number_of_jobs;
	process_init();
	for (i = 0; i < number_of_jobs; i++)
		if (pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]))
			fail("pthread_create()");
	__atomic_store_n(&shared->magic, CHAOS_MAGIC, __ATOMIC_SEQ_CST);
	printf("pid %d\n", getpid());
	fflush(stdout);
	for (i = 0; i < number_of_jobs; i++)
		pthread_join(jobs[i].thread, NULL);
	return 0;
}
