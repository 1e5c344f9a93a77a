/* The built-in prototypes, against the debug information of the C library itself (package libc6-dbg). */
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/lldb_leaks.h"
#include "watchctl/step/lldb/lldb_shim.h"
#include "watchctl/step/lldb/prototypes.h"

static void all_can_be_parsed_and_are_in_order(void **state)
{
	char before[PROTOTYPE_TEXT_MAX] = "";
	struct prototype p;
	const char *name;
	unsigned int n = 0;

	(void)state;
	for (; (name = prototype_name(n)); n++) {
		assert_true(strcmp(before, name) < 0);
		snprintf(before, sizeof(before), "%s", name);
		if (!prototype_find(before, &p))
			fail_msg("%s cannot be parsed", before);
		for (unsigned int i = 0; i < p.nparams; i++)
			assert_true(p.param[i].type.size > 0);
		assert_true(p.fails == PROTOTYPE_FAILS_NEVER || p.result.kind != TYPE_VOID);
	}
	assert_true(n > 250);
}

static void types_are_those_of_the_declaration(void **state)
{
	struct prototype p;

	(void)state;
	assert_true(prototype_find("pread", &p));
	assert_int_equal(p.nparams, 4);
	assert_string_equal(p.param[0].name, "fd");
	assert_int_equal(p.param[0].type.kind, TYPE_SIGNED);
	assert_string_equal(p.param[1].type.name, "void *");
	assert_int_equal(p.param[1].type.kind, TYPE_POINTER);
	assert_int_equal(p.param[3].type.size, 8);
	assert_string_equal(p.result.name, "ssize_t");
	assert_int_equal(p.fails, PROTOTYPE_FAILS_MINUS_ONE);
	assert_true(prototype_find("fgets", &p));
	assert_int_equal(p.result.kind, TYPE_STRING);
	assert_int_equal(p.param[0].type.kind, TYPE_POINTER);
	assert_true(prototype_find("strncmp", &p));
	assert_int_equal(p.param[0].type.kind, TYPE_POINTER);
	assert_string_equal(p.param[0].type.name, "const char *");
	assert_true(prototype_find("printf", &p));
	assert_int_equal(p.nparams, 1);
	assert_false(prototype_find("prin", &p));
	assert_false(prototype_find("printf2", &p));
	assert_false(prototype_find("", &p));
}

/* How a value travels: what two descriptions of it must agree on. */
static const char *manner(enum type_kind kind)
{
	switch (kind) {
	case TYPE_VOID:
		return "void";
	case TYPE_FLOAT:
		return "float";
	case TYPE_POINTER:
	case TYPE_STRING:
		return "pointer";
	case TYPE_UNION: /* of pointers: how <sys/socket.h> declares addresses */
		return "pointer";
	default:
		return "integer";
	}
}

static bool agree(const struct prototype_type *t, const struct lldb_type *truth, const char *name,
		  const char *of)
{
	const struct lldb_type_info *info = lldb_type_info(truth);

	/* va_list is an array, which as a parameter is a pointer. */
	if (strcmp(manner(t->kind), manner(info->kind)) == 0 && t->size == info->size)
		return true;
	print_error("%s, %s: %s of %u bytes, in truth %s of %u\n", name, of, t->name, t->size, info->name,
		    info->size);
	return false;
}

static unsigned int disagreements(const struct prototype *p, const struct lldb_function *f, const char *name)
{
	unsigned int n = f->nparams != p->nparams;

	if (n)
		print_error("%s: %u parameters, in truth %u\n", name, p->nparams, f->nparams);
	for (unsigned int i = 0; i < p->nparams && i < f->nparams; i++)
		n += !agree(&p->param[i].type, f->param[i].type, name, p->param[i].name);
	if (f->result)
		n += !agree(&p->result, f->result, name, "result");
	return n;
}

struct truth {
	struct lldb_module *module;
	unsigned int compared, wrong;
};

/* Compilers' own helpers and aliases for other types have the name, but not the debug information, of it. */
static bool compare_symbol(void *ctx, const struct lldb_symbol *s)
{
	struct truth *t = ctx;
	const struct lldb_function *f = NULL;
	struct prototype p;

	if (!s->name || s->is_resolver || !prototype_find(s->name, &p))
		return true;
	assert_null(lldb_module_function(t->module, s->address, &f));
	if (!f)
		return true;
	t->compared++;
	t->wrong += disagreements(&p, f, s->name);
	return true;
}

static struct truth compare_library(const char *path)
{
	struct module m = { .path = (char *)path, .open_path = (char *)path };
	struct truth t = { 0 };
	struct lldb_session *s;

	assert_null(lldb_session_open(path, &s));
	assert_null(lldb_session_module(s, &m, &t.module));
	assert_non_null(t.module);
	assert_null(lldb_module_symbols(t.module, compare_symbol, &t));
	lldb_session_close(s);
	return t;
}

static void compare_library_of(void *function)
{
	Dl_info info;
	struct truth t;

	if (strcmp(lldb_shim_version(), "none") == 0) {
		print_message("skipped: built without LLDB\n");
		skip();
	}
	assert_true(dladdr(function, &info));
	t = compare_library(info.dli_fname);
	if (!t.compared) {
		print_message("skipped: no debug information about %s is installed (libc6-dbg)\n",
			      info.dli_fname);
		skip();
	}
	print_message("%s: %u functions compared\n", info.dli_fname, t.compared);
	assert_int_equal(t.wrong, 0);
}

static void libc_agrees(void **state)
{
	(void)state;
	compare_library_of((void *)(uintptr_t)getppid); /* which sanitizers leave alone */
}

static void libm_agrees(void **state)
{
	(void)state;
	compare_library_of(dlsym(dlopen("libm.so.6", RTLD_NOW), "cbrt"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_can_be_parsed_and_are_in_order),
		cmocka_unit_test(types_are_those_of_the_declaration),
		cmocka_unit_test(libc_agrees),
		cmocka_unit_test(libm_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
