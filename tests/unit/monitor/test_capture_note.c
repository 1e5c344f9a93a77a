/* The note of libstackwalk in ELF images laid out here, sound ones and others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <string.h>

#include "watchctl/monitor/capture_note.h"

#define BASE 0x7f0000000000u

struct image {
	Elf64_Ehdr e;
	Elf64_Phdr p[3];
	uint8_t notes[256];
};

static bool read_image(void *ctx, uint64_t addr, void *buf, size_t len)
{
	if (addr < BASE || addr - BASE > sizeof(struct image) || len > sizeof(struct image) - (addr - BASE))
		return false;
	memcpy(buf, (const uint8_t *)ctx + (addr - BASE), len);
	return true;
}

static size_t add_note(uint8_t *to, size_t at, const char *name, uint32_t type, const void *desc,
		       uint32_t len)
{
	Elf64_Nhdr h = { (uint32_t)strlen(name) + 1, len, type };

	memcpy(to + at, &h, sizeof(h));
	at += sizeof(h);
	memcpy(to + at, name, h.n_namesz);
	at = (at + h.n_namesz + 3) / 4 * 4;
	memcpy(to + at, desc, len);
	return (at + len + 3) / 4 * 4;
}

static struct image sample(uint64_t *desc_addr)
{
	struct image i = {
		.e = { .e_phoff = offsetof(struct image, p), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 3 }
	};
	int64_t distance = 0x5000;
	size_t at;

	memcpy(i.e.e_ident, ELFMAG, SELFMAG);
	i.e.e_ident[EI_CLASS] = ELFCLASS64;
	at = add_note(i.notes, 0, "GNU", 3, "0123456789abcdefghij", 20);
	*desc_addr = BASE + offsetof(struct image, notes) + at + 12 + 12;
	at = add_note(i.notes, at, "stackwalk", 1, &distance, 8);
	i.p[0].p_type = PT_LOAD;
	i.p[2] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_vaddr = offsetof(struct image, notes), .p_memsz = at, .p_align = 4
	};
	return i;
}

static bool find(struct image *i, uint64_t *ret)
{
	const struct memory_view mem = { read_image, i };
	struct module m = { .start = BASE, .end = BASE + sizeof(*i), .bias = BASE };

	return capture_note_find(&mem, &m, ret);
}

static void the_descriptor_lies_as_far_from_the_note_as_it_says(void **state)
{
	uint64_t found, desc;
	struct image i = sample(&desc);

	assert_true(find(&i, &found));
	assert_int_equal(found, desc + 0x5000);
}

static void notes_of_others_are_none(void **state)
{
	uint64_t found, desc;
	struct image i = sample(&desc);

	i.p[2].p_memsz = 36; /* the first alone */
	assert_false(find(&i, &found));
	i = sample(&desc);
	i.e.e_ident[0] = 'x';
	assert_false(find(&i, &found));
	i = sample(&desc);
	i.p[2].p_vaddr = 1ull << 60;
	assert_false(find(&i, &found));
}

/* Any byte of it may be anything: found, or not found, and no read outside. */
static void no_byte_of_an_image_leads_out_of_it(void **state)
{
	uint64_t found, desc;
	struct image i = sample(&desc), bad;
	size_t at;
	int bit;

	for (at = 0; at < sizeof(i); at++) {
		for (bit = 0; bit < 8; bit++) {
			bad = i;
			((uint8_t *)&bad)[at] ^= 1 << bit;
			find(&bad, &found);
		}
		bad = i;
		((uint8_t *)&bad)[at] = 0xff;
		find(&bad, &found);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_descriptor_lies_as_far_from_the_note_as_it_says),
		cmocka_unit_test(notes_of_others_are_none),
		cmocka_unit_test(no_byte_of_an_image_leads_out_of_it),
	};

	return cmocka_run_group_tests_name("capture_note", tests, NULL, NULL);
}
