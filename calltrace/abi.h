/*
 * abi - what the pass puts into a program, and the runtime finds there: the contract between the two, for x86-64 ELF.
 *
 * Every instrumented function has a record, in the section CALLTRACE_SECTION of the executable or library it is in. The
 * linker makes one table of them, which lies between __start_ and __stop_ of that section. Each such module has, hidden,
 *
 *	i8 __calltrace_on	0: nothing is recorded. Loaded at each entry and exit, before any relocation is needed
 *	a constructor		__calltrace_register(), and a destructor, __calltrace_unregister()
 *
 * At an entry or exit, with __calltrace_on set, a function takes the next slot of its thread,
 *
 *	slot = xadd(__calltrace_at, sizeof(struct calltrace_slot))	one instruction: a signal may come before or after it
 *	slot->tsc = rdtsc; slot->frame; slot->what			`what` last: until then the slot is unwritten
 *	if ((slot + 1) % CALLTRACE_CHUNK == 0) __calltrace_turn()
 *
 * __calltrace_at is thread local, of the initial-exec model. A new thread's is the last slot of a chunk that all new
 * threads share and nobody reads: its first event makes its first turn, and is lost in it but for what the turn knows
 * (the words of its caller are passed on).
 */
#ifndef CALLTRACE_ABI_H
#define CALLTRACE_ABI_H

#include <stdint.h>

#define CALLTRACE_SECTION "calltrace_functions"
#define CALLTRACE_CHUNK 65536u /* bytes; a power of two: chunks are aligned to it */

/* The low bits of calltrace_slot.what; the others are those of the record's address. */
enum calltrace_kind {
	CALLTRACE_ENTRY = 1,
	CALLTRACE_EXIT = 2,
	/* It leaves by a call of a traced function that the compiler may make a jump of. If it did, the thread's next event
	 * is the entry of that function with the same frame: it runs in place of the one that has left. */
	CALLTRACE_TAIL = 3,
	CALLTRACE_UNWIND = 4, /* it is left by an exception that goes on */
	/* `tsc` is a value: behind an entry that of a parameter, whose number, from 0, is `frame`; before an exit that of
	 * the result. Bytes beyond the size of its type are not defined. */
	CALLTRACE_VALUE = 5,
	CALLTRACE_RESULT = 6,
	/* The program's own event, in two slots, of which a signal handler may put others between: see below. */
	CALLTRACE_EVENT = 16,
	CALLTRACE_EVENT_REST = 17,
	/*
	 * Of __calltrace_memory(), behind the values at an entry, or the result before an exit: what one of them points to.
	 * `tsc` says how many bytes there are, in bits 0 to 15, and enum calltrace_memory_state, in bits 16 to 23; others
	 * are 0. `frame` is the number of the parameter, or CALLTRACE_NUMBER_RESULT. As many slots of the bytes follow as
	 * they take, CALLTRACE_PIECE in each: the first 8 are `tsc`, the others `frame`.
	 */
	CALLTRACE_MEMORY = 18,
	CALLTRACE_BYTES = 19,
};

#define CALLTRACE_MEMORY_MAX 1024u /* bytes that one pointer shows */
#define CALLTRACE_MEMORY_SUM 4096u /* those that all parameters of a function show */
#define CALLTRACE_PIECE 12u
#define CALLTRACE_NUMBER_RESULT 255u

/* As enum value_state of watchctl/trace/call_values.h. */
enum calltrace_memory_state {
	CALLTRACE_MEMORY_WHOLE = 0,
	CALLTRACE_MEMORY_UNREADABLE = 2,
	CALLTRACE_MEMORY_CUT = 3, /* there is more, or what is behind them cannot be read */
};

#define CALLTRACE_INLINED 8u /* with CALLTRACE_ENTRY: into the function whose frame it has */

#define CALLTRACE_KIND_MASK 31u

/*
 * `what` of the two slots of an event of the program's own (calltrace_event()) has no record, but
 *
 *	bit 0 to 4	CALLTRACE_EVENT: `frame` is the low half of the first payload;
 *			CALLTRACE_EVENT_REST: `tsc` is the second payload, `frame` the high half of the first one
 *	bit 5 to 14	its type
 *	bit 15 to 31	the place of the stack at which it is recorded, as a hash: by it the two find each other when
 *			code that has interrupted the thread records events between them, or goes on elsewhere
 */
#define CALLTRACE_EVENT_TYPES 1024u
#define CALLTRACE_EVENT_KEY_SHIFT 5
#define CALLTRACE_EVENT_PLACE_SHIFT 15

_Static_assert(CALLTRACE_EVENT_TYPES << CALLTRACE_EVENT_KEY_SHIFT == 1u << CALLTRACE_EVENT_PLACE_SHIFT,
	       "a type and a place fill `what`");

struct calltrace_slot {
	uint64_t tsc;
	uint32_t what; /* the low half of the record's address, and enum calltrace_kind; 0: not written yet */
	uint32_t frame; /* the low half of the address at which the function's return address lies */
};

_Static_assert(sizeof(struct calltrace_slot) == 16, "the pass computes with it");

/* A function. Offsets are relative to their own address. */
struct calltrace_function {
	uint64_t id;	 /* the same in every build of the same source: its module's half, and its own */
	int32_t address; /* of its first instruction; 0: it has none, being inlined everywhere */
	int32_t name;	 /* linkage name, NUL-terminated */
	int32_t file;	 /* 0: not known */
	uint32_t line;	 /* 0: not known */
	uint32_t insns;	 /* IR instructions, before the pass */
	int32_t signature; /* text (watchctl/trace/calls/signature_text.h), of one whose values are recorded; 0: none */
} __attribute__((aligned(32)));

_Static_assert(sizeof(struct calltrace_function) == CALLTRACE_KIND_MASK + 1,
	       "its address has room for a kind");

/* As the module was compiled. Those of the first one that is registered hold for the process. */
enum calltrace_module_flags {
	CALLTRACE_STARTS_OFF =
		1,	       /* nothing is recorded until calltrace_enable(), as with CALLTRACE_ENABLE=0 */
	CALLTRACE_WAITS = 2,   /* no log is made until calltrace_initialize() */
	CALLTRACE_NO_TIME = 4, /* its slots have no time, but 0: the order is known */
};

/*
 * From a module's constructor and destructor: the table of its functions, the byte that turns it on, and flags of enum
 * calltrace_module_flags. Not async-signal-safe. Never fails for the caller: what cannot be recorded stays off, and the
 * log says so.
 */
void __calltrace_register(const struct calltrace_function *begin, const struct calltrace_function *end,
			  uint8_t *on, uint32_t flags);
void __calltrace_unregister(const struct calltrace_function *begin);

/*
 * The slot behind which the chunk ends has been written: @what and @frame are its. Written in assembly: preserves all
 * registers, vector registers too (the convention preserve_all of LLVM, in which r11 need not be), but takes @what in edi
 * and @frame in esi.
 */
void __calltrace_turn(uint32_t what, uint32_t frame);

/* With __calltrace_memory(): @bytes at most, up to a NUL, which is not counted. */
#define CALLTRACE_STRING 0x10000u

/*
 * Records @bytes, 1 to CALLTRACE_MEMORY_MAX, at @at, to which parameter @number of @f points, or its result. Memory that
 * cannot be read is said to be that, and does no harm. An ordinary function, async-signal-safe, which leaves errno alone.
 */
void __calltrace_memory(const struct calltrace_function *f, uint64_t at, uint32_t bytes, uint32_t number);

#endif
