/*
 * kernel_flow - the system's events out of the kernel, as words of flow_format.h, by BPF programs at its tracepoints (flow.bpf.c).
 * Needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF, 5.18 or later. With us the programs go.
 */
#ifndef WATCHCTL_FLOW_KERNEL_KERNEL_FLOW_H
#define WATCHCTL_FLOW_KERNEL_KERNEL_FLOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/kernel/flow_wire.h"

struct kernel_flow;

struct kernel_flow_ask {
	enum flow_scope scope; /* whose system calls' returns; all else is of all threads */
	const pid_t *pid; /* FLOW_SCOPE_PROCESSES: these; children that they have from now on are added */
	size_t npids;
	const char *cgroup;  /* FLOW_SCOPE_CGROUP: a directory of cgroup2 */
	uint32_t ring_bytes; /* of each CPU, a power of two; 0: 64M for all, from 256K to 8M for each */
};

/* WC_EPERM, WC_ENOTSUP, WC_EUSAGE: no such cgroup. Nothing is recorded yet. */
struct wc_error *kernel_flow_open(const struct kernel_flow_ask *ask, struct kernel_flow **ret);
void kernel_flow_close(struct kernel_flow *k); /* accepts NULL */
void kernel_flow_closep(struct kernel_flow **k);

/* One more process whose system calls are wanted, of FLOW_SCOPE_PROCESSES. WC_EFAIL. */
struct wc_error *kernel_flow_add(struct kernel_flow *k, pid_t pid);

/* A list of all for which this kernel has no tracepoint, as "block I/O, io_uring"; NULL: it has them all. */
const char *kernel_flow_missing(const struct kernel_flow *k);

unsigned int kernel_flow_cpus(const struct kernel_flow *k);
uint64_t kernel_flow_salt(const struct kernel_flow *k); /* see flow_key() */

/* Events from now on. WC_EFAIL. */
struct wc_error *kernel_flow_start(struct kernel_flow *k);

/* Takes @n words of whole events of @cpu, which are valid until it returns. An error ends the reading. */
typedef struct wc_error *(*kernel_flow_take)(void *ctx, uint32_t cpu, const uint32_t *word, size_t n);

/* Hands over what has come. *@fullest: the share of the fullest ring that was in use, 0 to 1; may be NULL. */
struct wc_error *kernel_flow_read(struct kernel_flow *k, kernel_flow_take take, void *ctx, double *fullest);

/* No more events; the rest can be read, once, with what was lost at the end. */
void kernel_flow_stop(struct kernel_flow *k);

/* Events that the kernel did not give to the programs, as these were running already on that CPU. */
uint64_t kernel_flow_missed(const struct kernel_flow *k);

#endif
