#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/step/insn/fetch_run.h"
#include "watchctl/trace/call_values.h"

#define PAGE 4096u

/* Three pages: the middle one and the last one are there, the first is not, and nothing behind them. */
#define START 0x10000u
#define HOLE_END (START + PAGE)
#define END (START + 3 * PAGE)

struct scene {
	uint8_t memory[3 * PAGE];
	unsigned int reads;
	uint64_t vector_asked;
	struct regs regs;
	struct fetch_source source;
	struct fetch_list list;
	struct fetched got;
};

static bool scene_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct scene *s = ctx;

	s->reads++;
	if (addr < HOLE_END || addr >= END || len > END - addr)
		return false;
	memcpy(buf, s->memory + (addr - START), len);
	return true;
}

static bool scene_vector(void *ctx, unsigned int reg, uint8_t ret[64])
{
	struct scene *s = ctx;

	s->vector_asked++;
	for (unsigned int i = 0; i < 64; i++)
		ret[i] = (uint8_t)(reg * 64 + i);
	return reg < 4;
}

static bool scene_x87(void *ctx, unsigned int reg, uint8_t ret[10])
{
	(void)ctx;
	memset(ret, (int)(0x70 + reg), 10);
	return true;
}

static int begin(void **state)
{
	static struct scene s;

	memset(&s, 0, sizeof(s));
	memset(s.memory, 'x', sizeof(s.memory));
	memset(&s.got, 0xee, sizeof(s.got));
	s.source = (struct fetch_source){ .regs = &s.regs,
					  .entry_sp = HOLE_END + 0x100,
					  .memory = { scene_read, &s },
					  .vector = scene_vector,
					  .x87 = scene_x87,
					  .ctx = &s };
	*state = &s;
	return 0;
}

static void add(struct scene *s, struct fetch f)
{
	s->list.v[s->list.n++] = f;
}

static void run(struct scene *s)
{
	fetch_run(&s->list, &s->source, &s->got);
	assert_int_equal(s->got.n, s->list.n);
}

static void put(struct scene *s, uint64_t addr, const void *bytes, size_t len)
{
	memcpy(s->memory + (addr - START), bytes, len);
}

static void check(const struct scene *s, unsigned int i, enum value_state state, const void *bytes,
		  size_t len)
{
	assert_int_equal(s->got.state[i], state);
	if (state != VALUE_OK && state != VALUE_CUT)
		return;
	assert_int_equal(s->got.len[i], len);
	assert_memory_equal(s->got.bytes + s->got.at[i], bytes, len);
}

static void registers_give_their_low_bytes(void **state)
{
	static const uint8_t padded[16] = { 0x72, 0x72, 0x72, 0x72, 0x72, 0x72, 0x72, 0x72, 0x72, 0x72 };
	struct scene *s = *state;
	uint8_t vector[64];

	s->regs.r[WREG_RDI] = 0x8877665544332211u;
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RDI, .len = 4 });
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RDI, .len = 2, .offset = 4 });
	add(s, (struct fetch){ .op = FETCH_XMM, .reg = 2, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_XMM, .reg = 1, .len = 4, .offset = 8 });
	add(s, (struct fetch){ .op = FETCH_YMM, .reg = 3, .len = 32 });
	add(s, (struct fetch){ .op = FETCH_X87, .reg = 2, .len = 16 });
	run(s);
	check(s, 0, VALUE_OK, "\x11\x22\x33\x44", 4);
	check(s, 1, VALUE_OK, "\x55\x66", 2);
	scene_vector(s, 2, vector);
	check(s, 2, VALUE_OK, vector, 8);
	scene_vector(s, 1, vector);
	check(s, 3, VALUE_OK, vector + 8, 4);
	scene_vector(s, 3, vector);
	check(s, 4, VALUE_OK, vector, 32);
	check(s, 5, VALUE_OK, padded, 16);
	assert_int_equal(s->reads, 0);
}

static void what_is_not_known_is_not_made_up(void **state)
{
	struct scene *s = *state;

	add(s, (struct fetch){ .op = FETCH_XMM, .reg = 5, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_ERRNO });
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = 200, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RAX, .len = 8, .offset = 1 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 4, .len = 8 });
	add(s, (struct fetch){ .op = 99, .len = 8 });
	run(s);
	for (unsigned int i = 0; i < s->list.n; i++)
		check(s, i, VALUE_NONE, NULL, 0);
	s->source.vector = NULL;
	s->source.x87 = NULL;
	s->list.n = 0;
	add(s, (struct fetch){ .op = FETCH_XMM, .reg = 0, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_X87, .reg = 0, .len = 16 });
	run(s);
	check(s, 0, VALUE_NONE, NULL, 0);
	check(s, 1, VALUE_NONE, NULL, 0);
}

static void stack_parameters_are_one_read(void **state)
{
	struct scene *s = *state;

	put(s, s->source.entry_sp + 8, "abcdefghABCDEFGH", 16);
	add(s, (struct fetch){ .op = FETCH_STACK, .len = 8, .offset = 8 });
	add(s, (struct fetch){ .op = FETCH_STACK, .len = 4, .offset = 16 });
	add(s, (struct fetch){ .op = FETCH_STACK, .len = 2, .offset = 20 });
	run(s);
	check(s, 0, VALUE_OK, "abcdefgh", 8);
	check(s, 1, VALUE_OK, "ABCD", 4);
	check(s, 2, VALUE_OK, "EF", 2);
	assert_int_equal(s->reads, 1);
}

static void of_stack_parameters_those_that_can_be_read_are(void **state)
{
	struct scene *s = *state;

	s->source.entry_sp = END - 16;
	put(s, END - 8, "12345678", 8);
	add(s, (struct fetch){ .op = FETCH_STACK, .len = 8, .offset = 8 });
	add(s, (struct fetch){ .op = FETCH_STACK, .len = 8, .offset = 16 });
	add(s, (struct fetch){ .op = FETCH_STACK, .len = 8, .offset = 0x7fff0000 });
	run(s);
	check(s, 0, VALUE_OK, "12345678", 8);
	check(s, 1, VALUE_UNREADABLE, NULL, 0);
	check(s, 2, VALUE_UNREADABLE, NULL, 0);
}

static void pointers_are_followed_in_chains(void **state)
{
	struct scene *s = *state;
	uint64_t first = HOLE_END + 0x200, second = HOLE_END + 0x300, null = 0;

	s->regs.r[WREG_RSI] = first;
	put(s, first + 16, &second, 8);
	put(s, first + 24, &null, 8);
	put(s, second, "hello", 6);
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RSI, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 0, .len = 8, .offset = 16 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 1, .len = 100 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 0, .len = 8, .offset = 24 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 3, .len = 100 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 4, .len = 8 });
	run(s);
	check(s, 1, VALUE_OK, &second, 8);
	check(s, 2, VALUE_OK, "hello", 5);
	check(s, 4, VALUE_NULL, NULL, 0);
	check(s, 5, VALUE_NONE, NULL, 0);
}

static void holes_are_unreadable_and_so_is_what_lies_behind(void **state)
{
	struct scene *s = *state;

	s->regs.r[WREG_RDI] = START + 8;
	s->regs.r[WREG_RSI] = HOLE_END - 4;
	s->regs.r[WREG_RDX] = UINT64_MAX - 3;
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RDI, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 0, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 0, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 1, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RSI, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 4, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RDX, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 6, .len = 64 });
	run(s);
	check(s, 1, VALUE_UNREADABLE, NULL, 0);
	check(s, 2, VALUE_UNREADABLE, NULL, 0);
	check(s, 3, VALUE_UNREADABLE, NULL, 0);
	check(s, 5, VALUE_UNREADABLE, NULL, 0);
	check(s, 7, VALUE_UNREADABLE, NULL, 0);
}

static void string_at(struct scene *s, uint64_t address, uint16_t len)
{
	s->regs.r[WREG_RDI] = address;
	s->list.n = 0;
	s->reads = 0;
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RDI, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 0, .len = len });
	run(s);
}

static void a_string_at_the_end_of_memory_is_whole(void **state)
{
	struct scene *s = *state;

	put(s, END - 6, "tail!", 6);
	string_at(s, END - 6, 1000);
	check(s, 1, VALUE_OK, "tail!", 5);
	put(s, END - PAGE - 3, "across", 7);
	string_at(s, END - PAGE - 3, 1000);
	check(s, 1, VALUE_OK, "across", 6);
	assert_int_equal(s->reads, 1);
	put(s, END - 1, "", 1);
	string_at(s, END - 1, 1000);
	check(s, 1, VALUE_OK, "", 0);
	/* It does not end before memory does. */
	put(s, END - 4, "open", 4);
	string_at(s, END - 4, 1000);
	check(s, 1, VALUE_CUT, "open", 4);
}

static void a_string_is_cut_where_it_is_longer_only(void **state)
{
	struct scene *s = *state;

	put(s, HOLE_END, "12345678", 9);
	string_at(s, HOLE_END, 7);
	check(s, 1, VALUE_CUT, "1234567", 7);
	string_at(s, HOLE_END, 8);
	check(s, 1, VALUE_OK, "12345678", 8);
	string_at(s, HOLE_END, 9);
	check(s, 1, VALUE_OK, "12345678", 8);
	string_at(s, HOLE_END, 0);
	check(s, 1, VALUE_CUT, "", 0);
	s->memory[PAGE] = '\0';
	string_at(s, HOLE_END, 0);
	check(s, 1, VALUE_OK, "", 0);
}

/* The third has no room; the fourth fits into what is left. */
static void what_does_not_fit_is_none(void **state)
{
	struct scene *s = *state;

	s->regs.r[WREG_RDI] = HOLE_END;
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RDI, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 0, .len = 4000 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 0, .len = 200 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 0, .len = 200 });
	add(s, (struct fetch){ .op = FETCH_MEMORY, .base = 0, .len = 88 });
	add(s, (struct fetch){ .op = FETCH_GPR, .reg = WREG_RDI, .len = 8 });
	add(s, (struct fetch){ .op = FETCH_STRING, .base = 0, .len = 8 });
	run(s);
	check(s, 1, VALUE_OK, s->memory + PAGE, 4000);
	check(s, 2, VALUE_NONE, NULL, 0);
	check(s, 3, VALUE_NONE, NULL, 0);
	check(s, 4, VALUE_OK, s->memory + PAGE, 88);
	check(s, 5, VALUE_NONE, NULL, 0);
	check(s, 6, VALUE_NONE, NULL, 0);
	assert_int_equal(s->got.nbytes, PLAN_BYTES);
}

static void errno_is_that_of_the_thread(void **state)
{
	struct scene *s = *state;

	put(s, HOLE_END + 0x80, "\x02\0\0\0", 4);
	s->source.errno_address = HOLE_END + 0x80;
	add(s, (struct fetch){ .op = FETCH_ERRNO });
	run(s);
	check(s, 0, VALUE_OK, "\x02\0\0\0", 4);
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(registers_give_their_low_bytes),
		TEST(what_is_not_known_is_not_made_up),
		TEST(stack_parameters_are_one_read),
		TEST(of_stack_parameters_those_that_can_be_read_are),
		TEST(pointers_are_followed_in_chains),
		TEST(holes_are_unreadable_and_so_is_what_lies_behind),
		TEST(a_string_at_the_end_of_memory_is_whole),
		TEST(a_string_is_cut_where_it_is_longer_only),
		TEST(what_does_not_fit_is_none),
		TEST(errno_is_that_of_the_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
