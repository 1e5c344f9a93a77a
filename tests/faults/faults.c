/*
 * faults - preloaded into watchctl (and no other program): notes by which ways it asks the kernel and the
 * allocator for something, and makes one of these calls fail. FAULTS_STATE names the file it shares with the
 * driver.
 */
#include "tests/faults/faults.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
#define FAULT(name, error, result) CALL_##name,
#define FAULT_AFTER(name, error, result) CALL_##name,
#include "tests/faults/faults_list.h"
#undef FAULT
#undef FAULT_AFTER
	CALLS
};

static const struct call {
	const char *name;
	long result;
	int error;
	bool after;
} call[CALLS] = {
#define FAULT(name, error, result) [CALL_##name] = { #name, result, error, false },
#define FAULT_AFTER(name, error, result) [CALL_##name] = { #name, result, error, true },
#include "tests/faults/faults_list.h"
};

static void *real[CALLS];
static struct faults *shared;	      /* NULL: not our program, or not begun */
static uintptr_t code_from, code_end; /* of our program */
static uintptr_t base;
static uint32_t program_bit;
static __thread bool inside;
/* dlsym() may allocate before its allocator is known. */
static char early[16384] __attribute__((aligned(16)));
static size_t early_used;

void *fault_decide(long n, uintptr_t from, const unsigned long *arg);
long fault_result(long n);

static void *early_alloc(const unsigned long *arg)
{
	size_t len = (arg[0] + 15) & ~15ul;

	if (early_used + len > sizeof(early))
		_exit(99);
	early_used += len;
	return early + early_used - len;
}

static void *early_malloc(size_t len)
{
	unsigned long arg[] = { len };

	return early_alloc(arg);
}

static void *early_calloc(size_t n, size_t len)
{
	return early_malloc(n * len);
}

static void *real_function(long n)
{
	static __thread bool asking;

	if (!real[n] && asking)
		return n == CALL_malloc	  ? (void *)early_malloc
		       : n == CALL_calloc ? (void *)early_calloc
					  : NULL;
	if (!real[n]) {
		asking = true;
		real[n] = dlsym(RTLD_NEXT, call[n].name);
		asking = false;
	}
	return real[n];
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x9e3779b97f4a7c15u ^ (h >> 29);
}

/* The callers of a call from @from that are code of our program, innermost first. */
static void callers(uintptr_t from, uint64_t *ret)
{
	void *pc[64];
	int n = backtrace(pc, 64), used = 0;
	bool seen = false;

	for (int i = 0; i < n && used < FAULTS_DEPTH; i++) {
		uintptr_t at = (uintptr_t)pc[i];

		seen |= at == from;
		if (seen && at >= code_from && at < code_end)
			ret[used++] = at - base;
	}
	if (!used)
		ret[0] = from - base;
}

static struct fault_site *site_of(const struct fault_site *s)
{
	for (size_t i = 0; i < FAULTS_SITES; i++) {
		struct fault_site *at = &shared->site[(s->key + i) % FAULTS_SITES];
		uint64_t none = 0;

		if (__atomic_compare_exchange_n(&at->key, &none, s->key, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE)) {
			at->function = s->function;
			at->asked = s->asked;
			memcpy(at->from, s->from, sizeof(at->from));
			return at;
		}
		if (none == s->key)
			return at;
	}
	__atomic_add_fetch(&shared->overflow, 1, __ATOMIC_RELAXED);
	return NULL;
}

static bool is_chosen(long n, uintptr_t from, const unsigned long *arg)
{
	struct fault_site s = { .function = (uint32_t)n | program_bit }, *site;
	uint64_t count;

	if (n == CALL_syscall || n == CALL_ptrace || n == CALL_ioctl)
		s.asked = (uint32_t)arg[n == CALL_ioctl];
	callers(from, s.from);
	s.key = mix(mix(1, s.function), s.asked);
	for (uint64_t i = 0; i < shared->depth; i++)
		s.key = mix(s.key, s.from[i]);
	s.key += !s.key;
	site = site_of(&s);
	if (!site)
		return false;
	count = __atomic_add_fetch(&site->count, 1, __ATOMIC_ACQ_REL);
	if (s.key != shared->key || count != shared->nth)
		return false;
	__atomic_store_n(&shared->fired, 1, __ATOMIC_RELEASE);
	return true;
}

/* What is to be called; NULL: it has failed. */
void *fault_decide(long n, uintptr_t from, const unsigned long *arg)
{
	int error = errno;
	bool fails;

	if (!shared || inside || from < code_from || from >= code_end)
		return real_function(n);
	inside = true;
	fails = is_chosen(n, from, arg);
	inside = false;
	errno = error;
	if (!fails)
		return real_function(n);
	if (call[n].after)
		((long (*)(unsigned long))real_function(n))(arg[0]);
	return NULL;
}

long fault_result(long n)
{
	errno = call[n].error;
	return call[n].result;
}

static int find_program(struct dl_phdr_info *info, size_t size, void *data)
{
	base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
			code_from = base + p->p_vaddr;
			code_end = code_from + p->p_memsz;
		}
	}
	return 1; /* the first one is the program */
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTS_STATE"), *name;
	char exe[4096];
	void *warm[4], *at;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	long fd;

	exe[len > 0 ? len : 0] = '\0';
	name = strrchr(exe, '/');
	if (!path || !name || strncmp(name + 1, "watchctl", strlen("watchctl")) != 0)
		return;
	program_bit = strcmp(name + 1, "watchctl") ? FAULT_OTHER_PROGRAM : 0;
	dl_iterate_phdr(find_program, NULL);
	backtrace(warm, 4); /* loads what it needs */
	fd = open(path, O_RDWR | O_CLOEXEC);
	at = fd < 0 ? MAP_FAILED
		    : mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (at == MAP_FAILED)
		_exit(99);
	close((int)fd);
	shared = at;
}
