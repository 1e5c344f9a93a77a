/* How names are shown, and where they come from for a process in a container. */
#include "tests/unit/loc_victim.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/symbols/symbolizer.h"

static char *in_dir(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", victim_dir, name);
	return path;
}

/* Symbols as compilers make them, and how people write them. */
static void versions_and_suffixes_are_left_out_and_names_demangled(void **state)
{
	static const struct {
		const char *symbol, *shown;
	} cases[] = {
		{ "plain", "plain" },
		{ "copy.constprop.0", "copy" },
		{ "copy.isra.0.part.3", "copy" },
		{ "unlikely.cold", "unlikely.cold" },
		{ "unlikely.isra.0.cold.1", "unlikely.cold" },
		{ "priv.lto_priv.12", "priv" },
		{ "thin.llvm.1234567890", "thin" },
		{ "dotted.name", "dotted.name" },
		{ "main.work.abi0", "main.work" },
		{ "_ZN2ns3fooEi.isra.0", "ns::foo(int)" },
		{ "_ZN2ns3fooEl.cold", "ns::foo(long) [clone .cold]" },
		{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.77", "core::fmt::Formatter::pad" },
		{ "_RNvCs1234_7mycrate3foo", "mycrate::foo" },
		{ "_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>" },
	};
	struct module m = { .start = 0x10000000, .end = 0x10100000, .bias = 0x10000000 };
	struct symbolizer *s = symbolizer_new();
	uint64_t text = 0;
	char path[512];
	FILE *f;

	victim_sh("rm -rf @/*");
	f = fopen(in_dir("names.s"), "w");
	assert_non_null(f);
	fputs("\t.text\n", f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fprintf(f, "\t.type \"%s\", @function\n\"%s\":\t.fill 16, 1, 0x90\n\t.size \"%s\", 16\n",
			cases[i].symbol, cases[i].symbol, cases[i].symbol);
	fclose(f);
	victim_build("gcc -shared -nostdlib -o @/names.so @/names.s");
	snprintf(path, sizeof(path), "nm %s/names.so | sed -n 's/ t plain$//p'", victim_dir);
	f = popen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lx", &text), 1);
	pclose(f);
	m.path = in_dir("names.so");
	assert_true(symbolizer_add(s, &m));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct location *l = symbolizer_lookup(s, m.bias + text + 16 * i + 5);

		assert_non_null(l->frame[0].function);
		assert_string_equal(l->frame[0].function, cases[i].shown);
		assert_int_equal(l->offset, 5);
	}
	symbolizer_free(s);
}

/* As containers do it: a mount namespace with another root. */
static bool enter(const char *root)
{
	return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount(root, root, NULL, MS_BIND, NULL) == 0 && chdir(root) == 0 &&
	       syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0;
}

/* A process with another root and another number in there: its files, its debug files, its perf map. */
static void a_container_is_looked_into_through_proc(void **state)
{
	char jail[512], command[1200], hex[2 * BUILD_ID_MAX + 1];
	struct module_list modules = { 0 };
	struct symbolizer *s = symbolizer_new();
	const struct module *m = NULL;
	struct timespec now;
	uint64_t at = 0;
	int out[2];
	FILE *f;
	pid_t holder, pid;
	unsigned long shown;

	if (geteuid() != 0) {
		print_message("skipped: only root can make a container\n");
		symbolizer_free(s);
		skip();
	}
	victim_sh("rm -rf @/* && mkdir -p @/jail/tmp");
	victim_build("gcc -static -O2 -g -Wl,--build-id=sha1 -o @/jail/calls tests/victims/loc_calls.c");
	{
		uint8_t id[BUILD_ID_MAX], len;
		int fd = open(in_dir("jail/calls"), O_RDONLY | O_CLOEXEC);

		assert_true(module_elf_build_id(fd, id, &len));
		close(fd);
		for (size_t i = 0; i < len; i++)
			snprintf(hex + 2 * i, 3, "%02x", id[i]);
	}
	snprintf(command, sizeof(command),
		 "d=@/jail/usr/lib/debug/.build-id/%.2s && mkdir -p $d && objcopy --only-keep-debug "
		 "@/jail/calls "
		 "$d/%s.debug && strip @/jail/calls && echo '7000000000 40 jitted' >@/jail/tmp/perf-1.map",
		 hex, hex + 2);
	victim_build(command);
	snprintf(jail, sizeof(jail), "%s/jail", victim_dir);
	assert_int_equal(pipe(out), 0);
	holder = fork();
	if (!holder) {
		int nothing = open("/dev/null", O_RDWR);

		/* Nobody waits for us when the test fails; what it prints to is not ours to hold. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(nothing, 0);
		dup2(nothing, 1);
		dup2(nothing, 2);
		if (unshare(CLONE_NEWPID))
			_exit(1);
		pid = fork();
		if (!pid) {
			int in[2];

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (pipe(in))
				_exit(1);
			dup2(in[0], 0);
			dup2(out[1], 1);
			if (!enter(jail))
				_exit(1);
			execl("/calls", "/calls", (char *)NULL);
			_exit(1);
		}
		dprintf(out[1], "pid\t%x\t0\n", pid);
		close(out[1]);
		close(out[0]);
		pause();
		_exit(0);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	pid = 0;
	while (!pid || !at) {
		char line[256], name[128];

		assert_non_null(fgets(line, sizeof(line), f));
		if (sscanf(line, "%127[^\t]\t%lx", name, &shown) != 2)
			continue;
		if (!strcmp(name, "pid"))
			pid = (pid_t)shown;
		if (!strcmp(name, "innermost_here"))
			at = shown;
	}
	assert_null(module_list_read(pid, &modules));
	for (size_t i = 0; i < modules.n; i++)
		assert_true(symbolizer_add(s, &modules.v[i]));
	m = module_find(&modules, at);
	assert_non_null(m);
	assert_string_equal(m->path, "/calls");
	assert_int_equal(symbolizer_lookup(s, at)->nframes, 3);
	assert_string_equal(symbolizer_lookup(s, at)->frame[0].function, "innermost");
	assert_non_null(symbolizer_lookup(s, at)->frame[0].file);
	clock_gettime(CLOCK_REALTIME, &now);
	assert_true(symbolizer_add_process(s, pid, (uint64_t)now.tv_sec * 1000000000u, 0));
	assert_non_null(symbolizer_lookup(s, 0x7000000010)->frame[0].function);
	assert_string_equal(symbolizer_lookup(s, 0x7000000010)->frame[0].function, "jitted");
	kill(pid, SIGKILL);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	fclose(f);
	symbolizer_free(s);
	module_list_deinit(&modules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_and_suffixes_are_left_out_and_names_demangled),
		cmocka_unit_test(a_container_is_looked_into_through_proc),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
