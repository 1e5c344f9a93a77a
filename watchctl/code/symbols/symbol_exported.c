#include "watchctl/code/symbols/symbol_exported.h"

#include <string.h>

static bool find_in_section(Elf *elf, Elf_Scn *scn, const char *name, GElf_Sym *ret)
{
	GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);
	Elf_Data *data = sh && sh->sh_type == SHT_DYNSYM ? elf_getdata(scn, NULL) : NULL;
	size_t n = data && sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;

	for (size_t i = 1; i < n; i++) {
		GElf_Sym sym;
		const char *s;

		if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF)
			continue;
		s = elf_strptr(elf, sh->sh_link, sym.st_name);
		if (s && strcmp(s, name) == 0) {
			*ret = sym;
			return true;
		}
	}
	return false;
}

bool symbol_needs_libraries(Elf *elf)
{
	size_t n = 0;

	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);
		Elf_Data *data =
			ph && ph->p_type == PT_DYNAMIC
				? elf_getdata_rawchunk(elf, (int64_t)ph->p_offset, ph->p_filesz, ELF_T_DYN)
				: NULL;
		GElf_Dyn dyn;

		for (int k = 0; data && gelf_getdyn(data, k, &dyn) && dyn.d_tag != DT_NULL; k++)
			if (dyn.d_tag == DT_NEEDED)
				return true;
	}
	return false;
}

bool symbol_exported(Elf *elf, const char *name, GElf_Sym *ret)
{
	for (Elf_Scn *scn = NULL; elf && (scn = elf_nextscn(elf, scn));)
		if (find_in_section(elf, scn, name, ret))
			return true;
	return false;
}
