/* build: gcc -O2 -g -pthread */
/* build tls_born_static: gcc -O2 -g -static -pthread */
/* build tls_born_static_pie: gcc -O2 -g -static-pie -pthread */
/* build tls_born_musl: musl-gcc -O2 -g -static -pthread */
/* build tls_born_hidden: musl-gcc -O2 -g -static -pthread -DHIDDEN_SETUP */
/*
 * tls_born - writes its own copy of a thread-local variable in every thread, as soon as the thread is there.
 *
 *	tls_born WRITES THREADS		so many in main(), after one in a constructor; so many threads, eight
 *at a time, each with one write
 *
 * With HIDDEN_SETUP, built with musl, nobody can tell from the code where the first thread gets its thread
 *pointer.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>

__thread volatile int mine = 7;
volatile long quad[4];

#ifdef HIDDEN_SETUP
int __set_thread_area(void *p)
{
	static volatile long number = SYS_arch_prctl, code = 0x1002; /* ARCH_SET_FS */
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(number), "D"(code), "S"(p) : "rcx", "r11", "memory");
	return (int)ret;
}
#endif

__attribute__((constructor)) static void before_main(void)
{
	mine = 8;
}

static void *write_own(void *arg)
{
	mine = 9;
	return arg;
}

int main(int argc, char **argv)
{
	long writes = argc > 1 ? atol(argv[1]) : 0, threads = argc > 2 ? atol(argv[2]) : 0, i, k;
	pthread_t t[8];

	for (i = 0; i < writes; i++)
		mine = (int)i;
	for (i = 0; i < threads; i += 8) {
		for (k = 0; k < 8; k++)
			if (pthread_create(&t[k], NULL, write_own, NULL))
				return 1;
		for (k = 0; k < 8; k++)
			pthread_join(t[k], NULL);
	}
	return 0;
}
