/*
 * perf_map - the names that a JIT compiler gives to its code: /tmp/perf-PID.map, a line
 * "START SIZE NAME" in hex a function; private to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_ELF_PERF_MAP_H
#define WATCHCTL_CODE_ELF_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_map;

/*
 * Of process @pid, which was there at @known_ns (CLOCK_REALTIME, like @until_ns): its file, while the process
 * of that number is the same one. When it is not, nothing if @until_ns is 0, else what the ended one
 * has left: a file written later than @until_ns is another process's. NULL: no memory.
 */
struct perf_map *perf_map_new(pid_t pid, uint64_t known_ns, uint64_t until_ns);
void perf_map_free(struct perf_map *m);

pid_t perf_map_pid(const struct perf_map *m);

/*
 * The name of the code at @addr, and where it starts: of several functions that were there, the last one
 * written. Reads the file first if it has grown. Lives until the next call. NULL: none.
 */
const char *perf_map_find(struct perf_map *m, uint64_t addr, uint64_t *start);

#endif
