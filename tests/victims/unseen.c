/* build: gcc -D_GNU_SOURCE -O1 -g -pthread */
/*
 * unseen - values that change in ways which no debug register sees. "pid N", then a line at a time, each answered by "ok"
 * and what it tells:
 *
 *	where		the addresses of x, of shared memory and of its second mapping
 *	store N		x = N
 *	put N		stores N into the shared memory, by its first mapping
 *	beside N	by the second one
 *	add N		lock xadd there; tells the value that it has found
 *	swap N		xchg, the same
 *	cas OLD NEW	lock cmpxchg, the same
 *	thread N	a thread stores N into `word`, and leaves that to the kernel, which clears it; tells it afterwards
 *	fork		a child that does nothing, for as long as this process lives; tells its pid
 *	read FILE	reads 4 bytes of it into x
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile int x = 1, word, stored;
volatile int *shared, *beside;
static pthread_attr_t detached;

static void *leave(void *arg)
{
	word = *(int *)arg;
	stored = 1;
	syscall(SYS_set_tid_address, &word);
	syscall(SYS_exit, 0); /* not by libc, which has its own word */
	return NULL;
}

static int of_thread(int value)
{
	pthread_t thread;

	word = stored = 0;
	if (pthread_create(&thread, &detached, leave, &value))
		return -1;
	while (!stored)
		usleep(100);
	while (word)
		usleep(100);
	return word;
}

static int read_into_x(const char *path)
{
	int fd = open(path, O_RDONLY);
	int ok = fd >= 0 && read(fd, (void *)&x, sizeof(x)) == sizeof(x);

	close(fd);
	return ok;
}

static int fork_idle(void)
{
	int pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

int main(void)
{
	char line[4096], path[4096];
	int fd = memfd_create("unseen", 0), value, new;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (ftruncate(fd, 4096))
		return 1;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	beside = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == 'w')
			printf("ok %p %p %p\n", (void *)&x, (void *)shared, (void *)beside);
		else if (sscanf(line, "store %d", &value) == 1)
			printf("ok %d\n", x = value);
		else if (sscanf(line, "put %d", &value) == 1)
			printf("ok %d\n", *shared = value);
		else if (sscanf(line, "beside %d", &value) == 1)
			printf("ok %d\n", *beside = value);
		else if (sscanf(line, "add %d", &value) == 1)
			printf("ok %d\n", __atomic_fetch_add(shared, value, __ATOMIC_SEQ_CST));
		else if (sscanf(line, "swap %d", &value) == 1)
			printf("ok %d\n", __atomic_exchange_n(shared, value, __ATOMIC_SEQ_CST));
		else if (sscanf(line, "cas %d %d", &value, &new) == 2) {
			__atomic_compare_exchange_n(shared, &value, new, 0, __ATOMIC_SEQ_CST,
						    __ATOMIC_SEQ_CST);
			printf("ok %d\n", value);
		} else if (sscanf(line, "thread %d", &value) == 1)
			printf("ok %d\n", of_thread(value));
		else if (line[0] == 'f')
			printf("ok %d\n", fork_idle());
		else if (sscanf(line, "read %4095s", path) == 1)
			printf("ok %d\n", read_into_x(path));
	}
	return 0;
}
