#include "watchctl/patch/plan/trampoline.h"

#include <string.h>

#include "probe/calls/call_offsets.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_scan.h"

#define RED_ZONE_AND_RCX 0x88u
#define OP_TWO_BYTES 0x0f
#define OP_GROUP5 0xff
#define PREFIX_ADDRESS 0x67

/* A probe that records, and the jumps in it to what it leaves to the probes' entry. */
#define LEAVING_JUMPS 3
#define RECORDING_MOST 3 /* of one trampoline, for they are long; others are called */
struct leaving {
	size_t jump[LEAVING_JUMPS]; /* where the displacement of each is */
	size_t back;		    /* where it goes on */
	uint64_t site;
};

struct making {
	const struct trampoline_request *q;
	struct trampoline *t;
	uint16_t known[TRAMPOLINE_INSNS]; /* enter[], of the pass before */
	bool is_second;			  /* pass: @known is known */
	size_t probe;			  /* the next one */
	struct leaving leaving[RECORDING_MOST];
	size_t nleaving;
	enum trampoline_error error;
};

static void fail(struct making *m, enum trampoline_error e)
{
	if (m->error == TRAMPOLINE_OK)
		m->error = e;
}

static void put(struct making *m, const void *bytes, size_t n)
{
	if (m->t->len + n > TRAMPOLINE_MAX) {
		fail(m, TRAMPOLINE_TOO_LONG);
		return;
	}
	memcpy(m->t->code + m->t->len, bytes, n);
	m->t->len += n;
}

static void put_byte(struct making *m, unsigned int byte)
{
	const uint8_t b = (uint8_t)byte;

	put(m, &b, 1);
}

static void put32(struct making *m, uint32_t word)
{
	put(m, &word, sizeof(word));
}

/* The displacement from what follows it, and @behind bytes more, to @target. */
static void put_distance(struct making *m, uint64_t target, size_t behind)
{
	int64_t d = (int64_t)(target - (m->q->at + m->t->len + 4 + behind));

	if (d != (int32_t)d)
		fail(m, TRAMPOLINE_TOO_FAR);
	put32(m, (uint32_t)d);
}

static void put_jump(struct making *m, uint64_t target)
{
	put_byte(m, 0xe9);
	put_distance(m, target, 0);
}

static void put_give_back(struct making *m)
{
	static const uint8_t bytes[] = {
		0x48, 0x8b, 0x0c, 0x24, /* mov (%rsp),%rcx */
		0x48, 0x8d, 0xa4, 0x24, 0x88, 0x00, 0x00, 0x00
	}; /* lea 0x88(%rsp),%rsp */

	put(m, bytes, sizeof(bytes));
}

#define GIVE_BACK_LEN 12u
#define JUMP_LEN 5u

static void put_call_entry(struct making *m, uint64_t site)
{
	static const uint8_t lea[] = { 0x48, 0x8d, 0x0d };
	static const uint8_t call[] = { 0xff, 0x15 };

	put(m, lea, sizeof(lea));
	put_distance(m, site, 0);
	put(m, call, sizeof(call));
	put_distance(m, m->q->entry_at, 0);
}

/* The probe's part: see the opening of trampoline.h. No instruction of it touches the flags; @more: bytes to pass over when it is off. */
static void put_probe(struct making *m, uint64_t site, unsigned int more)
{
	static const uint8_t make_room[] = { 0x48, 0x8d, 0xa4, 0x24,
					     0x78, 0xff, 0xff, 0xff, /* lea -0x88(%rsp),%rsp */
					     0x48, 0x89, 0x0c, 0x24, /* mov %rcx,(%rsp) */
					     0x48, 0x8b, 0x0d };     /* mov switch(%rip),%rcx */

	put(m, make_room, sizeof(make_room));
	put_distance(m, m->q->switch_at, 0);
	put_byte(m, 0xe3); /* jrcxz */
	put_byte(m, 7 + 6 + more);
	put_call_entry(m, site);
}

/* A jump on @condition (Intel SDM vol. 2, appendix B, table B-10) to what leaves. */
static void put_leaving_jump(struct making *m, size_t *jump, unsigned int condition)
{
	put_byte(m, OP_TWO_BYTES);
	put_byte(m, 0x80 | condition);
	*jump = m->t->len;
	put32(m, 0);
}

#define IF_EQUAL 4u
#define IF_NOT_EQUAL 5u
#define IF_ABOVE 7u

static void set_distance(struct making *m, size_t at, size_t target)
{
	const uint32_t d = (uint32_t)(target - at - 4);

	if (m->error == TRAMPOLINE_OK)
		memcpy(m->t->code + at, &d, sizeof(d));
}

static const uint8_t restore_flags[] = {
	0x48, 0x8b, 0x44, 0x24, 0xf0, /* mov -16(%rsp),%rax */
	0x04, 0x7f, 0x9e,	      /* add $127,%al: overflows if the flag was set; sahf */
	0x48, 0x8b, 0x44, 0x24, 0xf8, /* mov -8(%rsp),%rax */
	0x48, 0x8b, 0x54, 0x24, 0xe8, /* mov -24(%rsp),%rdx */
};

/*
 * The probe's part, see struct trampoline_record. What it saves lies in the red zone, which is its own once the stack pointer is below that
 * of the program.
 */
static void put_record(struct making *m, const struct trampoline_probe *p)
{
	static const uint8_t begin[] = { 0x48, 0x8d, 0xa4, 0x24, 0x78,
					 0xff, 0xff, 0xff,	       /* lea -0x88(%rsp),%rsp */
					 0x48, 0x89, 0x0c, 0x24,       /* mov %rcx,(%rsp) */
					 0x48, 0x89, 0x44, 0x24, 0xf8, /* mov %rax,-8(%rsp) */
					 0x9f, 0x0f, 0x90, 0xc0,       /* lahf; seto %al */
					 0x48, 0x89, 0x44, 0x24, 0xf0, /* mov %rax,-16(%rsp) */
					 0x48, 0x89, 0x54, 0x24, 0xe8, /* mov %rdx,-24(%rsp) */
					 0x48, 0x8b, 0x0d };	       /* mov switch(%rip),%rcx */
	static const uint8_t is_on[] = { 0x48, 0x85, 0xc9 };	       /* test %rcx,%rcx */
	static const uint8_t tid[] = { 0x64, 0x8b, 0x04, 0x25 };       /* mov %fs:tid_at,%eax */
	static const uint8_t is_off[] = { 0x80, 0xb9 };		       /* cmpb $0,off+id(%rcx) */
	static const uint8_t place[] = { 0x0f, 0xb7, 0xd0,	       /* movzwl %ax,%edx */
					 0xc1, 0xe2, CALL_PLACE_SHIFT, /* shl $.,%edx */
					 0x48, 0x01, 0xd1,	       /* add %rdx,%rcx */
					 0x39, 0x41, CALL_PLACE_TID }; /* cmp %eax,tid(%rcx) */
	static const uint8_t take[] = { 0xb8, CALL_SLOT_SIZE, 0,    0,
					0,					     /* mov $.,%eax */
					0x48, 0x0f,	      0xc1, 0x01,	     /* xadd %rax,(%rcx) */
					0x48, 0x8b,	      0x51, CALL_PLACE_LAST, /* mov last(%rcx),%rdx */
					0x48, 0x29,	      0xc2,		     /* sub %rax,%rdx */
					0x48, 0x81,	      0xfa };		     /* cmp $span,%rdx */
	static const uint8_t write[] = {
		0x48, 0x89, 0xc1, /* mov %rax,%rcx */
		0x0f, 0x31,	  /* rdtsc */
		0x89, 0x01, 0x89, 0x51,
		0x04, /* mov %eax,(%rcx); mov %edx,4(%rcx) */
		0x48, 0x8d, 0x84, 0x24,
		0x88, 0,    0,	  0,		    /* lea 0x88(%rsp),%rax */
		0x48, 0x8b, 0x10,		    /* mov (%rax),%rdx */
		0x48, 0x89, 0x51, CALL_SLOT_RETURN, /* mov %rdx,return_address(%rcx) */
		0x48, 0xc1, 0xe8, 3,		    /* shr $3,%rax */
		0x48, 0xc1, 0xe0, CALL_SITE_BITS,   /* shl $.,%rax */
		0x48, 0x8d, 0x80
	};									 /* lea id(%rax),%rax */
	static const uint8_t complete[] = { 0x48, 0x89, 0x41, CALL_SLOT_PLACE }; /* mov %rax,place(%rcx) */
	struct leaving *l = &m->leaving[m->nleaving++];
	size_t off;

	l->site = p->site;
	put(m, begin, sizeof(begin));
	put_distance(m, m->q->switch_at, 0);
	put(m, is_on, sizeof(is_on));
	put_leaving_jump(m, &off, IF_EQUAL);
	put(m, tid, sizeof(tid));
	put32(m, (uint32_t)m->q->record->tid_at);
	put(m, is_off, sizeof(is_off));
	put32(m, CALL_OFF_AT + p->id);
	put_byte(m, 0);
	put_leaving_jump(m, &l->jump[0], IF_NOT_EQUAL);
	put(m, place, sizeof(place));
	put_leaving_jump(m, &l->jump[1], IF_NOT_EQUAL);
	put(m, take, sizeof(take));
	put32(m, m->q->record->span);
	put_leaving_jump(m, &l->jump[2], IF_ABOVE);
	put(m, write, sizeof(write));
	put32(m, p->id);
	put(m, complete, sizeof(complete));
	set_distance(m, off, m->t->len);
	put(m, restore_flags, sizeof(restore_flags));
	l->back = m->t->len;
	put_give_back(m);
}

/* Behind all else: what the probes that record leave to the probes' entry. */
static void put_leaving(struct making *m)
{
	for (size_t i = 0; i < m->nleaving; i++) {
		const struct leaving *l = &m->leaving[i];

		for (unsigned int k = 0; k < LEAVING_JUMPS; k++)
			set_distance(m, l->jump[k], m->t->len);
		put(m, restore_flags, sizeof(restore_flags));
		put_call_entry(m, l->site);
		put_jump(m, m->q->at + l->back);
	}
}

/* One of the program's instructions. */
struct moving {
	const uint8_t *bytes;
	uint64_t addr;
	struct insn insn;
	struct insn_brief brief;
	size_t op; /* where its opcode is, behind its prefixes */
	uint8_t rex;
	bool addr32;
};

static bool is_legacy_prefix(uint8_t b)
{
	static const uint8_t prefixes[] = { 0x2e, 0x36,		  0x3e, 0x26, 0x64, 0x65,
					    0x66, PREFIX_ADDRESS, 0xf0, 0xf2, 0xf3 };

	return memchr(prefixes, b, sizeof(prefixes));
}

static bool look_at(struct making *m, size_t offset, struct moving *ret)
{
	size_t left = m->q->moved - offset;

	*ret = (struct moving){ .bytes = m->q->bytes + offset, .addr = m->q->addr + offset };
	if (!insn_decode(ret->bytes, left, ret->addr, &ret->insn) ||
	    !insn_scan(ret->bytes, left, ret->addr, &ret->brief) || ret->insn.len != ret->brief.len)
		return false;
	while (ret->op < ret->insn.len && is_legacy_prefix(ret->bytes[ret->op]))
		ret->addr32 |= ret->bytes[ret->op++] == PREFIX_ADDRESS;
	if (ret->op < ret->insn.len && (ret->bytes[ret->op] & 0xf0) == 0x40)
		ret->rex = ret->bytes[ret->op++];
	return ret->op < ret->insn.len;
}

/* As it is, but for a displacement that counts from its own place. */
static void put_copy(struct making *m, const struct moving *i)
{
	const size_t at = i->insn.rip_at;

	if (!at) {
		put(m, i->bytes, i->insn.len);
		return;
	}
	if (i->addr32) {
		fail(m, TRAMPOLINE_CANNOT_MOVE);
		return;
	}
	put(m, i->bytes, at);
	put_distance(m, i->brief.refers, i->insn.len - at - 4);
	put(m, i->bytes + at + 4, i->insn.len - at - 4);
}

/* What moves with it is meant as it is in the trampoline, its probes included. */
static uint64_t where_now(struct making *m, uint64_t target)
{
	uint64_t offset = target - m->q->addr;

	if (offset >= m->q->moved)
		return target;
	if (m->is_second && m->known[offset] == TRAMPOLINE_NONE) /* the middle of an instruction */
		fail(m, TRAMPOLINE_CANNOT_MOVE);
	return m->q->at + m->known[offset];
}

static void put_direct_jump(struct making *m, const struct moving *i)
{
	const uint64_t target = where_now(m, i->brief.target);
	uint8_t op = i->bytes[i->op];

	if (op == 0xe9 || op == 0xeb) {
		put_jump(m, target);
	} else if ((op & 0xf0) == 0x70 || (op == OP_TWO_BYTES && (i->bytes[i->op + 1] & 0xf0) == 0x80)) {
		put_byte(m, OP_TWO_BYTES);
		put_byte(m, 0x80 | ((op == OP_TWO_BYTES ? i->bytes[i->op + 1] : op) & 0x0f));
		put_distance(m, target, 0);
	} else if (op >= 0xe0 && op <= 0xe3) { /* loopne, loope, loop, jrcxz: over the next jump if taken */
		static const uint8_t hops[] = { 0x02, 0xeb, 0x05 };

		if (i->addr32)
			put_byte(m, PREFIX_ADDRESS);
		put_byte(m, op);
		put(m, hops, sizeof(hops));
		put_jump(m, target);
	} else {
		fail(m, TRAMPOLINE_CANNOT_MOVE);
	}
}

/* The return address is the one that the call would have pushed at its old place. */
static void put_return_address(struct making *m, const struct moving *i)
{
	static const uint8_t make_room[] = { 0x48, 0x8d, 0x64, 0x24, 0xf8 }; /* lea -8(%rsp),%rsp */
	static const uint8_t low[] = { 0xc7, 0x04, 0x24 };		     /* movl $low,(%rsp) */
	static const uint8_t high[] = { 0xc7, 0x44, 0x24, 0x04 };	     /* movl $high,4(%rsp) */
	const uint64_t addr = i->addr + i->insn.len;

	put(m, make_room, sizeof(make_room));
	put(m, low, sizeof(low));
	put32(m, (uint32_t)addr);
	put(m, high, sizeof(high));
	put32(m, (uint32_t)(addr >> 32));
}

/* An operand [rsp + disp], seen from where rsp is 8 lower. False: what it reads has just been written over. */
static bool put_rsp_operand(struct making *m, const struct moving *i, uint8_t modrm, uint8_t sib)
{
	const uint8_t *from = i->bytes + i->op + 3;
	int32_t disp = 0;

	if (modrm >> 6 == 1)
		disp = (*from ^ 0x80) - 0x80;
	else if (modrm >> 6 == 2)
		memcpy(&disp, from, sizeof(disp));
	if (disp > -16 && disp < 0)
		return false;
	put_byte(m, 0x80 | (modrm & 7) | 4 << 3); /* a displacement of 32 bits, /4: jmp */
	put_byte(m, sib);
	put32(m, (uint32_t)(disp + 8));
	return true;
}

static void put_indirect_call(struct making *m, const struct moving *i)
{
	const uint8_t modrm = i->bytes[i->op + 1], rm = modrm & 7;
	const uint8_t sib = i->op + 2u < i->insn.len ? i->bytes[i->op + 2] : 0;
	const bool rex_b = i->rex & 1;
	size_t prefixes = i->op;

	if (i->bytes[i->op] != OP_GROUP5 || (modrm >> 3 & 7) != 2 || (modrm >> 6 == 3 && rm == 4 && !rex_b) ||
	    (i->insn.rip_at && i->addr32)) {
		fail(m, TRAMPOLINE_CANNOT_MOVE);
		return;
	}
	put_return_address(m, i);
	put(m, i->bytes, prefixes);
	put_byte(m, OP_GROUP5);
	if (modrm >> 6 != 3 && rm == 4 && (sib & 7) == 4 && !rex_b) {
		if (!put_rsp_operand(m, i, modrm, sib))
			fail(m, TRAMPOLINE_CANNOT_MOVE);
		return;
	}
	put_byte(m, (modrm & 0xc7) | 4 << 3);
	if (i->insn.rip_at)
		put_distance(m, i->brief.refers, 0);
	else
		put(m, i->bytes + i->op + 2, i->insn.len - i->op - 2);
}

static void put_call(struct making *m, const struct moving *i)
{
	if (!i->brief.has_target) {
		put_indirect_call(m, i);
		return;
	}
	if (i->bytes[i->op] != 0xe8) {
		fail(m, TRAMPOLINE_CANNOT_MOVE);
		return;
	}
	put_return_address(m, i);
	put_jump(m, i->brief.target);
}

/* The kernel leaves in rcx where it comes back to. */
static void put_syscall(struct making *m, const struct moving *i)
{
	static const uint8_t mov[] = { 0x48, 0xb9 };
	const uint64_t behind = i->addr + i->insn.len;

	put(m, i->bytes, i->insn.len);
	put(m, mov, sizeof(mov));
	put(m, &behind, sizeof(behind));
}

/* What means something else at another place, or what we do not know enough of: traps, far jumps. */
static bool cannot_move(const struct moving *i)
{
	const uint8_t op = i->bytes[i->op], next = i->op + 1u < i->insn.len ? i->bytes[i->op + 1] : 0;

	if (i->brief.flow == INSN_BEGIN || i->brief.is_odd || op == 0xcc || op == 0xcd || op == 0xf1)
		return true;
	if (op == OP_TWO_BYTES && (next == 0x34 || next == 0x35)) /* sysenter, sysexit */
		return true;
	if (op == OP_TWO_BYTES && next == 0x05 && i->insn.len != 2)
		return true;
	if (op != OP_GROUP5)
		return false;
	/* Far ones; and calls and jumps of 16 bits, which processors disagree about. */
	return (next >> 3 & 7) == 3 || (next >> 3 & 7) == 5 ||
	       (memchr(i->bytes, 0x66, i->op) && !(i->rex & 8) &&
		((next >> 3 & 7) == 2 || (next >> 3 & 7) == 4));
}

static void put_moved(struct making *m, const struct moving *i)
{
	if (cannot_move(i))
		fail(m, TRAMPOLINE_CANNOT_MOVE);
	else if (i->insn.is_call)
		put_call(m, i);
	else if ((i->brief.flow == INSN_JUMP || i->brief.flow == INSN_COND) && i->brief.has_target)
		put_direct_jump(m, i);
	else if (i->brief.is_syscall && i->bytes[i->op] == OP_TWO_BYTES)
		put_syscall(m, i);
	else
		put_copy(m, i);
}

static bool goes_on(const struct moving *i)
{
	return i->brief.flow == INSN_NEXT || i->brief.flow == INSN_COND;
}

static const struct trampoline_probe *next_probe(struct making *m, size_t offset, enum trampoline_when when)
{
	const struct trampoline_probe *p = &m->q->probe[m->probe];

	if (m->probe == m->q->nprobes || p->offset != offset || p->when != when)
		return NULL;
	m->probe++;
	return p;
}

/* In place of the instruction; while it is off, that is executed, as in a forked child. */
static bool put_instead(struct making *m, size_t offset, const struct moving *i, uint64_t site)
{
	size_t jump, behind;
	uint32_t over;

	put_probe(m, site, GIVE_BACK_LEN + JUMP_LEN);
	put_give_back(m);
	jump = m->t->len;
	put_byte(m, 0xe9);
	put32(m, 0);
	put_give_back(m);
	m->t->copy[offset] = (uint16_t)m->t->len;
	put_moved(m, i);
	behind = m->t->len;
	over = (uint32_t)(behind - jump - JUMP_LEN);
	if (m->error == TRAMPOLINE_OK)
		memcpy(m->t->code + jump + 1, &over, sizeof(over));
	return true;
}

/* Returns whether execution goes on behind it. */
static bool put_insn(struct making *m, size_t offset, const struct moving *i)
{
	const struct trampoline_probe *p;

	m->t->enter[offset] = (uint16_t)m->t->len;
	while ((p = next_probe(m, offset, PROBE_RUNS_BEFORE))) {
		if (m->q->record && m->nleaving < RECORDING_MOST) {
			put_record(m, p);
			continue;
		}
		put_probe(m, p->site, 0);
		put_give_back(m);
	}
	p = next_probe(m, offset, PROBE_RUNS_INSTEAD);
	if (p)
		return put_instead(m, offset, i, p->site);
	m->t->copy[offset] = (uint16_t)m->t->len;
	put_moved(m, i);
	while ((p = next_probe(m, offset, PROBE_RUNS_AFTER))) {
		if (i->brief.flow != INSN_NEXT)
			fail(m, TRAMPOLINE_NOT_AFTER);
		put_probe(m, p->site, 0);
		put_give_back(m);
	}
	return goes_on(i);
}

static void make_once(struct making *m)
{
	const struct trampoline_request *q = m->q;
	bool on = true;
	size_t offset = 0;

	m->t->len = 0;
	m->probe = m->nleaving = 0;
	memset(m->t->copy, 0xff, sizeof(m->t->copy));
	memset(m->t->enter, 0xff, sizeof(m->t->enter));
	while (offset < q->moved && m->error == TRAMPOLINE_OK) {
		struct moving i;

		if (offset >= TRAMPOLINE_INSNS) {
			fail(m, TRAMPOLINE_TOO_LONG);
			return;
		}
		if (!look_at(m, offset, &i)) {
			fail(m, TRAMPOLINE_CANNOT_MOVE);
			return;
		}
		on = put_insn(m, offset, &i);
		offset += i.insn.len;
		if (i.insn.is_call && !on && offset < q->moved)
			fail(m, TRAMPOLINE_CALL_INSIDE);
	}
	if (offset != q->moved || m->probe != q->nprobes)
		fail(m, TRAMPOLINE_CANNOT_MOVE);
	if (on && q->moved < q->len) /* into what is written over */
		fail(m, q->nprobes && q->probe[q->nprobes - 1].when == PROBE_RUNS_INSTEAD
				? TRAMPOLINE_NOT_AFTER
				: TRAMPOLINE_CANNOT_MOVE);
	if (on)
		put_jump(m, q->addr + q->moved);
	put_leaving(m);
}

/* Twice: the second time it is known where all is that jumps within the group lead to. */
enum trampoline_error trampoline_make(const struct trampoline_request *q, struct trampoline *ret)
{
	struct making m = { .q = q, .t = ret };

	memset(m.known, 0xff, sizeof(m.known));
	make_once(&m);
	memcpy(m.known, ret->enter, sizeof(m.known));
	m.is_second = true;
	if (m.error == TRAMPOLINE_OK)
		make_once(&m);
	return m.error;
}

const char *trampoline_error_text(enum trampoline_error e)
{
	switch (e) {
	case TRAMPOLINE_OK:
		break;
	case TRAMPOLINE_CANNOT_MOVE:
		return "an instruction that would have to move cannot run at another place";
	case TRAMPOLINE_CALL_INSIDE:
		return "a call would have to move with instructions behind it, and its return would lead into the patch";
	case TRAMPOLINE_TOO_FAR:
		return "what it refers to is not within reach of the trampoline";
	case TRAMPOLINE_TOO_LONG:
		return "too much would have to move";
	case TRAMPOLINE_NOT_AFTER:
		return "execution does not go on behind it, where the function is to run";
	}
	return "";
}
