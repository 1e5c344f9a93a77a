#include "tests/fuzz/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/trace/log/tracelog_format.h"

#define LOGS 4

static char made[LOGS][FUZZ_LOG_PATH];
static size_t nmade;

static void write_file(const char *folder, const char *name, const void *bytes, size_t len)
{
	char path[FUZZ_LOG_PATH + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	require(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
	close(fd);
}

static void remove_logs(void)
{
	static const char *const names[] = { "metadata", "events" };
	char path[FUZZ_LOG_PATH + 16];

	while (nmade--) {
		for (size_t i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "%s/%s", made[nmade], names[i]);
			unlink(path);
		}
		rmdir(made[nmade]);
	}
}

void fuzz_log_make(const char *name, char path[FUZZ_LOG_PATH])
{
	static const uint8_t uuid[16];
	char *metadata = tracelog_metadata_text(uuid, 0, "fuzz");

	require(metadata && nmade < LOGS);
	snprintf(path, FUZZ_LOG_PATH, "/dev/shm/fuzz.%s.%d", name, (int)getpid());
	require(!mkdir(path, 0700));
	if (!nmade)
		atexit(remove_logs);
	memcpy(made[nmade++], path, FUZZ_LOG_PATH);
	write_file(path, "metadata", metadata, strlen(metadata));
	free(metadata);
}

void fuzz_log_events(const char *path, const uint8_t *events, size_t len)
{
	uint64_t bits = (TRACELOG_PACKET_HEAD + len) * 8;
	uint8_t *packet = calloc(1, TRACELOG_PACKET_HEAD + len);
	uint32_t magic = TRACELOG_MAGIC;

	require(packet);
	memcpy(packet, &magic, sizeof(magic));
	memcpy(packet + TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	memcpy(packet + TRACELOG_OFF_PACKET, &bits, sizeof(bits));
	if (len)
		memcpy(packet + TRACELOG_PACKET_HEAD, events, len);
	write_file(path, "events", packet, TRACELOG_PACKET_HEAD + len);
	free(packet);
}
