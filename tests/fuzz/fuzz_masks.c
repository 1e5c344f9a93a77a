/*
 * Any file is one of masks, which diff reads and learns, or an error that names its line: what was read is
 * written so that the same is read again, and can be applied to any function.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/view/diff/diff_masks.h"

static void apply(struct diff_masks *m)
{
	static struct function_param params[] = { { .name = "n" }, { .name = NULL }, { .name = "a*[b" } };
	static const char *const names[] = { "f", "ns::f(int, char)", "memcpy@GLIBC_2.14", "", NULL };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct function_event f = { .name = names[i], .param = params, .nparams = 3 };
		const struct diff_masked masked = diff_masks_of(m, &f);

		require(names[i] || !masked.calls);
	}
}

/* A memory file's path, whose place in the table of files is @fd. */
static const char *path_of(int fd, char *buf, size_t len)
{
	snprintf(buf, len, "/proc/self/fd/%d", fd);
	return buf;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct diff_masks m = { 0 }, again = { 0 };
	int fd = memfd_create("masks", MFD_CLOEXEC);
	char path[64];
	struct wc_error *err;

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	err = diff_masks_read(&m, path_of(fd, path, sizeof(path)));
	if (!err) {
		apply(&m);
		require(!diff_masks_write(&m, path));
		require(!diff_masks_read(&again, path));
		require(again.n == m.n);
		for (size_t i = 0; i < m.n; i++)
			require(!strcmp(again.v[i].text, m.v[i].text));
	} else {
		require(err == &wc_enomem || (err->text && *err->text));
	}
	wc_error_free(err);
	diff_masks_deinit(&m);
	diff_masks_deinit(&again);
	close(fd);
	return 0;
}
