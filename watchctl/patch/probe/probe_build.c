#include "watchctl/patch/probe/probe_build.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/write_all.h"
#include "watchctl/patch/probe/probe_cc.h"
#include "watchctl/patch/probe/probe_image_impl.h"

#define PATIENCE_NS 60000000000u
#define FOLDER "watchctl-probes-"
#define LEFT_S 600 /* nothing is compiled for so long */

/* tools/probe.mk */
extern const uint8_t probe_runtime[], probe_runtime_end[], probe_header[], probe_header_end[];

/*
 * General registers only: the program's vector registers are not saved. Nothing that needs a C library or a loader:
 * no canary, no _FORTIFY_SOURCE, no constructors. What a probe looks at has types of which the compiler knows nothing:
 * no strict aliasing. It has the stack of any thread: small frames. No red zone: probe_value() is a call that the compiler does not
 * see. Names that are not there pass the linker, which would show them one
 * by one and among its own words; probe_image_read() names them.
 */
static const char *const flags[] = {
	"-std=gnu11",
	"-O2",
	"-ffreestanding",
	"-mgeneral-regs-only",
	"-mno-red-zone",
	"-fPIC",
	"-fvisibility=hidden",
	"-fno-stack-protector",
	"-fcf-protection=none",
	"-fno-asynchronous-unwind-tables",
	"-fno-jump-tables",
	"-fno-strict-aliasing",
	"-fno-lto",
	"-U_FORTIFY_SOURCE",
	"-Wall",
	"-Wformat",
	"-Wvla",
	"-Wframe-larger-than=2048",
	"-Wno-error=implicit-function-declaration",
	"-shared",
	"-nostdlib",
	"-Wl,-Bsymbolic",
	"-Wl,-z,noexecstack",
	"-Wl,-z,max-page-size=4096",
	"-Wl,-z,norelro",
	"-Wl,--build-id=none",
	"-Wl,--unresolved-symbols=ignore-all",
};

/* The folder */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void folder_removep(char **dir)
{
	if (*dir)
		nftw(*dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(*dir);
}

/* Of one that was killed; the number may be that of a process elsewhere, so that what is new stays. */
static bool is_left(const char *path, pid_t owner)
{
	struct stat st;

	return owner > 0 && kill(owner, 0) && errno == ESRCH && !lstat(path, &st) && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && time(NULL) - st.st_mtime > LEFT_S;
}

static void remove_left(const char *tmp)
{
	scoped(closedirp) DIR *dir = opendir(tmp);
	const struct dirent *d;

	while (dir && (d = readdir(dir))) {
		scoped(freep) char *path = NULL;
		int owner = 0;

		if (sscanf(d->d_name, FOLDER "%d-", &owner) != 1)
			continue;
		if (asprintf(&path, "%s/%s", tmp, d->d_name) < 0)
			path = NULL;
		if (path && is_left(path, owner))
			nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	}
}

static struct wc_error *folder_make(char **ret)
{
	const char *tmp = getenv("TMPDIR");
	scoped(freep) char *dir = NULL;

	if (!tmp || !*tmp)
		tmp = "/tmp";
	remove_left(tmp);
	if (asprintf(&dir, "%s/" FOLDER "%d-XXXXXX", tmp, (int)getpid()) < 0) {
		dir = NULL;
		return &wc_enomem;
	}
	if (!mkdtemp(dir))
		return wc_error_errno(WC_EFAIL, errno, "cannot make a folder in %s to compile the probes in",
				      tmp);
	*ret = take_ptr(dir);
	return NULL;
}

static struct wc_error *write_file(const char *dir, const char *name, const uint8_t *bytes,
				   const uint8_t *end)
{
	scoped(freep) char *path = NULL;

	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return &wc_enomem;
	}
	scoped(closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err = fd < 0 ? errno : write_all(fd, bytes, (size_t)(end - bytes));

	return err ? wc_error_errno(WC_EFAIL, err, "cannot write %s", path) : NULL;
}

static struct wc_error *write_parts(const char *dir)
{
	scoped(freep) char *sub = NULL;
	struct wc_error *err;

	if (asprintf(&sub, "%s/watchctl", dir) < 0) {
		sub = NULL;
		return &wc_enomem;
	}
	if (mkdir(sub, 0700))
		return wc_error_errno(WC_EFAIL, errno, "cannot make the folder %s", sub);
	err = write_file(dir, "watchctl/probe.h", probe_header, probe_header_end);
	return err ? err : write_file(dir, "runtime.o", probe_runtime, probe_runtime_end);
}

/* The command */

struct words {
	char **v; /* each owned */
	size_t n, cap;
	bool failed;
};

static void words_deinit(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
}

/* Takes @word; NULL: there was no memory. */
static void words_take(struct words *w, char *word)
{
	if (word && vec_push(w->v, w->n, w->cap, word))
		return;
	free(word);
	w->failed = true;
}

static void words_join(struct words *w, const char *a, const char *b)
{
	char *word;

	words_take(w, asprintf(&word, "%s%s", a, b) < 0 ? NULL : word);
}

/* As make(1) has $CC: words between blanks. */
static void words_split(struct words *w, const char *text)
{
	const char *blanks = " \t\n";

	for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
		size_t len = strcspn(text, blanks);

		words_take(w, strndup(text, len));
		text += len;
	}
}

static bool is_blank(const char *text)
{
	return !text || !text[strspn(text, " \t\n")];
}

static const char *compiler_of(const struct probe_build_request *q)
{
	const char *cc = is_blank(q->cc) ? getenv("CC") : q->cc;

	return is_blank(cc) ? "cc" : cc;
}

static struct wc_error *compile(const struct probe_build_request *q, const char *dir, const char *out)
{
	scoped(words_deinit) struct words w = { 0 };
	struct wc_error *err;
	bool ok = false;

	words_split(&w, compiler_of(q));
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		words_join(&w, flags[i], "");
	words_join(&w, "-I", dir);
	words_join(&w, "-o", out);
	/* A name must not be taken for an option, or for a file of them. */
	for (size_t i = 0; i < q->nsources; i++)
		words_join(&w, q->source[i][0] == '-' || q->source[i][0] == '@' ? "./" : "", q->source[i]);
	words_join(&w, dir, "/runtime.o");
	if (w.failed || !vec_push(w.v, w.n, w.cap, NULL))
		return &wc_enomem;

	const struct probe_cc_run run = { w.v, q->stderr_fd, PATIENCE_NS };

	err = probe_cc_run(&run, &ok);
	if (!err && !ok)
		err = wc_error_new(WC_EUSAGE, "%s%s could not be compiled; %s says why", q->source[0],
				   q->nsources > 1 ? ", with the other files," : "", w.v[0]);
	return err;
}

/* The files */

static bool ends_in(const char *name, const char *const *ends)
{
	size_t len = strlen(name);

	for (; *ends; ends++)
		if (len > strlen(*ends) && !strcmp(name + len - strlen(*ends), *ends))
			return true;
	return false;
}

static const char *const c[] = { ".c", NULL };
static const char *const cpp[] = { ".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP", NULL };
static const char *const object[] = { ".o", NULL };
static const char *const shared[] = { ".so", NULL };

static struct wc_error *check_source(const struct probe_build_request *q, const char *path)
{
	struct stat st;

	if (ends_in(path, cpp))
		return wc_error_new(WC_EUSAGE,
				    "%s is C++: probes are written in C, in a file whose name ends in .c",
				    path);
	if (ends_in(path, shared) && q->nsources > 1)
		return wc_error_new(WC_EUSAGE, "%s is linked already: it can be given alone only", path);
	if (!ends_in(path, c) && !ends_in(path, object) && !ends_in(path, shared))
		return wc_error_new(WC_EUSAGE,
				    "%s is no file of probes: the name of a C source ends in .c, that of an "
				    "object in .o or .so",
				    path);
	if (stat(path, &st))
		return wc_error_errno(WC_EUSAGE, errno, "cannot read the probes %s", path);
	if (!S_ISREG(st.st_mode))
		return wc_error_new(WC_EUSAGE, "cannot read the probes %s: it is no regular file", path);
	return NULL;
}

/* In the sentence "... uses malloc". */
static char *name_all(const struct probe_build_request *q)
{
	char *name;
	int n;

	if (q->nsources == 1)
		return strdup(q->source[0]);
	n = asprintf(&name, "%s, or another of the %zu files,", q->source[0], q->nsources);
	return n < 0 ? NULL : name;
}

static struct wc_error *read_object(const char *path, const char *name, struct probe_image *ret,
				    uint8_t **bytes, size_t *size)
{
	scoped(freep) uint8_t *read = NULL;
	struct wc_error *err = probe_image_read_file(path, name, &read, size);

	if (!err)
		err = probe_image_read(read, *size, name, ret);
	if (!err)
		*bytes = take_ptr(read);
	return err;
}

struct wc_error *probe_build_object(const struct probe_build_request *q, struct probe_image *ret,
				    uint8_t **bytes, size_t *size)
{
	/* Let go of last: a signal that ends us finds nothing left behind. */
	scoped(probe_cc_releasep) struct probe_cc_signals *signals = NULL;
	scoped(folder_removep) char *dir = NULL;
	scoped(freep) char *out = NULL, *name = NULL;
	struct wc_error *err = NULL;

	assert(q->nsources);
	for (size_t i = 0; i < q->nsources && !err; i++)
		err = check_source(q, q->source[i]);
	if (err)
		return err;
	if (ends_in(q->source[0], shared))
		return read_object(q->source[0], q->source[0], ret, bytes, size);
	name = name_all(q);
	signals = probe_cc_hold();
	if (!name || !signals)
		return &wc_enomem;
	err = folder_make(&dir);
	if (!err)
		err = write_parts(dir);
	if (!err && asprintf(&out, "%s/probes.so", dir) < 0) {
		out = NULL;
		err = &wc_enomem;
	}
	if (!err)
		err = compile(q, dir, out);
	return err ? err : read_object(out, name, ret, bytes, size);
}

struct wc_error *probe_build(const struct probe_build_request *q, struct probe_image *ret)
{
	scoped(freep) uint8_t *bytes = NULL;
	size_t size;

	return probe_build_object(q, ret, &bytes, &size);
}
