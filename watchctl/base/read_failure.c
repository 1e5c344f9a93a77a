#include "watchctl/base/read_failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static char first[512];
static int first_errno;
static unsigned int more;
static bool descriptors;

/* Not just another machine, or a file that has been removed since. */
static bool is_odd(int why)
{
	return why && why != ENOENT && why != ENOTDIR && why != ENAMETOOLONG && why != ELOOP;
}

void read_failure_note(const char *path, int sys_errno)
{
	if (!is_odd(sys_errno))
		return;
	descriptors |= sys_errno == EMFILE || sys_errno == ENFILE;
	if (first_errno) {
		more += strncmp(path, first, sizeof(first) - 1) != 0;
		return;
	}
	snprintf(first, sizeof(first), "%s", path);
	first_errno = sys_errno;
}

bool read_failure_of_descriptors(void)
{
	return descriptors;
}

bool read_failure_take(char *path, size_t len, int *sys_errno)
{
	if (!first_errno)
		return false;
	snprintf(path, len, "%s", first);
	*sys_errno = first_errno;
	first_errno = 0;
	more = 0;
	return true;
}

bool read_failure_describe(char *buf, size_t len)
{
	if (!first_errno)
		return false;
	if (more)
		snprintf(buf, len, "%s: %s (and %u more)", first, strerror(first_errno), more);
	else
		snprintf(buf, len, "%s: %s", first, strerror(first_errno));
	return true;
}
