#include "watchctl/cli/output/ready_options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/output/output.h"

#define FIRST_FD 3 /* those before are standard input, output and error */

const struct option ready_options[] = {
	{ "--ready-fd", NULL, "N",
	  "write one byte to file descriptor N, and close it, when all is armed and nothing escapes any more",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct ready_ask, fd, FIRST_FD, INT32_MAX) },
	{ 0 },
};

struct wc_error *ready_check(const struct ready_ask *q)
{
	int flags;

	if (!q->fd)
		return NULL;
	flags = fcntl(q->fd, F_GETFL);
	if (flags < 0)
		return wc_error_new(
			WC_EUSAGE,
			"--ready-fd %d: this file descriptor is not open: who starts watchctl has to open it, in a shell by %d>FILE",
			q->fd, q->fd);
	if ((flags & O_ACCMODE) == O_RDONLY)
		return wc_error_new(WC_EUSAGE, "--ready-fd %d: this file descriptor is open for reading only",
				    q->fd);
	if (fcntl(q->fd, F_SETFD, FD_CLOEXEC) < 0)
		return wc_error_errno(WC_EFAIL, errno, "--ready-fd %d cannot be kept to ourselves", q->fd);
	return NULL;
}

void ready_tell(struct ready_ask *q)
{
	ssize_t n;

	if (!q->fd)
		return;
	do
		n = write(q->fd, "\n", 1);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EPIPE) /* else nobody wants to know any more */
		output_say(NULL, "--ready-fd %d: nobody could be told that all is armed: %s", q->fd,
			   strerror(errno));
	close(q->fd);
	q->fd = 0;
}
