#include "watchctl/monitor/capture_note.h"

#include <elf.h>
#include <string.h>

#include "watchctl/code/unwind/capture_wire.h"

#define NOTES_MAX (64u << 10) /* bytes of them */
#define SEGMENTS_MAX 64u

static uint64_t align_up(uint64_t x, uint64_t a)
{
	return (x + a - 1) / a * a;
}

/* The note at @buf[*at], and past it. False: there is none, or it is cut off. */
static bool next_note(const uint8_t *buf, size_t len, uint64_t align, size_t *at, Elf64_Nhdr *head,
		      size_t *name, size_t *desc)
{
	if (len - *at < sizeof(*head))
		return false;
	memcpy(head, buf + *at, sizeof(*head));
	*name = *at + sizeof(*head);
	if (head->n_namesz > NOTES_MAX || head->n_descsz > NOTES_MAX)
		return false;
	*desc = align_up(*name + head->n_namesz, align);
	if (*desc > len || head->n_descsz > len - *desc)
		return false;
	*at = align_up(*desc + head->n_descsz, align);
	if (*at > len)
		*at = len;
	return true;
}

static bool is_ours(const uint8_t *buf, const Elf64_Nhdr *head, size_t name)
{
	return head->n_type == CAPTURE_NOTE && head->n_descsz == sizeof(int64_t) &&
	       head->n_namesz == sizeof(CAPTURE_NOTE_NAME) &&
	       !memcmp(buf + name, CAPTURE_NOTE_NAME, sizeof(CAPTURE_NOTE_NAME));
}

static bool capture_note_search(const struct memory_view *mem, uint64_t addr, size_t len, uint64_t align,
				uint64_t *ret)
{
	uint8_t buf[4096];
	size_t at = 0, name, desc;
	Elf64_Nhdr head;
	int64_t distance;

	if (len > sizeof(buf))
		len = sizeof(buf);
	if (!memory_read(mem, addr, buf, len))
		return false;
	while (next_note(buf, len, align, &at, &head, &name, &desc)) {
		if (!is_ours(buf, &head, name))
			continue;
		memcpy(&distance, buf + desc, sizeof(distance));
		*ret = addr + desc + (uint64_t)distance;
		return true;
	}
	return false;
}

bool capture_note_find(const struct memory_view *mem, const struct module *m, uint64_t *ret)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	unsigned int i;

	if (!memory_read(mem, m->start, &e, sizeof(e)) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phentsize != sizeof(p))
		return false;
	for (i = 0; i < e.e_phnum && i < SEGMENTS_MAX; i++) {
		if (!memory_read(mem, m->start + e.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return false;
		if (p.p_type == PT_NOTE &&
		    capture_note_search(mem, m->bias + p.p_vaddr, p.p_memsz, p.p_align == 8 ? 8 : 4, ret))
			return true;
	}
	return false;
}
