/*
 * The oracle is libdw, for every row of real libraries and programs, of the vdso, and of a library as it is
 * mapped; of .eh_frame, and of .debug_frame.
 */
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/oracle/libdw_fde.c"
#include "tests/oracle/libdw_rule.c"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/unwind/unwind_slice.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/code/unwind/cfi_table.h"
#include "watchctl/code/unwind/eh_frame.h"

/* The segment's bytes in the file that hold @vaddr, from it on. */
static bool file_range(Elf *elf, uint64_t vaddr, uint64_t most, struct eh_range *ret)
{
	size_t n, size;
	const uint8_t *bytes = (const uint8_t *)elf_rawfile(elf, &size);
	GElf_Phdr p;

	if (!bytes || elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD || vaddr < p.p_vaddr ||
		    vaddr >= p.p_vaddr + p.p_filesz)
			continue;
		ret->start = vaddr;
		ret->end = p.p_vaddr + p.p_filesz;
		if (ret->end - ret->start > most)
			ret->end = ret->start + most;
		ret->bytes = bytes + p.p_offset + (vaddr - p.p_vaddr);
		return true;
	}
	return false;
}

static bool image_of(Elf *elf, struct eh_image *ret)
{
	uint64_t frames;
	size_t n;
	GElf_Phdr p;

	*ret = (struct eh_image){ 0 };
	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_GNU_EH_FRAME)
			return file_range(elf, p.p_vaddr, p.p_memsz, &ret->hdr) &&
			       eh_frame_section(&ret->hdr, &frames) &&
			       file_range(elf, frames, UINT64_MAX, &ret->frames);
	return false;
}

static void print_rule(const char *name, const struct unwind_rule *r)
{
	print_message("  %s: kind %d cfa_reg %d off %d off2 %d from_rbp %#x save", name, r->kind, r->cfa_reg,
		      r->cfa_off, r->cfa_off2, r->from_rbp);
	for (int i = 0; i < UNWIND_SAVES; i++)
		print_message(" %d", r->save[i]);
	print_message("\n");
}

struct tally {
	const char *path;
	unsigned long functions, rows, unequal;
	unsigned long kinds[UNWIND_FP + 1];
	unsigned long stepped,
		for_libunwind; /* rows that libunwind took, and those of them that are no rule */
};

static void compare(struct tally *t, const struct eh_image *image, uint64_t pc,
		    const struct unwind_rule *theirs)
{
	struct unwind_rule ours;

	eh_frame_rule(image, pc, &ours);
	if (!memcmp(&ours, theirs, sizeof(ours)))
		return;
	if (t->unequal++ < 10) {
		print_message("unequal at %s+%#lx\n", t->path, pc);
		print_rule("ours", &ours);
		print_rule("libdw", theirs);
	}
}

/* Every word of memory is another. */
static bool read_any(void *ctx, uint64_t addr, void *buf, size_t len)
{
	uint64_t word = addr * 0x9e3779b97f4a7c15u;

	memcpy(buf, &word, len < sizeof(word) ? len : sizeof(word));
	return len == sizeof(word);
}

static bool read_any_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	return read_any(ctx, addr, ret, sizeof(*ret));
}

/* libunwind, with what unwind_program gives it, leads where the rule does. Not all rows are given out. */
static void compare_step(struct tally *t, const struct eh_image *image, uint64_t pc,
			 const struct unwind_rule *theirs)
{
	static const uint8_t kept[] = { WREG_RBX, WREG_RBP, WREG_RSP, WREG_R12,
					WREG_R13, WREG_R14, WREG_R15, WREG_RIP };
	static struct unwind_slice *slice;
	const struct memory_view mem = { read_any, NULL };
	struct unwind_program program;
	struct regs by_rule, by_libunwind;

	if (!unwind_program_at(image, 0, pc, &program))
		return;
	if (theirs->kind == UNWIND_NO_RULE) {
		t->for_libunwind++;
		return;
	}
	if (!slice)
		slice = unwind_slice_new();
	assert_non_null(slice);
	for (unsigned int i = 0; i < WREG_COUNT; i++)
		by_rule.r[i] = 0x7ffd00000000 + (uint64_t)i * 0x10010;
	by_rule.r[WREG_RIP] = pc;
	by_libunwind = by_rule;
	if (unwind_step(theirs, &by_rule, read_any_word, NULL) != UNWIND_STEP_OK ||
	    unwind_slice_step(slice, &program, pc, true, &mem, &by_libunwind) != UNWIND_STEP_OK)
		return;
	t->stepped++;
	for (size_t i = 0; i < sizeof(kept); i++)
		if (by_rule.r[kept[i]] != by_libunwind.r[kept[i]] && t->unequal++ < 10)
			print_message("libunwind steps elsewhere from %s+%#lx: register %u\n", t->path, pc,
				      kept[i]);
}

/* Every row, at its first and its last address. */
static void compare_function(struct tally *t, const struct eh_image *image, Dwarf_CFI *cfi,
			     const struct fde_range *f)
{
	uint64_t start, end;

	assert_true(eh_frame_function(image, f->start, &start, &end));
	if (start != f->start || end != f->end)
		t->unequal++;
	t->functions++;
	for (uint64_t pc = f->start; pc < f->end; pc = end) {
		struct unwind_rule theirs;
		Dwarf_Frame *frame;

		if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0) {
			theirs = (struct unwind_rule){ .kind = UNWIND_NO_RULE };
			end = f->end;
		} else {
			dwarf_frame_info(frame, &start, &end, NULL);
			libdw_rule(frame, &theirs);
			free(frame);
		}
		t->rows++;
		t->kinds[theirs.kind]++;
		compare(t, image, pc, &theirs);
		compare(t, image, end - 1, &theirs);
		compare_step(t, image, end - 1, &theirs);
	}
}

static bool compare_elf(const char *path, Elf *elf)
{
	struct fde_index functions = { 0 };
	struct tally t = { .path = path };
	struct eh_image image;
	Dwarf_CFI *cfi;

	if (!image_of(elf, &image))
		return false;
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	assert_true(fde_index_add(&functions, elf, ".eh_frame", 0));
	fde_index_sort(&functions);
	for (size_t i = 0; i < functions.n; i++)
		compare_function(&t, &image, cfi, &functions.v[i]);
	print_message(
		"%-52s %6lu functions %7lu rows, %lu unequal;  deref %lu plt %lu signal %lu outermost %lu "
		"no rule %lu, %lu of them for libunwind; %lu stepped by it, too\n",
		path, t.functions, t.rows, t.unequal, t.kinds[UNWIND_CFA_DEREF], t.kinds[UNWIND_PLT],
		t.kinds[UNWIND_SIGFRAME], t.kinds[UNWIND_OUTERMOST], t.kinds[UNWIND_NO_RULE], t.for_libunwind,
		t.stepped);
	assert_true(t.rows > 0);
	assert_int_equal(t.unequal, 0);
	assert_true(t.stepped > t.rows / 2);
	fde_index_deinit(&functions);
	dwarf_cfi_end(cfi);
	return true;
}

static bool compare_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool done = false;
	Elf *elf;

	if (fd < 0)
		return false;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (elf)
		done = compare_elf(path, elf);
	elf_end(elf);
	close(fd);
	return done;
}

static void every_row_of_real_programs_is_as_libdw_has_it(void **state)
{
	static const char *const files[] = {
		"/proc/self/exe",
		"/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/x86_64-linux-gnu/libm.so.6",
		"/lib/x86_64-linux-gnu/libgcc_s.so.1",
		"/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/bin/python3",
		"/usr/bin/git",
		"/usr/bin/perl",
		"/usr/bin/gdb",
		"/usr/bin/sqlite3",
		"/usr/bin/openssl",
	};
	/* More files: TEST_EH_FRAME=/path/a:/path/b */
	char *more = getenv("TEST_EH_FRAME") ? strdup(getenv("TEST_EH_FRAME")) : NULL;
	unsigned int compared = 0;
	char *rest;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		if (compare_file(files[i]))
			compared++;
		else
			print_message("%s: not here, or without .eh_frame_hdr\n", files[i]);
	}
	for (char *p = more ? strtok_r(more, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest))
		compare_file(p);
	free(more);
	assert_true(compared >= 3);
}

static void the_vdso_too(void **state)
{
	char *vdso = (char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *head = (const void *)vdso;
	Elf *elf;

	if (!vdso) {
		print_message("skipped: this kernel maps no vdso\n");
		skip();
	}
	elf_version(EV_CURRENT);
	elf = elf_memory(vdso, head->e_shoff + (size_t)head->e_shnum * head->e_shentsize);
	assert_non_null(elf);
	assert_true(compare_elf("[vdso]", elf));
	elf_end(elf);
}

/* As it is mapped, at addresses of this process, and through the door that callers use. */
static void a_mapped_module_gives_the_rules_of_its_file(void **state)
{
	struct module_list modules;
	const struct module *m;
	struct cfi *cfi = cfi_new();
	struct tally t = { .path = "mapped libc" };
	struct eh_image image, mapped;
	uint64_t first;
	void *libc;
	Elf *elf;
	int fd;

	assert_non_null(cfi);
	assert_null(module_list_read(getpid(), &modules));
	m = module_by_name(&modules, "libc");
	assert_non_null(m);
	assert_true(cfi_add(cfi, m));
	fd = open(m->open_path ? m->open_path : m->path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	assert_true(image_of(elf, &image));
	mapped = image;
	mapped.hdr.start += m->bias;
	mapped.hdr.end += m->bias;
	mapped.hdr.bytes = (const uint8_t *)(uintptr_t)mapped.hdr.start;
	mapped.frames.start += m->bias;
	mapped.frames.end += m->bias;
	mapped.frames.bytes = (const uint8_t *)(uintptr_t)mapped.frames.start;
	/* Not by its address here: a sanitizer has a qsort of its own. */
	libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	first = (uintptr_t)(libc ? dlsym(libc, "qsort") : NULL);
	assert_true(first > m->start);
	for (uint64_t pc = first; pc < first + 200000 && pc < m->end; pc += 3) {
		struct unwind_rule theirs, ours;

		cfi_rule(cfi, pc, &theirs);
		eh_frame_rule(&image, pc - m->bias, &ours);
		/* That side also knows a function without CFI that never moves its stack. */
		if (ours.kind != UNWIND_NO_RULE || theirs.kind != UNWIND_CFA_REG)
			compare(&t, &mapped, pc, &theirs);
		t.rows += ours.kind != UNWIND_NO_RULE;
	}
	print_message("%lu addresses with a rule\n", t.rows);
	assert_true(t.rows > 10000);
	assert_int_equal(t.unequal, 0);
	dlclose(libc);
	elf_end(elf);
	close(fd);
	cfi_free(cfi);
	module_list_deinit(&modules);
}

/* Of .debug_frame, which binaries have that were built for debugging alone, through the door that cfi.c uses.
 */
static void compare_debug_frame(const char *path, bool *had_rows)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	struct tally t = { .path = path };
	struct fde_index functions = { 0 };
	struct cfi_table table = { 0 };
	Dwarf_CFI *cfi = dwarf ? dwarf_getcfi(dwarf) : NULL;

	if (cfi && cfi_table_open_debug(&table, dwarf_getelf(dwarf))) {
		assert_true(fde_index_add(&functions, dwarf_getelf(dwarf), ".debug_frame", 0));
		fde_index_sort(&functions);
		for (size_t i = 0; i < functions.n; i++) {
			const struct eh_function *f = cfi_table_function(&table, functions.v[i].start);

			assert_non_null(f);
			assert_int_equal(f->start, functions.v[i].start);
			compare_function(&t, &table.image, cfi, &functions.v[i]);
		}
		print_message("%-52s %6lu functions %7lu rows of .debug_frame, %lu unequal\n", path,
			      t.functions, t.rows, t.unequal);
	}
	*had_rows |= t.rows > 0;
	assert_int_equal(t.unequal, 0);
	fde_index_deinit(&functions);
	cfi_table_deinit(&table);
	dwarf_end(dwarf);
	if (fd >= 0)
		close(fd);
}

/* gcc's code in all shapes of optimization, without .eh_frame, plain and compressed. */
static void every_row_of_debug_frame_is_as_libdw_has_it(void **state)
{
	static const char *const how[] = { "-O0 -fomit-frame-pointer", "-O2 -gdwarf-4",
					   "-O2 -gdwarf-5 -gz=zlib", "-O3 -gdwarf-2 -mavx2 -mstackrealign" };
	char path[] = "/tmp/test_debug_frame.XXXXXX", command[512];
	char *more = getenv("TEST_DEBUG_FRAME") ? strdup(getenv("TEST_DEBUG_FRAME")) : NULL;
	bool had_rows = false;
	char *rest;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
		snprintf(
			command, sizeof(command),
			"cc -shared -fPIC -g %s -I. -D_GNU_SOURCE -fno-asynchronous-unwind-tables "
			"-fno-unwind-tables -o %s watchctl/code/unwind/eh_frame.c watchctl/code/unwind/eh_frame_find.c "
			"watchctl/code/unwind/eh_frame_row.c watchctl/code/unwind/eh_frame_read.c 2>&1",
			how[i], path);
		if (system(command) == 0)
			compare_debug_frame(path, &had_rows);
	}
	/* More files: TEST_DEBUG_FRAME=/path/a:/path/b */
	for (char *p = more ? strtok_r(more, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest))
		compare_debug_frame(p, &had_rows);
	free(more);
	unlink(path);
	if (!had_rows) {
		print_message("skipped: no C compiler (cc) makes .debug_frame here\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapped_module_gives_the_rules_of_its_file),
		cmocka_unit_test(the_vdso_too),
		cmocka_unit_test(every_row_of_real_programs_is_as_libdw_has_it),
		cmocka_unit_test(every_row_of_debug_frame_is_as_libdw_has_it),
	};

	return cmocka_run_group_tests_name("eh_frame, real modules", tests, NULL, NULL);
}
