/*
 * layout - the mappings of a process. They are read while it runs, because reading many thousands of them takes
 * long, and no thread should be stopped for that time. Later steps with a stopped thread must allow for mappings
 * that other threads have changed since.
 */
#ifndef WATCHCTL_TARGET_PROC_LAYOUT_H
#define WATCHCTL_TARGET_PROC_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct layout;

/* NULL: it cannot be read, or there is no memory. */
struct layout *layout_read(pid_t pid);
void layout_free(struct layout *l);

/* The main stack has not grown since. Cheap. */
bool layout_is_current(const struct layout *l);

/* Where the main stack lies; both 0 where there is none. */
void layout_main_stack(const struct layout *l, uint64_t *start, uint64_t *end);

/*
 * Whether @sp is on the stack of a thread that a C library made: one with a guard below it, and with the
 * thread's own data, to which @tls points, on top. *ret: where that stack begins.
 */
bool layout_thread_stack(const struct layout *l, uint64_t sp, uint64_t tls, uint64_t *ret);

/* Whether @sp is in memory with a guard below it, as stacks are. *ret: where that memory begins. */
bool layout_guarded(const struct layout *l, uint64_t sp, uint64_t *ret);

/* Nothing was mapped in [start, end). */
bool layout_is_free(const struct layout *l, uint64_t start, uint64_t end);

#endif
