/* Shows where its code and data are, for every way to link it. */
#include "loc_show.h"

int in_data = 1;
int in_bss[5000];
const int in_rodata = 2;

int main(void)
{
	SHOW(in_data);
	SHOW(in_bss[4999]);
	SHOW(in_rodata);
	SHOW_AS("main", main);
	show_done();
	return 0;
}
