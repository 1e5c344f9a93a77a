/*
 * Rings: one for each thread that captures, made at its first capture and handed on when it ends.
 *
 * A signal handler may capture while the code that it interrupted does, with the same ring; so `head` moves
 * by single instructions without a lock prefix: indivisible for signals of this thread, and no other thread
 * writes it. Nothing waits. A record is written in the few nanoseconds between reserving its place and
 * saying that it is whole, with its stack walked before: a handler that interrupts just there puts its own
 * records behind it, and one that leaves by longjmp() just there leaves one record unfinished, which the
 * collector passes over.
 *
 * Ends of threads: a destructor of thread-specific data frees the ring, so that the next thread finds it.
 * Captures after that destructor claim again, which calls for the destructor again, up to four times (POSIX:
 * PTHREAD_DESTRUCTOR_ ITERATIONS); what a thread still owns at its end is found by asking the kernel whether
 * the owner lives.
 */
#include "stackwalk/capture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "watchctl/base/raw_call.h"

#define LAST_CALL_MS 200     /* how long an ending program waits for its collector, at most */
#define RETRY_TICKS 30000000 /* some 10 ms */
#define OWNERS_ASKED 16	     /* at most, before another ring is made */
#define RINGS_UNASKED 64     /* so many are made before anybody is asked */

/* glibc keeps the values of the first so many keys in the thread itself: setting them allocates nothing. */
#define KEYS_IN_THREAD 32

__thread struct capture_thread capture_thread __attribute__((tls_model("initial-exec")));

static pthread_key_t at_end;
static bool has_key;

static uint32_t thread_id(void)
{
	return (uint32_t)raw_call6(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static bool thread_lives(uint32_t tid)
{
	long pid = raw_call6(SYS_getpid, 0, 0, 0, 0, 0, 0);

	return raw_call6(SYS_tgkill, pid, tid, 0, 0, 0, 0) != -ESRCH;
}

/* Records */

/* If *at is *expected, makes it @to; else makes *expected what it is. One instruction, for signals only. */
static inline bool exchange_if(uint64_t *at, uint64_t *expected, uint64_t to)
{
	bool done;

	__asm__ volatile("cmpxchgq %3, %1" : "=@ccz"(done), "+m"(*at), "+a"(*expected) : "r"(to) : "memory");
	return done;
}

static inline void capture_ring_count(uint64_t *at)
{
	__asm__ volatile("incq %0" : "+m"(*at) : : "cc");
}

/* @ring is full. When that is because its collector has died, this was the last capture to care. */
static void full(struct capture_ring *ring)
{
	uint64_t beat = __atomic_load_n(&capture_control.heartbeat, __ATOMIC_RELAXED);

	capture_ring_count(&ring->lost);
	if ((int64_t)(capture_tsc() - beat) >
	    (int64_t)__atomic_load_n(&capture_control.lease, __ATOMIC_RELAXED))
		capture_switch_off();
}

uint64_t *capture_ring_reserve(struct capture_ring *ring, uint32_t words, uint64_t *position)
{
	uint64_t tail, head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);

	capture_ring_count(&ring->calls);
	do {
		tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		if (head + 8ull * words - tail > ring->size) {
			full(ring);
			return NULL;
		}
	} while (!exchange_if(&ring->head, &head, head + 8ull * words));
	*position = head;
	return (uint64_t *)((char *)ring + CAPTURE_RING_HEAD + (head & (ring->size - 1)));
}

void capture_ring_commit(uint64_t *record, uint64_t position, uint32_t words, uint32_t nframes,
			 uint32_t flags, uint32_t walk_end)
{
	uint64_t first = (uint32_t)(position / 8) | (uint64_t)words << 32 | (uint64_t)nframes << 40 |
			 (uint64_t)flags << 48 | (uint64_t)walk_end << 56;

	__atomic_store_n(record, first, __ATOMIC_RELEASE);
}

/* Claiming */

/* Everything after this in @ring is by the calling thread. */
static bool write_owner(struct capture_ring *ring, uint32_t tid)
{
	const uint32_t words = sizeof(struct capture_record) / 8 + 2;
	uint64_t position, *to = capture_ring_reserve(ring, words, &position);

	/* Not a capture: only captures are counted. */
	__asm__ volatile("decq %0" : "+m"(ring->calls) : : "cc");
	if (!to) {
		__asm__ volatile("decq %0" : "+m"(ring->lost) : : "cc");
		return false;
	}
	to[1] = capture_tsc();
	to[2] = tid;
	to[3] = to[4] = 0;
	raw_call6(SYS_prctl, PR_GET_NAME, (long)(to + 3), 0, 0, 0, 0);
	capture_ring_commit(to, position, words, 0, CAPTURE_OWNER, 0);
	return true;
}

static struct capture_ring *ring_at(uint32_t i)
{
	return (struct capture_ring *)__atomic_load_n(&capture_control.ring[i], __ATOMIC_ACQUIRE);
}

static uint32_t rings(void)
{
	uint32_t n = __atomic_load_n(&capture_control.nrings, __ATOMIC_ACQUIRE);

	return n < CAPTURE_RINGS ? n : CAPTURE_RINGS;
}

static bool capture_ring_take(struct capture_ring *ring, uint32_t from, uint32_t tid)
{
	return __atomic_compare_exchange_n(&ring->owner, &from, tid, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* One without an owner; or one that this thread, or one of the same number before it, owns. */
static struct capture_ring *free_ring(uint32_t tid)
{
	uint32_t i, n = rings();

	for (i = 0; i < n; i++) {
		struct capture_ring *ring = ring_at(i);
		uint32_t owner = ring ? __atomic_load_n(&ring->owner, __ATOMIC_RELAXED) : UINT32_MAX;

		if (ring && (owner == tid || (!owner && capture_ring_take(ring, 0, tid))))
			return ring;
	}
	return NULL;
}

/* One whose owner has ended without freeing it, among at most @most that are asked for. */
static struct capture_ring *orphaned_ring(uint32_t tid, uint32_t most)
{
	static uint32_t begin; /* where the last search ended; only a hint */
	uint32_t n = rings(), i = __atomic_load_n(&begin, __ATOMIC_RELAXED), asked;

	for (asked = 0; asked < n && asked < most; asked++, i++) {
		struct capture_ring *ring = ring_at(n ? i % n : 0);
		uint32_t owner = ring ? __atomic_load_n(&ring->owner, __ATOMIC_RELAXED) : 0;

		if (owner && !thread_lives(owner) && capture_ring_take(ring, owner, tid))
			return ring;
	}
	__atomic_store_n(&begin, i, __ATOMIC_RELAXED);
	return NULL;
}

static bool capture_ring_publish(struct capture_ring *ring)
{
	uint32_t n = __atomic_load_n(&capture_control.nrings, __ATOMIC_RELAXED);

	do {
		if (n >= CAPTURE_RINGS)
			return false;
	} while (!__atomic_compare_exchange_n(&capture_control.nrings, &n, n + 1, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	__atomic_store_n(&capture_control.ring[n], (uintptr_t)ring, __ATOMIC_RELEASE);
	return true;
}

static struct capture_ring *new_ring(uint32_t tid)
{
	uint64_t size = __atomic_load_n(&capture_control.ring_size, __ATOMIC_RELAXED);
	uint64_t bytes = CAPTURE_RING_HEAD + size + CAPTURE_PAGE; /* the last record reaches over the end */
	struct capture_ring *ring;
	long addr;

	_Static_assert(CAPTURE_RECORD_MAX <= CAPTURE_PAGE, "room behind the data");
	if (size < CAPTURE_RING_MIN || size > CAPTURE_RING_MAX || (size & (size - 1)) ||
	    rings() >= CAPTURE_RINGS)
		return NULL;
	addr = raw_call6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!addr || (unsigned long)addr >= -4096ul)
		return NULL;
	ring = (struct capture_ring *)addr;
	ring->size = size;
	ring->owner = tid;
	if (!capture_ring_publish(ring)) {
		raw_call6(SYS_munmap, addr, (long)bytes, 0, 0, 0, 0);
		return NULL;
	}
	return ring;
}

/* This thread's, from an earlier session or, in a fresh child, from before the fork. */
static struct capture_ring *own_ring(uint32_t tid)
{
	struct capture_ring *ring = capture_thread.ring;
	uint32_t i, n = rings();

	if (!ring)
		return NULL;
	for (i = 0; i < n; i++)
		if (ring_at(i) == ring)
			return __atomic_load_n(&ring->owner, __ATOMIC_RELAXED) == tid ? ring : NULL;
	/* The control block was wiped: our copy of the memory is nobody else's. */
	ring->owner = tid;
	ring->calls = ring->lost = 0;
	ring->tail = ring->head; /* what is in it is the parent's */
	return capture_ring_publish(ring) ? ring : NULL;
}

static struct capture_ring *capture_ring_find(uint32_t tid)
{
	struct capture_ring *ring = own_ring(tid);

	if (!ring)
		ring = free_ring(tid);
	if (!ring && rings() >= RINGS_UNASKED)
		ring = orphaned_ring(tid, OWNERS_ASKED);
	if (!ring)
		ring = new_ring(tid);
	if (!ring)
		ring = orphaned_ring(tid, CAPTURE_RINGS);
	return ring;
}

static struct capture_ring *none(uint64_t now)
{
	capture_thread.retry = now + RETRY_TICKS;
	__atomic_fetch_add(&capture_control.no_ring, 1, __ATOMIC_RELAXED);
	return NULL;
}

struct capture_ring *capture_ring_claim(uint64_t session)
{
	uint64_t now = capture_tsc();
	struct capture_ring *ring;
	uint32_t tid;

	if (!session) { /* the collector has just ended; or this is a fresh child, of which nobody collects */
		capture_switch_off();
		return NULL;
	}
	if (capture_thread.retry && (int64_t)(now - capture_thread.retry) < 0)
		return none(capture_thread.retry - RETRY_TICKS);

	tid = thread_id();
	ring = capture_ring_find(tid);
	if (!ring)
		return none(now);
	/* A signal handler may have claimed one while we did: it is as good. */
	if (capture_thread.session == session && capture_thread.ring && capture_thread.ring != ring) {
		__atomic_store_n(&ring->owner, 0, __ATOMIC_RELEASE);
		return capture_thread.ring;
	}
	if (!write_owner(ring, tid)) {
		/* Full of what another thread has left: that must be collected first. */
		capture_thread.ring = ring;
		return none(now);
	}
	capture_thread.ring = ring;
	capture_thread.session = session;
	capture_thread.retry = 0;
	if (has_key)
		pthread_setspecific(at_end, ring);
	return ring;
}

static void thread_ends(void *arg)
{
	struct capture_ring *ring = arg;

	if (capture_thread.ring == ring) {
		capture_thread.ring = NULL;
		capture_thread.session = 0;
	}
	/* In a child that fork() made, and in a thread that was claimed for, it may be another's by now. */
	capture_ring_take(ring, thread_id(), 0);
}

void capture_ring_setup(void)
{
	/* A child made by any kind of fork begins with no collector. Kernels before 4.14 cannot: then the
	 * lease ends it. */
	raw_call6(SYS_madvise, (long)&capture_control_pages, sizeof(capture_control_pages), MADV_WIPEONFORK,
		  0, 0, 0);
	if (pthread_key_create(&at_end, thread_ends) == 0) {
		has_key = at_end < KEYS_IN_THREAD;
		if (!has_key)
			pthread_key_delete(at_end);
	}
}

/* Whoever collects gets the rest, if it is alive: a program would not have its last captures otherwise. */
static void last_call(void)
{
	const struct {
		long sec, nsec;
	} pause = { 0, 1000000 };
	uint64_t beat = __atomic_load_n(&capture_control.heartbeat, __ATOMIC_RELAXED);
	unsigned int ms;

	if (!__atomic_load_n(&capture_control.session, __ATOMIC_ACQUIRE) ||
	    (int64_t)(capture_tsc() - beat) >
		    (int64_t)__atomic_load_n(&capture_control.lease, __ATOMIC_RELAXED))
		return;
	if (rings()) /* else the flag may be another copy's, which is the one that is used */
		capture_switch_off();
	__atomic_store_n(&capture_control.ended, 1, __ATOMIC_RELEASE);
	for (ms = 0; ms < LAST_CALL_MS && __atomic_load_n(&capture_control.session, __ATOMIC_ACQUIRE); ms++)
		raw_call6(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

/* The library goes, in a plugin that is closed or at the end of the process: nothing may call into it any
 * more. */
__attribute__((destructor)) static void no_more_ends(void)
{
	last_call();
	if (has_key)
		pthread_key_delete(at_end);
	has_key = false;
}
