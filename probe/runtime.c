/*
 * runtime - what runs inside the program besides the user's probe functions: the way from an instruction to the function,
 * and the functions of probe.h. Freestanding; general registers only; takes little stack, for it runs on the program's.
 *
 * Records go into rings, as many as there are CPUs. Who writes one takes slots by advancing `head`, and says of each slot, last of
 * all, that it is complete. Nobody waits: where there is no room, the record is counted as lost.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/probe.h"
#include "probe/wire.h"

/* arch/x86/entry/syscalls/syscall_64.tbl */
#define NR_NANOSLEEP 35
#define NR_GETTID 186
#define NR_PROCESS_VM_READV 310

#define PAGE_MASK 4095u
#define STRING_WORDS (PROBE_STRING_MAX / 8)

struct probe_shared *probe_shared __attribute__((visibility("hidden"))) = NULL;

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *start = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return start;
}

void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *d = to;
	const unsigned char *s = from;

	if ((uintptr_t)d - (uintptr_t)s >= n)
		return memcpy(to, from, n);
	while (n--)
		d[n] = s[n];
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	void *start = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
	return start;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;
	size_t i;

	for (i = 0; i < n; i++)
		if (x[i] != y[i])
			return x[i] - y[i];
	return 0;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static long sys0(long nr)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr) : "rcx", "r11", "memory");
	return ret;
}

static long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static struct probe_counter *counter_of(const struct probe_site *site)
{
	return (struct probe_counter *)site->counter;
}

uint32_t probe_thread(void)
{
	int32_t at = probe_shared->tid_at;
	uint32_t tid;

	if (!at)
		return (uint32_t)sys0(NR_GETTID);
	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(tid) : "r"((long)at));
	return tid;
}

struct iovec {
	void *base;
	size_t len;
};

/* For what is ours, and not in probe.h. False: a filter of the program's may kill it for that. */
bool probe_sleep(long ns) __attribute__((visibility("hidden")));

bool probe_sleep(long ns)
{
	const long time[2] = { 0, ns };

	if (probe_shared->flags & PROBE_NO_SYSCALLS)
		return false;
	sys6(NR_NANOSLEEP, (long)time, 0, 0, 0, 0, 0);
	return true;
}

bool probe_read(void *to, const void *from, size_t len)
{
	const struct probe_shared *s = probe_shared;
	struct iovec here = { to, len }, there = { (void *)from, len };

	if (s->flags & PROBE_NO_SYSCALLS)
		return false;
	return sys6(NR_PROCESS_VM_READV, s->pid, (long)&here, 1, (long)&there, 1, 0) == (long)len;
}

/* A page at a time: what lies behind the string need not be there. */
bool probe_read_string(char *to, size_t cap, const char *from)
{
	size_t done = 0, n, i;

	if (!cap)
		return false;
	while (done < cap - 1) {
		n = PAGE_MASK + 1 - ((uintptr_t)(from + done) & PAGE_MASK);
		if (n > cap - 1 - done)
			n = cap - 1 - done;
		if (!probe_read(to + done, from + done, n)) {
			to[0] = 0;
			return false;
		}
		for (i = 0; i < n; i++)
			if (!to[done + i])
				return true;
		done += n;
	}
	to[done] = 0;
	return true;
}

/* By the numbers of DWARF, as watchctl/code/regs.h has them. */
static uint64_t register_value(const struct probe_regs *r, unsigned int reg)
{
	static const uint8_t place[16] = {
		offsetof(struct probe_regs, rax), offsetof(struct probe_regs, rdx),
		offsetof(struct probe_regs, rcx), offsetof(struct probe_regs, rbx),
		offsetof(struct probe_regs, rsi), offsetof(struct probe_regs, rdi),
		offsetof(struct probe_regs, rbp), offsetof(struct probe_regs, rsp),
		offsetof(struct probe_regs, r8),  offsetof(struct probe_regs, r9),
		offsetof(struct probe_regs, r10), offsetof(struct probe_regs, r11),
		offsetof(struct probe_regs, r12), offsetof(struct probe_regs, r13),
		offsetof(struct probe_regs, r14), offsetof(struct probe_regs, r15),
	};
	uint64_t value;

	if (reg >= sizeof(place))
		return 0;
	__builtin_memcpy(&value, (const char *)r + place[reg], sizeof(value));
	return value;
}

/* False: not known, for the processor or the kernel forbids to ask. */
static bool segment_base(unsigned int segment, uint64_t *ret)
{
	*ret = 0;
	if (!segment)
		return true;
	if (!(probe_shared->flags & PROBE_FSGSBASE))
		return false;
	if (segment == 1)
		__asm__ volatile("rdfsbase %0" : "=r"(*ret));
	else
		__asm__ volatile("rdgsbase %0" : "=r"(*ret));
	return true;
}

static uint64_t operand_address(const struct probe *p, unsigned int n)
{
	const struct probe_operand *o;
	uint64_t addr, base;

	if (n >= PROBE_OPERANDS)
		return 0;
	o = &p->site->operand[n];
	if (o->kind != PROBE_MEM || !segment_base(o->segment, &base))
		return 0;
	addr = (uint64_t)o->disp;
	if (o->base != PROBE_NO_REG)
		addr += register_value(p->regs, o->base);
	if (o->index != PROBE_NO_REG)
		addr += register_value(p->regs, o->index) * o->scale;
	if (o->addr32)
		addr = (uint32_t)addr;
	return base + addr;
}

void *probe_address(const struct probe *p, unsigned int n)
{
	return (void *)operand_address(p, n);
}

static uint64_t low_bytes(uint64_t value, unsigned int size)
{
	return size && size < 8 ? value & ((1ull << size * 8) - 1) : value;
}

/* On the page of the stack that the thread is using, which is there; else the kernel is asked. */
static uint64_t memory_value(const struct probe *p, uint64_t addr, unsigned int size)
{
	uint64_t value = 0, at = addr, top = p->regs->rsp | PAGE_MASK;

	if (size > 8)
		size = 8;
	if (!addr || !size)
		return 0;
	if (at < p->regs->rsp || at + size - 1 > top) {
		probe_read(&value, (const void *)addr, size);
		return value;
	}
	memcpy(&value, (const void *)addr, size);
	return value;
}

uint64_t probe_operand(const struct probe *p, unsigned int n)
{
	const struct probe_operand *o;

	if (n >= PROBE_OPERANDS)
		return 0;
	o = &p->site->operand[n];
	switch (o->kind) {
	case PROBE_REG:
		return low_bytes(register_value(p->regs, o->base) >> o->shift, o->size);
	case PROBE_IMM:
		return low_bytes((uint64_t)o->disp, o->size);
	case PROBE_MEM:
		return memory_value(p, operand_address(p, n), o->size);
	default:
		return 0;
	}
}

/* Vector registers. The area that they were saved in begins with what FXSAVE has (Intel SDM vol. 1, table 10-2, and 13.4). */

#define XMM_AT 160u
#define HEADER_AT 512u
#define STATE_SSE 2u
#define STATE_YMM 4u
#define STATE_ZMM 0x40u
#define STATE_MORE 0x80u

/* Where a part of a register is. */
struct vector_part {
	uint32_t at; /* 0: there is none */
	uint32_t len;
	uint64_t state; /* that it is of */
};

/* Part @i of register @n, from its low bytes on: of 16, 16 and 32 bytes, or of 64. */
static struct vector_part vector_part(unsigned int n, unsigned int i)
{
	const struct probe_shared *s = probe_shared;
	const struct vector_part none = { 0, 0, 0 };

	if (n >= 16)
		return n < 32 && !i && s->more_at
			       ? (struct vector_part){ s->more_at + 64 * (n - 16), 64, STATE_MORE }
			       : none;
	if (i == 0)
		return (struct vector_part){ XMM_AT + 16 * n, 16, STATE_SSE };
	if (i == 1 && s->ymm_at)
		return (struct vector_part){ s->ymm_at + 16 * n, 16, STATE_YMM };
	if (i == 2 && s->zmm_at)
		return (struct vector_part){ s->zmm_at + 32 * n, 32, STATE_ZMM };
	return none;
}

/* Which state there is anything of; without XSAVE all. */
static uint64_t *vector_states(const struct probe_vector *v)
{
	return probe_shared->vector_mask ? (uint64_t *)((uintptr_t)v + HEADER_AT) : NULL;
}

bool probe_vector_read(const struct probe_vector *v, unsigned int n, void *to, size_t len)
{
	const uint64_t *states = vector_states(v);
	unsigned char *at = to;
	unsigned int i;

	memset(to, 0, len);
	for (i = 0; len; i++) {
		struct vector_part part = vector_part(n, i);
		size_t some = len < part.len ? len : part.len;

		if (!part.at)
			return false;
		/* What is as it was at the beginning is zeros, and may not have been written. */
		if (!states || *states & part.state)
			memcpy(at, (const char *)v + part.at, some);
		at += some;
		len -= some;
	}
	return true;
}

static bool vector_has(unsigned int n, size_t len)
{
	unsigned int i;

	for (i = 0; len; i++) {
		uint32_t some = vector_part(n, i).len;

		if (!some)
			return false;
		len -= len < some ? len : some;
	}
	return true;
}

/* All of a state counts once one register of it does: the others of it are zeros then. */
static void vector_begin(struct probe_vector *v, uint64_t state)
{
	uint64_t *states = vector_states(v);
	unsigned int n, i;

	if (!states || *states & state)
		return;
	for (n = 0; n < 32; n++)
		for (i = 0; i < 3; i++) {
			struct vector_part part = vector_part(n, i);

			if (part.at && part.state == state)
				memset((char *)v + part.at, 0, part.len);
		}
	*states |= state;
}

bool probe_vector_write(const struct probe *p, struct probe_vector *v, unsigned int n, const void *from,
			size_t len)
{
	const unsigned char *at = from;
	unsigned int i;

	if (!(p->site->flags & PROBE_INSTEAD) || !vector_has(n, len))
		return false;
	for (i = 0; len; i++) {
		struct vector_part part = vector_part(n, i);
		size_t some = len < part.len ? len : part.len;

		vector_begin(v, part.state);
		memcpy((char *)v + part.at, at, some);
		at += some;
		len -= some;
	}
	return true;
}

/* A record while it is being written. */
struct writing {
	const struct probe_ring *ring;
	char *slots;
	uint64_t first, mask;
};

static struct probe_slot *slot_at(const struct writing *w, uint64_t i)
{
	return (struct probe_slot *)(w->slots + ((w->first + i) & w->mask) * PROBE_SLOT);
}

/* Which ring is written first of all: of the CPU; or, where asking for that takes long, or is not allowed, of the thread. */
static uint32_t preferred_ring(uint32_t tid)
{
	uint64_t id;

	if (!(probe_shared->flags & PROBE_RDPID))
		return tid;
	/* Gives what arch/x86/include/asm/segment.h says: the node stands above the CPU. */
	__asm__ volatile("rdpid %0" : "=r"(id));
	return id & 0xfff;
}

/* Slots @n of one ring; false: there is no room. Of those that the reader has given up, none is used. */
static bool reserve(struct probe_shared *s, uint32_t preferred, uint64_t n, struct writing *ret)
{
	uint32_t i, at = preferred & (s->nrings - 1);
	struct probe_ring *r = &s->ring[at];
	uint64_t head;

	for (i = 0; __atomic_load_n(&r->retired, __ATOMIC_RELAXED); i++) {
		if (i == s->nrings)
			return false;
		at = (at + 1) & (s->nrings - 1);
		r = &s->ring[at];
	}
	head = __atomic_load_n(&r->head, __ATOMIC_RELAXED);
	do
		if (head + n - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) > s->slots)
			return false;
	while (!__atomic_compare_exchange_n(&r->head, &head, head + n, true, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED));
	*ret = (struct writing){
		.ring = r,
		.slots = (char *)s->slot_at + (uint64_t)at * s->slots * PROBE_SLOT,
		.first = head,
		.mask = s->slots - 1,
	};
	return true;
}

static uint64_t *word_at(const struct writing *w, uint64_t i)
{
	if (i < PROBE_HEAD_WORDS)
		return &slot_at(w, 0)->word[i];
	i -= PROBE_HEAD_WORDS;
	return &((struct probe_more *)slot_at(w, 1 + i / PROBE_MORE_WORDS))->word[i % PROBE_MORE_WORDS];
}

static uint64_t slots_for(uint64_t words)
{
	return words <= PROBE_HEAD_WORDS
		       ? 1
		       : 1 + (words - PROBE_HEAD_WORDS + PROBE_MORE_WORDS - 1) / PROBE_MORE_WORDS;
}

/* A record of @words words; false: there was no room, and it is counted. */
static bool begin(const struct probe *p, uint64_t words, enum probe_record_kind kind, uint8_t nbytes,
		  struct writing *ret)
{
	struct probe_shared *s = probe_shared;
	uint64_t n = slots_for(words), time = probe_ticks();
	uint32_t tid = probe_thread();
	struct probe_slot *head;

	if (!reserve(s, preferred_ring(tid), n, ret)) {
		__atomic_fetch_add(&counter_of(p->site)->lost, 1, __ATOMIC_RELAXED);
		return false;
	}
	head = slot_at(ret, 0);
	head->more = (uint16_t)(n - 1);
	head->kind = kind;
	head->nbytes = nbytes;
	head->time = time;
	head->tid = tid;
	head->site = p->site->id;
	head->reserved = 0;
	return true;
}

/* The first slot last: its number says that all are there. */
static void end(const struct writing *w)
{
	uint64_t i = slot_at(w, 0)->more;

	for (; i; i--) {
		struct probe_more *m = (struct probe_more *)slot_at(w, i);

		m->part = (uint16_t)i;
		m->pad = 0;
		__atomic_store_n(&m->seq, (uint32_t)(w->first + i + 1), __ATOMIC_RELEASE);
	}
	__atomic_store_n(&slot_at(w, 0)->seq, (uint32_t)(w->first + 1), __ATOMIC_RELEASE);
}

void probe_record_value(const struct probe *p, uint64_t value)
{
	struct writing w;

	if (!begin(p, 1, PROBE_RECORD_VALUE, 0, &w))
		return;
	*word_at(&w, 0) = value;
	end(&w);
}

/* Of a string: its bytes with a NUL, in STRING_WORDS words; one that cannot be read is a NUL and then a 1. */
static void put_string(const struct writing *w, uint64_t at, const char *from)
{
	union {
		char text[PROBE_STRING_MAX];
		uint64_t word[STRING_WORDS];
	} s;
	unsigned int i;

	for (i = 0; i < STRING_WORDS; i++)
		s.word[i] = 0;
	if (!from || !probe_read_string(s.text, sizeof(s.text), from)) {
		s.text[0] = 0;
		s.text[1] = 1;
	}
	for (i = 0; i < STRING_WORDS; i++)
		*word_at(w, at + i) = s.word[i];
}

void probe_record_log(const struct probe *p, const struct probe_format *f, const uint64_t arg[PROBE_ARGS_MAX])
{
	uint32_t nargs = f->nargs <= PROBE_ARGS_MAX ? f->nargs : PROBE_ARGS_MAX, i;
	uint32_t strings = f->kinds & ((1u << nargs) - 1);
	uint64_t words = 0, at;
	struct writing w;

	for (i = 0; i < nargs; i++)
		words += (strings >> i & 1) * STRING_WORDS;
	if (!begin(p, 1 + nargs + words, PROBE_RECORD_LOG, (uint8_t)words, &w))
		return;
	*word_at(&w, 0) = (uint64_t)f;
	for (i = 0; i < nargs; i++)
		*word_at(&w, 1 + i) = arg[i];
	at = 1 + nargs;
	for (i = 0; i < nargs; i++)
		if (strings >> i & 1) {
			put_string(&w, at, (const char *)arg[i]);
			at += STRING_WORDS;
		}
	end(&w);
}

/* So many parts of a record the kernel copies at once. */
#define STACK_PARTS 32u

/*
 * Of the stack above its first page, which need not be there: the kernel copies what is, straight into the record's slots.
 * Returns the bytes; @at: the record's word that the first goes to.
 */
static uint64_t copy_rest(const struct writing *w, uint64_t at, uint64_t from, uint64_t bytes)
{
	struct iovec here[STACK_PARTS], there;
	uint64_t good = 0, n, room, i;
	long done;

	if (probe_shared->flags & PROBE_NO_SYSCALLS)
		return 0;
	while (good < bytes) {
		for (i = 0, n = 0; i < STACK_PARTS && good + n < bytes; i++, n += here[i - 1].len) {
			uint64_t word = at + (good + n) / 8;

			room = (PROBE_MORE_WORDS - (word - PROBE_HEAD_WORDS) % PROBE_MORE_WORDS) * 8;
			here[i] = (struct iovec){ word_at(w, word),
						  room < bytes - good - n ? room : bytes - good - n };
		}
		there = (struct iovec){ (void *)(from + good), n };
		done = sys6(NR_PROCESS_VM_READV, probe_shared->pid, (long)here, (long)i, (long)&there, 1, 0);
		if (done <= 0)
			break;
		good += (uint64_t)done & ~7ull;
		if ((uint64_t)done < n)
			break;
	}
	return good;
}

/*
 * The stack is copied up to the end of its page, which is there, and the rest by the kernel, as far as it goes: a record has
 * as many words as are asked for, and word[2] says how many bytes of stack are good.
 */
void probe_record_stack(const struct probe *p, const struct probe_format *tag, uint64_t value)
{
	const uint64_t nregs = sizeof(struct probe_regs) / 8, before = 3;
	uint64_t bytes = probe_shared->stack_bytes & ~7u, sp = p->regs->rsp & ~7ull, good, i;
	const uint64_t *regs = (const uint64_t *)p->regs;
	struct writing w;

	_Static_assert(sizeof(struct probe_regs) / 8 + 3 > PROBE_HEAD_WORDS,
		       "the stack is not in the first slot");
	if (!begin(p, before + nregs + bytes / 8, PROBE_RECORD_STACK, 0, &w))
		return;
	*word_at(&w, 0) = (uint64_t)tag;
	*word_at(&w, 1) = value;
	for (i = 0; i < nregs; i++)
		*word_at(&w, before + i) = regs[i];
	good = PAGE_MASK + 1 - (sp & PAGE_MASK);
	if (good > bytes)
		good = bytes;
	for (i = 0; i < good / 8; i++)
		*word_at(&w, before + nregs + i) = ((const uint64_t *)sp)[i];
	if (good < bytes)
		good += copy_rest(&w, before + nregs + good / 8, sp + good, bytes - good);
	*word_at(&w, 2) = good;
	end(&w);
}
