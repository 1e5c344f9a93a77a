/*
 * A program may write anything into /tmp/perf-PID.map: what is found there lies in the file, and covers the
 * address that was asked for.
 */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/code/elf/perf_map.h"

static char path[64];

static void remove_map(void)
{
	unlink(path);
}

/* In place: a file that is cut to nothing and written again goes to the disk each time. */
static void write_map(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
		unlink(path);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		require(fd >= 0);
		atexit(remove_map);
	}
	require(pwrite(fd, data, size, 0) == (ssize_t)size && !ftruncate(fd, (off_t)size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t at[] = { 0, 1, 0x10, 0x1000, 0x7f0000001000, 0x7f0000001fff, UINT64_MAX };
	struct timespec now;
	struct perf_map *m;

	write_map(data, size);
	clock_gettime(CLOCK_REALTIME, &now);
	m = perf_map_new(getpid(), (uint64_t)now.tv_sec * 1000000000u, 0);
	require(m);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		uint64_t start = UINT64_MAX;
		const char *name = perf_map_find(m, at[i], &start);

		if (name)
			require(strlen(name) < size && start <= at[i]);
	}
	perf_map_free(m);
	return 0;
}
