/*
 * Any two logs can be compared, whatever is in them: diff comes to an end, and what it finds can be printed.
 * The good log is the input; the bad one is the same with some bytes changed, left out or put in, as the
 * first bytes of the input say, so that most of it still aligns.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/trace/tracelog_format.h"
#include "watchctl/view/diff_print.h"

#define EDIT_BYTES 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t uuid[16];
static char good[64], bad[64];
static FILE *nowhere;

static void write_file(const char *folder, const char *name, const void *bytes, size_t len)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		abort();
	close(fd);
}

static void remove_folders(void)
{
	static const char *const names[] = { "metadata", "events" };
	char path[96];
	size_t i;

	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", i % 2 ? good : bad, names[i / 2]);
		unlink(path);
	}
	rmdir(good);
	rmdir(bad);
}

static void set_up(void)
{
	char *metadata = tracelog_metadata_text(uuid, 0, "fuzz");

	nowhere = fopen("/dev/null", "w");
	snprintf(good, sizeof(good), "/dev/shm/fuzz_diff.good.%d", (int)getpid());
	snprintf(bad, sizeof(bad), "/dev/shm/fuzz_diff.bad.%d", (int)getpid());
	if (!metadata || !nowhere || mkdir(good, 0700) || mkdir(bad, 0700))
		abort();
	write_file(good, "metadata", metadata, strlen(metadata));
	write_file(bad, "metadata", metadata, strlen(metadata));
	free(metadata);
	atexit(remove_folders);
}

static void write_events(const char *folder, const uint8_t *events, size_t len)
{
	uint64_t bits = (TRACELOG_PACKET_HEAD + len) * 8;
	uint8_t *packet = calloc(1, TRACELOG_PACKET_HEAD + len);
	uint32_t magic = TRACELOG_MAGIC;

	if (!packet)
		abort();
	memcpy(packet, &magic, sizeof(magic));
	memcpy(packet + TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_OFF_PACKET, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_PACKET_HEAD, events, len);
	write_file(folder, "events", packet, TRACELOG_PACKET_HEAD + len);
	free(packet);
}

/* Where, what, how many: one edit of the bad log. */
static void write_bad(const uint8_t *edit, const uint8_t *events, size_t len)
{
	size_t at = len ? (edit[0] | (size_t)edit[1] << 8) % len : 0, n = edit[3] % 64;
	uint8_t *copy = malloc(len + 64);

	if (!copy)
		abort();
	memcpy(copy, events, len);
	if (edit[2] % 3 == 0 && len) {
		copy[at] ^= edit[4] ? edit[4] : 1;
	} else if (edit[2] % 3 == 1 && at + n <= len) {
		memmove(copy + at, copy + at + n, len - at - n);
		len -= n;
	} else if (at + n <= len) {
		memmove(copy + at + n, copy + at, len - at);
		len += n;
	}
	write_events(bad, copy, len);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const logs[] = { good };
	const struct diff_print_options print = { .width = 100, .groups = 20 };
	struct diff_options o = { .good = logs, .ngood = 1, .bad = bad };
	struct diff_result *r = NULL;
	struct wc_error *err;

	if (!nowhere)
		set_up();
	if (size < EDIT_BYTES)
		return 0;
	o.by_name = data[5] & 1;
	o.anyway = data[5] & 2;
	o.weak = data[5] & 4;
	write_events(good, data + EDIT_BYTES, size - EDIT_BYTES);
	write_bad(data, data + EDIT_BYTES, size - EDIT_BYTES);
	err = diff_run(&o, &r);
	if (!err) {
		wc_error_free(diff_print_text(r, nowhere, &print));
		wc_error_free(diff_print_json(r, nowhere));
		wc_error_free(diff_print_html(r, nowhere, &print));
	}
	wc_error_free(err);
	diff_result_free(r);
	return 0;
}
