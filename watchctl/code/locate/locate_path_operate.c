/* Steps that calculate: "&x", "p+3", "(T *)p", "v[1]@3"; and what is done to their results. */
#include <inttypes.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_value.h"

#define SLICE_MAX (1ull << 32)

static struct wc_error *calculate(struct path_place *p, const struct locate_step *step,
				  const struct memory_view *mem)
{
	int64_t a = 0, b = step->index ? step->index[0] : 0, n;
	struct wc_error *err = path_number(p, mem, &a);

	if (err)
		return err;
	if (!locate_calculate(step->op, a, b, &n))
		return wc_error_new(WC_ENAME, "'%s' is %" PRId64 ": %s.", p->text, a,
				    step->op == LOCATE_DIV ? "it cannot be divided by 0"
							   : "the result does not fit in 64 bits");
	path_become_number(p, n);
	return NULL;
}

/* Addresses */

static struct wc_error *size_unknown(const struct path_place *p)
{
	scoped(freep) char *type = path_type_name(p);

	return wc_error_new(
		WC_ENAME,
		"'%s' is of type '%s', whose size is not known: cast it to a pointer to the type of its "
		"elements, ((T *)%s), or give the address and size (0x...:SIZE).",
		p->text, type ? type : "?", p->text);
}

static struct wc_error *move(struct path_place *p, int64_t by)
{
	uint64_t size = path_element_size(p);

	if (!size)
		return size_unknown(p);
	p->addr += (uint64_t)by * size;
	return NULL;
}

/* From an address to what is there. */
static struct wc_error *enter(struct path_place *p, const struct memory_view *mem)
{
	uint8_t byte;

	p->kind = PATH_OBJECT;
	if (p->is_tls || !mem || memory_read(mem, p->addr, &byte, 1))
		return NULL;
	p->null_pointer = p->npointers > 0;
	return wc_error_new(WC_ENAME,
			    "'%s' is the address 0x%" PRIx64
			    ", which the process has not mapped. It may not be set yet, or be wrong.",
			    p->text, p->addr);
}

static struct wc_error *take_address(struct path_place *p, const struct memory_view *mem)
{
	struct dtype type;
	struct wc_error *err;

	if (p->kind != PATH_OBJECT || p->slice)
		return path_no_operand(p, "&");
	if (!p->stars) {
		err = path_open(p, mem);
		if (err)
			return err;
	}
	if (p->bit_size)
		return wc_error_new(WC_ENAME, "'%s' is a bit field: it has no address of its own.", p->text);
	type = p->type;
	path_become_address(p, p->addr, &type, p->stars);
	return NULL;
}

static struct wc_error *add(struct path_place *p, const struct locate_step *step,
			    const struct memory_view *mem)
{
	bool is_pointer = false;
	struct wc_error *err;

	err = p->kind == PATH_OBJECT && !p->stars && !p->slice ? path_open(p, mem) : NULL;
	if (!err)
		err = path_decay(p, mem, &is_pointer);
	if (err || !is_pointer)
		return err ? err : calculate(p, step, mem);
	return move(p, step->op == LOCATE_ADD ? step->index[0] : (int64_t)(0 - (uint64_t)step->index[0]));
}

/* Slices */

static struct wc_error *slice(struct path_place *p, int64_t n, const struct memory_view *mem)
{
	struct wc_error *err;

	if (p->kind != PATH_OBJECT || p->slice || p->bit_size)
		return path_no_operand(p, "@");
	err = p->stars ? NULL : path_open(p, mem);
	if (err)
		return err;
	if (n < 1 || (uint64_t)n > SLICE_MAX)
		return wc_error_new(
			WC_ENAME, "@%" PRId64 " is not a valid number of elements of '%s': write 1 or more.",
			n, p->text);
	if (!path_element_size(p))
		return size_unknown(p);
	p->slice = n > 1 ? (uint64_t)n : 0;
	return NULL;
}

static struct wc_error *index_slice(struct path_place *p, const struct locate_step *step)
{
	int64_t i = step->op == LOCATE_INDEX && step->nindices == 1 ? step->index[0] : -1;

	if (step->op != LOCATE_INDEX || i < 0 || (uint64_t)i >= p->slice)
		return wc_error_new(WC_ENAME,
				    "'%s' are %" PRIu64 " elements: name one of them, '(%s)[0]' to [%" PRIu64
				    "].",
				    p->text, p->slice, p->text, p->slice - 1);
	p->slice = 0;
	return move(p, i);
}

/* What is done to an address */

static struct wc_error *go_on_from_address(struct path_place *p, const struct locate_step *step,
					   const struct memory_view *mem)
{
	struct wc_error *err = NULL;

	switch (step->op) {
	case LOCATE_DEREF:
		if (!p->type.known && !p->stars)
			return size_unknown(p);
		return enter(p, mem);
	case LOCATE_INDEX:
		if (step->round || step->nindices != 1)
			return path_no_operand(p, step->round ? "( )" : ",");
		err = move(p, step->index[0]);
		return err ? err : enter(p, mem);
	case LOCATE_MEMBER:
		if (!dwarf_family_dot_follows(dtype_family(&p->type)))
			return wc_error_new(WC_ENAME, "'%s' is an address: write '(%s)->%s' to follow it.",
					    p->text, p->text, step->name);
		/* fall through */
	case LOCATE_ARROW:
		if (p->stars)
			return path_no_operand(p, "->");
		err = enter(p, mem);
		return err ? err : path_to_member(p, step->name, mem);
	default:
		return path_no_operand(p, step->op == LOCATE_ADDRESS ? "&"
					  : step->op == LOCATE_SLICE ? "@"
								     : "*");
	}
}

static struct wc_error *go_on_from_number(struct path_place *p, const struct locate_step *step)
{
	if (step->op == LOCATE_DEREF)
		return wc_error_new(
			WC_ENAME,
			"'%s' is a number, and the type of the memory there is not known: write the type "
			"before the number, *(int *)%s, or the address with its size, 0x%" PRIx64 ":SIZE.",
			p->text, p->text, (uint64_t)p->number);
	return path_no_operand(p, step->op == LOCATE_INDEX     ? "[ ]"
				  : step->op == LOCATE_ARROW   ? "->"
				  : step->op == LOCATE_SLICE   ? "@"
				  : step->op == LOCATE_ADDRESS ? "&"
							       : ".");
}

static struct wc_error *go_on(struct path_place *p, const struct locate_step *step,
			      const struct memory_view *mem, bool *done)
{
	bool is_pointer = false;
	struct wc_error *err;

	if (p->kind == PATH_OBJECT && !p->stars && !p->slice) {
		*done = false;
		return NULL;
	}
	if (p->slice)
		return index_slice(p, step);
	err = path_decay(p, mem, &is_pointer);
	if (err)
		return err;
	return p->kind == PATH_NUMBER ? go_on_from_number(p, step) : go_on_from_address(p, step, mem);
}

struct wc_error *path_step_value(struct path_place *p, const struct locate_step *step,
				 const struct memory_view *mem, bool *done)
{
	*done = true;
	switch (step->op) {
	case LOCATE_ADDRESS:
		return take_address(p, mem);
	case LOCATE_CAST:
		return path_cast(p, step, mem);
	case LOCATE_SLICE:
		return slice(p, step->index[0], mem);
	case LOCATE_ADD:
	case LOCATE_SUB:
		return add(p, step, mem);
	case LOCATE_MUL:
	case LOCATE_DIV:
	case LOCATE_NEGATE:
		return calculate(p, step, mem);
	default:
		return go_on(p, step, mem, done);
	}
}
