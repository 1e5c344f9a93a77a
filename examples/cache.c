/*
 * cache - an example program for libstackwalk: who asks for what is not in the cache?
 *
 *	cc -g -O2 -o cache cache.c $(pkg-config --cflags --libs stackwalk)
 *
 *	./cache 10 &				runs for ten seconds
 *	watchctl -p $! --tags -o cache.log	collects from outside, for as long as it runs
 *	watchctl report cache.log --tag cache-miss
 *
 *	./cache 2 mine.log			collects by itself
 *
 * Prints how many misses it had: the number of stacks that were recorded under "cache-miss", plus those that
 * the report's summary calls lost.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stackwalk.h>

#define SLOTS 256
#define WORKERS 2

static struct {
	pthread_mutex_t lock;
	uint32_t key[SLOTS];
} cache = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned long misses;
static time_t deadline;

static void fill(uint32_t key)
{
	STACKWALK_TAG_VALUE("cache-miss", key);
	cache.key[key % SLOTS] = key;
	misses++;
}

/* Which slot @key is in. */
static uint32_t look_up(uint32_t key)
{
	pthread_mutex_lock(&cache.lock);
	if (cache.key[key % SLOTS] != key)
		fill(key);
	pthread_mutex_unlock(&cache.lock);
	return key % SLOTS;
}

/* Few keys: hits the cache, nearly always. */
static __attribute__((noinline)) uint32_t serve_front_page(uint32_t visitor)
{
	return look_up(1 + visitor % 16) + visitor;
}

/* Many keys: this is who fills the cache. */
static __attribute__((noinline)) uint32_t serve_search(uint32_t visitor)
{
	return look_up(1000 + visitor * 7919 % 5000) + visitor;
}

static void *serve(void *arg)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	uint32_t visitor, sum = 0;

	for (visitor = (uint32_t)(uintptr_t)arg; time(NULL) < deadline; visitor++) {
		sum += visitor % 4 ? serve_front_page(visitor) : serve_search(visitor);
		nanosleep(&pause, NULL);
	}
	STACKWALK_TAG_VALUE("worker-done", sum);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t worker[WORKERS];
	uintptr_t i;

	if (argc < 2 || argc > 3 || atoi(argv[1]) < 1) {
		fprintf(stderr, "usage: %s SECONDS [LOG]\n", argv[0]);
		return 2;
	}
	if (argc == 3 && stackwalk_log_open(argv[2], 0, 0) < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], stackwalk_log_error());
		return 1;
	}

	deadline = time(NULL) + atoi(argv[1]);
	for (i = 0; i < WORKERS; i++)
		if (pthread_create(&worker[i], NULL, serve, (void *)(i * 1000)))
			return 1;
	for (i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);

	if (argc == 3 && stackwalk_log_close() < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], stackwalk_log_error());
		return 1;
	}
	printf("%lu misses\n", misses);
	return 0;
}
