/* build: gcc -O1 -g -pthread */
/*
 * hangs SCENE - a program that hangs in a known way, and says beforehand who is to blame: lines "ask PID" (the process that a user
 * would ask about), "culprit PID TID", any of which is right, "verdict WORD", and at last "ready", when every part is under way to its
 * hang. Scenes: below, in main's table; without an argument they are listed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOREVER 100000

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER, other_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both_there;
static char folder[] = "hangs.XXXXXX"; /* where it was started */

static void ask(pid_t pid)
{
	printf("ask %d\n", pid);
}

static void blame(pid_t pid, pid_t tid)
{
	printf("culprit %d %d\n", pid, tid);
}

static void verdict(const char *word)
{
	printf("verdict %s\n", word);
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static void sleep_forever(void)
{
	for (;;)
		sleep(FOREVER);
}

/* A child that ends with its parent. */
static pid_t child(void)
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static pthread_t thread(void *(*run)(void *), void *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, arg))
		exit(1);
	return t;
}

static void *lock_table(void *arg)
{
	pthread_mutex_lock(&table_lock);
	return arg;
}

/* Locks */

static void *holds_and_sleeps(void *arg)
{
	pthread_mutex_lock(&table_lock);
	blame(getpid(), gettid());
	pthread_barrier_wait(&both_there);
	sleep_forever();
	return arg;
}

static void mutex_sleep(void)
{
	pthread_barrier_init(&both_there, NULL, 2);
	verdict("sleeps");
	thread(holds_and_sleeps, NULL);
	pthread_barrier_wait(&both_there);
	thread(lock_table, NULL);
	thread(lock_table, NULL);
	ready();
	lock_table(NULL);
}

static int io_pipe[2];

static void *holds_and_reads(void *arg)
{
	char byte;

	pthread_mutex_lock(&table_lock);
	pthread_barrier_wait(&both_there);
	return read(io_pipe[0], &byte, 1) == 1 ? arg : NULL;
}

static void mutex_io(void)
{
	pid_t pid;

	if (pipe(io_pipe))
		exit(1);
	pid = child();
	if (!pid)
		sleep_forever();
	close(io_pipe[1]);
	pthread_barrier_init(&both_there, NULL, 2);
	blame(pid, pid);
	verdict("sleeps");
	thread(holds_and_reads, NULL);
	pthread_barrier_wait(&both_there);
	ready();
	lock_table(NULL);
}

static void take_in_order(pthread_mutex_t *first, pthread_mutex_t *second)
{
	pthread_mutex_lock(first);
	pthread_barrier_wait(&both_there);
	pthread_mutex_lock(second);
}

static void *take_backwards(void *arg)
{
	blame(getpid(), gettid());
	take_in_order(&other_lock, &table_lock);
	return arg;
}

static void lock_order(void)
{
	pthread_barrier_init(&both_there, NULL, 2);
	blame(getpid(), gettid());
	verdict("deadlock");
	thread(take_backwards, NULL);
	pthread_mutex_lock(&table_lock);
	pthread_barrier_wait(&both_there);
	ready();
	pthread_mutex_lock(&other_lock);
}

static void self_lock(void)
{
	blame(getpid(), gettid());
	verdict("deadlock");
	pthread_mutex_lock(&table_lock);
	ready();
	pthread_mutex_lock(&table_lock);
}

static void *locks_and_ends(void *arg)
{
	pthread_mutex_lock(&table_lock);
	return arg;
}

static void owner_ended(void)
{
	pthread_join(thread(locks_and_ends, NULL), NULL);
	blame(getpid(), gettid());
	verdict("nobody");
	ready();
	lock_table(NULL);
}

static void *holds_while_forked(void *arg)
{
	pthread_mutex_lock(&table_lock);
	pthread_barrier_wait(&both_there);
	sleep_forever();
	return arg;
}

static void fork_lock(void)
{
	pid_t pid;

	pthread_barrier_init(&both_there, NULL, 2);
	thread(holds_while_forked, NULL);
	pthread_barrier_wait(&both_there);
	pid = child();
	if (!pid) {
		lock_table(NULL);
		_exit(0);
	}
	ask(pid);
	blame(pid, pid);
	verdict("nobody");
	ready();
	waitpid(pid, NULL, 0);
}

static pthread_rwlock_t settings;

static void *wants_to_write(void *arg)
{
	pthread_rwlock_wrlock(&settings);
	return arg;
}

static void rwlock_twice(void)
{
	pthread_rwlockattr_t a;

	pthread_rwlockattr_init(&a);
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&settings, &a);
	blame(getpid(), gettid());
	pthread_rwlock_rdlock(&settings);
	thread(wants_to_write, NULL);
	while (!(__atomic_load_n(&settings.__data.__readers, __ATOMIC_RELAXED) & 2)) /* a writer is there */
		usleep(1000);
	ready();
	pthread_rwlock_rdlock(&settings);
}

static void *writes_and_sleeps(void *arg)
{
	pthread_rwlock_wrlock(&settings);
	blame(getpid(), gettid());
	pthread_barrier_wait(&both_there);
	sleep_forever();
	return arg;
}

static void rwlock_writer(void)
{
	pthread_barrier_init(&both_there, NULL, 2);
	pthread_rwlock_init(&settings, NULL);
	verdict("sleeps");
	thread(writes_and_sleeps, NULL);
	pthread_barrier_wait(&both_there);
	ready();
	pthread_rwlock_rdlock(&settings);
}

/* State of this process, as /proc/PID/stat has it behind the name. */
static char state_of(pid_t pid)
{
	char path[64], text[512], state = '?';
	const char *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(text, sizeof(text), f) && (end = strrchr(text, ')')))
		state = end[2];
	if (f)
		fclose(f);
	return state;
}

static void await_state(pid_t pid, char state)
{
	while (state_of(pid) != state)
		usleep(1000);
}

/* A call with a time limit that was stopped shows as restart_syscall. */
static void resumed_lock(void)
{
	struct timespec until = { .tv_sec = time(NULL) + FOREVER };
	pid_t pid = getpid();

	pthread_barrier_init(&both_there, NULL, 2);
	verdict("sleeps");
	thread(holds_and_sleeps, NULL);
	pthread_barrier_wait(&both_there);
	if (!child()) {
		await_state(pid, 'S');
		kill(pid, SIGSTOP);
		await_state(pid, 'T');
		kill(pid, SIGCONT);
		await_state(pid, 'S');
		ready();
		_exit(0);
	}
	pthread_mutex_timedlock(&table_lock, &until);
}

/* Conditions */

static void *waits_for_work(void *arg)
{
	blame(getpid(), gettid());
	pthread_mutex_lock(&table_lock);
	pthread_barrier_wait(&both_there);
	pthread_cond_wait(&work_there, &table_lock);
	return arg;
}

static void lost_wakeup(void)
{
	pthread_t t;

	pthread_barrier_init(&both_there, NULL, 2);
	pthread_cond_signal(&work_there);
	verdict("waits");
	t = thread(waits_for_work, NULL);
	pthread_barrier_wait(&both_there);
	ready();
	pthread_join(t, NULL);
}

static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

/* A task that waits for another task, which would need a thread of the same pool. */
static void *pool_worker(void *arg)
{
	blame(getpid(), gettid());
	pthread_mutex_lock(&table_lock);
	pthread_barrier_wait(&both_there);
	pthread_cond_wait(&done, &table_lock);
	return arg;
}

static void pool_exhausted(void)
{
	pthread_t t;

	pthread_barrier_init(&both_there, NULL, 2);
	verdict("waits");
	t = thread(pool_worker, NULL);
	pthread_barrier_wait(&both_there);
	thread(pool_worker, NULL);
	pthread_barrier_wait(&both_there);
	ready();
	pthread_join(t, NULL);
}

static void *spins(void *arg)
{
	volatile unsigned long n = 0;

	blame(getpid(), gettid());
	pthread_barrier_wait(&both_there);
	while (!arg)
		n++;
	return NULL;
}

static void join_spinner(void)
{
	pthread_t t;

	pthread_barrier_init(&both_there, NULL, 2);
	verdict("busy");
	t = thread(spins, NULL);
	pthread_barrier_wait(&both_there);
	ready();
	pthread_join(t, NULL);
}

/* Signals and malloc */

static void *volatile block; /* a compiler leaves out malloc() whose result nobody sees */

static void allocate(void)
{
	void *mine = malloc(5000);

	block = mine;
	free(mine);
}

static void allocates(int sig)
{
	(void)sig;
	allocate();
}

static void *idles(void *arg)
{
	sleep_forever();
	return arg;
}

/* malloc takes its lock only where there are threads; sizes that no cache has. */
static void malloc_signal(void)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } };

	thread(idles, NULL);
	signal(SIGALRM, allocates);
	blame(getpid(), gettid());
	verdict("deadlock");
	ready();
	setitimer(ITIMER_REAL, &often, NULL);
	for (;;)
		allocate();
}

/* Pipes and sockets */

static void fill(int fd)
{
	static char block[65536];

	for (;;)
		if (write(fd, block, sizeof(block)) < 0)
			_exit(1);
}

static void pipe_full(void)
{
	int there[2], back[2];
	pid_t pid;

	if (pipe(there) || pipe(back))
		exit(1);
	pid = child();
	if (!pid) {
		close(there[1]);
		close(back[0]);
		fill(back[1]);
	}
	close(there[0]);
	close(back[1]);
	blame(getpid(), gettid());
	blame(pid, pid);
	verdict("deadlock");
	ready();
	fill(there[1]);
}

static void await_reply(int fd)
{
	char reply[64];

	if (read(fd, reply, sizeof(reply)) < 0)
		_exit(1);
}

static void rpc_circle(void)
{
	int s[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		exit(1);
	pid = child();
	if (!pid) {
		close(s[0]);
		await_reply(s[1]);
		_exit(0);
	}
	close(s[1]);
	blame(getpid(), gettid());
	blame(pid, pid);
	verdict("deadlock");
	ready();
	await_reply(s[0]);
}

static void stopped_peer(void)
{
	int s[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		exit(1);
	pid = child();
	if (!pid) {
		close(s[0]);
		await_reply(s[1]);
		_exit(0);
	}
	close(s[1]);
	kill(pid, SIGSTOP);
	blame(pid, pid);
	verdict("stopped");
	ready();
	await_reply(s[0]);
}

static void poll_stopped(void)
{
	int p[2];
	struct pollfd fd;
	pid_t pid;

	if (pipe(p))
		exit(1);
	pid = child();
	if (!pid) {
		close(p[0]);
		sleep_forever();
	}
	close(p[1]);
	kill(pid, SIGSTOP);
	blame(pid, pid);
	verdict("stopped");
	ready();
	fd = (struct pollfd){ p[0], POLLIN, 0 };
	poll(&fd, 1, -1);
}

static void own_write_end(void)
{
	int p[2];
	char byte;

	if (pipe(p))
		exit(1);
	blame(getpid(), gettid());
	ready();
	exit(read(p[0], &byte, 1) != 0);
}

static void event_of_nobody(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	uint64_t n;

	blame(getpid(), gettid());
	ready();
	exit(read(fd, &n, sizeof(n)) != 0);
}

static void fifo_open(void)
{
	char path[sizeof(folder) + 8];

	if (!mkdtemp(folder))
		exit(1);
	snprintf(path, sizeof(path), "%s/fifo", folder);
	if (mkfifo(path, 0600))
		exit(1);
	blame(getpid(), gettid());
	ready();
	exit(open(path, O_RDONLY) < 0);
}

static void tcp_peer(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
	pid_t pid;

	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 4) ||
	    getsockname(listener, (struct sockaddr *)&at, &len))
		exit(1);
	pid = child();
	if (!pid) {
		fd = accept(listener, NULL, NULL);
		sleep_forever();
		_exit(fd < 0);
	}
	close(listener);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		exit(1);
	blame(pid, pid);
	verdict("sleeps");
	ready();
	await_reply(fd);
}

/* Children and files */

static void child_sleeps(void)
{
	pid_t pid = child();

	if (!pid)
		sleep_forever();
	blame(pid, pid);
	verdict("sleeps");
	ready();
	waitpid(pid, NULL, 0);
}

static int lock_file(void)
{
	char path[sizeof(folder) + 8];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		exit(1);
	return fd;
}

/* The child locks, tells its own child's number, and ends; the lock lives on with the descriptor that was inherited. */
static void file_lock_heir(void)
{
	int told[2];
	pid_t heir, pid;

	if (!mkdtemp(folder) || pipe(told))
		exit(1);
	pid = child();
	if (!pid) {
		int fd = lock_file();

		if (flock(fd, LOCK_EX))
			_exit(1);
		heir = fork();
		if (!heir) {
			close(told[0]);
			close(told[1]);
			signal(SIGALRM, SIG_DFL);
			alarm(600);
			sleep_forever();
		}
		_exit(write(told[1], &heir, sizeof(heir)) != sizeof(heir));
	}
	if (read(told[0], &heir, sizeof(heir)) != sizeof(heir))
		exit(1);
	waitpid(pid, NULL, 0);
	blame(heir, heir);
	verdict("sleeps");
	ready();
	flock(lock_file(), LOCK_EX);
}

static void file_lock(void)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int told[2];
	char byte = 0;
	pid_t pid;

	if (!mkdtemp(folder) || pipe(told))
		exit(1);
	pid = child();
	if (!pid) {
		if (fcntl(lock_file(), F_SETLKW, &whole) || write(told[1], &byte, 1) != 1)
			_exit(1);
		sleep_forever();
	}
	if (read(told[0], &byte, 1) != 1)
		exit(1);
	blame(pid, pid);
	verdict("sleeps");
	ready();
	fcntl(lock_file(), F_SETLKW, &whole);
}

/* The child has its parent's memory, and the parent stands in D state until it executes something. */
static void vfork_child(void)
{
	pid_t pid;

	verdict("sleeps");
	pid = vfork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		blame(getpid(), getpid());
		ready();
		sleep_forever();
	}
	_exit(1);
}

static void traced(void)
{
	pid_t parent = getpid(), pid;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid = child();
	if (!pid) {
		if (ptrace(PTRACE_SEIZE, parent, NULL, NULL) || ptrace(PTRACE_INTERRUPT, parent, NULL, NULL))
			_exit(1);
		await_state(parent, 't');
		blame(getpid(), getpid());
		verdict("sleeps");
		ready();
		sleep_forever();
	}
	waitpid(pid, NULL, 0);
}

/* The loader: it calls back while it holds its lock. */

static int look_at_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info, (void)size, (void)arg;
	return 1;
}

static void *asks_loader(void *arg)
{
	blame(getpid(), gettid());
	pthread_barrier_wait(&both_there);
	dl_iterate_phdr(look_at_module, arg);
	return arg;
}

static int joins_inside(struct dl_phdr_info *info, size_t size, void *arg)
{
	pthread_t t = thread(asks_loader, arg);

	(void)info, (void)size;
	pthread_barrier_wait(&both_there);
	ready();
	pthread_join(t, NULL);
	return 1;
}

static void loader_lock(void)
{
	pthread_barrier_init(&both_there, NULL, 2);
	blame(getpid(), gettid());
	verdict("deadlock");
	dl_iterate_phdr(joins_inside, NULL);
}

/* It does not hang: an event loop without events. */
static void idle_loop(void)
{
	int p[2];
	struct pollfd fd;

	if (pipe(p))
		exit(1);
	blame(getpid(), gettid());
	verdict("idle");
	ready();
	fd = (struct pollfd){ p[0], POLLIN, 0 };
	for (;;)
		poll(&fd, 1, 100000);
}

static const struct scene {
	const char *name;
	void (*run)(void);
} scenes[] = {
	{ "mutex_sleep", mutex_sleep },
	{ "mutex_io", mutex_io },
	{ "lock_order", lock_order },
	{ "self_lock", self_lock },
	{ "owner_ended", owner_ended },
	{ "fork_lock", fork_lock },
	{ "rwlock_twice", rwlock_twice },
	{ "rwlock_writer", rwlock_writer },
	{ "resumed_lock", resumed_lock },
	{ "lost_wakeup", lost_wakeup },
	{ "pool_exhausted", pool_exhausted },
	{ "join_spinner", join_spinner },
	{ "malloc_signal", malloc_signal },
	{ "pipe_full", pipe_full },
	{ "rpc_circle", rpc_circle },
	{ "stopped_peer", stopped_peer },
	{ "poll_stopped", poll_stopped },
	{ "own_write_end", own_write_end },
	{ "event_of_nobody", event_of_nobody },
	{ "fifo_open", fifo_open },
	{ "tcp_peer", tcp_peer },
	{ "child_sleeps", child_sleeps },
	{ "file_lock", file_lock },
	{ "file_lock_heir", file_lock_heir },
	{ "loader_lock", loader_lock },
	{ "vfork_child", vfork_child },
	{ "traced", traced },
	{ "idle_loop", idle_loop },
};

int main(int argc, char **argv)
{
	size_t i, n = sizeof(scenes) / sizeof(scenes[0]);

	for (i = 0; argc == 1 && i < n; i++)
		puts(scenes[i].name);
	for (i = 0; argc > 1 && i < n; i++)
		if (!strcmp(scenes[i].name, argv[1])) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			ask(getpid());
			scenes[i].run();
			return 0;
		}
	return argc > 1;
}
