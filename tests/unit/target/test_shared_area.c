/*
 * The memory that is shared with a target is the anonymous one that was made there, or none: a target that
 * puts a file in its place gets neither our writes into it nor our reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/target/inject/shared_area.h"

#define SIZE 8192u

static void *map(int prot, int flags, int fd)
{
	void *at = mmap(NULL, SIZE, prot, flags, fd, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static void must_not_be_shared(void *at)
{
	assert_null(shared_area_map(getpid(), (uintptr_t)at, SIZE));
	munmap(at, SIZE);
}

static void anonymous_shared_memory_is_the_same_pages(void **state)
{
	volatile char *there = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	volatile char *here = shared_area_map(getpid(), (uintptr_t)there, SIZE);

	(void)state;
	if (!here) {
		print_message("not permitted here: it takes CAP_CHECKPOINT_RESTORE\n");
		skip();
	}
	there[100] = 42;
	assert_int_equal(here[100], 42);
}

static void a_file_in_its_place_is_not_shared(void **state)
{
	char name[] = "/tmp/watchctl-test-XXXXXX";
	int fd = mkstemp(name), readable;

	(void)state;
	assert_true(fd >= 0 && ftruncate(fd, SIZE) == 0);
	readable = open(name, O_RDONLY);
	must_not_be_shared(map(PROT_READ, MAP_SHARED, readable));
	must_not_be_shared(map(PROT_READ | PROT_WRITE, MAP_SHARED, fd));
	unlink(name);
	must_not_be_shared(map(PROT_READ, MAP_SHARED, readable)); /* "NAME (deleted)" */
	close(fd);
	close(readable);
}

static void a_memory_file_in_its_place_is_not_shared(void **state)
{
	int fd = memfd_create("dev/zero", 0);

	(void)state;
	assert_true(fd >= 0 && ftruncate(fd, SIZE) == 0);
	must_not_be_shared(map(PROT_READ | PROT_WRITE, MAP_SHARED, fd));
	close(fd);
}

static void private_memory_and_a_device_are_not_shared(void **state)
{
	int zero = open("/dev/zero", O_RDWR);

	(void)state;
	must_not_be_shared(map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
	must_not_be_shared(map(PROT_READ | PROT_WRITE, MAP_PRIVATE, zero));
	close(zero);
}

static void a_smaller_mapping_is_not_shared(void **state)
{
	void *at = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);

	(void)state;
	assert_null(shared_area_map(getpid(), (uintptr_t)at, 2 * SIZE));
	munmap(at, SIZE);
}

/* What a process does that was told the number: it writes what the owner must see. True: it could. */
static bool attach_and_write(int id, char value)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		char *there = shmat(id, NULL, 0);

		if (there == (void *)-1)
			_exit(1);
		there[100] = value;
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* By a plain user, who may not look into map_files. The step that went wrong; 0: none. */
static int offer_as_plain_user(void)
{
	struct shmid_ds ds;
	volatile char *here;
	int id;

	if (!geteuid() && (setgid(65534) || setuid(65534)))
		return 1;
	here = shared_area_offer(getpid(), SIZE, &id);
	if (!here)
		return 2;
	if (!attach_and_write(id, 42) || here[100] != 42)
		return 3;
	shared_area_close(id);
	if (attach_and_write(id, 43) || here[100] != 42)
		return 4; /* nobody else, from now on */
	munmap((void *)(uintptr_t)here, SIZE);
	return shmctl(id, IPC_STAT, &ds) ? 0 : 5; /* nobody has it any more: it is gone */
}

static void offered_memory_is_the_same_pages_and_goes_with_the_last(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid)
		_exit(offer_as_plain_user());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2 && geteuid()) {
		print_message("skipped: this user may look into map_files, or there is no System V memory\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anonymous_shared_memory_is_the_same_pages),
		cmocka_unit_test(a_file_in_its_place_is_not_shared),
		cmocka_unit_test(a_memory_file_in_its_place_is_not_shared),
		cmocka_unit_test(private_memory_and_a_device_are_not_shared),
		cmocka_unit_test(a_smaller_mapping_is_not_shared),
		cmocka_unit_test(offered_memory_is_the_same_pages_and_goes_with_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
