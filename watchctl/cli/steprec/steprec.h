/*
 * steprec - a recording inside an interactive LLDB: what the steprec commands do, without LLDB's command
 * interpreter (lldb_shim_plugin.cc). The recorder is the one of `watchctl step`
 * (watchctl/step/model/step_session.h), moved by the LLDB stepper on the process that the user has.
 */
#ifndef WATCHCTL_CLI_STEPREC_STEPREC_H
#define WATCHCTL_CLI_STEPREC_STEPREC_H

#include <stdio.h>

#include "watchctl/step/lldb/lldb_shim.h"
#include "watchctl/step/lldb/lldb_shim_process.h"
#include "watchctl/step/model/step_session.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STEPREC_PATTERNS 32u

/* The options of `steprec start`. Strings are owned. */
struct steprec_options {
	struct step_request request; /* its lists point to the arrays below */
	char *from, *to, *log;
	uint64_t time_ns;
	char *only[STEPREC_PATTERNS + 1], *modules[STEPREC_PATTERNS + 1], *over[STEPREC_PATTERNS + 1],
		*into[STEPREC_PATTERNS + 1], *skip[STEPREC_PATTERNS + 1];
};

/* @argv: the words after `steprec start`, as many as @argc. @ret must not move afterwards. WC_EUSAGE. */
struct wc_error *steprec_options_parse(int argc, char *const argv[], struct steprec_options *ret);
void steprec_options_deinit(struct steprec_options *o);

/* The options, one a line, with what they mean. Constant. */
const char *steprec_options_help(void);

/* Whoever has the user's attention; @wants_out: he has pressed Ctrl-C. */
struct steprec_user {
	void (*say)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	bool (*wants_out)(void *ctx);
	void (*look_around)(void *ctx); /* about five times a second */
	void *ctx;
};

struct steprec;

/*
 * @o, @p and @s outlive the recording; @p stands still. Without a name for the log in @o, one is made. On an
 * error no log is left.
 */
struct wc_error *steprec_open(const struct steprec_options *o, struct lldb_process *p, struct lldb_session *s,
			      struct steprec_user user, struct steprec **ret);

/* Lets the program run until the recording is over or pauses. */
struct wc_error *steprec_run(struct steprec *r);

/* Ends it where it is. Without effect on one that is over. */
struct wc_error *steprec_finish(struct steprec *r);

/* The process is still there to be used. False: it has ended, or its recording is over. */
bool steprec_is_paused(const struct steprec *r);

/* In words, with final newlines; malloc'd, NULL: no memory. */
char *steprec_status(const struct steprec *r);

/* The last @n lines of the log as text; malloc'd. */
struct wc_error *steprec_show(const char *log, unsigned int n, char **ret);

/* Where it is recorded; lives as long as the recording. */
const char *steprec_log(const struct steprec *r);

/* Closes the log. Accepts NULL. */
struct wc_error *steprec_close(struct steprec *r);

#ifdef __cplusplus
}
#endif

#endif
