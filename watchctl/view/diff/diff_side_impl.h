/* diff_side_impl - what loading one side of a diff shares. Inside of diff_side*.c. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_SIDE_IMPL_H
#define WATCHCTL_VIEW_DIFF_DIFF_SIDE_IMPL_H

#include "watchctl/view/diff/diff_side.h"
#include "watchctl/view/diff/diff_unset.h"

struct open_call {
	uint64_t call;
	uint64_t path;	/* hash of the calls from the outermost one to here */
	uint32_t index; /* NO_CALL: left out */
	uint32_t function;
	uint32_t ordinal; /* of one that creates threads: how many at this path there were before, plus 1;
			     else 0 */
	uint32_t outer;	  /* its index among the side's outer + 1, once it is one */
	uint64_t at;	  /* position in the log */
	uint64_t sp;	  /* at entry */
	uint64_t exact;	  /* of what of its subtree has ended, as in struct diff_inner */
	uint32_t shape, weak;
	bool in_signals; /* its place is among the signals of the thread */
	bool left_out;	 /* with all that it calls */
	bool begins_scope;
};

#define DIFF_PROGRESS_EVENTS 256u /* progress is told each so many */

#define CLOSED_CALLS 64u /* a thread is seen a little later than it was created */

struct closed_call {
	uint64_t call, path;
	uint32_t ordinal;
};

struct loading_thread {
	int32_t tid, creator;
	uint64_t creating_call;
	struct diff_thread *main, *signals;
	struct open_call *open;
	size_t nopen, open_cap;
	struct closed_call closed[CLOSED_CALLS]; /* the last ones */
	uint32_t nclosed;
	bool inside;   /* of the scope */
	bool any_time; /* the last signal was one that comes at any time */
};

#define KIND_CACHE 1024u /* a power of 2 */

struct loader {
	struct diff_side *s;
	const struct diff_scope *scope;
	struct map64 threads; /* tid -> struct loading_thread */
	struct loading_thread **all, *last;
	size_t nall, all_cap;
	struct map64 created;	/* group of threads -> how many, as the value's bits */
	struct map64 creating;	/* path of calls that create threads -> how many, likewise */
	struct map64 allocated; /* path -> how many, likewise */
	struct map64 signals;	/* number -> index of its function + 1 */
	struct map64 kinds;	/* hash of a kind and its function -> its index + 1 */
	struct {
		uint64_t site;
		uint32_t function, kind; /* index + 1; 0: none */
	} known[KIND_CACHE];
	struct diff_tokens tokens;
	struct diff_unset unset;
	bool is_unset[DIFF_UNSET_MAX];
	/* Of compact calls: */
	struct thread_event *told; /* all threads, with names of their own */
	size_t ntold, told_cap;
	uint64_t start; /* identity of the function that the thread which begins calls first; 0: not known */
};

/* NULL: no memory. */
struct loading_thread *diff_loading_thread(struct loader *l, int32_t pid, int32_t tid);

/* A thread, or another name of one that is known. */
struct wc_error *diff_load_thread(struct loader *l, const struct thread_event *e);

/* diff_side_compact.c. Opens l->s->compact, if the log has such calls; the rest is for those. */
struct wc_error *diff_load_compact_open(struct loader *l);
void diff_load_compact_deinit(struct loader *l);
/* An event of the log itself. */
struct wc_error *diff_load_compact_tell(struct loader *l, const struct trace_event *e);
/* Takes the calls that happened before @before_ns, up to the first gap. */
struct wc_error *diff_load_compact(struct loader *l, uint64_t before_ns);
/* All has been read. */
void diff_load_compact_finish(struct diff_side *s);

/* diff_side_calls.c */
struct wc_error *diff_load_call(struct loader *l, const struct call_event *e, uint64_t at);
struct wc_error *diff_load_return(struct loader *l, const struct return_event *e, uint64_t at);
struct wc_error *diff_load_signal(struct loader *l, const struct signal_event *e, uint64_t at);
struct wc_error *diff_load_finish(struct loader *l);

/*
 * diff_side_unset.c: of the call that comes next in @d, what its parameter @param points to: keeps what of it
 * may be unset, for the next value of l->tokens, and for diff_side_unset(). False: no memory.
 */
bool diff_load_unset(struct loader *l, const struct loading_thread *t, struct diff_thread *d,
		     const struct diff_type *type, uint32_t param, const struct call_value *v);

/* diff_side_functions.c */
/* The same in both logs. @program: as of diff_module_name(). False: no memory. */
bool diff_function_identity(const struct function_event *e, bool by_name, const char *program, uint64_t *ret);
struct wc_error *diff_load_function(struct loader *l, const struct function_event *e);
/* Of something that is no function; *@ret: its index. */
struct wc_error *diff_load_pseudo_function(struct loader *l, const char *name, uint32_t *ret);
void diff_function_deinit(struct diff_function *f);

#endif
