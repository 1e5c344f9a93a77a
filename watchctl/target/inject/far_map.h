/*
 * far_map - the first mapping in a process. If we are killed before it is in use, the thread that made it
 * unmaps it by itself, because nothing would identify it later.
 */
#ifndef WATCHCTL_TARGET_INJECT_FAR_MAP_H
#define WATCHCTL_TARGET_INJECT_FAR_MAP_H

#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/target/inject/remote.h"

/* In place of remote_use_gadgets(), after remote_open_prepared(). Until remote_keep(), the thread unmaps what
 * far_map() makes on its way home. */
struct wc_error *far_map_prepare(struct remote *r, const struct gadgets *g, uint64_t size);

/*
 * Makes it: private, anonymous, of the same @size. Where it cannot be had that way, it is made all the same,
 * and stays when we are killed. *ret: its address, or what mmap(2) answers.
 */
struct wc_error *far_map(struct remote *r, uint64_t size, int protection, long *ret);

#endif
