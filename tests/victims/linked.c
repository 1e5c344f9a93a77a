/* build: gcc -O2 -g */
/* linked - uses a variable of a library that it is linked with, and one that it loads. linked LIB N */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*touch)(int) = lib ? (void (*)(int))dlsym(lib, "plugin_touch") : NULL;
	int i, n = argc > 2 ? atoi(argv[2]) : 0;

	for (i = 0; touch && i < n; i++)
		touch(i);
	return touch ? 0 : 1;
}
