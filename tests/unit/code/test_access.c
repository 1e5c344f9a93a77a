/*
 * The bench executes real instructions under a real data breakpoint: the labels in the code are the oracle,
 * the processor's trap is the question. The other tests hand access_resolve() facts that no bench can
 * produce.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/access_cases.h"
#include "tests/unit/access_scene.h"
#include "watchctl/code/insn/access.h"
#include "watchctl/engine/arm/perf_bp.h"

#define ARENA_SLOT 8200 /* access_cases.h names it too */
#define HITS_MAX 64

/* Named by the assembly. Nobody but the cases touches it while a breakpoint is armed. */
uint8_t arena[16384] __attribute__((aligned(4096)));
extern const char callee[], callee_ret16[], cases_end[], back_invoke[];
void (*const callee_pointer)(void) __attribute__((used)) = (void (*)(void))callee;
void invoke(void *slot, uint64_t five, void *fn);

#define DECLARE(name, kind, flags)                                            \
	extern const char case_##name[], insn_##name[] __attribute__((weak)), \
		back_##name[] __attribute__((weak));
CASES(DECLARE)

struct access_case {
	const char *name, *code, *insn, *back;
	uint8_t kind;
	unsigned int flags;
};

#define ENTRY(name, kind, flags) { #name, case_##name, insn_##name, back_##name, kind, flags },
static const struct access_case cases[] = { CASES(ENTRY) };

static struct regs hit[HITS_MAX];
static volatile unsigned int nhits;
static uint64_t fs_base;

/* Runs with the breakpoint armed: touches nothing of the arena. */
static void on_trap(int sig, siginfo_t *info, void *context)
{
	static const int from[WREG_FS_BASE] = {
		[WREG_RAX] = REG_RAX, [WREG_RDX] = REG_RDX,   [WREG_RCX] = REG_RCX, [WREG_RBX] = REG_RBX,
		[WREG_RSI] = REG_RSI, [WREG_RDI] = REG_RDI,   [WREG_RBP] = REG_RBP, [WREG_RSP] = REG_RSP,
		[WREG_R8] = REG_R8,   [WREG_R9] = REG_R9,     [WREG_R10] = REG_R10, [WREG_R11] = REG_R11,
		[WREG_R12] = REG_R12, [WREG_R13] = REG_R13,   [WREG_R14] = REG_R14, [WREG_R15] = REG_R15,
		[WREG_RIP] = REG_RIP, [WREG_RFLAGS] = REG_EFL
	};
	const ucontext_t *uc = context;

	if (nhits < HITS_MAX) {
		for (unsigned int i = 0; i < WREG_FS_BASE; i++)
			hit[nhits].r[i] = (uint64_t)uc->uc_mcontext.gregs[from[i]];
		hit[nhits].r[WREG_FS_BASE] = fs_base;
	}
	nhits++;
}

static uint64_t slot_addr(void)
{
	return (uint64_t)(uintptr_t)(arena + ARENA_SLOT);
}

static int arm(unsigned int type, bool exclude_kernel)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.bp_type = type,
		.bp_addr = slot_addr(),
		.bp_len = HW_BREAKPOINT_LEN_8,
		.disabled = 1,
		.remove_on_exec = 1,
		.sigtrap = 1,
		.exclude_kernel = exclude_kernel,
		.exclude_hv = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* On a stack of its own: some cases point rsp into the arena. */
static void install_handler(void)
{
	static uint8_t stack[65536];
	const stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	assert_int_equal(sigaltstack(&ss, NULL), 0);
	assert_int_equal(sigaction(SIGTRAP, &sa, NULL), 0);
	assert_int_equal(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs_base), 0);
}

static bool own_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

static const struct memory_view own_memory = { own_read, NULL };

/* The function that holds @pc, among those of the bench; 0: none. */
static uint64_t function_of(uint64_t pc)
{
	const char *best = NULL;
	const char *const others[] = { callee, callee_ret16 };

	if (pc >= (uintptr_t)cases_end)
		return 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if ((uintptr_t)cases[i].code <= pc && cases[i].code > best)
			best = cases[i].code;
	for (size_t i = 0; i < 2; i++)
		if ((uintptr_t)others[i] <= pc && others[i] > best)
			best = others[i];
	if (!best && pc >= (uintptr_t)invoke)
		best = (const char *)invoke;
	return (uintptr_t)best;
}

static bool is_supported(const struct access_case *c, const char **why)
{
	unsigned int a = 0, b = 0, ecx = 0, d = 0;

	__get_cpuid_count(0x80000008, 0, &a, &b, &ecx, &d);
	*why = c->flags & AVX2 && !__builtin_cpu_supports("avx2")	  ? "no AVX2"
	       : c->flags & AVX512 && !__builtin_cpu_supports("avx512bw") ? "no AVX-512BW"
	       : c->flags & CLZERO && !(b & 1)				  ? "no clzero"
									  : NULL;
	return !*why;
}

static uint64_t initial_value(const struct access_case *c)
{
	return c->flags & HOLDS_SELF ? slot_addr() : c->flags & HOLDS_CALLEE ? (uintptr_t)callee : 0x202;
}

/* Runs @c under a breakpoint of @type. False: it cannot be armed, errno says why. */
static bool execute(const struct access_case *c, unsigned int type)
{
	uint64_t value = initial_value(c), other = 5;
	int pipe_fd[2] = { -1, -1 }, fd = arm(type, !(c->flags & KERNEL));

	if (fd < 0)
		return false;
	if (c->flags & KERNEL) {
		assert_int_equal(pipe(pipe_fd), 0);
		assert_int_equal(write(pipe_fd[1], "new text", 8), 8);
		other = (uint64_t)pipe_fd[0];
	}
	memset(arena, 0, sizeof(arena));
	memcpy(arena + ARENA_SLOT, &value, 8);
	nhits = 0;
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	invoke(arena + ARENA_SLOT, other, (void *)(uintptr_t)c->code);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	close(fd);
	if (c->flags & KERNEL) {
		close(pipe_fd[0]);
		close(pipe_fd[1]);
	}
	return true;
}

struct expectation {
	enum access_kind kind;
	uint64_t insn;
	bool in_caller, kernel;
};

static struct expectation expect(const struct access_case *c, bool has_value)
{
	struct expectation e = { .kind = c->kind, .insn = (uintptr_t)c->insn };

	if (c->flags & NO_INSN)
		e.insn = 0;
	if (c->flags & NEEDS_VALUE && !has_value)
		e.kind = ACCESS_UNKNOWN;
	if (c->flags & KERNEL && !has_value)
		e.kind = ACCESS_UNKNOWN;
	e.in_caller = c->flags & IN_CALLER;
	e.kernel = c->flags & KERNEL;
	return e;
}

/* Whether access_resolve() says of hit @i what is known to be true. Says what it said, if not. */
static bool check_hit(const struct access_case *c, unsigned int i, bool has_value)
{
	struct expectation e = expect(c, has_value);
	uint64_t rip = hit[i].r[WREG_RIP];
	uint64_t back = (uintptr_t)(c->flags & IN_CALLER ? c->back : back_invoke);
	struct code_fact pc, caller;
	struct access_query q = {
		.regs = &hit[i],
		.addr = slot_addr(),
		.size = 8,
		.pc = &pc,
		.caller = &caller,
		.has_old = has_value,
		.has_new = has_value,
		.old_value = initial_value(c),
	};
	struct access_verdict v;
	bool checkable = !(c->flags & (NO_INSN | UNCONFIRMED)) && strncmp(c->name, "rep", 3) != 0 &&
			 (has_value || !(c->flags & UNCHECKED));

	memcpy(&q.new_value, arena + ARENA_SLOT, 8);
	code_fact_fill(&pc, rip, function_of(rip - 1), &own_memory);
	code_fact_fill(&caller, back, function_of(back - 1), &own_memory);
	access_resolve(&q, &v);
	if (v.kind == e.kind && v.insn == e.insn && v.in_caller == e.in_caller &&
	    (v.origin == ORIGIN_KERNEL) == e.kernel && (!checkable || v.confirmed) &&
	    !(v.confirmed && c->flags & UNCONFIRMED) && (!v.insn || !memcmp(v.bytes, c->insn, v.len)))
		return true;
	print_error("%s, hit %u of %u%s, rip %+td from the instruction: kind %d, expected %d; insn %#lx, "
		    "expected %#lx; "
		    "in_caller %d, kernel %d, confirmed %d\n",
		    c->name, i + 1, nhits, has_value ? "" : " without value", (const char *)rip - c->insn,
		    v.kind, e.kind, (unsigned long)v.insn, (unsigned long)e.insn, v.in_caller, v.origin,
		    v.confirmed);
	return false;
}

static bool check_case(const struct access_case *c)
{
	unsigned int first = c->flags & LAST_HIT && nhits ? nhits - 1 : 0;
	unsigned int end = c->flags & FIRST_HIT && nhits ? 1 : nhits;
	bool good = true;

	if (!nhits != !!(c->flags & NO_TRAP) && !(c->flags & MAY_TRAP)) {
		print_error("%s: %u hits\n", c->name, nhits);
		return false;
	}
	for (unsigned int i = first; i < end && i < HITS_MAX; i++)
		good = check_hit(c, i, true) && check_hit(c, i, false) && good;
	return good;
}

static void every_executed_access_is_named(void **state)
{
	const unsigned int type[] = { HW_BREAKPOINT_RW, HW_BREAKPOINT_W };
	unsigned int failed = 0;
	const char *why;

	if (perf_bp_used(getpid()) < 0)
		skip(); /* this machine offers no debug registers */
	install_handler();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!is_supported(&cases[i], &why)) {
			print_message("skipped %s: %s\n", cases[i].name, why);
			continue;
		}
		for (unsigned int k = 0; k < (cases[i].kind & ACCESS_WRITE ? 2u : 1u); k++) {
			if (execute(&cases[i], type[k])) {
				failed += !check_case(&cases[i]);
				continue;
			}
			print_message("skipped %s: perf_event_open: %s\n", cases[i].name, strerror(errno));
			if (!i)
				skip();
		}
	}
	assert_int_equal(failed, 0);
}

/* mov [rbx], eax before rip, but rbx points elsewhere: whoever wrote came to rip from somewhere else. */
static void a_contradicted_instruction_is_not_blamed(void **state)
{
	struct scene *s = scene();
	struct access_verdict v;

	set_before(&s->pc, BYTES(0x89, 0x03));
	s->regs.r[WREG_RBX] = 0x8000;
	v = resolve(s);
	assert_int_equal(v.kind, ACCESS_UNKNOWN);
	assert_int_equal(v.insn, 0);
	s->regs.r[WREG_RBX] = 0x7004;
	v = resolve(s);
	assert_int_equal(v.kind, ACCESS_WRITE);
	assert_int_equal(v.insn, 0x400ffe);
	assert_true(v.confirmed);
}

static void nothing_known_is_unknown(void **state)
{
	struct scene *s = scene();
	struct access_verdict v;

	s->q.pc = s->q.caller = NULL;
	v = resolve(s);
	assert_int_equal(v.kind, ACCESS_UNKNOWN);
	assert_int_equal(v.insn, 0);
	assert_int_equal(v.len, 0);
}

/* call rel32 at 0x401ffb to 0x401000, return address 0x402000 at rsp. */
static struct scene *call_scene(void)
{
	struct scene *s = scene();

	set_before(&s->caller, BYTES(0xe8, 0x00, 0xf0, 0xff, 0xff));
	s->regs.r[WREG_RSP] = 0x7000;
	return s;
}

static void a_direct_call_must_lead_to_rip(void **state)
{
	struct scene *s = call_scene();

	assert_int_equal(resolve(s).insn, 0x401ffb);
	assert_int_equal(resolve(s).kind, ACCESS_WRITE);
	assert_true(resolve(s).in_caller);
	set_before(&s->caller, BYTES(0xe8, 0x10, 0xf0, 0xff, 0xff));
	assert_int_equal(resolve(s).insn, 0);
	assert_int_equal(resolve(s).kind, ACCESS_UNKNOWN);
}

static void a_call_must_have_left_its_return_address(void **state)
{
	struct scene *s = call_scene();

	s->q.has_new = true;
	s->q.new_value = 0x402000;
	assert_int_equal(resolve(s).insn, 0x401ffb);
	s->q.new_value = 0x402001;
	assert_int_equal(resolve(s).insn, 0);
}

/* Four bytes in the middle of the return address. */
static void a_part_of_a_return_address_is_compared_as_such(void **state)
{
	struct scene *s = call_scene();

	s->q.addr = 0x7004;
	s->q.size = 4;
	s->q.has_new = true;
	s->q.new_value = 0;
	assert_int_equal(resolve(s).insn, 0x401ffb);
	s->q.new_value = 0x40;
	assert_int_equal(resolve(s).insn, 0);
}

/* call rax went to rip only if rax still says so. */
static void a_call_through_a_register_is_checked_against_it(void **state)
{
	struct scene *s = call_scene();

	set_before(&s->caller, BYTES(0xff, 0xd0));
	s->regs.r[WREG_RAX] = 0x401000;
	assert_int_equal(resolve(s).insn, 0x401ffe);
	assert_true(resolve(s).confirmed);
	s->regs.r[WREG_RAX] = 0x405000;
	assert_int_equal(resolve(s).insn, 0);
}

/* The instruction after a call is a ret's destination: the call before it did not just run. */
static void a_call_before_rip_is_not_blamed_for_what_ret_read(void **state)
{
	struct scene *s = scene();
	struct access_verdict v;

	set_before(&s->pc, BYTES(0xff, 0x13)); /* call [rbx] */
	s->regs.r[WREG_RBX] = 0x7000;
	s->regs.r[WREG_RSP] = 0x7008;
	v = resolve(s);
	assert_int_equal(v.kind, ACCESS_READ);
	assert_int_equal(v.insn, 0);
}

static void a_ret_must_have_read_rip(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0xff, 0xd0));
	s->regs.r[WREG_RSP] = 0x7008;
	s->q.has_new = true;
	s->q.new_value = 0x401000;
	assert_int_equal(resolve(s).kind, ACCESS_READ);
	assert_true(resolve(s).confirmed);
	s->q.new_value = 0x401001;
	assert_int_equal(resolve(s).kind, ACCESS_UNKNOWN);
}

static void a_system_call_is_the_kernels_doing(void **state)
{
	struct scene *s = scene();
	struct access_verdict v;

	set_before(&s->pc, BYTES(0x0f, 0x05));
	v = resolve(s);
	assert_int_equal(v.origin, ORIGIN_KERNEL);
	assert_int_equal(v.kind, ACCESS_UNKNOWN);
	assert_int_equal(v.insn, 0x400ffe);
	s->q.has_old = s->q.has_new = true;
	s->q.new_value = 1;
	assert_int_equal(resolve(s).kind, ACCESS_WRITE);
	s->q.old_value = 1;
	assert_int_equal(resolve(s).kind, ACCESS_UNKNOWN);
}

/* The signal of the trap itself makes the kernel restart the call: rip is at it. */
static void a_restarted_system_call_is_the_kernels_doing(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x89, 0xc7)); /* mov edi, eax */
	set_at(&s->pc, BYTES(0x0f, 0x05));
	assert_int_equal(resolve(s).origin, ORIGIN_KERNEL);
	assert_int_equal(resolve(s).insn, 0x401000);
}

/* Both a store to 0x7000 and the rep at rip, 8 bytes further on, explain the trap. */
static void two_explanations_leave_the_instruction_unknown(void **state)
{
	struct scene *s = scene();
	struct access_verdict v;

	set_before(&s->pc, BYTES(0x89, 0x03));
	set_at(&s->pc, BYTES(0xf3, 0x48, 0xab)); /* rep stosq */
	s->regs.r[WREG_RBX] = 0x7000;
	s->regs.r[WREG_RDI] = 0x7008;
	s->regs.r[WREG_RCX] = 10;
	v = resolve(s);
	assert_int_equal(v.kind, ACCESS_WRITE);
	assert_int_equal(v.insn, 0);
	assert_false(v.confirmed);
	s->regs.r[WREG_RDI] = 0x7000; /* not begun */
	assert_int_equal(resolve(s).insn, 0x400ffe);
	s->regs.r[WREG_RDI] = 0x7008;
	s->regs.r[WREG_RBX] = 0x8000;
	assert_int_equal(resolve(s).insn, 0x401000);
}

/* movs from and to the watched bytes at once does both. */
static void overlapping_movs_reads_and_writes(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0xa4)); /* movsb */
	s->regs.r[WREG_RSI] = 0x7002;
	s->regs.r[WREG_RDI] = 0x7005;
	assert_int_equal(resolve(s).kind, ACCESS_READWRITE);
	s->regs.r[WREG_RDI] = 0x8000;
	assert_int_equal(resolve(s).kind, ACCESS_READ);
}

/* An unknown fs base leaves the operand open: named, not confirmed. */
static void an_unknown_segment_base_is_not_confirmed(void **state)
{
	struct scene *s = scene();
	struct access_verdict v;

	set_before(&s->pc, BYTES(0x64, 0x89, 0x03)); /* mov fs:[rbx], eax */
	v = resolve(s);
	assert_int_equal(v.kind, ACCESS_WRITE);
	assert_int_equal(v.insn, 0x400ffd);
	assert_false(v.confirmed);
	s->regs.r[WREG_FS_BASE] = 0x6000;
	assert_int_equal(resolve(s).insn, 0);
	s->regs.r[WREG_RBX] = 0x1000;
	assert_true(resolve(s).confirmed);
}

/* xsave's size is the processor's business: in reach it may be, out of reach it is not. */
static void xsave_is_only_named_within_reach(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x0f, 0xae, 0x23)); /* xsave [rbx] */
	s->regs.r[WREG_RBX] = 0x6000;
	assert_int_equal(resolve(s).insn, 0x400ffd);
	assert_false(resolve(s).confirmed);
	s->regs.r[WREG_RBX] = 0x7010;
	assert_int_equal(resolve(s).insn, 0);
}

struct code_region {
	uint64_t start;
	const uint8_t *bytes;
	size_t len;
};

static bool read_region(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct code_region *r = ctx;

	if (addr < r->start || addr - r->start > r->len || r->len - (addr - r->start) < len)
		return false;
	memcpy(buf, r->bytes + (addr - r->start), len);
	return true;
}

/* The last bytes before an unmapped page are still facts. */
static void code_at_the_end_of_a_mapping_is_recorded(void **state)
{
	const uint8_t code[] = { 0x90, 0x89, 0x03, 0x90, 0xc3 };
	struct code_region r = { 0x401ffb, code, sizeof(code) };
	struct memory_view mem = { read_region, &r };
	struct code_fact f;

	code_fact_fill(&f, 0x401ffe, 0x401ffb, &mem);
	assert_int_equal(f.at_len, 2);
	assert_int_equal(f.at[1], 0xc3);
	assert_int_equal(f.before_len, 2);
	assert_int_equal(f.before[0], 0x89);
	code_fact_fill(&f, 0x401ffd, 0x401ffb, &mem); /* inside the mov */
	assert_int_equal(f.before_len, 0);
	code_fact_fill(&f, 0x401ffe, 0, &mem);
	assert_int_equal(f.before_len, 0);
	assert_int_equal(f.at_len, 2);
}

/* Facts come from logs too: whatever they hold, the verdict makes sense. */
static void random_facts_keep_the_verdict_consistent(void **state)
{
	srandom(1);
	for (unsigned int round = 0; round < 200000; round++) {
		struct scene *s = scene();
		struct access_verdict v;

		for (unsigned int i = 0; i < INSN_MAX; i++) {
			s->pc.before[i] = (uint8_t)random();
			s->pc.at[i] = (uint8_t)random();
			s->caller.before[i] = (uint8_t)random();
		}
		s->pc.before_len = (uint8_t)(random() % 20);
		s->caller.before_len = (uint8_t)(random() % 20);
		s->pc.at_len = (uint8_t)(random() % (INSN_MAX + 1));
		for (unsigned int i = 0; i < WREG_COUNT; i++)
			s->regs.r[i] = 0x7000 + (uint64_t)(random() % 64) - 32;
		s->q.has_new = random() % 2;
		s->q.new_value = s->regs.r[random() % WREG_COUNT];
		s->q.size = 1u << random() % 4;
		s->q.armed = (enum access_kind[]){ 0, ACCESS_WRITE, ACCESS_READWRITE }[random() % 3];
		s->q.steps_trap = random() % 2;
		v = resolve(s);
		assert_in_range(v.kind, ACCESS_UNKNOWN, ACCESS_READWRITE);
		assert_int_equal(v.insn != 0, v.len != 0);
		assert_in_range(v.len, 0, INSN_MAX);
		assert_true(!v.confirmed || v.kind || v.origin == ORIGIN_KERNEL);
		assert_true(!v.in_caller || v.insn == s->caller.pc - v.len);
		assert_true(s->q.armed != ACCESS_WRITE || v.kind & ACCESS_WRITE);
		assert_true(!v.has_range || (v.range_len && v.range_addr < s->q.addr + s->q.size &&
					     s->q.addr < v.range_addr + v.range_len));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_executed_access_is_named),
		cmocka_unit_test(a_contradicted_instruction_is_not_blamed),
		cmocka_unit_test(nothing_known_is_unknown),
		cmocka_unit_test(a_direct_call_must_lead_to_rip),
		cmocka_unit_test(a_call_must_have_left_its_return_address),
		cmocka_unit_test(a_part_of_a_return_address_is_compared_as_such),
		cmocka_unit_test(a_call_through_a_register_is_checked_against_it),
		cmocka_unit_test(a_call_before_rip_is_not_blamed_for_what_ret_read),
		cmocka_unit_test(a_ret_must_have_read_rip),
		cmocka_unit_test(a_system_call_is_the_kernels_doing),
		cmocka_unit_test(a_restarted_system_call_is_the_kernels_doing),
		cmocka_unit_test(two_explanations_leave_the_instruction_unknown),
		cmocka_unit_test(overlapping_movs_reads_and_writes),
		cmocka_unit_test(an_unknown_segment_base_is_not_confirmed),
		cmocka_unit_test(xsave_is_only_named_within_reach),
		cmocka_unit_test(code_at_the_end_of_a_mapping_is_recorded),
		cmocka_unit_test(random_facts_keep_the_verdict_consistent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
