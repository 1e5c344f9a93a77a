/*
 * Programs that are over within milliseconds: what is accessed, by whom, is in the values written. A
 * library's function writes what its file was compiled with (MARK) plus a number.
 *
 *	brief			its library writes, the kernel in read(), its library
 *	brief children N	as many children do so, one after the other
 *	brief plugin FILE	a library that it loads writes
 *	brief thread FILE	... that a thread of it loads
 *	brief child FILE	... that a child of it loads
 *	brief grandchild FILE	... that a child loads, and a child of that calls
 *	brief swap N A B	two libraries take each other's place N times
 *	brief gone FILE		the library's file is removed before it is called
 *	brief exec PROGRAM	it writes, and executes that
 *	brief thread_exec PROGRAM	... a thread of it does
 *	brief leave N PROGRAM	as many children do so, one after the other
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int flag;
void brief_store(int *to, int value);

typedef void store_fn(int *to, int value);

static store_fn *load(const char *file, void **ret)
{
	store_fn *store;

	*ret = dlopen(file, RTLD_NOW);
	store = *ret ? (store_fn *)dlsym(*ret, "brief_store") : NULL;
	if (!store) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	return store;
}

__attribute__((noinline)) static void all_ways(void)
{
	int value = 7, p[2];

	brief_store(&flag, 1);
	if (pipe(p) || write(p[1], &value, sizeof(value)) != sizeof(value) ||
	    read(p[0], &flag, sizeof(flag)) != sizeof(flag))
		_exit(1);
	brief_store(&flag, 2);
}

__attribute__((noinline)) static void call_plugin(const char *file)
{
	void *handle;
	store_fn *store = load(file, &handle);

	store(&flag, 1);
	store(&flag, 2);
}

static void *run_thread(void *file)
{
	call_plugin(file);
	return NULL;
}

static void *leave(void *argv)
{
	char **program = argv;

	brief_store(&flag, 3);
	execv(program[0], program);
	_exit(1);
}

static void wait_for(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(1);
}

__attribute__((noinline)) static void swap(int n, char *file[2])
{
	for (int i = 0; i < n; i++) {
		void *handle;
		store_fn *store = load(file[i % 2], &handle);

		for (int k = 0; k < 3; k++)
			store(&flag, k);
		printf("%p\n", (void *)store);
		dlclose(handle);
	}
}

static void grandchild(const char *file)
{
	void *handle;
	store_fn *store = load(file, &handle);
	pid_t pid = fork();

	if (!pid) {
		store(&flag, 3);
		_exit(0);
	}
	wait_for(pid);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	pthread_t thread;
	pid_t pid;

	if (!strcmp(what, "children")) {
		for (int i = 0; i < atoi(argv[2]); i++) {
			pid = fork();
			if (!pid) {
				all_ways();
				_exit(0);
			}
			printf("%d\n", pid);
			wait_for(pid);
		}
	} else if (!strcmp(what, "plugin")) {
		call_plugin(argv[2]);
	} else if (!strcmp(what, "thread")) {
		if (pthread_create(&thread, NULL, run_thread, argv[2]))
			return 1;
		pthread_join(thread, NULL);
	} else if (!strcmp(what, "child") || !strcmp(what, "grandchild")) {
		pid = fork();
		if (!pid) {
			(what[0] == 'c' ? call_plugin : grandchild)(argv[2]);
			_exit(0);
		}
		wait_for(pid);
	} else if (!strcmp(what, "leave")) {
		for (int i = 0; i < atoi(argv[2]); i++) {
			pid = fork();
			if (!pid)
				leave(argv + 3);
			printf("%d\n", pid);
			wait_for(pid);
		}
	} else if (!strcmp(what, "thread_exec")) {
		if (pthread_create(&thread, NULL, leave, argv + 2))
			return 1;
		pthread_join(thread, NULL);
	} else if (!strcmp(what, "swap")) {
		swap(atoi(argv[2]), argv + 3);
	} else if (!strcmp(what, "gone")) {
		void *handle;
		store_fn *store = load(argv[2], &handle);

		unlink(argv[2]);
		store(&flag, 1);
	} else {
		all_ways();
		if (!strcmp(what, "exec"))
			execv(argv[2], argv + 2);
	}
	return 0;
}
