/*
 * Any bytes are what the other process of a session says: what is read from them is whole and in its bounds,
 * or said to be bad; and what was read can be said again, and means the same.
 */
#include "tests/fuzz/fuzz.h"
#include "watchctl/monitor/live/live_wire.h"

static void check_watch(const struct watch_request *w)
{
	fuzz_read(w->expr);
	fuzz_read(w->condition);
	fuzz_read(w->thread);
	require(w->expr && w->slot >= -1 && w->slot <= 3);
	require(w->ncallers <= MONITOR_CALLERS && w->nnot_callers <= MONITOR_CALLERS);
	for (unsigned int i = 0; i < w->ncallers; i++)
		fuzz_read(w->callers[i]);
	for (unsigned int i = 0; i < w->nnot_callers; i++)
		fuzz_read(w->not_callers[i]);
}

/* What is put again stays as it is from then on. */
static void check_again(struct live_pack *p, void (*put_again)(struct live_unpack *, struct live_pack *))
{
	struct live_pack again = { 0 };
	struct live_unpack u = { .at = p->v, .left = p->n };

	require(!p->failed);
	put_again(&u, &again);
	require(!u.bad && again.n == p->n && !memcmp(again.v, p->v, p->n));
	live_pack_deinit(&again);
	live_pack_deinit(p);
}

static void again_watch(struct live_unpack *u, struct live_pack *p)
{
	struct watch_request w;

	live_get_watch(u, &w);
	live_put_watch(p, &w);
}

static void again_order(struct live_unpack *u, struct live_pack *p)
{
	struct live_order o;

	require(live_get_order(u, &o));
	live_put_order(p, &o);
	free(o.argv);
}

static void again_ending(struct live_unpack *u, struct live_pack *p)
{
	struct live_ending e;

	require(live_get_ending(u, &e));
	live_put_ending(p, &e);
	wc_error_free(e.err);
}

static void take_watch(struct live_unpack *u)
{
	struct live_pack p = { 0 };
	struct watch_request w;

	live_get_watch(u, &w);
	if (u->bad)
		return;
	check_watch(&w);
	live_put_watch(&p, &w);
	check_again(&p, again_watch);
}

static void take_order(struct live_unpack *u)
{
	struct live_pack p = { 0 };
	struct live_order o;
	bool good = live_get_order(u, &o);

	require(good == !u->bad);
	if (good) {
		const struct monitor_options *m = &o.options.monitor;

		require(o.log && m->nwatches <= MONITOR_WATCHES && m->engine <= MONITOR_PTRACE);
		fuzz_read(o.log);
		fuzz_read(o.own_directory);
		for (unsigned int i = 0; i < m->nwatches; i++)
			check_watch(&m->watch[i]);
		for (char **a = o.argv; a && *a; a++)
			fuzz_read(*a);
		live_put_order(&p, &o);
		check_again(&p, again_order);
	}
	free(o.argv);
}

static void take_ending(struct live_unpack *u)
{
	struct live_pack p = { 0 };
	struct live_ending e;

	if (live_get_ending(u, &e)) {
		fuzz_read(e.never_armed);
		live_put_ending(&p, &e);
		check_again(&p, again_ending);
	}
	wc_error_free(e.err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct live_unpack u;
	struct live_head head;
	uint8_t *copy;

	if (!size)
		return 0;
	copy = malloc(size); /* its end is guarded, other than the input's */
	require(copy);
	memcpy(copy, data + 1, size - 1);
	u = (struct live_unpack){ .at = copy, .left = size - 1 };
	switch (data[0] % 4) {
	case 0:
		take_order(&u);
		break;
	case 1:
		take_watch(&u);
		break;
	case 2:
		take_ending(&u);
		break;
	default:
		if (live_get_head(&u, &head)) {
			wc_error_free(live_get_error(&u));
			live_get_u64(&u);
			fuzz_read(live_get_text(&u));
		}
	}
	free(copy);
	return 0;
}
