/*
 * Casts. One to a pointer makes an address of what was a pointer, an array or an integer of 8 bytes; one to a
 * whole number makes a number. All others would make a value that lies nowhere.
 */
#include <inttypes.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_value.h"

/* An integer that holds an address is a pointer to those who cast it. */
static struct wc_error *number_as_address(struct path_place *p, const struct memory_view *mem)
{
	struct value_type type = { 0 };
	bool whole;
	uint64_t value = 0;
	struct wc_error *err;

	if (p->kind == PATH_NUMBER) {
		p->addr = (uint64_t)p->number;
		return NULL;
	}
	if (p->slice)
		return path_no_operand(p, "a cast");
	if (p->type.known && !path_value_type(p, &type))
		return &wc_enomem;
	whole = !p->type.known || (path_is_whole(&type) && !p->bit_size);
	value_type_deinit(&type);
	if (!whole)
		return wc_error_new(
			WC_ENAME,
			"'%s' is neither a pointer nor a number: to interpret its memory as another type, cast its "
			"address, *(T *)&%s.",
			p->text, p->text);
	if (path_size(p) != 8)
		return wc_error_new(WC_ENAME, "'%s' has %" PRIu64 " bytes, and a pointer has 8.", p->text,
				    path_size(p));
	err = path_load_pointer(p, mem, &value);
	p->addr = err ? p->addr : value;
	p->is_tls = err && p->is_tls;
	return err;
}

static struct wc_error *cast_to_pointer(struct path_place *p, const struct locate_step *step,
					const struct memory_view *mem)
{
	bool is_pointer = false, is_void = strcmp(step->name, "void") == 0;
	struct dtype to = { 0 };
	uint64_t bias = p->bias;
	struct wc_error *err;

	err = p->kind == PATH_OBJECT && !p->stars && !p->slice ? path_open(p, mem) : NULL;
	if (!err && !is_void)
		err = path_find_type(p, step->name, &to, &bias);
	if (!err)
		err = path_decay(p, mem, &is_pointer);
	if (!err && !is_pointer)
		err = number_as_address(p, mem);
	if (!err && is_pointer && !p->stars && step->stars == 1)
		err = path_convert_class(p, &p->type, &to, p->is_tls ? NULL : mem, &p->addr);
	if (err)
		return err;
	path_become_address(p, p->addr, &to, step->stars - 1);
	p->bias = bias;
	return NULL;
}

static struct wc_error *cast_to_number(struct path_place *p, const struct locate_step *step,
				       const struct memory_view *mem)
{
	bool is_pointer = false;
	struct path_place as = { .kind = PATH_OBJECT };
	struct value_type type = { 0 };
	struct wc_error *err = path_find_type(p, step->name, &as.type, &as.bias);
	struct value_number n;
	uint64_t size = err ? 0 : path_size(&as);
	bool whole;

	if (err)
		return err;
	if (!path_value_type(&as, &type))
		return &wc_enomem;
	whole = path_is_whole(&type) && size && size <= 8;
	if (!whole)
		err = wc_error_new(
			WC_ENAME,
			"A cast of '%s' to '%s' yields a value without an address. To interpret its memory "
			"as that type, cast its address: *(%s *)&%s.",
			p->text, step->name, step->name, p->text);
	if (!err)
		err = path_decay(p, mem, &is_pointer);
	if (!err && is_pointer)
		path_become_number(p, (int64_t)p->addr);
	if (!err && p->kind != PATH_NUMBER) {
		int64_t value = 0;

		err = path_number(p, mem, &value);
		if (!err)
			path_become_number(p, value);
	}
	if (!err) {
		uint64_t raw = (uint64_t)p->number;

		n = value_to_number(&type, (unsigned int)size,
				    size < 8 ? raw & ((1ull << 8 * size) - 1) : raw);
		if (type.kind == VALUE_BOOL)
			p->number = raw != 0;
		else
			err = path_take_number(p, &n, &p->number);
	}
	value_type_deinit(&type);
	return err;
}

struct wc_error *path_cast(struct path_place *p, const struct locate_step *step,
			   const struct memory_view *mem)
{
	return step->stars ? cast_to_pointer(p, step, mem) : cast_to_number(p, step, mem);
}
