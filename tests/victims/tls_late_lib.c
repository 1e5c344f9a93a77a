/* build libtls_late.so: gcc -O1 -g -shared -fPIC -DCOUNTER=late */
/* build libtls_late_gnu2.so: gcc -O1 -g -shared -fPIC -mtls-dialect=gnu2 -DCOUNTER=late */
/* build libtls_other.so: gcc -O1 -g -shared -fPIC -DCOUNTER=other */
/* A library that is loaded later, with a variable of which each thread has its own; -DCOUNTER: its name. */
__thread volatile int COUNTER;

void tick(void)
{
	COUNTER++;
}
