/* write_all - write(2), until everything is written. */
#ifndef WATCHCTL_BASE_WRITE_ALL_H
#define WATCHCTL_BASE_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* 0, or an errno: an unknown part of it was written. */
static inline int write_all(int fd, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : ENOSPC;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

#endif
