#include "watchctl/base/spare_files.h"

#include <fcntl.h>
#include <unistd.h>

bool spare_files_keep(struct spare_files *s)
{
	s->n = 0;
	while (s->n < SPARE_FILES) {
		int fd = open("/", O_PATH | O_CLOEXEC);

		if (fd < 0) {
			spare_files_release(s);
			return false;
		}
		s->fd[s->n++] = fd;
	}
	return true;
}

void spare_files_release(struct spare_files *s)
{
	while (s->n)
		close(s->fd[--s->n]);
}
