#include "watchctl/engine/kernel/kernel_recorder.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "record.skel.h"
#include "watchctl/engine/perf/direct_map.h"

#define PAGE 4096u
#define TAKEN 2u	    /* record.bpf.c, watch_taken */
#define HANDLER_STACK 4096u /* what the handler needs, with room to spare */
#define FRAME_MAX 12288u    /* of a signal, where the kernel does not tell */

struct kernel_recorder {
	struct record_bpf *bpf;
	const struct bpf_program *program;
	struct ring_buffer *ring;
	int epoll;
	struct wire_memory memory;
	struct wire_area area;
	void *later;	   /* a record that was taken out and is newer than was asked for; NULL: none */
	uint64_t until_ns; /* while records are taken out */
	struct intake *in;
	bool *any;
	struct wc_error *err;
};

static volatile sig_atomic_t trapped;

static void on_trap(int sig)
{
	trapped = sig;
}

/* A hit on a variable of ours, while the guard believes in another handler: no signal may come. */
static bool kernel_obeys(const struct kernel_recorder *r)
{
	static volatile long probe;
	struct perf_event_attr a = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(a),
		.sample_period = 1,
		.sigtrap = 1,
		.remove_on_exec = 1,
		.exclude_kernel = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uint64_t)(uintptr_t)&probe,
		.bp_len = sizeof(probe),
	};
	struct sigaction ours = { .sa_handler = on_trap }, old;
	int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	bool attached;

	if (fd < 0 || sigaction(SIGTRAP, &ours, &old)) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	trapped = 0;
	attached = kernel_recorder_attach(r, fd, 0);
	probe++;
	close(fd);
	sigaction(SIGTRAP, &old, NULL);
	return attached && !trapped && r->bpf->bss->suppressed == 1;
}

static bool read_kernel(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct kernel_recorder *r = ctx;
	int fd = bpf_program__fd(r->bpf->progs.read_kernel);
	size_t done;

	for (done = 0; done < len; done += PAGE) {
		LIBBPF_OPTS(bpf_test_run_opts, run);
		size_t chunk = len - done < PAGE ? len - done : PAGE;

		r->bpf->bss->asked_addr = addr + done;
		r->bpf->bss->asked_len = chunk;
		if (bpf_prog_test_run_opts(fd, &run) || run.retval)
			return false;
		memcpy((char *)buf + done, r->bpf->bss->answer, chunk);
	}
	return true;
}

struct memory_view kernel_recorder_memory(struct kernel_recorder *r)
{
	return (struct memory_view){ read_kernel, r };
}

static void find_direct_map(struct kernel_recorder *r)
{
	struct memory_view mem = kernel_recorder_memory(r);
	struct direct_map map;
	uint64_t word;

	memory_read(&mem, 0, &word, sizeof(word)); /* reads nothing; shows where our own page table is */
	if (!direct_map_find(&mem, r->bpf->bss->own_page_table, &map))
		return;
	r->bpf->bss->frame_mask = map.frame_mask;
	r->bpf->bss->page_levels = map.levels;
	r->bpf->bss->direct_map = map.base;
}

bool kernel_recorder_reads_silently(const struct kernel_recorder *r)
{
	return r->bpf->bss->direct_map != 0;
}

void kernel_recorder_read_silently(struct kernel_recorder *r)
{
	r->bpf->bss->careful = r->bpf->bss->direct_map != 0;
}

void kernel_recorder_forget(struct kernel_recorder *r, unsigned int i)
{
	uint64_t offset = WIRE_SHADOWS_OFFSET + i * WIRE_SHADOWS * sizeof(struct wire_shadow);

	memset(r->bpf->bss->area + offset, 0, WIRE_SHADOWS * sizeof(struct wire_shadow));
	r->bpf->bss->own_hits[i] = 0;
	r->bpf->bss->watch_taken[i] = r->bpf->bss->taken_over ? TAKEN : 0;
}

static bool keep_for_later(struct kernel_recorder *r, const struct wire_record *rec)
{
	if (rec->time <= r->until_ns)
		return false;
	r->later = malloc(rec->size);
	if (r->later)
		memcpy(r->later, rec, rec->size);
	return r->later;
}

static int take_one(void *ctx, void *data, size_t len)
{
	struct kernel_recorder *r = ctx;
	const struct wire_record *rec = data;

	if (len < sizeof(*rec) || len < rec->size)
		return 0;
	if (keep_for_later(r, rec))
		return -ECANCELED;
	*r->any = true;
	r->err = intake_take(r->in, rec);
	return r->err || r->in->hook_hit || !intake_has_room(r->in) ? -ECANCELED : 0;
}

struct wc_error *kernel_recorder_take(struct kernel_recorder *r, struct intake *in, uint64_t until_ns,
				      bool *any)
{
	struct wire_record *first = r->later;

	if (in->hook_hit || !intake_has_room(in) || (first && first->time > until_ns))
		return NULL;
	r->in = in;
	r->any = any;
	r->err = NULL;
	r->until_ns = until_ns;
	r->later = NULL;
	if (!first || !take_one(r, first, first->size))
		ring_buffer__consume(r->ring);
	free(first);
	return r->err;
}

/*
 * The kernel wakes us where it is urgent. A wait for the ring itself would return at once whenever there is
 * anything in it: hence the edge-triggered epoll in between.
 */
void kernel_recorder_wait(struct kernel_recorder *r, int fd, uint64_t ns)
{
	uint32_t *wake = &((struct wire_control *)r->bpf->bss->area)->wake;
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
	struct pollfd p[2] = { { .fd = r->epoll, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
	struct epoll_event e;

	__atomic_store_n(wake, 0, __ATOMIC_SEQ_CST);
	ppoll(p, 2, &t, NULL);
	__atomic_store_n(wake, 1, __ATOMIC_SEQ_CST);
	epoll_wait(r->epoll, &e, 1, 0);
}

/* 0, or a negative error number. */
static int kernel_recorder_load(struct kernel_recorder *r, const struct kernel_recorder_spec *s)
{
	struct record_bpf *b = record_bpf__open();
	int cpus = libbpf_num_possible_cpus();

	r->bpf = b;
	if (!b || cpus < 1)
		return -ENOMEM;
	b->rodata->guarding = s->handler != 0;
	bpf_program__set_autoload(b->progs.guard, s->handler != 0);
	bpf_program__set_autoload(b->progs.record, s->handler == 0);
	r->program = s->handler ? b->progs.guard : b->progs.record;
	if (bpf_map__set_max_entries(b->maps.scratches, (uint32_t)cpus) ||
	    bpf_map__set_max_entries(b->maps.records, (uint32_t)s->buffer_size))
		return -EINVAL;
	return record_bpf__load(b);
}

static const char *explain(int error)
{
	struct btf *types;

	if (error == -EPERM || error == -EACCES)
		return "loading it is not permitted (it needs CAP_BPF and CAP_PERFMON)";
	types = btf__load_vmlinux_btf();
	btf__free(types);
	if (!types)
		return "the kernel has no BTF to be read (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)";
	if (error == -ENOMEM)
		return "there is not enough memory for it";
	return "this kernel does not accept it (Linux 5.17 and newer do)";
}

static bool open_ring(struct kernel_recorder *r)
{
	int fd = bpf_map__fd(r->bpf->maps.records);
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };

	r->ring = ring_buffer__new(fd, take_one, r, NULL);
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	return r->ring && r->epoll >= 0 && !epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &e);
}

static uint64_t signal_room(void)
{
	unsigned long frame = getauxval(AT_MINSIGSTKSZ);

	return (frame ? frame : FRAME_MAX) + SIGNAL_RED_ZONE + HANDLER_STACK;
}

static void lay_out(struct kernel_recorder *r, const struct kernel_recorder_spec *s)
{
	r->memory = (struct wire_memory){ r->bpf->bss->area, sizeof(r->bpf->bss->area) };
	r->area = wire_area_in(&r->memory);
	memcpy(r->bpf->bss->area, &s->control, sizeof(s->control));
	((struct wire_control *)r->bpf->bss->area)->ring_size = s->buffer_size;
	r->bpf->bss->our_handler = s->handler;
	r->bpf->bss->their_control = s->their_control;
	r->bpf->bss->suppressed = 0;
	r->bpf->bss->taken_over = 0;
	r->bpf->bss->signal_room = signal_room();
}

struct kernel_recorder *kernel_recorder_open(const struct kernel_recorder_spec *spec, const char **why)
{
	struct kernel_recorder *r = calloc(1, sizeof(*r));
	int error;

	*why = "out of memory";
	if (!r)
		return NULL;
	r->epoll = -1;
	libbpf_set_print(NULL);
	error = kernel_recorder_load(r, spec);
	if (error || !open_ring(r)) {
		*why = explain(error);
		kernel_recorder_close(r);
		return NULL;
	}
	*why = "this kernel does not let a BPF program withhold a signal (Linux 6.11 does)";
	if (spec->handler && !kernel_obeys(r)) {
		kernel_recorder_close(r);
		return NULL;
	}
	lay_out(r, spec);
	find_direct_map(r); /* which asks for own_level as well */
	r->bpf->bss->id_level = spec->depth < 0 ? UINT32_MAX : r->bpf->bss->own_level + (uint32_t)spec->depth;
	return r;
}

void kernel_recorder_close(struct kernel_recorder *r)
{
	if (!r)
		return;
	ring_buffer__free(r->ring);
	free(r->later);
	if (r->epoll >= 0)
		close(r->epoll);
	record_bpf__destroy(r->bpf);
	free(r);
}

const struct wire_area *kernel_recorder_area(const struct kernel_recorder *r)
{
	return &r->area;
}

bool kernel_recorder_attach(const struct kernel_recorder *r, int perf_fd, unsigned int i)
{
	if (r->bpf->bss->places <= i)
		__atomic_store_n(&r->bpf->bss->places, i + 1, __ATOMIC_SEQ_CST);
	return !ioctl(perf_fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(r->program));
}

void kernel_recorder_counts(const struct kernel_recorder *r, unsigned int i, uint64_t *filtered,
			    uint64_t *lost)
{
	const struct wire_watch *w = &((const struct wire_control *)r->bpf->bss->area)->watch[i];

	*filtered = __atomic_load_n(&w->filtered, __ATOMIC_RELAXED);
	*lost = __atomic_load_n(&w->lost, __ATOMIC_RELAXED);
}

uint64_t kernel_recorder_own(const struct kernel_recorder *r, unsigned int i)
{
	return r ? __atomic_load_n(&r->bpf->bss->own_hits[i], __ATOMIC_RELAXED) : 0;
}

void kernel_recorder_expect(struct kernel_recorder *r, uint64_t pc, uint64_t sp)
{
	__atomic_store_n(&r->bpf->bss->expected_pc, pc, __ATOMIC_RELEASE);
	__atomic_store_n(&r->bpf->bss->expected_sp, sp, __ATOMIC_RELEASE);
}

uint64_t kernel_recorder_unheld(const struct kernel_recorder *r)
{
	return r ? __atomic_load_n(&r->bpf->bss->unheld, __ATOMIC_RELAXED) : 0;
}

uint64_t kernel_recorder_suppressed(const struct kernel_recorder *r)
{
	return r ? __atomic_load_n(&r->bpf->bss->suppressed, __ATOMIC_RELAXED) : 0;
}

bool kernel_recorder_dispatching(const struct kernel_recorder *r)
{
	return r && __atomic_load_n(&r->bpf->bss->dispatching, __ATOMIC_RELAXED);
}

bool kernel_recorder_sandboxed(const struct kernel_recorder *r)
{
	return r && __atomic_load_n(&r->bpf->bss->sandboxed, __ATOMIC_RELAXED);
}
