/*
 * stackwalk - a tagged stack from any line of a program, exact, in nanoseconds.
 *
 *	#include <stackwalk.h>		cc app.c $(pkg-config --cflags --libs stackwalk)
 *
 *	stackwalk_capture(order_id);
 *	STACKWALK_TAG("cache-miss");
 *
 * records the calling thread's stack, with a time stamp, when somebody collects: `watchctl -p PID --tags`
 * from outside, or the program itself after stackwalk_log_open(). When nobody does, a capture costs a load
 * and a branch. Nothing else happens in the program: no thread, no signal, no file, no lock, no allocation
 * but one mapping for each capturing thread, made at its first recorded capture.
 *
 * Every function here but stackwalk_log_open() and _close() is async-signal-safe, and may be called at any
 * time: before main, in signal handlers, in a thread's first and last moments, after fork, and after exit
 * handlers. None of them changes errno. Usable from C (C99 with GNU extensions) and C++.
 */
#ifndef STACKWALK_STACKWALK_H
#define STACKWALK_STACKWALK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STACKWALK_API __attribute__((visibility("default")))

/* Most frames of a stack: a walk asked for more ends there. */
#define STACKWALK_FRAMES_MAX 128

/* Why a walk ended. After anything but STACKWALK_COMPLETE outer frames may be missing. */
enum stackwalk_end {
	STACKWALK_COMPLETE,	 /* the thread's outermost frame was reached */
	STACKWALK_DEPTH,	 /* as many frames as were asked for */
	STACKWALK_UNREADABLE,	 /* the stack is not mapped there: smashed, or it ends without saying so */
	STACKWALK_NO_RULE,	 /* the code there has no unwind information */
	STACKWALK_NOT_ASCENDING, /* the next frame would lie below this one: smashed, or a switched stack */
};

/* Not 0 while somebody collects. Only to be read, and only by the functions below. */
extern STACKWALK_API uint32_t stackwalk_collecting;

/* A named tag: one static object for each place that has one. */
struct stackwalk_tag {
	const char *name;
	uint32_t id; /* 0: not registered yet */
};

STACKWALK_API void stackwalk_capture(uint64_t tag);
STACKWALK_API void stackwalk_capture_value(uint64_t tag, uint64_t value);
STACKWALK_API void stackwalk_capture_tag(struct stackwalk_tag *tag);
STACKWALK_API void stackwalk_capture_tag_value(struct stackwalk_tag *tag, uint64_t value);

/*
 * The stack of the caller, as return addresses: frame[0] is the place of the call itself. Stores at most
 * @max, and returns how many, at least 1. @why may be NULL. Works whether anybody collects or not.
 */
STACKWALK_API unsigned int stackwalk_frames(uint64_t *frame, unsigned int max, enum stackwalk_end *why);

/*
 * The stack of the code that a signal interrupted: @ucontext is the third argument of a handler installed
 * with SA_SIGINFO, in the thread that runs it. frame[0] is the interrupted instruction, the others are return
 * addresses.
 */
STACKWALK_API unsigned int stackwalk_frames_from(const void *ucontext, uint64_t *frame, unsigned int max,
						 enum stackwalk_end *why);

/*
 * Collects this process's captures into a new log at @path, until stackwalk_log_close() or exit(), with at
 * most
 * @frames frames of each stack (0: 64) and a ring of @buffer bytes for each thread (0: 1 MB; else rounded up
 * to a power of two of 16 KB to 256 MB). 0, or a negative errno (-EEXIST: there is something at @path;
 * -EBUSY: somebody collects already); stackwalk_log_error() then has the reason as a sentence. Starts a
 * thread, which blocks all signals. A child made by fork does not collect; it may open a log of its own.
 */
STACKWALK_API int stackwalk_log_open(const char *path, unsigned int frames, size_t buffer);

/* Writes what is still to be written and closes the log. 0, or a negative errno: the log lacks its end. */
STACKWALK_API int stackwalk_log_close(void);

/* What the last of these two calls that failed in this thread had to say; "" when none did. */
STACKWALK_API const char *stackwalk_log_error(void);

/*
 * In place of the calls: a load and a branch while nobody collects. Macros, so that the first frame is the
 * user's own line. The empty statement behind the call keeps it from being a tail call, which would have no
 * frame at all.
 */
#define STACKWALK_IF_COLLECTING(call)                                                                     \
	do {                                                                                              \
		if (__builtin_expect(__atomic_load_n(&stackwalk_collecting, __ATOMIC_RELAXED) != 0, 0)) { \
			call;                                                                             \
			__asm__ volatile("");                                                             \
		}                                                                                         \
	} while (0)

#define stackwalk_capture(tag)                                                   \
	__extension__({                                                          \
		uint64_t stackwalk_number_ = (tag);                              \
		STACKWALK_IF_COLLECTING((stackwalk_capture)(stackwalk_number_)); \
	})

#define stackwalk_capture_value(tag, value)                                                              \
	__extension__({                                                                                  \
		uint64_t stackwalk_number_ = (tag), stackwalk_value_ = (value);                          \
		STACKWALK_IF_COLLECTING((stackwalk_capture_value)(stackwalk_number_, stackwalk_value_)); \
	})

/* @name: a string literal of at most 119 bytes. The same name is the same tag, wherever it stands. */
#define STACKWALK_TAG(name)                                                      \
	__extension__({                                                          \
		static struct stackwalk_tag stackwalk_tag_ = { "" name, 0 };     \
		STACKWALK_IF_COLLECTING(stackwalk_capture_tag(&stackwalk_tag_)); \
	})

#define STACKWALK_TAG_VALUE(name, value)                                                                 \
	__extension__({                                                                                  \
		static struct stackwalk_tag stackwalk_tag_ = { "" name, 0 };                             \
		uint64_t stackwalk_value_ = (value);                                                     \
		STACKWALK_IF_COLLECTING(stackwalk_capture_tag_value(&stackwalk_tag_, stackwalk_value_)); \
	})

#ifdef __cplusplus
}
#endif

#endif
