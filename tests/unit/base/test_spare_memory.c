/* Memory kept for later: there when everything else is used up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "watchctl/base/spare_memory.h"

#define MIB (1u << 20)
#define ROOM (64u * MIB)

static void *take(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Pieces of a mebibyte, until there are no more. */
static unsigned int use_up(void *piece[ROOM / MIB])
{
	unsigned int n = 0;

	while (n < ROOM / MIB && (piece[n] = take(MIB)))
		n++;
	return n;
}

static void give_back(void *const *piece, unsigned int n)
{
	while (n)
		munmap(piece[--n], MIB);
}

static struct rlimit was;

/* Room for some more than we have now. */
static int limit_memory(void **state)
{
	struct rlimit little;
	void *probe;

	(void)state;
	if (getrlimit(RLIMIT_AS, &was))
		return -1;
	little = was;
	for (little.rlim_cur = ROOM;; little.rlim_cur += ROOM / 4) {
		if (setrlimit(RLIMIT_AS, &little))
			return -1;
		probe = take(ROOM / 4);
		if (!probe)
			continue;
		munmap(probe, ROOM / 4);
		return 0;
	}
}

static int unlimit_memory(void **state)
{
	(void)state;
	return setrlimit(RLIMIT_AS, &was);
}

static void what_is_kept_can_be_had_when_all_else_is_used_up(void **state)
{
	struct spare_memory s = { 0 };
	void *piece[ROOM / MIB], *more[ROOM / MIB];
	unsigned int n, later;

	(void)state;
	assert_true(spare_memory_keep(&s));
	n = use_up(piece);
	assert_true(n > 0 && n < ROOM / MIB);
	spare_memory_release(&s);
	later = use_up(more);
	give_back(more, later);
	give_back(piece, n);
	assert_true(later >= 8);
	spare_memory_release(&s);
}

static void too_little_is_not_taken_at_all(void **state)
{
	struct spare_memory s = { 0 };
	void *piece[ROOM / MIB];
	unsigned int n;
	bool kept;

	(void)state;
	n = use_up(piece);
	kept = spare_memory_keep(&s);
	give_back(piece, n);
	assert_false(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_kept_can_be_had_when_all_else_is_used_up,
						limit_memory, unlimit_memory),
		cmocka_unit_test_setup_teardown(too_little_is_not_taken_at_all, limit_memory, unlimit_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
