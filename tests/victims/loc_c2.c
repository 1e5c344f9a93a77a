/* The other half of loc_c.c. */
#include "loc_show.h"

struct opaque {
	long first, second;
};

static int twin = 22;
int elsewhere = 9;
static struct opaque instance = { 1, 2 };
__attribute__((used)) struct opaque *hidden = &instance;

void second_file(void);

void second_file(void)
{
	twin++;
	SHOW_AS("loc_c2.c:twin", twin);
	SHOW(hidden->second);
	SHOW(instance);
}
