/*
 * Two oracles. Rows written by hand in assembly, whose rule follows from the directives. And libgcc's
 * unwinder: a trap after every instruction of real code (prologues, PLT, libc, the vdso, signal handlers)
 * compares the walks.
 */
#include <dlfcn.h>
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
#include <unwind.h>

#include <cmocka.h>

#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/unwind/cfi.h"

#define DEPTH 128

/* clang-format off */
#define FUNCTION(name, directives) \
	".globl " #name ", " #name "_end\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n" directives \
	"nop\nnop\n.cfi_endproc\n" #name "_end:\nint3\n"

#define PLAIN(name, code) \
	".globl " #name "\n.type " #name ", @function\n" #name ":\n" code "int3\n"

__asm__(".text\n.balign 16\n"
	FUNCTION(row_leaf, "")
	FUNCTION(row_frame, ".cfi_def_cfa rbp, 16\n.cfi_offset rbp, -16\n.cfi_offset rbx, -24\n.cfi_offset r15, -32\n")
	/* CFA = *(rbp - 8); rbp at rbp + 0, rbx at rbp - 16 */
	FUNCTION(row_realigned, ".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n.cfi_escape 0x10, 6, 2, 0x76, 0\n"
		 ".cfi_escape 0x10, 3, 2, 0x76, 0x70\n")
	/* CFA = *(rsp + 152) + 8 */
	FUNCTION(row_indexed, ".cfi_escape 0x0f, 10, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 8\n")
	FUNCTION(row_saved_rsp, ".cfi_escape 0x0f, 6, 0x77, 0x98, 0x01, 0x06, 0x23, 0x08\n")
	/* CFA = rsp + 8 + ((rip & 15) >= 9) * 8 */
	FUNCTION(row_plt, ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x39, 0x2a, 0x33, 0x24, 0x22\n")
	/* CFA = rsp + 32; rbx at rsp + 0 */
	FUNCTION(row_rsp_relative, ".cfi_def_cfa rsp, 32\n.cfi_escape 0x10, 3, 2, 0x77, 0\n")
	FUNCTION(row_outermost, ".cfi_undefined rip\n")
	/* What no unwind_rule can say: rbx = rsp + 8; the return address in rcx; rsp = rbx; CFA = rsp + rbx ... */
	FUNCTION(row_computed_rbx, ".cfi_escape 0x16, 3, 2, 0x77, 8\n")
	FUNCTION(row_ra_in_rcx, ".cfi_register rip, rcx\n")
	FUNCTION(row_other_stack, ".cfi_escape 0x16, 7, 2, 0x73, 0\n")
	FUNCTION(row_sum, ".cfi_escape 0x0f, 5, 0x77, 0, 0x73, 0, 0x22\n")
	FUNCTION(row_unaligned, ".cfi_escape 0x10, 3, 2, 0x77, 4\n")
	FUNCTION(row_odd_signal_frame, ".cfi_signal_frame\n")
	/* rt_sigreturn, as musl has it, and as a compiler writes it */
	".balign 16\nint3\n" ".globl restorer\nrestorer:\nmov $15, %rax\nsyscall\nint3\n"
	".balign 16\nint3\n" ".globl short_restorer\nshort_restorer:\nmov $15, %eax\nsyscall\nint3\n"
	".balign 16\n.globl no_cfi\nno_cfi:\nnop\nret\n.balign 16\n"
	/* No CFI either: musl's memset in the small, one that pushes, one that uses rbx, one that calls. */
	PLAIN(leaf_string, "test %rdx, %rdx\nje 2f\nmov %rdi, %rax\nmov %rdx, %rcx\njrcxz 1f\nrep stosb\n1: ret\n2: jmp 1b\n")
	PLAIN(leaf_pushes, "push %rsi\npop %rax\nret\n")
	PLAIN(leaf_keeps_not_rbx, "mov %rdi, %rbx\nret\n")
	PLAIN(leaf_calls, "call leaf_string\nret\n")
	/* What a linker makes of a call in a static program. The same bytes elsewhere may be anything's end. */
	".section .plt.test,\"ax\",@progbits\n.globl plt_stub\nplt_stub: endbr64\njmp *plt_stub(%rip)\nnop\nnop\n.text\n"
	".globl no_stub\nno_stub: jmp *plt_stub(%rip)\nint3\n"
	/* Frame pointers: set up late, behind a jump; on one of two ways only; given up in between. */
	PLAIN(frame_late, "test %edi, %edi\njne 1f\nret\n1: push %rbp\nmov %rsp, %rbp\npush %rbx\nmov %edi, %ebx\n"
	      "call leaf_string\nlea -8(%rbp), %rsp\npop %rbx\npop %rbp\nret\n")
	PLAIN(frame_maybe, "push %rbp\ntest %edi, %edi\njne 1f\nmov %rsp, %rbp\n1: call leaf_string\npop %rbp\nret\n")
	PLAIN(frame_given_up, "push %rbp\nmov %rsp, %rbp\nmov %rdi, %rbp\ncall leaf_string\npop %rbp\nret\n")
	/*
	 * realigned() with rbp kept on the stack: at the two last instructions of such a function gcc's table
	 * gives a wrong rbp, which would lead any unwinder astray, libgcc's into a crash.
	 */
	".globl call_realigned\n.type call_realigned, @function\ncall_realigned:\n.cfi_startproc\npush %rbp\n"
	".cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\ncall realigned\npop %rbp\n.cfi_def_cfa_offset 8\nret\n"
	".cfi_endproc\n"
	/* The trap flag, on and off. */
	".globl step_on\n.type step_on, @function\nstep_on:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\n"
	"orq $0x100, (%rsp)\npopfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
	".globl step_off\n.type step_off, @function\nstep_off:\n.cfi_startproc\npushfq\n.cfi_adjust_cfa_offset 8\n"
	"andq $~0x100, (%rsp)\npopfq\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n");
/* clang-format on */

extern const char row_leaf[], row_frame[], row_realigned[], row_indexed[], row_saved_rsp[], row_plt[],
	row_rsp_relative[], row_outermost[], row_computed_rbx[], row_ra_in_rcx[], row_other_stack[],
	row_sum[], row_unaligned[], row_odd_signal_frame[], restorer[], short_restorer[], no_cfi[],
	row_frame_end[], leaf_string[], leaf_pushes[], leaf_keeps_not_rbx[], leaf_calls[], frame_late[],
	frame_maybe[], plt_stub[], no_stub[], frame_given_up[];
int call_realigned(int n);
int realigned(int n);
void step_on(void);
void step_off(void);

static struct cfi *cfi;
static struct module_list modules;

static bool own_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len };
	struct iovec remote = { (void *)(uintptr_t)addr, len };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static const struct memory_view own_memory = { own_read, NULL };

static int add_own_modules(void **state)
{
	struct wc_error *err = module_list_read(getpid(), &modules);

	cfi = cfi_new();
	if (err || !cfi)
		return -1;
	for (size_t i = 0; i < modules.n; i++)
		if (!cfi_add(cfi, &modules.v[i]))
			return -1;
	return 0;
}

static int drop_own_modules(void **state)
{
	cfi_free(cfi);
	module_list_deinit(&modules);
	return 0;
}

static struct unwind_rule rule_at(const char *code)
{
	struct unwind_rule rule;

	cfi_rule(cfi, (uintptr_t)code, &rule);
	return rule;
}

static void assert_rule(const char *code, struct unwind_rule expected)
{
	struct unwind_rule rule = rule_at(code);

	assert_memory_equal(&rule, &expected, sizeof(rule));
}

#define SAME UNWIND_SAME
#define SAVES(...) .save = { __VA_ARGS__ }

static void common_rows_become_rules(void **state)
{
	assert_rule(row_leaf, (struct unwind_rule){ .kind = UNWIND_CFA_REG,
						    .cfa_reg = WREG_RSP,
						    .cfa_off = 8,
						    SAVES(SAME, SAME, SAME, SAME, SAME, SAME, -1) });
	assert_rule(row_frame, (struct unwind_rule){ .kind = UNWIND_CFA_REG,
						     .cfa_reg = WREG_RBP,
						     .cfa_off = 16,
						     SAVES(-3, -2, SAME, SAME, SAME, -4, -1) });
}

static void expressions_of_compilers_become_rules(void **state)
{
	assert_rule(row_realigned,
		    (struct unwind_rule){ .kind = UNWIND_CFA_DEREF,
					  .cfa_reg = WREG_RBP,
					  .cfa_off = -8,
					  .from_rbp = 1 << UNWIND_SAVE_RBX | 1 << UNWIND_SAVE_RBP,
					  SAVES(-2, 0, SAME, SAME, SAME, SAME, -1) });
	assert_rule(row_indexed, (struct unwind_rule){ .kind = UNWIND_CFA_DEREF,
						       .cfa_reg = WREG_RSP,
						       .cfa_off = 8,
						       .cfa_off2 = 8,
						       .cfa_index = WREG_R9 + 1,
						       SAVES(SAME, SAME, SAME, SAME, SAME, SAME, -1) });
	assert_rule(row_saved_rsp, (struct unwind_rule){ .kind = UNWIND_CFA_DEREF,
							 .cfa_reg = WREG_RSP,
							 .cfa_off = 152,
							 .cfa_off2 = 8,
							 SAVES(SAME, SAME, SAME, SAME, SAME, SAME, -1) });
	assert_rule(row_plt, (struct unwind_rule){ .kind = UNWIND_PLT,
						   .cfa_off = 8,
						   .cfa_off2 = 9,
						   SAVES(SAME, SAME, SAME, SAME, SAME, SAME, -1) });
	assert_rule(row_rsp_relative, (struct unwind_rule){ .kind = UNWIND_CFA_REG,
							    .cfa_reg = WREG_RSP,
							    .cfa_off = 32,
							    SAVES(-4, SAME, SAME, SAME, SAME, SAME, -1) });
	assert_int_equal(rule_at(row_outermost).kind, UNWIND_OUTERMOST);
}

static void what_a_rule_cannot_say_is_no_rule(void **state)
{
	assert_int_equal(rule_at(row_computed_rbx).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(row_ra_in_rcx).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(row_other_stack).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(row_sum).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(row_unaligned).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(row_odd_signal_frame).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(no_cfi).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at((const char *)0x10).kind, UNWIND_NO_RULE);
}

static void a_function_that_never_moves_its_stack_needs_no_cfi(void **state)
{
	const char *const inside[] = { leaf_string, leaf_string + 3, leaf_string + 5, leaf_string + 8 };

	for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++)
		assert_rule(inside[i], rule_at(row_leaf));
	assert_int_equal(rule_at(leaf_string + 4).kind, UNWIND_NO_RULE); /* not an instruction */
	assert_int_equal(rule_at(leaf_pushes + 1).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(leaf_keeps_not_rbx + 3).kind, UNWIND_NO_RULE);
}

static void a_function_that_sets_up_a_frame_pointer_needs_no_cfi(void **state)
{
	const struct unwind_rule pushed = { .kind = UNWIND_CFA_REG,
					    .cfa_reg = WREG_RSP,
					    .cfa_off = 16,
					    SAVES(SAME, -2, SAME, SAME, SAME, SAME, -1) };
	const struct unwind_rule framed = { .kind = UNWIND_CFA_REG,
					    .cfa_reg = WREG_RBP,
					    .cfa_off = 16,
					    SAVES(SAME, -2, SAME, SAME, SAME, SAME, -1) };

	assert_rule(leaf_calls, rule_at(row_leaf));
	assert_rule(leaf_calls + 4, rule_at(row_leaf)); /* its return address, minus one */
	assert_int_equal(rule_at(leaf_calls + 3).kind, UNWIND_NO_RULE);
	assert_rule(frame_late, rule_at(row_leaf));
	assert_rule(frame_late + 5, rule_at(row_leaf));
	assert_rule(frame_late + 6, pushed);
	assert_rule(frame_late + 9, framed);
	assert_rule(frame_late + 12 + 4, framed);
	assert_rule(frame_late + 12 + 9, framed);
	assert_int_equal(rule_at(frame_late + 12 + 11).kind, UNWIND_NO_RULE); /* rbp is the caller's again */
	assert_rule(frame_maybe + 1, pushed);
	assert_rule(frame_maybe + 8 + 4, pushed); /* by what follows: rbp is popped, whatever it is now */
	assert_rule(frame_given_up + 4, framed);
	assert_rule(frame_given_up + 7 + 4, pushed);
}

static void a_stub_of_a_static_program_needs_no_cfi(void **state)
{
	assert_rule(plt_stub, rule_at(row_leaf));
	assert_rule(plt_stub + 4, rule_at(row_leaf));
	assert_int_equal(rule_at(plt_stub + 10).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_at(no_stub).kind, UNWIND_NO_RULE);
}

/* Where a process begins nothing called it: as the dynamic loader's own first instructions, which have no
 * CFI. */
static void the_first_code_of_a_process_is_outermost(void **state)
{
	const uint64_t base = getauxval(AT_BASE);
	const struct module *loader = module_find(&modules, base);
	uint64_t entry, start, end;

	if (!loader) {
		print_message("skipped: this test is linked statically\n");
		skip();
	}
	memcpy(&entry, (const char *)(uintptr_t)base + 24, sizeof(entry)); /* e_entry */
	if (cfi_function(cfi, base + entry, &start, &end)) {
		print_message("skipped: this loader has CFI for its first instructions\n");
		skip();
	}
	assert_int_equal(rule_at((const char *)(uintptr_t)(base + entry)).kind, UNWIND_OUTERMOST);
	/* mov rdi, rsp; call _dl_start: asked for as a return address minus one. */
	assert_int_equal(rule_at((const char *)(uintptr_t)(base + entry + 3 + 4)).kind, UNWIND_OUTERMOST);
}

static void code_without_a_file_is_walked_by_frame_pointers(void **state)
{
	const struct module jit = {
		.start = 0x10000, .end = 0x12000, .path = (char *)MODULE_JIT, .open_path = (char *)MODULE_JIT
	};

	assert_true(cfi_add(cfi, &jit));
	assert_rule((const char *)0x11000,
		    (struct unwind_rule){ .kind = UNWIND_FP, SAVES(SAME, -2, SAME, SAME, SAME, SAME, -1) });
	cfi_remove(cfi, jit.start, jit.end);
	assert_int_equal(rule_at((const char *)0x11000).kind, UNWIND_NO_RULE);
}

/* Anonymous memory, a file in memory, and two mappings that touch, of which one runs; not memory for data. */
static void made_code_is_found_in_the_maps(void **state)
{
	const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	struct module_list now = { 0 };
	const struct module *m;
	int fd = memfd_create("made", 0);
	char *p = mmap(NULL, 0x10000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + 0x1000, 0x2000, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(mprotect(p + 0x4000, 0x1000, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(mprotect(p + 0x5000, 0x1000, all), 0);
	assert_int_equal(ftruncate(fd, 0x1000), 0);
	q = mmap(NULL, 0x1000, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	/* Gaps at both ends: what touches it would be one with it. */
	assert_int_equal(munmap(p, 0x1000), 0);
	assert_int_equal(munmap(p + 0xf000, 0x1000), 0);
	assert_null(module_list_read(getpid(), &now));
	assert_null(module_find(&now, (uintptr_t)p + 0x1000));
	assert_null(module_list_add_jit(getpid(), &now));
	m = module_find(&now, (uintptr_t)p + 0x1000);
	assert_non_null(m);
	assert_true(module_is_jit(m));
	assert_int_equal(m->start, (uintptr_t)p + 0x1000);
	assert_int_equal(m->end, (uintptr_t)p + 0x6000);
	assert_int_equal(m->build_id_len, 0);
	m = module_find(&now, (uintptr_t)q);
	assert_non_null(m);
	assert_true(module_is_jit(m));
	m = module_find(&now, (uintptr_t)row_leaf);
	assert_false(module_is_jit(m));
	for (size_t i = 1; i < now.n; i++)
		assert_true(now.v[i - 1].start < now.v[i].start);
	module_list_deinit(&now);
	munmap(p, 0x10000);
	munmap(q, 0x1000);
	close(fd);
}

/* Without any CFI, and also when asked as a handler's return address minus one. */
static void a_signal_restorer_is_known_by_its_code(void **state)
{
	const uint64_t full = (uintptr_t)restorer, brief = (uintptr_t)short_restorer;
	const uint64_t in[] = { full - 1, full, full + 7, brief - 1, brief, brief + 5 };
	struct unwind_rule rule;

	for (size_t i = 0; i < sizeof(in) / sizeof(*in); i++) {
		cfi_rule(cfi, in[i], &rule);
		assert_int_equal(rule.kind, UNWIND_SIGFRAME);
	}
	assert_int_equal(rule_at(restorer + 9).kind, UNWIND_NO_RULE);
}

static void a_function_is_its_fde(void **state)
{
	uint64_t start, end;

	assert_true(cfi_function(cfi, (uintptr_t)row_frame + 1, &start, &end));
	assert_int_equal(start, (uintptr_t)row_frame);
	assert_int_equal(end, (uintptr_t)row_frame_end);
	assert_false(cfi_function(cfi, (uintptr_t)row_frame_end, &start, &end));
	assert_false(cfi_function(cfi, (uintptr_t)no_cfi, &start, &end));
	assert_false(cfi_function(cfi, 0x10, &start, &end));
	assert_true(cfi_function(cfi, (uintptr_t)dlsym(RTLD_DEFAULT, "qsort") + 4, &start, &end));
	assert_int_equal(start, (uintptr_t)dlsym(RTLD_DEFAULT, "qsort"));
}

/* A rule remembered for an address must not outlive the module, nor hide one that comes. */
static void rules_follow_the_modules(void **state)
{
	const struct module *m = module_find(&modules, (uintptr_t)row_leaf);

	assert_int_equal(rule_at(row_leaf).kind, UNWIND_CFA_REG);
	cfi_remove(cfi, m->start, m->end);
	assert_int_equal(rule_at(row_leaf).kind, UNWIND_NO_RULE);
	assert_true(cfi_add(cfi, m));
	assert_int_equal(rule_at(row_leaf).kind, UNWIND_CFA_REG);
	assert_true(cfi_add(cfi, m));
	assert_int_equal(rule_at(row_leaf).kind, UNWIND_CFA_REG);
}

static char *build_without_eh_frame(char *dir)
{
	static char path[64];
	char command[256];

	if (!mkdtemp(dir))
		return NULL;
	snprintf(path, sizeof(path), "%s/debug_frame.so", dir);
	snprintf(command, sizeof(command),
		 "echo 'int answer(int n) { volatile char a[64]; a[0] = n; return a[0]; }' |"
		 "cc -shared -fPIC -g -O0 -fno-asynchronous-unwind-tables -fno-unwind-tables -o %s -x c - "
		 "2>&1",
		 path);
	return system(command) == 0 ? path : NULL;
}

/* The two tables say the same of the same code: push rbp; mov rbp, rsp. */
static void debug_frame_serves_where_eh_frame_is_missing(void **state)
{
	char dir[] = "/tmp/test_cfi.XXXXXX";
	char *path = build_without_eh_frame(dir);
	struct module_list now = { 0 };
	const struct module *m;
	const char *answer;
	uint64_t start, end;
	void *lib;

	if (!path) {
		print_message("skipped: no C compiler (cc) makes a library without .eh_frame here\n");
		skip();
	}
	lib = dlopen(path, RTLD_NOW);
	assert_non_null(lib);
	answer = dlsym(lib, "answer");
	assert_null(module_list_read(getpid(), &now));
	m = module_find(&now, (uintptr_t)answer);
	assert_non_null(m);
	assert_true(cfi_add(cfi, m));
	assert_rule(answer, (struct unwind_rule){ .kind = UNWIND_CFA_REG,
						  .cfa_reg = WREG_RSP,
						  .cfa_off = 8,
						  SAVES(SAME, SAME, SAME, SAME, SAME, SAME, -1) });
	assert_rule(answer + 4, (struct unwind_rule){ .kind = UNWIND_CFA_REG,
						      .cfa_reg = WREG_RBP,
						      .cfa_off = 16,
						      SAVES(SAME, -2, SAME, SAME, SAME, SAME, -1) });
	assert_true(cfi_function(cfi, (uintptr_t)answer + 4, &start, &end));
	assert_int_equal(start, (uintptr_t)answer);
	cfi_remove(cfi, m->start, m->end);
	module_list_deinit(&now);
	dlclose(lib);
	unlink(path);
	rmdir(dir);
}

/* A stack made by hand above row_leaf and row_frame. */
struct fake_stack {
	uint64_t start;
	uint64_t word[8];
};

static bool read_fake(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct fake_stack *s = ctx;

	if (addr < s->start || addr - s->start > sizeof(s->word) - len || len > sizeof(s->word))
		return false;
	memcpy(buf, (const char *)s->word + (addr - s->start), len);
	return true;
}

static void assert_walk(struct fake_stack *s, uint64_t rbp, unsigned int frames, enum walk_end end)
{
	struct memory_view mem = { read_fake, s };
	struct regs regs = {
		.r = { [WREG_RIP] = (uintptr_t)row_leaf, [WREG_RSP] = s->start, [WREG_RBP] = rbp }
	};
	uint64_t frame[4];
	enum walk_end why;

	assert_int_equal(cfi_walk(cfi, &regs, &mem, frame, 4, &why), frames);
	assert_int_equal(why, end);
	assert_int_equal(frame[0], (uintptr_t)row_leaf);
}

static void every_end_of_a_walk_is_named(void **state)
{
	const uint64_t leaf = (uintptr_t)row_leaf + 1, frame = (uintptr_t)row_frame + 1;

	/* The last return address is 0. */
	assert_walk(&(struct fake_stack){ 0x7000, { leaf, 0 } }, 0, 2, WALK_END_COMPLETE);
	/* Into code that CFI calls outermost. */
	assert_walk(&(struct fake_stack){ 0x7000, { leaf, (uintptr_t)row_outermost + 1 } }, 0, 3,
		    WALK_END_COMPLETE);
	assert_walk(&(struct fake_stack){ 0x7000, { leaf, leaf, leaf, leaf } }, 0, 4, WALK_END_DEPTH);
	assert_walk(&(struct fake_stack){ 0x7000, { leaf, 0x10 } }, 0, 3, WALK_END_NO_RULE);
	assert_walk(&(struct fake_stack){ 0x7000, { frame } }, 0x9000, 2, WALK_END_UNREADABLE);
}

/* A frame that names itself as its caller must end the walk, not spin it. */
static void a_stack_that_does_not_ascend_ends_the_walk(void **state)
{
	const uint64_t frame = (uintptr_t)row_frame + 1;

	/* leaf's return address; then, for ever: saved rbx, saved rbp = itself, return address */
	assert_walk(&(struct fake_stack){ 0x7000, { frame, 0, 0, 0x7018, frame } }, 0x7018, 3,
		    WALK_END_NOT_ASCENDING);
}

struct libgcc_walk {
	uint64_t from;
	bool found;
	uint64_t frame[DEPTH];
	unsigned int n;
};

static _Unwind_Reason_Code add_libgcc_frame(struct _Unwind_Context *c, void *ctx)
{
	struct libgcc_walk *w = ctx;
	int exact;
	uint64_t ip = _Unwind_GetIPInfo(c, &exact);

	/* The frames of the trap handler come first. */
	w->found = w->found || (exact && ip == w->from);
	if (w->found && w->n < DEPTH && ip)
		w->frame[w->n++] = ip;
	return _URC_NO_REASON;
}

static struct {
	unsigned long steps, unequal, signal_frames, longest;
	uint64_t where[8]; /* of the first that were unequal */
} stepped;

static void from_ucontext(const ucontext_t *uc, struct regs *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned int i = 0; i < 17; i++)
		memcpy(&ret->r[ucontext_order[i]], &uc->uc_mcontext.gregs[i], 8);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	struct libgcc_walk theirs = { .n = 0 };
	uint64_t ours[DEPTH];
	enum walk_end why;
	struct regs regs;
	unsigned int n;

	from_ucontext(context, &regs);
	theirs.from = regs.r[WREG_RIP];
	n = cfi_walk(cfi, &regs, &own_memory, ours, DEPTH, &why);
	_Unwind_Backtrace(add_libgcc_frame, &theirs);
	stepped.steps++;
	if (n > stepped.longest)
		stepped.longest = n;
	if (n == theirs.n && memcmp(ours, theirs.frame, n * 8) == 0 && why == WALK_END_COMPLETE)
		return;
	if (stepped.unequal < 8)
		stepped.where[stepped.unequal] = regs.r[WREG_RIP];
	stepped.unequal++;
}

static volatile int sink;

static void on_usr1(int sig)
{
	char text[64];

	step_on();
	snprintf(text, sizeof(text), "%d", sig);
	sink += (int)strlen(text);
	stepped.signal_frames++;
	step_off();
}

static ucontext_t outside, coroutine, inside;

static void in_coroutine(void)
{
	getcontext(&inside);
	swapcontext(&coroutine, &outside);
}

/* What makecontext() puts below it is a return address that nothing called: other unwinders go on, into data. */
static void a_coroutine_begins_at_its_bottom(void **state)
{
	static char stack[32768];
	uint64_t frame[DEPTH];
	enum walk_end why;
	struct regs regs;
	unsigned int n;

	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = sizeof(stack);
	coroutine.uc_link = &outside;
	makecontext(&coroutine, in_coroutine, 0);
	swapcontext(&outside, &coroutine);
	from_ucontext(&inside, &regs);
	n = cfi_walk(cfi, &regs, &own_memory, frame, DEPTH, &why);
	assert_int_equal(why, WALK_END_COMPLETE);
	assert_int_equal(n, 2);
	assert_true(frame[0] > (uintptr_t)in_coroutine && frame[0] < (uintptr_t)in_coroutine + 200);
	assert_ptr_equal(module_find(&modules, frame[1]), module_find(&modules, (uintptr_t)getpid));
}

/* With alloca and an aligned local, gcc keeps the CFA in memory: DW_OP_breg6 -8, DW_OP_deref. */
__attribute__((noinline, used)) int realigned(int n)
{
	char *p = __builtin_alloca((size_t)n);
	volatile char aligned[64] __attribute__((aligned(64)));

	memset(p, n, (size_t)n);
	memset((void *)aligned, p[n / 2], sizeof(aligned));
	return aligned[n % 64];
}

static int by_value(const void *a, const void *b)
{
	sink += call_realigned(20);
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) int deep(int n)
{
	struct timespec t;
	char text[64];
	int v[] = { 3, 1, 2 };

	if (n)
		return deep(n - 1) + sink;
	qsort(v, 3, sizeof(*v), by_value);
	snprintf(text, sizeof(text), "%d %s %g", v[0], "text", 2.5);
	clock_gettime(CLOCK_MONOTONIC, &t);
	raise(SIGUSR1);
	return (int)strlen(text) + (int)t.tv_nsec;
}

static void every_instruction_unwinds_as_with_libgcc(void **state)
{
	struct sigaction trap = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	struct sigaction usr1 = { .sa_handler = on_usr1, .sa_flags = SA_ONSTACK };
	static char stack[1 << 17];
	const stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	assert_int_equal(sigaltstack(&ss, NULL), 0);
	assert_int_equal(sigaction(SIGTRAP, &trap, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &usr1, NULL), 0);
	step_on();
	sink += deep(20);
	step_off();
	print_message("%lu instructions, up to %lu frames, %lu unequal\n", stepped.steps, stepped.longest,
		      stepped.unequal);
	for (unsigned int i = 0; i < stepped.unequal && i < 8; i++) {
		const struct module *m = module_find(&modules, stepped.where[i]);

		print_message("unequal at %s+%#lx\n", m ? m->path : "?",
			      stepped.where[i] - (m ? m->bias : 0));
	}
	assert_int_equal(stepped.unequal, 0);
	assert_int_equal(stepped.signal_frames, 1);
	assert_true(stepped.steps > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(common_rows_become_rules),
		cmocka_unit_test(expressions_of_compilers_become_rules),
		cmocka_unit_test(what_a_rule_cannot_say_is_no_rule),
		cmocka_unit_test(a_function_that_never_moves_its_stack_needs_no_cfi),
		cmocka_unit_test(a_function_that_sets_up_a_frame_pointer_needs_no_cfi),
		cmocka_unit_test(a_stub_of_a_static_program_needs_no_cfi),
		cmocka_unit_test(the_first_code_of_a_process_is_outermost),
		cmocka_unit_test(code_without_a_file_is_walked_by_frame_pointers),
		cmocka_unit_test(made_code_is_found_in_the_maps),
		cmocka_unit_test(a_signal_restorer_is_known_by_its_code),
		cmocka_unit_test(a_function_is_its_fde),
		cmocka_unit_test(rules_follow_the_modules),
		cmocka_unit_test(debug_frame_serves_where_eh_frame_is_missing),
		cmocka_unit_test(every_end_of_a_walk_is_named),
		cmocka_unit_test(a_stack_that_does_not_ascend_ends_the_walk),
		cmocka_unit_test(a_coroutine_begins_at_its_bottom),
		cmocka_unit_test(every_instruction_unwinds_as_with_libgcc),
	};

	return cmocka_run_group_tests_name("cfi", tests, add_own_modules, drop_own_modules);
}
