/* build libstep_plugin.so: gcc -D_GNU_SOURCE -O2 -g -shared -fPIC */
/* What step_shapes loads and unloads. */
#include "step_account.h"

int plugin_add(int a, int b);

KEEP static int plugin_inner(int sum)
{
	ENTERED("plugin_inner", "sum=%d", sum);
	RETURNS("plugin_inner", sum * 2);
	return sum * 2;
}

KEEP int plugin_add(int a, int b)
{
	int r;

	ENTERED("plugin_add", "a=%d b=%d", a, b);
	r = plugin_inner(a + b) + 1;
	RETURNS("plugin_add", r);
	return r;
}
