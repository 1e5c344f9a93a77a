#include "watchctl/step/lldb/planner_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/regs.h"
#include "watchctl/code/strings.h"
#include "watchctl/trace/call_values.h"

static const uint8_t param_gpr[6] = { WREG_RDI, WREG_RSI, WREG_RDX, WREG_RCX, WREG_R8, WREG_R9 };
static const char *const param_gpr_name[6] = { "rdi", "rsi", "rdx", "rcx", "r8", "r9" };
static const char *const param_xmm_name[8] = {
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7"
};

static const struct param_recipe nothing = { .state = VALUE_NONE, .to = PLAN_FETCHES };

/* Fetches. False: the list is full. */

static bool add_fetch(struct fetch_list *l, enum fetch_op op, uint8_t reg, uint8_t base, uint16_t len,
		      int32_t offset)
{
	if (l->n == PLAN_FETCHES)
		return false;
	l->v[l->n++] =
		(struct fetch){ .op = (uint8_t)op, .reg = reg, .base = base, .len = len, .offset = offset };
	return true;
}

/* Vector registers are fetched in whole units; what is more than wanted may only be at a value's end. */
static bool add_vector(struct fetch_list *l, const struct param_piece *p, bool is_last)
{
	static const uint16_t units[] = { 4, 8, 16, 32 };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (p->size <= units[i])
			return (is_last || p->size == units[i]) &&
			       add_fetch(l, units[i] == 32 ? FETCH_YMM : FETCH_XMM, p->reg, 0, units[i], 0);
	return false;
}

/* The pointers by which pieces in memory are reached come first: a value's own fetches are in a row. */
static bool add_base(struct fetch_list *l, const struct param_piece *p)
{
	switch (p->in) {
	case PARAM_IN_MEMORY:
		return add_fetch(l, FETCH_GPR, p->reg, 0, 8, 0);
	case PARAM_IN_MEMORY_BY_STACK:
		return add_fetch(l, FETCH_STACK, 0, 0, 8, p->offset);
	default:
		return true;
	}
}

static bool add_piece(struct fetch_list *l, const struct param_piece *p, uint8_t *base, bool is_last)
{
	switch (p->in) {
	case PARAM_IN_GPR:
		return p->size <= 8 && add_fetch(l, FETCH_GPR, p->reg, 0, p->size, 0);
	case PARAM_IN_XMM:
		return add_vector(l, p, is_last);
	case PARAM_IN_X87:
		return add_fetch(l, FETCH_X87, p->reg, 0, 16, 0);
	case PARAM_ON_STACK:
		return add_fetch(l, FETCH_STACK, 0, 0, p->size, p->offset);
	case PARAM_IN_MEMORY:
		return add_fetch(l, FETCH_MEMORY, 0, (*base)++, p->size, p->offset);
	case PARAM_IN_MEMORY_BY_STACK:
		return add_fetch(l, FETCH_MEMORY, 0, (*base)++, p->size, 0);
	default:
		return false;
	}
}

/* All of a value of @size bytes; a list that cannot hold it stays as it was. */
static bool add_pieces(struct fetch_list *l, const struct param_piece *piece, unsigned int n, uint32_t size,
		       struct param_recipe *ret)
{
	uint32_t before = l->n, sum = 0;
	uint8_t base = (uint8_t)l->n;
	bool ok = n && size && size <= CALL_VALUE_MAX;

	*ret = nothing;
	for (unsigned int i = 0; ok && i < n; i++)
		ok = add_base(l, &piece[i]);
	ret->first = (uint8_t)l->n;
	for (unsigned int i = 0; ok && i < n; i++) {
		struct param_piece p = piece[i];

		if (!p.size)
			p.size = (uint16_t)size;
		sum += p.size;
		ok = add_piece(l, &p, &base, i + 1 == n);
	}
	if (!ok || sum < size) {
		l->n = before;
		*ret = nothing;
		return false;
	}
	ret->count = (uint8_t)(l->n - ret->first);
	ret->state = VALUE_OK;
	return true;
}

/* The function does not change what is to be read through it. */
static bool is_read_only(const struct type_event *to)
{
	return to && to->name && strncmp(to->name, "const ", 6) == 0;
}

/* What the pointer that was just added points to. */
static void add_pointee(struct plan_maker *m, struct fetch_list *l, const struct type_event *type,
			struct param_recipe *ret)
{
	const struct type_event *to = planner_types_at(m->types, type->target);
	bool ok = false;

	if (ret->state != VALUE_OK || ret->is_constant || ret->count != 1)
		return;
	if (type->kind == TYPE_STRING) {
		ok = add_fetch(l, FETCH_STRING, 0, ret->first, (uint16_t)m->options->string_max, 0);
	} else if (type->kind == TYPE_POINTER && to && to->size && to->kind != TYPE_UNKNOWN) {
		uint32_t len = to->size < m->options->pointee_max ? to->size : m->options->pointee_max;

		ok = len && add_fetch(l, FETCH_MEMORY, 0, ret->first, (uint16_t)len, 0);
	}
	if (!ok)
		return;
	ret->to = (uint8_t)(l->n - 1);
	l->v[ret->to].again = l == &m->plan->plan.entry && !is_read_only(to);
}

/* Functions */

static struct function_param *params_room(struct plan_maker *m, size_t n)
{
	struct function_param *p = strings_room(m->pool, (n + 1) * sizeof(*p));

	m->plan->function.param = p;
	return p;
}

/* "optimised out: a, b; not known how it is passed: c"; false: no memory. */
static bool make_note(struct plan_maker *m)
{
	static const struct {
		uint8_t state;
		const char *text;
	} kinds[] = { { VALUE_OPTIMIZED_OUT, "optimised out" },
		      { VALUE_NONE, "not known how it is passed" } };
	const struct function_event *e = &m->plan->function;
	scoped(freep) char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return false;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		const char *before = kinds[k].text;

		for (uint32_t i = 0; i < e->nparams; i++) {
			const struct type_event *type = planner_types_at(m->types, e->param[i].type);

			/* What has no content is not passed. */
			if (m->plan->recipe[i].state != kinds[k].state ||
			    (type->nmembers == 0 && type->size <= 1))
				continue;
			fprintf(f, "%s%s%s%s", before && ftell(f) ? "; " : "", before ? before : ", ",
				before ? ": " : "", e->param[i].name ? e->param[i].name : "(without name)");
			before = NULL;
		}
	}
	if (fclose(f) || !text)
		return false;
	m->plan->note = len ? strings_keep(m->pool, text) : NULL;
	return !len || m->plan->note;
}

/* Whether parameters whose place at the entry is not reported are where the calling convention says. */
static bool keeps_convention(const struct lldb_function *f, const struct function_places *places,
			     enum plan_variant variant)
{
	if (variant != VARIANT_NONE || places->is_nocall || places->is_go || f->language == LLDB_LANGUAGE_GO)
		return false;
	if (places->is_external)
		return true;
	/* Nobody else calls it: a compiler that has left something out may have moved the rest. */
	for (unsigned int i = 0; i < places->nparams; i++)
		if (places->param[i].where == PARAM_OPTIMIZED_OUT || places->param[i].where == PARAM_CONSTANT)
			return false;
	return true;
}

/* Rust passes structures in its own way, which changes from version to version; the rest as C does. */
static bool convention_covers(const struct function_places *places, const struct lldb_type_info *info)
{
	return !places->is_rust || (info->kind != TYPE_STRUCT && info->kind != TYPE_UNION &&
				    info->kind != TYPE_ARRAY && info->kind != TYPE_UNKNOWN);
}

/* The place of parameter @name, number @i: of the same number if the name agrees. */
static const struct param_place *place_of(const struct function_places *places, unsigned int i,
					  const char *name)
{
	for (unsigned int k = i; k < places->nparams + i; k++) {
		const struct param_place *p = &places->param[k % places->nparams];

		if (p->name && name ? strcmp(p->name, name) == 0 : p->name == name && k == i)
			return p;
	}
	return NULL;
}

/* What is known of the convention while going through the parameters. */
struct convention {
	bool holds;
	struct abi_call call;
};

static void next_by_convention(struct convention *c, const struct function_places *places,
			       const struct lldb_param *param, const struct param_place *place,
			       struct abi_place *ret)
{
	struct abi_layout layout;

	*ret = (struct abi_place){ 0 };
	c->holds &= param->type != NULL;
	if (!c->holds)
		return;
	c->holds = convention_covers(places, lldb_type_info(param->type)) &&
		   planner_types_layout(param->type, place ? &place->type : NULL, &layout);
	if (c->holds)
		abi_param(&c->call, &layout, ret);
	/* What the compiler computes it from is perhaps not what the convention says, if it need not be. */
	if (!place || (place->where == PARAM_COMPUTED && !places->is_external))
		ret->npieces = 0;
}

/*
 * An __int128 in two general registers: GCC reports one pair for all of the function, that which it was moved
 * to, or the right one with the high half first. What the caller does is what the convention says.
 */
static bool is_moved_pair(const struct type_event *type, const struct param_place *place,
			  const struct abi_place *abi)
{
	const struct param_piece *a = place->piece, *b = abi->piece;

	return (type->kind == TYPE_SIGNED || type->kind == TYPE_UNSIGNED) && type->size == 16 &&
	       place->npieces == 2 && abi->npieces == 2 && a[0].in == PARAM_IN_GPR &&
	       a[1].in == PARAM_IN_GPR && b[0].in == PARAM_IN_GPR && b[1].in == PARAM_IN_GPR;
}

/* @place NULL: there is only the convention. */
static void plan_param(struct plan_maker *m, const struct type_event *type, const struct param_place *place,
		       const struct abi_place *abi, struct param_recipe *ret)
{
	struct fetch_list *l = &m->plan->plan.entry;
	enum param_where where = place ? place->where : PARAM_BY_CONVENTION;

	*ret = nothing;
	switch (where) {
	case PARAM_OPTIMIZED_OUT:
		ret->state = VALUE_OPTIMIZED_OUT;
		break;
	case PARAM_CONSTANT:
		ret->state = type->size && type->size <= 8 ? VALUE_OK : VALUE_NONE;
		ret->is_constant = ret->state == VALUE_OK;
		ret->constant = place->constant + (place->is_address ? m->bias : 0);
		ret->constant_len = (uint8_t)type->size;
		break;
	case PARAM_IN_PIECES:
		if (is_moved_pair(type, place, abi))
			add_pieces(l, abi->piece, abi->npieces, type->size, ret);
		else
			add_pieces(l, place->piece, place->npieces, type->size, ret);
		break;
	case PARAM_BY_CONVENTION:
	case PARAM_COMPUTED:
		add_pieces(l, abi->piece, abi->npieces, type->size, ret);
		break;
	}
	add_pointee(m, l, type, ret);
}

static bool plan_result(struct plan_maker *m, const struct lldb_function *f,
			const struct function_places *places, enum plan_variant variant, struct convention *c)
{
	struct fetch_list *l = &m->plan->plan.leave;
	const struct type_event *type;
	struct abi_layout layout;
	struct abi_place place;

	if (!f->result)
		return true;
	type = planner_types_of(m->types, f->result, true);
	if (!type)
		return false;
	m->plan->function.return_type = type->id;
	if (type->kind == TYPE_VOID)
		return true;
	if (!convention_covers(places, lldb_type_info(f->result)) ||
	    !planner_types_layout(f->result, &places->result, &layout)) {
		c->holds = false;
		return true;
	}
	c->call.gpr += abi_result_is_hidden(&layout);
	if (!c->holds && variant != VARIANT_CONSTANT)
		return true;
	abi_result(&layout, &place);
	if (add_pieces(l, place.piece, place.npieces, type->size, &m->plan->result))
		add_pointee(m, l, type, &m->plan->result);
	return true;
}

bool plan_by_debug_info(struct plan_maker *m, const struct lldb_function *f,
			const struct function_places *places, enum plan_variant variant)
{
	uint32_t n = f->nparams < FUNCTION_PARAMS_MAX ? f->nparams : FUNCTION_PARAMS_MAX;
	struct convention c = { .holds = keeps_convention(f, places, variant) };
	struct function_event *e = &m->plan->function;
	struct function_param *param = params_room(m, n);

	if (!param || !plan_result(m, f, places, variant, &c))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct param_place *place = place_of(places, i, f->param[i].name);
		const struct type_event *type = planner_types_of(m->types, f->param[i].type, true);
		struct abi_place abi = { 0 };

		if (!type)
			type = planner_types_put(m->types, &(struct type_event){ .target = NO_TYPE });
		if (!type)
			return false;
		next_by_convention(&c, places, &f->param[i], place, &abi);
		param[i] = (struct function_param){ strings_keep(m->pool, f->param[i].name), type->id };
		plan_param(m, type, place, &abi, &m->plan->recipe[i]);
	}
	e->nparams = n;
	return make_note(m);
}

/* Prototypes */

static const struct type_event *prototype_type(struct plan_maker *m, const struct prototype_type *t)
{
	struct type_event e = { .kind = t->kind, .size = t->size, .name = t->name, .target = NO_TYPE };

	if (t->kind == TYPE_STRING) {
		const struct type_event *c = planner_types_put(
			m->types,
			&(struct type_event){ .kind = TYPE_CHAR,
					      .size = 1,
					      .name = t->name[0] == 'c' && t->name[1] == 'o' ? "const char"
											     : "char",
					      .target = NO_TYPE });

		if (!c)
			return NULL;
		e.target = c->id;
	}
	return planner_types_put(m->types, &e);
}

static void prototype_layout(const struct prototype_type *t, struct abi_layout *ret)
{
	*ret = (struct abi_layout){ .size = t->size };
	abi_put(ret,
		t->kind != TYPE_FLOAT ? ABI_SCALAR_INTEGER
		: t->size == 16	      ? ABI_SCALAR_X87
				      : ABI_SCALAR_FLOAT,
		0, t->size);
}

static bool prototype_result(struct plan_maker *m, const struct prototype *p)
{
	const struct type_event *type = prototype_type(m, &p->result);
	struct abi_layout layout;
	struct abi_place place;

	if (!type)
		return false;
	m->plan->function.return_type = type->id;
	m->plan->fails = p->fails == PROTOTYPE_FAILS_MINUS_ONE ? FAILS_MINUS_ONE
			 : p->fails == PROTOTYPE_FAILS_NULL    ? FAILS_NULL
							       : FAILS_NEVER;
	if (type->kind == TYPE_VOID)
		return true;
	prototype_layout(&p->result, &layout);
	abi_result(&layout, &place);
	add_pieces(&m->plan->plan.leave, place.piece, place.npieces, type->size, &m->plan->result);
	add_pointee(m, &m->plan->plan.leave, type, &m->plan->result);
	if (m->plan->fails != FAILS_NEVER)
		add_fetch(&m->plan->plan.leave, FETCH_ERRNO, 0, 0, 4, 0);
	return true;
}

bool plan_by_prototype(struct plan_maker *m, const struct prototype *p)
{
	struct function_param *param = params_room(m, p->nparams);
	struct abi_call call = { 0 };

	if (!param || !prototype_result(m, p))
		return false;
	for (unsigned int i = 0; i < p->nparams; i++) {
		const struct type_event *type = prototype_type(m, &p->param[i].type);
		struct abi_layout layout;
		struct abi_place place;

		if (!type)
			return false;
		param[i] = (struct function_param){ strings_keep(m->pool, p->param[i].name), type->id };
		prototype_layout(&p->param[i].type, &layout);
		abi_param(&call, &layout, &place);
		plan_param(m, type, NULL, &place, &m->plan->recipe[i]);
	}
	m->plan->function.nparams = p->nparams;
	m->plan->function.flags |= FUNCTION_PROTOTYPE;
	return true;
}

/* Registers */

static const struct type_event *register_type(struct plan_maker *m, uint32_t size)
{
	return planner_types_put(
		m->types, &(struct type_event){ .kind = TYPE_REGISTER, .size = size, .target = NO_TYPE });
}

/* Registers are numbered as in a set of live_in.c: general ones, then vector ones. */
static bool is_live(const struct live_in *live, unsigned int i)
{
	return i < 6 ? live->gprs >> i & 1 : live->xmms >> (i - 6) & 1;
}

bool plan_by_registers(struct plan_maker *m, const struct live_in *live)
{
	const struct type_event *whole = register_type(m, 8), *half = register_type(m, 4);
	struct function_param *param = params_room(m, 14);
	struct param_piece piece;
	uint32_t n = 0;

	if (!param || !whole || !half)
		return false;
	for (unsigned int i = 0; i < 14; i++) {
		const struct type_event *type = i >= 6 || live->wide >> i & 1 ? whole : half;

		if (!is_live(live, i))
			continue;
		piece = (struct param_piece){ .in = i < 6 ? PARAM_IN_GPR : PARAM_IN_XMM,
					      .reg = i < 6 ? param_gpr[i] : (uint8_t)(i - 6),
					      .size = (uint16_t)type->size };
		param[n] = (struct function_param){ i < 6 ? param_gpr_name[i] : param_xmm_name[i - 6],
						    type->id };
		add_pieces(&m->plan->plan.entry, &piece, 1, type->size, &m->plan->recipe[n++]);
	}
	m->plan->function.nparams = n;
	m->plan->function.flags |= FUNCTION_NO_TYPES;
	m->plan->function.return_type = whole->id;
	piece = (struct param_piece){ .in = PARAM_IN_GPR, .reg = WREG_RAX, .size = 8 };
	add_pieces(&m->plan->plan.leave, &piece, 1, 8, &m->plan->result);
	return true;
}
