#include "watchctl/flow/explain/c_library.h"

#include <stddef.h>
#include <string.h>

bool c_library_has(const char *module)
{
	static const char *const begins[] = { "libc.so",  "libc-2",  "libpthread", "ld-linux",
					      "ld-2",	  "ld.so",   "ld-musl",	   "libc.musl",
					      "libdl.so", "libdl-2", "librt.so",   "librt-2" };

	for (size_t i = 0; module && i < sizeof(begins) / sizeof(begins[0]); i++)
		if (!strncmp(module, begins[i], strlen(begins[i])))
			return true;
	return false;
}
