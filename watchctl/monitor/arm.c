#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/code/tls/tls.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/target/stop/tracing.h"

/* One register of a watch, as its callback knows it. */
static bool address_of_thread(void *ctx, uint64_t thread_pointer, uint64_t *ret)
{
	struct monitor *m = ((void **)ctx)[0];
	struct monitored *w = ((void **)ctx)[1];
	struct memory_view mem = proc_memory(&m->pid);
	uint64_t addr;

	if (tls_address(&w->variable.tls, &mem, thread_pointer, &addr) != TLS_OK || addr % w->size)
		return false;
	if (!w->thread_address)
		w->thread_address = addr;
	*ret = addr;
	return true;
}

static struct wc_error *report_watch(struct monitor *m, unsigned int i, const struct arm_report *report)
{
	const struct watch_request *r = &m->options.watch[i];
	struct monitored *w = &m->watch[i];
	const struct variable *v = &w->variable;
	struct trace_event e = { .type = EVENT_WATCH };

	e.watch = (struct watch_event){
		.id = w->id,
		.name = r->expr,
		.full_name = v->name ? v->name : r->expr,
		.addr = monitor_is_per_thread(w) ? w->thread_address : v->addr,
		.size = w->size,
		.per_thread = monitor_is_per_thread(w),
		.filter = w->filter_text,
		.steps_trap = dregs_steps_trap(),
		.access = r->access,
		.engine = m->ops->name,
		.why = m->why[0] ? m->why : NULL,
		.module = v->module,
		.type = v->type,
		.threads = report->threads,
		.threads_armed = report->threads_armed,
		.verified = report->verified,
		.kernel = report->kernel,
		.has_value = report->has_value && w->nparts == 1,
		.value = report->value,
		.slot = r->slot,
		.withheld = r->withheld,
	};
	if (w->size != v->size || w->nparts > 1) /* its type says nothing about these bytes */
		e.watch.type = (struct value_type){ .kind = VALUE_UNKNOWN, .name = v->type.name };
	w->reported = true;
	return monitor_put(m, &e);
}

/* What a name of code stands for may have been compiled to several places. */
static struct wc_error *report_copies(struct monitor *m, unsigned int i)
{
	const struct watch_request *r = &m->options.watch[i];
	unsigned int n = m->watch[i].variable.copies;

	if (r->access != ACCESS_EXECUTE || !n)
		return NULL;
	return monitor_note(
		m, "%s has code at %u more place%s (inlined, or as a clone), whose executions are not seen",
		r->expr, n, n == 1 ? "" : "s");
}

/* Said once, where it could matter. */
static struct wc_error *report_kernel(struct monitor *m, const struct arm_report *report)
{
	if (report->kernel || !report->kernel_refusal || m->reported_kernel)
		return NULL;
	m->reported_kernel = true;
	return monitor_note(m, "accesses by the kernel are not seen: %s", report->kernel_refusal);
}

/* Said once: where else the page is mapped, because accesses there are not seen. */
static struct wc_error *report_same_page(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];
	char places[400] = "", who[64];
	struct same_page p;
	size_t n = 0;
	unsigned int k;

	if (!w->seen.shared || w->seen.reported_shared || m->options.watch[i].access == ACCESS_EXECUTE ||
	    !proc_same_page(m->pid, w->part[0].want_addr, &p) || (!p.nhere && !p.nprocesses))
		return NULL;
	w->seen.reported_shared = true;
	for (k = 0; k < p.nhere && n < sizeof(places); k++)
		n += (size_t)snprintf(places + n, sizeof(places) - n, "%s0x%llx", n ? ", " : "at ",
				      (unsigned long long)p.here[k]);
	for (k = 0; k < p.nprocesses && k < SAME_PAGE_PLACES && n < sizeof(places); k++) {
		proc_describe(p.process[k], who, sizeof(who));
		n += (size_t)snprintf(places + n, sizeof(places) - n, "%s%s",
				      k	  ? ", "
				      : n ? ", and in "
					  : "in ",
				      who);
	}
	if (p.nprocesses > k && n < sizeof(places))
		snprintf(places + n, sizeof(places) - n, " and %u more", p.nprocesses - k);
	return monitor_note(
		m,
		"%s lies in shared memory, and the same page is mapped %s as well: accesses there are not seen, "
		"and old values may be stale (~)",
		m->options.watch[i].expr, places);
}

/* Said once, where threads are stopped to be armed. */
static struct wc_error *report_begun_again(struct monitor *m, unsigned int i)
{
	const char *why;

	if (m->reported_begun_again || (m->ops != &engine_ptrace && m->options.watch[i].slot < 0 &&
					!monitor_is_per_thread(&m->watch[i])))
		return NULL;
	why = tracing_begins_calls_again(m->pid);
	m->reported_begun_again = why;
	return why ? monitor_note(m, "%s", why) : NULL;
}

/* Of several parts: what holds for all of them. */
static void add_report(struct arm_report *sum, const struct arm_report *r)
{
	sum->threads = r->threads;
	if (r->threads_armed < sum->threads_armed)
		sum->threads_armed = r->threads_armed;
	sum->verified &= r->verified;
	sum->kernel &= r->kernel;
}

static struct wc_error *arm_part(struct monitor *m, unsigned int i, const struct range_part *p,
				 struct arm_report *ret)
{
	const struct watch_request *r = &m->options.watch[i];
	struct monitored *w = &m->watch[i];
	struct watchpoint point = {
		.id = w->id,
		.addr = p->addr,
		.size = p->size,
		.want_addr = p->want_addr,
		.want_size = p->want_size,
		.access = (enum access_kind)r->access,
		.slot = r->slot,
		.filter = filter_has_work(&w->filter) ? &w->filter : NULL,
		.tested = w->tested,
		.shared = w->seen.shared,
	};

	if (monitor_is_per_thread(w)) {
		point.address = address_of_thread;
		point.address_ctx = w->address_ctx;
		w->address_ctx[0] = m;
		w->address_ctx[1] = w;
	}
	return m->ops->arm(m->engine, &point, ret);
}

struct wc_error *monitor_arm(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];
	struct memory_view mem = proc_memory(&m->pid);
	struct arm_report report[RANGE_PARTS] = { 0 };
	struct wc_error *err = NULL;
	unsigned int k;

	if (monitor_is_per_thread(w)) {
		w->on_demand = tls_comes_on_demand(&w->variable.tls, &mem);
		err = monitor_find_thread_places(m);
	}
	w->seen.shared = !monitor_is_per_thread(w) && proc_is_shared(m->pid, w->part[0].want_addr);
	for (k = 0; k < w->nparts && !err; k++)
		err = arm_part(m, i, &w->part[k], &report[k]);
	if (err) {
		m->ops->disarm(m->engine, w->id);
		return err;
	}
	for (k = 1; k < w->nparts; k++)
		add_report(&report[0], &report[k]);
	w->armed = true;
	w->tested = w->follows && report[0].verified;
	if (!w->armed_ns)
		w->armed_ns = monotonic_ns();
	err = report_watch(m, i, &report[0]);
	monitor_look_first(m, i, &report[0]);
	if (!err)
		err = report_copies(m, i);
	if (!err)
		err = report_same_page(m, i);
	if (!err)
		err = report_kernel(m, &report[0]);
	if (!err)
		err = report_begun_again(m, i);
	return err;
}

/* A path that is followed may change between the look at it and the arming of its pointers: looked at again.
 */
static struct wc_error *arm_followed(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];
	struct wc_error *err = monitor_arm_pointers(m, i);
	bool missing;

	if (!err)
		err = monitor_plan(m, i, &missing);
	if (!err)
		err = monitor_arm_pointers(m, i);
	if (err)
		return err;
	w->follows = true;
	if (!w->waits)
		return monitor_arm(m, i);
	return monitor_note(m,
			    "%s: a pointer on the path is null or invalid: the watch waits until it changes",
			    m->options.watch[i].expr);
}

struct wc_error *monitor_arm_one(struct monitor *m, unsigned int i, bool *missing)
{
	struct wc_error *err = monitor_plan(m, i, missing);

	if (err)
		return err;
	return m->options.watch[i].follow ? arm_followed(m, i) : monitor_arm(m, i);
}

struct wc_error *monitor_arm_all(struct monitor *m, bool any_name_may_come, bool *ret_missing)
{
	unsigned int i;

	*ret_missing = false;
	for (i = 0; i < MONITOR_WATCHES; i++) {
		const struct monitored *w = &m->watch[i];
		struct wc_error *err;
		bool missing = false;

		if (!monitor_wants(m, i) || w->armed || w->follows)
			continue;
		err = monitor_arm_one(m, i, &missing);
		if (!err)
			continue;
		if (err->kind != WC_ENAME || !(missing || any_name_may_come))
			return err;
		wc_error_free(err);
		*ret_missing = true;
	}
	/* With the registers that the watches leave. */
	return monitor_any_per_thread(m) ? monitor_hook_threads(m) : NULL;
}
