/* build libdropped_other.so: gcc -O1 -g -shared -fPIC -Wl,-soname,libdropped_other.so -L@ -l:libdropped.so.1 */
/* A library that needs the one that is replaced, and whose constructor calls it. */
int dropped_add(int a, int b);
int dropped_other(void);

static int sum;

__attribute__((constructor)) static void call_early(void)
{
	for (int i = 0; i < 10; i++)
		sum += dropped_add(i, i);
}

int dropped_other(void)
{
	return sum;
}
