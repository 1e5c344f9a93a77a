/* build: gcc -O2 -g */
/*
 * resist_state - has a known value in all of a thread's state, writes `flag`, and looks whether all of it is
 *still there; and a program that checks itself. It does what it is told, a line at a time: "pid N" first, "ok
 *TEXT" after each line.
 *
 *	write N			so many writes to `flag`
 *	state N			N writes, each with other values in the general registers, flags (carry,
 *direction, alignment check), red zone, vector and mask registers, MXCSR, x87 stack and control word, errno,
 *and the base of gs; tells what the widest vectors are, and what was changed rseq inner|commit N	N
 *restartable sequences that write `flag` in their midst, or as their last instruction; tells how many were
 *completed, and how often one was started again look			what of the program's own is not as at
 *its start: its code, mappings, descriptors, threads, handlers, signal mask, alternate stack, children; tells
 *them, and the foreign mappings lock			mlockall(MCL_CURRENT | MCL_FUTURE)
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dirent.h>
#include <errno.h>
#include <linux/rseq.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIGNATURE 0x53053053 /* as glibc registers it */
#define STUCK 2000000

volatile long flag __attribute__((aligned(64)));

struct state {
	uint64_t gpr[16]; /* rax rbx rcx rdx rsi rdi rbp r8..r15, flags */
	uint64_t red_zone[16];
	double x87[8];
	uint64_t mask[8];
	uint32_t mxcsr, control;
	uint8_t vector[32][64] __attribute__((aligned(64)));
};

struct state state_in, state_out __attribute__((aligned(64)));

_Static_assert(offsetof(struct state, red_zone) == 128 && offsetof(struct state, x87) == 256 &&
		       offsetof(struct state, mask) == 320 && offsetof(struct state, mxcsr) == 384 &&
		       offsetof(struct state, control) == 388 && offsetof(struct state, vector) == 448,
	       "as the assembly below has it");

/* touch_sse(), touch_avx(), touch_avx512(): all of state_in into the CPU, one write, all of it to state_out.
 */
__asm__(".macro each_gpr op\n"
	"	\\op 0 rax\n \\op 1 rbx\n \\op 2 rcx\n \\op 3 rdx\n \\op 4 rsi\n \\op 6 rbp\n \\op 7 r8\n "
	"\\op 8 r9\n"
	"	\\op 9 r10\n \\op 10 r11\n \\op 11 r12\n \\op 12 r13\n \\op 13 r14\n \\op 14 r15\n \\op 5 "
	"rdi\n"
	".endm\n"
	".macro load_gpr n reg\n	mov 8*\\n+state_in(%rip), %\\reg\n .endm\n"
	".macro store_gpr n reg\n	mov %\\reg, 8*\\n+state_out(%rip)\n .endm\n"
	".macro load_sse\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movaps 448+64*\\n(%rdi), %xmm\\n\n "
	".endr\n .endm\n"
	".macro store_sse\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movaps %xmm\\n, "
	"448+64*\\n(%rdi)\n .endr\n .endm\n"
	".macro load_avx\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovaps 448+64*\\n(%rdi), "
	"%ymm\\n\n .endr\n .endm\n"
	".macro store_avx\n .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovaps %ymm\\n, "
	"448+64*\\n(%rdi)\n .endr\n vzeroupper\n .endm\n"
	".macro load_avx512\n .irp "
	"n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n vmovaps "
	"448+64*\\n(%rdi), %zmm\\n\n .endr\n"
	"	.irp n,0,1,2,3,4,5,6,7\n kmovq 320+8*\\n(%rdi), %k\\n\n .endr\n .endm\n"
	".macro store_avx512\n .irp "
	"n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n vmovaps "
	"%zmm\\n, 448+64*\\n(%rdi)\n .endr\n"
	"	.irp n,0,1,2,3,4,5,6,7\n kmovq %k\\n, 320+8*\\n(%rdi)\n .endr\n vzeroupper\n .endm\n"
	".macro touch name\n"
	"	.globl touch_\\name\n"
	"touch_\\name:\n"
	"	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"	lea state_in(%rip), %rdi\n"
	"	load_\\name\n"
	"	fninit\n"
	"	.irp n,7,6,5,4,3,2,1,0\n"
	"	fldl 256+8*\\n(%rdi)\n"
	"	.endr\n"
	"	fldcw 388(%rdi)\n"
	"	ldmxcsr 384(%rdi)\n"
	"	pushq 120(%rdi)\n"
	"	popfq\n"
	"	.irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"	mov 128+8*\\n(%rdi), %rax\n"
	"	mov %rax, -8-8*\\n(%rsp)\n"
	"	.endr\n"
	"	each_gpr load_gpr\n"
	"	movq $77, flag(%rip)\n"
	"	each_gpr store_gpr\n"
	"	lea state_out(%rip), %rdi\n"
	"	.irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"	mov -8-8*\\n(%rsp), %rax\n"
	"	mov %rax, 128+8*\\n(%rdi)\n"
	"	.endr\n"
	"	pushfq\n"
	"	popq 120(%rdi)\n"
	"	pushq $0x202\n"
	"	popfq\n"
	"	stmxcsr 384(%rdi)\n"
	"	fnstcw 388(%rdi)\n"
	"	.irp n,0,1,2,3,4,5,6,7\n"
	"	fstpl 256+8*\\n(%rdi)\n"
	"	.endr\n"
	"	store_\\name\n"
	"	fninit\n"
	"	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"	ret\n"
	".endm\n"
	"	.text\n"
	"	touch sse\n touch avx\n touch avx512\n");

void touch_sse(void);
void touch_avx(void);
void touch_avx512(void);

static uint64_t seed = 1;

static uint64_t next(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 11 | seed << 53;
}

static int width(void)
{
	if (__builtin_cpu_supports("avx512bw"))
		return 64;
	return __builtin_cpu_supports("avx") ? 32 : 16;
}

static void fill(void)
{
	size_t i;

	for (i = 0; i < 16; i++) {
		state_in.gpr[i] = next();
		state_in.red_zone[i] = next();
	}
	/* Carry, parity, adjust, zero, sign, direction, overflow, alignment check, identification. */
	state_in.gpr[15] = (next() & 0x240cd5) | 0x202;
	for (i = 0; i < 8; i++) {
		state_in.x87[i] = (double)(next() >> 20);
		state_in.mask[i] = next();
	}
	state_in.control = 0x037f | (uint32_t)(next() & 3) << 10; /* rounding */
	state_in.mxcsr = 0x1f80 | (uint32_t)(next() & 3) << 13 | (uint32_t)(next() & 1) << 15;
	for (i = 0; i < sizeof(state_in.vector) / 8; i++)
		((uint64_t *)state_in.vector)[i] = next();
}

static const char *changed(int bytes)
{
	int i;

	if (memcmp(state_in.gpr, state_out.gpr, 15 * 8) != 0)
		return "registers";
	if (state_in.gpr[15] != state_out.gpr[15])
		return "flags";
	if (memcmp(state_in.red_zone, state_out.red_zone, sizeof(state_in.red_zone)) != 0)
		return "red zone";
	if (memcmp(state_in.x87, state_out.x87, sizeof(state_in.x87)) != 0 ||
	    state_in.control != state_out.control)
		return "x87";
	if (state_in.mxcsr != (state_out.mxcsr & ~0x3fu))
		return "mxcsr";
	for (i = 0; i < (bytes == 64 ? 32 : 16); i++)
		if (memcmp(state_in.vector[i], state_out.vector[i], (size_t)bytes) != 0)
			return "vectors";
	if (bytes == 64 && memcmp(state_in.mask, state_out.mask, sizeof(state_in.mask)) != 0)
		return "masks";
	return NULL;
}

static void check_state(long n)
{
	const char *what = NULL;
	int bytes = width();
	unsigned long gs = 0;
	long i;

	for (i = 0; i < n && !what; i++) {
		unsigned long base = (unsigned long)next() >> 18;

		fill();
		syscall(SYS_arch_prctl, ARCH_SET_GS, base);
		errno = 4321;
		if (bytes == 64)
			touch_avx512();
		else if (bytes == 32)
			touch_avx();
		else
			touch_sse();
		what = errno == 4321 ? changed(bytes) : "errno";
		syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
		if (gs != base)
			what = "gs";
	}
	printf("ok %d %s\n", bytes, what ? what : "intact");
}

/* Restartable sequences */

extern const ptrdiff_t __rseq_offset;
long commit_word;

/* True: it was started again. */
#define SEQUENCE(name, inside, commit)                                      \
	__attribute__((noinline)) static bool name(volatile uint64_t *cs)   \
	{                                                                   \
		__asm__ goto(".pushsection .data.rel, \"aw\"\n\t"           \
			     ".balign 32\n"                                 \
			     "3:\t.long 0, 0\n\t"                           \
			     ".quad 1f, 2f - 1f, 4f\n\t"                    \
			     ".popsection\n\t"                              \
			     "lea 3b(%%rip), %%rax\n\t"                     \
			     "mov %%rax, (%[cs])\n"                         \
			     "1:\tnop\n\t" inside "\n\tnop\n\t" commit "\n" \
			     "2:\t.pushsection .text.unlikely, \"ax\"\n\t"  \
			     ".byte 0x0f, 0xb9, 0x3d\n\t"                   \
			     ".long %c[signature]\n"                        \
			     "4:\tjmp %l[again]\n\t"                        \
			     ".popsection"                                  \
			     :                                              \
			     : [cs] "r"(cs), [signature] "i"(SIGNATURE)     \
			     : "rax", "memory"                              \
			     : again);                                      \
		return false;                                               \
	again:                                                              \
		return true;                                                \
	}

SEQUENCE(sequence_inner, "movq $1, flag(%%rip)", "movq $1, commit_word(%%rip)")
SEQUENCE(sequence_commit, "nop", "movq $2, flag(%%rip)")

static void restartable(const char *how, long n)
{
	struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
	volatile uint64_t *cs = (volatile uint64_t *)&area->rseq_cs;
	long done = 0, again = 0;

	while (done < n && again < STUCK) {
		if (!strcmp(how, "inner") ? sequence_inner(cs) : sequence_commit(cs))
			again++;
		else
			done++;
	}
	printf("ok %ld %s\n", done, again == STUCK ? "stuck" : again > 100 ? "often" : "seldom");
}

/* Itself */

struct self {
	uint64_t text;
	int mappings, foreign, descriptors, threads;
	struct sigaction action[65];
	sigset_t blocked;
	stack_t alternate;
};

static struct self at_start;
static char foreign_text[1024];

static uint64_t sum_of(uint64_t sum, const uint8_t *at, const uint8_t *end)
{
	for (; at < end; at++)
		sum = (sum ^ *at) * 0x100000001b3u;
	return sum;
}

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Of memory that it did not ask for: code and shared memory without a file. */
static void look_at_maps(struct self *s)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], mode[8], name[256];
	unsigned long start, end;

	*foreign_text = '\0';
	while (fgets(line, sizeof(line), f)) {
		bool is_foreign;

		*name = '\0';
		sscanf(line, "%lx-%lx %7s %*s %*s %*s %255[^\n]", &start, &end, mode, name);
		is_foreign = (mode[2] == 'x' && !*name) || mode[3] == 's';
		s->mappings++;
		s->foreign += is_foreign;
		if (mode[2] == 'x' && !is_foreign && *name != '[')
			s->text = sum_of(s->text, (uint8_t *)start, (uint8_t *)end);
		if (is_foreign)
			snprintf(foreign_text + strlen(foreign_text),
				 sizeof(foreign_text) - strlen(foreign_text), " %s:%s", mode, name);
	}
	fclose(f);
}

static void look_at(struct self *s)
{
	int i;

	memset(s, 0, sizeof(*s));
	look_at_maps(s);
	s->descriptors = entries("/proc/self/fd");
	s->threads = entries("/proc/self/task");
	for (i = 1; i < 65; i++)
		if (sigaction(i, NULL, &s->action[i]))
			memset(&s->action[i], 0, sizeof(s->action[i]));
	sigprocmask(SIG_SETMASK, NULL, &s->blocked);
	sigaltstack(NULL, &s->alternate);
}

static void look(void)
{
	static struct self now;
	int i;

	look_at(&now);
	printf("ok");
	if (now.text != at_start.text)
		printf(" code");
	if (now.mappings - now.foreign != at_start.mappings - at_start.foreign)
		printf(" mappings");
	if (now.descriptors != at_start.descriptors)
		printf(" descriptors");
	if (now.threads != at_start.threads)
		printf(" threads");
	for (i = 1; i < 65; i++)
		if (now.action[i].sa_handler != at_start.action[i].sa_handler)
			printf(" handler-%d", i);
	if (memcmp(&now.blocked, &at_start.blocked, 8) != 0)
		printf(" mask");
	if (now.alternate.ss_size != at_start.alternate.ss_size)
		printf(" alternate-stack");
	if (waitpid(-1, NULL, WNOHANG) != -1)
		printf(" children");
	printf(" |%s\n", foreign_text);
	memset(&now.action[SIGTRAP], 0,
	       sizeof(now.action[SIGTRAP])); /* may be a guest's, who stays where it is kept */
}

int main(void)
{
	char line[256], cmd[32], word[32];
	long n, i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	if (!fgets(line, sizeof(line), stdin)) /* "ready": now libc has all that it wants */
		return 1;
	look_at(&at_start);
	look_at(&at_start);
	printf("ok\n");
	while (fgets(line, sizeof(line), stdin)) {
		*cmd = *word = '\0';
		sscanf(line, "%31s %31s %ld", cmd, word, &n);
		if (!strcmp(cmd, "state")) {
			check_state(atol(word));
		} else if (!strcmp(cmd, "rseq")) {
			restartable(word, n);
		} else if (!strcmp(cmd, "look")) {
			look();
		} else if (!strcmp(cmd, "lock")) {
			printf("ok %d\n", mlockall(MCL_CURRENT | MCL_FUTURE) ? errno : 0);
		} else {
			for (i = 0; i < atol(word); i++)
				flag = i;
			printf("ok\n");
		}
	}
	return 0;
}
