/* Uses loc_lib.c: built without -g, so that types come from the library alone. */
#include <stdlib.h>

#include "loc_show.h"

struct shared_state {
	int generation;
	long total;
};

extern struct shared_state lib_state;
extern char **environ;
void *lib_private_address(void);
int *lib_twin_address(void);
int own_number = 1;

int main(void)
{
	SHOW(lib_state);
	SHOW(lib_state.total);
	SHOW_AS("libloc.so:lib_state.total", lib_state.total);
	SHOW(environ);
	SHOW(own_number);
	printf("lib_private\t%p\t4\n", lib_private_address());
	printf("libloc:lib_private\t%p\t4\n", lib_private_address());
	printf("loc_lib.c:lib_private\t%p\t4\n", lib_private_address());
	printf("lib_twin\t%p\t4\n", (void *)lib_twin_address());
	show_done();
	return 0;
}
