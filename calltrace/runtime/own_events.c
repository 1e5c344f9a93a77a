#include "calltrace/runtime/own_events.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "calltrace/abi.h"
#include "calltrace/calltrace.h"
#include "calltrace/runtime/memory_layout.h"
#include "calltrace/runtime/thread.h"
#include "watchctl/trace/event.h"

#define PUBLIC __attribute__((visibility("default")))

#define PLACE_FACTOR 0x9e3779b1u /* 2^32 divided by the golden ratio: spreads places over the high bits */
#define PLACE_MASK (~0u << CALLTRACE_EVENT_PLACE_SHIFT)

static struct event_type_text types[CALLTRACE_EVENT_TYPES];
static atomic_uint ntypes;
static uint8_t is_on;

extern __thread struct calltrace_slot *__calltrace_at
	__attribute__((visibility("default"), tls_model("initial-exec")));

const struct event_type_text *own_events_table(uint64_t *used)
{
	*used = (uintptr_t)&ntypes;
	return types;
}

int own_events_add(const char *name, const char *format, bool *is_new)
{
	unsigned int i;

	*is_new = false;
	format = format ? format : PROBE_SOURCE_FORMAT;
	if (!name || !*name || strnlen(name, EVENT_TEXT_MAX + 1) > EVENT_TEXT_MAX ||
	    strnlen(format, EVENT_TEXT_MAX + 1) > EVENT_TEXT_MAX)
		return -EINVAL;
	for (i = 0; i < ntypes; i++)
		if (!strcmp(types[i].name, name) && !strcmp(types[i].format, format))
			return (int)i;
	if (i == CALLTRACE_EVENT_TYPES)
		return -ENOSPC;
	types[i].name = strdup(name);
	types[i].format = strdup(format);
	if (!types[i].name || !types[i].format) {
		free(types[i].name);
		free(types[i].format);
		types[i] = (struct event_type_text){ 0 };
		return -ENOMEM;
	}
	*is_new = true;
	atomic_store(&ntypes, i + 1);
	return (int)i;
}

bool own_events_get(unsigned int type, const char **name, const char **format)
{
	if (type >= ntypes)
		return false;
	*name = types[type].name;
	*format = types[type].format;
	return true;
}

void own_events_switch(bool on)
{
	__atomic_store_n(&is_on, on, __ATOMIC_SEQ_CST);
}

/* Takes the next slot of the thread and writes it, as functions of the program do. */
static inline void put_slot(uint32_t what, uint64_t tsc, uint32_t frame)
{
	uint64_t at = sizeof(struct calltrace_slot);
	struct calltrace_slot *slot;

	__asm__ volatile("xaddq %0, %1" : "+r"(at), "+m"(__calltrace_at) : : "cc");
	slot = (struct calltrace_slot *)at;
	slot->tsc = tsc;
	slot->frame = frame;
	__atomic_store_n(&slot->what, what, __ATOMIC_RELEASE);
	if (__builtin_expect((uintptr_t)(slot + 1) % CALLTRACE_CHUNK == 0, 0))
		calltrace_turn(what, frame);
}

PUBLIC void calltrace_event(int type, uint64_t first, uint64_t second)
{
	const uint32_t place = (uint32_t)((uintptr_t)__builtin_frame_address(0) >> 4);
	uint32_t key;

	if (__builtin_expect(!__atomic_load_n(&is_on, __ATOMIC_RELAXED), 1))
		return;
	if ((unsigned int)type >= atomic_load_explicit(&ntypes, memory_order_relaxed))
		return;
	key = (uint32_t)type << CALLTRACE_EVENT_KEY_SHIFT | ((place * PLACE_FACTOR) & PLACE_MASK);
	put_slot(key | CALLTRACE_EVENT, __rdtsc(), (uint32_t)first);
	put_slot(key | CALLTRACE_EVENT_REST, second, (uint32_t)(first >> 32));
}
