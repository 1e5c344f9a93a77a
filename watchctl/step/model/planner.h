/*
 * planner - what is known about the functions of a program: where they are, what they take and return. The
 * seam between the step recorder and LLDB (watchctl/step/lldb/planner_lldb.c); tests put a script in its place.
 *
 * Addresses are those of the process at that moment (runtime addresses), unless said otherwise.
 */
#ifndef WATCHCTL_STEP_MODEL_PLANNER_H
#define WATCHCTL_STEP_MODEL_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/insn/result_use.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/step/insn/plan.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/event.h"

/* A function of a module, or a stub through which a module calls another one's (PLT). */
struct planner_function {
	uint64_t address;
	uint64_t size;	  /* 0: not known */
	const char *name; /* demangled; NULL: not known. Lives as long as the planner. Of a stub: of what it
			     leads to */
	bool is_stub; /* the address is that of the stub: each call through it is one of the function @name */
	/* Of an indirect function, or one that a module holds a pointer to in its GOT: the stub is its own
	 * entry. */
	bool by_pointer;
};

struct planner_list {
	struct planner_function *v; /* by address, each address once; the receiver frees v */
	size_t n;
};

/*
 * All about one function. Owned by the planner, and valid as long as it is. `function.id` and type ids are
 * the planner's: dense from 0, each type and function told once by type() below.
 */
struct function_plan {
	struct function_event function; /* without id */
	struct step_plan plan;
	struct param_recipe recipe[FUNCTION_PARAMS_MAX]; /* as many as function.nparams */
	struct param_recipe result;			 /* state VALUE_NONE: void, or not known */
	/*
	 * It has a result, by what is known of it: each call has one, whether anybody reads it or not. False: what
	 * is found in its register may be left over from something else.
	 */
	bool sets_result;
	/* For FUNCTION_OVER: by what result it says that it failed and errno has the reason. */
	enum { FAILS_NEVER, FAILS_MINUS_ONE, FAILS_NULL } fails;
	const char *note; /* something a user should know about what is missing: "optimised out: n, flags";
			     NULL */
};

struct planner;

#define PLANNER_POINTEE_MAX CALL_POINTEE_MAX

struct planner_options {
	uint32_t string_max;  /* bytes of a string, 1..PLANNER_POINTEE_MAX */
	uint32_t pointee_max; /* bytes of what another pointer points to, 0..PLANNER_POINTEE_MAX; 0: not
			       * followed
			       */
	/* Of the process, for the pointers in a GOT; outlives the planner. read NULL: none, functions are
	 * found by their names then. */
	struct memory_view memory;
};

struct planner_ops {
	const char *name; /* "lldb" */
	/* "LLDB 19.1.7". Constant. */
	const char *(*version)(void);
	/*
	 * @exe: the program's file, by a path that we can open. WC_ENOTSUP: there is no LLDB, with what to
	 * install. The limits below shape plans.
	 */
	struct wc_error *(*open)(const char *exe, const struct planner_options *o, struct planner **ret);
	/* Modules have come or moved; those of the list that are known already stay as they are. */
	struct wc_error *(*set_modules)(struct planner *p, const struct module_list *modules);
	/*
	 * The functions that @m defines; and with @stubs those that it calls in others, through PLT stubs and
	 * through pointers in its GOT.
	 */
	struct wc_error *(*functions)(struct planner *p, const struct module *m, bool stubs,
				      struct planner_list *ret);
	/*
	 * The plan of the function at @address, which functions() has reported. @over: it is stepped over, and
	 * called by @name. Never fails for lack of knowledge: it is planned by registers then.
	 */
	struct wc_error *(*plan)(struct planner *p, uint64_t address, bool over,
				 const struct function_plan **ret);
	/* Finds what the code at @return_address does with a result in rax, with @vector in xmm0. */
	enum result_use (*result_use)(struct planner *p, uint64_t return_address, bool vector);
	/*
	 * The type of the variable at @address, whose symbol is called @name (demangled), in the module that begins at @module:
	 * *@type is its id. NO_TYPE: nothing is known of it. NULL: no types of variables are known.
	 */
	struct wc_error *(*variable)(struct planner *p, uint64_t module, uint64_t address, const char *name,
				     uint32_t *type);
	/* Type @id, which a plan's function, a variable or another type has named; NULL: there is none. */
	const struct type_event *(*type)(struct planner *p, uint32_t id);
	/* Accepts NULL. */
	void (*close)(struct planner *p);
};

#endif
