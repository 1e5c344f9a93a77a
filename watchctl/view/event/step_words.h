/* step_words - how calls and ranges end, in words for people and in names for programs. */
#ifndef WATCHCTL_VIEW_EVENT_STEP_WORDS_H
#define WATCHCTL_VIEW_EVENT_STEP_WORDS_H

#include <stddef.h>

#include "watchctl/trace/event.h"

/* "left by an exception"; NULL: it returned. */
const char *step_how_text(enum return_how how);
const char *step_how_name(enum return_how how); /* "exception" */

/* "its end was reached" */
const char *step_range_text(enum range_what what);
const char *step_range_name(enum range_what what); /* "reached" */

/* "ENOENT", "error 4711" */
void step_error_name(int error, char *buf, size_t cap);

/* "SIGSEGV", "signal 40" */
void step_signal_name(int number, char *buf, size_t cap);

#endif
