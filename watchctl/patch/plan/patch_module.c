#include "watchctl/patch/plan/patch_module.h"

#include <fcntl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/elf/symbol_search.h"

struct wc_error *patch_module_open(const struct module *m, const struct memory_view *mem,
				   struct patch_module *ret)
{
	struct patch_module p = { 0 };
	struct wc_error *err;

	if (!module_copy(m, &p.module))
		return &wc_enomem;
	err = code_image_open(&p.module, mem, &p.image);
	if (err) {
		patch_module_deinit(&p);
		return err;
	}
	*ret = p;
	return NULL;
}

void patch_module_deinit(struct patch_module *p)
{
	code_map_deinit(&p->map);
	code_image_free(p->image);
	module_deinit(&p->module);
	*p = (struct patch_module){ 0 };
}

static const uint8_t *data_bytes(void *ctx, uint64_t vaddr, size_t *len)
{
	return code_image_data(ctx, vaddr, len);
}

static void mark_taken(void *ctx, uint64_t addr)
{
	code_map_mark(ctx, addr, MARK_TAKEN);
}

/* Of the processor: other programs' work is none of the planner's. */
static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct wc_error *patch_module_map(struct patch_module *p)
{
	const struct code_data data = { data_bytes, p->image };
	uint64_t begin = now_ns();
	size_t n;
	const struct code_section *s = code_image_sections(p->image, &n);
	const struct code_function *f;

	p->map.is_fixed = code_image_is_fixed(p->image);
	p->map.room = p->room;
	p->map.bias = p->module.bias;
	code_image_span(p->image, &p->map.start, &p->map.end);
	for (size_t i = 0; i < n; i++)
		code_map_add_part(&p->map, s[i].start, s[i].bytes, s[i].len, s[i].is_stubs);
	f = code_image_functions(p->image, &n);
	for (size_t i = 0; i < n; i++)
		code_map_add_function(&p->map, f[i].start, f[i].end, f[i].name);
	if (!code_map_scan(&p->map))
		return &wc_enomem;
	code_image_pointers(p->image, mark_taken, &p->map);
	code_image_pads(p->image, mark_taken, &p->map);
	code_map_read_tables(&p->map, &data);
	p->sweep_ns = now_ns() - begin;
	return p->map.failed ? &wc_enomem : NULL;
}

struct wc_error *patch_module_of_file(const char *path, struct module *ret)
{
	struct module m = { .end = UINT64_MAX };
	struct module_elf head;
	scoped(closep) int fd = symbol_search_open_regular(path);

	if (fd < 0)
		return wc_error_errno(WC_ENAME, errno, "cannot open the file %s", path);
	if (!module_elf_from_file(fd, &head))
		return wc_error_new(WC_ENAME, "%s is no program or library for x86-64", path);
	memcpy(m.build_id, head.build_id, sizeof(m.build_id));
	m.build_id_len = head.build_id_len;
	m.is_program = head.is_program;
	m.path = realpath(path, NULL);
	m.open_path = m.path ? strdup(m.path) : NULL;
	if (!m.open_path) {
		free(m.path);
		return &wc_enomem;
	}
	*ret = m;
	return NULL;
}
