/*
 * The path of a capture: look whether the thread's ring is of the present session, reserve room for a record,
 * walk into it, say that it is whole. Everything here runs in the program's own threads and signal handlers,
 * at any moment: no lock, no allocation, no errno, no function of libc.
 */
#include "stackwalk/capture.h"

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

#include "stackwalk/stackwalk.h"

/* The header has macros of these names, for callers. */
#undef stackwalk_capture
#undef stackwalk_capture_value

_Static_assert(STACKWALK_FRAMES_MAX == CAPTURE_FRAMES, "the public header says the same");
_Static_assert((int)STACKWALK_NOT_ASCENDING == (int)WALK_END_NOT_ASCENDING, "likewise");

#define NO_ID UINT32_MAX /* a tag for whose name there was no room */

uint32_t stackwalk_collecting;

/* Whole pages of its own: a child's copy is wiped page by page. */
union capture_control_pages capture_control_pages;

struct capture_name capture_names[CAPTURE_NAMES];

const struct capture_descriptor capture_descriptor = {
	.magic = CAPTURE_MAGIC,
	.version = CAPTURE_VERSION,
	.size = sizeof(capture_descriptor),
	.flag = (uintptr_t)&stackwalk_collecting,
	.control = (uintptr_t)&capture_control_pages,
	.names = (uintptr_t)capture_names,
};

void capture_switch_off(void)
{
	__atomic_store_n(&stackwalk_collecting, 0, __ATOMIC_RELAXED);
}

/* Eight or sixteen bytes at a time: no call of a function of libc. */
static inline void copy_words(uint64_t *to, const uint64_t *from, uint32_t n)
{
	typedef long long __attribute__((vector_size(16), aligned(8), may_alias)) pair;
	uint32_t i;

	for (i = 0; i + 2 <= n; i += 2)
		*(pair *)(to + i) = *(const pair *)(from + i);
	if (i < n)
		to[i] = from[i];
}

/* The stack is walked before there is room for it in the ring: see capture_ring.c. */
void capture_record(uint64_t tag, uint64_t value, uint32_t flags, const struct self_regs *from)
{
	uint64_t session = __atomic_load_n(&capture_control.session, __ATOMIC_ACQUIRE);
	uint32_t max = __atomic_load_n(&capture_control.frames_max, __ATOMIC_RELAXED);
	struct capture_ring *ring = capture_thread.ring;
	uint32_t values = flags & CAPTURE_HAS_VALUE ? 1 : 0, n, words;
	uint64_t word[CAPTURE_RECORD_MAX / 8];
	uint64_t position, *to;
	enum walk_end end;

	word[1] = capture_tsc();
	if (__builtin_expect(capture_thread.session != session || !ring, 0)) {
		ring = capture_ring_claim(session);
		if (!ring)
			return;
	}
	if (__builtin_expect(max - 1 >= CAPTURE_FRAMES, 0))
		max = max ? CAPTURE_FRAMES : 1;

	word[2] = tag;
	word[3] = value;
	n = self_walk(from, false, word + 3 + values, max, &end);
	words = 3 + values + n;
	to = capture_ring_reserve(ring, words, &position);
	if (!to)
		return;
	copy_words(to + 1, word + 1, words - 1);
	capture_ring_commit(to, position, words, n, flags, end);
}

/* Named tags */

static bool name_is(const struct capture_name *n, const char *text, uint32_t len)
{
	uint32_t i;

	if (__atomic_load_n(&n->len, __ATOMIC_ACQUIRE) != len)
		return false;
	for (i = 0; i + 1 < len; i++)
		if (n->text[i] != text[i])
			return false;
	return true;
}

/* The bytes of @name that are kept, with the end. */
static uint32_t kept_length(const char *name)
{
	uint32_t n = 0;

	while (n < CAPTURE_NAME_LEN - 1 && name[n])
		n++;
	return n + 1;
}

static void capture_fill(struct capture_name *n, const char *text, uint32_t len)
{
	uint32_t i;

	for (i = 0; i + 1 < len; i++)
		n->text[i] = text[i];
	n->text[i] = '\0';
	__atomic_store_n(&n->len, len, __ATOMIC_RELEASE);
}

/*
 * Two threads that register one name at the same moment may give it two ids: waiting for each other could
 * wait for ever, when one is a signal handler that interrupted the other. A collector joins them by their
 * text.
 */
static uint32_t register_name(const char *name)
{
	uint32_t len = name ? kept_length(name) : 1, i, free = 0;

	for (i = 1; i < CAPTURE_NAMES; i++) {
		struct capture_name *n = &capture_names[i];

		if (name_is(n, name, len))
			return i;
		if (__atomic_load_n(&n->claimed, __ATOMIC_RELAXED))
			continue;
		if (__atomic_compare_exchange_n(&n->claimed, &free, 1, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			capture_fill(n, name, len);
			return i;
		}
		free = 0;
	}
	return NO_ID;
}

void capture_named(struct stackwalk_tag *tag, uint64_t value, uint32_t flags, const struct self_regs *from)
{
	uint32_t id = __atomic_load_n(&tag->id, __ATOMIC_RELAXED);

	if (__builtin_expect(!id, 0)) {
		id = register_name(tag->name);
		__atomic_store_n(&tag->id, id, __ATOMIC_RELAXED);
	}
	capture_record(id == NO_ID ? 0 : id, value, flags, from);
}

/* Stacks that are not recorded */

unsigned int capture_frames(uint64_t *frame, unsigned int max, enum stackwalk_end *why,
			    const struct self_regs *from)
{
	enum walk_end end = WALK_END_DEPTH;
	unsigned int n = max ? self_walk(from, false, frame, max, &end) : 0;

	if (why)
		*why = (enum stackwalk_end)end;
	return n;
}

unsigned int stackwalk_frames_from(const void *ucontext, uint64_t *frame, unsigned int max,
				   enum stackwalk_end *why)
{
	const greg_t *g = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
	struct regs from = { .r = { 0 } };
	enum walk_end end = WALK_END_DEPTH;
	unsigned int n, i;

	for (i = 0; i < 17; i++)
		from.r[ucontext_order[i]] = (uint64_t)g[i];
	n = max ? self_walk_interrupted(&from, frame, max, &end) : 0;

	if (why)
		*why = (enum stackwalk_end)end;
	return n;
}

__attribute__((constructor)) static void setup(void)
{
	capture_ring_setup();
	self_walk_setup();
}
