/*
 * Two looks: at the page, which is cheap, and only where nothing is there yet, at the flags of its mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/target/proc/proc.h"

#define PAGE 4096u
#define WRITE_WAITS (1ull << 57) /* write-protected by userfaultfd */

/* Documentation/filesystems/proc.rst: um, uw, ui are userfaultfd's. */
static bool has_monitor(const char *flags)
{
	return strstr(flags, " um") || strstr(flags, " ui") || strstr(flags, " uw");
}

static bool mapping_has_monitor(pid_t pid, uint64_t addr)
{
	char path[64], line[512];
	bool inside = false, found = false;
	uint64_t start, end;

	snprintf(path, sizeof(path), "/proc/%d/smaps", task_with_memory(pid));
	scoped(fclosep) FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			inside = addr >= start && addr < end;
		else if (inside && !strncmp(line, "VmFlags:", 8)) {
			found = has_monitor(line);
			break;
		}
	}
	return found;
}

bool proc_pagemap(pid_t pid, uint64_t addr, uint64_t *ret, size_t n)
{
	const ssize_t size = (ssize_t)(n * sizeof(*ret));
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", task_with_memory(pid));
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	errno = 0;
	return pread(fd, ret, (size_t)size, (off_t)(addr / PAGE * sizeof(*ret))) == size;
}

bool proc_page_waits(pid_t pid, uint64_t addr)
{
	uint64_t entry;

	if (!proc_pagemap(pid, addr, &entry, 1))
		return false;
	if (entry & WRITE_WAITS)
		return true;
	return !(entry & PROC_PAGE_PRESENT_OR_SWAPPED) && mapping_has_monitor(pid, addr);
}
