/* A library whose exported variable the executable of loc_user.c takes over by copy relocation. */
struct shared_state {
	int generation;
	long total;
};

struct shared_state lib_state = { 3, 4 };
static int lib_private = 5;
int lib_twin = 6;
__thread int lib_thread = 7;

void *lib_private_address(void);
int *lib_twin_address(void);

void *lib_private_address(void)
{
	lib_private++;
	return &lib_private;
}

int *lib_twin_address(void)
{
	return &lib_twin;
}
