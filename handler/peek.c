#include "handler/peek.h"

#include "handler/sys.h"

#define PAGE 4096ull
#define FRAME_MOST 0x10000ull	/* of a signal, and our own stack */
#define BELOW_RETURN_ADDRESS 64 /* a window begins so far below what is read first: rows are read upwards */
/* So far below the first thread's stack the kernel places nothing else (mmap_base() in arch/x86/mm/mmap.c).
 */
#define FIRST_STACK_MOST (64ull << 20)

struct range {
	uint64_t addr, len;
};

long peek_pid(const struct wire_control *ctl)
{
	return ctl->flags & WIRE_CHILDREN ? sys0(NR_GETPID) : ctl->target_pid;
}

static long transfer(long nr, long pid, uint64_t local_addr, uint64_t remote_addr, uint64_t len)
{
	struct range local = { local_addr, len }, remote = { remote_addr, len };
	long n = sys6(nr, pid, (long)&local, 1, (long)&remote, 1, 0);

	if (n == -ESRCH) /* the first thread has ended before this one: its number leads to no memory */
		n = sys6(nr, sys0(NR_GETTID), (long)&local, 1, (long)&remote, 1, 0);
	return n;
}

uint64_t peek_some(long pid, uint64_t addr, void *buf, uint64_t len)
{
	long n = transfer(NR_PROCESS_VM_READV, pid, (uint64_t)(uintptr_t)buf, addr, len);

	return n > 0 ? (uint64_t)n : 0;
}

bool peek(long pid, uint64_t addr, void *buf, uint64_t len)
{
	return peek_some(pid, addr, buf, len) == len;
}

bool poke(long pid, uint64_t addr, const void *buf, uint64_t len)
{
	return transfer(NR_PROCESS_VM_WRITEV, pid, (uint64_t)(uintptr_t)buf, addr, len) == (long)len;
}

static bool watches_reads(const struct wire_watch *w)
{
	return (w->flags & (WIRE_WATCH_READS | WIRE_WATCH_OFF)) == WIRE_WATCH_READS;
}

bool is_read_watched(const struct wire_control *ctl, uint64_t addr, uint64_t len)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES && i < ctl->nwatches; i++) {
		const struct wire_watch *w = &ctl->watch[i];

		if (watches_reads(w) && addr < w->addr + w->size && w->addr < addr + len)
			return true;
	}
	return false;
}

/* Which address it is in this thread only a trap shows. */
static bool is_own_copy_read_watched(const struct wire_control *ctl)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES && i < ctl->nwatches; i++)
		if (watches_reads(&ctl->watch[i]) && (ctl->watch[i].flags & WIRE_WATCH_PER_THREAD))
			return true;
	return false;
}

/*
 * What stays: the first thread's stack, whoever runs on it; and of any other the pages that the kernel has
 * just written the signal's frame to. What is above them may be another stack's, or anybody's.
 */
void stack_reader_init(const struct wire_control *ctl, uint64_t frame, uint64_t sp, struct stack_reader *ret)
{
	ret->pid = peek_pid(ctl);
	ret->window_len = 0;
	ret->lo = ret->hi = 0;
	if (sp - frame < FRAME_MOST) { /* else the signal came on another stack */
		ret->lo = frame & ~(PAGE - 1);
		ret->hi = ((sp - SIGNAL_RED_ZONE - 8) & ~(PAGE - 1)) + PAGE;
	}
	if (ctl->first_stack_top - sp < FIRST_STACK_MOST) {
		ret->lo = ret->lo ? ret->lo : sp;
		ret->hi = ctl->first_stack_top;
	}
	if (is_own_copy_read_watched(ctl) || is_read_watched(ctl, ret->lo, ret->hi - ret->lo))
		ret->lo = ret->hi = 0;
}

static __attribute__((noinline)) bool move_window(struct stack_reader *r, uint64_t addr)
{
	uint64_t from = (addr & ~7ull) - BELOW_RETURN_ADDRESS;

	if (from / PAGE != addr / PAGE || addr < BELOW_RETURN_ADDRESS)
		from = addr & ~7ull;
	r->window_addr = from;
	r->window_len = peek_some(r->pid, from, r->window, PEEK_WINDOW);
	return addr - from + 8 <= r->window_len;
}

bool stack_reader_read(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct stack_reader *r = ctx;

	/* Several for each frame: the common case is two comparisons and the load. */
	if (addr >= r->lo && addr + 8 <= r->hi && addr + 8 > addr) {
		*ret = *(const volatile uint64_t *)(uintptr_t)addr;
		return true;
	}
	if ((addr < r->window_addr || addr - r->window_addr + 8 > r->window_len) && !move_window(r, addr))
		return false;
	__builtin_memcpy(ret, (const char *)r->window + (addr - r->window_addr), 8);
	return true;
}
