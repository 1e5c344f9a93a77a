/*
 * What code proves of its own frame, by what follows, is what its unwind tables say: at every instruction of
 * libraries and programs that nobody here wrote.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <gelf.h>
#include <gnu/libc-version.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/code/insn/insn.h"
#include "watchctl/code/unwind/cfi_frame.h"
#include "watchctl/code/unwind/cfi_table.h"

struct tally {
	unsigned long asked, proved, unequal;
};

/*
 * Two rules that count from different registers cannot be compared without a stack; only what counts from the
 * same one is. Callers' other registers are compared where both say where they are: past its pop, a register
 * is "unchanged" for one and on the stack still for the other.
 */
static void compare(const struct unwind_rule *ours, const struct unwind_rule *theirs, uint64_t vaddr,
		    struct tally *t)
{
	bool same = ours->cfa_off == theirs->cfa_off &&
		    ours->save[UNWIND_SAVE_RA] == theirs->save[UNWIND_SAVE_RA] &&
		    ours->save[UNWIND_SAVE_RBP] == theirs->save[UNWIND_SAVE_RBP];

	if (theirs->kind != UNWIND_CFA_REG || ours->cfa_reg != theirs->cfa_reg)
		return;
	t->proved++;
	if (!same && t->unequal++ < 10)
		print_message("  %#lx: CFA %d%+d, rbp %d; the table: %d%+d, rbp %d\n", (unsigned long)vaddr,
			      ours->cfa_reg, ours->cfa_off, ours->save[UNWIND_SAVE_RBP], theirs->cfa_reg,
			      theirs->cfa_off, theirs->save[UNWIND_SAVE_RBP]);
}

static bool is_nop(const uint8_t *code, const struct insn *i)
{
	size_t at = 0;

	while (at + 1 < i->len && (code[at] == 0x66 || code[at] == 0x2e))
		at++;
	return code[at] == 0x90 || (at + 1 < i->len && code[at] == 0x0f && code[at + 1] == 0x1f);
}

/* glibc 2.36's assembly (__mpn_mul_1) pushes without a word about it: its tables are no oracle. */
static bool table_misses_push(struct cfi_table *table, uint64_t vaddr, const uint8_t *code,
			      const struct insn *i)
{
	struct unwind_rule before, after;

	return (code[0] & 0xf8) == 0x50 && cfi_table_rule(table, vaddr, &before) &&
	       cfi_table_rule(table, vaddr + i->len, &after) && before.cfa_reg == WREG_RSP &&
	       after.cfa_reg == WREG_RSP && before.cfa_off == after.cfa_off;
}

/* Padding that nothing leads to is left out: of it the tables say whatever was true before it. */
static void compare_function(Elf *elf, struct cfi_table *table, const struct eh_function *f, struct tally *t)
{
	size_t len;
	const uint8_t *code = cfi_file_bytes(elf, f->start, &len);
	bool padding = false;
	struct insn i;

	for (uint64_t at = 0; code && at < f->end - f->start && insn_decode(code + at, len - at, at, &i);
	     at += i.len) {
		struct unwind_rule ours, theirs;

		padding = padding && is_nop(code + at, &i);
		if (table_misses_push(table, f->start + at, code + at, &i))
			return;
		t->asked++;
		if (!padding && cfi_frame_rule_ahead(code + at, len - at, &ours) &&
		    cfi_table_rule(table, f->start + at, &theirs))
			compare(&ours, &theirs, f->start + at, t);
		padding |= i.is_ret || (i.is_jmp && !i.is_cond);
	}
}

static void compare_file(const char *path, unsigned int every, struct tally *all)
{
	struct eh_function f = { 0 };
	struct cfi_table table = { 0 };
	struct tally t = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);

	assert_non_null(elf);
	assert_true(cfi_table_open_eh(&table, elf));
	for (unsigned int n = 0; cfi_table_next(&table, &f); n++)
		if (n % every == 0)
			compare_function(elf, &table, &f, &t);
	print_message("%s: %lu instructions, %lu proved, %lu unequal\n", path, t.asked, t.proved, t.unequal);
	all->asked += t.asked;
	all->proved += t.proved;
	all->unequal += t.unequal;
	cfi_table_deinit(&table);
	elf_end(elf);
	close(fd);
}

static const char *path_of(const void *code)
{
	Dl_info info;

	assert_int_not_equal(dladdr(code, &info), 0);
	return info.dli_fname;
}

static void what_code_proves_is_what_its_tables_say(void **state)
{
	struct tally all = { 0 };

	elf_version(EV_CURRENT);
	compare_file(path_of((const void *)gnu_get_libc_version), 1, &all); /* no sanitizer takes its place */
	compare_file("/usr/bin/gdb", 40, &all);
	compare_file("/usr/bin/python3", 20, &all);
	assert_int_equal(all.unequal, 0);
	assert_true(all.proved > 10000);
}

/* As V8's builtins are compiled: the frame is left in one of two ways, far ahead or behind a loop. */
static void a_frame_that_is_left_ahead_is_known(void **state)
{
	static const uint8_t leave[] = { 0x48, 0x8b, 0x45, 0x08, 0x74, 0x02, 0xeb, 0xf8, 0xc9, 0xc3 };
	static const uint8_t pops[] = { 0x41, 0x8f, 0x45, 0x10, 0x48, 0x83, 0xc4,
					0x08, 0x5b, 0x5b, 0x41, 0x5c, 0x5d, 0xc3 };
	static const uint8_t none[][6] = {
		{ 0x90, 0xcc, 0xc9, 0xc3 },	  /* behind a call that does not return */
		{ 0x48, 0x89, 0xfd, 0xc9, 0xc3 }, /* rbp is something else */
		{ 0x58, 0xc3 },			  /* it returns, with rbp as it is or not */
		{ 0x53, 0x5d, 0x5b, 0xc3 },	  /* another function's beginning */
	};
	struct unwind_rule rule;

	assert_true(cfi_frame_rule_ahead(leave, sizeof(leave), &rule));
	assert_int_equal(rule.cfa_reg, WREG_RBP);
	assert_int_equal(rule.cfa_off, 16);
	assert_int_equal(rule.save[UNWIND_SAVE_RBP], -2);
	assert_true(cfi_frame_rule_ahead(pops, sizeof(pops), &rule));
	assert_int_equal(rule.cfa_reg, WREG_RSP);
	assert_int_equal(rule.cfa_off, 56);
	assert_int_equal(rule.save[UNWIND_SAVE_RBP], -2);
	assert_int_equal(rule.save[UNWIND_SAVE_R12], -3);
	assert_int_equal(rule.save[UNWIND_SAVE_RBX], -4);
	assert_int_equal(rule.save[UNWIND_SAVE_RA], -1);
	for (unsigned int i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_false(cfi_frame_rule_ahead(none[i], sizeof(none[i]), &rule));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_code_proves_is_what_its_tables_say),
		cmocka_unit_test(a_frame_that_is_left_ahead_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
