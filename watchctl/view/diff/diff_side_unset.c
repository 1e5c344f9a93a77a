/* Which values behind pointers to the stack may never have been written, see diff_unset.h. */
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/diff/diff_side_impl.h"

/* Of the frame that holds @addr: the call of the innermost function around it. 0: none that is known. */
static uint64_t frame_of(const struct loading_thread *t, uint64_t addr)
{
	size_t i;

	for (i = t->nopen; i-- > 0;)
		if (t->open[i].sp > addr)
			return t->open[i].call;
	return 0;
}

/* It shows what it points to. */
static bool is_shown(const struct diff_type *type, const struct call_value *v)
{
	if (!type || v->state != VALUE_OK || v->size != 8 || v->to_len > CALL_POINTEE_MAX ||
	    (v->to_state != VALUE_OK && v->to_state != VALUE_CUT))
		return false;
	return type->e.kind == TYPE_POINTER || type->e.kind == TYPE_STRING;
}

/* The bytes that are shown, a string's NUL byte among them; 0: none. */
static uint32_t shown(const struct diff_type *type, const struct call_value *v, uint8_t *buf)
{
	uint32_t n = v->to_len;

	if (n)
		memcpy(buf, v->to, n);
	if (type->e.kind == TYPE_STRING && v->to_state == VALUE_OK)
		buf[n++] = '\0';
	return n;
}

/* Keeps the marks for whoever reads the call again. */
static bool diff_side_unset_keep(struct diff_thread *d, uint32_t param, const bool *unset, uint32_t n)
{
	struct diff_unset_value value = {
		.call = (uint32_t)d->n, .param = (uint8_t)param, .len = (uint16_t)n, .at = d->nbits
	};
	uint32_t i;

	if (!memchr(unset, 1, n))
		return true;
	if (!vec_reserve((void **)&d->bits, &d->bits_cap, d->nbits + (n + 7) / 8, 1) ||
	    !vec_push(d->unset, d->nunset, d->unset_cap, value))
		return false;
	memset(d->bits + d->nbits, 0, (n + 7) / 8);
	for (i = 0; i < n; i++)
		d->bits[d->nbits + i / 8] |= (uint8_t)(unset[i] << i % 8);
	d->nbits += (n + 7) / 8;
	return true;
}

static bool take_unset(struct loader *l, const struct loading_thread *t, struct diff_thread *d,
		       const struct diff_type *type, uint32_t param, const struct call_value *v,
		       uint64_t addr)
{
	uint8_t bytes[CALL_POINTEE_MAX + 1];
	uint32_t n = shown(type, v, bytes);
	struct unset_view view = { .bytes = bytes, .len = n, .addr = addr };

	if (!n)
		return true;
	view.frame = frame_of(t, view.addr);
	view.is_input = type->to_const;
	if (!diff_unset_see(&l->unset, &view, l->is_unset) || !diff_side_unset_keep(d, param, l->is_unset, n))
		return false;
	l->tokens.unset = l->is_unset;
	return true;
}

bool diff_load_unset(struct loader *l, const struct loading_thread *t, struct diff_thread *d,
		     const struct diff_type *type, uint32_t param, const struct call_value *v)
{
	uint64_t addr;

	l->tokens.unset = NULL;
	if (!is_shown(type, v))
		return true;
	memcpy(&addr, v->bytes, sizeof(addr));
	return diff_space_kind(&l->s->canon.space, addr, true) != PLACE_STACK ||
	       take_unset(l, t, d, type, param, v, addr);
}

bool diff_side_unset(const struct diff_thread *t, uint32_t call, uint32_t param, bool *ret)
{
	uint64_t key = (uint64_t)call << 8 | param;
	size_t low;
	const struct diff_unset_value *u;
	uint32_t i;

	low = BISECT(t->nunset, k, ((uint64_t)t->unset[k].call << 8 | t->unset[k].param) < key);
	u = low < t->nunset ? &t->unset[low] : NULL;
	if (!u || u->call != call || u->param != param)
		return false;
	memset(ret, 0, DIFF_UNSET_MAX * sizeof(*ret));
	for (i = 0; i < u->len; i++)
		ret[i] = t->bits[u->at + i / 8] >> i % 8 & 1;
	return true;
}
