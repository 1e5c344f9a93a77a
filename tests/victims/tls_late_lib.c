/* A library that is loaded later, with a variable of which each thread has its own; -DCOUNTER: its name. */
__thread volatile int COUNTER;

void tick(void)
{
	COUNTER++;
}
