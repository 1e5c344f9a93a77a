/*
 * page_tables - what many accesses share, once each: threads, frames, stacks, and the combinations of these
 * with a place in the code. Each table has a bound; what does not fit is PAGE_REST.
 */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_TABLES_H
#define WATCHCTL_VIEW_PAGE_PAGE_TABLES_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

#define PAGE_REST UINT32_MAX

#define PAGE_THREADS 5000u
#define PAGE_FRAMES 100000u
#define PAGE_STACKS 20000u
#define PAGE_STACK_FRAMES 600000u /* of all stacks */
#define PAGE_COMBOS 150000u

struct page_thread {
	int32_t pid, tid;
	char *comm; /* the last one reported; NULL: unknown */
	uint64_t accesses, captures;
};

struct page_stack {
	uint32_t first, n; /* in frame_of_stack */
	enum walk_end end;
};

/* What is equal in many accesses or captures. */
struct page_combo {
	bool capture;
	uint32_t place; /* number of the site, or id of the tag */
	uint32_t thread, stack;
	uint64_t n;
};

struct page_tables {
	struct page_thread *thread;
	size_t nthreads, thread_cap;
	struct view_frame *frame; /* function, file and module live as long as the symbolizer */
	size_t nframes, frame_cap;
	struct page_stack *stack;
	size_t nstacks, stack_cap;
	uint32_t *frame_of_stack;
	size_t nstack_frames, stack_frames_cap;
	struct page_combo *combo;
	size_t ncombos, combo_cap;
	struct map64 thread_index, frame_index, stack_index, combo_index; /* hash or key -> number + 1 */
	/* Accesses and captures of such; of combinations: that are distinguished by their place alone. */
	uint64_t threads_left_out, stacks_left_out, combos_left_out;
};

/* Each gives a number, or PAGE_REST where there is no room; *@ok becomes false for lack of memory. */
uint32_t page_thread(struct page_tables *t, int32_t pid, int32_t tid, const char *comm, bool *ok);
uint32_t page_stack(struct page_tables *t, const struct view_frame *frame, size_t n, enum walk_end end,
		    bool *ok);

/* Counts one, too. @c: with n 0. Never PAGE_REST, but for lack of memory. */
uint32_t page_combo(struct page_tables *t, const struct page_combo *c, bool *ok);

void page_tables_deinit(struct page_tables *t);

#endif
