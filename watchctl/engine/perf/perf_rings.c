#include "watchctl/engine/perf/perf_rings.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/engine/perf/perf_ring.h"

#define FILL 4u /* a ring wakes us when it is a fourth full */

/* Offsets in a sample, by the order that perf_event_open(2) gives. */
#define AT_ID 8
#define AT_TID 24
#define AT_TIME 32
#define AT_ADDR 40
#define AT_REGS 48

/* The registers of a sample, in the order of their bits in the mask. */
static const uint8_t sampled[] = {
	PERF_REG_X86_AX,  PERF_REG_X86_BX,  PERF_REG_X86_CX,  PERF_REG_X86_DX,	PERF_REG_X86_SI,
	PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_IP,	PERF_REG_X86_FLAGS,
	PERF_REG_X86_R8,  PERF_REG_X86_R9,  PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12,
	PERF_REG_X86_R13, PERF_REG_X86_R14, PERF_REG_X86_R15,
};
static const uint8_t ours[] = {
	WREG_RAX,    WREG_RBX, WREG_RCX, WREG_RDX, WREG_RSI, WREG_RDI, WREG_RBP, WREG_RSP, WREG_RIP,
	WREG_RFLAGS, WREG_R8,  WREG_R9,	 WREG_R10, WREG_R11, WREG_R12, WREG_R13, WREG_R14, WREG_R15,
};
#define NSAMPLED (sizeof(sampled) / sizeof(*sampled))

struct cpu_ring {
	int cpu, fd;
	struct perf_ring ring;
};

struct perf_rings {
	struct cpu_ring *v;
	size_t n, cap;
	uint32_t stack;
	struct map64 tags; /* event id -> tag + 1 */
	uint8_t record[PERF_RING_RECORD_MAX];
};

static uint64_t mask(void)
{
	uint64_t m = 0;

	for (size_t i = 0; i < NSAMPLED; i++)
		m |= 1ull << sampled[i];
	return m;
}

static bool find_cpus(struct perf_rings *r)
{
	size_t i, n = perf_ring_cpus(NULL, 0);
	scoped(freep) int *cpu = calloc(n + 1, sizeof(*cpu));

	if (!cpu || perf_ring_cpus(cpu, n) < n)
		return false;
	for (i = 0; i < n; i++)
		if (!vec_push(r->v, r->n, r->cap, (struct cpu_ring){ .cpu = cpu[i], .fd = -1 }))
			return false;
	return r->n > 0;
}

static bool map_all(struct perf_rings *r, uint64_t size)
{
	size_t i;

	for (i = 0; i < r->n; i++) {
		if (perf_ring_map(&r->v[i].ring, r->v[i].fd, size))
			continue;
		while (i--)
			perf_ring_unmap(&r->v[i].ring);
		return false;
	}
	return true;
}

/* An event that counts nothing holds each ring. */
static bool open_holders(struct perf_rings *r, pid_t pid)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(a),
		.sample_type = PERF_SAMPLE_IDENTIFIER,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	size_t i;

	for (i = 0; i < r->n; i++) {
		r->v[i].fd =
			(int)syscall(SYS_perf_event_open, &a, pid, r->v[i].cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (r->v[i].fd < 0)
			return false;
	}
	return true;
}

struct wc_error *perf_rings_open(pid_t pid, size_t size, uint32_t stack, struct perf_rings **ret)
{
	struct perf_rings *r = calloc(1, sizeof(*r));
	uint64_t each = PERF_RING_MIN;
	bool ok;

	if (!r)
		return &wc_enomem;
	r->stack = stack & ~7u;
	ok = find_cpus(r) && open_holders(r, pid);
	while (ok && each * 2 * r->n <= size)
		each *= 2;
	while (ok && !map_all(r, each)) {
		each /= 2;
		ok = each >= PERF_RING_MIN;
	}
	if (!ok) {
		int error = errno;

		perf_rings_close(r);
		if (error == EMFILE || error == ENFILE)
			return wc_error_errno(
				WC_EFAIL, error,
				"too few file descriptors for the buffers of samples (ulimit -n)");
		return wc_error_errno(error == ENOMEM ? WC_EFAIL : WC_EPERM, error,
				      "the kernel grants no buffer for samples (kernel.perf_event_mlock_kb, "
				      "ulimit -l)");
	}
	*ret = r;
	return NULL;
}

void perf_rings_close(struct perf_rings *r)
{
	size_t i;

	if (!r)
		return;
	for (i = 0; i < r->n; i++) {
		perf_ring_unmap(&r->v[i].ring);
		closep(&r->v[i].fd);
	}
	map64_deinit(&r->tags);
	free(r->v);
	free(r);
}

size_t perf_rings_cpus(const struct perf_rings *r)
{
	return r->n;
}

int perf_rings_cpu(const struct perf_rings *r, size_t i)
{
	return r->v[i].cpu;
}

void perf_rings_ask(const struct perf_rings *r, struct perf_event_attr *a)
{
	a->sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			 PERF_SAMPLE_ADDR | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	a->sample_regs_user = mask();
	if (!a->exclude_kernel) {
		a->sample_type |= PERF_SAMPLE_REGS_INTR;
		a->sample_regs_intr = mask();
	}
	a->sample_stack_user = r->stack;
	a->use_clockid = 1;
	a->clockid = CLOCK_MONOTONIC;
	a->watermark = 1;
	a->wakeup_watermark = (uint32_t)(r->v[0].ring.size / FILL);
}

bool perf_rings_add(struct perf_rings *r, size_t i, int fd, uint64_t tag)
{
	uint64_t id;

	return !ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->v[i].fd) && !ioctl(fd, PERF_EVENT_IOC_ID, &id) &&
	       map64_put(&r->tags, id, (void *)(uintptr_t)(tag + 1));
}

/* The next sample's time, and its size. False: there is none. */
static bool next_time(struct perf_ring *r, uint64_t *ret, size_t *ret_size)
{
	struct perf_event_header h;

	while (perf_ring_next(r, &h)) {
		if (h.type == PERF_RECORD_SAMPLE) {
			perf_ring_copy(r, AT_TIME, ret, sizeof(*ret));
			*ret_size = h.size;
			return true;
		}
		perf_ring_skip(r, h.size); /* lost ones are known from the count */
	}
	return false;
}

static uint64_t word(const uint8_t *at)
{
	uint64_t w;

	memcpy(&w, at, sizeof(w));
	return w;
}

/* Returns how many bytes they took. */
static size_t parse_regs(const uint8_t *at, struct regs *ret, bool *has)
{
	*has = word(at) != PERF_SAMPLE_REGS_ABI_NONE;
	if (!*has)
		return 8;
	for (size_t i = 0; i < NSAMPLED; i++)
		ret->r[ours[i]] = word(at + 8 + 8 * i);
	return 8 + 8 * NSAMPLED;
}

static void perf_rings_parse(struct perf_rings *r, struct perf_sample *s)
{
	const uint8_t *at = r->record;
	struct perf_event_header h;
	uint32_t ids[2];
	uint64_t room;
	bool has;

	memcpy(&h, at, sizeof(h));
	memcpy(ids, at + AT_TID, sizeof(ids));
	*s = (struct perf_sample){
		.tag = (uint64_t)(uintptr_t)map64_get(&r->tags, word(at + AT_ID)) - 1,
		.time_ns = word(at + AT_TIME),
		.addr = word(at + AT_ADDR),
		.pid = (pid_t)ids[0],
		.tid = (pid_t)ids[1],
		.kernel = (h.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL,
	};
	at += AT_REGS;
	at += parse_regs(at, &s->regs, &s->has_regs);
	room = word(at);
	s->stack = at + 8;
	at += 8 + room;
	if (room) {
		s->stack_len = word(at) & ~7ull;
		at += 8;
	}
	if (at < r->record + h.size)
		parse_regs(at, &s->interrupted, &has);
}

/* The ring with the oldest sample; NULL: there is none until @until_ns. */
static struct perf_ring *oldest(struct perf_rings *r, uint64_t until_ns, size_t *ret_size)
{
	struct perf_ring *best = NULL;
	uint64_t first = until_ns, time;
	size_t i, size;

	for (i = 0; i < r->n; i++) {
		if (!next_time(&r->v[i].ring, &time, &size) || time > first)
			continue;
		best = &r->v[i].ring;
		first = time;
		*ret_size = size;
	}
	return best;
}

void perf_rings_read(struct perf_rings *r, uint64_t until_ns,
		     bool (*fn)(void *ctx, const struct perf_sample *s), void *ctx)
{
	struct perf_sample s;
	struct perf_ring *ring;
	size_t i, size;
	bool more = true;

	for (i = 0; i < r->n; i++)
		perf_ring_look(&r->v[i].ring);
	while (more && (ring = oldest(r, until_ns, &size))) {
		perf_ring_copy(ring, 0, r->record, size);
		perf_ring_skip(ring, size);
		perf_rings_parse(r, &s);
		more = s.tag == UINT64_MAX || fn(ctx, &s);
	}
}

void perf_rings_wait(const struct perf_rings *r, int fd, uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
	scoped(freep) struct pollfd *p = calloc(r->n + 1, sizeof(*p));
	size_t i;

	if (!p)
		return;
	for (i = 0; i < r->n; i++)
		p[i] = (struct pollfd){ .fd = r->v[i].fd, .events = POLLIN };
	p[r->n] = (struct pollfd){ .fd = fd, .events = POLLIN };
	/* A ring whose thread has ended hangs up for good: then only the time helps. */
	if (ppoll(p, r->n + 1, &t, NULL) > 0 && !p[r->n].revents)
		for (i = 0; i < r->n; i++)
			if (p[i].revents & POLLHUP) {
				nanosleep(&t, NULL);
				break;
			}
}
