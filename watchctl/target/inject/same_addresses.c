#include "watchctl/target/inject/same_addresses.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/syscall.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/remote.h"

/* proc(5), /proc/PID/personality: eight hexadecimal digits. */
static bool read_personality(pid_t pid, uint32_t *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/personality", pid);
	scoped(fclosep) FILE *f = fopen(path, "re");
	return f && fscanf(f, "%" SCNx32, ret) == 1;
}

static struct wc_error *set_personality(struct tracee *held, uint32_t persona)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct gadgets g;
	long was = 0;
	struct wc_error *err = gadgets_find(held->pid, &g);

	err = err ? err : remote_open_prepared(held->pid, 0, held, &r);
	err = err ? err : remote_use_gadgets(&r, &g);
	return err ? err : remote_syscall(&r, SYS_personality, persona, 0, 0, 0, 0, 0, &was);
}

enum same_addresses same_addresses_take_back(struct tracee *held)
{
	const uint32_t ours = (uint32_t)personality(0xffffffff);
	uint32_t its;

	if (!read_personality(held->pid, &its) || !(its & ADDR_NO_RANDOMIZE))
		return SAME_ADDRESSES_NOT;
	if (ours & ADDR_NO_RANDOMIZE)
		return SAME_ADDRESSES_ALONE; /* it would have had it without us */
	wc_error_free(set_personality(held, its & ~(uint32_t)ADDR_NO_RANDOMIZE));
	return read_personality(held->pid, &its) && !(its & ADDR_NO_RANDOMIZE) ? SAME_ADDRESSES_ALONE
									       : SAME_ADDRESSES_INHERITED;
}
