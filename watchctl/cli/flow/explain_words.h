/* explain_words - an explanation in sentences. All texts are clean UTF-8 without control characters. */
#ifndef WATCHCTL_CLI_FLOW_EXPLAIN_WORDS_H
#define WATCHCTL_CLI_FLOW_EXPLAIN_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/flow/explain/explanation.h"

#define WORDS_WHO 96
#define WORDS_TEXT 1024
#define WORDS_SENTENCE 4096

/* As formats for programs name them: "deadlock", "likely_deadlock" ...; "lock", "condition" ...; "threads", "nobody" ... */
const char *explain_verdict_name(enum verdict v);
const char *explain_kind_name(enum wait_kind kind);
const char *explain_ender_name(enum wait_ender ender);

/* "app (1234)"; of one of several threads "thread 1240 (worker) of app (1234)". */
void explain_who(const struct explained *x, char *buf, size_t cap);

/* The innermost function that is not the C library's or the loader's, without parameters. False: not known. */
bool explain_function(const struct look_thread *t, char *buf, size_t cap);

/* One sentence: what the process does, and why it does not go on. */
void explain_sentence(const struct explanation *e, char *buf, size_t cap);

/* Of one culprit, a clause: "it holds the mutex table_lock, which 3 threads wait for, and sleeps". */
void explain_why(const struct explanation *e, const struct culprit *c, char *buf, size_t cap);

/* Between two of a chain, how it is known: the evidence of the wait, and what names the other one. */
void explain_evidence(const struct explanation *e, size_t from, size_t to, char *buf, size_t cap);

#endif
