/*
 * How glibc keeps it (elf/dl-tls.c), and how its own nptl_db/td_thr_tlsbase.c reads it:
 *
 *	thread pointer --> struct pthread: ... dtv ...        blocks that were laid out statically: below,
 *	                                    |                 at thread pointer - l_tls_offset
 *	                                    v
 *	[-1].counter: slots   [0].counter: generation   [id].pointer.val: block of module id, or an odd number
 *
 * The vector is brought up to date only when the thread next asks for a block (__tls_get_addr). Until then
 * its generation is older than that of the module's slot in _rtld_global, and what it holds for the id may
 * belong to a library that was unloaded. musl gives every thread all blocks at once, and never unloads.
 */
#include "watchctl/code/tls/tls.h"

#include "watchctl/code/tls/tls_list.h"

/* A list in another process may be torn while it is read: never go round for ever. */
#define LIST_MAX 100000

/* musl, src/internal/pthread_impl.h: struct pthread begins with {self, dtv}; __tls_get_addr relies on it. */
#define MUSL_DTV 8

static bool read_word(const struct memory_view *mem, uint64_t addr, uint64_t *ret)
{
	return memory_read(mem, addr, ret, sizeof(*ret));
}

enum find_result { FIND_OK, FIND_NONE, FIND_UNREADABLE };

/* The link_map of the variable's module. */
static enum find_result find_map(const struct tls_place *p, const struct memory_view *mem, uint64_t *ret)
{
	struct tls_list l;

	for (tls_list_begin(&l, p, mem); tls_list_next(&l);) {
		if (l.dynamic == p->dynamic) {
			*ret = l.map;
			return FIND_OK;
		}
	}
	return l.unreadable ? FIND_UNREADABLE : FIND_NONE;
}

/* The generation in which module @id came. */
static bool module_generation(const struct tls_glibc *g, const struct memory_view *mem, uint64_t id,
			      uint64_t *ret)
{
	uint64_t list, len, first = 0;

	if (!read_word(mem, g->list, &list))
		return false;
	for (unsigned int i = 0; list && i < LIST_MAX; i++) {
		if (!read_word(mem, list + g->list_len, &len))
			return false;
		if (id - first < len)
			return read_word(
				mem, list + g->list_slots + (id - first) * g->slot_size + g->slot_generation,
				ret);
		first += len;
		if (!read_word(mem, list + g->list_next, &list))
			return false;
	}
	return false;
}

/* What a thread's vector knows about a module. */
struct vector {
	bool is_current; /* it knows of the module */
	uint64_t value;	 /* if is_current */
};

static bool read_vector(const struct tls_place *p, const struct memory_view *mem, uint64_t map, uint64_t tp,
			struct vector *ret)
{
	const struct tls_glibc *g = &p->glibc;
	uint64_t id, at, slots, needed, generation;

	if (!read_word(mem, map + g->map_modid, &id) || !id || !module_generation(g, mem, id, &needed) ||
	    !read_word(mem, tp + g->thread_dtv, &at) || !at ||
	    !read_word(mem, at + g->dtv_counter, &generation) ||
	    !read_word(mem, at - g->dtv_stride + g->dtv_counter, &slots))
		return false;
	ret->is_current = generation >= needed && slots >= id;
	return !ret->is_current || read_word(mem, at + id * g->dtv_stride + g->dtv_value, &ret->value);
}

/* 0: not in the static area (yet); -1: never (NO_TLS_OFFSET, FORCED_DYNAMIC_TLS_OFFSET). */
static bool is_static(uint64_t offset)
{
	return offset && offset != UINT64_MAX;
}

/* TLS_DTV_UNALLOCATED is all ones; a block is always aligned. */
static bool is_block(uint64_t value)
{
	return value && !(value & 1);
}

static enum tls_result glibc_block(const struct tls_place *p, const struct memory_view *mem, uint64_t map,
				   uint64_t tp, uint64_t *ret)
{
	uint64_t offset;
	struct vector v;

	if (!read_word(mem, map + p->glibc.map_offset, &offset))
		return TLS_UNREADABLE;
	if (is_static(offset)) {
		*ret = tp - offset;
		return TLS_OK;
	}
	if (!read_vector(p, mem, map, tp, &v))
		return TLS_UNREADABLE;
	if (!v.is_current || !is_block(v.value))
		return TLS_NOT_ALLOCATED;
	*ret = v.value;
	return TLS_OK;
}

static enum tls_result musl_block(const struct tls_place *p, const struct memory_view *mem, uint64_t tp,
				  uint64_t *ret)
{
	uint64_t dtv, n, block;

	if (!read_word(mem, tp + MUSL_DTV, &dtv))
		return TLS_UNREADABLE;
	if (!dtv)
		return TLS_NOT_ALLOCATED;
	if (!read_word(mem, dtv, &n))
		return TLS_UNREADABLE;
	if (n < p->musl_id)
		return TLS_NOT_ALLOCATED;
	if (!read_word(mem, dtv + 8 * p->musl_id, &block))
		return TLS_UNREADABLE;
	*ret = block;
	return block ? TLS_OK : TLS_NOT_ALLOCATED;
}

static enum tls_result library_block(const struct tls_place *p, const struct memory_view *mem, uint64_t tp,
				     uint64_t *ret)
{
	uint64_t map;

	if (p->library == TLS_LIBRARY_UNKNOWN)
		return TLS_UNSUPPORTED;
	switch (find_map(p, mem, &map)) {
	case FIND_NONE:
		return TLS_NOT_LOADED;
	case FIND_UNREADABLE:
		return TLS_UNREADABLE;
	case FIND_OK:
		break;
	}
	if (p->library == TLS_LIBRARY_MUSL)
		return musl_block(p, mem, tp, ret);
	return glibc_block(p, mem, map, tp, ret);
}

enum tls_result tls_address(const struct tls_place *p, const struct memory_view *mem, uint64_t thread_pointer,
			    uint64_t *ret)
{
	uint64_t block = thread_pointer - p->program_block;
	enum tls_result r = TLS_OK;

	if (!thread_pointer)
		return TLS_NOT_ALLOCATED;
	if (!p->program_block)
		r = library_block(p, mem, thread_pointer, &block);
	if (r == TLS_OK)
		*ret = block + p->offset;
	return r;
}

bool tls_comes_on_demand(const struct tls_place *p, const struct memory_view *mem)
{
	uint64_t map, offset;

	return !p->program_block && p->library == TLS_LIBRARY_GLIBC && find_map(p, mem, &map) == FIND_OK &&
	       read_word(mem, map + p->glibc.map_offset, &offset) && !is_static(offset);
}

const char *tls_result_text(enum tls_result r)
{
	switch (r) {
	case TLS_OK:
		return "the thread has its copy";
	case TLS_NOT_ALLOCATED:
		return "the thread has not used it yet";
	case TLS_UNREADABLE:
		return "the loader's lists in the process cannot be read";
	case TLS_UNSUPPORTED:
		return "the C library of the process does not describe where it keeps the thread-local variables of "
		       "libraries";
	case TLS_NOT_LOADED:
		return "its library is not loaded";
	}
	return "unknown";
}
