/*
 * Two walks over code. The one behind a return address carries which bytes of the register were written since;
 * what is read of the others is the result. A call ends a way, for the register is the callee's to change. But
 * a compiler that knows the callee may keep a value there across the call, if that does not write it: so the
 * callee is looked at, too.
 *
 * The one through a function carries whether its last write was one on purpose. It is not if it was a call; if
 * the value has been used since, as that of a temporary is; or if the instruction does not name the register
 * (div), or exchanges it (xchg stores a value, and leaves the old one).
 */
#include "watchctl/code/insn/result_use.h"

#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_regs.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/code/regs.h"

#define INSNS_MAX 1500u /* behind a return address, with those of callees */
#define SET_INSNS_MAX 6000u
#define DEPTH_MAX 2u
#define ALL_BYTES 0xffu

enum { SET = 1 };

struct use_walk {
	const struct code_view *code;
	bool vector;
	unsigned int left; /* instructions */
};

static bool goes_nowhere(const struct code_view *code, uint64_t at)
{
	struct insn_brief b;
	const uint8_t *bytes;
	size_t n = code->bytes(code->ctx, at, &bytes);

	return n && insn_scan(bytes, n < INSN_MAX ? n : INSN_MAX, at, &b) &&
	       (b.flow == INSN_STOP || b.is_int3);
}

/* Through a pointer at a fixed place, as of a PLT or GOT: to another function. A table of a switch has an index. */
static bool leaves_by_pointer(const struct insn *i)
{
	return i->is_jmp && i->target_in_mem && i->mem[0].base == WREG_RIP;
}

/* The bytes of the register that @i takes a value from, or leaves nothing of. */
static uint32_t read_by(const struct insn *i, const struct insn_regs *r, bool vector)
{
	if (vector)
		return (r->vector_reads | r->vector_joins) & 1 ? ALL_BYTES : 0;
	return i->is_syscall ? ALL_BYTES : r->rax_reads;
}

static uint32_t written_by(const struct insn *i, const struct insn_regs *r, bool vector)
{
	if (vector)
		return r->vector_writes & ~r->vector_joins & 1 ? ALL_BYTES : 0;
	return i->is_syscall ? ALL_BYTES : r->rax_writes;
}

/* Where one way goes on behind @i, the other being added. False: nowhere. */
static bool go_on(struct code_paths *paths, const struct insn *i, struct code_path *p)
{
	if (i->is_jmp && !i->is_cond && !i->has_target)
		return false;
	if (i->is_jmp && i->is_cond && i->has_target)
		code_paths_add(paths, i->target, p->holds);
	p->at = i->is_jmp && !i->is_cond ? i->target : p->at + i->len;
	return true;
}

/* Callees */

static bool may_change(struct use_walk *w, const struct insn *call, unsigned int depth);

/* Whether the register is written on the way @p. Out of budget: it is said not to be. */
static bool way_changes(struct use_walk *w, struct code_paths *paths, struct code_path p, unsigned int depth)
{
	struct insn_regs regs;
	struct insn i;

	while (w->left && code_paths_is_new(paths, p.at, &p.holds)) {
		if (!code_view_decode(w->code, p.at, &i, &regs))
			return false;
		w->left--;
		if (written_by(&i, &regs, w->vector) || leaves_by_pointer(&i) ||
		    (i.is_call && may_change(w, &i, depth + 1)))
			return true;
		if (i.is_ret || !go_on(paths, &i, &p))
			return false;
	}
	return false;
}

/* Whether a compiler must think that the function which @call calls changes the register. */
static bool may_change(struct use_walk *w, const struct insn *call, unsigned int depth)
{
	struct code_paths paths = { 0 };
	struct code_path p;
	bool changes = false;

	if (!call->has_target)
		return true;
	if (depth > DEPTH_MAX)
		return false;
	code_paths_add(&paths, call->target, 0);
	while (!changes && code_paths_take(&paths, &p))
		changes = way_changes(w, &paths, p, depth);
	code_paths_deinit(&paths);
	return changes;
}

/* Behind a call */

/* How the way @p ends; RESULT_UNUSED also if it comes to where another one was. */
static enum result_use follow_use(struct use_walk *w, struct code_paths *paths, struct code_path p)
{
	struct insn_regs regs;
	struct insn i;

	while (code_paths_is_new(paths, p.at, &p.holds)) {
		if (!w->left-- || !code_view_decode(w->code, p.at, &i, &regs))
			return RESULT_READ;
		if (read_by(&i, &regs, w->vector) & ~p.holds)
			return RESULT_READ;
		p.holds |= written_by(&i, &regs, w->vector);
		if (p.holds == ALL_BYTES || goes_nowhere(w->code, p.at) || leaves_by_pointer(&i))
			return RESULT_UNUSED;
		if (i.is_ret)
			return RESULT_PASSED;
		if (i.is_call && may_change(w, &i, 1))
			return RESULT_UNUSED;
		if (!w->left || !go_on(paths, &i, &p))
			return RESULT_READ;
	}
	return RESULT_UNUSED;
}

enum result_use result_use_find(const struct code_view *code, uint64_t at, bool vector)
{
	struct use_walk w = { .code = code, .vector = vector, .left = INSNS_MAX };
	enum result_use ret = RESULT_UNUSED;
	struct code_paths paths = { 0 };
	struct code_path p;

	code_paths_add(&paths, at, 0);
	while (ret != RESULT_READ && code_paths_take(&paths, &p)) {
		enum result_use one = follow_use(&w, &paths, p);

		ret = one == RESULT_UNUSED ? ret : one;
	}
	if (paths.no_memory)
		ret = RESULT_READ;
	code_paths_deinit(&paths);
	return ret;
}

/* Of a function */

struct set_walk {
	const struct code_view *code;
	uint64_t start, size;
	bool vector;
	unsigned int left;
	bool returns; /* some way does */
};

/* Whether the register's value is one on purpose behind @i. */
static bool is_set_behind(const struct insn *i, const struct insn_regs *r, bool vector, bool before)
{
	uint32_t named = (vector ? r->named_vector_writes : r->named_writes) >> (vector ? 0 : WREG_RAX) & 1;
	bool changed = written_by(i, r, vector) || named;

	if (i->is_call || i->is_syscall)
		return vector && i->is_syscall && before;
	if (changed)
		return named && i->exchange == INSN_EXCHANGE_NONE;
	return before && !read_by(i, r, vector);
}

/* False: the function does not set it, or that cannot be known. */
static bool follow_set(struct set_walk *w, struct code_paths *paths, struct code_path p)
{
	struct insn_regs regs;
	struct insn i;

	while (code_paths_is_new(paths, p.at, &p.holds)) {
		/* Behind the last instruction is nothing, if that is the call of a function that does not return. */
		if (p.at - w->start >= w->size || !w->left-- || !code_view_decode(w->code, p.at, &i, &regs))
			return false;
		if (goes_nowhere(w->code, p.at))
			return true;
		if (i.is_ret) {
			w->returns = true;
			return p.holds & SET;
		}
		p.holds = is_set_behind(&i, &regs, w->vector, p.holds & SET) ? SET : 0;
		if (i.is_call && p.at + i.len == w->start + w->size)
			return true;
		if (!go_on(paths, &i, &p))
			return false;
	}
	return true;
}

bool result_is_set(const struct code_view *code, uint64_t start, uint64_t size, bool vector)
{
	struct set_walk w = { code, start, size, vector, SET_INSNS_MAX, false };
	struct code_paths paths = { 0 };
	struct code_path p;
	bool ok = true;

	code_paths_add(&paths, start, 0);
	while (ok && code_paths_take(&paths, &p))
		ok = follow_set(&w, &paths, p);
	ok = ok && w.returns && !paths.no_memory;
	code_paths_deinit(&paths);
	return ok;
}
