/*
 * unwind_oracle - compares cfi_walk() with other unwinders at many points of a real program.
 *
 *	unwind_oracle STOPS STEPS PROGRAM [ARGS...]
 *
 * Runs PROGRAM under ptrace, stops it STOPS times at moments spread over its run, and from each stop goes
 * on for STEPS single instructions, so that prologues, epilogues, PLT stubs and string functions are met.
 * At each of these points cfi_walk() and libunwind walk the stack. libunwind gives up in static programs:
 * where the two part, libdwfl's unwinder (eu-stack) is asked as well. Prints how often
 * the walks agree, and every kind of disagreement once, by the last frame on which all agreed.
 * Exit code: 0 when no walk is against both others.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/oracle/walkers.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/unwind/cfi.h"

struct tally {
	unsigned long points, equal, equal_dwfl, longer, against;
	unsigned long end[WALK_END_UNKNOWN_PC + 1];
	double our_seconds, their_seconds;
	unsigned long frames;
	struct cfi *rules_only;
	unsigned long no_rule_alone, changed; /* by rules alone: ended so, had another frame */
};

static void get_regs(pid_t pid, struct regs *ret)
{
	struct user_regs_struct u;

	if (ptrace(PTRACE_GETREGS, pid, 0, &u) < 0) {
		perror("PTRACE_GETREGS");
		exit(2);
	}
	*ret = (struct regs){ .r = { u.rax, u.rdx, u.rcx, u.rbx, u.rsi, u.rdi, u.rbp, u.rsp, u.r8, u.r9,
				     u.r10, u.r11, u.r12, u.r13, u.r14, u.r15, u.rip, u.eflags, u.fs_base } };
}

static void print_frame(const struct module_list *modules, uint64_t pc)
{
	const struct module *m = module_find(modules, pc);
	const char *name = m ? strrchr(m->path, '/') : NULL;

	if (m)
		printf("%s+0x%" PRIx64, name ? name + 1 : m->path, pc - m->bias);
	else
		printf("0x%" PRIx64, pc);
}

static const char *const end_name[] = { "complete", "depth",	     "unreadable",
					"no rule",  "not ascending", "unknown pc" };

static const char *const walker_name[] = { "ours", "libunwind", "libdwfl" };

static void print_next(const struct module_list *modules, const char *who, const struct walk *w,
		       unsigned int k)
{
	printf(", %s (%u) ", who, w->n);
	if (k < w->n)
		print_frame(modules, w->frame[k]);
	else
		printf("ends");
}

/* One line for each address below which the walks part, so that a loop does not fill the screen. */
static void report(const struct module_list *modules, const struct walk *w, enum walk_end why)
{
	static uint64_t seen[512];
	static unsigned int nseen;
	unsigned int k = walk_common(&w[0], &w[1]) < walk_common(&w[0], &w[2]) ? walk_common(&w[0], &w[1])
									       : walk_common(&w[0], &w[2]);
	uint64_t last = w[0].frame[k ? k - 1 : 0];

	for (unsigned int i = 0; i < nseen; i++)
		if (seen[i] == last)
			return;
	if (nseen < 512)
		seen[nseen++] = last;
	printf("%s below frame %u, ", walk_same(&w[0], &w[2]) ? "libunwind parts" : "AGAINST BOTH",
	       k ? k - 1 : 0);
	print_frame(modules, last);
	for (unsigned int i = 0; i < 3; i++)
		print_next(modules, walker_name[i], &w[i], k);
	printf("; ours: %s; at ", end_name[why]);
	print_frame(modules, w[0].frame[0]);
	printf("\n");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Nothing is against @longer in @shorter: it ends, where the other has a rule (no table, but code that proves
 * it). */
static bool goes_on(const struct walk *longer, const struct walk *shorter)
{
	return shorter->n < longer->n && walk_common(longer, shorter) == shorter->n;
}

/* Without libunwind's help where rules end. */
static void compare_by_rules_alone(const struct regs *regs, const struct memory_view *mem,
				   const struct walk *ours, struct tally *t)
{
	struct walk alone = { .n = 0 };
	enum walk_end why;

	alone.n = cfi_walk(t->rules_only, regs, mem, alone.frame, DEPTH, &why);
	t->no_rule_alone += why == WALK_END_NO_RULE;
	t->changed += walk_common(&alone, ours) != alone.n || (why != WALK_END_NO_RULE && alone.n != ours->n);
}

static void compare(pid_t pid, struct cfi *cfi, const struct module_list *modules, struct tally *t)
{
	struct memory_view mem = walkers_memory(&pid);
	struct walk w[3] = { { .n = 0 } };
	enum walk_end why;
	struct regs regs;
	double start;

	get_regs(pid, &regs);
	start = now();
	w[0].n = cfi_walk(cfi, &regs, &mem, w[0].frame, DEPTH, &why);
	t->our_seconds += now() - start;
	start = now();
	walkers_unwind(pid, &regs, &w[1]);
	t->their_seconds += now() - start;
	t->points++;
	t->frames += w[0].n;
	t->end[why]++;
	compare_by_rules_alone(&regs, &mem, &w[0], t);
	if (walk_same(&w[0], &w[1])) {
		t->equal++;
		return;
	}
	walkers_dwfl(pid, &regs, &w[2]);
	if (walk_same(&w[0], &w[2]))
		t->equal_dwfl++;
	else if (goes_on(&w[0], &w[1]) && goes_on(&w[0], &w[2]))
		t->longer++;
	else
		t->against++;
	report(modules, w, why);
}

/* Adds what was mapped since the last stop. */
static void refresh_modules(pid_t pid, struct cfi *cfi, struct module_list *modules)
{
	struct wc_error *err;

	module_list_deinit(modules);
	*modules = (struct module_list){ 0 };
	err = module_list_read(pid, modules);
	if (err) {
		fprintf(stderr, "%s\n", err->text);
		exit(2);
	}
	for (size_t i = 0; i < modules->n; i++)
		cfi_add(cfi, &modules->v[i]);
}

/* Waits for a stop; a signal that the program sent itself goes to it. False: it ended. */
static bool wait_stop(pid_t pid, int *signal)
{
	int status;

	*signal = 0;
	if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
		return false;
	if (status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)
		*signal = WSTOPSIG(status);
	return true;
}

static pid_t start(char **argv)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		personality(ADDR_NO_RANDOMIZE);
		execvp(argv[0], argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (!WIFSTOPPED(status))
		exit(2);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL);
	return pid;
}

static bool step_and_compare(pid_t pid, long steps, struct cfi *cfi, struct module_list *modules,
			     struct tally *t)
{
	bool alive = true;
	int signal;

	walkers_unwind_forget(); /* what libunwind remembers does not survive dlopen */
	refresh_modules(pid, cfi, modules);
	for (size_t i = 0; i < modules->n; i++)
		cfi_add(t->rules_only, &modules->v[i]);
	for (long i = 0; i <= steps && alive; i++) {
		compare(pid, cfi, modules, t);
		alive = ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0 && wait_stop(pid, &signal);
		if (alive && signal)
			alive = ptrace(PTRACE_SINGLESTEP, pid, 0, signal) == 0 && wait_stop(pid, &signal);
	}
	return alive;
}

int main(int argc, char **argv)
{
	struct module_list modules = { 0 };
	struct cfi *cfi = cfi_new();
	struct tally t = { .rules_only = cfi_new() };
	bool alive = true;
	long stops, steps;
	int signal = 0;
	pid_t pid;

	if (argc < 4) {
		fprintf(stderr, "usage: %s STOPS STEPS PROGRAM [ARGS...]\n", argv[0]);
		return 2;
	}
	stops = atol(argv[1]);
	steps = atol(argv[2]);
	cfi_use_rules_only(t.rules_only);
	pid = start(argv + 3);
	srand(1);
	for (long i = 0; i < stops && alive; i++) {
		/* The first instructions of the dynamic linker are interesting too. */
		if (i) {
			ptrace(PTRACE_CONT, pid, 0, signal);
			usleep(500 + (unsigned int)rand() % 8000);
			syscall(SYS_tgkill, pid, pid, SIGSTOP);
			while ((alive = wait_stop(pid, &signal)) && signal)
				ptrace(PTRACE_CONT, pid, 0, signal);
		}
		if (alive)
			alive = step_and_compare(pid, steps, cfi, &modules, &t);
	}
	if (alive)
		kill(pid, SIGKILL);
	printf("%lu points, %.1f frames each: %lu as libunwind (%.3f %%), %lu not as libunwind but as "
	       "libdwfl, "
	       "%lu longer than both, %lu against both\n",
	       t.points, (double)t.frames / (double)t.points, t.equal,
	       100.0 * (double)t.equal / (double)t.points, t.equal_dwfl, t.longer, t.against);
	printf("ends:");
	for (unsigned int i = 0; i <= WALK_END_UNKNOWN_PC; i++)
		if (t.end[i])
			printf(" %s %lu", end_name[i], t.end[i]);
	printf("; no rule %lu by rules alone, %lu stacks with other frames", t.no_rule_alone, t.changed);
	printf("; %.1f us a walk, libunwind %.1f us\n", 1e6 * t.our_seconds / (double)t.points,
	       1e6 * t.their_seconds / (double)t.points);
	module_list_deinit(&modules);
	cfi_free(cfi);
	cfi_free(t.rules_only);
	return t.against || t.changed;
}
