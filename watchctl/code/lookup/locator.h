/* locator - the files that names are looked for in, each read once. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATOR_H
#define WATCHCTL_CODE_LOOKUP_LOCATOR_H

#include <stdbool.h>

#include "watchctl/base/error.h"

struct locate_index;
struct memory_view;
struct module;
struct module_list;
struct variable;

struct locator; /* caches parsed debug information of the modules */

struct locator *locator_new(void);
void locator_free(struct locator *l);

/*
 * Returns what the files of @m lack of debug information, and the package that has it: a sentence, malloc'd. NULL: they
 * lack nothing.
 */
char *locate_lack(struct locator *l, const struct module *m);

/* Adds that sentence to the text of @err, which it takes. @m may be NULL. */
struct wc_error *locate_with_lack(struct wc_error *err, struct locator *l, const struct module *m);

/* The program itself: the first module that is no library. */
const struct module *search_main_module(const struct module_list *l);

/* The rest is private to watchctl/code/. */

/* The index of @m, kept by the locator. NULL: no memory. */
struct locate_index *locator_index(struct locator *l, const struct module *m);

/*
 * Runs what reads files; WC_ENAME: it faulted (fault_guard.h). Then all that was read is lost, and read anew
 * by the next one.
 */
struct wc_error *locator_guarded(struct locator *l, void (*run)(void *ctx), void *ctx);

/* The same of a function that has the parameters of locate(). */
struct locate_question {
	struct wc_error *(*find)(struct locator *l, const char *expr, const struct module_list *modules,
				 const struct memory_view *mem, struct variable *ret, bool *missing_module);
	struct locator *l;
	const char *expr;
	const struct module_list *modules;
	const struct memory_view *mem;
	struct variable *ret;
	bool *missing_module;
	struct wc_error *err;
};

struct wc_error *locator_ask(struct locate_question *q);

#endif
