/* tls_list - the dynamic loader's own list of modules, in every namespace; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_TLS_TLS_LIST_H
#define WATCHCTL_CODE_TLS_TLS_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/memory_view.h"
#include "watchctl/code/tls/tls.h"

struct tls_list {
	const struct memory_view *mem;
	uint64_t map;	  /* runtime address of the current struct link_map */
	uint64_t dynamic; /* of its module's dynamic section */
	bool unreadable;  /* the list could not be read to its end */
	/* internal */
	uint64_t debug, next;
	bool has_more_namespaces;
	unsigned int steps;
};

/* Uses debug_pointer and debug of @p. A statically linked program has an empty list. */
void tls_list_begin(struct tls_list *l, const struct tls_place *p, const struct memory_view *mem);

/* Goes to the first, then the next module. False: no more, or unreadable. */
bool tls_list_next(struct tls_list *l);

#endif
