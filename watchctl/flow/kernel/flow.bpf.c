/*
 * flow.bpf.c - what connects the threads of the system, event by event, into a ring a CPU (flow_wire.h), as it stands in the
 * log (trace/flow/flow_format.h). Nothing waits here, and no thread is touched.
 *
 * The returns of system calls are recorded, not their entries: who waits in one says so when it leaves its CPU. A program may be
 * hit by an interrupt whose programs write to the same ring: each takes its place and its time together (reserve()), so that the
 * times of a ring never go back, and what is committed is whole.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "watchctl/flow/kernel/flow_kernel.bpf.h"
#include "watchctl/flow/kernel/flow_wire.h"
#include "watchctl/trace/flow/flow_format.h"

const volatile uint32_t ring_mask = 0; /* words of a ring, less one */
const volatile uint32_t ring_words = 0;
const volatile uint64_t salt = 1;
const volatile uint32_t own_pid = 0;
const volatile uint32_t scope = FLOW_SCOPE_ALL;
const volatile uint64_t cgroup = 0;
const volatile uint32_t cgroup_level = 0;
const volatile int64_t preempt_count_from_rq = 0; /* bytes; 0: not known */
const volatile uint8_t call_class[FLOW_CALLS] = { 0 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__uint(value_size, FLOW_RING_HEAD);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, uint32_t);
	__type(value, uint8_t);
} processes SEC(".maps");

/* Rings */

#define TRIES 8

struct place {
	struct flow_ring *ring;
	uint64_t at, time_ns;
};

static __always_inline void store(struct flow_ring *r, uint64_t at, uint32_t word)
{
	r->word[at & ring_mask] = word;
}

static __always_inline void put_time(struct place *p)
{
	store(p->ring, p->at, FLOW_EXTENDED);
	store(p->ring, p->at + 1, FLOW_TIME);
	store(p->ring, p->at + 2, (uint32_t)p->time_ns);
	store(p->ring, p->at + 3, (uint32_t)(p->time_ns >> 32));
	p->at += FLOW_TIME_WORDS;
}

static __always_inline void put_lost(struct place *p)
{
	const uint64_t lost = __sync_lock_test_and_set(&p->ring->lost, 0);

	store(p->ring, p->at++, flow_head(FLOW_LOST, p->time_ns));
	store(p->ring, p->at++, lost > UINT32_MAX ? UINT32_MAX : (uint32_t)lost);
}

static __always_inline void put_stray(struct place *p, uint32_t tid)
{
	store(p->ring, p->at++, flow_head(FLOW_SWITCH, p->time_ns));
	store(p->ring, p->at++, tid | (uint32_t)FLOW_UNTOLD << FLOW_TID_BITS);
}

static __always_inline void leave(struct flow_ring *r)
{
	/* The innermost is done before the others go on: only the outermost sees all that was reserved written. */
	if (r->nest == 1) {
		*(volatile uint64_t *)&r->committed = *(volatile uint64_t *)&r->reserved;
		asm volatile("" ::: "memory");
	}
	*(volatile uint64_t *)&r->nest = r->nest - 1;
}

static __always_inline struct flow_ring *own_ring(void)
{
	const uint32_t cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

#define KNOWN (1u << 31)

/*
 * A place for @words; false: there is none, which is counted. Where another thread runs than the events before say, a switch to it stands
 * in front: at the beginning, after events were lost, and where the kernel does not tell of a switch.
 */
static __always_inline bool reserve(struct place *p, struct flow_ring *r, uint32_t words)
{
	uint64_t old, all;
	bool late, lost, stray;
	uint32_t tid;

	if (!r)
		return false;
	p->ring = r;
	tid = (uint32_t)bpf_get_current_task_btf()->pid;
	*(volatile uint64_t *)&r->nest = r->nest + 1;
	for (int i = 0; i < TRIES; i++) {
		old = *(volatile uint64_t *)&r->reserved;
		p->time_ns = bpf_ktime_get_ns();
		late = (p->time_ns - r->last_ns) >> FLOW_TIME_BITS;
		lost = *(volatile uint64_t *)&r->lost;
		stray = lost || *(volatile uint64_t *)&r->runs != (tid | KNOWN);
		all = words + (late ? FLOW_TIME_WORDS : 0) + (lost ? 2 : 0) + (stray ? 2 : 0);
		if (old + all - *(volatile uint64_t *)&r->tail > ring_words)
			break;
		if (__sync_val_compare_and_swap(&r->reserved, old, old + all) != old)
			continue;
		p->at = old;
		r->last_ns = p->time_ns;
		if (late)
			put_time(p);
		if (lost)
			put_lost(p);
		if (stray) {
			*(volatile uint64_t *)&r->runs = tid | KNOWN;
			put_stray(p, tid);
		}
		return true;
	}
	__sync_fetch_and_add(&r->lost, 1);
	leave(r);
	return false;
}

static __always_inline void put2(struct flow_ring *r, enum flow_id id, uint32_t a)
{
	struct place p;

	if (!reserve(&p, r, 2))
		return;
	store(p.ring, p.at, flow_head(id, p.time_ns));
	store(p.ring, p.at + 1, a);
	leave(p.ring);
}

static __always_inline void put3(struct flow_ring *r, enum flow_id id, uint32_t a, uint32_t b)
{
	struct place p;

	if (!reserve(&p, r, 3))
		return;
	store(p.ring, p.at, flow_head(id, p.time_ns));
	store(p.ring, p.at + 1, a);
	store(p.ring, p.at + 2, b);
	leave(p.ring);
}

static __always_inline void put4(struct flow_ring *r, enum flow_id id, uint32_t a, uint32_t b, uint32_t c)
{
	struct place p;

	if (!reserve(&p, r, 4))
		return;
	store(p.ring, p.at, flow_head(id, p.time_ns));
	store(p.ring, p.at + 1, a);
	store(p.ring, p.at + 2, b);
	store(p.ring, p.at + 3, c);
	leave(p.ring);
}

/* Objects */

extern void *bpf_rdonly_cast(const void *object, uint32_t type) __ksym __weak;

/*
 * A member of one of the kernel's structs. Where the kernel lets programs read it directly (Linux 6.2), without a call: what cannot be
 * read is 0 either way.
 */
#define FIELD(type, at, member)                                                                         \
	({                                                                                              \
		type *at_ = (type *)(at);                                                               \
		typeof(at_->member) value_ = 0;                                                         \
		if (bpf_rdonly_cast)                                                                    \
			value_ = ((type *)bpf_rdonly_cast(at_, bpf_core_type_id_kernel(type)))->member; \
		else                                                                                    \
			bpf_core_read(&value_, sizeof(value_), &at_->member);                           \
		value_;                                                                                 \
	})

struct object {
	uint32_t kind, number;
	uint64_t file;
};

#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define S_IFSOCK 0140000

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

#define MINOR_BITS 20
#define TTY_MAJOR 4
#define TTYAUX_MAJOR 5 /* /dev/tty, console, ptmx */
#define PTMX_MINOR 2
#define PTS_MAJOR 136
#define PTS_MAJORS 8
#define PTM_MAJOR 128 /* of the other side, which has no file of its own */

static __always_inline const struct file *file_of(int32_t fd)
{
	const struct task_struct *me = bpf_get_current_task_btf();
	const struct files_struct *files = me->files;
	const struct fdtable *table;
	const struct file *file = NULL;

	if (!files)
		return NULL;
	table = files->fdt;
	if (fd < 0 || (uint32_t)fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

static __always_inline void terminal(const struct file *file, struct object *ret)
{
	const void *private = FIELD(struct file, file, private_data);
	const struct tty_struct *tty = BPF_CORE_READ((const struct tty_file_private *)private, tty);

	const int major = BPF_CORE_READ(tty, driver, major);

	if (major != PTM_MAJOR && major != PTS_MAJOR)
		return;
	ret->number = (uint32_t)BPF_CORE_READ(tty, index);
	ret->kind = major == PTM_MAJOR ? FLOW_KIND_PTY_MASTER : FLOW_KIND_PTY;
}

static __always_inline void character_device(const struct file *file, const struct inode *inode,
					     struct object *ret)
{
	const uint32_t major = FIELD(struct inode, inode, i_rdev) >> MINOR_BITS;

	if (major == TTY_MAJOR || major == TTYAUX_MAJOR ||
	    (major >= PTS_MAJOR && major < PTS_MAJOR + PTS_MAJORS)) {
		ret->kind = FLOW_KIND_TTY;
		terminal(file, ret);
	} else {
		ret->kind = FLOW_KIND_DEVICE;
	}
}

#define EFD_SEMAPHORE 1

extern const void eventfd_release __ksym __weak;
extern const void ep_eventpoll_release __ksym __weak;
extern const void timerfd_release __ksym __weak;

/* False: it is none of those that have an inode in common. */
static __always_inline bool anonymous(const struct file *file, struct object *ret)
{
	const void *release = FIELD(struct file_operations, FIELD(struct file, file, f_op), release);
	const void *private;

	if (!release)
		return false;
	private = FIELD(struct file, file, private_data);
	if (release == &eventfd_release) {
		ret->kind = BPF_CORE_READ((const struct eventfd_ctx *)private, flags) & EFD_SEMAPHORE
				    ? FLOW_KIND_SEMAPHORE
				    : FLOW_KIND_EVENTFD;
		ret->number = (uint32_t)BPF_CORE_READ((const struct eventfd_ctx *)private, id);
	} else if (release == &ep_eventpoll_release) {
		ret->kind = FLOW_KIND_EPOLL;
		ret->number = flow_key((uint64_t) private, salt);
	} else if (release == &timerfd_release) {
		ret->kind = FLOW_KIND_TIMERFD;
		ret->number = flow_key((uint64_t) private, salt);
	} else {
		return false;
	}
	return true;
}

static __always_inline uint32_t socket_kind(const struct file *file)
{
	const struct sock *sk = FIELD(struct socket, FIELD(struct file, file, private_data), sk);

	switch (FIELD(struct sock, sk, __sk_common.skc_family)) {
	case AF_UNIX:
		return FLOW_KIND_UNIX;
	case AF_INET:
	case AF_INET6:
		return FLOW_KIND_INET;
	default:
		return FLOW_KIND_SOCKET;
	}
}

static __always_inline void object_of_file(const struct file *file, struct object *ret)
{
	const struct inode *inode = FIELD(struct file, file, f_inode);

	ret->number = (uint32_t)FIELD(struct inode, inode, i_ino);
	switch (FIELD(struct inode, inode, i_mode) & S_IFMT) {
	case S_IFIFO:
		ret->kind = FLOW_KIND_PIPE;
		break;
	case S_IFSOCK:
		ret->kind = socket_kind(file);
		break;
	case S_IFDIR:
		ret->kind = FLOW_KIND_DIRECTORY;
		break;
	case S_IFBLK:
		ret->kind = FLOW_KIND_DEVICE;
		break;
	case S_IFCHR:
		character_device(file, inode, ret);
		break;
	case S_IFREG:
		if (!anonymous(file, ret))
			ret->kind = FLOW_KIND_FILE;
		break;
	default: /* before Linux 6.16 those are of no type */
		if (!anonymous(file, ret)) {
			ret->kind = FLOW_KIND_OTHER;
			ret->number = flow_key((uint64_t)file, salt);
		}
		break;
	}
}

static __always_inline void object_of(int32_t fd, struct object *ret)
{
	const struct file *file = file_of(fd);

	ret->kind = FLOW_KIND_NONE;
	ret->number = 0;
	if (file)
		object_of_file(file, ret);
}

/* Sockets */

#define IS_NEW 16u /* beside the kind */

static __always_inline void put_socket(struct flow_ring *r, uint32_t kind, uint32_t number, uint32_t own_port,
				       uint32_t other, const uint32_t hash[2])
{
	struct place p;

	if (!reserve(&p, r, 6))
		return;
	store(p.ring, p.at, flow_head(FLOW_SOCKET, p.time_ns));
	store(p.ring, p.at + 1, kind | own_port << 16);
	store(p.ring, p.at + 2, number);
	store(p.ring, p.at + 3, other);
	store(p.ring, p.at + 4, hash[0]);
	store(p.ring, p.at + 5, hash[1]);
	leave(p.ring);
}

static __always_inline void put_inet(struct flow_ring *r, const struct sock *sk, uint32_t number)
{
	const uint32_t mapped = __builtin_bswap32(0xffff);
	uint32_t own[4] = { 0, 0, mapped, 0 }, other[4] = { 0, 0, mapped, 0 }, hash[2], ns;

	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6) {
		BPF_CORE_READ_INTO(&own, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&other, sk, __sk_common.skc_v6_daddr);
	} else {
		own[3] = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		other[3] = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	}
	ns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	hash[0] = flow_address_key(own, ns, salt);
	hash[1] = flow_address_key(other, ns, salt);
	put_socket(r, FLOW_KIND_INET, number, BPF_CORE_READ(sk, __sk_common.skc_num),
		   (uint32_t)__builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport)) << 16, hash);
}

static __always_inline void put_unix(struct flow_ring *r, const struct sock *sk, uint32_t number,
				     uint32_t is_new)
{
	const struct sock *peer = BPF_CORE_READ((const struct unix_sock *)sk, peer);
	const struct file *file = peer ? BPF_CORE_READ(peer, sk_socket, file) : NULL;
	const uint32_t none[2] = { 0, 0 };

	if (file)
		put_socket(r, FLOW_KIND_UNIX | is_new, number, 0,
			   (uint32_t)BPF_CORE_READ(file, f_inode, i_ino), none);
}

/* Tells what the other end of the socket @fd is. */
static __always_inline void tell_socket(struct flow_ring *r, int32_t fd, uint32_t is_new)
{
	const struct file *file = file_of(fd);
	struct object o = { 0 };
	const struct socket *s;
	const struct sock *sk;

	if (!file)
		return;
	object_of_file(file, &o);
	if (o.kind != FLOW_KIND_UNIX && o.kind != FLOW_KIND_INET)
		return;
	s = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(s, sk);
	if (o.kind == FLOW_KIND_UNIX)
		put_unix(r, sk, o.number, is_new);
	else
		put_inet(r, sk, o.number);
}

static __always_inline void tell_pair(struct flow_ring *r, const int32_t *user)
{
	int32_t fd[2] = { -1, -1 };

	bpf_probe_read_user(fd, sizeof(fd), user);
	tell_socket(r, fd[0], IS_NEW);
	tell_socket(r, fd[1], IS_NEW);
}

/* Nothing is in it yet. */
static __always_inline void tell_new(struct flow_ring *r, int32_t fd)
{
	const uint32_t none[2] = { 0, 0 };
	struct object o;

	object_of(fd, &o);
	if (o.kind == FLOW_KIND_PIPE || o.kind == FLOW_KIND_EVENTFD || o.kind == FLOW_KIND_SEMAPHORE)
		put_socket(r, o.kind | IS_NEW, o.number, 0, 0, none);
}

static __always_inline void tell_pipe(struct flow_ring *r, const int32_t *user)
{
	int32_t fd = -1;

	bpf_probe_read_user(&fd, sizeof(fd), user);
	tell_new(r, fd);
}

/* System calls */

static __always_inline bool is_wanted(void)
{
	const uint32_t pid = bpf_get_current_pid_tgid() >> 32;

	if (pid == own_pid)
		return false;
	if (scope == FLOW_SCOPE_PROCESSES)
		return bpf_map_lookup_elem(&processes, &pid);
	if (scope == FLOW_SCOPE_CGROUP)
		return bpf_get_current_ancestor_cgroup_id((int)cgroup_level) == cgroup;
	return true;
}

static __always_inline uint32_t futex_op(uint32_t class, uint64_t argument)
{
	enum { FUTEX_WAIT_BITSET = 9, FUTEX_WAKE_BITSET = 10 };

	if (class == FLOW_CALL_FUTEX_WAIT)
		return FUTEX_WAIT_BITSET;
	return class == FLOW_CALL_FUTEX_WAKE ? FUTEX_WAKE_BITSET : argument & 511;
}

static __always_inline bool fits(int64_t result, unsigned int bits)
{
	return result >= -(1ll << (bits - 1)) && result < 1ll << (bits - 1);
}

static __always_inline void put_plain(struct flow_ring *r, uint32_t call, int64_t result)
{
	if (fits(result, 23))
		put2(r, FLOW_CALL, call | (uint32_t)result << 9);
	else
		put4(r, FLOW_CALL_BIG, call, (uint32_t)result, (uint32_t)((uint64_t)result >> 32));
}

static __always_inline void put_on(struct flow_ring *r, uint32_t call, int32_t fd, int64_t result)
{
	struct object o;
	struct place p;

	object_of(fd, &o);
	if (fits(result, 19)) {
		put3(r, FLOW_CALL_ON, call | o.kind << 9 | (uint32_t)result << 13, o.number);
		return;
	}
	if (!reserve(&p, r, 5))
		return;
	store(p.ring, p.at, flow_head(FLOW_CALL_ON_BIG, p.time_ns));
	store(p.ring, p.at + 1, call | o.kind << 9);
	store(p.ring, p.at + 2, o.number);
	store(p.ring, p.at + 3, (uint32_t)result);
	store(p.ring, p.at + 4, (uint32_t)((uint64_t)result >> 32));
	leave(p.ring);
}

/* The thread has woken another since its last call: the one that returns says in what. */
static __always_inline bool has_woken(struct flow_ring *r)
{
	const uint64_t waker = r->waker;

	if (!waker)
		return false;
	r->waker = 0;
	return waker == (uint32_t)bpf_get_current_task_btf()->pid;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
	const uint64_t call = regs->orig_ax;
	struct flow_ring *r = own_ring();
	uint32_t class;

	if (call >= FLOW_CALLS || !r)
		return 0;
	class = call_class[call];
	if ((!has_woken(r) && !(class & FLOW_CALL_RETURN)) || !is_wanted())
		return 0;
	switch (class & FLOW_CALL_CLASS) {
	case FLOW_CALL_FUTEX_OLD:
	case FLOW_CALL_FUTEX_WAKE:
	case FLOW_CALL_FUTEX_WAIT:
		put4(r, FLOW_CALL_FUTEX, futex_op(class & FLOW_CALL_CLASS, regs->si) | (uint32_t)result << 9,
		     (uint32_t)regs->di, (uint32_t)(regs->di >> 32));
		break;
	case FLOW_CALL_SOCKETPAIR:
		if (!result)
			tell_pair(r, (const int32_t *)regs->r10);
		put_plain(r, (uint32_t)call, result);
		break;
	case FLOW_CALL_PIPE:
		if (!result)
			tell_pipe(r, (const int32_t *)regs->di);
		put_plain(r, (uint32_t)call, result);
		break;
	case FLOW_CALL_EVENTFD:
		tell_new(r, (int32_t)result);
		put_plain(r, (uint32_t)call, result);
		break;
	case FLOW_CALL_ACCEPT:
		if (result >= 0)
			tell_socket(r, (int32_t)result, 0);
		put_on(r, (uint32_t)call, (int32_t)regs->di, result);
		break;
	case FLOW_CALL_CONNECT:
		tell_socket(r, (int32_t)regs->di, 0);
		put_on(r, (uint32_t)call, (int32_t)regs->di, result);
		break;
	case FLOW_CALL_FD:
		put_on(r, (uint32_t)call, (int32_t)regs->di, result);
		break;
	default:
		put_plain(r, (uint32_t)call, result);
		break;
	}
	return 0;
}

/* Threads */

static __always_inline void put_name(struct flow_ring *r, const struct task_struct *t, const void *comm,
				     enum flow_name_how how)
{
	uint32_t text[4] = { 0 };
	struct place p;

	bpf_probe_read_kernel_str(text, sizeof(text), comm);
	if (!reserve(&p, r, 8))
		return;
	store(p.ring, p.at, flow_head(FLOW_NAME, p.time_ns));
	store(p.ring, p.at + 1, (uint32_t)t->pid | (uint32_t)how << FLOW_TID_BITS);
	store(p.ring, p.at + 2, (uint32_t)t->tgid);
	store(p.ring, p.at + 3, (uint32_t)BPF_CORE_READ(t, real_parent, tgid));
	for (int i = 0; i < 4; i++)
		store(p.ring, p.at + 4 + i, text[i]);
	leave(p.ring);
}

#define TASK_STOPPED_OR_TRACED 0x0c
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_INTERRUPTIBLE 0x01
#define EXIT_ANY 0xf0 /* EXIT_DEAD, EXIT_ZOMBIE, TASK_PARKED, TASK_DEAD */
#define TASK_NOLOAD 0x400
#define PF_KTHREAD 0x00200000

static __always_inline uint32_t why_of(bool preempt, uint32_t state)
{
	if (preempt)
		return FLOW_PREEMPTED;
	if (!state)
		return FLOW_YIELDED;
	if (state & EXIT_ANY)
		return FLOW_DEAD;
	if (state & TASK_STOPPED_OR_TRACED)
		return FLOW_STOPPED;
	if (state & TASK_UNINTERRUPTIBLE)
		return state & TASK_NOLOAD ? FLOW_IDLE : FLOW_BLOCKED;
	return FLOW_SLEEPS;
}

static __always_inline void put_futex_wait(struct flow_ring *r, uint32_t next, uint32_t op, uint64_t address)
{
	uint32_t word[5] = { 0 };
	const uint32_t is_read = !bpf_probe_read_user(word, sizeof(word), (const void *)address);
	struct place p;

	if (!reserve(&p, r, 8))
		return;
	store(p.ring, p.at, flow_head(FLOW_WAIT_FUTEX, p.time_ns));
	store(p.ring, p.at + 1, next);
	store(p.ring, p.at + 2, op | is_read << 9);
	store(p.ring, p.at + 3, (uint32_t)address);
	store(p.ring, p.at + 4, (uint32_t)(address >> 32));
	store(p.ring, p.at + 5, word[0]);
	store(p.ring, p.at + 6, word[2]);
	store(p.ring, p.at + 7, word[4]);
	leave(p.ring);
}

static __always_inline void put_wait(struct flow_ring *r, uint32_t next, const struct pt_regs *regs)
{
	const uint64_t call = regs->orig_ax;
	const uint32_t class = call < FLOW_CALLS ? call_class[call] & FLOW_CALL_CLASS : FLOW_CALL_PLAIN;
	struct object o;

	if (call >= FLOW_CALLS) { /* -1: an exception; or a number that there is not */
		put2(r, FLOW_SWITCH, next | (uint32_t)FLOW_WHY_FAULT << FLOW_TID_BITS);
		return;
	}
	switch (class) {
	case FLOW_CALL_FUTEX_OLD:
	case FLOW_CALL_FUTEX_WAKE:
	case FLOW_CALL_FUTEX_WAIT:
		put_futex_wait(r, next, futex_op(class, regs->si), regs->di);
		break;
	case FLOW_CALL_FD:
	case FLOW_CALL_ACCEPT:
	case FLOW_CALL_CONNECT:
		object_of((int32_t)regs->di, &o);
		put4(r, FLOW_WAIT_ON, next, (uint32_t)call | o.kind << 9 | (uint32_t)regs->di << 13,
		     o.number);
		break;
	default:
		put3(r, FLOW_WAIT_CALL, next, (uint32_t)call);
		break;
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
	const uint32_t why = why_of(preempt, state);
	const uint32_t word = (uint32_t)next->pid | why << FLOW_TID_BITS;
	struct flow_ring *r = own_ring();

	if (!r)
		return 0;
	if (why < FLOW_SLEEPS || why > FLOW_STOPPED || prev->flags & PF_KTHREAD)
		put2(r, FLOW_SWITCH, word);
	else
		put_wait(r, word, (const struct pt_regs *)bpf_task_pt_regs(prev));
	*(volatile uint64_t *)&r->runs = (uint32_t)next->pid | KNOWN;
	return 0;
}

#define PREEMPT_SOFTIRQ 0x100u /* in one, not only with them off */
#define PREEMPT_HARDIRQ 0xf0000u
#define PREEMPT_NMI 0xf00000u

/*
 * The kernel's count of what interrupts what on this CPU, include/linux/preempt.h. Its symbol is not to be had on every kernel: it is
 * found from the CPU's run queue, which lies in the same memory of the CPU's own, and which every thread leads to.
 */
static __always_inline const void *find_preempt_count(uint32_t cpu)
{
	const struct task_struct *me = bpf_get_current_task_btf();
	const struct rq *rq = BPF_CORE_READ(me, se.cfs_rq, rq);

	if (!rq || (uint32_t)BPF_CORE_READ(rq, cpu) != cpu)
		return NULL;
	return (const char *)rq + preempt_count_from_rq;
}

static __always_inline uint32_t context(struct flow_ring *r)
{
	uint32_t count;

	if (!r || !preempt_count_from_rq)
		return FLOW_BY_UNKNOWN;
	if (!r->preempt_count)
		r->preempt_count = (uint64_t)find_preempt_count(bpf_get_smp_processor_id());
	if (!r->preempt_count || bpf_probe_read_kernel(&count, sizeof(count), (const void *)r->preempt_count))
		return FLOW_BY_UNKNOWN;
	if (count & PREEMPT_NMI)
		return FLOW_BY_NMI;
	if (count & PREEMPT_HARDIRQ)
		return FLOW_BY_IRQ;
	return count & PREEMPT_SOFTIRQ ? FLOW_BY_SOFTIRQ : FLOW_BY_THREAD;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct flow_ring *r = own_ring();
	const uint32_t by = context(r);

	if (r && by == FLOW_BY_THREAD)
		r->waker = (uint32_t)bpf_get_current_task_btf()->pid;
	put2(r, FLOW_WAKING, (uint32_t)p->pid | by << FLOW_TID_BITS);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	const uint32_t of = (uint32_t)parent->tgid, is = (uint32_t)child->tgid;
	const uint8_t one = 1;

	if (scope == FLOW_SCOPE_PROCESSES && of != is && bpf_map_lookup_elem(&processes, &of))
		bpf_map_update_elem(&processes, &is, &one, BPF_ANY);
	put2(own_ring(), FLOW_FORK, (uint32_t)child->pid | (uint32_t)(of == is) << FLOW_TID_BITS);
	put_name(own_ring(), child, child->comm, FLOW_NAME_FORK);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, int old_pid)
{
	put2(own_ring(), FLOW_EXEC, (uint32_t)old_pid);
	put_name(own_ring(), p, p->comm, FLOW_NAME_EXEC);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *p, const char *comm)
{
	put_name(own_ring(), p, comm, FLOW_NAME_RENAME);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	const uint32_t pid = (uint32_t)p->tgid;

	put2(own_ring(), FLOW_EXIT, (uint32_t)p->exit_code);
	if (scope == FLOW_SCOPE_PROCESSES && p->pid == p->tgid)
		bpf_map_delete_elem(&processes, &pid);
	return 0;
}

/* A number for an object of the kernel's. The verifier lets nobody calculate with a pointer that it knows, so it is read back. */
static __always_inline uint32_t key_of(const void *object)
{
	uint64_t address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &object);
	return flow_key(address, salt);
}

/* Signals, timers, work, I/O */

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int signal, void *info, struct task_struct *p, int group, int result)
{
	struct flow_ring *r = own_ring();

	if (!result) /* not ignored, nor there already */
		put3(r, FLOW_SIGNAL, (uint32_t)p->pid | (uint32_t)signal << FLOW_TID_BITS, context(r));
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal_taken, int signal)
{
	put2(own_ring(), FLOW_SIGNAL_TAKEN, (uint32_t)signal & 0xff);
	return 0;
}

extern const void tick_nohz_handler __ksym __weak;
extern const void tick_sched_timer __ksym __weak;
extern const void delayed_work_timer_fn __ksym __weak;
extern const void process_timeout __ksym __weak;

/* The scheduler's own, many times a second, is nobody's. */
static __always_inline bool is_tick(const struct hrtimer *t)
{
	const void *function = BPF_CORE_READ(t, function);

	return function && (function == &tick_nohz_handler || function == &tick_sched_timer);
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_hrtimer_set, struct hrtimer *t)
{
	if (!is_tick(t))
		put2(own_ring(), FLOW_TIMER_SET, key_of(t));
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_fired, struct hrtimer *t)
{
	if (!is_tick(t))
		put2(own_ring(), FLOW_TIMER_FIRED, key_of(t));
	return 0;
}

/* Of the others those that somebody waits for: a network connection sets one with every packet. */
static __always_inline bool is_waited_for(const struct timer_list *t)
{
	const void *function = BPF_CORE_READ(t, function);

	return function && (function == &delayed_work_timer_fn || function == &process_timeout);
}

SEC("tp_btf/timer_start")
int BPF_PROG(on_timer_set, struct timer_list *t)
{
	if (is_waited_for(t))
		put2(own_ring(), FLOW_TIMER_SET, key_of(t));
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_fired, struct timer_list *t)
{
	if (is_waited_for(t))
		put2(own_ring(), FLOW_TIMER_FIRED, key_of(t));
	return 0;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(on_work_queued, int cpu, void *pool, void *work)
{
	put2(own_ring(), FLOW_WORK_QUEUED, key_of(work));
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(on_work_began, void *work)
{
	put2(own_ring(), FLOW_WORK_BEGAN, key_of(work));
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(on_work_ended, void *work)
{
	put2(own_ring(), FLOW_WORK_ENDED, key_of(work));
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_uring_submit, void *request)
{
	put2(own_ring(), FLOW_URING_SUBMIT, key_of(request));
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_uring_done, void *ring, void *request)
{
	if (request)
		put2(own_ring(), FLOW_URING_DONE, key_of(request));
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_block_issued, void *request)
{
	put2(own_ring(), FLOW_BLOCK_ISSUED, key_of(request));
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_block_done, void *request)
{
	put2(own_ring(), FLOW_BLOCK_DONE, key_of(request));
	return 0;
}

char licence[] SEC("license") = "GPL";
