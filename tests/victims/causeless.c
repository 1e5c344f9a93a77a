/* build: gcc -O1 -g -pthread */
/*
 * causeless - a thread that stands at one instruction, for a test that lets it have what the kernel makes of a debug exception
 * that left DR6 empty: SIGTRAP, TRAP_BRKPT, at that instruction. "causeless plain" has nothing before it; "causeless int1" has
 * the byte of an int1 there, so that the signal is the program's own. Says "pid N", then "ok THREAD ADDRESS" to each line that it
 * reads, and adds 1 to counter before. At the line "trap" that thread queues such a signal itself.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile int counter;
volatile unsigned int standing;
static volatile pid_t tid;
static int own;
static volatile int queued;

/* Once `standing` is set, rip is at the jump and nowhere else. The last byte of the one constant is that of int1. */
extern char plain[], plain_place[], int1[], int1_place[];
__asm__("plain:	movl $1, standing(%rip)\n"
	"plain_place: jmp plain_place\n"
	"int1:	movl $0xf1000001, standing(%rip)\n"
	"int1_place: jmp int1_place\n");

/*
 * In the thread that stands, with SIGTRAP blocked: only a thread itself may queue what looks like the kernel's. It comes
 * where the handler returns to.
 */
static void queue_trap(int sig)
{
	siginfo_t info = { .si_signo = SIGTRAP, .si_code = TRAP_BRKPT };

	(void)sig;
	info.si_addr = own ? int1_place : plain_place;
	syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGTRAP, &info);
	queued++;
}

/* Another signal would be merged into one that the thread has not taken yet. */
static void have_it_queued(void)
{
	int before = queued;

	syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
	while (queued == before)
		sched_yield();
}

static void *stand(void *code)
{
	tid = (pid_t)syscall(SYS_gettid);
	__asm__ volatile("jmp *%0" : : "r"(code));
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = queue_trap };
	pthread_t thread;
	char line[64];

	own = argc > 1 && !strcmp(argv[1], "int1");
	sigaddset(&action.sa_mask, SIGTRAP);
	sigaction(SIGUSR1, &action, NULL);

	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_create(&thread, NULL, stand, own ? int1 : plain);
	while (!standing)
		;
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "trap\n"))
			have_it_queued();
		else
			counter++;
		printf("ok %d %p\n", tid, (void *)(own ? int1_place : plain_place));
	}
	return 0;
}
