/*
 * error - failures that callers can only pass on.
 *
 * A function that can fail returns `struct wc_error *`: NULL is success, anything else is
 * owned by the receiver, who passes it up (with more context), or prints and frees it. The
 * sentence in it says what failed, why, and what to try. The kind chooses the exit code of
 * the process, so it is a promise to scripts: see watchctl(1), EXIT STATUS.
 */
#ifndef WATCHCTL_BASE_ERROR_H
#define WATCHCTL_BASE_ERROR_H

#include <stdarg.h>

/* The values are the exit codes. 0 is success, 1 is WC_EFAIL. */
enum wc_kind {
	WC_EFAIL = 1,	/* something failed that has no code of its own */
	WC_EUSAGE = 2,	/* the command line, or an expression in it, is wrong */
	WC_ETARGET = 3, /* no such process, kernel thread, zombie, or it ended too early */
	WC_EPERM = 4,	/* not permitted: what would permit it is in the message */
	WC_ENAME = 5,	/* a name is unknown, ambiguous, optimised out, or has no address */
	WC_ESLOTS = 6,	/* no free debug register */
	WC_ENOTSUP = 7, /* this machine, kernel or target cannot do it safely */
	WC_ELOG = 8,	/* a log cannot be written, or read, or is corrupt */
};

struct wc_error {
	enum wc_kind kind;
	int sys_errno; /* 0 where no system call failed */
	char *text; /* one sentence or more, no final newline; fit for a terminal, whatever names are in it */
};

/* The one error that needs no memory. Never freed; wc_error_free() knows it. */
extern struct wc_error wc_enomem;

struct wc_error *wc_error_new(enum wc_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* As above, and ": strerror(sys_errno)" is appended. */
struct wc_error *wc_error_errno(enum wc_kind kind, int sys_errno, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), returns_nonnull));

/* Puts "context: " before the text of @err. Takes @err, returns it (or wc_enomem). */
struct wc_error *wc_error_context(struct wc_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* Appends " (hint)" to the text of @err. Takes @err, returns it (or wc_enomem). */
struct wc_error *wc_error_hint(struct wc_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* Of two errors, or NULLs, in the order in which they came: the first; the later one is freed if it is not
 * that. */
struct wc_error *wc_error_first(struct wc_error *first, struct wc_error *later);

/* Accepts NULL and &wc_enomem. */
void wc_error_free(struct wc_error *err);

/* For scoped(wc_error_freep). */
static inline void wc_error_freep(struct wc_error **err)
{
	wc_error_free(*err);
}

#endif
