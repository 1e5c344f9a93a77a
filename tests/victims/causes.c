/* build: gcc -O1 -g -D_GNU_SOURCE -pthread */
/*
 * causes - `causes SEED STEPS`: threads of several processes bring each other to go on, by every means there is, and say who did it to whom.
 * The oracle of `watchctl flow graph`: what is printed is known from the program alone.
 *
 *	edge KIND FROM-TID TO-TID SENT-BEGIN SENT-END TAKEN-BEGIN TAKEN-END SLEPT
 *
 *	memory BEGIN END	where its own locks are
 *	thread TID BEGIN END	of one that acts by the plan: when it began and ended to do so
 *
 * Times are CLOCK_MONOTONIC ns. SLEPT is 0 where the taker found that it need not wait, without a system call: nothing outside of the
 * program can know that edge.
 *
 * A plan is drawn from the seed: each step has one giver, one taker, and a channel between these two. Every thread does what the plan
 * says of it in the order of the plan, so that nobody waits for something that never comes.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 3
#define THREADS 2 /* of each */
#define ALL (PROCESSES * THREADS)
#define CHANNELS 16
#define STEPS_MAX 4000
#define US 1000

enum kind {
	PIPE,
	UNIX,
	DATAGRAM,
	TCP,
	EVENTFD,
	PTY,
	SEMAPHORE,
	CONDITION,
	MUTEX,
	SIGNAL,
	TIMERFD,
	CHILD,
	THREAD,
	KINDS
};

static const char *const names[] = { "pipe",	"unix",	     "datagram",  "tcp",   "eventfd",
				     "pty",	"semaphore", "condition", "mutex", "signal",
				     "timerfd", "child",     "thread" };

struct channel {
	enum kind kind;
	int from, to;
	int in, out; /* descriptors: of the taker, of the giver */
	sem_t sem;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int count;		  /* of condition */
	atomic_uint locked;	  /* how often the mutex was taken by the giver */
	unsigned int tried;	  /* the taker's */
	atomic_uint given, taken; /* steps */
};

struct step {
	int channel, from, to;
	int32_t from_tid, to_tid;
	uint64_t sent_begin, sent_end, taken_begin, taken_end;
	uint64_t born_begin, born_end, ended_begin; /* of a child or thread */
	int32_t child_tid;
	int slept;
	unsigned int pause_us;
};

struct shared {
	struct channel channel[CHANNELS];
	struct step step[STEPS_MAX];
	int nsteps;
	int32_t tid[ALL];
	uint64_t began[ALL], ended[ALL];
	atomic_int ready;
	pthread_barrier_t begin;
};

static struct shared *all;
static uint64_t seed;

static uint64_t draw(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int32_t own_tid(void)
{
	return (int32_t)syscall(SYS_gettid);
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	kill(0, SIGKILL);
}

static void pause_us(unsigned int us)
{
	const struct timespec t = { .tv_nsec = us * US };

	if (us)
		nanosleep(&t, NULL);
}

/* Channels */

static void open_tcp(struct channel *c)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	const int listener = socket(AF_INET, SOCK_STREAM, 0);

	must(bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(listener, 1) == 0, "listen");
	getsockname(listener, (struct sockaddr *)&a, &len);
	c->out = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(c->out, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	c->in = accept(listener, NULL, NULL);
	must(c->in >= 0, "accept");
	close(listener);
}

static void open_pty(struct channel *c)
{
	struct termios raw;

	c->in = posix_openpt(O_RDWR | O_NOCTTY);
	must(c->in >= 0 && grantpt(c->in) == 0 && unlockpt(c->in) == 0, "ptmx");
	c->out = open(ptsname(c->in), O_RDWR | O_NOCTTY);
	must(c->out >= 0 && tcgetattr(c->out, &raw) == 0, "pts");
	cfmakeraw(&raw);
	tcsetattr(c->out, TCSANOW, &raw);
}

static void open_pair(struct channel *c, int type)
{
	int fd[2];

	must((type ? socketpair(AF_UNIX, type, 0, fd) : pipe(fd)) == 0, "pair");
	c->in = fd[0];
	c->out = fd[1];
}

static void open_shared(struct channel *c)
{
	pthread_mutexattr_t m;
	pthread_condattr_t k;

	pthread_mutexattr_init(&m);
	pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&c->mutex, &m);
	pthread_condattr_init(&k);
	pthread_condattr_setpshared(&k, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&c->cond, &k);
	sem_init(&c->sem, 1, 0);
}

static void open_channel(struct channel *c)
{
	c->in = c->out = -1;
	switch (c->kind) {
	case PIPE:
		open_pair(c, 0);
		break;
	case UNIX:
		open_pair(c, SOCK_STREAM);
		break;
	case DATAGRAM:
		open_pair(c, SOCK_DGRAM);
		break;
	case TCP:
		open_tcp(c);
		break;
	case EVENTFD:
		c->in = c->out = eventfd(0, EFD_SEMAPHORE);
		break;
	case PTY:
		open_pty(c);
		break;
	case TIMERFD:
		c->in = c->out = timerfd_create(CLOCK_MONOTONIC, 0);
		break;
	default:
		open_shared(c);
		break;
	}
}

/* Giving: what is between sent_begin and sent_end lets the taker go on. */

static void give_bytes(const struct channel *c)
{
	const uint64_t one = 1;

	must(write(c->out, &one, sizeof(one)) == sizeof(one), "write");
}

static void give_timer(const struct channel *c)
{
	const struct itimerspec t = { .it_value.tv_nsec = 100 * US };

	must(timerfd_settime(c->out, 0, &t, NULL) == 0, "timerfd");
}

static void give_condition(struct channel *c)
{
	pthread_mutex_lock(&c->mutex);
	c->count++;
	pthread_mutex_unlock(&c->mutex);
	pthread_cond_signal(&c->cond);
}

/* Long enough for the taker to come: it waits for the lock then. */
static void give_mutex(struct channel *c, struct step *s)
{
	pthread_mutex_lock(&c->mutex);
	atomic_fetch_add(&c->locked, 1);
	pause_us(500);
	s->sent_begin = now_ns();
	pthread_mutex_unlock(&c->mutex);
}

static void give_signal(const struct step *s)
{
	const int32_t tid = all->tid[s->to];

	/* The process: that of its first thread, whose number it is. */
	must(syscall(SYS_tgkill, all->tid[s->to - s->to % THREADS], tid, SIGRTMIN + s->channel) == 0,
	     "tgkill");
}

static void *thread_of(void *ctx)
{
	struct step *s = ctx;

	s->born_end = now_ns();
	s->child_tid = own_tid();
	pause_us(200);
	s->ended_begin = now_ns();
	return NULL;
}

/* The giver is the taker, too: of the child's end. */
static void have_child(struct step *s)
{
	pid_t pid;

	s->born_begin = now_ns();
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		thread_of(s);
		_exit(0);
	}
	s->taken_begin = now_ns();
	must(waitpid(pid, NULL, 0) == pid, "waitpid");
	s->taken_end = now_ns();
}

static void have_thread(struct step *s)
{
	pthread_t t;

	s->born_begin = now_ns();
	must(pthread_create(&t, NULL, thread_of, s) == 0, "pthread_create");
	s->taken_begin = now_ns();
	pthread_join(t, NULL);
	s->taken_end = now_ns();
}

/* A timer or a lock is not counted, only set: it is not given again before it was taken. The taker is at an earlier step of the plan. */
static void wait_until_taken(struct channel *c)
{
	if (c->kind != TIMERFD && c->kind != MUTEX)
		return;
	while (atomic_load(&c->taken) < atomic_load(&c->given))
		pause_us(50);
	atomic_fetch_add(&c->given, 1);
}

static void give(struct channel *c, struct step *s)
{
	s->from_tid = own_tid();
	pause_us(s->pause_us);
	wait_until_taken(c);
	s->sent_begin = now_ns();
	switch (c->kind) {
	case SEMAPHORE:
		sem_post(&c->sem);
		break;
	case CONDITION:
		give_condition(c);
		break;
	case MUTEX:
		give_mutex(c, s);
		break;
	case SIGNAL:
		give_signal(s);
		break;
	case TIMERFD:
		give_timer(c);
		break;
	case CHILD:
		have_child(s);
		break;
	case THREAD:
		have_thread(s);
		break;
	default:
		give_bytes(c);
		break;
	}
	s->sent_end = now_ns();
}

/* Taking: whether it had to wait, as far as that needs no system call. */

static int take_bytes(const struct channel *c)
{
	uint64_t got;
	size_t n = 0;

	while (n < sizeof(got)) {
		const ssize_t more = read(c->in, (char *)&got + n, sizeof(got) - n);

		must(more > 0, "read");
		n += (size_t)more;
	}
	return 1;
}

static int take_semaphore(struct channel *c)
{
	if (sem_trywait(&c->sem) == 0)
		return 0;
	while (sem_wait(&c->sem) != 0)
		;
	return 1;
}

static int take_condition(struct channel *c)
{
	int slept = 0;

	pthread_mutex_lock(&c->mutex);
	while (!c->count) {
		slept = 1;
		pthread_cond_wait(&c->cond, &c->mutex);
	}
	c->count--;
	pthread_mutex_unlock(&c->mutex);
	return slept;
}

static int take_mutex(struct channel *c)
{
	int slept = 0;

	c->tried++;
	while (atomic_load(&c->locked) < c->tried)
		;
	if (pthread_mutex_trylock(&c->mutex) != 0) {
		slept = 1;
		pthread_mutex_lock(&c->mutex);
	}
	pthread_mutex_unlock(&c->mutex);
	return slept;
}

/* Each channel has a signal of its own: two of one number to one thread could not be told apart. */
static int take_signal(int channel)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + channel);
	while (sigwaitinfo(&set, NULL) < 0)
		;
	return 1;
}

static void take(struct channel *c, struct step *s)
{
	s->to_tid = own_tid();
	s->taken_begin = now_ns();
	switch (c->kind) {
	case SEMAPHORE:
		s->slept = take_semaphore(c);
		break;
	case CONDITION:
		s->slept = take_condition(c);
		break;
	case MUTEX:
		s->slept = take_mutex(c);
		break;
	case SIGNAL:
		s->slept = take_signal(s->channel);
		break;
	default:
		s->slept = take_bytes(c);
		break;
	}
	s->taken_end = now_ns();
	atomic_fetch_add(&c->taken, 1);
}

/* The plan */

static int is_alone(enum kind k)
{
	return k == CHILD || k == THREAD;
}

static void plan(int nsteps)
{
	const int first = (int)draw(KINDS);

	for (int i = 0; i < CHANNELS; i++) {
		struct channel *c = &all->channel[i];

		c->kind = (enum kind)((first + i) % KINDS);
		c->from = (int)draw(ALL);
		c->to = is_alone(c->kind) ? c->from : (int)((c->from + 1 + (int)draw(ALL - 1)) % ALL);
		open_channel(c);
	}
	all->nsteps = nsteps;
	for (int i = 0; i < nsteps; i++) {
		struct step *s = &all->step[i];

		s->channel = (int)draw(CHANNELS);
		s->from = all->channel[s->channel].from;
		s->to = all->channel[s->channel].to;
		s->pause_us = draw(3) ? (unsigned int)draw(300) : 0;
	}
}

static void *act(void *ctx)
{
	const int me = (int)(intptr_t)ctx;

	all->tid[me] = own_tid();
	pthread_barrier_wait(&all->begin);
	all->began[me] = now_ns();
	for (int i = 0; i < all->nsteps; i++) {
		struct step *s = &all->step[i];

		if (s->from == me)
			give(&all->channel[s->channel], s);
		else if (s->to == me)
			take(&all->channel[s->channel], s);
	}
	all->ended[me] = now_ns();
	return NULL;
}

static void process(int n)
{
	pthread_t thread[THREADS];

	for (int i = 1; i < THREADS; i++)
		must(pthread_create(&thread[i], NULL, act, (void *)(intptr_t)(n * THREADS + i)) == 0,
		     "pthread_create");
	act((void *)(intptr_t)(n * THREADS));
	for (int i = 1; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	_exit(0);
}

static void print_edge(const char *kind, int from, int to, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		       int slept)
{
	printf("edge %s %d %d %llu %llu %llu %llu %d\n", kind, from, to, (unsigned long long)a,
	       (unsigned long long)b, (unsigned long long)c, (unsigned long long)d, slept);
}

static void print_step(const struct step *s)
{
	const enum kind kind = all->channel[s->channel].kind;

	if (!is_alone(kind)) {
		print_edge(names[kind], s->from_tid, s->to_tid, s->sent_begin, s->sent_end, s->taken_begin,
			   s->taken_end, s->slept);
		return;
	}
	print_edge("born", s->from_tid, s->child_tid, s->born_begin, s->taken_begin, s->born_begin,
		   s->born_end, 1);
	print_edge(names[kind], s->child_tid, s->from_tid, s->ended_begin, s->taken_end, s->taken_begin,
		   s->taken_end, s->taken_begin < s->ended_begin);
}

int main(int argc, char **argv)
{
	pthread_barrierattr_t attr;
	sigset_t set;
	int nsteps = argc > 2 ? atoi(argv[2]) : 0;

	if (nsteps < 1 || nsteps > STEPS_MAX)
		return 2;
	seed = strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15u + 1;
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(all != MAP_FAILED, "mmap");
	sigemptyset(&set);
	for (int i = 0; i < CHANNELS; i++)
		sigaddset(&set, SIGRTMIN + i);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&all->begin, &attr, ALL);
	plan(nsteps);
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			process(i);
	while (wait(NULL) > 0)
		;
	printf("memory %p %p\n", (void *)all, (void *)(all + 1));
	for (int i = 0; i < ALL; i++)
		printf("thread %d %llu %llu\n", all->tid[i], (unsigned long long)all->began[i],
		       (unsigned long long)all->ended[i]);
	for (int i = 0; i < nsteps; i++)
		print_step(&all->step[i]);
	return 0;
}
