/*
 * Executing a form: the arena is filled, the breakpoint armed, the form entered, its traps collected.
 *
 * While the breakpoint is armed nothing but the form touches the arena: the signal handler runs on a stack of
 * its own and reads the watched bytes through the kernel, which has another mapping of them.
 */
#include "tests/truth/truth.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/uio.h>
#include <unistd.h>

/* What most forms can reach; the others are FORM_WIDE. */
#define NEAR_BEGIN (ARENA_HOME - 0x1000)
#define NEAR_END (ARENA_HOME + 0x2000)

extern const uint8_t *const truth_functions[];
extern const uint64_t truth_function_count;

void (*truth_on_hit)(const siginfo_t *info, const ucontext_t *uc);

static uint64_t gs_base, fs_base;
static struct truth_run *current; /* where hits go; NULL: nothing is running */
static struct truth_watch armed;
static sigjmp_buf escape;
static char features[8192];
static uint8_t pattern[ARENA_SIZE];
static uint8_t x87_image32[128], x87_image16[128], fxsave_image[512] __attribute__((aligned(16)));

static bool read_quietly(uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len }, remote = { (void *)(uintptr_t)addr, len };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static void keep_registers(const ucontext_t *uc, struct regs *ret)
{
	static const int from[WREG_FS_BASE] = {
		[WREG_RAX] = REG_RAX, [WREG_RDX] = REG_RDX,   [WREG_RCX] = REG_RCX, [WREG_RBX] = REG_RBX,
		[WREG_RSI] = REG_RSI, [WREG_RDI] = REG_RDI,   [WREG_RBP] = REG_RBP, [WREG_RSP] = REG_RSP,
		[WREG_R8] = REG_R8,   [WREG_R9] = REG_R9,     [WREG_R10] = REG_R10, [WREG_R11] = REG_R11,
		[WREG_R12] = REG_R12, [WREG_R13] = REG_R13,   [WREG_R14] = REG_R14, [WREG_R15] = REG_R15,
		[WREG_RIP] = REG_RIP, [WREG_RFLAGS] = REG_EFL
	};

	for (unsigned int i = 0; i < WREG_FS_BASE; i++)
		ret->r[i] = (uint64_t)uc->uc_mcontext.gregs[from[i]];
	ret->r[WREG_FS_BASE] = fs_base;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	struct truth_hit *h;

	if (!current)
		return;
	if (current->nhits < HITS_MAX) {
		h = &current->hit[current->nhits];
		keep_registers(context, &h->regs);
		h->addr = (uint64_t)(uintptr_t)info->si_addr;
		h->value = h->stack_word = 0;
		read_quietly(armed.addr, &h->value, armed.size);
		read_quietly(h->regs.r[WREG_RSP], &h->stack_word, 8);
	}
	current->nhits++;
	if (truth_on_hit)
		truth_on_hit(info, context);
}

static void on_fault(int sig)
{
	if (!current)
		_exit(99);
	current->signal = sig;
	siglongjmp(escape, 1);
}

static int arm(const struct truth_watch *w)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.bp_type = w->type == ACCESS_WRITE ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW,
		.bp_addr = w->addr,
		.bp_len = w->size,
		.remove_on_exec = 1,
		.sigtrap = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	armed = *w;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The state that forms find: every vector register holds numbers of its own, all of them ordinary. */
static void fill_vectors(void)
{
	/* component, where it lies in the standard format (0: leaf 0Dh tells), bytes: Intel SDM vol. 1, 13.4
	 */
	const struct {
		unsigned int component, at, len;
	} part[] = { { 1, 160, 256 }, { 2, 0, 256 }, { 6, 0, 512 }, { 7, 0, 1024 } };
	unsigned int low, high, at, b, c, d;
	uint64_t enabled, number = 0;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	enabled = (uint64_t)high << 32 | low;
	__asm__ volatile("xsave64 %0" : "+m"(truth_xstate) : "a"(-1), "d"(-1));
	for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
		uint64_t bit = 1ull << part[i].component;

		if (!(enabled & bit))
			continue;
		at = part[i].at;
		if (!at)
			__cpuid_count(0xd, part[i].component, b, at, c, d);
		for (unsigned int k = 0; k < part[i].len; k += 8) {
			double value = 1.0 + (double)++number / 64;

			memcpy(truth_xstate + at + k, &value, 8);
		}
		*(uint64_t *)(truth_xstate + 512) |= bit;
	}
}

static void take_images(void)
{
	__asm__ volatile("fninit\nfld1\nfldpi\nfnsave %0\nfninit" : "=m"(x87_image32));
	__asm__ volatile("fninit\nfld1\nfldpi\ndata16 fnsave %0\nfninit" : "=m"(x87_image16));
	__asm__ volatile("fxsave %0" : "=m"(fxsave_image));
}

static bool read_features(void)
{
	static char line[16384];
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "flags", 5) != 0)
			continue;
		snprintf(features, sizeof(features), " %.8000s ", strchr(line, ':') + 2);
		features[strcspn(features, "\n")] = ' ';
		break;
	}
	if (f)
		fclose(f);
	return features[0];
}

static bool install_handlers(void)
{
	static uint8_t stack[1 << 17];
	const stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (sigaction(faults[i], &fault, NULL))
			return false;
	return !sigaltstack(&ss, NULL) && !sigaction(SIGTRAP, &trap, NULL);
}

/* A hypervisor may hide the flag of an instruction that the processor carries out all the same. */
static void add_hidden_features(void)
{
	static const struct {
		const char *name;
		uint8_t len, code[5];
	} probe[] = {
		{ "movdiri", 4, { 0x0f, 0x38, 0xf9, 0x07 } },	      /* [rdi], eax */
		{ "movdir64b", 5, { 0x66, 0x0f, 0x38, 0xf8, 0x3f } }, /* rdi, [rdi] */
	};

	for (size_t i = 0; i < sizeof(probe) / sizeof(*probe); i++)
		if (truth_try(probe[i].code, probe[i].len) != SIGILL) {
			strcat(features, probe[i].name);
			strcat(features, " ");
		}
}

bool truth_setup(const char **why)
{
	static char text[160];
	struct truth_watch w = { (uint64_t)(uintptr_t)truth_arena, 8, ACCESS_WRITE };
	int fd;

	*why = text;
	if (mmap(truth_arena, ARENA_SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != truth_arena) {
		snprintf(text, sizeof(text), "no memory at %p: %s", (void *)truth_arena, strerror(errno));
		return false;
	}
	fd = arm(&w);
	if (fd < 0) {
		snprintf(text, sizeof(text), "perf_event_open: %s", strerror(errno));
		return false;
	}
	close(fd);
	if (!read_features() || !install_handlers()) {
		snprintf(text, sizeof(text), "no /proc/cpuinfo, or no signals");
		return false;
	}
	/* Two places a multiple of 0x800 apart hold the same: strings that compare equal. No byte is 0. */
	for (unsigned int i = 0; i < ARENA_SIZE; i++)
		pattern[i] = (uint8_t)((i % 0x800 * 2654435761u >> 13) % 127 + 1);
	gs_base = (uint64_t)(uintptr_t)truth_arena - 0x800;
	syscall(SYS_arch_prctl, ARCH_SET_GS, gs_base);
	syscall(SYS_arch_prctl, ARCH_GET_FS, &fs_base);
	fill_vectors();
	take_images();
	add_hidden_features();
	return true;
}

bool truth_supported(const struct truth_form *f)
{
	const char *at = f->feature;
	char word[64];
	int n;

	while (sscanf(at, "%40s%n", word + 1, &n) == 1) {
		word[0] = ' ';
		strcat(word, " ");
		if (!strstr(features, word))
			return false;
		at += n;
	}
	return true;
}

static void put(uint64_t at, const void *from, size_t len)
{
	memcpy((void *)(uintptr_t)at, from, len);
}

void truth_fill(const struct truth_form *f, uint64_t a, const struct truth_access *flip)
{
	unsigned int begin = f->flags & FORM_WIDE ? 0 : NEAR_BEGIN,
		     end = f->flags & FORM_WIDE ? ARENA_SIZE : NEAR_END;
	static const uint8_t zero[64];

	memcpy(truth_arena + begin, pattern + begin, end - begin);
	if (f->flags & FORM_X87_ENV32)
		put(a, x87_image32, 108);
	if (f->flags & FORM_X87_ENV16)
		put(a, x87_image16, 94);
	if (f->flags & FORM_FXSAVE_IMAGE)
		put(a, fxsave_image, sizeof(fxsave_image));
	if (f->flags & FORM_XSAVE_AREA)
		put(a + 512, zero, 64);
	if (f->flags & FORM_XSAVE_IMAGE)
		put(a, truth_xstate, 4096);
	if (f->blob)
		put(a + (uint64_t)(int64_t)f->blob_off, f->blob, f->blob_len);
	for (unsigned int i = 0; flip && i < flip->len; i++) {
		uint8_t *byte = (uint8_t *)(uintptr_t)(a + (uint64_t)(int64_t)flip->off + i);

		*byte = (uint8_t)(*byte % 127 + 1 == *byte ? 1 : *byte % 127 + 1);
	}
}

static void set_registers(uint64_t a)
{
	for (unsigned int i = 0; i < 15; i++)
		truth_in[i] = 0x0101010101010101ull * (i + 0x21);
	truth_in[6] = a; /* rdi */
}

static uint64_t watched_value(const struct truth_watch *w)
{
	uint64_t v = 0;

	if (w)
		memcpy(&v, (const void *)(uintptr_t)w->addr, w->size);
	return v;
}

bool truth_execute(const struct truth_form *f, uint64_t a, const struct truth_watch *w,
		   const struct truth_access *flip, struct truth_run *ret)
{
	volatile int fd = -1;

	ret->nhits = 0;
	ret->signal = 0;
	truth_fill(f, a, flip);
	if (f->flags & FORM_ABSENT)
		madvise((void *)(uintptr_t)((a + ARENA_ABSENT) & ~4095ull), 4096, MADV_DONTNEED);
	ret->before = watched_value(w);
	set_registers(a);
	/* Some forms load gs. */
	__asm__ volatile("wrgsbase %0" : : "r"(gs_base));
	if (w) {
		fd = arm(w);
		if (fd < 0)
			return false;
	}
	current = ret;
	if (!sigsetjmp(escape, 1))
		truth_invoke(f->fn);
	current = NULL;
	if (fd >= 0)
		close(fd);
	ret->after = watched_value(w);
	return true;
}

int truth_try(const uint8_t *code, size_t len)
{
	struct truth_form f = { .key = "", .group = "" };
	static struct truth_run run;
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return SIGKILL;
	memcpy(page, code, len);
	page[len] = 0xc3;
	f.fn = page;
	truth_execute(&f, (uint64_t)(uintptr_t)truth_arena + ARENA_HOME, NULL, NULL, &run);
	munmap(page, 4096);
	return run.signal;
}

uint64_t truth_function(uint64_t pc)
{
	size_t low = 0, high = truth_function_count;

	if (pc >= (uintptr_t)truth_invoke && pc <= (uintptr_t)truth_back + 16)
		return (uintptr_t)truth_invoke;
	if (pc < (uintptr_t)truth_forms_begin || pc >= (uintptr_t)truth_forms_end)
		return 0;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if ((uintptr_t)truth_functions[middle] <= pc)
			low = middle;
		else
			high = middle;
	}
	return (uintptr_t)truth_functions[low];
}

static bool own_code(void *ctx, uint64_t addr, void *buf, size_t len)
{
	if (addr < (uintptr_t)truth_forms_begin || addr + len > (uintptr_t)truth_forms_end + 4096)
		return false;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

void truth_facts(const struct truth_hit *h, struct code_fact *pc, struct code_fact *caller)
{
	const struct memory_view code = { own_code, NULL };
	uint64_t rip = h->regs.r[WREG_RIP];
	/* The landing places stand before the forms, and move rsp no more than a leaf function does. */
	bool landed = rip >= (uintptr_t)truth_forms_begin && rip < (uintptr_t)truth_forms[0].fn;
	uint64_t back = landed ? h->stack_word : (uintptr_t)truth_back;

	code_fact_fill(pc, rip, truth_function(rip - 1), &code);
	code_fact_fill(caller, back, truth_function(back - 1), &code);
}
