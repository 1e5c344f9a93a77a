/* Values of calls as text: what C source would say, and never more than the log has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "watchctl/view/event/step_types.h"
#include "watchctl/view/event/step_value.h"

enum {
	T_INT,
	T_UCHAR,
	T_CHAR,
	T_BOOL,
	T_FLOAT,
	T_DOUBLE,
	T_LONG_DOUBLE,
	T_INT128,
	T_UINT128,
	T_COLOUR,
	T_FLAGS,
	T_NODE,
	T_NODE_POINTER,
	T_STRING,
	T_NUMBERS,
	T_NAME,
	T_BITS,
	T_EITHER,
	T_OUTER,
	T_VOID,
	T_VOID_POINTER,
	T_REGISTER,
	T_OPAQUE,
	T_LOOP,
	T_MANY,
	T_EMPTY,
	T_OPAQUE_POINTER,
	TYPES
};

static struct enumerator colours[] = { { (char *)"RED", 0 }, { (char *)"GREEN", 1 }, { (char *)"NONE", -1 } };
static struct enumerator flags[] = { { (char *)"READ", 1 }, { (char *)"WRITE", 2 }, { (char *)"EXEC", 8 } };
static const struct type_member node[] = { { "next", T_NODE_POINTER, 0, 0, 0 }, { "key", T_INT, 8, 0, 0 } };
static const struct type_member bits[] = { { "low", T_INT, 0, 0, 3 },
					   { "high", T_INT, 0, 3, 5 },
					   { "colour", T_COLOUR, 1, 0, 2 } };
static const struct type_member either[] = { { "number", T_INT, 0, 0, 0 }, { "f", T_FLOAT, 0, 0, 0 } };
static const struct type_member outer[] = { { "", T_BITS, 0, 0, 0 },
					    { "e", T_EITHER, 4, 0, 0 },
					    { "a", T_NUMBERS, 8, 0, 0 } };
static const struct type_member loop[] = { { "self", T_LOOP, 0, 0, 0 }, { "self2", T_LOOP, 0, 0, 0 } };

static const struct type_event all[TYPES] = {
	[T_INT] = { .kind = TYPE_SIGNED, .size = 4, .name = "int" },
	[T_UCHAR] = { .kind = TYPE_UNSIGNED, .size = 1, .name = "unsigned char" },
	[T_CHAR] = { .kind = TYPE_CHAR, .size = 1, .name = "char" },
	[T_BOOL] = { .kind = TYPE_BOOL, .size = 1, .name = "bool" },
	[T_FLOAT] = { .kind = TYPE_FLOAT, .size = 4, .name = "float" },
	[T_DOUBLE] = { .kind = TYPE_FLOAT, .size = 8, .name = "double" },
	[T_LONG_DOUBLE] = { .kind = TYPE_FLOAT, .size = 16, .name = "long double" },
	[T_INT128] = { .kind = TYPE_SIGNED, .size = 16, .name = "__int128" },
	[T_UINT128] = { .kind = TYPE_UNSIGNED, .size = 16, .name = "unsigned __int128" },
	[T_COLOUR] = { .kind = TYPE_ENUM,
		       .size = 4,
		       .is_signed = true,
		       .nenumerators = 3,
		       .enumerator = colours },
	[T_FLAGS] = { .kind = TYPE_ENUM, .size = 4, .nenumerators = 3, .enumerator = flags },
	[T_NODE] = { .kind = TYPE_STRUCT, .size = 16, .nmembers = 2, .member = node },
	[T_NODE_POINTER] = { .kind = TYPE_POINTER, .size = 8, .target = T_NODE },
	[T_STRING] = { .kind = TYPE_STRING, .size = 8, .target = T_CHAR },
	[T_NUMBERS] = { .kind = TYPE_ARRAY, .size = 12, .target = T_INT },
	[T_NAME] = { .kind = TYPE_ARRAY, .size = 8, .target = T_CHAR },
	[T_BITS] = { .kind = TYPE_STRUCT, .size = 4, .nmembers = 3, .member = bits },
	[T_EITHER] = { .kind = TYPE_UNION, .size = 4, .nmembers = 2, .member = either },
	[T_OUTER] = { .kind = TYPE_STRUCT, .size = 20, .nmembers = 3, .member = outer },
	[T_VOID] = { .kind = TYPE_VOID },
	[T_OPAQUE_POINTER] = { .kind = TYPE_POINTER, .size = 8, .target = T_OPAQUE },
	[T_VOID_POINTER] = { .kind = TYPE_POINTER, .size = 8, .target = T_VOID },
	[T_REGISTER] = { .kind = TYPE_REGISTER, .size = 8 },
	[T_OPAQUE] = { .kind = TYPE_UNKNOWN, .size = 12 },
	[T_LOOP] = { .kind = TYPE_STRUCT, .size = 8, .nmembers = 2, .member = loop },
	[T_EMPTY] = { .kind = TYPE_STRUCT, .size = 1 },
	[T_MANY] = { .kind = TYPE_ARRAY, .size = 1000, .target = T_UCHAR },
};

static struct step_types types;

static int setup(void **state)
{
	uint32_t i;

	for (i = 0; i < TYPES; i++) {
		struct type_event t = all[i];

		t.id = i;
		if (!step_types_add(&types, &t))
			return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	step_types_deinit(&types);
	return 0;
}

static const char *text_of(uint32_t type, const struct call_value *v)
{
	const struct step_values c = { step_types_lookup(&types), NULL };
	static char buf[2048];
	size_t n = step_value_text(&c, step_types_get(&types, type), v, buf, sizeof(buf));

	assert_int_equal(n, strlen(buf));
	return buf;
}

static struct call_value ok(const void *bytes, uint32_t size)
{
	return (struct call_value){ .state = VALUE_OK, .bytes = bytes, .size = size, .to_state = VALUE_NONE };
}

#define SHOWS(type, text, ...)                                      \
	do {                                                        \
		const __typeof__(__VA_ARGS__) bytes_ = __VA_ARGS__; \
		struct call_value v_ = ok(&bytes_, sizeof(bytes_)); \
		assert_string_equal(text_of(type, &v_), text);      \
	} while (0)

static void numbers(void **state)
{
	SHOWS(T_INT, "-12", (int){ -12 });
	SHOWS(T_UCHAR, "200", (uint8_t){ 200 });
	SHOWS(T_CHAR, "'a' (97)", (char){ 'a' });
	SHOWS(T_BOOL, "true", (uint8_t){ 1 });
	SHOWS(T_FLOAT, "0.1", (float){ 0.1f });
	SHOWS(T_DOUBLE, "-2.5e+300", (double){ -2.5e300 });
	SHOWS(T_DOUBLE, "0.1", (double){ 0.1 });
	SHOWS(T_LONG_DOUBLE, "0.1", (long double){ 0.1L });
	SHOWS(T_LONG_DOUBLE, "1e+4000", (long double){ 1e4000L });
	SHOWS(T_INT128, "-170141183460469231731687303715884105728",
	      (__int128){ (__int128)((unsigned __int128)1 << 127) });
	SHOWS(T_UINT128, "340282366920938463463374607431768211455", (unsigned __int128){ -1 });
	SHOWS(T_INT128, "0", (__int128){ 0 });
	SHOWS(T_REGISTER, "0x7fffdeadbeef", (uint64_t){ 0x7fffdeadbeef });
}

static void enumerators(void **state)
{
	SHOWS(T_COLOUR, "GREEN", (int){ 1 });
	SHOWS(T_COLOUR, "NONE", (int){ -1 });
	SHOWS(T_COLOUR, "7", (int){ 7 });
	SHOWS(T_FLAGS, "READ|EXEC", (int){ 9 });
	SHOWS(T_FLAGS, "READ|0x4", (int){ 5 });
}

struct node {
	uint64_t next;
	int32_t key, pad;
};

static void structs_and_arrays(void **state)
{
	const uint8_t whole[20] = { 0x2d, 1, 0, 0, 0, 0, 0x80, 0x3f, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0 };
	struct call_value v = ok(whole, 20);

	SHOWS(T_NODE, "{next = 0x10, key = -3}", (struct node){ 0x10, -3, 0 });
	/* 0x2d: low is 101 = -3 in three bits, high is 00101. */
	assert_string_equal(text_of(T_OUTER, &v), "{{low = -3, high = 5, colour = GREEN}, "
						  "e = {number = 1065353216, f = 1}, a = {1, 2, 3}}");
	SHOWS(T_EMPTY, "{}", (char){ 'x' });
	v = ok("ab\nc\0\0\0", 8);
	assert_string_equal(text_of(T_NAME, &v), "\"ab\\nc\"");
	v = ok("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c", 12);
	assert_string_equal(text_of(T_OPAQUE, &v), "<01 02 03 04 05 06 07 08 09 0a 0b 0c>");
}

static struct call_value pointer(const uint64_t *p, enum value_state state, const void *to, uint32_t n)
{
	return (struct call_value){ .state = VALUE_OK,
				    .bytes = (const uint8_t *)p,
				    .size = 8,
				    .to_state = state,
				    .to = to,
				    .to_len = n };
}

static void pointers_and_what_they_point_to(void **state)
{
	const uint64_t p = 0x5555, null = 0;
	const struct node n = { 0, 42, 0 };
	struct call_value v = pointer(&p, VALUE_OK, &n, 16);

	assert_string_equal(text_of(T_NODE_POINTER, &v), "0x5555 -> {next = NULL, key = 42}");
	v = pointer(&p, VALUE_UNREADABLE, NULL, 0);
	assert_string_equal(text_of(T_NODE_POINTER, &v), "0x5555 -> <unreadable>");
	v = pointer(&p, VALUE_NONE, NULL, 0);
	assert_string_equal(text_of(T_NODE_POINTER, &v), "0x5555");
	v = pointer(&null, VALUE_NULL, NULL, 0);
	assert_string_equal(text_of(T_NODE_POINTER, &v), "NULL");
	/* What was recorded ends in the middle. */
	v = pointer(&p, VALUE_CUT, &n, 8);
	assert_string_equal(text_of(T_NODE_POINTER, &v), "0x5555 -> {next = NULL, ...}");
	v = pointer(&p, VALUE_CUT, &n, 10);
	assert_string_equal(text_of(T_NODE_POINTER, &v), "0x5555 -> {next = NULL, key = ...}");
	v = pointer(&p, VALUE_CUT, "\x01\x02\x03", 3);
	assert_string_equal(text_of(T_OPAQUE_POINTER, &v), "0x5555 -> <01 02 03 ...>");
	v = pointer(&p, VALUE_OK, "\xde\xad", 2);
	assert_string_equal(text_of(T_VOID_POINTER, &v), "0x5555 -> 0xadde");
}

static void strings_are_escaped_as_in_c(void **state)
{
	static const char all_kinds[] = "a\"b\\c\n\t\x01\x7f\xff"
					"9\303\244\302\205";
	const uint64_t p = 0x5555, null = 0;
	struct call_value v = pointer(&p, VALUE_OK, all_kinds, sizeof(all_kinds) - 1);

	assert_string_equal(text_of(T_STRING, &v), "\"a\\\"b\\\\c\\n\\t\\001\\177\\3779\303\244\\302\\205\"");
	v = pointer(&p, VALUE_CUT, "abc", 3);
	assert_string_equal(text_of(T_STRING, &v), "\"abc\"...");
	v = pointer(&p, VALUE_OK, NULL, 0);
	assert_string_equal(text_of(T_STRING, &v), "\"\"");
	v = pointer(&p, VALUE_UNREADABLE, NULL, 0);
	assert_string_equal(text_of(T_STRING, &v), "0x5555 <unreadable>");
	v = pointer(&null, VALUE_NULL, NULL, 0);
	assert_string_equal(text_of(T_STRING, &v), "NULL");
}

static void what_is_not_known_is_said(void **state)
{
	struct call_value v = { .state = VALUE_OPTIMIZED_OUT };

	assert_string_equal(text_of(T_INT, &v), "<optimised out>");
	v.state = VALUE_UNREADABLE;
	assert_string_equal(text_of(T_INT, &v), "<unreadable>");
	v.state = VALUE_NONE;
	assert_string_equal(text_of(NO_TYPE, &v), "<not recorded>");
}

/* Types of a damaged log may contain themselves. */
static void a_type_that_contains_itself_comes_to_an_end(void **state)
{
	const uint64_t p = 1;
	struct call_value v = ok(&p, 8);
	const char *text = text_of(T_LOOP, &v);

	assert_non_null(strstr(text, "..."));
	assert_true(strlen(text) < 2048);
}

static void a_text_that_does_not_fit_says_so(void **state)
{
	const struct step_values c = { step_types_lookup(&types), NULL };
	const uint64_t p = 0x5555;
	struct call_value v = pointer(&p, VALUE_OK, "\303\244\303\244\303\244\303\244", 8);
	char buf[64];
	size_t cap, n;

	for (cap = 1; cap < sizeof(buf); cap++) {
		memset(buf, 'x', sizeof(buf));
		n = step_value_text(&c, step_types_get(&types, T_STRING), &v, buf, cap);
		assert_int_equal(n, strlen(buf));
		assert_true(strlen(buf) < cap);
		if (cap >= 4 && cap <= 10)
			assert_string_equal(buf + strlen(buf) - 3, "...");
	}
	assert_string_equal(buf, "\"\303\244\303\244\303\244\303\244\"");
}

static void long_arrays_are_cut(void **state)
{
	uint8_t *bytes = calloc(1, 1000);
	struct call_value v = ok(bytes, 1000);

	assert_string_equal(
		text_of(T_MANY, &v),
		"{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
		"0, 0, 0, 0, ...}");
	free(bytes);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(enumerators),
		cmocka_unit_test(structs_and_arrays),
		cmocka_unit_test(pointers_and_what_they_point_to),
		cmocka_unit_test(strings_are_escaped_as_in_c),
		cmocka_unit_test(what_is_not_known_is_said),
		cmocka_unit_test(a_type_that_contains_itself_comes_to_an_end),
		cmocka_unit_test(a_text_that_does_not_fit_says_so),
		cmocka_unit_test(long_arrays_are_cut),
	};

	return cmocka_run_group_tests_name("step_value", tests, setup, teardown);
}
