/*
 * perf_guard - keeps our SIGTRAPs from a program that has replaced our handler: see guard.bpf.c.
 * Needs the right to load BPF programs (root, or CAP_BPF and CAP_PERFMON) and Linux 6.11.
 */
#ifndef WATCHCTL_ENGINE_PERF_GUARD_H
#define WATCHCTL_ENGINE_PERF_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct perf_guard;

/*
 * Loads the guard, and tries on ourselves whether this kernel obeys it. NULL: not to be had; *why
 * then says what is missing, a phrase.
 */
struct perf_guard *perf_guard_open(uint64_t handler, const char **why);
void perf_guard_close(struct perf_guard *g); /* accepts NULL */

/* Puts it on a breakpoint event; threads that inherit the event inherit it. False: refused. */
bool perf_guard_attach(const struct perf_guard *g, int perf_fd);

/* Hits whose signal was not made because the handler was not ours. */
uint64_t perf_guard_suppressed(const struct perf_guard *g); /* NULL: 0 */

#endif
