/*
 * A static program has no PT_GNU_EH_FRAME, unless it was linked with --eh-frame-hdr: there is .eh_frame in
 * its memory, but nothing there says where. The section headers of its file do; strip leaves them.
 */
#include "stackwalk/self_sections.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define NAME ".eh_frame"

static bool read_at(int fd, uint64_t offset, void *buf, size_t len)
{
	return pread(fd, buf, len, (off_t)offset) == (ssize_t)len;
}

static uint64_t self_sections_search(int fd)
{
	Elf64_Shdr names, s;
	char name[sizeof(NAME)];
	Elf64_Ehdr head;
	unsigned int i;

	if (!read_at(fd, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_shentsize != sizeof(s) || head.e_shstrndx >= head.e_shnum ||
	    !read_at(fd, head.e_shoff + head.e_shstrndx * sizeof(s), &names, sizeof(names)))
		return 0;
	for (i = 0; i < head.e_shnum; i++) {
		if (!read_at(fd, head.e_shoff + i * sizeof(s), &s, sizeof(s)))
			return 0;
		if (s.sh_type == SHT_NULL || s.sh_type == SHT_NOBITS || !(s.sh_flags & SHF_ALLOC))
			continue;
		if (read_at(fd, names.sh_offset + s.sh_name, name, sizeof(name)) &&
		    memcmp(name, NAME, sizeof(NAME)) == 0)
			return s.sh_addr;
	}
	return 0;
}

uint64_t self_eh_frame_address(void)
{
	int before = errno, fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint64_t ret = 0;

	if (fd >= 0) {
		ret = self_sections_search(fd);
		close(fd);
	}
	errno = before;
	return ret;
}
