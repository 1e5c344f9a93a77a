/* build shape: gcc -O2 -g -fomit-frame-pointer -flto -Wl,-z,lazy -Wl,-rpath,@ @/libshape_a.so -ldl */
/* build shape_fp: gcc -O1 -g -fno-omit-frame-pointer -foptimize-sibling-calls */
/* ... -Wl,-z,lazy -Wl,-rpath,@ @/libshape_a.so -ldl */
/*
 * shape_calls - writes `flag` below stacks of many shapes, and tells the return addresses that are on them.
 *
 * "pid N", then a line each: the name of a shape; "ok" and the addresses at which the frames outside the
 * writing function go on, innermost first, up to main's. What the compiler itself knows (the return address
 * of a function) and what the kernel told (where a signal interrupted) is the account.
 *
 *	plain, tail, realigned, aligned_args, noreturn	calls
 *	fault, alternate, interrupted			signal handlers: on the stack, on one of their own
 *	sorted						a callback of libc's
 *	memcpy, strcpy, memset, stosb			`text_flag`, by code of libc's and by one instruction
 *	vdso						`time_flag`, by the kernel's code
 *	coroutine, switched				stacks of their own
 *	in_register, expressed				tables with a return address in a register, with expressions
 *	smashed, zeroed, wild_rbp, low_rbp		stacks that are damaged
 *	library [PATH]					dlclose, dlopen; a call back from it
 *	lazy		the first call of a function of a library: the loader writes the slot it goes through
 *	slot		a function that keeps rbx on the stack runs; the first word tells where
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, noipa))
#define HERE note((uintptr_t)__builtin_return_address(0))

volatile int flag __attribute__((aligned(64)));
char text_flag[64] __attribute__((aligned(64)));
struct timespec time_flag __attribute__((aligned(64)));
static volatile int zero;
static uintptr_t trail[64];
static unsigned int ntrail;
static jmp_buf back;

NOINLINE static void note(uintptr_t address)
{
	trail[ntrail++] = address;
}

NOINLINE void write_flag(void)
{
	HERE;
	flag++;
}

NOINLINE static int plain(int depth)
{
	HERE;
	if (depth)
		plain(depth - 1);
	else
		write_flag();
	return zero;
}

/* Nothing of it is left when write_flag() runs: it goes there with a jump. */
NOINLINE static void tail(void)
{
	__asm__ volatile("" ::: "memory");
	write_flag();
}

NOINLINE static int call_tail(void)
{
	HERE;
	tail();
	return zero;
}

typedef int wide __attribute__((vector_size(32)));

/* Vectors on the stack, and a length that only running tells: the CFA is kept in memory. */
__attribute__((target("avx"))) NOINLINE static int realigned(int n)
{
	volatile wide local[4] = { { n } };
	volatile char *p = __builtin_alloca((size_t)n * 16 + 40);

	HERE;
	p[n] = 1;
	write_flag();
	return local[zero][0] + p[n];
}

NOINLINE static int aligned_args(int a, int b, int c, int d, int e, int f, int g, int h)
{
	volatile char aligned[64] __attribute__((aligned(64)));

	HERE;
	aligned[a] = (char)b;
	write_flag();
	return aligned[a] + c + d + e + f + g + h;
}

NOINLINE __attribute__((noreturn)) static void never_returns(void)
{
	HERE;
	flag++;
	longjmp(back, 1);
}

/* The call is its last instruction: where it would return to, another function begins. */
NOINLINE __attribute__((noreturn)) static void ends_in_a_call(void)
{
	HERE;
	never_returns();
}

NOINLINE static int noreturn(void)
{
	HERE;
	if (!setjmp(back))
		ends_in_a_call();
	return zero;
}

static bool hop;

NOINLINE static void on_signal(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	note((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
	HERE;
	flag++;
	if (hop)
		uc->uc_mcontext.gregs[REG_RIP] += 2;
}

static void handle(int sig, int flags)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags };

	sigaction(sig, &sa, NULL);
}

/* Interrupted in the prologue, with rsp moved and nothing else done. */
uintptr_t faults_early(void);
__asm__(".text\n.type faults_early, @function\nfaults_early:\n.cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\n"
	"ud2\n" /* two bytes */
	"sub $40, %rsp\n.cfi_adjust_cfa_offset 40\nadd $40, %rsp\n.cfi_adjust_cfa_offset -40\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore %rbx\nxor %eax, %eax\nret\n.cfi_endproc\n"
	".size faults_early, . - faults_early\n");

/* Calls @function, and notes where that call returns to. */
uintptr_t noted_call(uintptr_t (*function)(void));
void note_address(uintptr_t address);
__asm__(".text\n.type noted_call, @function\nnoted_call:\n.cfi_startproc\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\nmov %rdi, %rbx\n"
	"mov 8(%rsp), %rdi\ncall note_address\n"
	"lea 1f(%rip), %rdi\ncall note_address\ncall *%rbx\n1:\npop %rbx\n.cfi_adjust_cfa_offset -8\n"
	".cfi_restore %rbx\nret\n.cfi_endproc\n.size noted_call, . - noted_call\n");

NOINLINE __attribute__((used)) void note_address(uintptr_t address)
{
	note(address);
}

NOINLINE static int call_faulting(int flags)
{
	static char *stack;
	stack_t ss = { .ss_size = 65536 };

	HERE;
	if (!stack)
		stack = malloc(65536);
	ss.ss_sp = stack;
	ss.ss_flags = flags & SA_ONSTACK ? 0 : SS_DISABLE;
	sigaltstack(&ss, NULL);
	handle(SIGILL, flags);
	hop = true;
	noted_call(faults_early);
	hop = false;
	return zero;
}

/* The kernel interrupts raise() in a system call. */
NOINLINE static int interrupted(void)
{
	HERE;
	handle(SIGUSR1, 0);
	kill(getpid(), SIGUSR1);
	return zero;
}

NOINLINE static int by_value(const void *a, const void *b)
{
	if (!flag)
		HERE;
	flag = 1;
	return *(const int *)a - *(const int *)b;
}

NOINLINE static int sorted(void)
{
	int v[2] = { 2, 1 };

	HERE;
	flag = 0;
	qsort(v, 2, sizeof(*v), by_value);
	return v[0];
}

static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static char *(*volatile copy_text)(char *, const char *) = strcpy;
static void *(*volatile fill)(void *, int, size_t) = memset;

NOINLINE static int strings(int which)
{
	static const char from[64] = "a text that is longer than one register of sixteen bytes";

	HERE;
	if (which == 0)
		copy(text_flag, from, 48);
	else if (which == 1)
		copy_text(text_flag, from);
	else if (which == 2)
		fill(text_flag, 7, 40);
	else
		__asm__ volatile("rep stosb" ::"a"(1), "c"(8), "D"(text_flag) : "memory");
	return zero;
}

NOINLINE static int vdso(void)
{
	HERE;
	clock_gettime(CLOCK_MONOTONIC, &time_flag);
	return zero;
}

static ucontext_t outer, inner;

NOINLINE static void on_own_stack(void)
{
	HERE;
	write_flag();
	swapcontext(&inner, &outer);
}

NOINLINE static int coroutine(void)
{
	static char *stack;

	HERE;
	ntrail = 0; /* nothing of us is on the coroutine's stack */
	stack = stack ? stack : malloc(65536);
	getcontext(&inner);
	inner.uc_stack.ss_sp = stack;
	inner.uc_stack.ss_size = 65536;
	inner.uc_link = &outer;
	makecontext(&inner, on_own_stack, 0);
	swapcontext(&outer, &inner);
	return zero;
}

/* Calls @function on another stack. Its CFI, by way of rbp, leads back. */
void call_on(void *stack, void (*function)(void));
__asm__(".text\n.type call_on, @function\ncall_on:\n.cfi_startproc\npush %rbp\n.cfi_adjust_cfa_offset 8\n"
	".cfi_offset %rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register %rbp\npush %rbx\n.cfi_offset %rbx, "
	"-24\n"
	"push %rdi\npush %rsi\nsub $8, %rsp\nmov 8(%rbp), %rdi\ncall note_address\nadd $8, %rsp\n"
	"pop %rsi\npop %rdi\n"
	"mov %rdi, %rsp\ncall *%rsi\nlea -8(%rbp), %rsp\npop %rbx\npop %rbp\n"
	".cfi_def_cfa %rsp, 8\nret\n.cfi_endproc\n.size call_on, . - call_on\n");

NOINLINE static void at_the_bottom(void)
{
	HERE;
	write_flag();
	zero = 0;
}

/* To a stack below the thread's own, and so the walk goes up from it to that. */
NOINLINE static int switched(void)
{
	char *low =
		mmap((void *)0x10000000, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	HERE;
	call_on(low + 65536, at_the_bottom);
	munmap(low, 65536);
	return zero;
}

/* Writes when its return address is in rcx alone. */
void write_without_stack(volatile int *p);
__asm__(".text\n.type write_without_stack, @function\nwrite_without_stack:\n.cfi_startproc\npush %rdi\n"
	".cfi_adjust_cfa_offset 8\nmov 8(%rsp), %rdi\ncall note_address\npop %rdi\n.cfi_adjust_cfa_offset -8\n"
	"pop %rcx\n.cfi_adjust_cfa_offset -8\n.cfi_register %rip, %rcx\nincl (%rdi)\njmp *%rcx\n"
	".cfi_endproc\n.size write_without_stack, . - write_without_stack\n");

NOINLINE static int in_register(void)
{
	HERE;
	write_without_stack(&flag);
	return zero;
}

/* Two functions: the outer one's frame is where rbx says, and the inner one's table, what rbx was: rbx ^ 0x55. */
void call_expressed(void (*function)(void));
__asm__(".text\n.type call_masked, @function\ncall_masked:\n.cfi_startproc\nxor $0x55, %rbx\n"
	".cfi_escape 0x16, 3, 5, 0x73, 0, 0x08, 0x55, 0x27\nsub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"
	"call *%rdi\nadd $8, %rsp\n.cfi_adjust_cfa_offset -8\nxor $0x55, %rbx\n.cfi_restore %rbx\nret\n"
	".cfi_endproc\n.size call_masked, . - call_masked\n"
	".type call_expressed, @function\ncall_expressed:\n.cfi_startproc\npush %rbx\n"
	".cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\nmov %rsp, %rbx\n.cfi_def_cfa %rbx, 16\n"
	"push %rdi\nsub $8, %rsp\nmov 8(%rbx), %rdi\ncall note_address\nlea 1f(%rip), %rdi\n"
	"call note_address\nadd $8, %rsp\npop %rdi\ncall call_masked\n1:\npop %rbx\n.cfi_def_cfa %rsp, 8\n"
	".cfi_restore %rbx\nret\n.cfi_endproc\n.size call_expressed, . - call_expressed\n");

NOINLINE static int expressed(void)
{
	HERE;
	call_expressed(write_flag);
	return zero;
}

/* Overwrites its own return address, or what it saved, and puts it back. */
NOINLINE static int smashed(uintptr_t with)
{
	uintptr_t *slot = (uintptr_t *)__builtin_frame_address(0) + 1, was = *slot;

	note(with);
	*(volatile uintptr_t *)slot = with;
	write_flag();
	*(volatile uintptr_t *)slot = was;
	return zero;
}

/* Its CFA hangs on rbp, which is wild. */
void with_wild_rbp(void (*function)(void), uintptr_t rbp);
__asm__(".text\n.type with_wild_rbp, @function\nwith_wild_rbp:\n.cfi_startproc\npush %rbp\n"
	".cfi_adjust_cfa_offset 8\n.cfi_offset %rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register %rbp\npush "
	"%rbx\n"
	".cfi_offset %rbx, -24\nmov %rbp, %rbx\nmov %rsi, %rbp\ncall *%rdi\nmov %rbx, %rbp\npop %rbx\npop "
	"%rbp\n"
	".cfi_def_cfa %rsp, 8\nret\n.cfi_endproc\n.size with_wild_rbp, . - with_wild_rbp\n");

NOINLINE static int wild(uintptr_t rbp)
{
	with_wild_rbp(write_flag, rbp);
	return zero;
}

/* A library stays until the next one comes. Without a path: the same once more. */
NOINLINE static int library(const char *path)
{
	static void *lib;
	int (*call_back)(void (*)(uintptr_t), void (*)(void));

	HERE;
	if (lib && *path)
		dlclose(lib);
	if (*path)
		lib = dlopen(path, RTLD_NOW);
	if (!lib) {
		printf("error %s\n", dlerror());
		exit(1);
	}
	*(void **)&call_back = dlsym(lib, "shape_lib_call");
	call_back(note, write_flag);
	return zero;
}

void shape_lazy(void);

NOINLINE static int lazy(void)
{
	HERE;
	shape_lazy();
	return zero;
}

uintptr_t pushes_rbx(void);
__asm__(".text\n.type pushes_rbx, @function\npushes_rbx:\n.cfi_startproc\nlea -8(%rsp), %rax\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\nnop\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore %rbx\nret\n.cfi_endproc\n.size pushes_rbx, . - "
	"pushes_rbx\n");

NOINLINE static uintptr_t slot(void)
{
	uintptr_t where;

	HERE;
	where = noted_call(pushes_rbx);
	zero = 0;
	return where;
}

struct shape {
	const char *name;
	uintptr_t (*run)(const char *argument);
};

#define SHAPE(name, call)                                         \
	NOINLINE static uintptr_t do_##name(const char *argument) \
	{                                                         \
		uintptr_t value;                                  \
                                                                  \
		HERE;                                             \
		value = (uintptr_t)(call);                        \
		zero = 0; /* not a jump */                        \
		return value;                                     \
	}
SHAPE(plain, plain(3))
SHAPE(tail, call_tail())
SHAPE(realigned, realigned(9))
SHAPE(aligned_args, aligned_args(1, 2, 3, 4, 5, 6, 7, zero))
SHAPE(noreturn, noreturn())
SHAPE(fault, call_faulting(0))
SHAPE(alternate, call_faulting(SA_ONSTACK))
SHAPE(interrupted, interrupted())
SHAPE(sorted, sorted())
SHAPE(memcpy, strings(0))
SHAPE(strcpy, strings(1))
SHAPE(memset, strings(2))
SHAPE(stosb, strings(3))
SHAPE(vdso, vdso())
SHAPE(coroutine, coroutine())
SHAPE(switched, switched())
SHAPE(in_register, in_register())
SHAPE(expressed, expressed())
SHAPE(smashed, smashed(0xdead0000))
SHAPE(zeroed, smashed(0))
SHAPE(wild_rbp, wild(0x5a5a5a5a5a5a0000))
SHAPE(low_rbp, wild((uintptr_t)__builtin_frame_address(0) - 4000))
SHAPE(library, library(argument))
SHAPE(lazy, lazy())
SHAPE(slot, slot())

#define ENTRY(name)              \
	{                        \
#name, do_##name \
	}
static const struct shape shapes[] = {
	ENTRY(plain),	    ENTRY(tail),      ENTRY(realigned),	  ENTRY(aligned_args), ENTRY(noreturn),
	ENTRY(fault),	    ENTRY(alternate), ENTRY(interrupted), ENTRY(sorted),       ENTRY(memcpy),
	ENTRY(strcpy),	    ENTRY(memset),    ENTRY(stosb),	  ENTRY(vdso),	       ENTRY(coroutine),
	ENTRY(in_register), ENTRY(expressed), ENTRY(switched),	  ENTRY(smashed),      ENTRY(zeroed),
	ENTRY(wild_rbp),    ENTRY(low_rbp),   ENTRY(library),	  ENTRY(lazy),	       ENTRY(slot),
};

NOINLINE static uintptr_t obey(const char *name, const char *argument)
{
	HERE;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if (!strcmp(name, shapes[i].name)) {
			uintptr_t value = shapes[i].run(argument);

			zero = 0;
			return value;
		}
	printf("error: no shape %s\n", name);
	exit(1);
}

int main(void)
{
	char line[512], shape[32], argument[400];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		uintptr_t value;

		argument[0] = '\0';
		if (sscanf(line, "%31s %399s", shape, argument) < 1)
			continue;
		ntrail = 0;
		HERE;
		value = obey(shape, argument);
		printf("ok %#lx", (unsigned long)value);
		while (ntrail)
			printf(" %#lx", (unsigned long)trail[--ntrail]);
		printf("\n");
	}
	return 0;
}
