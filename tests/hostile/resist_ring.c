/* build: gcc -O1 -g -pthread -I. */
/*
 * A compromised program: it finds the memory that it shares with its watcher, and writes there all the time,
 * by the way it is told:
 *
 *	noise	anything, anywhere in the ring
 *	forge	records as a handler would write them, with contents of its choice: any watch, thread, process,
 *		address, stack, flags
 *	pad	nothing but ends of the ring
 *	drop	nothing but records that count for nothing
 *	stuck	a record that is never whole
 *	lie	into the block that controls it: counters, magic, keys, who the owner is, sizes
 *
 * usage: resist_ring HOW; prints "pid N", and "found" once it has begun. It ends with its standard input.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handler/wire.h"

#define THREADS 2

volatile unsigned int flag;
static struct wire_control *control;
static const char *how;
static volatile bool over;
static struct wire_control kept;

static __thread unsigned long seed;

static unsigned long random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint8_t *ring(void)
{
	return (uint8_t *)control + kept.ring_offset;
}

/* Takes room as a handler does. */
static uint64_t reserve(uint32_t size)
{
	return __atomic_fetch_add(&control->head, size, __ATOMIC_ACQ_REL);
}

static void commit(uint64_t position)
{
	__atomic_store_n((uint64_t *)(ring() + (position & (kept.ring_size - 1))), position ^ kept.commit_key,
			 __ATOMIC_RELEASE);
}

/* Threads, processes, code and stacks that are not there, in the form in which they are told. */
static void invent(struct wire_record *r, uint32_t size)
{
	unsigned long n = random_number();

	r->size = size;
	r->flags &= (uint16_t) ~(WIRE_KERNEL | WIRE_PADDING | WIRE_SELF_TEST);
	r->watch = 0;
	r->walk_end = n & 1 ? WALK_END_COMPLETE : WALK_END_UNKNOWN_PC;
	r->nframes = n & 2 ? 1 : 32;
	r->raw_len = 256;
}

static void fill(struct wire_record *r, uint32_t size)
{
	static const uint32_t edges[] = { 0, 1, 2, 63, 64, 65, 1000, 0xffffffff };
	unsigned long n = random_number();
	uint64_t *word = (uint64_t *)(r + 1);

	*r = (struct wire_record){
		.size = n & 0xf0000 ? size : edges[n >> 20 & 7],
		.flags = (uint16_t)(n & 7 ? WIRE_HAS_OLD | WIRE_HAS_NEW : n >> 24 & ~WIRE_PADDING),
		.watch = (uint8_t)(n >> 8 & (n & 0x300 ? 1 : 31)),
		.walk_end = (uint8_t)(n >> 40 & 7),
		.time = random_number(),
		.tid = n & 8 ? (uint32_t)getpid() : (uint32_t)random_number() >> (n >> 44 & 31),
		.nframes = n & 16 ? 4 : edges[n >> 48 & 7],
		.old_value = random_number(),
		.new_value = random_number(),
		.raw_addr = random_number(),
		.raw_len = n & 32 ? 64 : edges[n >> 52 & 7],
		.pid = n & 64 ? 0 : (int32_t)(random_number() >> (n >> 56 & 63)),
	};
	for (unsigned int i = 0; i < WREG_COUNT; i++)
		r->regs.r[i] = random_number();
	/* Code there is, mostly: all that is known about it is asked for. */
	for (uint32_t i = 0; i < (size - sizeof(*r)) / 8; i++)
		word[i] = random_number() & 3 ? (uint64_t)fill + random_number() % 0x800 : random_number();
	r->regs.r[WREG_RIP] = word[0];
	if (!strcmp(how, "invent"))
		invent(r, size);
}

static void forge(void)
{
	uint32_t size = 1024;
	uint64_t at = __atomic_load_n(&control->head, __ATOMIC_ACQUIRE);
	uint64_t left = kept.ring_size - (at & (kept.ring_size - 1));
	struct wire_record *r = (struct wire_record *)(ring() + (at & (kept.ring_size - 1)));

	if (at - __atomic_load_n(&control->tail, __ATOMIC_ACQUIRE) > kept.ring_size - 2 * size)
		return; /* what nobody has read yet would be lost */
	if (!__atomic_compare_exchange_n(&control->head, &at, at + (left < size ? left : size), false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	if (left < size)
		*r = (struct wire_record){ .size = (uint32_t)left, .flags = WIRE_PADDING };
	else
		fill(r, size);
	commit(at);
}

static void small(uint16_t flags, uint32_t size)
{
	uint64_t at = reserve(size);
	struct wire_record *r = (struct wire_record *)(ring() + (at & (kept.ring_size - 1)));

	if (kept.ring_size - (at & (kept.ring_size - 1)) >= sizeof(*r))
		*r = (struct wire_record){ .size = size, .flags = flags, .nframes = 1 };
	commit(at);
}

static void lie(void)
{
	static const size_t off_limits[] = { offsetof(struct wire_control, old),
					     offsetof(struct wire_control, ours) };
	size_t at = random_number() % (sizeof(kept) - 8);

	for (unsigned int i = 0; i < 2; i++) /* where signals that are not for us go: that would end us */
		if (at + 8 > off_limits[i] && at < off_limits[i] + sizeof(struct wire_sigaction))
			return;
	*(volatile uint64_t *)((uint8_t *)control + at) = random_number() >> (random_number() & 63);
}

static void misbehave(void)
{
	if (!strcmp(how, "noise"))
		*(volatile uint64_t *)(ring() + random_number() % (kept.ring_size - 8)) = random_number();
	else if (!strcmp(how, "forge") || !strcmp(how, "invent"))
		forge();
	else if (!strcmp(how, "pad"))
		small(WIRE_PADDING, 16);
	else if (!strcmp(how, "drop"))
		small(WIRE_SELF_TEST, (sizeof(struct wire_record) + 8 + 15) & ~15u);
	else if (!strcmp(how, "stuck"))
		reserve(16);
	else
		lie();
}

/* The read-write mapping behind the page that has the signature. */
static bool find(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, code = 0;
	char line[512], perm[8];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s", &start, &end, perm) != 3)
			continue;
		if (!strncmp(perm, "r-xp", 4) && end - start == WIRE_CODE_SIZE)
			code = end;
		else if (code && start == code && !strncmp(perm, "rw-", 3))
			control = (struct wire_control *)start;
	}
	if (maps)
		fclose(maps);
	if (!control || control->magic != WIRE_MAGIC || !control->nwatches)
		control = NULL;
	return control;
}

/* What it writes to has gone, when the watch is over: nobody is to be harmed then, itself included. */
static void stay_away(int sig)
{
	(void)sig;
	for (;;)
		pause();
}

static void *attack(void *number)
{
	seed = 88172645463325252ull + (unsigned long)number * 7919;
	while (!over)
		misbehave();
	return NULL;
}

static void *work(void *unused)
{
	(void)unused;
	while (!over) {
		flag++;
		usleep(100);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t worker, thread[THREADS];

	how = argc > 1 ? argv[1] : "noise";
	signal(SIGSEGV, stay_away);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	pthread_create(&worker, NULL, work, NULL);
	while (!find())
		usleep(1000);
	kept = *control;
	printf("found\n");
	for (long i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, attack, (void *)i);
	while (getchar() != EOF)
		;
	over = true;
	_exit(0);
}
