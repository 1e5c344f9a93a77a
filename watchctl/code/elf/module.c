/*
 * From /proc/PID/maps to modules. A line of maps is one mapping; a module is a set of mappings of one
 * file that agree on the load bias:
 *
 *	mapping at A of file offset O, in the segment whose page-aligned file range holds O
 *	bias = A - (O - page(p_offset)) - page(p_vaddr)
 *
 * Two segments may share a page of the file, so that O alone does not always name the segment; the bias
 * that the module's earlier mappings had decides. The same file at two biases (dlmopen) is two modules.
 * A data file, even an ELF file that somebody reads through mmap, is none.
 */
#include "watchctl/code/elf/module.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/elf/module_image.h"

/* A module in the making. */
struct draft {
	const struct module_image *image;
	uint64_t start, end, bias;
	size_t nmappings;
	bool executable;
};

struct reading {
	pid_t pid;
	int mem_fd; /* /proc/PID/mem; -1: not permitted */
	struct module_image *image;
	size_t nimages, image_cap;
	struct draft *draft;
	size_t ndrafts, draft_cap;
};

static void reading_deinit(struct reading *r)
{
	for (size_t i = 0; i < r->nimages; i++)
		module_image_deinit(&r->image[i]);
	free(r->image);
	free(r->draft);
	closep(&r->mem_fd);
}

/* An index into r->image; -1: no memory. */
static ssize_t image_of(struct reading *r, const struct module_mapping *m)
{
	struct module_image img;

	/* Mappings of one file follow each other: look at the last ones first. */
	for (size_t i = r->nimages; i-- > 0;)
		if (r->image[i].ino == m->ino && r->image[i].dev == m->dev &&
		    strcmp(r->image[i].maps_path, m->path) == 0)
			return (ssize_t)i;
	if (!module_image_init(&img, r->pid, r->mem_fd, m))
		return -1;
	if (!vec_push(r->image, r->nimages, r->image_cap, img)) {
		module_image_deinit(&img);
		return -1;
	}
	return (ssize_t)r->nimages - 1;
}

/* Puts @m into the module that it belongs to, or starts one. @image may move: drafts hold indices first. */
static bool add_mapping(struct reading *r, const struct module_image *img, const struct module_mapping *m)
{
	uint64_t bias = 0;

	for (size_t i = r->ndrafts; i-- > 0;) {
		struct draft *d = &r->draft[i];

		if (d->image != img || !module_elf_has_bias(&img->head, m->start, m->offset, d->bias))
			continue;
		d->end = m->end > d->end ? m->end : d->end;
		d->executable |= m->executable;
		d->nmappings++;
		return true;
	}
	if (!module_elf_bias(&img->head, m->start, m->offset, m->executable, &bias))
		return true;
	return vec_push(r->draft, r->ndrafts, r->draft_cap,
			(struct draft){ img, m->start, m->end, bias, 1, m->executable });
}

/* A whole library read through mmap is one mapping that may not run; a loaded one is more, or runs. */
static bool draft_is_loaded(const struct draft *d)
{
	return d->nmappings > 1 || d->executable || d->image->head.nsegments == 1;
}

static bool list_push(struct module_list *l, struct module m)
{
	if (m.path && m.open_path && vec_push(l->v, l->n, l->cap, m))
		return true;
	free(m.path);
	free(m.open_path);
	return false;
}

static bool list_push_draft(struct module_list *l, const struct draft *d)
{
	const struct module_image *img = d->image;
	/* What has no beginning is a piece of the file that the program has mapped once more, as node does. */
	bool is_piece = d->start > module_elf_start(&img->head, d->bias);
	uint64_t end = is_piece ? d->end : module_elf_end(&img->head, d->bias);
	struct module m = { .start = d->start,
			    .end = end > d->end ? end : d->end,
			    .bias = d->bias,
			    .path = strdup(img->path),
			    .open_path = strdup(img->open_path),
			    .build_id_len = img->head.build_id_len,
			    .is_program = img->head.is_program,
			    .deleted = img->deleted };

	memcpy(m.build_id, img->head.build_id, sizeof(m.build_id));
	return list_push(l, m);
}

static bool list_push_vdso(struct module_list *l, const struct reading *r, const struct module_mapping *m)
{
	const void *ours = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct module_elf head;
	struct module vdso = { .start = m->start, .end = m->end };

	/* There is one vdso for all 64-bit processes of a kernel: ours shows where theirs cannot be read. */
	if (!(r->mem_fd >= 0 && module_elf_from_memory(r->mem_fd, m->start, &head)) &&
	    !(ours && module_elf_from_self(ours, &head)))
		return true;
	vdso.bias = m->start - module_elf_start(&head, 0);
	vdso.path = strdup("[vdso]");
	vdso.open_path = strdup("[vdso]");
	memcpy(vdso.build_id, head.build_id, sizeof(vdso.build_id));
	vdso.build_id_len = head.build_id_len;
	return list_push(l, vdso);
}

static int module_cmp(const void *a, const void *b)
{
	const struct module *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

struct parsed_maps {
	struct module_mapping *v;
	size_t n, cap;
};

static void parsed_maps_deinit(struct parsed_maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->v[i].path);
	free(maps->v);
}

static bool maps_parse(FILE *f, struct parsed_maps *ret)
{
	scoped(freep) char *line = NULL;
	size_t cap = 0;
	struct module_mapping m;

	while (getline(&line, &cap, f) > 0) {
		if (!module_mapping_parse(line, &m) || (m.path[0] != '/' && strcmp(m.path, "[vdso]") != 0))
			continue;
		m.path = strdup(m.path);
		if (!m.path)
			return false;
		if (!vec_push(ret->v, ret->n, ret->cap, m)) {
			free(m.path);
			return false;
		}
	}
	return true;
}

static bool list_build(struct reading *r, const struct parsed_maps *maps, struct module_list *ret)
{
	for (size_t i = 0; i < maps->n; i++)
		if (maps->v[i].path[0] == '/' && image_of(r, &maps->v[i]) < 0)
			return false;
	/* From here on no image moves. */
	for (size_t i = 0; i < maps->n; i++) {
		const struct module_mapping *m = &maps->v[i];
		ssize_t img;

		if (m->path[0] != '/') {
			if (!list_push_vdso(ret, r, m))
				return false;
			continue;
		}
		img = image_of(r, m);
		if (r->image[img].is_elf && !add_mapping(r, &r->image[img], m))
			return false;
	}
	for (size_t i = 0; i < r->ndrafts; i++)
		if (draft_is_loaded(&r->draft[i]) && !list_push_draft(ret, &r->draft[i]))
			return false;
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), module_cmp);
	return true;
}

static struct wc_error *maps_error(pid_t pid, int err)
{
	if (err == ENOENT || err == ESRCH)
		return wc_error_new(WC_ETARGET,
				    "There is no process %d: it may have ended. Look with ps -p %d.", pid,
				    pid);
	if (err == EACCES || err == EPERM)
		return wc_error_new(
			WC_EPERM,
			"The memory map of process %d may not be read, because it belongs to another user "
			"or is protected. Run as its user or as root.",
			pid);
	return wc_error_errno(WC_EFAIL, err, "cannot read /proc/%d/maps", pid);
}

/* The process whose map @f is has memory (still): 1, 0; below 0: that cannot be known (errno). */
static ssize_t has_memory(FILE *f)
{
	char c;

	return pread(fileno(f), &c, sizeof(c), 0);
}

struct wc_error *module_list_read(pid_t pid, struct module_list *ret)
{
	scoped(reading_deinit) struct reading r = { .pid = pid, .mem_fd = -1 };
	scoped(parsed_maps_deinit) struct parsed_maps maps = { 0 };
	scoped(module_list_deinit) struct module_list list = { 0 };
	scoped(fclosep) FILE *f = NULL;
	pid_t task = task_with_memory(pid);
	ssize_t there;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/maps", task);
	f = fopen(path, "re");
	if (!f)
		return maps_error(pid, errno);
	snprintf(path, sizeof(path), "/proc/%d/mem", task);
	r.mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!maps_parse(f, &maps))
		return &wc_enomem;
	if (!feof(f))
		return maps_error(pid, errno);
	if (!list_build(&r, &maps, &list))
		return &wc_enomem;
	/* One that has begun to end gives no more of its map, as if there were none: that is no part of a
	 * list. */
	there = has_memory(f);
	if (there <= 0)
		return there ? maps_error(pid, errno) : NULL;
	*ret = list;
	list = (struct module_list){ 0 };
	return NULL;
}

void module_deinit(struct module *m)
{
	free(m->path);
	free(m->open_path);
	*m = (struct module){ 0 };
}

bool module_copy(const struct module *from, struct module *ret)
{
	struct module m = *from;

	m.path = strdup(from->path);
	m.open_path = from->open_path ? strdup(from->open_path) : NULL;
	if (!m.path || (from->open_path && !m.open_path)) {
		module_deinit(&m);
		return false;
	}
	*ret = m;
	return true;
}

void module_list_deinit(struct module_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		module_deinit(&l->v[i]);
	free(l->v);
	*l = (struct module_list){ 0 };
}
