/*
 * traced - does by hand what the pass makes a program do (calltrace/abi.h), for programs of one source file: its
 * functions are named, and their events, with frames that are chosen or real.
 */
#ifndef TESTS_UNIT_CALLTRACE_TRACED_H
#define TESTS_UNIT_CALLTRACE_TRACED_H

#include <stdbool.h>
#include <stdint.h>

#include "calltrace/abi.h"

/* Functions get numbers in the order in which they stand in the source. */
#define TRACED_FUNCTION(name, flags)                                                                                     \
	extern const struct calltrace_function record_##name __attribute__((visibility("hidden")));                      \
	__asm__(".pushsection " CALLTRACE_SECTION ",\"a\",@progbits\n"                                                   \
		"\t.p2align 5\n"                                                                                         \
		"record_" #name ":\n"                                                                                    \
		"\t.quad 1\n\t.long main - .\n\t.long 771f - .\n\t.long 772f - .\n\t.long 7\n\t.long 3\n\t.long " #flags \
		"\n"                                                                                                     \
		".popsection\n"                                                                                          \
		".pushsection .rodata\n771:\t.asciz \"" #name                                                            \
		"\"\n772:\t.asciz \"victim.c\"\n.popsection\n")

extern const struct calltrace_function __start_calltrace_functions[] __attribute__((visibility("hidden")));
extern const struct calltrace_function __stop_calltrace_functions[] __attribute__((visibility("hidden")));

static uint8_t traced_on;

#ifndef TRACED_FLAGS
#define TRACED_FLAGS 0
#endif

__attribute__((constructor)) static void traced_begin(void)
{
	__calltrace_register(__start_calltrace_functions, __stop_calltrace_functions, &traced_on,
			     TRACED_FLAGS);
}

__attribute__((destructor)) static void traced_end(void)
{
	__calltrace_unregister(__start_calltrace_functions);
}

static inline struct calltrace_slot *traced_take(void)
{
	uint64_t at = sizeof(struct calltrace_slot), variable;

	__asm__ volatile("movq __calltrace_at@gottpoff(%%rip), %1\n\t"
			 "xaddq %0, %%fs:(%1)"
			 : "+r"(at), "=&r"(variable)
			 :
			 : "memory");
	return (struct calltrace_slot *)at;
}

/* Past the red zone. */
static inline void traced_turn(uint32_t what, uint32_t frame)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "call __calltrace_turn\n\t"
			 "leaq 128(%%rsp), %%rsp"
			 :
			 : "D"(what), "S"(frame)
			 : "r11", "memory", "cc");
}

static inline bool traced_is_last(const struct calltrace_slot *slot)
{
	return (uintptr_t)(slot + 1) % CALLTRACE_CHUNK == 0;
}

static inline uint32_t traced_what(enum calltrace_kind kind, const struct calltrace_function *f)
{
	return (uint32_t)(uintptr_t)f | kind;
}

static inline void traced_write(struct calltrace_slot *slot, uint32_t what, uint32_t frame)
{
	slot->tsc = __builtin_ia32_rdtsc();
	slot->frame = frame;
	__atomic_store_n(&slot->what, what, __ATOMIC_RELEASE);
}

static inline void traced_event(enum calltrace_kind kind, const struct calltrace_function *f, uint32_t frame)
{
	const uint32_t what = traced_what(kind, f);
	struct calltrace_slot *slot;

	if (!*(volatile uint8_t *)&traced_on)
		return;
	slot = traced_take();
	traced_write(slot, what, frame);
	if (traced_is_last(slot))
		traced_turn(what, frame);
}

#define ENTER(name, frame) traced_event(CALLTRACE_ENTRY, &record_##name, frame)
#define ENTER_INLINED(name, frame) \
	traced_event((enum calltrace_kind)(CALLTRACE_ENTRY | CALLTRACE_INLINED), &record_##name, frame)
#define LEAVE(name, frame) traced_event(CALLTRACE_EXIT, &record_##name, frame)
#define TAIL(name, frame) traced_event(CALLTRACE_TAIL, &record_##name, frame)

/* That of the function it stands in. */
#define OWN_FRAME ((uint32_t)(uintptr_t)__builtin_frame_address(0) + 8)

#endif
