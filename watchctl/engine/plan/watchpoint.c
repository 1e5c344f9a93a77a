#include "watchctl/engine/plan/watchpoint.h"

#include "watchctl/base/error.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/translated.h"

struct wc_error *watchpoint_check_place(const struct watchpoint *w, pid_t pid)
{
	struct wc_error *err;
	struct proc_map m;

	if (w->address)
		return NULL;
	if (!dregs_fits(w->addr, w->size))
		return wc_error_new(
			WC_EUSAGE,
			"%u bytes at 0x%llx do not fit a debug register: it watches 1, 2, 4 or 8 bytes, "
			"aligned to that size; choose with -s",
			w->size, (unsigned long long)w->addr);
	err = w->access == ACCESS_EXECUTE ? proc_check_translated(pid, "its executions are not seen") : NULL;
	if (err)
		return err;
	return proc_map_at(pid, w->addr, &m) ? NULL : proc_map_error(pid, w->addr);
}

struct wc_error *watchpoint_check(const struct watchpoint *w, pid_t pid)
{
	struct wc_error *err = proc_check(pid);

	return err ? err : watchpoint_check_place(w, pid);
}

struct wire_watch watchpoint_wire(const struct watchpoint *w, uint64_t value)
{
	struct wire_watch wire = {
		.addr = w->addr,
		.size = w->size,
		.shadow = value,
		.want_offset = (uint32_t)(w->want_addr - w->addr),
		.want_size = w->want_size,
	};

	if (w->access == ACCESS_READ || w->access == ACCESS_READWRITE)
		wire.flags |= WIRE_WATCH_READS;
	if (w->access == ACCESS_READ)
		wire.flags |= WIRE_WATCH_READS_ONLY;
	if (w->access == ACCESS_EXECUTE)
		wire.flags |= WIRE_WATCH_EXECUTE;
	if (w->hook)
		wire.flags |= WIRE_WATCH_HOLD;
	if (w->filter)
		wire.flags |= WIRE_WATCH_FILTER;
	if (w->address)
		wire.flags |= WIRE_WATCH_PER_THREAD;
	if (w->shared)
		wire.flags |= WIRE_WATCH_SHARED;
	return wire;
}

/* Only private memory of the program itself is rewritten: of nothing else is it certain that nobody notices.
 */
const char *watchpoint_untestable(const struct watchpoint *w, pid_t pid)
{
	struct proc_map m;

	if (w->access == ACCESS_EXECUTE || w->hook || w->address)
		return "it is not a variable at one fixed address";
	if (w->access == ACCESS_WRITE && !proc_map_at(pid, w->addr, &m))
		return "the mappings of the process could not be read";
	if (w->access == ACCESS_WRITE && (!m.write || m.shared))
		return "its memory is shared or read-only, and others could notice the write";
	if (proc_page_waits(pid, w->addr))
		return "its page must first be filled by the program (userfaultfd)";
	return NULL;
}

bool watchpoint_value(const struct watchpoint *w, pid_t pid, uint64_t *ret)
{
	struct memory_view mem = proc_memory(&pid);

	*ret = 0;
	return w->access != ACCESS_EXECUTE && !w->address && !proc_page_waits(pid, w->want_addr) &&
	       memory_read(&mem, w->want_addr, ret, w->want_size);
}

void watchpoint_remember(const struct watchpoint *w, pid_t pid, uint64_t addr, struct wire_shadow *table)
{
	struct memory_view mem = proc_memory(&pid);
	uint64_t i = wire_hash(addr), value = 0;

	if (!memory_read(&mem, addr, &value, w->size))
		return;
	for (unsigned int n = 0; n < WIRE_PROBES; n++, i++) {
		struct wire_shadow *s = &table[i & (WIRE_SHADOWS - 1)];
		uint64_t found = 0;

		if (!__atomic_compare_exchange_n(&s->addr, &found, addr, false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED) &&
		    found != addr)
			continue;
		__atomic_store_n(&s->value, value, __ATOMIC_RELAXED);
		break;
	}
}

void counts_add(struct engine_counts *sum, const struct engine_counts *c)
{
	sum->has_counted |= c->has_counted;
	sum->counted += c->counted;
	sum->recorded += c->recorded;
	sum->filtered += c->filtered;
	sum->lost_full += c->lost_full;
	sum->lost_merged += c->lost_merged;
}
