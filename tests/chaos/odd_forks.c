/* odd_forks - programs that go on in their children, and such that fork all the time. */
#include "tests/chaos/odd.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_US 1000
#define MOST_ALIVE 12

static bool has_room(void)
{
	return __atomic_load_n(&shared->born, __ATOMIC_SEQ_CST) -
		       __atomic_load_n(&shared->ended, __ATOMIC_SEQ_CST) <
	       MOST_ALIVE;
}

/* Nobody else writes in this process. */
static void write_once(void)
{
	long before;

	if (!odd_enter())
		return;
	errno = ENOTTY;
	before = odd_flag;
	odd_flag = before + 1;
	if (odd_flag != before + 1 || errno != ENOTTY)
		fail("%ld became %ld", before, odd_flag);
	odd_leave(1);
}

/* A descendant that ends otherwise is missed in the end: whoever has it for a child sees its status, too. */
static __attribute__((noreturn)) void end_descendant(void)
{
	__atomic_fetch_add(&shared->ended, 1, __ATOMIC_SEQ_CST);
	_exit(0);
}

static __attribute__((noreturn)) void live_as_descendant(unsigned int turns, unsigned int us)
{
	become_descendant();
	for (unsigned int i = 0; i < turns && !is_over(); i++) {
		write_once();
		pause_us(us);
	}
	end_descendant();
}

static pid_t fork_checked(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork()");
	return pid;
}

static void start_daemon(unsigned int turns, unsigned int us)
{
	if (fork_checked())
		return;
	if (setsid() < 0)
		fail("setsid()");
	if (fork_checked())
		_exit(0);
	live_as_descendant(turns, us);
}

/* Each generation writes once, and goes on in the next. */
static void start_chain(unsigned int generations)
{
	if (fork_checked())
		return;
	become_descendant();
	while (generations-- && !is_over()) {
		write_once();
		pause_us(PAUSE_US);
		if (fork_checked())
			_exit(0);
	}
	end_descendant();
}

static void start_child(unsigned int i)
{
	static const unsigned int turns[] = { 0, 0, 1, 0, 20, 0, 5, 100 };

	if (!fork_checked())
		live_as_descendant(turns[i % 8], i % 3 ? PAUSE_US : 3 * PAUSE_US);
}

static void fork_on(unsigned int i, const char *word)
{
	if (!has_room() || !fork_enter())
		return;
	__atomic_fetch_add(&shared->born, 1, __ATOMIC_SEQ_CST);
	if (!strcmp(word, "daemon"))
		start_daemon(20 + i % 50, PAUSE_US);
	else if (!strcmp(word, "chain"))
		start_chain(20);
	else
		start_child(i);
	fork_leave();
}

static const char *what;

static void *fork_all_the_time(void *unused)
{
	for (unsigned int i = 0; !is_over(); i++) {
		fork_on(i, what);
		pause_us(*what == 'f' ? 5 * PAUSE_US : 40 * PAUSE_US);
	}
	return unused;
}

static void write_while_others_fork(const char *word)
{
	pthread_t t;

	what = word;
	if (pthread_create(&t, NULL, fork_all_the_time, NULL))
		fail("pthread_create()");
	while (!is_over()) {
		write_once();
		beat(BEAT_ACCESSES);
		pause_us(PAUSE_US);
	}
}

/* WORD: daemon or chain. */
void work_daemons(const char *word)
{
	write_while_others_fork(word);
}

/* WORD: fork, or daemon as above. */
void work_forking(const char *word)
{
	write_while_others_fork(word);
}
