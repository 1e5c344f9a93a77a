#include "tests/oracle/eh_images.h"

#include <elf.h>
#include <stdlib.h>

#include "watchctl/base/vec.h"

void eh_images_deinit(struct eh_images *x)
{
	for (size_t i = 0; i < x->n; i++) {
		free(x->v[i].hdr);
		free(x->v[i].frames);
	}
	free(x->v);
	*x = (struct eh_images){ 0 };
}

static uint8_t *copy(const struct memory_view *mem, uint64_t start, uint64_t end, struct eh_range *ret)
{
	uint8_t *bytes = end > start ? malloc(end - start) : NULL;

	if (bytes && !memory_read(mem, start, bytes, end - start)) {
		free(bytes);
		bytes = NULL;
	}
	*ret = (struct eh_range){ start, end, bytes };
	return bytes;
}

/* Where the segment that holds @vaddr ends; 0: none does. */
static uint64_t segment_end(const Elf64_Phdr *p, unsigned int n, uint64_t vaddr)
{
	for (unsigned int i = 0; i < n; i++)
		if (p[i].p_type == PT_LOAD && vaddr >= p[i].p_vaddr && vaddr - p[i].p_vaddr < p[i].p_filesz)
			return p[i].p_vaddr + p[i].p_filesz;
	return 0;
}

static void fill(struct eh_copy *c, const struct memory_view *mem)
{
	uint64_t frames, end;
	Elf64_Phdr p[64];
	Elf64_Ehdr e;

	if (!memory_read(mem, c->start, &e, sizeof(e)) || e.e_phnum > 64 ||
	    !memory_read(mem, c->start + e.e_phoff, p, e.e_phnum * sizeof(*p)))
		return;
	for (unsigned int i = 0; i < e.e_phnum; i++) {
		if (p[i].p_type != PT_GNU_EH_FRAME)
			continue;
		c->hdr = copy(mem, c->bias + p[i].p_vaddr, c->bias + p[i].p_vaddr + p[i].p_memsz,
			      &c->image.hdr);
		if (!c->hdr || !eh_frame_section(&c->image.hdr, &frames))
			return;
		end = segment_end(p, e.e_phnum, frames - c->bias);
		c->frames = copy(mem, frames, c->bias + end, &c->image.frames);
	}
}

const struct eh_image *eh_images_of(struct eh_images *x, const struct module *m,
				    const struct memory_view *mem)
{
	struct eh_copy new = { .start = m->start, .end = m->end, .bias = m->bias };

	for (size_t i = 0; i < x->n; i++)
		if (x->v[i].start == m->start && x->v[i].end == m->end)
			return x->v[i].frames ? &x->v[i].image : NULL;
	fill(&new, mem);
	if (!vec_push(x->v, x->n, x->cap, new)) {
		free(new.hdr);
		free(new.frames);
		return NULL;
	}
	return new.frames ? &x->v[x->n - 1].image : NULL;
}
