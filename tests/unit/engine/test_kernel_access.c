/* Symbols against /proc/kallsyms read line by line; instructions against the Intel SDM, vol. 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/engine/intake/kernel_access.h"
#include "watchctl/engine/perf/kernel_symbols.h"

static char line[512];

/* Some line of the file that names code, with an address; false: addresses are hidden here. */
static bool some_symbol(unsigned int number, unsigned long long *addr, char *name)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	bool found = false;
	char type;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%llx %c %255s", addr, &type, name) == 3 && *addr &&
			strchr("tT", type) && !strncmp(name, "__x64_sys_", 10) && !number--;
	if (f)
		fclose(f);
	return found;
}

/* Whether the file gives @addr that name too; several may stand for one place. */
static bool is_named(unsigned long long addr, const char *name)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	unsigned long long at;
	bool found = false;
	char type, one[256];

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%llx %c %255s", &at, &type, one) == 3 && at == addr &&
			!strcmp(one, name);
	if (f)
		fclose(f);
	return found;
}

static void a_function_is_found_from_its_first_byte_on(void **state)
{
	struct kernel_symbols *s = kernel_symbols_new();
	unsigned long long addr;
	uint64_t start;
	char name[256];
	unsigned int i;

	(void)state;
	for (i = 0; i < 20 && some_symbol(9 * i, &addr, name); i++) {
		assert_true(is_named(addr, kernel_symbols_find(s, addr, &start)));
		assert_int_equal(start, addr);
		assert_true(is_named(addr, kernel_symbols_find(s, addr + 3, &start)));
		assert_int_equal(start, addr);
	}
	if (!i)
		print_message("skipped: the kernel hides its addresses from this user\n");
	kernel_symbols_free(s);
}

static void below_the_first_function_there_is_none(void **state)
{
	struct kernel_symbols *s = kernel_symbols_new();

	(void)state;
	assert_null(kernel_symbols_find(s, 0x1000, NULL));
	kernel_symbols_free(s);
}

/* A function of the kernel, its code replaced by @code: what a patched kernel would show. */
struct patched {
	uint64_t start;
	const uint8_t *code;
	size_t len;
};

static bool read_patched(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct patched *p = ctx;
	uint64_t at = addr - p->start;

	if (at > p->len || len > p->len - at)
		return false;
	memcpy(buf, p->code + at, len);
	return true;
}

struct record {
	struct wire_record r;
	uint64_t frame;
	struct wire_kernel kernel;
};

static const struct watchpoint reads = {
	.addr = 0x7000, .size = 4, .want_addr = 0x7000, .want_size = 4, .access = ACCESS_READWRITE
};
static const struct watchpoint writes = {
	.addr = 0x7000, .size = 4, .want_addr = 0x7000, .want_size = 4, .access = ACCESS_WRITE
};

static struct record a_record(uint64_t rip)
{
	struct record rec = { .r = { .flags = WIRE_KERNEL, .nframes = 1, .syscall = 0 },
			      .kernel.nframes = 1 };

	rec.kernel.regs.r[WREG_RIP] = rec.kernel.frame[0] = rip;
	rec.kernel.regs.r[WREG_RCX] = 0x7000;
	return rec;
}

static struct access_event an_event(uint64_t old_value, uint64_t new_value)
{
	return (struct access_event){ .in_kernel = true,
				      .addr = 0x7000,
				      .size = 4,
				      .has_old = true,
				      .has_new = true,
				      .old_value = old_value,
				      .new_value = new_value };
}

static uint8_t kind_after(const uint8_t *code, size_t len, size_t trap, const struct watchpoint *w,
			  uint64_t old_value, uint64_t new_value)
{
	unsigned long long start;
	char name[256];
	struct patched p = { .code = code, .len = len };
	struct access_event a = an_event(old_value, new_value);
	struct kernel_access *k;
	struct access_verdict v;
	struct record rec;

	if (!some_symbol(5, &start, name))
		skip();
	p.start = start;
	rec = a_record(start + trap);
	k = kernel_access_new((struct memory_view){ read_patched, &p });
	kernel_access_fill(k, w, &rec.r, &a, &v);
	assert_string_equal(a.kernel_function, name);
	kernel_access_free(k);
	return a.kernel_kind;
}

static void the_kernels_own_instruction_distinguishes_reads_from_writes(void **state)
{
	static const uint8_t put[] = {
		0x0f, 0x01, 0xcb, 0x89, 0x01, 0x31, 0xc9, 0x0f, 0x01, 0xca
	};								     /* mov [rcx], eax */
	static const uint8_t get[] = { 0x0f, 0x01, 0xcb, 0x8b, 0x01, 0x90 }; /* mov eax, [rcx] */
	static const uint8_t add[] = { 0xf0, 0x0f, 0xc1, 0x01, 0x90 };	     /* lock xadd */

	(void)state;
	assert_int_equal(kind_after(put, sizeof(put), 5, &reads, 1, 1), ACCESS_WRITE);
	assert_int_equal(kind_after(get, sizeof(get), 5, &reads, 1, 1), ACCESS_READ);
	assert_int_equal(kind_after(add, sizeof(add), 4, &reads, 1, 2), ACCESS_READWRITE);
}

static void what_cannot_be_read_is_a_write_only_where_something_proves_it(void **state)
{
	struct access_verdict v;
	struct record rec = a_record(0xffffffff81000123);
	struct access_event same = an_event(5, 5), changed = an_event(5, 6), written = an_event(5, 5);

	(void)state;
	kernel_access_fill(NULL, &reads, &rec.r, &same, &v);
	assert_int_equal(same.kernel_kind, ACCESS_UNKNOWN);
	kernel_access_fill(NULL, &reads, &rec.r, &changed, &v);
	assert_int_equal(changed.kernel_kind, ACCESS_WRITE);
	kernel_access_fill(NULL, &writes, &rec.r, &written, &v);
	assert_int_equal(written.kernel_kind, ACCESS_WRITE);
	assert_null(written.kernel_function);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_is_found_from_its_first_byte_on),
		cmocka_unit_test(below_the_first_function_there_is_none),
		cmocka_unit_test(the_kernels_own_instruction_distinguishes_reads_from_writes),
		cmocka_unit_test(what_cannot_be_read_is_a_write_only_where_something_proves_it),
	};

	return cmocka_run_group_tests_name("kernel_access", tests, NULL, NULL);
}
