/* build libplugged.so: gcc -O2 -g -shared -fPIC */
/* build libplugged_anew.so: gcc -O1 -g -DANEW -shared -fPIC */
/* plugged - the library that patched.c and reloads.c load; ANEW: another version of it. */
int plugged(int a);

__attribute__((noinline)) int plugged(int a)
{
#ifdef ANEW
	a *= 3;
#endif
	return a ^ 5;
}
