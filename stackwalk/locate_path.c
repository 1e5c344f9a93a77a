#include "stackwalk/locate_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stackwalk/dwarf_unit.h"
#include "watchctl/base/cleanup.h"

/* Replaces the text of @p by a new one; takes @text, NULL being "no memory". */
static struct wc_error *set_text(struct path_place *p, char *text, bool is_deref)
{
	if (!text)
		return &wc_enomem;
	free(p->text);
	p->text = text;
	p->text_is_deref = is_deref;
	return NULL;
}

static char *text_after(const struct path_place *p, const struct locate_step *step)
{
	const char *open = p->text_is_deref ? "(" : "", *close = p->text_is_deref ? ")" : "";
	char *text = NULL;
	int n = -1;

	switch (step->op) {
	case LOCATE_MEMBER:
		n = asprintf(&text, "%s%s%s.%s", open, p->text, close, step->name);
		break;
	case LOCATE_ARROW:
		n = asprintf(&text, "%s%s%s->%s", open, p->text, close, step->name);
		break;
	case LOCATE_INDEX:
		n = asprintf(&text, "%s%s%s[%" PRId64 "]", open, p->text, close, step->index);
		break;
	case LOCATE_DEREF:
		n = asprintf(&text, "*%s", p->text);
		break;
	}
	return n < 0 ? NULL : text;
}

static struct wc_error *no_memory_to_read(const struct path_place *p)
{
	return wc_error_new(WC_ENAME,
			    "'%s' is a pointer, and there is no process to read it from. Name a variable, or "
			    "give an address.",
			    p->text);
}

static struct wc_error *thread_local_pointer(const struct path_place *p)
{
	return wc_error_new(WC_ENAME,
			    "'%s' is thread-local: every thread has its own pointer, which leads to another "
			    "place. Watch '%s' "
			    "itself, or take the address behind it in the thread that you mean, and watch "
			    "that (0x...:SIZE).",
			    p->text, p->text);
}

/* Reads the pointer that lies at @p, and remembers that it was. */
static struct wc_error *load_pointer(struct path_place *p, const struct memory_view *mem, uint64_t *ret)
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
				    " cannot be read. The process may not have mapped "
				    "that memory yet.",
				    p->text, p->addr);
	}
	if (p->npointers < LOCATE_POINTERS)
		p->pointer[p->npointers++] = p->addr;
	if (!value) {
		p->null_pointer = true;
		return wc_error_new(
			WC_ENAME,
			"'%s' is a null pointer at this moment, so there is nothing behind it to watch. "
			"Watch '%s' itself to see when it is set.",
			p->text, p->text);
	}
	*ret = value;
	return NULL;
}

/* Goes where the pointer at @p leads. */
static struct wc_error *follow_pointer(struct path_place *p, const struct memory_view *mem)
{
	uint64_t to = 0;
	uint8_t byte;
	struct wc_error *err = load_pointer(p, mem, &to);

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

struct wc_error *path_follow_reference(struct path_place *p, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	struct wc_error *err;

	if (!dtype_is_reference(&s))
		return NULL;
	err = follow_pointer(p, mem);
	if (!err)
		p->type = dtype_of(s.index, &s.die);
	return err;
}

/* How the language of a type's unit has it; 0: unknown. */
static Dwarf_Word unit_language(struct dtype *t)
{
	Dwarf_Die cu;
	Dwarf_Word lang;

	return t->known && dwarf_diecu(&t->die, &cu, NULL, NULL) &&
			       dwarf_die_number(&cu, DW_AT_language, &lang)
		       ? lang
		       : 0;
}

/* In Go and Rust "." follows pointers. */
static bool dot_follows_pointers(struct dtype *t)
{
	Dwarf_Word lang = unit_language(t);

	return lang == DW_LANG_Go || lang == DW_LANG_Rust;
}

/* The struct behind a slice of Go, []T, or of Rust, &[T]. */
static bool slice_members(struct dtype *t, const char **data, const char **len)
{
	Dwarf_Word lang = unit_language(t);

	*data = lang == DW_LANG_Go ? "array" : "data_ptr";
	*len = lang == DW_LANG_Go ? "len" : "length";
	return lang == DW_LANG_Go || lang == DW_LANG_Rust;
}

static struct wc_error *no_such_member(const struct path_place *p, const struct dtype *s, const char *name)
{
	scoped(freep) char *members = dtype_member_list(s);
	scoped(freep) char *type = dtype_name(s);

	return wc_error_new(WC_ENAME, "'%s' has no member '%s'. The members of %s are: %s.", p->text, name,
			    type ? type : "its type", members ? members : "none");
}

static struct wc_error *wrong_kind(const struct path_place *p, const char *why)
{
	scoped(freep) char *type = dtype_name(&p->type);

	return wc_error_new(WC_ENAME, "'%s' is of type '%s', %s", p->text, type ? type : "?", why);
}

static struct wc_error *to_member(struct path_place *p, const char *name, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	struct dmember m;

	if (!dtype_is_aggregate_tag(dtype_tag(&s)))
		return wrong_kind(p, "which has no members.");
	switch (dtype_member(&s, p->addr, name, p->is_tls ? NULL : mem, &m)) {
	case MEMBER_FOUND:
		break;
	case MEMBER_STATIC:
		return wc_error_new(
			WC_ENAME,
			"'%s' is a static member of '%s': it is one variable for all objects. Ask for "
			"%s::%s instead.",
			name, p->text, dwarf_diename(&s.die) ? dwarf_diename(&s.die) : "its class", name);
	case MEMBER_UNREADABLE:
		return wc_error_new(
			WC_ENAME,
			"The place of '%s' in '%s' cannot be computed: it is in a virtual base class, and "
			"the "
			"object's table could not be read. The object may not be constructed yet.",
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
static struct wc_error *to_target(struct path_place *p, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	struct wc_error *err;
	int tag = dtype_tag(&s);

	if (tag == DW_TAG_array_type) {
		p->type = dtype_element(&s);
		return NULL;
	}
	if (tag && tag != DW_TAG_pointer_type)
		return wrong_kind(p, "which is no pointer.");
	if (!tag && p->size != 8)
		return wc_error_new(
			WC_ENAME, "'%s' has no known type, and its size is not that of a pointer.", p->text);
	err = follow_pointer(p, mem);
	if (err)
		return err;
	p->size = 0;
	p->type = tag ? dtype_of(s.index, &s.die) : (struct dtype){ 0 };
	return NULL;
}

/* A slice is a struct of a pointer and a length: goes to that pointer, checking @index against the length. */
static struct wc_error *to_slice(struct path_place *p, int64_t index, const char *data, const char *len_name,
				 const struct memory_view *mem)
{
	struct path_place len = *p;
	struct wc_error *err = to_member(&len, len_name, mem);
	int64_t count;

	if (err)
		return err;
	if (mem && !len.is_tls && memory_read(mem, len.addr, &count, sizeof(count)) &&
	    (index < 0 || index >= count))
		return wc_error_new(WC_ENAME,
				    "'%s' has %" PRId64 " elements at this moment: [%" PRId64
				    "] is none of them.",
				    p->text, count, index);
	return to_member(p, data, mem);
}

static struct wc_error *to_element(struct path_place *p, int64_t index, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	const char *data, *len;
	struct wc_error *err;
	uint64_t count, size;

	if (dtype_is_aggregate_tag(dtype_tag(&s)) && slice_members(&s, &data, &len)) {
		err = to_slice(p, index, data, len, mem);
		if (err)
			return err;
		s = dtype_strip(&p->type);
	}
	if (dtype_tag(&s) == DW_TAG_array_type) {
		if (dtype_count(&s, &count) && (index < 0 || (uint64_t)index >= count) && count)
			return wc_error_new(WC_ENAME,
					    "'%s' has %" PRIu64 " elements, [0] to [%" PRIu64 "]: [%" PRId64
					    "] is none of them.",
					    p->text, count, count - 1, index);
	} else if (dtype_tag(&s) != DW_TAG_pointer_type) {
		return wrong_kind(p, "which is neither an array nor a pointer.");
	}
	err = to_target(p, mem);
	if (err)
		return err;
	size = dtype_size(&p->type);
	if (!size)
		return wrong_kind(p, "of unknown size: its elements cannot be counted.");
	p->addr += (uint64_t)index * size;
	return NULL;
}

static struct wc_error *arrow_needed(const struct path_place *p, const char *name)
{
	return wc_error_new(WC_ENAME, "'%s' is a pointer: write '%s->%s' to follow it.", p->text, p->text,
			    name);
}

static struct wc_error *step_unnamed(struct path_place *p, const struct locate_step *step,
				     const struct memory_view *mem)
{
	struct wc_error *err = path_follow_reference(p, mem);
	struct dtype s = dtype_strip(&p->type);
	int tag = dtype_tag(&s);

	if (err)
		return err;
	if (p->bit_size)
		return wrong_kind(p, "a bit field: there is nothing inside.");
	if (!tag && step->op != LOCATE_DEREF)
		return wc_error_new(
			WC_ENAME,
			"The type of '%s' is not known, so '%s' cannot be found in it. Install the debug "
			"information of its module, build it with -g, or give an address (0x...:SIZE).",
			p->text, step->name ? step->name : "an element");
	switch (step->op) {
	case LOCATE_MEMBER:
		if (tag == DW_TAG_pointer_type) {
			if (!dot_follows_pointers(&s))
				return arrow_needed(p, step->name);
			err = to_target(p, mem);
			if (err)
				return err;
		}
		return to_member(p, step->name, mem);
	case LOCATE_ARROW:
		if (dtype_is_aggregate_tag(tag))
			return wc_error_new(WC_ENAME, "'%s' is an object, no pointer: write '%s.%s'.",
					    p->text, p->text, step->name);
		err = to_target(p, mem);
		return err ? err : to_member(p, step->name, mem);
	case LOCATE_INDEX:
		return to_element(p, step->index, mem);
	case LOCATE_DEREF:
		break;
	}
	return to_target(p, mem);
}

struct wc_error *path_step(struct path_place *p, const struct locate_step *step,
			   const struct memory_view *mem)
{
	struct path_place next = *p;
	struct wc_error *err = step_unnamed(&next, step, mem);

	if (err) {
		memcpy(p->pointer, next.pointer, sizeof(p->pointer));
		p->npointers = next.npointers;
		p->null_pointer = next.null_pointer;
		return err;
	}
	err = set_text(p, text_after(p, step), step->op == LOCATE_DEREF);
	if (err)
		return err;
	next.text = p->text;
	next.text_is_deref = p->text_is_deref;
	*p = next;
	return NULL;
}
