/*
 * inspect - looks at a live process from outside, as a debugger's print and x do: what its variables hold,
 * and its memory. Only reads, and stops nothing: the program may change a value while it is read.
 */
#ifndef WATCHCTL_MONITOR_INSPECT_INSPECT_H
#define WATCHCTL_MONITOR_INSPECT_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/locate/names.h"

struct inspect;

/*
 * Errors: as of proc_check(). What is read of the program's files is kept, so that only the first question
 * waits for it.
 */
struct wc_error *inspect_open(pid_t pid, struct inspect **ret);

/* Accepts NULL. */
void inspect_close(struct inspect *i);

/*
 * The value of @expr, for people; *@ret is the caller's to free.
 *
 *	expr	= what locate() understands, or "&" and that, for its address; and then [ ("+" | "-") number
 *], in elements, as in C
 *
 * @format: 0, as its type says; or one of "xduotacfs". Errors as of show_value(); WC_ETARGET: the process has
 * ended.
 */
struct wc_error *inspect_print(struct inspect *i, const char *expr, char format, char **ret);

/* How memory is shown, and where it goes on: what gdb's x keeps from one time to the next. */
struct examine {
	unsigned int count;
	enum insn_syntax syntax;
	char format;   /* "xduotacfsi" */
	char size;     /* 'b', 'h', 'w', 'g': 1, 2, 4, 8 bytes */
	bool has_next; /* false: nothing was shown yet */
	uint64_t next; /* behind what was shown */
};

#define EXAMINE_MAX 65536u

/*
 * Takes "4xw", "s", "2gx" ... into @x, which keeps the format and size that are not given; the count
 * becomes 1. WC_EUSAGE.
 */
struct wc_error *examine_parse(const char *text, struct examine *x);

/*
 * The memory at @expr (as above; a number is an address, a pointer where it leads, an array, a structure or a
 * function where it is), or behind the last one with NULL. *@ret has a line or more, each ended; what cannot
 * be read ends it, with an error only if there is nothing before it.
 */
struct wc_error *inspect_examine(struct inspect *i, struct examine *x, const char *expr, char **ret);

/* As names_find(). */
struct wc_error *inspect_names(struct inspect *i, const char *prefix, enum names_of what, size_t most,
			       bool (*each)(void *ctx, const char *name), void *ctx);

/* Its files, with where they lie: lines for people. *@ret is the caller's to free. */
struct wc_error *inspect_modules(struct inspect *i, char **ret);

/* Its threads: number, name and state. */
struct wc_error *inspect_threads(struct inspect *i, char **ret);

#endif
