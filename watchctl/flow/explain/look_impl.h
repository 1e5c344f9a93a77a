/* look_impl - what the files of a look share. */
#ifndef WATCHCTL_FLOW_EXPLAIN_LOOK_IMPL_H
#define WATCHCTL_FLOW_EXPLAIN_LOOK_IMPL_H

#include "watchctl/flow/explain/look.h"

/* The frames of @t are released. */
void look_forget_stack(struct look_thread *t);

#endif
