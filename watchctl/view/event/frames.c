/*
 * Which address names a frame:
 *  - frame 0 is the accessing instruction itself, not the recorded rip behind it;
 *  - the others are return addresses, and a call may be the last instruction of its function (and
 *    the line of the call is wanted, not the next one): the byte before is looked up;
 *  - except above a signal trampoline: there the address is where the thread was interrupted. The
 *    trampoline's own address is not behind a call either, the kernel made it up.
 */
#include "watchctl/view/event/frames.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/symbols/symbolizer.h"

/* The frames that one recorded address stands for: inlined functions first, the real one last. */
struct run {
	bool trampoline;
	size_t n;
	struct view_frame v[];
};

static bool is_trampoline(const struct frames *f, uint64_t addr, const struct location *l)
{
	const struct code_fact *code = map64_get(f->code, addr);
	const char *name = l->frame[l->nframes - 1].function;

	if (code && code->at_len)
		return trampoline_code(code->at, code->at_len);
	if (l->offset == 0 && name && !strcmp(name, "__restore_rt"))
		return true;
	return trampolines_has(f->trampolines, addr);
}

static struct run *make_run(uint64_t ip, const struct location *l, uint64_t behind)
{
	struct run *r = calloc(1, sizeof(*r) + l->nframes * sizeof(*r->v));
	size_t i;

	if (!r)
		return NULL;
	r->n = l->nframes;
	for (i = 0; i < l->nframes; i++) {
		const struct frame_name *name = &l->frame[i];

		r->v[i] = (struct view_frame){
			.ip = ip,
			.module = l->module,
			.module_offset = l->module_offset + behind,
			.function = name->function,
			.offset = l->offset + behind,
			.file = name->file,
			.line = name->line,
			.inlined = i + 1 < l->nframes,
		};
	}
	return r;
}

static struct run *frames_keep(struct map64 *cache, uint64_t addr, struct run *r)
{
	if (!r || !map64_put(cache, addr, r)) {
		free(r);
		return NULL;
	}
	return r;
}

static struct run *exact_run(struct frames *f, uint64_t addr)
{
	struct run *r = map64_get(&f->exact, addr);
	const struct location *l;
	size_t i;

	if (r)
		return r;
	l = symbolizer_lookup(f->symbolizer, addr);
	r = frames_keep(&f->exact, addr, make_run(addr, l, 0));
	if (r && is_trampoline(f, addr, l)) {
		r->trampoline = true;
		for (i = 0; i < r->n; i++)
			r->v[i].signal = true;
	}
	return r;
}

static const struct run *return_run(struct frames *f, uint64_t addr)
{
	const struct run *r = map64_get(&f->returns, addr);

	if (r)
		return r;
	/* A log with names has one for the byte that it was looked up by: an answer for the other needs the
	 * files. */
	if (symbolizer_knows(f->symbolizer, addr) || !symbolizer_knows(f->symbolizer, addr - 1)) {
		r = exact_run(f, addr);
		if (!r || r->trampoline)
			return r;
	}
	return frames_keep(&f->returns, addr, make_run(addr, symbolizer_lookup(f->symbolizer, addr - 1), 1));
}

static bool frames_append(struct frames *f, const struct run *r)
{
	if (!r || !vec_reserve((void **)&f->v, &f->cap, f->n + r->n, sizeof(*f->v)))
		return false;
	memcpy(f->v + f->n, r->v, r->n * sizeof(*r->v));
	f->n += r->n;
	return true;
}

/* Appends the callers of @r's frame, innermost first; NULL: the first of them is a return address too. */
static bool append_callers(struct frames *f, const struct run *r, const uint64_t *addr, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		r = r && r->trampoline ? exact_run(f, addr[i]) : return_run(f, addr[i]);
		if (!frames_append(f, r))
			return false;
	}
	return true;
}

bool frames_expand(struct frames *f, const struct access_event *a, const struct access_verdict *v)
{
	uint64_t first = v->insn ? v->insn : a->regs.r[WREG_RIP];
	const struct run *r = exact_run(f, first);
	/* The return address of the call that made the access is frame 0 already. */
	uint32_t skip = v->insn && v->in_caller ? 2 : 1;
	size_t k;

	f->n = 0;
	if (!frames_append(f, r))
		return false;
	for (k = 0; k < f->n; k++)
		f->v[k].after = !v->insn;
	return a->nframes <= skip || append_callers(f, r, a->frame + skip, a->nframes - skip);
}

bool frames_expand_at(struct frames *f, const uint64_t *addr, uint32_t n)
{
	const struct run *r = exact_run(f, addr[0]);

	f->n = 0;
	return frames_append(f, r) && append_callers(f, r, addr + 1, n - 1);
}

bool frames_expand_returns(struct frames *f, const uint64_t *addr, uint32_t n)
{
	f->n = 0;
	return append_callers(f, NULL, addr, n);
}

void frames_init(struct frames *f, struct symbolizer *s, const struct map64 *code,
		 const struct trampolines *t)
{
	*f = (struct frames){ .symbolizer = s, .code = code, .trampolines = t };
}

void frames_flush(struct frames *f)
{
	map64_deinit_values(&f->exact, free);
	map64_deinit_values(&f->returns, free);
}

void frames_deinit(struct frames *f)
{
	frames_flush(f);
	free(f->v);
	*f = (struct frames){ 0 };
}
