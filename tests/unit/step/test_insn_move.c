/*
 * The processor is the oracle: a child is single-stepped through instructions in memory that both share, from
 * random registers, and what it has done is compared with what the emulator says, or the copy does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/step/insn/insn_move.h"

#define PAGE 4096u
#define CODE_LEN (2 * PAGE) /* the original at its beginning, the copy on the second page */
#define DATA_LEN (8 * PAGE)
#define STATUS 0x8d5u /* carry, parity, auxiliary, zero, sign, overflow */

struct lab {
	pid_t child;
	uint8_t *code, *data;
	uint8_t expected[DATA_LEN];
	uint64_t seed;
};

static uint64_t pick(struct lab *lab)
{
	lab->seed ^= lab->seed << 13;
	lab->seed ^= lab->seed >> 7;
	lab->seed ^= lab->seed << 17;
	return lab->seed;
}

static int open_lab(void **state)
{
	static struct lab lab;
	int status;

	lab.seed = 88172645463325252u;
	lab.code = mmap(NULL, CODE_LEN + DATA_LEN, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(lab.code, MAP_FAILED);
	lab.data = lab.code + CODE_LEN;
	lab.child = fork();
	if (!lab.child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_true(lab.child > 0);
	assert_int_equal(waitpid(lab.child, &status, 0), lab.child);
	assert_true(WIFSTOPPED(status));
	*state = &lab;
	return 0;
}

static int close_lab(void **state)
{
	struct lab *lab = *state;

	kill(lab->child, SIGKILL);
	waitpid(lab->child, NULL, 0);
	munmap(lab->code, CODE_LEN + DATA_LEN);
	return 0;
}

static void to_user(const struct regs *r, struct user_regs_struct *u)
{
	u->rax = r->r[WREG_RAX];
	u->rdx = r->r[WREG_RDX];
	u->rcx = r->r[WREG_RCX];
	u->rbx = r->r[WREG_RBX];
	u->rsi = r->r[WREG_RSI];
	u->rdi = r->r[WREG_RDI];
	u->rbp = r->r[WREG_RBP];
	u->rsp = r->r[WREG_RSP];
	u->r8 = r->r[WREG_R8];
	u->r9 = r->r[WREG_R9];
	u->r10 = r->r[WREG_R10];
	u->r11 = r->r[WREG_R11];
	u->r12 = r->r[WREG_R12];
	u->r13 = r->r[WREG_R13];
	u->r14 = r->r[WREG_R14];
	u->r15 = r->r[WREG_R15];
	u->rip = r->r[WREG_RIP];
	u->eflags = r->r[WREG_RFLAGS];
	u->fs_base = r->r[WREG_FS_BASE];
	u->orig_rax = (unsigned long long)-1;
}

static void from_user(const struct user_regs_struct *u, struct regs *r)
{
	*r = (struct regs){ { u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp, u->r8, u->r9,
			      u->r10, u->r11, u->r12, u->r13, u->r14, u->r15, u->rip, u->eflags,
			      u->fs_base } };
}

/* One step of the child from @regs; the signal that stopped it. */
static int step(struct lab *lab, struct regs *regs)
{
	struct user_regs_struct u;
	int status;

	assert_int_equal(ptrace(PTRACE_GETREGS, lab->child, 0, &u), 0);
	to_user(regs, &u);
	assert_int_equal(ptrace(PTRACE_SETREGS, lab->child, 0, &u), 0);
	assert_int_equal(ptrace(PTRACE_SINGLESTEP, lab->child, 0, 0), 0);
	assert_int_equal(waitpid(lab->child, &status, 0), lab->child);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_GETREGS, lab->child, 0, &u), 0);
	from_user(&u, regs);
	return WSTOPSIG(status);
}

static bool in_lab(const struct lab *lab, uint64_t addr, size_t len)
{
	uint64_t start = (uint64_t)(uintptr_t)lab->code, size = CODE_LEN + DATA_LEN;

	return addr >= start && addr - start < size && len <= size - (addr - start);
}

static bool lab_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct lab *lab = ctx;

	if (!in_lab(lab, addr, len))
		return false;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

static bool lab_write(void *ctx, uint64_t addr, const void *bytes, uint32_t len)
{
	struct lab *lab = ctx;

	if (addr < (uintptr_t)lab->data || !in_lab(lab, addr, len))
		return false;
	memcpy(lab->expected + (addr - (uintptr_t)lab->data), bytes, len);
	return true;
}

static uint64_t pick_pointer(struct lab *lab)
{
	return (uintptr_t)lab->data + PAGE + pick(lab) % (DATA_LEN - 2 * PAGE);
}

static void pick_regs(struct lab *lab, struct regs *r)
{
	for (unsigned int i = 0; i < 16; i++) {
		switch (pick(lab) % 8) {
		case 0:
			r->r[i] = pick(lab);
			break;
		case 1:
			r->r[i] = pick(lab) % 64;
			break;
		case 2:
			r->r[i] = UINT64_MAX - pick(lab) % 3;
			break;
		case 3:
			r->r[i] = 1ull << pick(lab) % 64;
			break;
		default:
			r->r[i] = pick_pointer(lab);
		}
	}
	r->r[WREG_RSP] = pick_pointer(lab) & (pick(lab) % 4 ? ~7ull : ~0ull);
	r->r[WREG_RIP] = (uintptr_t)lab->code;
	r->r[WREG_RFLAGS] = 0x202 | (pick(lab) & (STATUS | 0x400));
	r->r[WREG_FS_BASE] = pick_pointer(lab);
}

static void pick_data(struct lab *lab)
{
	for (uint32_t i = 0; i < DATA_LEN; i += 8) {
		/* Some of it is good as a target, or as a pointer. */
		uint64_t v = i % 24 ? pick(lab) : pick_pointer(lab);

		memcpy(lab->data + i, &v, 8);
	}
}

/* The first opcodes of what is to be emulated; groups by "/digit". */
struct row {
	uint8_t bytes[2];
	uint8_t len;
	int8_t group; /* -1: none */
	uint8_t imm;  /* bytes, at most; what is too many belongs to the next instruction */
	unsigned int ran;
};

#define ROW(group, ...)                                                          \
	{                                                                        \
		{ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }), group, 8, 0 \
	}
#define GROUPS(...)                                                                         \
	ROW(0, __VA_ARGS__), ROW(1, __VA_ARGS__), ROW(2, __VA_ARGS__), ROW(3, __VA_ARGS__), \
		ROW(4, __VA_ARGS__), ROW(5, __VA_ARGS__), ROW(6, __VA_ARGS__), ROW(7, __VA_ARGS__)
#define EIGHT(first, ...)                                                                             \
	ROW(-1, __VA_ARGS__ first), ROW(-1, __VA_ARGS__(first) + 1), ROW(-1, __VA_ARGS__(first) + 2), \
		ROW(-1, __VA_ARGS__(first) + 3), ROW(-1, __VA_ARGS__(first) + 4),                     \
		ROW(-1, __VA_ARGS__(first) + 5), ROW(-1, __VA_ARGS__(first) + 6),                     \
		ROW(-1, __VA_ARGS__(first) + 7)
#define SIX(first)                                                                        \
	ROW(-1, first), ROW(-1, (first) + 1), ROW(-1, (first) + 2), ROW(-1, (first) + 3), \
		ROW(-1, (first) + 4), ROW(-1, (first) + 5)

static struct row rows[] = {
	SIX(0x00),	     SIX(0x08),		  SIX(0x10),	       SIX(0x18),
	SIX(0x20),	     SIX(0x28),		  SIX(0x30),	       SIX(0x38),
	GROUPS(0x80),	     GROUPS(0x81),	  GROUPS(0x83),	       EIGHT(0x50),
	EIGHT(0x58),	     EIGHT(0x70),	  EIGHT(0x78),	       EIGHT(0xb0),
	EIGHT(0xb8),	     EIGHT(0x80, 0x0f, ), EIGHT(0x88, 0x0f, ), EIGHT(0x40, 0x0f, ),
	EIGHT(0x48, 0x0f, ), EIGHT(0x90, 0x0f, ), EIGHT(0x98, 0x0f, ), ROW(-1, 0x0f, 0xb6),
	ROW(-1, 0x0f, 0xb7), ROW(-1, 0x0f, 0xbe), ROW(-1, 0x0f, 0xbf), ROW(0, 0x0f, 0x1f),
	ROW(-1, 0x63),	     ROW(-1, 0x68),	  ROW(-1, 0x6a),       ROW(-1, 0x84),
	ROW(-1, 0x85),	     ROW(-1, 0x88),	  ROW(-1, 0x89),       ROW(-1, 0x8a),
	ROW(-1, 0x8b),	     ROW(-1, 0x8d),	  ROW(-1, 0x90),       ROW(-1, 0x98),
	ROW(-1, 0x99),	     ROW(-1, 0x9c),	  ROW(-1, 0xa8),       ROW(-1, 0xa9),
	ROW(-1, 0xc2),	     ROW(-1, 0xc3),	  ROW(0, 0xc6),	       ROW(0, 0xc7),
	ROW(-1, 0xc9),	     ROW(-1, 0xe8),	  ROW(-1, 0xe9),       ROW(-1, 0xeb),
	ROW(0, 0xf6),	     ROW(2, 0xf6),	  ROW(3, 0xf6),	       ROW(0, 0xf7),
	ROW(2, 0xf7),	     ROW(3, 0xf7),	  ROW(0, 0xfe),	       ROW(1, 0xfe),
	ROW(0, 0xff),	     ROW(1, 0xff),	  ROW(2, 0xff),	       ROW(4, 0xff),
	ROW(6, 0xff),
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

/* Random prefixes, registers, addressing and immediates around a row's opcode. */
static void pick_insn(struct lab *lab, const struct row *row, uint8_t bytes[INSN_MAX])
{
	static const uint8_t prefixes[] = { 0x66, 0x64, 0xf2, 0x2e, 0x3e, 0x66, 0x66, 0xf3 };
	uint32_t n = 0;
	uint8_t modrm;

	for (uint32_t i = 0; i < INSN_MAX; i++)
		bytes[i] = (uint8_t)pick(lab);
	if (pick(lab) % 4 == 0)
		bytes[n++] = prefixes[pick(lab) % sizeof(prefixes)];
	if (pick(lab) % 2)
		bytes[n++] = (uint8_t)(0x40 | (pick(lab) & 15));
	memcpy(bytes + n, row->bytes, row->len);
	n += row->len;
	modrm = bytes[n];
	if (row->group >= 0)
		modrm = (uint8_t)((modrm & 0xc7) | row->group << 3);
	if (pick(lab) % 4 == 0)
		modrm = (uint8_t)((modrm & 0x38) | 0x44); /* disp8(sib) */
	if (row->group < 0 && (row->bytes[0] == 0xe8 || row->bytes[0] == 0x68))
		return;
	bytes[n] = modrm;
	/* Displacements of four bytes that stay in the lab. */
	for (uint32_t at = n + 1; at < n + 3 && pick(lab) % 2; at++) {
		int32_t disp = (int32_t)(pick(lab) % 1024) - 512;

		if ((modrm & 0xc7) == 5)
			disp = (int32_t)(CODE_LEN + pick(lab) % (DATA_LEN - 64));
		memcpy(bytes + at, &disp, 4);
		if ((modrm & 7) != 4)
			break;
	}
}

static bool runs_as_the_cpu_does(struct lab *lab, const uint8_t bytes[INSN_MAX])
{
	const struct memory_view memory = { lab_read, lab };
	struct regs before, said, did;
	struct insn_move m;
	char text[128];
	bool emulated;
	int signal;

	if (!insn_move_prepare(bytes, INSN_MAX, (uintptr_t)lab->code, &m) || m.way != INSN_EMULATE)
		return false;
	memcpy(lab->code, bytes, INSN_MAX);
	pick_regs(lab, &before);
	if (pick(lab) % 16 == 0)
		pick_data(lab);
	memcpy(lab->expected, lab->data, DATA_LEN);
	said = did = before;
	emulated = insn_emulate(&m, (uintptr_t)lab->code, &said, &memory, lab_write, lab);
	if (!emulated) {
		assert_memory_equal(&said, &before, sizeof(said));
		assert_memory_equal(lab->expected, lab->data, DATA_LEN);
		return false;
	}
	signal = step(lab, &did);
	did.r[WREG_RFLAGS] &= ~0x10100ull; /* the step's own */
	insn_text(INSN_INTEL, bytes, INSN_MAX, (uintptr_t)lab->code, text, sizeof(text));
	if (strncmp(text, "pushf", 5) == 0)
		*(uint8_t *)(uintptr_t)(did.r[WREG_RSP] + 1) &= 0xfe; /* the step's trap flag */
	for (unsigned int i = 0; i < WREG_COUNT; i++)
		if (signal != SIGTRAP || said.r[i] != did.r[i])
			fail_msg("%s: register %u: signal %d, emulated %#lx, is %#lx, was %#lx", text, i,
				 signal, said.r[i], did.r[i], before.r[i]);
	assert_memory_equal(lab->expected, lab->data, DATA_LEN);
	return true;
}

static void what_is_emulated_is_as_the_cpu_does_it(void **state)
{
	struct lab *lab = *state;
	uint8_t bytes[INSN_MAX];

	pick_data(lab);
	for (unsigned int round = 0; round < 150; round++)
		for (size_t i = 0; i < NROWS; i++) {
			pick_insn(lab, &rows[i], bytes);
			rows[i].ran += runs_as_the_cpu_does(lab, bytes);
		}
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i].ran < 8)
			fail_msg("%02x %02x /%d: emulated %u times only", rows[i].bytes[0], rows[i].bytes[1],
				 rows[i].group, rows[i].ran);
}

/* Any bytes at all: what is taken for one of the known must do the same. */
static void random_bytes_are_not_mistaken(void **state)
{
	struct lab *lab = *state;
	uint8_t bytes[INSN_MAX];
	unsigned int ran = 0;

	for (unsigned int round = 0; round < 30000; round++) {
		for (uint32_t i = 0; i < INSN_MAX; i++)
			bytes[i] = (uint8_t)pick(lab);
		ran += runs_as_the_cpu_does(lab, bytes);
	}
	assert_true(ran > 500);
}

static enum insn_way way_of(const char *bytes, uint32_t len)
{
	struct insn_move m;

	insn_move_prepare((const uint8_t *)bytes, len, 0x1000, &m);
	return m.way;
}

#define WAY(bytes) way_of(bytes, sizeof(bytes) - 1)

static void each_goes_its_way(void **state)
{
	(void)state;
	assert_int_equal(WAY("\xf3\x0f\x1e\xfa"), INSN_EMULATE);		     /* endbr64 */
	assert_int_equal(WAY("\xf3\x0f\x1e\xfb"), INSN_COPY);			     /* endbr32: nop here */
	assert_int_equal(WAY("\x55"), INSN_EMULATE);				     /* push rbp */
	assert_int_equal(WAY("\x48\x83\xec\x18"), INSN_EMULATE);		     /* sub rsp, 24 */
	assert_int_equal(WAY("\xf3\xc3"), INSN_EMULATE);			     /* rep ret */
	assert_int_equal(WAY("\xf2\xff\x25\x10\x00\x00\x00"), INSN_EMULATE);	     /* bnd jmp [rip + 16] */
	assert_int_equal(WAY("\x64\x48\x8b\x04\x25\x28\x00\x00\x00"), INSN_EMULATE); /* mov rax, fs:[40] */
	assert_int_equal(WAY("\x48\x89\x44\x24\x08"), INSN_EMULATE);		     /* mov [rsp + 8], rax */
	assert_int_equal(WAY("\x48\x89\x43\x08"), INSN_COPY);			     /* mov [rbx + 8], rax */
	assert_int_equal(WAY("\xf0\x48\x01\x04\x24"), INSN_COPY);		     /* lock add [rsp], rax */
	assert_int_equal(WAY("\xf3\x90"), INSN_COPY);				     /* pause */
	assert_int_equal(WAY("\x0f\x28\xc1"), INSN_COPY);			     /* movaps xmm0, xmm1 */
	assert_int_equal(WAY("\xf3\x48\xab"), INSN_COPY);			     /* rep stosq */
	assert_int_equal(WAY("\x00\x03"), INSN_COPY);				     /* add [rbx], al */
	assert_int_equal(WAY("\x0f\x05"), INSN_LIFT);				     /* syscall */
	assert_int_equal(WAY("\xcc"), INSN_LIFT);
	assert_int_equal(WAY("\xcd\x80"), INSN_LIFT);
	assert_int_equal(WAY("\x0f\x0b"), INSN_LIFT);		      /* ud2 */
	assert_int_equal(WAY("\x9d"), INSN_LIFT);		      /* popf */
	assert_int_equal(WAY("\xe3\x10"), INSN_LIFT);		      /* jrcxz */
	assert_int_equal(WAY("\xe2\x10"), INSN_LIFT);		      /* loop */
	assert_int_equal(WAY("\xc7\xf8\x00\x00\x00\x00"), INSN_LIFT); /* xbegin */
	assert_int_equal(WAY("\xcf"), INSN_LIFT);		      /* iret */
	assert_int_equal(WAY("\x66\xe8\x00\x00\x00\x00"),
			 INSN_LIFT);		  /* call, with a prefix that CPUs differ on */
	assert_int_equal(WAY("\x06"), INSN_LIFT); /* none at all */
	assert_int_equal(WAY("\x48"), INSN_LIFT); /* not whole */
}

static void memory_that_others_may_read_is_left_to_the_cpu(void **state)
{
	struct lab *lab = *state;
	const struct memory_view memory = { lab_read, lab };
	struct regs r = { { 0 } }, before;
	struct insn_move m;

	/* mov [rbp - 8], rax: rbp may be any register */
	assert_true(insn_move_prepare((const uint8_t *)"\x48\x89\x45\xf8", 4, 0x1000, &m));
	assert_int_equal(m.way, INSN_EMULATE);
	assert_true(m.may_copy);
	r.r[WREG_RSP] = (uintptr_t)lab->data + 64;
	r.r[WREG_RBP] = (uintptr_t)lab->data + 128;
	assert_true(insn_emulate(&m, 0x1000, &r, &memory, lab_write, lab));
	assert_int_equal(r.r[WREG_RIP], 0x1004);
	r.r[WREG_RSP] = 0x10000;
	before = r;
	assert_false(insn_emulate(&m, 0x1000, &r, &memory, lab_write, lab));
	assert_memory_equal(&r, &before, sizeof(r));
}

static bool other_each_time(void *ctx, uint64_t addr, void *buf, size_t len)
{
	unsigned int *reads = ctx;

	(void)addr;
	memset(buf, (int)++*reads, len);
	return true;
}

static void a_word_that_is_just_changing_is_left_to_the_cpu(void **state)
{
	unsigned int reads = 0;
	const struct memory_view memory = { other_each_time, &reads };
	struct regs r = { { 0 } };
	struct insn_move m;

	(void)state;
	r.r[WREG_RBX] = 0x5000;
	r.r[WREG_RSP] = 0x70000000;
	assert_true(insn_move_prepare((const uint8_t *)"\x48\x8b\x03", 3, 0x1000, &m)); /* mov rax, [rbx] */
	assert_false(insn_emulate(&m, 0x1000, &r, &memory, NULL, NULL));
	assert_int_equal(reads, 2);
}

static void jumps_to_where_no_code_can_be_are_left_to_the_cpu(void **state)
{
	struct lab *lab = *state;
	const struct memory_view memory = { lab_read, lab };
	struct regs r = { { 0 } };
	struct insn_move m;

	r.r[WREG_RAX] = 0x8000000000000000u;
	assert_true(insn_move_prepare((const uint8_t *)"\xff\xe0", 2, 0x1000, &m)); /* jmp rax */
	assert_int_equal(m.way, INSN_EMULATE);
	assert_false(m.may_copy);
	assert_false(insn_emulate(&m, 0x1000, &r, &memory, NULL, NULL));
}

struct outcome {
	int signal;
	struct regs regs;
	struct user_fpregs_struct fp;
	uint8_t data[DATA_LEN];
};

static void step_from(struct lab *lab, const struct outcome *from, uint64_t rip, struct outcome *ret)
{
	*ret = *from;
	memcpy(lab->data, from->data, DATA_LEN);
	ret->regs.r[WREG_RIP] = rip;
	assert_int_equal(ptrace(PTRACE_SETFPREGS, lab->child, 0, &from->fp), 0);
	ret->signal = step(lab, &ret->regs);
	assert_int_equal(ptrace(PTRACE_GETFPREGS, lab->child, 0, &ret->fp), 0);
	memcpy(ret->data, lab->data, DATA_LEN);
}

static bool same(const struct outcome *a, const struct outcome *b)
{
	return a->signal == b->signal && !memcmp(&a->regs, &b->regs, sizeof(a->regs)) &&
	       !memcmp(a->fp.st_space, b->fp.st_space, sizeof(a->fp.st_space)) &&
	       !memcmp(a->fp.xmm_space, b->fp.xmm_space, sizeof(a->fp.xmm_space)) &&
	       !memcmp(a->data, b->data, DATA_LEN);
}

/* The copy of @bytes against the original, from the same state. False: not to be judged. */
static bool copy_does_the_same(struct lab *lab, const uint8_t bytes[INSN_MAX])
{
	static struct outcome from, first, again, copied;
	uint64_t addr = (uintptr_t)lab->code, at = addr + PAGE + pick(lab) % 64;
	uint8_t original[INSN_MAX], copy[INSN_MAX], len;
	struct insn_move m;
	int32_t disp;
	char text[128];

	memcpy(original, bytes, INSN_MAX);
	if (!insn_move_prepare(original, INSN_MAX, addr, &m) || m.way != INSN_COPY)
		return false;
	if (m.insn.rip_at) {
		disp = (int32_t)(CODE_LEN + PAGE + (pick(lab) % PAGE & ~63ull) - m.len);
		memcpy(original + m.insn.rip_at, &disp, 4);
		assert_true(insn_move_prepare(original, INSN_MAX, addr, &m));
	}
	memset(lab->code, 0x90, CODE_LEN);
	memcpy(lab->code, original, m.len);
	assert_true(insn_copy(&m, addr, at, copy, &len));
	memcpy((void *)(uintptr_t)at, copy, len);
	pick_regs(lab, &from.regs);
	memcpy(from.data, lab->data, DATA_LEN);
	step_from(lab, &from, addr, &first);
	step_from(lab, &from, addr, &again);
	if (!same(&first, &again))
		return false; /* the time, a random number */
	step_from(lab, &from, at, &copied);
	copied.regs.r[WREG_RIP] = insn_copy_rip(&m, addr, at, len, copied.regs.r[WREG_RIP]);
	insn_text(INSN_INTEL, original, INSN_MAX, addr, text, sizeof(text));
	if (!same(&first, &copied))
		fail_msg("%s: the copy does something else: rip %#lx, not %#lx, signal %d, not %d", text,
			 copied.regs.r[WREG_RIP], first.regs.r[WREG_RIP], copied.signal, first.signal);
	return first.signal == SIGTRAP;
}

/* [*start, *end) of the code of the library that has @symbol. */
static void find_text(const void *symbol, const uint8_t **start, const uint8_t **end)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], perms[8];
	unsigned long a, b;

	assert_non_null(f);
	*start = *end = NULL;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %7s", &a, &b, perms) == 3 && (uintptr_t)symbol >= a &&
		    (uintptr_t)symbol < b) {
			*start = (const uint8_t *)a;
			*end = (const uint8_t *)b;
		}
	fclose(f);
	assert_non_null(*start);
}

static unsigned int copy_library(struct lab *lab, const void *symbol, unsigned int every)
{
	unsigned int ran = 0, seen = 0;
	const uint8_t *at, *end;
	struct insn_move m;

	find_text(symbol, &at, &end);
	while (end - at >= INSN_MAX) {
		if (!insn_move_prepare(at, INSN_MAX, (uintptr_t)at, &m)) {
			at++;
			continue;
		}
		if (m.way == INSN_COPY && (m.insn.rip_at || seen++ % every == 0))
			ran += copy_does_the_same(lab, at);
		at += m.len;
	}
	return ran;
}

static void copies_do_what_the_originals_do(void **state)
{
	struct lab *lab = *state;
	void *libm = dlopen("libm.so.6", RTLD_NOW), *sin;

	assert_non_null(libm);
	sin = dlsym(libm, "sin");
	assert_non_null(sin);
	pick_data(lab);
	assert_true(copy_library(lab, (const void *)(uintptr_t)memcpy, 23) > 500);
	assert_true(copy_library(lab, sin, 23) > 500);
	dlclose(libm);
}

static void a_copy_too_far_away_is_not_made(void **state)
{
	static const uint8_t lea[] = {
		0x48, 0x8d, 0x05, 0x10, 0x00, 0x00, 0x00, 0x90
	}; /* lea rax, [rip + 16] */
	static const uint8_t movss[] = { 0xf3, 0x0f, 0x10, 0x05, 0xf0, 0xff, 0xff, 0xff };
	uint8_t copy[INSN_MAX], len;
	struct insn_move m;

	(void)state;
	assert_true(insn_move_prepare(lea, sizeof(lea), 0x7fff00000000, &m));
	assert_int_equal(m.len, 7);
	assert_false(insn_copy(&m, 0x7fff00000000, 0x1000, copy, &len));
	assert_true(insn_copy(&m, 0x7fff00000000, 0x7ffe90000000, copy, &len));
	assert_memory_equal(copy, "\x48\x8d\x05\x10\x00\x00\x70", 7);
	assert_true(insn_move_prepare(movss, sizeof(movss), 0x80000000, &m));
	assert_false(insn_copy(&m, 0x80000000, 0x100000010, copy, &len));
	assert_true(insn_copy(&m, 0x80000000, 0x7fffff00, copy, &len));
	assert_memory_equal(copy, "\xf3\x0f\x10\x05\xf0\x00\x00\x00", 8);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_lab, close_lab)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_emulated_is_as_the_cpu_does_it),
		TEST(random_bytes_are_not_mistaken),
		cmocka_unit_test(each_goes_its_way),
		TEST(memory_that_others_may_read_is_left_to_the_cpu),
		cmocka_unit_test(a_word_that_is_just_changing_is_left_to_the_cpu),
		TEST(jumps_to_where_no_code_can_be_are_left_to_the_cpu),
		TEST(copies_do_what_the_originals_do),
		cmocka_unit_test(a_copy_too_far_away_is_not_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
