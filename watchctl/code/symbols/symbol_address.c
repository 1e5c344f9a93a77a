#include "watchctl/code/symbols/symbol_address.h"

#include <string.h>

#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/symbols/symbols.h"

static uint64_t symbol_address_find(const struct symbols *symbols, const char *name)
{
	size_t i, n, len = strlen(name);
	const struct symbol *all = symbols_all(symbols, &n);

	for (i = 0; i < n; i++)
		if (all[i].use != SYMBOL_TLS && !strncmp(all[i].name, name, len) &&
		    (all[i].name[len] == '\0' || all[i].name[len] == '@'))
			return all[i].addr;
	return 0;
}

uint64_t symbol_address(const struct module *m, const char *name)
{
	struct elffile *f = elffile_new(m);
	struct symbols *symbols = f ? symbols_new(f) : NULL;
	uint64_t addr = symbols ? symbol_address_find(symbols, name) : 0;

	symbols_free(symbols);
	elffile_free(f);
	return addr ? addr + m->bias : 0;
}
