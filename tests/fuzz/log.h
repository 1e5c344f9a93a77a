/* log - logs on disk, for what opens them by name. */
#ifndef TESTS_FUZZ_LOG_H
#define TESTS_FUZZ_LOG_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_LOG_PATH 64

/* Makes a folder, in memory, that is a log without events; it is removed at the end. */
void fuzz_log_make(const char *name, char path[FUZZ_LOG_PATH]);

/* Replaces its events by those of one packet. */
void fuzz_log_events(const char *path, const uint8_t *events, size_t len);

#endif
