/*
 * What has to be known of the files of a process to find a thread's copy of a variable: see tls.h. Which
 * library the C library is, is recognised by what it exports.
 */
#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/symbols/symbol_exported.h"
#include "watchctl/code/tls/tls_list.h"

/* The entries of a file's program header and dynamic section that matter here. */
struct shape {
	bool has_interpreter, has_soname, is_pie, has_tls;
	uint64_t tls_vaddr, tls_size, tls_align;
	uint64_t dynamic;	/* file address; 0: none, it is statically linked */
	uint64_t debug_pointer; /* file address of DT_DEBUG's value; 0: none */
	int type;
};

static void read_dynamic(Elf *elf, const GElf_Phdr *ph, struct shape *ret)
{
	Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)ph->p_offset, ph->p_filesz, ELF_T_DYN);
	GElf_Dyn dyn;

	ret->dynamic = ph->p_vaddr;
	for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		if (dyn.d_tag == DT_DEBUG)
			ret->debug_pointer =
				ph->p_vaddr + (uint64_t)i * sizeof(Elf64_Dyn) + offsetof(Elf64_Dyn, d_un);
		else if (dyn.d_tag == DT_SONAME)
			ret->has_soname = true;
		else if (dyn.d_tag == DT_FLAGS_1)
			ret->is_pie = dyn.d_un.d_val & DF_1_PIE;
	}
}

static bool read_shape(struct locate_index *x, struct shape *ret)
{
	Elf *elf = elffile_elf(locate_index_file(x));
	GElf_Ehdr header;
	size_t n = 0;

	*ret = (struct shape){ 0 };
	if (!elf || !gelf_getehdr(elf, &header) || elf_getphdrnum(elf, &n) != 0)
		return false;
	ret->type = header.e_type;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);

		if (!ph)
			continue;
		if (ph->p_type == PT_INTERP) {
			ret->has_interpreter = true;
		} else if (ph->p_type == PT_DYNAMIC) {
			read_dynamic(elf, ph, ret);
		} else if (ph->p_type == PT_TLS) {
			ret->has_tls = true;
			ret->tls_vaddr = ph->p_vaddr;
			ret->tls_size = ph->p_memsz;
			ret->tls_align = ph->p_align ? ph->p_align : 1;
		}
	}
	return true;
}

/* A library that can be run has an interpreter too (libc.so.6), but also a name for those who link with it.
 */
static bool is_program(const struct shape *s)
{
	return s->type == ET_EXEC || s->is_pie || (s->has_interpreter && !s->has_soname);
}

/* The linker's own formula: the block is as far below the thread pointer as its size and alignment ask for.
 */
static uint64_t program_block(const struct shape *s)
{
	return s->tls_size + ((-s->tls_size - s->tls_vaddr) & (s->tls_align - 1));
}

/* The runtime address of what @m exports as @name; 0: nothing. */
static uint64_t exported_address(struct search *s, const struct module *m, const char *name)
{
	struct locate_index *x = locator_index(s->locator, m);
	GElf_Sym sym;

	return x && symbol_exported(elffile_elf(locate_index_file(x)), name, &sym) ? sym.st_value + m->bias
										   : 0;
}

static bool base_begins(const struct module *m, const char *prefix)
{
	return strncmp(basename(m->path), prefix, strlen(prefix)) == 0;
}

/* The first module with one of these beginnings of a name that exports @name. */
static uint64_t find_exported(struct search *s, const char *const *prefix, const char *name)
{
	for (size_t i = 0; i < s->modules->n; i++) {
		const struct module *m = &s->modules->v[i];
		uint64_t addr = 0;

		for (size_t k = 0; prefix[k] && !addr; k++)
			if (base_begins(m, prefix[k]))
				addr = exported_address(s, m, name);
		if (addr)
			return addr;
	}
	return 0;
}

static const char *const loader_names[] = { "ld-", "ld.so", "libc.so", "libc.musl", NULL };
/* Before glibc 2.34 the descriptors were in libpthread. */
static const char *const library_names[] = { "libc.so", "libc-", "libpthread", NULL };

/* A descriptor is {size of the field in bits, number of elements, offset}. False: not there, or of another
 * size. */
static bool read_field(struct search *s, const struct memory_view *mem, const char *name, uint32_t bits,
		       uint32_t *ret)
{
	uint64_t addr = find_exported(s, library_names, name);
	uint32_t desc[3];

	if (!addr || !memory_read(mem, addr, desc, sizeof(desc)) || (bits && desc[0] != bits))
		return false;
	*ret = desc[2];
	return true;
}

/* Elements of an array of structures: their size too. */
static bool read_array(struct search *s, const struct memory_view *mem, const char *name, uint32_t *size,
		       uint32_t *ret)
{
	uint64_t addr = find_exported(s, library_names, name);
	uint32_t desc[3];

	if (!addr || !memory_read(mem, addr, desc, sizeof(desc)) || !desc[0] || desc[0] % 8)
		return false;
	*size = desc[0] / 8;
	*ret = desc[2];
	return true;
}

static bool read_glibc(struct search *s, const struct memory_view *mem, struct tls_glibc *ret)
{
	uint64_t global = find_exported(s, loader_names, "_rtld_global");
	uint32_t list, dtv;

	if (!global || !read_field(s, mem, "_thread_db_rtld_global__dl_tls_dtv_slotinfo_list", 64, &list) ||
	    !read_array(s, mem, "_thread_db_dtv_dtv", &ret->dtv_stride, &dtv) || dtv ||
	    !read_array(s, mem, "_thread_db_dtv_slotinfo_list_slotinfo", &ret->slot_size, &ret->list_slots))
		return false;
	ret->list = global + list;
	return read_field(s, mem, "_thread_db_link_map_l_tls_offset", 64, &ret->map_offset) &&
	       read_field(s, mem, "_thread_db_link_map_l_tls_modid", 64, &ret->map_modid) &&
	       read_field(s, mem, "_thread_db_pthread_dtvp", 64, &ret->thread_dtv) &&
	       read_field(s, mem, "_thread_db_dtv_t_counter", 64, &ret->dtv_counter) &&
	       read_field(s, mem, "_thread_db_dtv_t_pointer_val", 64, &ret->dtv_value) &&
	       read_field(s, mem, "_thread_db_dtv_slotinfo_list_len", 64, &ret->list_len) &&
	       read_field(s, mem, "_thread_db_dtv_slotinfo_list_next", 64, &ret->list_next) &&
	       read_field(s, mem, "_thread_db_dtv_slotinfo_gen", 64, &ret->slot_generation);
}

/*
 * musl numbers the modules that have thread-local variables, in the order of its list, and never takes one
 * out of it. 0: not in the list.
 */
static uint64_t musl_id(struct search *s, const struct memory_view *mem, const struct tls_place *p)
{
	struct tls_list l;
	uint64_t id = 0;

	for (tls_list_begin(&l, p, mem); tls_list_next(&l);) {
		const struct module *m = module_find(s->modules, l.dynamic);
		struct locate_index *x = m ? locator_index(s->locator, m) : NULL;
		struct shape shape;

		id += x && read_shape(x, &shape) && shape.has_tls;
		if (l.dynamic == p->dynamic)
			return id;
	}
	return 0;
}

static void find_library(struct search *s, const struct memory_view *mem, struct tls_place *p)
{
	if (read_glibc(s, mem, &p->glibc)) {
		p->library = TLS_LIBRARY_GLIBC;
	} else if (find_exported(s, loader_names, "__dls3")) {
		p->musl_id = musl_id(s, mem, p);
		p->library = p->musl_id ? TLS_LIBRARY_MUSL : TLS_LIBRARY_UNKNOWN;
	}
}

struct wc_error *hit_tls_place(struct search *s, const struct hit *h, const struct memory_view *mem,
			       struct tls_place *ret)
{
	const struct module *exe = search_main_module(s->modules);
	struct locate_index *x = exe ? locator_index(s->locator, exe) : NULL;
	struct tls_place p = { .start = h->module->start, .bias = h->module->bias, .offset = h->addr };
	struct shape shape, main_shape;

	if (!read_shape(h->index, &shape) || !shape.has_tls)
		return wc_error_new(
			WC_ENAME,
			"'%s' is thread-local, but its module %s has no thread-local storage: the file "
			"cannot be read, or is damaged.",
			h->name, h->module->path);
	p.dynamic = shape.dynamic ? shape.dynamic + h->module->bias : 0;
	if (is_program(&shape))
		p.program_block = program_block(&shape);
	if (x && read_shape(x, &main_shape) && main_shape.debug_pointer)
		p.debug_pointer = main_shape.debug_pointer + exe->bias;
	p.debug = find_exported(s, loader_names, "_r_debug");
	if (!p.program_block && mem)
		find_library(s, mem, &p);
	*ret = p;
	return NULL;
}
