/*
 * For programs that unmap what they do not know, and the handler with it.
 */
#include <stddef.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/inject.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"

bool inject_is_mapped(const struct injection *inj)
{
	struct memory_view mem = proc_memory(&inj->pid);
	struct wire_signature door;
	uint64_t magic;

	return memory_read(&mem, inj->control, &magic, sizeof(magic)) && magic == WIRE_MAGIC &&
	       memory_read(&mem, inj->handler - sizeof(door), &door, sizeof(door)) &&
	       !memcmp(door.name, WIRE_SIGNATURE, sizeof(door.name));
}

struct wc_error *inject_give_up(struct injection *inj)
{
	const size_t at = offsetof(struct wire_control, old);
	scoped(remote_closep) struct remote r = { 0 };
	struct wire_sigaction old = { 0 };
	struct gadgets g;
	struct wc_error *err = gadgets_find(inj->pid, &g);

	/* What the program unmapped are its pages; we have them still. */
	if (!inj->shared)
		return wc_error_new(
			WC_EFAIL,
			"process %d has unmapped the handler, and its former SIGTRAP action is unknown: another "
			"SIGTRAP would kill it",
			inj->pid);
	memcpy(&old, (const char *)inj->shared + at, sizeof(old));
	if (!err)
		err = remote_open_prepared(inj->pid, 0, inj->held, &r);
	if (!err)
		err = remote_use_gadgets(&r, &g);
	return err ? err : trap_action_replace(&r, inj->handler, &old);
}
