#include "calltrace/runtime/thread.h"

#include <cpuid.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <x86intrin.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/clock_rate.h"
#include "calltrace/runtime/event_pairs.h"
#include "calltrace/runtime/memory_layout.h"
#include "calltrace/runtime/modules.h"
#include "calltrace/runtime/open_calls.h"
#include "calltrace/runtime/open_memory.h"
#include "calltrace/runtime/own_events.h"
#include "calltrace/runtime/plain_slots.h"
#include "calltrace/runtime/raw_call.h"
#include "calltrace/runtime/ring.h"

#define SLOTS CHUNK_SLOTS
#define SHARED_SLOTS ((1 + SLACK_CHUNKS) * SLOTS)
#define HEAD_BYTES 4096u

#define KEYS_WITHOUT_MALLOC 32	 /* of glibc: pthread_setspecific() allocates for others */
#define LATE_CYCLES (1ull << 28) /* of a flight recorder: a tenth of a second or so */

/* In place of `what` of a slot that was written and is not to be read: it lies behind one that is not written yet. */
#define SLOT_FORGOTTEN CALLTRACE_KIND_MASK

_Static_assert(sizeof(struct thread) <= HEAD_BYTES, "a head has a page");

/* Threads that have no chunk yet scribble on it. */
static struct calltrace_slot shared[SHARED_SLOTS] __attribute__((aligned(CALLTRACE_CHUNK)));

extern __thread struct calltrace_slot *__calltrace_at __attribute__((visibility("default")));
__thread struct calltrace_slot *__calltrace_at __attribute__((tls_model("initial-exec"))) =
	&shared[SLOTS - 1];

static __thread struct {
	struct thread *t;
	struct calltrace_slot
		*shared_from; /* the first slot of `shared` that it was given; NULL: the last of its
					       chunk, as at the beginning */
	unsigned char rounds; /* of destructors */
	bool has_ended;
} self __attribute__((tls_model("initial-exec")));

/* Is zero in a copy of the process. */
struct threads_page {
	atomic_bool is_ours;
	atomic_bool is_recording; /* changed before a log that begins or ends visits the threads */
};

static struct {
	_Atomic(struct thread *) first;
	struct threads_page *page; /* NULL: not begun */
	struct output_place *place;
	uint32_t ring_chunks; /* 0: not a flight recorder, all is written */
	void (*ended)(struct thread *t);
	pthread_key_t key;
	bool has_key;
	_Atomic uint64_t discarded; /* of threads that have ended, or never had a chunk */
} threads;

/* Read in dumps of the program's memory, by nothing else. */
static struct calltrace_memory memory __attribute__((used)) = {
	.magic = CALLTRACE_MEMORY_MAGIC,
	.version = CALLTRACE_MEMORY_VERSION,
	.thread_bytes = sizeof(struct thread),
	.module_bytes = sizeof(struct traced_module),
	.place_bytes = sizeof(struct output_place),
};

/* For turn.S */

struct vectors {
	uint64_t size;
	uint32_t mask; /* of state components that xsave stores; 0: fxsave */
};

#define VECTOR_COMPONENTS 0xe7u /* x87, SSE, AVX, AVX-512: all that libraries of C use */
#define FXSAVE_BYTES 512
#define XSAVE_HEAD_BYTES 576

struct vectors calltrace_vectors __attribute__((visibility("hidden"))) = { .size = FXSAVE_BYTES };

static void vectors_measure(void)
{
	struct vectors v = { .size = XSAVE_HEAD_BYTES };
	unsigned int a, b, c, d, i;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	__asm__ volatile("xgetbv" : "=a"(v.mask), "=d"(d) : "c"(0));
	v.mask &= VECTOR_COMPONENTS;
	for (i = 2; i < 32; i++) {
		if (!(v.mask & 1u << i) || !__get_cpuid_count(0xd, i, &a, &b, &c, &d))
			continue;
		if (v.size < a + b) /* its size and its offset */
			v.size = a + b;
	}
	calltrace_vectors = v;
}

/* Slots */

static void slots_clear(struct calltrace_slot *from, const struct calltrace_slot *end)
{
	for (; from < end; from++)
		*(volatile struct calltrace_slot *)from = (struct calltrace_slot){ 0 };
}

/* Behind the packet: no part of struct thread, which readers of a dump know. */
static struct open_memory *memory_of(const struct thread *t)
{
	return (struct open_memory *)((char *)t->out.packet + CALL_PACKET_BYTES);
}

static void take_slot(struct thread *t, const struct calltrace_slot *slot, uint32_t what, uint64_t time_ns)
{
	struct call_fact f = call_fact_of(what, slot->frame);

	f.time_ns = time_ns;
	if (what == SLOT_FORGOTTEN)
		return;
	if (event_pairs_have(what)) {
		open_calls_finish(&t->calls, &t->out); /* what it jumped to is no traced function */
		event_pairs_take(&t->events, slot, what, time_ns, &t->out);
		return;
	}
	if (!modules_find(what, &t->module, &f.function))
		t->out.discarded += !call_fact_is_value(&f) && !call_fact_is_memory(&f);
	else if (call_fact_is_memory(&f))
		open_memory_take(memory_of(t), &t->calls, &f, slot->tsc, &t->out);
	else if (call_fact_is_value(&f))
		open_calls_value(&t->calls, f.kind, f.function, slot->frame, slot->tsc, &t->out);
	else
		open_calls_take(&t->calls, &f, &t->out);
}

/* Reading slots into events. */
struct drain {
	struct thread *t;
	struct clock_point now;
	struct clock_rate clock;
	struct module_range module; /* that of the last event */
};

static void drain_begin(struct drain *d, struct thread *t)
{
	d->t = t;
	d->now = clock_point_now();
	d->clock = clock_rate_of(&t->point, &d->now);
	d->module = modules_range(t->module);
}

/* Up to the first slot that needs drain_take(), or is not written. */
static struct calltrace_slot *drain_plain(const struct drain *d, struct calltrace_slot *slot,
					  const struct calltrace_slot *end)
{
	return plain_slots_take(slot, end, &d->module, &d->clock, &d->t->calls, &d->t->out);
}

/* @what is that of @slot, not 0. */
static void drain_take(struct drain *d, struct calltrace_slot *slot, uint32_t what)
{
	take_slot(d->t, slot, what, clock_rate_time(&d->clock, slot->tsc));
	d->module = modules_range(d->t->module);
	__atomic_store_n(&slot->what, 0, __ATOMIC_RELAXED);
}

static void drain_end(struct drain *d)
{
	d->t->point = d->now;
}

static uint32_t what_of(const struct calltrace_slot *slot)
{
	return __atomic_load_n(&slot->what, __ATOMIC_ACQUIRE);
}

/*
 * Reads the slots up to @end. Those of its own are all given: one that is not written is left out; returned is the last
 * of these, or NULL. Other threads, to whom it is not known how many are given, stop there.
 */
static struct calltrace_slot *drain(struct thread *t, const struct calltrace_slot *end, bool is_own)
{
	struct calltrace_slot *hole = NULL;
	struct drain d;

	drain_begin(&d, t);
	for (;; t->from++) {
		uint32_t what;

		t->from = drain_plain(&d, t->from, end);
		if (t->from >= end)
			break;
		what = what_of(t->from);
		if (what) {
			drain_take(&d, t->from, what);
		} else if (is_own) {
			t->out.discarded++;
			event_pairs_lose(&t->events, &t->out); /* it may be the second slot of one of them */
			hole = t->from;
		} else {
			break;
		}
	}
	drain_end(&d);
	return hole;
}

/* Of a flight recorder: all that is in the ring. A slot that is not written yet is left out, and read the next time. */
static void drain_ring(struct thread *t)
{
	struct calltrace_slot *slot, *end;
	struct drain d;

	if (t->ring.overwritten && t->was_read) {
		output_flush(&t->out);
		t->out.discarded += t->ring.overwritten;
		open_calls_forget(&t->calls);
		event_pairs_lose(&t->events, &t->out); /* their second slots may be among these */
	}
	t->ring.overwritten = 0;
	t->was_read = true;
	drain_begin(&d, t);
	for (unsigned int i = 0; ring_stretch(&t->ring, i, &slot, &end); i++) {
		for (; slot < end; slot++) {
			struct calltrace_slot *const from = slot;
			uint32_t what;

			slot = drain_plain(&d, slot, end);
			ring_read(&t->ring, from, slot);
			what = slot < end ? what_of(slot) : 0;
			if (!what)
				continue;
			drain_take(&d, slot, what);
			ring_read(&t->ring, slot, slot + 1);
		}
	}
	drain_end(&d);
}

/* All that was written so far is not to be read. Of a slot that is not written yet, that is not known. */
static void forget_ring(struct thread *t)
{
	struct calltrace_slot *slot, *end;

	t->ring.overwritten = 0;
	t->was_read = false;
	for (unsigned int i = 0; ring_stretch(&t->ring, i, &slot, &end); i++) {
		for (; slot < end; slot++) {
			if (!what_of(slot))
				continue;
			__atomic_store_n(&slot->what, 0, __ATOMIC_RELAXED);
			ring_read(&t->ring, slot, slot + 1);
		}
	}
}

/* Returns how many events these were; one of the program's own may count as two, as it is where slots are counted. */
static uint64_t forget_slots(struct thread *t, const struct calltrace_slot *end)
{
	struct calltrace_slot *slot;
	uint64_t n = 0;

	for (; t->from < end && what_of(t->from); t->from++) {
		n += t->from->what != SLOT_FORGOTTEN;
		__atomic_store_n(&t->from->what, 0, __ATOMIC_RELAXED);
	}
	for (slot = t->from; slot < end; slot++) {
		if (!what_of(slot) || slot->what == SLOT_FORGOTTEN)
			continue;
		__atomic_store_n(&slot->what, SLOT_FORGOTTEN, __ATOMIC_RELAXED);
		n++;
	}
	return n;
}

static uint64_t area_slots(void)
{
	return ((threads.ring_chunks ? threads.ring_chunks : 1) + SLACK_CHUNKS) * SLOTS;
}

/* Of a thread: its slots, a packet, memory that comes in pieces, and what aligning takes. */
static unsigned long map_size(void)
{
	return area_slots() * sizeof(struct calltrace_slot) + CALL_PACKET_BYTES + sizeof(struct open_memory) +
	       CALLTRACE_CHUNK;
}

/* Reads all that the thread has written so far; all it was given, if it is @own that does. */
static void drain_all(struct thread *t, const struct calltrace_slot *own)
{
	if (threads.ring_chunks)
		drain_ring(t);
	else
		drain(t, own ? own : t->chunk + area_slots(), own);
}

static void forget_all(struct thread *t)
{
	event_pairs_forget(&t->events);
	if (threads.ring_chunks)
		forget_ring(t);
	else
		forget_slots(t, t->chunk + area_slots());
}

/* Where the next event of the thread goes. */
static struct calltrace_slot *own_turn(struct thread *t, struct calltrace_slot *at)
{
	struct calltrace_slot *hole;

	if (threads.ring_chunks) {
		if (__rdtsc() - t->late.tsc > LATE_CYCLES)
			t->late = clock_point_now();
		return ring_turn(&t->ring, at);
	}
	hole = drain(t, at, true);

	slots_clear(t->chunk, t->begin);
	t->begin = t->chunk;
	if (hole && hole + 1 < t->chunk + 2 * SLOTS)
		t->begin = hole + 1;
	t->from = t->begin;
	return t->begin;
}

/* Threads */

static bool raw_failed(long ret)
{
	return ret < 0 && ret > -4096;
}

static long map_bytes(unsigned long bytes)
{
	return raw_call6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
}

/* A head that a thread which has ended had, or a new one; NULL: no memory. */
static struct thread *take_head(void)
{
	struct thread *t;
	long p;

	for (t = threads.first; t; t = t->next) {
		bool is_taken = false;

		if (atomic_compare_exchange_strong(&t->is_taken, &is_taken, true))
			return t;
	}
	p = map_bytes(HEAD_BYTES);
	if (raw_failed(p))
		return NULL;
	t = (struct thread *)p;
	t->is_taken = true;
	t->next = threads.first;
	while (!atomic_compare_exchange_weak(&threads.first, &t->next, t))
		;
	return t;
}

/*
 * Under the thread's lock. A thread that sees here that nothing is recorded is not visited any more by the log that
 * ended; one that does not is visited later.
 */
static void begin_file(struct thread *t)
{
	output_begin(&t->out, threads.place, (struct call_packet *)(t->chunk + area_slots()), t->tid);
	t->out.is_stopped = !threads_are_recording();
	memory_of(t)->bytes = 0;
	t->is_new = t->tid != threads.place->pid; /* the log has the first thread from its beginning */
}

static struct thread *thread_begin(void)
{
	struct thread *t = take_head();
	long map = t ? map_bytes(map_size()) : -1;

	if (raw_failed(map)) {
		if (t)
			t->is_taken = false;
		return NULL;
	}
	t->tid = (pid_t)raw_call(SYS_gettid, 0, 0, 0, 0);
	raw_call(SYS_prctl, PR_GET_NAME, (long)t->comm, 0, 0);

	raw_lock_take(&t->lock);
	t->map = (void *)map;
	t->chunk = (struct calltrace_slot *)(((uintptr_t)map + CALLTRACE_CHUNK - 1) &
					     ~(uintptr_t)(CALLTRACE_CHUNK - 1));
	t->begin = t->from = t->chunk;
	t->ring = (struct ring){ .slot = t->chunk, .chunks = threads.ring_chunks };
	t->was_read = false;
	t->point = clock_point_now();
	t->late = (struct clock_point){ 0 };
	t->module = 0;
	event_pairs_forget(&t->events);
	begin_file(t);
	raw_lock_release(&t->lock);
	return t;
}

/* Events of a thread that has no chunk, but for the one that the turn was called with. */
static uint64_t shared_events(const struct calltrace_slot *at)
{
	const struct calltrace_slot *from = self.shared_from ? self.shared_from : &shared[SLOTS - 1];

	return at > from ? (uint64_t)(at - from) - 1 : 0;
}

/* The next event is a thread's first one. */
static void be_new(void)
{
	self.shared_from = NULL;
	__calltrace_at = &shared[SLOTS - 1];
}

/* The next events go into the shared chunk, as many as there fit. */
static void scribble(void)
{
	self.shared_from = shared;
	__calltrace_at = shared;
}

static void first_turn(uint32_t what, uint32_t frame)
{
	const uint64_t discarded = shared_events(__calltrace_at);
	struct thread *t = self.has_ended ? NULL : thread_begin();

	if (!t) {
		if (threads_are_recording())
			threads.discarded += discarded + 1;
		scribble();
		return;
	}
	raw_lock_take(&t->lock);
	t->out.discarded += discarded;
	*t->chunk = (struct calltrace_slot){ .tsc = t->point.tsc, .what = what, .frame = frame };
	raw_lock_release(&t->lock);
	__calltrace_at = t->chunk + 1;
	self.t = t;
	/* Of a key with a larger number it is not heard when the thread ends: its chunk stays until the process does. */
	if (threads.has_key)
		pthread_setspecific(threads.key, t);
}

/* In a copy of the process, whose memory and locks are as they were in the middle of everything. */
static void copied_turn(struct thread *t)
{
	if (!t) {
		scribble();
		return;
	}
	slots_clear(t->chunk, t->chunk + area_slots());
	__calltrace_at = t->chunk;
}

/* From turn.S: anywhere in the program, in malloc() and in signal handlers too. */
void calltrace_turn(uint32_t what, uint32_t frame)
{
	const uint64_t signals = raw_signals_block(RAW_ALL_SIGNALS);
	struct thread *t = self.t;

	if (!threads_are_ours()) {
		modules_switch(false);
		copied_turn(t);
	} else if (!t && !self.has_ended && !threads_are_recording()) {
		be_new();
	} else if (!t) {
		first_turn(what, frame);
	} else {
		raw_lock_take(&t->lock);
		__calltrace_at = own_turn(t, __calltrace_at);
		raw_lock_release(&t->lock);
	}
	raw_signals_block(signals);
}

static void end_file(struct thread *t)
{
	open_calls_finish(&t->calls, &t->out);
	event_pairs_lose(&t->events, &t->out);
	output_finish(&t->out);
	t->out.is_stopped = true;
}

void thread_finish(struct thread *t)
{
	raw_lock_take(&t->lock);
	drain_all(t, __calltrace_at);
	end_file(t);
	threads.discarded += t->out.discarded;
	open_calls_deinit(&t->calls);
	raw_call(SYS_munmap, (long)t->map, (long)map_size(), 0, 0);
	t->chunk = NULL;
	raw_lock_release(&t->lock);
	self.t = NULL;
	self.has_ended = true;
	scribble();
	t->is_taken = false;
}

/* Of the thread's key. The last of its rounds: destructors of the program's own keys are recorded, too. */
static void on_thread_end(void *arg)
{
	if (!threads_are_ours())
		return;
	if (++self.rounds < PTHREAD_DESTRUCTOR_ITERATIONS && !pthread_setspecific(threads.key, arg))
		return;
	threads.ended(arg);
}

/* All */

static void memory_describe(void)
{
	struct timespec t = { 0 };

	raw_call(SYS_clock_gettime, CLOCK_REALTIME, (long)&t, 0, 0);
	memory.realtime_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	memory.begin = clock_point_now();
	memory.is_recording = (uintptr_t)&threads.page->is_recording;
	memory.first_thread = (uintptr_t)&threads.first;
	memory.modules = (uintptr_t)modules_table(&memory.nmodules);
	memory.event_types = (uintptr_t)own_events_table(&memory.nevent_types);
	memory.place = (uintptr_t)threads.place;
	memory.ring_chunks = threads.ring_chunks;
	memory.self = (uintptr_t)&memory;
}

const char *threads_begin(struct output_place *place, uint32_t ring_chunks, void (*ended)(struct thread *t))
{
	long p;

	if ((uintptr_t)shared % CALLTRACE_CHUNK)
		return "this C library does not align libraries to 64 KiB: link libcalltrace.a";
	vectors_measure();
	p = map_bytes(HEAD_BYTES);
	if (raw_failed(p))
		return "no memory";
	/* Kernels before 4.14 cannot: there a child made without fork() would go on as its parent. */
	madvise((void *)p, HEAD_BYTES, MADV_WIPEONFORK);
	threads.has_key = !pthread_key_create(&threads.key, on_thread_end);
	if (threads.has_key && threads.key >= KEYS_WITHOUT_MALLOC) {
		pthread_key_delete(threads.key);
		threads.has_key = false;
	}
	threads.place = place;
	threads.ring_chunks = ring_chunks;
	threads.ended = ended;
	threads.page = (struct threads_page *)p;
	threads.page->is_ours = true;
	memory_describe();
	return NULL;
}

bool threads_have_begun(void)
{
	return threads.page;
}

bool threads_are_ours(void)
{
	return threads.page && threads.page->is_ours;
}

pid_t threads_pid(void)
{
	return threads_are_ours() ? threads.place->pid : 0;
}

bool threads_are_recording(void)
{
	return threads_are_ours() && threads.page->is_recording;
}

/* The thread that has forked: the slots that it was given belong to its parent. One may be written late, by code that a
 * signal has interrupted, whose handler has forked. */
static void copy_own(struct thread *t, bool was_held)
{
	const uint64_t index = (uint64_t)(__calltrace_at - t->chunk) / SLOTS;

	t->tid = (pid_t)raw_call(SYS_gettid, 0, 0, 0, 0);
	t->begin = t->from = __calltrace_at;
	t->ring.current = index < t->ring.chunks ? (uint32_t)index : t->ring.chunks - 1;
	t->ring.read_slots = 0;
	if (was_held)
		t->calls = (struct open_calls){ 0 };
	event_pairs_forget(&t->events);
	t->out.is_stopped = true;
}

/* Its memory is as it was in the middle of whatever held its lock: it is left alone then. */
static void drop_copy(struct thread *t, bool was_held)
{
	if (was_held)
		t->calls = (struct open_calls){ 0 };
	else if (t->chunk)
		raw_call(SYS_munmap, (long)t->map, (long)map_size(), 0, 0);
	open_calls_deinit(&t->calls);
	t->chunk = NULL;
	t->is_new = false;
	t->is_taken = false;
}

void threads_after_fork(void)
{
	struct thread *t;

	if (!threads.page)
		return;
	threads.page->is_recording = false;
	for (t = threads.first; t; t = t->next) {
		const bool was_held = t->lock;

		t->lock = 0;
		if (t == self.t)
			copy_own(t, was_held);
		else
			drop_copy(t, was_held);
	}
	threads.page->is_ours = true;
}

/* Calls @fn for each thread that has a chunk, under its lock. The first result of @fn that is not 0. */
static long threads_each(long (*fn)(struct thread *t))
{
	struct thread *t;
	long ret = 0;

	for (t = threads.first; t; t = t->next) {
		raw_lock_take(&t->lock);
		if (t->chunk) {
			const long result = fn(t);

			ret = ret ? ret : result;
		}
		raw_lock_release(&t->lock);
	}
	return ret;
}

static long drain_thread(struct thread *t)
{
	drain_all(t, NULL);
	return 0;
}

static long flush_file(struct thread *t)
{
	drain_all(t, NULL);
	output_flush(&t->out);
	return t->out.error;
}

/* Slots behind one that was not written in time, and those that come now, are discarded. */
static long finish_file(struct thread *t)
{
	drain_all(t, NULL);
	if (!threads.ring_chunks)
		t->out.discarded += forget_slots(t, t->chunk + area_slots());
	end_file(t);
	return t->out.error;
}

static long record_thread(struct thread *t)
{
	forget_all(t);
	open_calls_forget(&t->calls);
	t->point = clock_point_now();
	begin_file(t);
	return 0;
}

static long clear_thread(struct thread *t)
{
	forget_all(t);
	t->point = clock_point_now();
	open_calls_clear(&t->calls, t->point.ns, &t->out);
	return 0;
}

void threads_record(void)
{
	threads.discarded = 0;
	threads.page->is_recording = true;
	threads_each(record_thread);
}

void threads_drain(void)
{
	threads_each(drain_thread);
}

void threads_clear(void)
{
	threads_each(clear_thread);
}

long threads_flush(void)
{
	return threads_each(flush_file);
}

long threads_finish(void)
{
	threads.page->is_recording = false;
	return threads_each(finish_file);
}

uint64_t threads_discarded(void)
{
	uint64_t n = threads.discarded;
	struct thread *t;

	for (t = threads.first; t; t = t->next) {
		raw_lock_take(&t->lock);
		if (t->chunk)
			n += t->out.discarded;
		raw_lock_release(&t->lock);
	}
	return n;
}

struct thread *threads_next_new(struct thread *t)
{
	for (t = t ? t->next : threads.first; t && !t->is_new; t = t->next)
		;
	return t;
}

pid_t thread_introduce(struct thread *t, char comm[COMM_LEN])
{
	unsigned int i;

	t->is_new = false;
	for (i = 0; i < COMM_LEN; i++)
		comm[i] = t->comm[i];
	return t->tid;
}
