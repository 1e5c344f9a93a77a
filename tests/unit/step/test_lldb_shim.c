/* The shim as a plain C program uses it, on that program itself: the compiler is the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/lldb_leaks.h"
#include "watchctl/step/lldb/lldb_shim.h"

enum shim_color { SHIM_RED = -3, SHIM_BLUE = 12 };

struct shim_inner {
	short a;
	long double b;
};

struct shim_all {
	char c;
	unsigned char u;
	_Bool yes;
	float f;
	unsigned int low : 3, high : 29;
	struct shim_inner inner[2];
	union {
		long l;
		double d;
	};
	const char *text;
	struct shim_all *next;
	int (*code)(int);
	enum shim_color color;
};

typedef unsigned long shim_number;
struct shim_only_declared;

__attribute__((noinline, used)) static shim_number shim_target(const struct shim_all *all, const char *text,
							       char **texts, enum shim_color color, void *any,
							       struct shim_only_declared *declared)
{
	__asm__ volatile("" ::: "memory");
	return (shim_number)(all != NULL) + (text != NULL) + (texts != NULL) + color + (any != NULL) +
	       (declared != NULL);
}

struct own {
	struct lldb_session *session;
	struct lldb_module *module;
	struct module m;
	const struct lldb_function *target;
};

static struct own own;

static int open_own(void **state)
{
	static struct module_list l;
	const struct module *m;

	(void)state;
	assert_null(module_list_read(getpid(), &l));
	m = module_find(&l, (uintptr_t)shim_target);
	assert_non_null(m);
	own.m = *m;
	assert_null(lldb_session_open("/proc/self/exe", &own.session));
	assert_null(lldb_session_module(own.session, m, &own.module));
	assert_non_null(own.module);
	assert_null(lldb_module_function(own.module, (uintptr_t)shim_target - m->bias, &own.target));
	assert_non_null(own.target);
	return 0;
}

static int close_own(void **state)
{
	(void)state;
	lldb_session_close(own.session);
	lldb_session_close(NULL);
	return 0;
}

static const struct lldb_type_info *param(unsigned int i)
{
	return lldb_type_info(own.target->param[i].type);
}

static void a_function_is_reported_with_its_parameters(void **state)
{
	static const char *const name[] = { "all", "text", "texts", "color", "any", "declared" };
	static const char *const type[] = {
		"const struct shim_all *", "const char *", "char **",
		"enum shim_color",	   "void *",	   "struct shim_only_declared *"
	};

	(void)state;
	assert_string_equal(own.target->name, "shim_target");
	assert_non_null(strstr(own.target->file, "test_lldb_shim.c"));
	assert_true(own.target->line > 40 && own.target->line < 60);
	assert_int_equal(own.target->language, LLDB_LANGUAGE_C);
	assert_int_equal(own.target->nparams, 6);
	for (unsigned int i = 0; i < 6; i++) {
		assert_string_equal(own.target->param[i].name, name[i]);
		assert_string_equal(param(i)->name, type[i]);
	}
	assert_string_equal(lldb_type_info(own.target->result)->name, "shim_number");
	assert_int_equal(lldb_type_info(own.target->result)->kind, TYPE_UNSIGNED);
	assert_int_equal(lldb_type_info(own.target->result)->size, sizeof(shim_number));
}

static void strings_are_pointers_to_characters_only(void **state)
{
	(void)state;
	assert_int_equal(param(0)->kind, TYPE_POINTER);
	assert_int_equal(param(1)->kind, TYPE_STRING);
	assert_int_equal(param(2)->kind, TYPE_POINTER);
	assert_int_equal(lldb_type_info(param(2)->target)->kind, TYPE_STRING);
	assert_int_equal(param(4)->kind, TYPE_POINTER);
	assert_null(param(4)->target);
	assert_true(lldb_type_info(param(5)->target)->is_incomplete);
}

static void check_member(const struct lldb_type_info *i, unsigned int k, const char *name,
			 enum type_kind kind, size_t offset, size_t size)
{
	assert_string_equal(i->member[k].name, name);
	assert_int_equal(i->member[k].offset, offset);
	assert_int_equal(lldb_type_info(i->member[k].type)->kind, kind);
	assert_int_equal(lldb_type_info(i->member[k].type)->size, size);
}

static void a_struct_is_reported_as_the_compiler_has_it(void **state)
{
	const struct lldb_type_info *i = lldb_type_info(param(0)->target), *inner;
	const struct lldb_type *again;
	struct shim_all all;

	(void)state;
	assert_int_equal(i->kind, TYPE_STRUCT);
	assert_int_equal(i->size, sizeof(struct shim_all));
	assert_int_equal(i->nmembers, 12);
	check_member(i, 0, "c", TYPE_CHAR, offsetof(struct shim_all, c), 1);
	check_member(i, 1, "u", TYPE_UNSIGNED, offsetof(struct shim_all, u), 1);
	check_member(i, 2, "yes", TYPE_BOOL, offsetof(struct shim_all, yes), 1);
	check_member(i, 3, "f", TYPE_FLOAT, offsetof(struct shim_all, f), 4);
	check_member(i, 6, "inner", TYPE_ARRAY, offsetof(struct shim_all, inner), sizeof(all.inner));
	check_member(i, 7, "", TYPE_UNION, offsetof(struct shim_all, l), sizeof(long));
	check_member(i, 8, "text", TYPE_STRING, offsetof(struct shim_all, text), sizeof(char *));
	check_member(i, 9, "next", TYPE_POINTER, offsetof(struct shim_all, next), sizeof(void *));
	check_member(i, 10, "code", TYPE_POINTER, offsetof(struct shim_all, code), sizeof(void *));
	check_member(i, 11, "color", TYPE_ENUM, offsetof(struct shim_all, color), sizeof(all.color));
	inner = lldb_type_info(lldb_type_info(i->member[6].type)->target);
	check_member(inner, 1, "b", TYPE_FLOAT, offsetof(struct shim_inner, b), sizeof(long double));
	assert_int_equal(lldb_type_info(lldb_type_info(i->member[10].type)->target)->kind, TYPE_CODE);
	/* The same type is the same handle, also through itself. */
	again = lldb_type_info(i->member[9].type)->target;
	assert_ptr_equal(lldb_type_info(lldb_type_info(again)->member[9].type)->target, again);
}

/* What the compiler stores is what reading by the told offsets gives. */
static void bit_fields_are_where_the_compiler_puts_them(void **state)
{
	const struct lldb_type_info *i = lldb_type_info(param(0)->target);
	struct shim_all all;
	uint32_t unit, low, high;

	(void)state;
	memset(&all, 0xff, sizeof(all));
	all.low = 5;
	all.high = 0x1234567;
	assert_int_equal(i->member[4].bit_size, 3);
	assert_int_equal(i->member[5].bit_size, 29);
	memcpy(&unit, (char *)&all + i->member[4].offset, 4);
	low = unit >> i->member[4].bit_offset & 7;
	memcpy(&unit, (char *)&all + i->member[5].offset, 4);
	high = unit >> i->member[5].bit_offset & 0x1fffffff;
	assert_int_equal(low, 5);
	assert_int_equal(high, 0x1234567);
}

static void an_enumeration_has_its_names(void **state)
{
	const struct lldb_type_info *i = param(3);

	(void)state;
	assert_int_equal(i->kind, TYPE_ENUM);
	assert_true(i->is_signed);
	assert_int_equal(i->nenumerators, 2);
	assert_string_equal(i->enumerator[0].name, "SHIM_RED");
	assert_int_equal(i->enumerator[0].value, SHIM_RED);
	assert_int_equal(i->enumerator[1].value, SHIM_BLUE);
}

static bool find_target(void *ctx, const struct lldb_symbol *s)
{
	struct lldb_symbol *found = ctx;

	if (s->address == (uintptr_t)shim_target - own.m.bias)
		*found = *s;
	return true;
}

static bool refuse(void *ctx, const struct lldb_symbol *s)
{
	(void)s;
	++*(int *)ctx;
	return false;
}

static void symbols_are_reported_and_may_be_refused(void **state)
{
	struct lldb_symbol s = { 0 };
	struct wc_error *err;
	int calls = 0;

	(void)state;
	assert_null(lldb_module_symbols(own.module, find_target, &s));
	assert_string_equal(s.name, "shim_target");
	assert_true(s.size > 0);
	err = lldb_module_symbols(own.module, refuse, &calls);
	assert_ptr_equal(err, &wc_enomem);
	assert_int_equal(calls, 1);
}

static void no_function_is_reported_where_none_is(void **state)
{
	const struct lldb_function *f = own.target;

	(void)state;
	assert_null(lldb_module_function(own.module, 1, &f));
	assert_null(f);
}

static void the_vdso_is_a_module_like_others(void **state)
{
	struct module_list l = { 0 };
	struct lldb_module *m = NULL;
	const struct module *vdso;
	int calls = 0;

	(void)state;
	assert_null(module_list_read(getpid(), &l));
	vdso = module_by_name(&l, "[vdso]");
	assert_non_null(vdso);
	assert_null(lldb_session_module(own.session, vdso, &m));
	assert_non_null(m);
	wc_error_free(lldb_module_symbols(m, refuse, &calls));
	assert_int_equal(calls, 1);
	module_list_deinit(&l);
}

static void a_file_that_is_no_program_is_an_error(void **state)
{
	struct module none = { .path = "/etc/passwd" };
	struct lldb_session *s = NULL;
	struct lldb_module *m = own.module;
	struct wc_error *err = lldb_session_open("/etc/passwd", &s);

	(void)state;
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	assert_null(s);
	wc_error_free(err);
	assert_null(lldb_session_module(own.session, &none, &m));
	assert_null(m);
}

static void the_version_is_reported(void **state)
{
	(void)state;
	assert_int_equal(strncmp(lldb_shim_version(), "LLDB 1", 6), 0);
	assert_true(strlen(lldb_shim_version()) < 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_is_reported_with_its_parameters),
		cmocka_unit_test(strings_are_pointers_to_characters_only),
		cmocka_unit_test(a_struct_is_reported_as_the_compiler_has_it),
		cmocka_unit_test(bit_fields_are_where_the_compiler_puts_them),
		cmocka_unit_test(an_enumeration_has_its_names),
		cmocka_unit_test(symbols_are_reported_and_may_be_refused),
		cmocka_unit_test(no_function_is_reported_where_none_is),
		cmocka_unit_test(the_vdso_is_a_module_like_others),
		cmocka_unit_test(a_file_that_is_no_program_is_an_error),
		cmocka_unit_test(the_version_is_reported),
	};

	if (strcmp(lldb_shim_version(), "none") == 0) {
		print_message("skipped: built without LLDB\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, open_own, close_own);
}
