/*
 * The memory that is shared with a target is the anonymous one that was made there, or none: a target that
 * puts a file in its place gets neither our writes into it nor our reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watchctl/target/shared_area.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anonymous_shared_memory_is_the_same_pages),
		cmocka_unit_test(a_file_in_its_place_is_not_shared),
		cmocka_unit_test(a_memory_file_in_its_place_is_not_shared),
		cmocka_unit_test(private_memory_and_a_device_are_not_shared),
		cmocka_unit_test(a_smaller_mapping_is_not_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
