/*
 * module_report: each mapping of code, told alone and after its process has ended, leads to the module that
 * the list of all mappings has.
 */
#include "tests/unit/loc_victim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/wait.h"
#include "watchctl/code/elf/module_report.h"

#define MAPPINGS 64

struct mapping {
	struct module_report report;
	char path[400];
};

static uint64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the kernel would report @pid's mappings, without build ids. */
static size_t read_mappings(pid_t pid, struct mapping *ret)
{
	char name[64], line[600], perm[5];
	size_t n = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	f = fopen(name, "r");
	assert_non_null(f);
	while (n < MAPPINGS && fgets(line, sizeof(line), f)) {
		struct mapping *m = &ret[n];

		memset(m, 0, sizeof(*m));
		if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %399[^\n]", &m->report.start, &m->report.end, perm,
			   &m->report.offset, m->path) < 5 ||
		    perm[2] != 'x' || (m->path[0] != '/' && strcmp(m->path, "[vdso]") != 0))
			continue;
		m->report.path = m->path;
		m->report.realtime_ns = realtime_ns();
		n++;
	}
	fclose(f);
	return n;
}

/* The mappings of the program built by @command, and its modules, as they were while it ran. */
static size_t record(const char *command, struct mapping *ret, struct module_list *modules)
{
	struct wc_error *err;
	struct victim v;
	size_t n;

	victim_build(command);
	victim_start(&v, "place");
	n = read_mappings(v.pid, ret);
	err = module_list_read(v.pid, modules);
	assert_null(err);
	victim_stop(&v);
	assert_true(n > 0);
	return n;
}

static void check_layout(const char *command)
{
	struct mapping mapping[MAPPINGS];
	struct module_list modules = { 0 };
	size_t n = record(command, mapping, &modules);

	for (size_t i = 0; i < n; i++) {
		const struct module *want = module_find(&modules, mapping[i].report.start);
		struct module got;
		bool found;

		assert_non_null(want);
		assert_true(module_from_report(0, -1, &mapping[i].report, &got, &found));
		assert_true(found);
		assert_true(module_is_same_place(&got, want));
		assert_string_equal(got.path, want->path);
		assert_string_equal(got.open_path, want->open_path);
		assert_int_equal(got.start, want->start);
		assert_int_equal(got.end, want->end);
		assert_int_equal(got.bias, want->bias);
		assert_int_equal(got.build_id_len, want->build_id_len);
		assert_memory_equal(got.build_id, want->build_id, want->build_id_len);
		assert_false(got.deleted);
		module_deinit(&got);
	}
	module_list_deinit(&modules);
}

static void a_mapping_alone_reports_its_module(void **state)
{
	(void)state;
	check_layout("gcc -pie -fPIE -o @/place tests/victims/loc_place.c");
	check_layout("gcc -no-pie -fno-pie -o @/place tests/victims/loc_place.c");
	check_layout("gcc -static-pie -fPIE -o @/place tests/victims/loc_place.c");
	check_layout("gcc -Wl,-z,noseparate-code -Wl,-z,norelro -o @/place tests/victims/loc_place.c");
	check_layout("gcc -no-pie -Wl,-Ttext-segment=0x10000000 -Wl,-z,max-page-size=0x200000 -o @/place "
		     "tests/victims/loc_place.c");
	check_layout("gcc -pie -fPIE -Wl,--build-id=none -o @/place tests/victims/loc_place.c");
}

/* mprotect() splits a mapping, and each part is reported. */
static void a_part_of_a_mapping_reports_the_same_module(void **state)
{
	struct mapping mapping[MAPPINGS];
	struct module_list modules = { 0 };
	size_t n = record("gcc -static-pie -fPIE -o @/place tests/victims/loc_place.c", mapping, &modules);
	struct module_report part = mapping[0].report;
	const struct module *want;
	struct module got;
	bool found;

	(void)state;
	for (size_t i = 0; i < n; i++)
		if (strstr(mapping[i].path, "/place"))
			part = mapping[i].report;
	assert_true(part.end - part.start > 3 * 4096);
	want = module_find(&modules, part.start);
	assert_non_null(want);
	part.start += 4096;
	part.end = part.start + 4096;
	part.offset += 4096;
	assert_true(module_from_report(0, -1, &part, &got, &found));
	assert_true(found);
	assert_int_equal(got.start, want->start);
	assert_int_equal(got.bias, want->bias);
	module_deinit(&got);
	module_list_deinit(&modules);
}

/* The file system's clock is a coarse one. */
static uint64_t file_clock_ns(void)
{
	char path[300];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/clock", victim_dir);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, NULL), 0);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec;
}

/* Until files that are written get a later time than those written before. */
static void wait_for_file_clock(void)
{
	const uint64_t before = file_clock_ns();

	WAIT_UNTIL(file_clock_ns() != before);
}

/* The first mapping of the program built by @command, whose file is then treated by @after. */
static bool is_found(const char *command, const char *after, const char *build_id_of)
{
	struct mapping mapping[MAPPINGS];
	struct module_list modules = { 0 };
	struct module got;
	bool found;

	record(command, mapping, &modules);
	if (build_id_of) {
		memcpy(mapping[0].report.build_id, modules.v[0].build_id, modules.v[0].build_id_len);
		mapping[0].report.build_id_len = modules.v[0].build_id_len;
	}
	wait_for_file_clock();
	assert_true(victim_sh(after));
	assert_true(module_from_report(0, -1, &mapping[0].report, &got, &found));
	if (found)
		module_deinit(&got);
	module_list_deinit(&modules);
	return found;
}

static void a_file_that_was_exchanged_is_not_the_module(void **state)
{
	static const char with_id
		[] = "gcc -Wl,--build-id=sha1 -o @/place tests/victims/loc_place.c",
	 without[] = "gcc -Wl,--build-id=none -o @/place tests/victims/loc_place.c",
	 other[] = "gcc -O2 -Wl,--build-id=sha1 -o @/other tests/victims/loc_place.c && mv @/other @/place",
	 other_without[] =
		 "gcc -O2 -Wl,--build-id=none -o @/other tests/victims/loc_place.c && mv @/other @/place";

	(void)state;
	assert_true(is_found(with_id, "true", "it"));
	assert_true(is_found(with_id, "cp @/place @/copy && mv @/copy @/place", "it")); /* the same, copied */
	assert_false(is_found(with_id, other, "it"));
	assert_false(is_found(with_id, "rm @/place", "it"));
	assert_false(is_found(with_id, "echo no program >@/place", "it"));
	assert_true(is_found(without, "true", NULL));
	assert_false(is_found(without, other_without, NULL));
	assert_false(is_found(without, "cat /bin/true >@/place", NULL));
}

/* A program in a root of its own, which has ended: its root is still open. */
static void a_file_is_found_below_the_root_of_its_process(void **state)
{
	struct mapping mapping[MAPPINGS];
	struct module_list modules = { 0 };
	char outside[200], prefix[32];
	struct module got;
	bool found;
	int root;

	(void)state;
	record("gcc -Wl,--build-id=sha1 -o @/place tests/victims/loc_place.c", mapping, &modules);
	wait_for_file_clock();
	assert_true(victim_sh("mkdir -p @/root/bin && mv @/place @/root/bin/inside"));
	snprintf(outside, sizeof(outside), "%s/root", victim_dir);
	root = open(outside, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);
	snprintf(mapping[0].path, sizeof(mapping[0].path), "/bin/inside");
	assert_true(module_from_report(0, root, &mapping[0].report, &got, &found));
	assert_false(found); /* renamed since it was mapped, and nothing else shows whether it is the same */
	memcpy(mapping[0].report.build_id, modules.v[0].build_id, modules.v[0].build_id_len);
	mapping[0].report.build_id_len = modules.v[0].build_id_len;
	assert_true(module_from_report(0, root, &mapping[0].report, &got, &found));
	assert_true(found);
	assert_string_equal(got.path, "/bin/inside");
	snprintf(prefix, sizeof(prefix), "/proc/self/fd/%d/bin/inside", root);
	assert_string_equal(got.open_path, prefix);
	module_deinit(&got);
	close(root);
	module_list_deinit(&modules);
}

/* Its root is reached through /proc, which may be gone between any two steps. */
static void a_file_is_found_while_its_process_ends(void **state)
{
	struct mapping mapping[MAPPINGS];
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(root >= 0);
	assert_true(read_mappings(getpid(), mapping) > 0);
	for (int i = 0; i < 300; i++) {
		siginfo_t ended = { 0 };
		pid_t pid = fork();

		if (!pid) {
			for (volatile int spin = 0; spin < 1000 * (i % 50); spin++)
				;
			_exit(0);
		}
		while (!ended.si_pid) {
			struct module got;
			bool found;

			assert_true(module_from_report(pid, root, &mapping[0].report, &got, &found));
			assert_true(found);
			module_deinit(&got);
			assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
		}
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	close(root);
}

static void what_is_no_program_is_no_module(void **state)
{
	static const char *const paths[] = { "",  "//anon",   "[heap]", "/memfd:x (deleted)", "/etc/passwd",
					     "/", "/dev/zero" };
	struct module got;
	bool found = true;

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct module_report r = { 0x1000, 0x2000, 0, paths[i], { 0 }, 0, realtime_ns() };

		assert_true(module_from_report(0, -1, &r, &got, &found));
		assert_false(found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapping_alone_reports_its_module),
		cmocka_unit_test(a_part_of_a_mapping_reports_the_same_module),
		cmocka_unit_test(a_file_that_was_exchanged_is_not_the_module),
		cmocka_unit_test(a_file_is_found_while_its_process_ends),
		cmocka_unit_test(a_file_is_found_below_the_root_of_its_process),
		cmocka_unit_test(what_is_no_program_is_no_module),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
