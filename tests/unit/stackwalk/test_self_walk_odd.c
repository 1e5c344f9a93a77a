/*
 * The oracle is cfi_walk(), which takes its rules from libdw and reads memory by system call: after every
 * instruction of real code, and on stacks made by hand, which are not as they should be ($SEED: others).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "stackwalk/self_modules.h"
#include "stackwalk/self_rules.h"
#include "stackwalk/self_stack.h"
#include "tests/unit/self_walk_scene.h"
#include "watchctl/code/unwind/cfi.h"

static volatile int sink;
static struct cfi *cfi;
static struct module_list modules;

/* A trap after every instruction. */

static struct {
	unsigned long steps, unequal;
} stepped;

static bool own_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len };
	struct iovec remote = { (void *)(uintptr_t)addr, len };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static const struct memory_view own_memory = { own_read, NULL };

static bool same_walk(const struct walk *a, const struct walk *b)
{
	return a->why == b->why && a->n == b->n && memcmp(a->frame, b->frame, a->n * 8) == 0;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	struct regs regs = { .r = { 0 } };
	struct walk ours, theirs;

	for (unsigned int i = 0; i < 17; i++)
		regs.r[ucontext_order[i]] = (uint64_t)uc->uc_mcontext.gregs[i];
	ours.n = self_walk_interrupted(&regs, ours.frame, DEPTH, &ours.why);
	theirs.n = cfi_walk(cfi, &regs, &own_memory, theirs.frame, DEPTH, &theirs.why);
	stepped.steps++;
	if (same_walk(&ours, &theirs) || stepped.unequal++ > 2)
		return;
	print_walk("ours", &ours);
	print_walk("cfi_walk's", &theirs);
}

/* clang-format off */
__asm__(".text\n"
	".globl trace_on\n.type trace_on, @function\ntrace_on:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\n"
	"orq $0x100, (%rsp)\npopfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
	".globl trace_off\n.type trace_off, @function\ntrace_off:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\n"
	"andq $~0x100, (%rsp)\npopfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
	/* Code for stacks that are made by hand: no frame; rbp; rbx; rbp and a deep save; CFA in memory; ... */
	".globl f_leaf\nf_leaf:\n.cfi_startproc\nnop\nnop\n.cfi_endproc\n"
	".globl f_rbp\nf_rbp:\n.cfi_startproc\n.cfi_def_cfa rbp, 16\n.cfi_offset rbp, -16\nnop\nnop\n.cfi_endproc\n"
	".globl f_room\nf_room:\n.cfi_startproc\n.cfi_def_cfa rsp, 48\n.cfi_offset rbp, -16\n.cfi_offset rbx, -24\nnop\nnop\n.cfi_endproc\n"
	".globl f_rbx\nf_rbx:\n.cfi_startproc\n.cfi_def_cfa rbx, 16\n.cfi_offset rbx, -16\nnop\nnop\n.cfi_endproc\n"
	".globl f_deref\nf_deref:\n.cfi_startproc\n.cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n.cfi_escape 0x10, 6, 2, 0x76, 0\nnop\nnop\n.cfi_endproc\n"
	".globl f_odd\nf_odd:\n.cfi_startproc\n.cfi_def_cfa rbp, 32\n.cfi_offset rbp, -24\n.cfi_offset r12, -32\nnop\nnop\n.cfi_endproc\n"
	".globl f_r10\nf_r10:\n.cfi_startproc\n.cfi_def_cfa r10, 0\nnop\nnop\n.cfi_endproc\n"
	".globl f_below\nf_below:\n.cfi_startproc\n.cfi_offset rbp, -24\nnop\nnop\n.cfi_endproc\n"
	".globl f_signal\nf_signal:\n.cfi_startproc\n.cfi_signal_frame\n.cfi_escape 0x10, 0x10, 3, 0x77, 0xa8, 1\nnop\nnop\n.cfi_endproc\n"
	".globl f_end\nf_end:\n.cfi_startproc\n.cfi_undefined rip\nnop\nnop\n.cfi_endproc\n"
	".globl f_none\nf_none:\nnop\nnop\nint3\nint3\n");
/* clang-format on */

void trace_on(void);
void trace_off(void);
extern const char f_leaf[], f_rbp[], f_room[], f_rbx[], f_deref[], f_odd[], f_r10[], f_below[], f_signal[],
	f_end[], f_none[];

static void on_usr1(int sig)
{
	char text[64];

	trace_on();
	snprintf(text, sizeof(text), "%d", sig);
	sink += (int)strlen(text);
	trace_off();
}

static __attribute__((noinline)) int deep(int n)
{
	struct timespec t;
	char text[64];
	int v[] = { 3, 1, 2 };

	if (n)
		return deep(n - 1) + sink;
	snprintf(text, sizeof(text), "%d %s %g", v[0], "text", 2.5);
	clock_gettime(CLOCK_MONOTONIC, &t);
	raise(SIGUSR1);
	return (int)strlen(text) + (int)t.tv_nsec;
}

static void every_instruction_walks_as_cfi_walk_does(void **state)
{
	struct sigaction trap = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	struct sigaction usr1 = { .sa_handler = on_usr1, .sa_flags = SA_ONSTACK };
	static char stack[1 << 17];
	const stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	assert_int_equal(sigaltstack(&ss, NULL), 0);
	assert_int_equal(sigaction(SIGTRAP, &trap, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &usr1, NULL), 0);
	trace_on();
	sink += deep(20);
	trace_off();
	print_message("%lu instructions, %lu unequal\n", stepped.steps, stepped.unequal);
	assert_int_equal(stepped.unequal, 0);
	assert_true(stepped.steps > 1000);
}

/* Stacks made by hand: pages[0] can be read, then a hole, then pages[1]. */

#define STACK_BYTES 8192u

struct scene {
	uint8_t *low, *high;
	uint64_t seed;
};

#define ANYWHERE 0

/* At @place, if that is free. */
static void open_scene(struct scene *s, uint64_t place)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	s->low = MAP_FAILED;
	if (place)
		s->low = mmap((void *)(uintptr_t)place, STACK_BYTES * 3, PROT_READ | PROT_WRITE,
			      flags | MAP_FIXED_NOREPLACE, -1, 0);
	if (s->low == MAP_FAILED)
		s->low = mmap(NULL, STACK_BYTES * 3, PROT_READ | PROT_WRITE, flags, -1, 0);
	assert_ptr_not_equal(s->low, MAP_FAILED);
	assert_int_equal(mprotect(s->low + STACK_BYTES, STACK_BYTES, PROT_NONE), 0);
	s->high = s->low + 2 * STACK_BYTES;
	s->seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 0) : 88172645463325252u;
}

static uint64_t below(struct scene *s, uint64_t n)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return (s->seed >> 11) % n;
}

static uint64_t some_code(struct scene *s)
{
	const char *const code[] = { f_leaf, f_rbp, f_room, f_rbx,  f_deref,
				     f_odd,  f_rbp, f_room, f_leaf, f_below };

	switch (below(s, 40)) {
	case 0:
		return (uintptr_t)f_end + 1;
	case 1:
		return (uintptr_t)f_none + 1;
	case 2:
		return 0;
	case 3:
		return (uintptr_t)f_rbp + 1 + (1ull << 47 << below(s, 17));
	case 4:
		return below(s, UINT64_MAX) |
		       1ull << 47; /* without it, it might be memory, and that be code */
	case 5:
		return below(s, 60000);
	case 6:
	case 7:
		return (uintptr_t)f_signal + 1;
	default:
		return (uintptr_t)code[below(s, 10)] + 1;
	}
}

static uint64_t some_pointer(struct scene *s, uint64_t near)
{
	switch (below(s, 24)) {
	case 0:
		return below(s, UINT64_MAX);
	case 1:
		return 0;
	case 2:
		return (uintptr_t)s->low + STACK_BYTES + below(s, STACK_BYTES); /* the hole */
	case 3:
		return (uintptr_t)s->high + 8 * below(s, STACK_BYTES / 8);
	case 4:
		return near - 8 * below(s, 8);
	case 5:
		return near + below(s, 64);
	case 6:
		return UINT64_MAX - below(s, 32);
	case 7:
		return (1ull << 47) - below(s, 32);
	default:
		return near + 8 * below(s, 24);
	}
}

static bool is_in(const struct scene *s, uint64_t addr)
{
	return addr >= (uintptr_t)s->low && addr < (uintptr_t)s->low + 3 * STACK_BYTES;
}

static unsigned long checked, wrong, by_chance;

/* The bytes before @pc read as a call: e8 and a distance, or ff /2 with its operand. */
static bool call_may_end_at(const struct scene *s, uint64_t pc)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)pc;

	if (!is_in(s, pc - 8) || (is_in(s, pc) && p >= s->low + STACK_BYTES && p < s->high + 8))
		return false;
	for (int n = 2; n <= 7; n++)
		if (p[-n] == 0xff && (p[1 - n] & 0x38) == 0x10)
			return true;
	return p[-5] == 0xe8;
}

/*
 * A signal is said to have come where there is data. Nothing can run there, since it is not executable, and
 * cfi_walk() ends, which is right. Within a process there is no cheap way to know: ours takes what can be
 * read for made code, and goes on as long as the saved rbp leads to what reads as the end of a call. In data
 * that is chance; it is more likely where the data's own addresses have such bytes.
 */
static bool takes_data_for_code(const struct scene *s, const struct walk *ours, const struct walk *theirs)
{
	if (theirs->why != WALK_END_NO_RULE || !is_in(s, theirs->frame[theirs->n - 1]) ||
	    ours->why == WALK_END_DEPTH || ours->n < theirs->n ||
	    memcmp(ours->frame, theirs->frame, theirs->n * 8) != 0)
		return false;
	for (uint32_t i = theirs->n; i < ours->n; i++)
		if (!call_may_end_at(s, ours->frame[i]))
			return false;
	by_chance += ours->n > theirs->n;
	return true;
}

static void compare_smashed(struct scene *s, unsigned long *ends)
{
	uint64_t at = (uintptr_t)s->low + 8 * below(s, STACK_BYTES / 8 - 64),
		 *word = (uint64_t *)(uintptr_t)at;
	struct self_regs from = { .rip = some_code(s), .rsp = some_pointer(s, at) };
	struct regs regs = { .r = { 0 } };
	struct walk ours, theirs;

	while ((uint8_t *)word < s->low + STACK_BYTES) {
		uint64_t here = (uintptr_t)word;

		*word++ = below(s, 2) ? some_code(s) : some_pointer(s, here);
	}
	from.rbp = some_pointer(s, at);
	from.rbx = some_pointer(s, at);
	from.r12 = from.r13 = from.r14 = from.r15 = 1;
	regs.r[WREG_RIP] = from.rip;
	regs.r[WREG_RSP] = from.rsp;
	regs.r[WREG_RBP] = from.rbp;
	regs.r[WREG_RBX] = from.rbx;
	regs.r[WREG_R12] = regs.r[WREG_R13] = regs.r[WREG_R14] = regs.r[WREG_R15] = 1;
	theirs.n = cfi_walk(cfi, &regs, &own_memory, theirs.frame, DEPTH, &theirs.why);
	ours.n = self_walk(&from, true, ours.frame, DEPTH, &ours.why);
	ends[ours.why]++;
	checked++;
	if (!same_walk(&ours, &theirs) && !takes_data_for_code(s, &ours, &theirs) && wrong++ < 3) {
		print_message("rip %#lx rsp %#lx rbp %#lx rbx %#lx\n", from.rip, from.rsp, from.rbp,
			      from.rbx);
		print_walk("ours", &ours);
		print_walk("cfi_walk's", &theirs);
	}
}

/* As many stacks at @place; its addresses are among what lies on them. */
static void smash(uint64_t place, unsigned long *ends)
{
	struct scene s;

	open_scene(&s, place);
	for (int i = 0; i < 60000; i++)
		compare_smashed(&s, ends);
	munmap(s.low, STACK_BYTES * 3);
}

static void a_smashed_stack_ends_with_the_reason(void **state)
{
	unsigned long ends[WALK_END_UNKNOWN_PC] = { 0 };

	checked = wrong = by_chance = 0;
	smash(ANYWHERE, ends);
	/* Each address in there has the byte of a call. */
	smash(0x7e35e8280000, ends);
	print_message("complete %lu, depth %lu, unreadable %lu, no rule %lu, not ascending %lu\n",
		      ends[WALK_END_COMPLETE], ends[WALK_END_DEPTH], ends[WALK_END_UNREADABLE],
		      ends[WALK_END_NO_RULE], ends[WALK_END_NOT_ASCENDING]);
	for (int i = 0; i < WALK_END_UNKNOWN_PC; i++)
		assert_true(ends[i] > 50 || i == WALK_END_DEPTH);
	print_message("%lu went on through data that reads as calls\n", by_chance);
	assert_int_equal(checked, 120000);
	assert_int_equal(wrong, 0);
}

/* Return addresses up to the last word before the hole. */
static void a_stack_without_an_end_ends_unreadable(void **state)
{
	struct self_regs from = { .rip = (uintptr_t)f_leaf + 1 };
	uint64_t frame[DEPTH];
	enum walk_end why;
	struct scene s;

	open_scene(&s, ANYWHERE);
	for (unsigned int i = 0; i < STACK_BYTES / 8; i++)
		((uint64_t *)s.low)[i] = (uintptr_t)f_leaf + 1;
	for (unsigned int left = 0; left < 100; left++) {
		from.rsp = (uintptr_t)s.low + STACK_BYTES - 8 * left;
		assert_int_equal(self_walk(&from, false, frame, DEPTH, &why), left + 1);
		assert_int_equal(why, WALK_END_UNREADABLE);
	}
	munmap(s.low, STACK_BYTES * 3);
}

static uint8_t *memory;

static void *walk_there(void *arg)
{
	struct self_regs from = { .rip = (uintptr_t)f_leaf + 1 };
	uint64_t frame[DEPTH];
	enum walk_end why;

	/* 20 words below the third page: first it can be read, then not, then again. */
	from.rsp = (uintptr_t)memory + 2 * SELF_PAGE - 8 * 20;
	for (unsigned int i = 0; i < 7; i++) {
		if (i && mprotect(memory + 2 * SELF_PAGE, SELF_PAGE, i % 2 ? PROT_NONE : PROT_READ) != 0)
			return "mprotect";
		if (self_walk(&from, false, frame, DEPTH, &why) != (i % 2 ? 21 : DEPTH) ||
		    why != (i % 2 ? WALK_END_UNREADABLE : WALK_END_DEPTH))
			return "walk";
	}
	return NULL;
}

/* Even when the first walk of a thread is there, and the memory below the thread's own stack. */
static void memory_of_others_is_asked_for_each_time(void **state)
{
	pthread_t thread;
	void *failed;

	memory = mmap(NULL, 4 * SELF_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	for (unsigned int i = 0; i < 4 * SELF_PAGE / 8; i++)
		((uint64_t *)memory)[i] = (uintptr_t)f_leaf + 1;
	assert_int_equal(pthread_create(&thread, NULL, walk_there, NULL), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_null(walk_there(NULL));
	munmap(memory, 4 * SELF_PAGE);
}

/* A frame that is found from a register that calls do not keep: known where a signal came, else not. */
static void a_register_that_is_not_known_is_no_rule(void **state)
{
	uint64_t stack[] = { 1, 2, 3, (uintptr_t)f_end + 1 }, frame[DEPTH];
	struct self_regs from = { .rip = (uintptr_t)f_r10, .rsp = (uintptr_t)stack };
	struct regs regs = {
		.r = { [WREG_RIP] = from.rip, [WREG_RSP] = from.rsp, [WREG_R10] = (uintptr_t)stack + 32 }
	};
	enum walk_end why;

	assert_int_equal(self_walk(&from, true, frame, DEPTH, &why), 1);
	assert_int_equal(why, WALK_END_NO_RULE);
	assert_int_equal(self_walk_interrupted(&regs, frame, DEPTH, &why), 2);
	assert_int_equal(why, WALK_END_COMPLETE);
	assert_int_equal(frame[1], (uintptr_t)f_end + 1);
}

/*
 * Every byte of libc, as an address and as a return address: what the table remembers is what is worked out
 * with an empty one. There are many more than the table has words.
 */
static void the_table_never_confuses_addresses(void **state)
{
	struct self_seen seen = { .n = 0 };
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD); /* a sanitizer has a qsort of its own */
	uint64_t place, n, at = 0;
	struct self_module m;
	uint32_t *form;

	assert_non_null(libc);
	assert_int_equal(self_module_find((uintptr_t)dlsym(libc, "qsort"), &m), SELF_MODULE);
	n = (m.code_end - m.code) / 4;
	form = malloc(2 * n * sizeof(*form));
	assert_non_null(form);
	for (uint64_t i = 0; i < 2 * n; i++) {
		uint64_t pc = m.code + i / 2;

		place = self_word_place(pc);
		self_words[i % 2][place] = self_words[i % 2][place ^ 1] = 0;
		form[i] = self_form(pc, i % 2, &seen);
	}
	/* In steps that have no divisor in common with their number, so that all are met. */
	for (uint64_t i = 0; i < 4 * n; i++) {
		at = (at + 1000003) % (2 * n);
		assert_int_equal(self_form(m.code + at / 2, at % 2, &seen), form[at]);
		/* Its neighbour shares the two places with it. */
		assert_int_equal(self_form(m.code + (at ^ 2) / 2 % n, at % 2, &seen),
				 form[(at ^ 2) % (2 * n)]);
	}
	free(form);
	dlclose(libc);
}

/* An address on the stack that no call returns to is not taken for made code. */
static void data_is_not_made_code(void **state)
{
	uint64_t stack[16], frame[DEPTH];
	struct self_regs from = { .rip = (uintptr_t)stack,
				  .rsp = (uintptr_t)stack,
				  .rbp = (uintptr_t)&stack[2] };
	enum walk_end why;

	memset(stack, 0, sizeof(stack));
	assert_int_equal(self_walk(&from, false, frame, DEPTH, &why), 1);
	assert_int_equal(why, WALK_END_NO_RULE);
	from.rip = (uintptr_t)&modules;
	assert_int_equal(self_walk(&from, false, frame, DEPTH, &why), 1);
	assert_int_equal(why, WALK_END_NO_RULE);
	from.rip = (uintptr_t)&cfi + 1;
	assert_int_equal(self_walk(&from, true, frame, DEPTH, &why), 1);
	assert_int_equal(why, WALK_END_NO_RULE);
}

static uint32_t id_of(uint64_t addr)
{
	struct self_module m;

	assert_int_equal(self_module_find(addr, &m), SELF_MODULE);
	assert_true(m.id == 0 || self_module_is_there(m.id));
	return m.id;
}

/* What the executable needs needs no look before its rules are used; a library that was opened does. */
static void what_can_be_unloaded_is_known(void **state)
{
	struct self_module m;
	uint32_t id = 0;

	assert_int_equal(id_of((uintptr_t)open_scene), 0);
	assert_int_equal(id_of((uintptr_t)dlsym(RTLD_DEFAULT, "getpid")), 0);
	assert_int_equal(id_of((uintptr_t)dlsym(RTLD_DEFAULT, "_dl_find_object")), 0);
	if (getauxval(AT_SYSINFO_EHDR))
		assert_int_equal(id_of(getauxval(AT_SYSINFO_EHDR)), 0);
	assert_int_equal(self_module_find((uintptr_t)&m, &m), SELF_NO_MODULE);
	for (int i = 0; i < 3; i++) {
		void *lib = dlopen("libthread_db.so.1", RTLD_LAZY); /* of glibc, for debuggers */
		void *symbol = lib ? dlsym(lib, "td_init") : NULL;

		assert_non_null(symbol);
		assert_int_not_equal(id_of((uintptr_t)symbol), 0);
		assert_true(i == 0 || id == id_of((uintptr_t)symbol));
		id = id_of((uintptr_t)symbol);
		dlclose(lib);
		assert_false(self_module_is_there(id));
	}
}

static int set_up(void **state)
{
	struct wc_error *err = module_list_read(getpid(), &modules);

	cfi = cfi_new();
	if (err || !cfi)
		return -1;
	for (size_t i = 0; i < modules.n; i++)
		if (!cfi_add(cfi, &modules.v[i]))
			return -1;
	self_walk_setup();
	return 0;
}

static int tear_down(void **state)
{
	cfi_free(cfi);
	module_list_deinit(&modules);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: while there is one thread, malloc() takes no lock that the trap's handler would wait
		   for. */
		cmocka_unit_test(every_instruction_walks_as_cfi_walk_does),
		cmocka_unit_test(what_can_be_unloaded_is_known),
		cmocka_unit_test(the_table_never_confuses_addresses),
		cmocka_unit_test(a_smashed_stack_ends_with_the_reason),
		cmocka_unit_test(a_stack_without_an_end_ends_unreadable),
		cmocka_unit_test(memory_of_others_is_asked_for_each_time),
		cmocka_unit_test(data_is_not_made_code),
		cmocka_unit_test(a_register_that_is_not_known_is_no_rule),
	};

	return cmocka_run_group_tests_name("self_walk, odd stacks", tests, set_up, tear_down);
}
