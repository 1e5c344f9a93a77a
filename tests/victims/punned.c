/* build: gcc -O2 -g -pthread -ldl punned.S */
/* build punned_nopie: gcc -O2 -g -no-pie -fno-pie -pthread -ldl punned.S */
/*
 * punned - counts with loops that only punned jumps can be written into (punned.S): "punned N [MODE]".
 *
 *	(none)	runs each loop N times with N, and says "NAME TOTAL" of each
 *	load	the same with those of libpunned.so, loaded beside it, some time after they have been patched
 *	fork	has a child do the same
 *	forever	in four threads, and with signals, without an end; says how many rounds there were twenty times a second; ends with
 *		a sentence and SIGABRT where a loop has counted wrongly
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROOM 4096

typedef unsigned int counter(uint64_t n, char *room);

unsigned int pun_of_4(uint64_t n, char *room);
unsigned int pun_of_3(uint64_t n, char *room);
unsigned int pun_of_2(uint64_t n, char *room);
unsigned int pun_of_1(uint64_t n, char *room);
unsigned int pun_of_two(uint64_t n, char *room);
unsigned int pun_of_ret(uint64_t n, char *room);

static struct loop {
	const char *name;
	counter *run;
} loops[] = { { "pun_of_4", pun_of_4 }, { "pun_of_3", pun_of_3 },     { "pun_of_2", pun_of_2 },
	      { "pun_of_1", pun_of_1 }, { "pun_of_two", pun_of_two }, { "pun_of_ret", pun_of_ret } };
#define LOOPS (sizeof(loops) / sizeof(*loops))

static volatile uint64_t rounds;

static void run_all(const char *who, uint64_t n)
{
	char room[ROOM];

	for (unsigned int i = 0; i < LOOPS; i++) {
		uint64_t total = 0;

		for (uint64_t k = 0; k < n; k++)
			total += loops[i].run(n, room);
		printf("%s%s %llu\n", who, loops[i].name, (unsigned long long)total);
	}
	fflush(stdout);
}

static void check(uint64_t n)
{
	char room[ROOM];

	for (unsigned int i = 0; i < LOOPS; i++)
		if (loops[i].run(n, room) != 3 * n) {
			fprintf(stderr, "%s has counted wrongly\n", loops[i].name);
			abort();
		}
}

static void on_signal(int signal)
{
	(void)signal;
	check(3);
}

static void *hammer(void *arg)
{
	for (uint64_t n = (uintptr_t)arg;; n++) {
		check(n % 100);
		__sync_fetch_and_add(&rounds, 1);
	}
	return NULL;
}

static void run_forever(void)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } };
	sigset_t alarm;
	pthread_t t;

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&t, NULL, hammer, (void *)(i * 7));
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* the others get them */
	for (;;) {
		printf("%llu\n", (unsigned long long)rounds);
		fflush(stdout);
		usleep(50000);
	}
}

/* Whether the body of a loop, behind its only jmp, begins with another one: prefixes lengthen it. */
static int is_patched(counter *run)
{
	const unsigned char *code = (const unsigned char *)(uintptr_t)run;
	const unsigned char *body = (const unsigned char *)memchr(code, 0xeb, 16) + 2;

	return *(const volatile unsigned char *)body == 0xe9 || *(const volatile unsigned char *)body == 0x2e;
}

static void load(void)
{
	void *lib = dlopen("./libpunned.so", RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	for (unsigned int i = 0; i < LOOPS; i++)
		*(void **)&loops[i].run = dlsym(lib, loops[i].name);
	for (unsigned int i = 0; i < LOOPS - 1; i++) /* the last is no loop */
		while (!is_patched(loops[i].run))
			usleep(1000);
	sleep(1); /* all that has been patched is switched on together, then */
}

int main(int argc, char **argv)
{
	const uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	const char *mode = argc > 2 ? argv[2] : "";

	if (!strcmp(mode, "forever"))
		run_forever();
	if (!strcmp(mode, "load"))
		load();
	run_all("", n);
	if (!strcmp(mode, "fork")) {
		if (!fork()) {
			run_all("child ", n);
			_exit(0);
		}
		wait(NULL);
	}
	return 0;
}
