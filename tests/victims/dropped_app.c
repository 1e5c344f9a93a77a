/* build: gcc -O1 -g -L@ -l:libdropped.so.1 -l:libdropped_other.so -pthread */
/* build dropped_app_nopie: gcc -O1 -g -no-pie -fno-pie -L@ -l:libdropped.so.1 -l:libdropped_other.so -pthread */
/*
 * Uses the library that is replaced in every way: prints what it finds, and how often it has called dropped_add().
 *
 *	dropped_app [fork | exec | close | threads | seccomp]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern int dropped_calls, dropped_data[4];
extern const char dropped_constant[9];
extern __thread int dropped_thread;
int dropped_add(int a, int b);
int dropped_pick(int a);
int dropped_next(void);
int dropped_other(void);
int *dropped_data_seen_inside(void);

static void before_all(void)
{
	dropped_add(3, 4);
}

/* Before any constructor of a library. */
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_all;

static void look_up(void *in)
{
	int (*newest)(int, int) = (int (*)(int, int))dlsym(in, "dropped_add");
	int (*first)(int, int) = (int (*)(int, int))dlvsym(in, "dropped_add", "V1");
	int (*second)(int, int) = (int (*)(int, int))dlvsym(in, "dropped_add", "V2");

	printf("dlsym %d, V1 %d, V2 %d, V3 %d; same %d\n", newest(1, 2), first(1, 2), second(1, 2),
	       dlvsym(in, "dropped_add", "V3") != NULL,
	       newest == second && (in == RTLD_NEXT || newest == dropped_add));
	printf("data %d, thread %d, pick %d\n", dlsym(in, "dropped_data") == (void *)dropped_data,
	       *(int *)dlsym(in, "dropped_thread"), ((int (*)(int))dlsym(in, "dropped_pick"))(21));
}

static void use_all(void)
{
	void *handle = dlopen("libdropped.so.1", RTLD_NOW);

	printf("add %d, pick %d, thread %d, other %d, next %d\n", dropped_add(20, 22), dropped_pick(21),
	       dropped_thread, dropped_other(), dropped_next());
	dropped_data[2] = 33;
	printf("data %d seen inside %d, %s\n", dropped_data_seen_inside() == dropped_data,
	       dropped_data_seen_inside()[2], dropped_constant);
	look_up(RTLD_DEFAULT);
	look_up(RTLD_NEXT);
	look_up(handle);
	dlclose(handle);
	printf("add %d, children %d\n", dropped_add(1, 1), waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD);
}

static void *call_often(void *ctx)
{
	for (int i = 0; i < 10000; i++)
		dropped_add(i, i);
	return ctx;
}

static void use_threads(void)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, call_often, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void close_all(void)
{
	for (int fd = 3; fd < 4096; fd++)
		if (!close(fd))
			printf("%d was open\n", fd);
	for (int i = 0; i < 1000; i++)
		dropped_add(i, i);
}

static int use_fork(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		for (int i = 0; i < 100; i++)
			dropped_add(i, i);
		_exit(dropped_add(40, 2));
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static void use_exec(const char *self)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		execl(self, self, "threads", (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	use_all();
	if (!strcmp(how, "fork"))
		printf("child %d\n", use_fork());
	else if (!strcmp(how, "exec"))
		use_exec(argv[0]);
	else if (!strcmp(how, "close"))
		close_all();
	else if (!strcmp(how, "threads"))
		use_threads();
	printf("%d calls\n", dropped_calls);
	return 0;
}
