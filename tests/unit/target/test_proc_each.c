/* A look at all processes meets those who hand over to a child of theirs while it goes on. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wait.h"
#include "watchctl/target/proc/proc.h"

#define LOOKS 50
#define LIVES_US 200
#define SLOW_US 5 /* a look takes many of their lives */

/* Each forks the next one and ends. */
static __attribute__((noreturn)) void hand_over_for_ever(void)
{
	for (;;) {
		if (fork() > 0)
			_exit(0);
		usleep(LIVES_US);
	}
}

struct look {
	pid_t group;
	unsigned int met;
};

static bool meet(void *ctx, pid_t pid)
{
	struct look *l = ctx;

	usleep(SLOW_US);
	l->met += getpgid(pid) == l->group;
	return true;
}

static void a_chain_of_processes_is_met_in_each_look(void **state)
{
	pid_t first;
	unsigned int i;

	(void)state;
	signal(SIGCHLD, SIG_IGN); /* nobody of them stays as a zombie */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	first = fork();
	if (!first) {
		setpgid(0, 0);
		signal(SIGCHLD, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hand_over_for_ever();
	}
	setpgid(first, first);
	for (i = 0; i < LOOKS; i++) {
		struct look l = { .group = first };

		proc_each(meet, &l);
		if (!l.met)
			break;
	}
	WAIT_UNTIL(kill(-first, SIGKILL) != 0);
	assert_int_equal(i, LOOKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chain_of_processes_is_met_in_each_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
