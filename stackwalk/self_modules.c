/*
 * glibc's _dl_find_object() reports the module of an address without a lock, in any context. What it does not
 * tell is whether the library that it finds is the one that was there when a rule was made: another may have
 * been loaded to the same place. So modules come in two kinds.
 *
 * The executable, what it needs and what these need (by DT_NEEDED), the dynamic linker, the vdso and the
 * module that this code is in stay as long as the process. They are listed when the library is loaded.
 *
 * All others are remembered, each under an id that is never given to another. A rule made of a module's table
 * carries the id, and before it is used in a walk the module is looked at: it must have the same place, size,
 * .eh_frame_hdr and build id. The build id that this reads lies in the first page of what _dl_find_object()
 * has just said is mapped. (That page can be read unless the linker was told to make it executable and
 * nothing else. That it stays mapped for the next nanoseconds: a module with a frame on the stack is in use.
 * A smashed stack may name one that another thread unloads right now.) Of a module without a build id nothing
 * is remembered: its rules are made anew each time.
 *
 * Without _dl_find_object() (glibc before 2.35, musl, static programs) only the first kind is known. With
 * musl it is all modules that are there at load time: it never unloads one.
 */
#include "stackwalk/self_modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "stackwalk/self_sections.h"
#include "stackwalk/self_stack.h"

#define LASTING_MAX 128u
#define BUILD_ID_MAX 32u

/* struct dl_find_object of glibc 2.35 and later; older headers lack it. */
struct found_object {
	unsigned long long flags;
	void *map_start, *map_end;
	void *link_map;
	void *eh_frame_hdr;
	unsigned long long reserved[7];
};

extern int find_object(void *addr, struct found_object *ret) __asm__("_dl_find_object") __attribute__((weak));
extern const char *libc_version(void) __asm__("gnu_get_libc_version") __attribute__((weak));

struct lasting {
	uint64_t start, end;
	struct self_module module;
};

/* Sorted; complete before the number is written. */
static struct lasting lasting[LASTING_MAX];
static uint32_t nlasting;

enum { SLOT_EMPTY, SLOT_FILLING, SLOT_READY };

struct passing {
	uint32_t state;
	uint32_t build_id_len;
	uint64_t start, end, hdr;
	uint64_t build_id_at; /* in the first page */
	uint8_t build_id[BUILD_ID_MAX];
	struct self_module module;
};

static struct passing passing[SELF_MODULES_MAX];

static bool covers(const Elf64_Phdr *p, uint64_t bias, uint64_t addr)
{
	return p->p_type == PT_LOAD && addr >= bias + p->p_vaddr && addr < bias + p->p_vaddr + p->p_filesz;
}

/* What is mapped from @addr on, in the segment that holds it. */
static struct eh_range mapped_from(const Elf64_Phdr *phdr, unsigned int n, uint64_t bias, uint64_t addr)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (covers(&phdr[i], bias, addr) && phdr[i].p_flags & PF_R)
			return (struct eh_range){ addr, bias + phdr[i].p_vaddr + phdr[i].p_filesz,
						  (const uint8_t *)(uintptr_t)addr };
	return (struct eh_range){ 0, 0, NULL };
}

static void describe(const Elf64_Phdr *phdr, unsigned int n, uint64_t bias, struct self_module *ret)
{
	uint64_t frames;
	unsigned int i;

	*ret = (struct self_module){ .id = 0 };
	for (i = 0; i < n; i++) {
		const Elf64_Phdr *p = &phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & (PF_R | PF_X)) == (PF_R | PF_X) && !ret->code_end) {
			ret->code = bias + p->p_vaddr;
			ret->code_end = ret->code + p->p_filesz;
		}
		if (p->p_type != PT_GNU_EH_FRAME)
			continue;
		ret->image.hdr = mapped_from(phdr, n, bias, bias + p->p_vaddr);
		if (ret->image.hdr.end - ret->image.hdr.start > p->p_memsz)
			ret->image.hdr.end = ret->image.hdr.start + p->p_memsz;
		if (eh_frame_section(&ret->image.hdr, &frames))
			ret->image.frames = mapped_from(phdr, n, bias, frames);
	}
}

/* Setup: which modules last. */

struct object {
	uint64_t bias, start, end;
	const Elf64_Phdr *phdr;
	unsigned int nphdr;
	const char *name, *soname;
	const Elf64_Dyn *dynamic;
	const char *strings;
	bool lasts;
};

struct objects {
	struct object v[LASTING_MAX];
	unsigned int n;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void read_dynamic(struct object *o)
{
	const Elf64_Dyn *d;
	uint64_t strings = 0;

	for (d = o->dynamic; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = d->d_un.d_ptr;
	/* glibc has relocated it in place, others have not. */
	if (strings && strings < o->bias)
		strings += o->bias;
	o->strings = (const char *)(uintptr_t)strings;
	for (d = o->strings ? o->dynamic : NULL; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_SONAME)
			o->soname = o->strings + d->d_un.d_val;
}

static void span(struct object *o)
{
	unsigned int i;

	o->start = UINT64_MAX;
	for (i = 0; i < o->nphdr; i++) {
		const Elf64_Phdr *p = &o->phdr[i];
		uint64_t start = o->bias + p->p_vaddr;

		if (p->p_type == PT_DYNAMIC)
			o->dynamic = (const Elf64_Dyn *)(uintptr_t)start;
		if (p->p_type != PT_LOAD)
			continue;
		if (start < o->start)
			o->start = start;
		if (start + p->p_memsz > o->end)
			o->end = start + p->p_memsz;
	}
}

static int add_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct objects *all = data;
	struct object *o = &all->v[all->n];

	if (all->n == LASTING_MAX)
		return 1;
	*o = (struct object){ .bias = info->dlpi_addr,
			      .phdr = info->dlpi_phdr,
			      .nphdr = info->dlpi_phnum,
			      .name = info->dlpi_name ? info->dlpi_name : "" };
	span(o);
	if (o->start >= o->end)
		return 0;
	read_dynamic(o);
	all->n++;
	return 0;
}

/* musl does not list it. */
static void add_vdso(struct objects *all)
{
	const Elf64_Ehdr *head = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	struct dl_phdr_info info = { .dlpi_name = "" };
	unsigned int i;

	if (!head)
		return;
	for (i = 0; i < all->n; i++) {
		if (all->v[i].start != (uintptr_t)head)
			continue;
		all->v[i].lasts = true;
		return;
	}
	info.dlpi_phdr = (const void *)((const char *)head + head->e_phoff);
	info.dlpi_phnum = head->e_phnum;
	info.dlpi_addr = (uintptr_t)head;
	for (i = 0; i < head->e_phnum; i++)
		if (info.dlpi_phdr[i].p_type == PT_LOAD)
			info.dlpi_addr =
				(uintptr_t)head + info.dlpi_phdr[i].p_offset - info.dlpi_phdr[i].p_vaddr;
	i = all->n;
	add_object(&info, sizeof(info), all);
	if (all->n > i)
		all->v[i].lasts = true;
}

static void mark_needed(struct objects *all, const char *name)
{
	unsigned int i;

	for (i = 0; i < all->n; i++) {
		struct object *o = &all->v[i];
		const char *own = o->soname ? o->soname : base_name(o->name);

		if (strcmp(own, base_name(name)) == 0 || strcmp(own, name) == 0) {
			o->lasts = true;
			return;
		}
	}
}

static void mark_closure(struct objects *all)
{
	bool done[LASTING_MAX] = { false };
	const Elf64_Dyn *d;
	unsigned int i;

	for (i = 0; i < all->n; i++) {
		if (!all->v[i].lasts || done[i])
			continue;
		done[i] = true;
		for (d = all->v[i].strings ? all->v[i].dynamic : NULL; d && d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_NEEDED)
				mark_needed(all, all->v[i].strings + d->d_un.d_val);
		i = UINT32_MAX; /* from the start again: one further up may have been marked */
	}
}

static bool self_modules_holds(const struct object *o, const void *addr)
{
	return (uintptr_t)addr >= o->start && (uintptr_t)addr < o->end;
}

static void mark_lasting(struct objects *all)
{
	const void *program = (const void *)(uintptr_t)getauxval(AT_PHDR);
	unsigned int i;

	for (i = 0; i < all->n; i++)
		if (!libc_version || all->v[i].phdr == program ||
		    self_modules_holds(&all->v[i], (const void *)self_modules_setup))
			all->v[i].lasts = true;
	mark_closure(all);
}

/* A program without PT_GNU_EH_FRAME: there is no table to search in, so a rule takes some 10 us to find. */
static void find_frames(const struct object *o, struct self_module *m)
{
	uint64_t address;

	if (m->image.frames.bytes || o->phdr != (const void *)(uintptr_t)getauxval(AT_PHDR))
		return;
	address = self_eh_frame_address();
	if (address)
		m->image.frames = mapped_from(o->phdr, o->nphdr, o->bias, o->bias + address);
}

void self_modules_setup(void)
{
	static struct objects all;
	static bool begun;
	uint32_t n = 0, i;

	if (__atomic_exchange_n(&begun, true, __ATOMIC_RELAXED))
		return;
	dl_iterate_phdr(add_object, &all);
	mark_lasting(&all);
	add_vdso(&all);
	for (i = 0; i < all.n; i++) {
		const struct object *o = &all.v[i];
		uint32_t at = n;

		if (!o->lasts)
			continue;
		for (; at && lasting[at - 1].start > o->start; at--)
			lasting[at] = lasting[at - 1];
		lasting[at] = (struct lasting){ .start = o->start, .end = o->end };
		describe(o->phdr, o->nphdr, o->bias, &lasting[at].module);
		find_frames(o, &lasting[at].module);
		n++;
	}
	__atomic_store_n(&nlasting, n, __ATOMIC_RELEASE);
}

static bool find_lasting(uint64_t pc, struct self_module *ret)
{
	uint32_t low = 0, high = __atomic_load_n(&nlasting, __ATOMIC_ACQUIRE);

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (lasting[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || pc >= lasting[low - 1].end)
		return false;
	*ret = lasting[low - 1].module;
	return true;
}

/* Modules that may go. */

/* NULL: the first page does not hold an ELF header and all program headers. That page can be read. */
static const Elf64_Phdr *headers(uint64_t start, unsigned int *n)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)(uintptr_t)start;

	if (__builtin_memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phoff > SELF_PAGE ||
	    head->e_phnum > (SELF_PAGE - head->e_phoff) / sizeof(Elf64_Phdr))
		return NULL;
	*n = head->e_phnum;
	return (const Elf64_Phdr *)(uintptr_t)(start + head->e_phoff);
}

static void find_build_id(const Elf64_Phdr *phdr, unsigned int n, uint64_t bias, struct passing *ret)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		uint64_t at = bias + phdr[i].p_vaddr, end = at + phdr[i].p_filesz,
			 first = ret->start + SELF_PAGE;

		if (phdr[i].p_type != PT_NOTE || phdr[i].p_align > 4 || at < ret->start)
			continue;
		if (end > first)
			end = first;
		while (at < end && end - at >= sizeof(Elf64_Nhdr) + 4) {
			const Elf64_Nhdr *note = (const Elf64_Nhdr *)(uintptr_t)at;
			uint64_t name = at + sizeof(*note), desc = name + ((note->n_namesz + 3ull) & ~3ull);

			if (desc > end || note->n_descsz > end - desc)
				break;
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz &&
			    note->n_descsz <= BUILD_ID_MAX &&
			    __builtin_memcmp((const void *)(uintptr_t)name, "GNU", 4) == 0) {
				ret->build_id_at = desc;
				ret->build_id_len = note->n_descsz;
				return;
			}
			at = desc + ((note->n_descsz + 3ull) & ~3ull);
		}
	}
}

static bool same_bytes(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

static bool is_same(const struct passing *p, const struct found_object *o)
{
	if ((uintptr_t)o->map_start != p->start || (uintptr_t)o->map_end != p->end ||
	    (uintptr_t)o->eh_frame_hdr != p->hdr)
		return false;
	return same_bytes((const uint8_t *)(uintptr_t)p->build_id_at, p->build_id, p->build_id_len);
}

bool self_module_is_there(uint32_t id)
{
	const struct passing *p;
	struct found_object o;

	if (id > SELF_MODULES_MAX || !find_object)
		return false;
	p = &passing[id - 1];
	return find_object((void *)(uintptr_t)p->start, &o) == 0 && is_same(p, &o);
}

/* False: not an object that we can make sense of. */
static bool look_at(const struct found_object *o, struct passing *ret)
{
	const Elf64_Phdr *phdr;
	uint64_t bias, lowest = UINT64_MAX;
	unsigned int n, i;
	uint32_t k;

	*ret = (struct passing){ .start = (uintptr_t)o->map_start,
				 .end = (uintptr_t)o->map_end,
				 .hdr = (uintptr_t)o->eh_frame_hdr };
	if (!self_readable(ret->start) || !(phdr = headers(ret->start, &n)))
		return false;
	for (i = 0; i < n; i++)
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_vaddr < lowest)
			lowest = phdr[i].p_vaddr;
	bias = ret->start - (lowest & ~(uint64_t)(SELF_PAGE - 1));
	describe(phdr, n, bias, &ret->module);
	if (ret->module.image.hdr.start != ret->hdr)
		return false;
	find_build_id(phdr, n, bias, ret);
	for (k = 0; k < ret->build_id_len; k++)
		ret->build_id[k] = ((const uint8_t *)(uintptr_t)ret->build_id_at)[k];
	return true;
}

static uint32_t first_slot(const struct found_object *o)
{
	return (uint32_t)(((uintptr_t)o->map_start >> 12) * 0x9e3779b1u) % SELF_MODULES_MAX;
}

/*
 * A slot that is being filled belongs to another thread, or to who was interrupted here: it is passed over.
 * So one module may come to have two ids, which does no harm.
 */
static enum self_found find_passing(const struct found_object *o, struct self_module *ret)
{
	uint32_t i = first_slot(o), n;
	struct passing seen;

	for (n = 0; n < SELF_MODULES_MAX; n++, i = (i + 1) % SELF_MODULES_MAX) {
		struct passing *p = &passing[i];
		uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE), empty = SLOT_EMPTY;

		if (state == SLOT_READY && is_same(p, o)) {
			*ret = p->module;
			return SELF_MODULE;
		}
		if (state != SLOT_EMPTY)
			continue;
		if (!look_at(o, &seen))
			return SELF_UNKNOWN;
		if (!seen.build_id_len)
			break;
		if (!__atomic_compare_exchange_n(&p->state, &empty, SLOT_FILLING, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		seen.state = SLOT_FILLING;
		seen.module.id = i + 1;
		*p = seen;
		__atomic_store_n(&p->state, SLOT_READY, __ATOMIC_RELEASE);
		*ret = seen.module;
		return SELF_MODULE;
	}
	if (n == SELF_MODULES_MAX && !look_at(o, &seen))
		return SELF_UNKNOWN;
	*ret = seen.module;
	ret->id = SELF_MODULE_PASSING;
	return SELF_MODULE;
}

enum self_found self_module_find(uint64_t pc, struct self_module *ret)
{
	struct found_object o;

	if (find_lasting(pc, ret))
		return SELF_MODULE;
	if (!find_object)
		return SELF_UNKNOWN;
	if (find_object((void *)(uintptr_t)pc, &o) != 0)
		return SELF_NO_MODULE;
	return find_passing(&o, ret);
}
