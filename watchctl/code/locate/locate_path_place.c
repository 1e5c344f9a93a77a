/* The steps that no other one is needed for: through a pointer, to a member, to what a name stands for. */
#include <inttypes.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_parts.h"

/* Pointers to pointers, and no more of them than somebody writes. */
#define OPEN_MAX 8

static struct wc_error *no_memory_to_read(const struct path_place *p)
{
	return wc_error_new(WC_ENAME,
			    "'%s' is a pointer, and there is no process to read it from. Name a variable, or "
			    "give an address.",
			    p->text);
}

static struct wc_error *thread_local_pointer(const struct path_place *p)
{
	return wc_error_new(
		WC_ENAME,
		"'%s' is thread-local: every thread has its own pointer, with its own target. Watch '%s' "
		"itself, or watch the target in one thread by its address (0x...:SIZE).",
		p->text, p->text);
}

/* Reads the pointer that lies at @p, and remembers that it was. */
struct wc_error *path_load_pointer(struct path_place *p, const struct memory_view *mem, uint64_t *ret)
{
	uint64_t value;

	if (p->is_tls)
		return thread_local_pointer(p);
	if (!mem)
		return no_memory_to_read(p);
	if (!memory_read(mem, p->addr, &value, sizeof(value))) {
		p->null_pointer = p->npointers > 0;
		return wc_error_new(WC_ENAME,
				    "The pointer '%s' at 0x%" PRIx64
				    " cannot be read. The process may not have mapped that memory yet.",
				    p->text, p->addr);
	}
	if (p->npointers < LOCATE_POINTERS)
		p->pointer[p->npointers++] = p->addr;
	if (!value) {
		p->null_pointer = true;
		if (dtype_family(&p->type) == FAMILY_FORTRAN)
			return wc_error_new(
				WC_ENAME,
				"'%s' is currently not allocated, or not associated. With --follow the "
				"watch begins when it is.",
				p->text);
		return wc_error_new(
			WC_ENAME,
			"'%s' is currently a null pointer, so it has no target to watch. Watch '%s' itself to see "
			"when it is set.",
			p->text, p->text);
	}
	*ret = value;
	return NULL;
}

/* Goes where the pointer at @p leads. */
struct wc_error *path_follow_pointer(struct path_place *p, const struct memory_view *mem)
{
	uint64_t to = 0;
	uint8_t byte;
	struct wc_error *err = path_load_pointer(p, mem, &to);

	if (err)
		return err;
	if (!memory_read(mem, to, &byte, 1)) {
		p->null_pointer = true;
		return wc_error_new(WC_ENAME,
				    "'%s' points to 0x%" PRIx64
				    ", which the process has not mapped. It may not be set yet, "
				    "or point to memory that was freed.",
				    p->text, to);
	}
	p->addr = to;
	return NULL;
}

static struct wc_error *no_such_member(const struct path_place *p, const struct dtype *s, const char *name)
{
	scoped(freep) char *members = dtype_member_list(s);
	scoped(freep) char *type = dtype_name(s);

	return wc_error_new(WC_ENAME, "'%s' has no member '%s'. The members of %s are: %s.", p->text, name,
			    type ? type : "its type", members ? members : "none");
}

struct wc_error *path_wrong_kind(const struct path_place *p, const char *why)
{
	scoped(freep) char *type = dtype_name(&p->type);

	return wc_error_new(WC_ENAME, "'%s' is of type '%s', %s", p->text, type ? type : "?", why);
}

struct wc_error *path_to_member(struct path_place *p, const char *name, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	struct dmember m;

	if (!dtype_is_aggregate_tag(dtype_tag(&s)))
		return path_wrong_kind(p, "which has no members.");
	switch (dtype_member(&s, p->addr, name, p->is_tls ? NULL : mem, &m)) {
	case MEMBER_FOUND:
		break;
	case MEMBER_STATIC:
		return wc_error_new(
			WC_ENAME,
			"'%s' is a static member of '%s': it is one variable for all objects. Name it %s::%s instead.",
			name, p->text, dwarf_diename(&s.die) ? dwarf_diename(&s.die) : "its class", name);
	case MEMBER_UNREADABLE:
		return wc_error_new(
			WC_ENAME,
			"The location of '%s' in '%s' cannot be computed: it is in a virtual base class, and the "
			"object's virtual table could not be read. The object may not be constructed yet.",
			name, p->text);
	case MEMBER_NONE:
		return no_such_member(p, &s, name);
	}
	p->addr = m.addr;
	p->type = m.type;
	p->bit_offset = m.bit_offset;
	p->bit_size = m.bit_size;
	p->storage = m.storage;
	p->size = 0;
	return NULL;
}

/* Goes to what the pointer at @p points to, or to the first element of the array there. */
struct wc_error *path_to_target(struct path_place *p, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	struct wc_error *err;
	int tag = dtype_tag(&s);

	if (tag == DW_TAG_array_type && dwarf_family_indexes_as_c(dtype_family(&s))) {
		p->type = dtype_element(&s);
		return NULL;
	}
	if (tag && tag != DW_TAG_pointer_type)
		return path_wrong_kind(p, "which is not a pointer.");
	if (!tag && p->size != 8)
		return wc_error_new(
			WC_ENAME, "'%s' has no known type, and its size is not that of a pointer.", p->text);
	err = path_follow_pointer(p, mem);
	if (err)
		return err;
	p->size = 0;
	p->type = tag ? dtype_target(&s) : (struct dtype){ 0 };
	return NULL;
}

bool dtype_is_class_wrapper(const struct dtype *stripped)
{
	struct dtype s = *stripped;
	const char *name = dtype_is_aggregate_tag(dtype_tag(&s)) ? dwarf_diename(&s.die) : NULL;

	return name && dtype_family(&s) == FAMILY_FORTRAN && strncmp(name, "__class_", 8) == 0;
}

/* A variable that stands for another one, to those who write the language. */
static bool stands_for_another(const struct dtype *stripped)
{
	struct dtype to;

	if (dtype_is_reference(stripped))
		return true;
	if (dtype_family(stripped) != FAMILY_FORTRAN || dtype_tag(stripped) != DW_TAG_pointer_type)
		return false;
	to = dtype_target(stripped);
	to = dtype_strip(&to);
	return to.known && dtype_tag(&to) != DW_TAG_subroutine_type;
}

struct wc_error *path_open_place(struct path_place *p, bool inside, bool *opened,
				 const struct memory_view *mem)
{
	for (unsigned int turns = 0; turns < OPEN_MAX; turns++) {
		struct dtype s = dtype_strip(&p->type);
		struct wc_error *err = NULL;

		if (stands_for_another(&s)) {
			err = path_follow_pointer(p, mem);
			p->type = err ? p->type : dtype_target(&s);
			p->size = err ? p->size : 0;
		} else if (!inside && dtype_is_class_wrapper(&s)) {
			err = path_to_member(p, "_data", mem);
			s = dtype_strip(&p->type);
			if (!err && dtype_tag(&s) == DW_TAG_pointer_type && !stands_for_another(&s))
				return path_wrong_kind(
					p, "whose type is known only at run time. Give the address instead "
					   "(0x...:SIZE).");
		} else {
			return NULL;
		}
		if (err)
			return err;
		*opened = true;
	}
	return NULL;
}

struct wc_error *path_open(struct path_place *p, const struct memory_view *mem)
{
	bool opened = false;

	return path_open_place(p, false, &opened, mem);
}
