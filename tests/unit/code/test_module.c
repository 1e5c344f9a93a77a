/* module: the dynamic linker's own list, and what programs print about themselves, are the oracles. */
#include "tests/unit/loc_victim.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/module_report.h"

static struct module_list read_list(pid_t pid)
{
	struct module_list l = { 0 };
	struct wc_error *err = module_list_read(pid, &l);

	if (err)
		fail_msg("%s", err->text);
	return l;
}

static size_t count_named(const struct module_list *l, const char *part)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += strstr(l->v[i].path, part) != NULL;
	return n;
}

struct linker_check {
	const struct module_list *l;
	size_t n;
};

static int check_linker_entry(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct linker_check *c = ctx;
	const struct module *m = module_find(c->l, info->dlpi_addr + info->dlpi_phdr[0].p_vaddr);

	(void)size;
	assert_non_null(m);
	assert_int_equal(m->bias, info->dlpi_addr);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !ph->p_memsz)
			continue;
		assert_ptr_equal(module_find(c->l, info->dlpi_addr + ph->p_vaddr), m);
		assert_ptr_equal(module_find(c->l, info->dlpi_addr + ph->p_vaddr + ph->p_memsz - 1), m);
	}
	c->n++;
	return 0;
}

static void every_loaded_library_is_listed_once_with_its_bias(void **state)
{
	struct module_list l = read_list(getpid());
	struct linker_check c = { &l, 0 };

	(void)state;
	dl_iterate_phdr(check_linker_entry, &c);
	assert_int_equal(c.n, l.n);
	for (size_t i = 1; i < l.n; i++)
		assert_true(l.v[i - 1].end <= l.v[i].start);
	module_list_deinit(&l);
}

static void the_vdso_is_where_the_kernel_says(void **state)
{
	struct module_list l = read_list(getpid());
	const struct module *m = module_find(&l, getauxval(AT_SYSINFO_EHDR));

	(void)state;
	assert_non_null(m);
	assert_string_equal(m->path, "[vdso]");
	assert_int_equal(m->bias, getauxval(AT_SYSINFO_EHDR));
	assert_true(m->build_id_len > 0);
	module_list_deinit(&l);
}

static void a_library_mapped_as_data_is_no_module(void **state)
{
	struct module_list l;
	Dl_info self;
	void *copy;
	int fd;

	(void)state;
	assert_true(dladdr((void *)cmocka_set_message_output, &self));
	fd = open(self.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	copy = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_true(copy != MAP_FAILED);
	l = read_list(getpid());
	assert_null(module_find(&l, (uint64_t)(uintptr_t)copy));
	module_list_deinit(&l);
	munmap(copy, 1 << 16);
}

static void a_mapped_data_file_is_no_module(void **state)
{
	struct module_list l;
	char text[] = P_tmpdir "/loc-data-XXXXXX";
	int data = mkstemp(text);
	void *p;

	(void)state;
	assert_int_equal(ftruncate(data, 8192), 0);
	p = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, data, 0);
	assert_true(p != MAP_FAILED);
	l = read_list(getpid());
	assert_null(module_find(&l, (uint64_t)(uintptr_t)p));
	module_list_deinit(&l);
	munmap(p, 8192);
	close(data);
	unlink(text);
}

static void a_library_loaded_twice_is_two_modules(void **state)
{
	char path[64];
	void *a, *b;
	struct module_list l;
	struct link_map *map_a, *map_b;

	(void)state;
	victim_build("gcc -g -shared -fPIC -o @/libloc.so tests/victims/loc_lib.c");
	snprintf(path, sizeof(path), "%s/libloc.so", victim_dir);
	a = dlopen(path, RTLD_NOW);
	b = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(dlinfo(a, RTLD_DI_LINKMAP, &map_a) | dlinfo(b, RTLD_DI_LINKMAP, &map_b), 0);
	l = read_list(getpid());
	assert_int_equal(count_named(&l, "/libloc.so"), 2);
	assert_int_equal(module_find(&l, (uint64_t)(uintptr_t)dlsym(a, "lib_state"))->bias, map_a->l_addr);
	assert_int_equal(module_find(&l, (uint64_t)(uintptr_t)dlsym(b, "lib_state"))->bias, map_b->l_addr);
	module_list_deinit(&l);
	dlclose(b);
	dlclose(a);
}

/* node does that with its own file. What lies behind the piece is somebody else's. */
static void a_piece_of_a_library_mapped_once_more_is_a_module_of_that_size(void **state)
{
	const uint64_t size = 3 * 4096;
	struct module_report r = { .build_id_len = 0, .realtime_ns = UINT64_MAX };
	struct module_list l = read_list(getpid());
	const struct module *libc = module_by_name(&l, "libc.so.6"), *piece;
	struct module told;
	bool found;
	char *room, *at;
	int fd;

	(void)state;
	assert_non_null(libc);
	fd = open(libc->open_path, O_RDONLY | O_CLOEXEC);
	room = mmap(NULL, 64 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r.path = libc->path;
	r.offset = 0x60000; /* in the middle of its code */
	at = mmap(room + size, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, (off_t)r.offset);
	assert_true(fd >= 0 && room != MAP_FAILED && at == room + size);
	r.start = (uint64_t)(uintptr_t)at;
	r.end = r.start + size;
	assert_true(module_from_report(getpid(), -1, &r, &told, &found));
	assert_true(found);
	module_list_deinit(&l);
	l = read_list(getpid());
	piece = module_find(&l, r.start);
	assert_non_null(piece);
	assert_int_equal(piece->start, r.start);
	assert_int_equal(piece->end, r.end);
	assert_int_equal(told.start, r.start);
	assert_int_equal(told.end, r.end);
	assert_int_equal(told.bias, piece->bias);
	assert_null(module_find(&l, r.end));
	module_deinit(&told);
	module_list_deinit(&l);
	munmap(room, 64 * size);
	close(fd);
}

/* st_value of @name in the file at @path, as libelf reads it. */
static uint64_t symbol_value(const char *path, const char *name)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t value = 0;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr sh;
		GElf_Sym sym;

		gelf_getshdr(scn, &sh);
		for (size_t i = 0; sh.sh_type == SHT_SYMTAB && i < sh.sh_size / sh.sh_entsize; i++) {
			gelf_getsym(elf_getdata(scn, NULL), (int)i, &sym);
			if (strcmp(elf_strptr(elf, sh.sh_link, sym.st_name), name) == 0)
				value = sym.st_value;
		}
	}
	elf_end(elf);
	close(fd);
	return value;
}

/* The program at @name: everything it shows lies in its module, at the bias that its symbols imply. */
static void check_place(const char *command)
{
	struct module_list l;
	struct victim v;
	char path[64];

	victim_build(command);
	victim_start(&v, "place");
	snprintf(path, sizeof(path), "%s/place", victim_dir);
	l = read_list(v.pid);
	for (size_t i = 0; i < v.n; i++) {
		const struct module *m = module_find(&l, v.shown[i].addr);

		assert_non_null(m);
		assert_string_equal(m->path, path);
		assert_string_equal(m->open_path, path);
		assert_false(m->deleted);
	}
	assert_int_equal(victim_shown(&v, "in_data")->addr - symbol_value(path, "in_data"),
			 module_by_name(&l, "place")->bias);
	module_list_deinit(&l);
	victim_stop(&v);
}

static void bias_of_a_pie(void **state)
{
	(void)state;
	check_place("gcc -pie -fPIE -o @/place tests/victims/loc_place.c");
}

static void bias_of_a_program_at_a_fixed_address(void **state)
{
	(void)state;
	check_place("gcc -no-pie -fno-pie -o @/place tests/victims/loc_place.c");
}

static void bias_of_a_static_program(void **state)
{
	(void)state;
	check_place("gcc -static -o @/place tests/victims/loc_place.c");
}

static void bias_of_a_static_pie(void **state)
{
	(void)state;
	check_place("gcc -static-pie -fPIE -o @/place tests/victims/loc_place.c");
}

static void bias_of_a_musl_program(void **state)
{
	(void)state;
	check_place("musl-gcc -o @/place tests/victims/loc_place.c");
}

static void bias_where_segments_share_file_pages(void **state)
{
	(void)state;
	check_place("gcc -Wl,-z,noseparate-code -Wl,-z,norelro -o @/place tests/victims/loc_place.c");
}

static void bias_where_file_offsets_and_addresses_differ(void **state)
{
	(void)state;
	check_place("gcc -no-pie -Wl,-Ttext-segment=0x10000000 -Wl,-z,max-page-size=0x200000 -o @/place "
		    "tests/victims/loc_place.c");
}

/* Reads the build id with another program than ours. */
static void read_build_id(const char *path, char *ret, size_t len)
{
	char command[256];
	FILE *f;

	snprintf(command, sizeof(command), "readelf -n %s | sed -n 's/.*Build ID: //p'", path);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(ret, (int)len, f));
	ret[strcspn(ret, "\n")] = '\0';
	pclose(f);
}

static void build_id_text(const struct module *m, char *ret, size_t len)
{
	ret[0] = '\0';
	for (size_t i = 0; i < m->build_id_len && 2 * i + 2 < len; i++)
		snprintf(ret + 2 * i, 3, "%02x", m->build_id[i]);
}

static void a_program_replaced_on_disk_keeps_its_own_build_id(void **state)
{
	char path[64], want[80], got[80], open_id[80];
	const struct module *m;
	struct module_list l;
	struct victim v;

	(void)state;
	victim_build("gcc -Wl,--build-id=sha1 -o @/place tests/victims/loc_place.c");
	victim_build("gcc -O2 -Wl,--build-id=sha1 -o @/place2 tests/victims/loc_place.c");
	snprintf(path, sizeof(path), "%s/place", victim_dir);
	read_build_id(path, want, sizeof(want));
	victim_start(&v, "place");
	assert_true(victim_sh("mv @/place2 @/place"));
	l = read_list(v.pid);
	m = module_by_name(&l, path);
	assert_non_null(m);
	assert_true(m->deleted);
	assert_string_equal(m->path, path);
	build_id_text(m, got, sizeof(got));
	assert_string_equal(got, want);
	/* What can still be opened is the old file, through /proc. */
	read_build_id(m->open_path, open_id, sizeof(open_id));
	assert_string_equal(open_id, want);
	module_list_deinit(&l);
	victim_stop(&v);
}

static void a_file_named_deleted_is_not_deleted(void **state)
{
	const struct module *m;
	struct module_list l;
	struct victim v;

	(void)state;
	victim_build("gcc -o '@/place (deleted)' tests/victims/loc_place.c");
	victim_start(&v, "place (deleted)");
	l = read_list(v.pid);
	m = module_find(&l, victim_shown(&v, "main")->addr);
	assert_non_null(m);
	assert_false(m->deleted);
	assert_non_null(strstr(m->path, "/place (deleted)"));
	module_list_deinit(&l);
	victim_stop(&v);
}

static void a_process_that_ended_is_a_target_error(void **state)
{
	struct module_list l = { 0 };
	struct wc_error *err;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	err = module_list_read(pid, &l);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	wc_error_free(err);
	assert_int_equal(l.n, 0);
}

/*
 * The kernel gives the map in pieces, and none of those that are left once the process has begun to end: what
 * had been read by then must not be taken for all there is.
 */
static void a_process_that_ends_meanwhile_has_all_its_modules_or_none(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (int round = 0; round < 300; round++) {
		int go[2], ready[2];
		struct module_list l;
		size_t all, n;
		pid_t child;
		char c;

		assert_int_equal(pipe2(go, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
		child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			char *many = mmap(NULL, 400 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			for (int i = 0; i < 400; i += 2)
				mprotect(many + i * page, page, PROT_NONE);
			if (write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1)
				_exit(0);
			_exit(1);
		}
		assert_int_equal(read(ready[0], &c, 1), 1);
		l = read_list(child);
		all = l.n;
		module_list_deinit(&l);
		assert_int_equal(write(go[1], "", 1), 1);
		do {
			l = read_list(child);
			n = l.n;
			module_list_deinit(&l);
			if (n != all && n != 0)
				fail_msg("round %d: %zu modules of %zu", round, n, all);
		} while (n);
		assert_int_equal(waitpid(child, NULL, 0), child);
		close(go[0]);
		close(go[1]);
		close(ready[0]);
		close(ready[1]);
	}
}

static void a_kernel_thread_has_no_modules(void **state)
{
	char comm[32] = "";
	struct module_list l;
	FILE *f = fopen("/proc/2/comm", "r");

	(void)state;
	if (!f || !fgets(comm, sizeof(comm), f) || strcmp(comm, "kthreadd\n") != 0) {
		print_message("skipped: process 2 is no kernel thread here\n");
		if (f)
			fclose(f);
		skip();
	}
	fclose(f);
	l = read_list(2);
	assert_int_equal(l.n, 0);
	module_list_deinit(&l);
}

static void another_users_process_is_a_permission_error(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (getuid() != 0) {
		print_message("skipped: only root can become another user\n");
		skip();
	}
	pid = fork();
	if (pid == 0) {
		struct module_list l = { 0 };
		struct wc_error *err;

		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(99);
		err = module_list_read(getppid(), &l);
		_exit(err ? (int)err->kind : 0);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), WC_EPERM);
}

static void modules_answer_to_the_names_that_people_use(void **state)
{
	static const struct {
		const char *path, *name;
		bool answers;
	} cases[] = {
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6", true },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc", true },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so", true },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6", true },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "x86_64-linux-gnu/libc.so.6", true },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "lib", false },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so.5", false },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "", false },
		{ "/usr/lib/libcrypto.so.3", "libc", false },
		{ "/usr/lib/libfoo-2.31.so", "libfoo", true },
		{ "/usr/bin/python3.11", "python3.11", true },
		{ "/usr/bin/python3.11", "python3", true },
		{ "/usr/bin/python3.11", "bin/python3.11", true },
		{ "/usr/bin/python3.11", "n/python3.11", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct module m = { .path = (char *)cases[i].path };
		struct module_list l = { &m, 1, 1 };

		assert_ptr_equal(module_by_name(&l, cases[i].name), cases[i].answers ? &m : NULL);
	}
}

static void an_exact_name_beats_a_name_up_to_a_version(void **state)
{
	struct module v[] = { { .path = (char *)"/a/foo.1" }, { .path = (char *)"/b/foo" } };
	struct module_list l = { v, 2, 2 };

	(void)state;
	assert_ptr_equal(module_by_name(&l, "foo"), &v[1]);
}

static void the_end_of_a_module_is_outside(void **state)
{
	struct module v[] = { { .start = 0x1000, .end = 0x2000 }, { .start = 0x3000, .end = 0x4000 } };
	struct module_list l = { v, 2, 2 };

	(void)state;
	assert_null(module_find(&l, 0xfff));
	assert_ptr_equal(module_find(&l, 0x1000), &v[0]);
	assert_ptr_equal(module_find(&l, 0x1fff), &v[0]);
	assert_null(module_find(&l, 0x2000));
	assert_ptr_equal(module_find(&l, 0x3fff), &v[1]);
	assert_null(module_find(&l, 0x4000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_loaded_library_is_listed_once_with_its_bias),
		cmocka_unit_test(the_vdso_is_where_the_kernel_says),
		cmocka_unit_test(a_library_mapped_as_data_is_no_module),
		cmocka_unit_test(a_mapped_data_file_is_no_module),
		cmocka_unit_test(a_library_loaded_twice_is_two_modules),
		cmocka_unit_test(a_piece_of_a_library_mapped_once_more_is_a_module_of_that_size),
		cmocka_unit_test(bias_of_a_pie),
		cmocka_unit_test(bias_of_a_program_at_a_fixed_address),
		cmocka_unit_test(bias_of_a_static_program),
		cmocka_unit_test(bias_of_a_static_pie),
		cmocka_unit_test(bias_of_a_musl_program),
		cmocka_unit_test(bias_where_segments_share_file_pages),
		cmocka_unit_test(bias_where_file_offsets_and_addresses_differ),
		cmocka_unit_test(a_program_replaced_on_disk_keeps_its_own_build_id),
		cmocka_unit_test(a_file_named_deleted_is_not_deleted),
		cmocka_unit_test(a_process_that_ended_is_a_target_error),
		cmocka_unit_test(a_process_that_ends_meanwhile_has_all_its_modules_or_none),
		cmocka_unit_test(a_kernel_thread_has_no_modules),
		cmocka_unit_test(another_users_process_is_a_permission_error),
		cmocka_unit_test(modules_answer_to_the_names_that_people_use),
		cmocka_unit_test(an_exact_name_beats_a_name_up_to_a_version),
		cmocka_unit_test(the_end_of_a_module_is_outside),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
