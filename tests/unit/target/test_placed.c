/* placed: what may be taken for a handler of ours, and be unmapped for it. All in our own process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/base/clock.h"
#include "watchctl/target/inject/placed.h"
#include "watchctl/target/proc/proc.h"

#define DOOR 0x2040u /* some place in the code */
#define SHARED (WIRE_RING_OFFSET + 0x10000u)
#define SIZE (WIRE_CODE_SIZE + SHARED)

/* As inject_place() leaves it, with room for a neighbour of the program's own behind it. */
static uint8_t *place(bool shared, struct wire_control *ret)
{
	int flags = (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_FIXED;
	uint8_t *base = mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wire_signature door = { .to_control = WIRE_CODE_SIZE - DOOR };

	assert_ptr_not_equal(base, MAP_FAILED);
	memcpy(door.name, WIRE_SIGNATURE, sizeof(door.name));
	assert_int_equal(mprotect(base, WIRE_CODE_SIZE, PROT_READ | PROT_WRITE), 0);
	memcpy(base + DOOR, &door, sizeof(door));
	assert_int_equal(mprotect(base, WIRE_CODE_SIZE, PROT_READ | PROT_EXEC), 0);
	assert_ptr_equal(mmap(base + WIRE_CODE_SIZE, SHARED, PROT_READ | PROT_WRITE, flags, -1, 0),
			 base + WIRE_CODE_SIZE);
	*ret = (struct wire_control){
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.code_start = (uint64_t)(uintptr_t)base,
		.code_end = (uint64_t)(uintptr_t)base + WIRE_CODE_SIZE,
		.mapping_size = SIZE,
		.ours.handler = (uint64_t)(uintptr_t)base + DOOR + sizeof(door),
		.owner_pid = getpid(),
		.owner_start = proc_start_time(getpid()),
	};
	return base;
}

/* How many are found with @c as the control block; the version of the first. */
static size_t found(uint8_t *base, const struct wire_control *c, uint32_t *ret_version)
{
	struct placed_list l = { 0 };
	size_t n;

	memcpy(base + WIRE_CODE_SIZE, c, sizeof(*c));
	assert_null(placed_find(getpid(), &l));
	n = l.n;
	if (n)
		*ret_version = l.v[0].version;
	if (n && l.v[0].control) {
		assert_int_equal(l.v[0].control_at, c->code_start + WIRE_CODE_SIZE);
		assert_int_equal(l.v[0].control->mapping_size, SIZE);
	}
	placed_list_deinit(&l);
	return n;
}

static void finds_a_handler_shared_or_not(void **state)
{
	struct wire_control c;
	uint32_t version;
	int shared;

	(void)state;
	for (shared = 0; shared < 2; shared++) {
		uint8_t *base = place(shared, &c);

		assert_int_equal(found(base, &c, &version), 1);
		assert_int_equal(version, WIRE_VERSION);
		munmap(base, 2 * SIZE);
	}
}

static void reports_another_version_without_believing_it(void **state)
{
	struct wire_control c;
	uint8_t *base = place(true, &c);
	struct placed_list l = { 0 };
	uint32_t version;

	(void)state;
	c.version = WIRE_VERSION + 5;
	assert_int_equal(found(base, &c, &version), 1);
	assert_int_equal(version, WIRE_VERSION + 5);
	assert_null(placed_find(getpid(), &l));
	assert_null(l.v[0].control);
	placed_list_deinit(&l);
	munmap(base, 2 * SIZE);
}

/* The program owns that memory: a control block that claims more than is ours must not get it unmapped. */
static void believes_no_lie_about_its_extent(void **state)
{
	struct wire_control good, c;
	uint8_t *base = place(true, &good);
	uint32_t version;

	(void)state;
	c = good;
	c.mapping_size = SIZE + 0x1000; /* into what nobody has mapped for us */
	assert_int_equal(found(base, &c, &version), 0);
	mprotect(base + SIZE, 0x1000, PROT_READ); /* a neighbour that is no data of ours */
	assert_int_equal(found(base, &c, &version), 0);
	mprotect(base + SIZE, 0x1000, PROT_READ | PROT_EXEC);
	assert_int_equal(found(base, &c, &version), 0);
	c.mapping_size = UINT64_MAX - 0xfff;
	assert_int_equal(found(base, &c, &version), 0);
	c.mapping_size = SIZE + 1;
	assert_int_equal(found(base, &c, &version), 0);
	c.mapping_size = WIRE_CODE_SIZE;
	assert_int_equal(found(base, &c, &version), 0);
	c = good;
	c.code_start -= 0x1000;
	assert_int_equal(found(base, &c, &version), 0);
	c = good;
	c.ours.handler = c.code_end;
	assert_int_equal(found(base, &c, &version), 0);
	c = good;
	c.magic++;
	assert_int_equal(found(base, &c, &version), 0);
	assert_int_equal(found(base, &good, &version), 1);
	munmap(base, 2 * SIZE);
}

static void an_owner_is_known_by_number_and_start(void **state)
{
	struct wire_control c = { .owner_pid = getpid(), .owner_start = proc_start_time(getpid()) };
	pid_t pid;

	(void)state;
	assert_int_equal(placed_owner(&c, &pid), PLACED_OWNED);
	assert_int_equal(pid, getpid());
	assert_false(placed_looks_orphaned(&c));
	c.owner_start++; /* the number was given to another process since */
	assert_int_equal(placed_owner(&c, &pid), PLACED_ORPHAN);
	assert_int_equal(pid, 0);
	assert_true(placed_looks_orphaned(&c));
	c.heartbeat = monotonic_ns(); /* it may live where we cannot see it */
	assert_int_equal(placed_owner(&c, &pid), PLACED_SILENT);
	assert_false(placed_looks_orphaned(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_a_handler_shared_or_not),
		cmocka_unit_test(reports_another_version_without_believing_it),
		cmocka_unit_test(believes_no_lie_about_its_extent),
		cmocka_unit_test(an_owner_is_known_by_number_and_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
