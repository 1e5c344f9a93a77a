#include "watchctl/target/inject/shared_area.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* What the kernel calls anonymous shared memory. A memfd or System V memory has another name. */
#define ANONYMOUS "/dev/zero (deleted)"

/* Not opened, as that can have effects where it is a device. */
static int shared_area_find(pid_t pid, uint64_t start, uint64_t size)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, start, start + size);
	return open(path, O_PATH | O_CLOEXEC);
}

/* Such memory lies on a file system that nothing else can be put on: that of a page of ours. */
static bool anonymous_device(dev_t *ret)
{
	size_t size = (size_t)getpagesize();
	/* cppcheck-suppress invalidFunctionArg ; there is no file behind it */
	void *page = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct stat st;
	bool ok;

	if (page == MAP_FAILED)
		return false;
	scoped(closep) int fd = shared_area_find(getpid(), (uintptr_t)page, size);
	ok = fd >= 0 && !fstat(fd, &st);
	munmap(page, size);
	if (ok)
		*ret = st.st_dev;
	return ok;
}

static bool is_anonymous(int fd, size_t size)
{
	char link[48], name[64];
	struct stat st;
	dev_t device;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name));
	return n == (ssize_t)strlen(ANONYMOUS) && !memcmp(name, ANONYMOUS, (size_t)n) && !fstat(fd, &st) &&
	       S_ISREG(st.st_mode) && !st.st_nlink && st.st_size >= 0 && (uint64_t)st.st_size >= size &&
	       anonymous_device(&device) && st.st_dev == device;
}

void *shared_area_map(pid_t pid, uint64_t start, size_t size)
{
	scoped(closep) int found = shared_area_find(task_with_memory(pid), start, size);
	char link[48];
	void *map;

	if (found < 0 || !is_anonymous(found, size))
		return NULL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
	scoped(closep) int fd = open(link, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return NULL;
	/* Whoever touches a page first has it charged to his memory cgroup: the target may have no room in
	 * its own. */
	madvise(map, size, MADV_POPULATE_WRITE);
	return map;
}

/* Its numbers mean the same memory to it as to us. */
static bool shares_ipc(pid_t pid)
{
	struct stat ours, theirs;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/ns/ipc", task_with_memory(pid));
	return !stat(path, &theirs) && !stat("/proc/self/ns/ipc", &ours) && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

/* Once it is marked for removal, its number is known to whoever was informed, and still good to attach by. */
void *shared_area_offer(pid_t pid, size_t size, int *ret_id)
{
	dev_t device;
	void *map;
	int id;

	if (anonymous_device(&device) || !shares_ipc(pid))
		return NULL;
	id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
	if (id < 0)
		return NULL;
	map = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	if (map == (void *)-1)
		return NULL;
	madvise(map, size, MADV_POPULATE_WRITE);
	*ret_id = id;
	return map;
}

void shared_area_close(int id)
{
	struct shmid_ds ds;

	if (shmctl(id, IPC_STAT, &ds))
		return;
	ds.shm_perm.mode = 0;
	shmctl(id, IPC_SET, &ds);
}
