/*
 * Any bytes are an .eh_frame or .debug_frame section: rules and function bounds come out, or do not, and
 * a rule that comes out is fit for the handler, which trusts it inside the traced program.
 *
 * The bytes are put into an ELF file that holds nothing else. The first byte chooses the section's name.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watchctl/code/unwind/cfi.h"

#define VADDR 0x400000u
#define FRAME_VADDR 0x500000u
#define SPAN 0x200000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char names[] = "\0.eh_frame\0.debug_frame\0.shstrtab";
enum { NAME_EH = 1, NAME_DEBUG = 11, NAME_STRINGS = 24 };
enum { SECTION_FRAME = 1, SECTION_STRINGS, SECTIONS };

struct image {
	Elf64_Ehdr head;
	Elf64_Phdr load[2];
	Elf64_Shdr section[SECTIONS];
	char names[sizeof(names)];
};

static void require(bool claim)
{
	if (!claim)
		abort();
}

static void describe(struct image *f, size_t size, bool eh)
{
	f->head = (Elf64_Ehdr){
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_entry = VADDR,
		.e_phoff = offsetof(struct image, load),
		.e_shoff = offsetof(struct image, section),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SECTION_STRINGS,
	};
	f->load[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				   .p_flags = PF_R | PF_X,
				   .p_vaddr = VADDR,
				   .p_paddr = VADDR,
				   .p_filesz = sizeof(*f),
				   .p_memsz = 0x1000,
				   .p_align = 0x1000 };
	f->load[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				   .p_flags = PF_R,
				   .p_offset = sizeof(*f),
				   .p_vaddr = FRAME_VADDR,
				   .p_paddr = FRAME_VADDR,
				   .p_filesz = size,
				   .p_memsz = size,
				   .p_align = 1 };
	f->section[SECTION_FRAME] = (Elf64_Shdr){ .sh_name = eh ? NAME_EH : NAME_DEBUG,
						  .sh_type = SHT_PROGBITS,
						  .sh_flags = eh ? SHF_ALLOC : 0,
						  .sh_addr = eh ? FRAME_VADDR : 0,
						  .sh_offset = sizeof(*f),
						  .sh_size = size,
						  .sh_addralign = 1 };
	f->section[SECTION_STRINGS] = (Elf64_Shdr){ .sh_name = NAME_STRINGS,
						    .sh_type = SHT_STRTAB,
						    .sh_offset = offsetof(struct image, names),
						    .sh_size = sizeof(names),
						    .sh_addralign = 1 };
	memcpy(f->names, names, sizeof(names));
}

/* What unwind_step() takes for granted. */
static void check_rule(const struct unwind_rule *rule)
{
	require(rule->kind <= UNWIND_FP);
	if (rule->kind == UNWIND_CFA_REG || rule->kind == UNWIND_CFA_DEREF)
		require(rule->cfa_reg < WREG_COUNT);
	require(rule->cfa_index <= WREG_R15 + 1);
	if (rule->kind == UNWIND_CFA_REG || rule->kind == UNWIND_CFA_DEREF || rule->kind == UNWIND_PLT)
		require(rule->save[UNWIND_SAVE_RA] != UNWIND_SAME);
}

static void ask(struct cfi *c, uint64_t pc)
{
	struct unwind_rule rule, again;
	uint64_t start, end;

	cfi_rule(c, pc, &rule);
	check_rule(&rule);
	cfi_rule(c, pc, &again);
	require(!memcmp(&rule, &again, sizeof(rule)));
	if (cfi_function(c, pc, &start, &end))
		require(start <= pc && pc < end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t at[] = { 0, 1, 0x10, 0x1000, 0x1fff, 0x100000, 0x100010 };
	struct module m = { .start = VADDR, .end = VADDR + SPAN, .path = (char *)"/fuzzed" };
	struct image image = { 0 };
	char path[64];
	struct cfi *c;
	int fd;

	if (size < 2)
		return 0;
	describe(&image, size - 1, data[0] % 2);
	fd = memfd_create("cfi", MFD_CLOEXEC);
	require(fd >= 0 && write(fd, &image, sizeof(image)) == (ssize_t)sizeof(image));
	require(write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m.open_path = path;

	c = cfi_new();
	require(c && cfi_add(c, &m));
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		ask(c, VADDR + at[i]);
	cfi_free(c);
	close(fd);
	return 0;
}
