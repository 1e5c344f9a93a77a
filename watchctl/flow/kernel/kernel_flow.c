#include "watchctl/flow/kernel/kernel_flow.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "flow.skel.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/flow/kernel/flow_calls.h"
#include "watchctl/trace/flow/flow_format.h"

#define ALL_RINGS (64u << 20)
#define RING_LEAST (256u << 10)
#define RING_MOST (8u << 20)

struct kernel_flow {
	struct flow_bpf *bpf;
	unsigned int cpus;
	uint64_t ring_bytes; /* of the words */
	uint8_t *rings;	     /* mapped, those of all CPUs */
	size_t mapped;
	uint32_t *wrapped; /* what goes over the end of a ring, in one piece */
	uint64_t salt;
	char missing[256];
	bool is_stopped;
};

/* The purpose of each tracepoint that a kernel may lack; all others are needed. */
static const struct {
	const char *tracepoint, *what;
} optional[] = {
	{ "hrtimer_start", "timers" },
	{ "hrtimer_expire_entry", "timers" },
	{ "timer_start", "kernel timers" },
	{ "timer_expire_entry", "kernel timers" },
	{ "workqueue_queue_work", "work queues" },
	{ "workqueue_execute_start", "work queues" },
	{ "workqueue_execute_end", "work queues" },
	{ "io_uring_submit_req", "io_uring" },
	{ "io_uring_complete", "io_uring" },
	{ "block_rq_issue", "block I/O" },
	{ "block_rq_complete", "block I/O" },
};

static int say_nothing(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

static struct wc_error *cannot(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return wc_error_new(
			WC_EPERM,
			"cannot record the system's events: BPF programs need root, or CAP_BPF and CAP_PERFMON");
	case ENOMEM:
		return &wc_enomem;
	default:
		return wc_error_hint(
			wc_error_errno(
				WC_ENOTSUP, error,
				"cannot record the system's events: the kernel refuses the BPF programs"),
			"they need Linux 5.18 with a description of its types, CONFIG_DEBUG_INFO_BTF");
	}
}

static void note_missing(struct kernel_flow *k, const char *what)
{
	const size_t len = strlen(k->missing);

	if (!strstr(k->missing, what))
		snprintf(k->missing + len, sizeof(k->missing) - len, "%s%s", len ? ", " : "", what);
}

static const char *tracepoint_of(const struct bpf_program *p)
{
	const char *slash = strchr(bpf_program__section_name(p), '/');

	return slash ? slash + 1 : "";
}

/* A program whose tracepoint this kernel does not have is not loaded. */
static void leave_out_missing(struct kernel_flow *k)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, k->bpf->obj)
	{
		const char *tracepoint = tracepoint_of(p);

		for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
			if (strcmp(optional[i].tracepoint, tracepoint) != 0 ||
			    libbpf_find_vmlinux_btf_id(tracepoint, BPF_TRACE_RAW_TP) > 0)
				continue;
			bpf_program__set_autoload(p, false);
			note_missing(k, optional[i].what);
		}
	}
}

static void btf_freep(struct btf **btf)
{
	btf__free(*btf);
}

/* Members may be in unions without a name. */
static bool add_member(const struct btf *btf, uint32_t id, const char *name, int64_t *ret)
{
	const struct btf_type *type = btf__type_by_id(btf, id);
	const struct btf_member *m = btf_members(type);

	for (unsigned int i = 0; btf_is_composite(type) && i < btf_vlen(type); i++) {
		const char *is = btf__name_by_offset(btf, m[i].name_off);
		int64_t at = *ret + btf_member_bit_offset(type, i) / 8;

		if (strcmp(is, name) != 0 && (*is || !add_member(btf, m[i].type, name, &at)))
			continue;
		*ret = at;
		return true;
	}
	return false;
}

/* Where a variable lies in the memory that each CPU has of its own; @member: of it, or NULL. False: there is none. */
static bool find_per_cpu(const struct btf *btf, const char *name, const char *member, int64_t *ret)
{
	const int section = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *type = section > 0 ? btf__type_by_id(btf, (uint32_t)section) : NULL;
	const struct btf_var_secinfo *var = type ? btf_var_secinfos(type) : NULL;

	for (unsigned int i = 0; type && i < btf_vlen(type); i++) {
		const struct btf_type *v = btf__type_by_id(btf, var[i].type);

		if (strcmp(btf__name_by_offset(btf, v->name_off), name) != 0)
			continue;
		*ret = var[i].offset;
		return !member || add_member(btf, v->type, member, ret);
	}
	return false;
}

/* Its own variable, or from Linux 6.2 to 6.14 a member of one. 0: this kernel does not describe it. */
static int64_t find_preempt_count(void)
{
	scoped(btf_freep) struct btf *btf = btf__load_vmlinux_btf();
	int64_t rq, count;

	if (!btf || !find_per_cpu(btf, "runqueues", NULL, &rq))
		return 0;
	if (!find_per_cpu(btf, "__preempt_count", NULL, &count) &&
	    !find_per_cpu(btf, "pcpu_hot", "preempt_count", &count))
		return 0;
	return count - rq;
}

static uint32_t ring_bytes(const struct kernel_flow_ask *ask, unsigned int cpus)
{
	uint32_t bytes = RING_MOST;

	if (ask->ring_bytes)
		return ask->ring_bytes;
	while (bytes > RING_LEAST && (uint64_t)bytes * cpus > ALL_RINGS)
		bytes /= 2;
	return bytes;
}

static bool is_cgroup2(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Its number, and how many are above it. */
static struct wc_error *find_cgroup(const char *name, uint64_t *ret, uint32_t *level)
{
	scoped(freep) char *path = realpath(name, NULL);
	struct stat st;

	if (!path || stat(path, &st) < 0)
		return wc_error_errno(WC_EUSAGE, errno, "there is no cgroup %s", name);
	if (!S_ISDIR(st.st_mode) || !is_cgroup2(path))
		return wc_error_new(
			WC_EUSAGE,
			"%s is no cgroup of version 2: name its directory, as /sys/fs/cgroup/system.slice",
			name);
	*ret = st.st_ino;
	*level = 0;
	for (char *slash = strrchr(path, '/'); slash && slash > path; slash = strrchr(path, '/')) {
		*slash = '\0';
		if (!is_cgroup2(path))
			break;
		++*level;
	}
	return NULL;
}

static struct wc_error *configure(struct kernel_flow *k, const struct kernel_flow_ask *ask)
{
	struct flow_bpf__rodata *c = k->bpf->rodata;
	const uint32_t bytes = ring_bytes(ask, k->cpus);
	uint64_t cgroup = 0;
	uint32_t level = 0;
	struct wc_error *err = NULL;
	uint8_t class[FLOW_CALLS];

	if (ask->scope == FLOW_SCOPE_CGROUP)
		err = find_cgroup(ask->cgroup, &cgroup, &level);
	if (err)
		return err;
	if (getrandom(&k->salt, sizeof(k->salt), 0) != sizeof(k->salt))
		return wc_error_errno(WC_EFAIL, errno, "cannot draw a random number");
	k->salt |= 1;
	k->ring_bytes = bytes;
	flow_calls_fill(class);
	memcpy((void *)c->call_class, class, sizeof(class));
	c->ring_words = bytes / sizeof(uint32_t);
	c->ring_mask = c->ring_words - 1;
	c->salt = k->salt;
	c->preempt_count_from_rq = find_preempt_count();
	if (!c->preempt_count_from_rq)
		note_missing(k, "whether an interrupt or the thread wakes another");
	c->own_pid = (uint32_t)getpid();
	c->scope = ask->scope;
	c->cgroup = cgroup;
	c->cgroup_level = level;
	if (bpf_map__set_max_entries(k->bpf->maps.rings, k->cpus) ||
	    bpf_map__set_value_size(k->bpf->maps.rings, (uint32_t)sizeof(struct flow_ring) + bytes))
		return cannot(errno);
	leave_out_missing(k);
	return NULL;
}

static struct wc_error *map_rings(struct kernel_flow *k)
{
	k->mapped = k->cpus * (sizeof(struct flow_ring) + k->ring_bytes);
	k->rings =
		mmap(NULL, k->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(k->bpf->maps.rings), 0);
	if (k->rings == MAP_FAILED) {
		k->rings = NULL;
		return wc_error_errno(WC_EFAIL, errno, "cannot map the rings of the system's events");
	}
	k->wrapped = malloc(k->ring_bytes);
	return k->wrapped ? NULL : &wc_enomem;
}

static struct wc_error *load(struct kernel_flow *k, const struct kernel_flow_ask *ask)
{
	struct wc_error *err;
	int error;

	k->cpus = (unsigned int)libbpf_num_possible_cpus();
	k->bpf = flow_bpf__open();
	if (!k->bpf)
		return cannot(errno);
	err = configure(k, ask);
	if (err)
		return err;
	error = flow_bpf__load(k->bpf);
	if (error)
		return cannot(-error);
	err = map_rings(k);
	for (size_t i = 0; !err && i < ask->npids; i++)
		err = kernel_flow_add(k, ask->pid[i]);
	return err;
}

#define FIRST_PID_NAMESPACE 0xEFFFFFFCu /* PROC_PID_INIT_INO, include/linux/proc_ns.h */

/* The kernel tells numbers of threads as they are there. */
static struct wc_error *check_namespace(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) != 0 || st.st_ino == FIRST_PID_NAMESPACE)
		return NULL;
	return wc_error_new(WC_ENOTSUP,
			    "cannot record the system's events in a container: the numbers of processes that "
			    "the kernel tells are others there (run it on the host, with --cgroup for the "
			    "container's)");
}

struct wc_error *kernel_flow_open(const struct kernel_flow_ask *ask, struct kernel_flow **ret)
{
	scoped(kernel_flow_closep) struct kernel_flow *k = calloc(1, sizeof(*k));
	const libbpf_print_fn_t old = libbpf_set_print(say_nothing);
	struct wc_error *err = k ? check_namespace() : &wc_enomem;

	if (!err)
		err = load(k, ask);

	libbpf_set_print(old);
	if (!err)
		*ret = take_ptr(k);
	return err;
}

void kernel_flow_close(struct kernel_flow *k)
{
	if (!k)
		return;
	if (k->rings)
		munmap(k->rings, k->mapped);
	flow_bpf__destroy(k->bpf);
	free(k->wrapped);
	free(k);
}

void kernel_flow_closep(struct kernel_flow **k)
{
	kernel_flow_close(*k);
}

struct wc_error *kernel_flow_add(struct kernel_flow *k, pid_t pid)
{
	const uint32_t key = (uint32_t)pid;
	const uint8_t one = 1;

	if (bpf_map__update_elem(k->bpf->maps.processes, &key, sizeof(key), &one, sizeof(one), BPF_ANY))
		return wc_error_errno(WC_EFAIL, errno, "cannot choose process %d", pid);
	return NULL;
}

const char *kernel_flow_missing(const struct kernel_flow *k)
{
	return *k->missing ? k->missing : NULL;
}

unsigned int kernel_flow_cpus(const struct kernel_flow *k)
{
	return k->cpus;
}

uint64_t kernel_flow_salt(const struct kernel_flow *k)
{
	return k->salt;
}

struct wc_error *kernel_flow_start(struct kernel_flow *k)
{
	const libbpf_print_fn_t old = libbpf_set_print(say_nothing);
	const int error = flow_bpf__attach(k->bpf);

	libbpf_set_print(old);
	return error ? cannot(-error) : NULL;
}

/* Reading */

static struct flow_ring *ring_of(const struct kernel_flow *k, unsigned int cpu)
{
	return (struct flow_ring *)(k->rings + cpu * (sizeof(struct flow_ring) + k->ring_bytes));
}

/* Events that found no room after the last one that did. */
static struct wc_error *hand_lost(struct flow_ring *r, unsigned int cpu, kernel_flow_take take, void *ctx)
{
	const uint64_t lost = __atomic_exchange_n(&r->lost, 0, __ATOMIC_RELAXED);
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	const uint32_t word[] = { FLOW_EXTENDED,
				  FLOW_TIME,
				  (uint32_t)now,
				  (uint32_t)(now >> 32),
				  flow_head(FLOW_LOST, now),
				  lost > UINT32_MAX ? UINT32_MAX : (uint32_t)lost };

	return lost ? take(ctx, cpu, word, sizeof(word) / sizeof(word[0])) : NULL;
}

static struct wc_error *read_ring(struct kernel_flow *k, unsigned int cpu, kernel_flow_take take, void *ctx,
				  double *fullest)
{
	struct flow_ring *r = ring_of(k, cpu);
	const uint64_t words = k->ring_bytes / sizeof(uint32_t);
	const uint64_t to = k->is_stopped ? r->reserved : __atomic_load_n(&r->committed, __ATOMIC_ACQUIRE);
	const uint64_t from = r->tail, n = to - from, at = from % words;
	struct wc_error *err;

	if (fullest && (double)n / (double)words > *fullest)
		*fullest = (double)n / (double)words;
	if (!n)
		return NULL;
	if (at + n <= words) {
		err = take(ctx, cpu, r->word + at, n);
	} else {
		memcpy(k->wrapped, r->word + at, (words - at) * sizeof(uint32_t));
		memcpy(k->wrapped + (words - at), r->word, (n - (words - at)) * sizeof(uint32_t));
		err = take(ctx, cpu, k->wrapped, n);
	}
	__atomic_store_n(&r->tail, to, __ATOMIC_RELEASE);
	return err;
}

struct wc_error *kernel_flow_read(struct kernel_flow *k, kernel_flow_take take, void *ctx, double *fullest)
{
	struct wc_error *err = NULL;

	if (fullest)
		*fullest = 0;
	for (unsigned int cpu = 0; !err && cpu < k->cpus; cpu++) {
		err = read_ring(k, cpu, take, ctx, fullest);
		if (!err && k->is_stopped)
			err = hand_lost(ring_of(k, cpu), cpu, take, ctx);
	}
	return err;
}

/* Detaching returns at once: a program that was running goes on until its CPU has passed a quiet state. */
static void wait_until_none_runs(const struct kernel_flow *k)
{
	for (int i = 0; i < 100; i++) {
		bool busy = false;

		for (unsigned int cpu = 0; cpu < k->cpus; cpu++)
			busy = busy || __atomic_load_n(&ring_of(k, cpu)->nest, __ATOMIC_ACQUIRE) != 0;
		if (!busy)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

void kernel_flow_stop(struct kernel_flow *k)
{
	flow_bpf__detach(k->bpf);
	wait_until_none_runs(k);
	k->is_stopped = true;
}

uint64_t kernel_flow_missed(const struct kernel_flow *k)
{
	struct bpf_program *p;
	uint64_t all = 0;

	bpf_object__for_each_program(p, k->bpf->obj)
	{
		struct bpf_prog_info info = { 0 };
		uint32_t len = sizeof(info);

		if (bpf_program__fd(p) >= 0 && !bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &len))
			all += info.recursion_misses;
	}
	return all;
}
