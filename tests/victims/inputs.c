/* build: gcc -O0 -g */
/* Reads its input in the way it is told to, and prints none of it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECE 64

static unsigned int sum;

__attribute__((noinline)) void take(const unsigned char *bytes, long n)
{
	long i;

	for (i = 0; i < n; i++)
		sum += bytes[i];
}

static void by_map(int fd)
{
	struct stat s;
	void *map;

	if (fstat(fd, &s))
		exit(1);
	map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		exit(1);
	take(map, s.st_size);
}

static long piece(const char *how, int fd, unsigned char *buf, long at)
{
	struct iovec v[2] = { { buf, PIECE / 2 }, { buf + PIECE / 2, PIECE / 2 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	if (!strcmp(how, "pread"))
		return pread(fd, buf, PIECE, at);
	if (!strcmp(how, "readv"))
		return readv(fd, v, 2);
	if (!strcmp(how, "recv"))
		return recv(fd, buf, PIECE, 0);
	if (!strcmp(how, "recvmsg"))
		return recvmsg(fd, &m, 0);
	return read(fd, buf, PIECE);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "read";
	int fd = argc > 2 ? open(argv[2], O_RDONLY) : 0;
	unsigned char buf[PIECE];
	long n, at = 0;

	if (!strcmp(how, "mmap"))
		by_map(fd);
	else
		while ((n = piece(how, fd, buf, at)) > 0) {
			take(buf, n);
			at += n;
		}
	return 0;
}
