/* Descriptors kept for later: there when everything else is used up. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/base/spare_files.h"

static struct rlimit was;

static int limit_files(void **state)
{
	struct rlimit few;

	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &was))
		return -1;
	few = was;
	few.rlim_cur = 64;
	return setrlimit(RLIMIT_NOFILE, &few);
}

static int unlimit_files(void **state)
{
	(void)state;
	return setrlimit(RLIMIT_NOFILE, &was);
}

static unsigned int use_up(int fd[64])
{
	unsigned int n = 0;

	while (n < 64 && (fd[n] = open("/", O_PATH | O_CLOEXEC)) >= 0)
		n++;
	return n;
}

static void close_all(const int *fd, unsigned int n)
{
	while (n)
		close(fd[--n]);
}

static void what_is_kept_can_be_opened_when_all_else_is_used_up(void **state)
{
	struct spare_files s = { 0 };
	int fd[64], more[64];
	unsigned int n;

	(void)state;
	assert_true(spare_files_keep(&s));
	n = use_up(fd);
	spare_files_release(&s);
	assert_int_equal(use_up(more), SPARE_FILES);
	close_all(more, SPARE_FILES);
	spare_files_release(&s);
	close_all(fd, n);
}

static void too_few_are_not_taken_at_all(void **state)
{
	struct spare_files s = { 0 };
	int fd[64], more[64];
	unsigned int n;

	(void)state;
	n = use_up(fd);
	close_all(fd, SPARE_FILES - 1);
	assert_false(spare_files_keep(&s));
	assert_int_equal(use_up(more), SPARE_FILES - 1);
	close_all(more, SPARE_FILES - 1);
	close_all(fd + SPARE_FILES - 1, n - (SPARE_FILES - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_kept_can_be_opened_when_all_else_is_used_up,
						limit_files, unlimit_files),
		cmocka_unit_test_setup_teardown(too_few_are_not_taken_at_all, limit_files, unlimit_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
