#include "watchctl/target/proc/takes_trap.h"

#include <fcntl.h>
#include <stdio.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/elf_mark.h"

static const struct elf_mark marks[] = {
	{ .section = ".note.go.buildid" },
	{ .section = ".go.buildinfo" },
	{ .symbol = "_gfortran_set_options" },	     /* of a Fortran main program: gfortran's -fbacktrace */
	{ .symbol = "InstallFailureSignalHandler" }, /* Abseil's: a part of the mangled name */
};

static const char *const what[] = { "Go runtime", "Go runtime", "Fortran runtime", "failure handler", NULL };

const char *takes_trap(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : what[elf_mark_find(fd, marks, sizeof(marks) / sizeof(marks[0]))];
}
