/* link_impl - what the files of link share. */
#ifndef WATCHCTL_FLOW_BLAME_LINK_IMPL_H
#define WATCHCTL_FLOW_BLAME_LINK_IMPL_H

#include <stdint.h>

#include "watchctl/flow/blame/link.h"

/* link_object.c: over pipes, sockets, files. Of a thread that waits; how is BLAME_UNKNOWN where the events do not show it. */
struct blame_link blame_by_object(const struct blame_log *b, uint32_t thread);
struct blame_link blame_by_file_lock(const struct blame_log *b, uint32_t thread);
struct blame_link blame_by_question(const struct blame_log *b, uint32_t thread);
struct blame_link blame_by_heirs(const struct blame_log *b, uint32_t thread);

#endif
