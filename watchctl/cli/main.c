/* main - find the command, run it, turn its error into a message and an exit status. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/cli/command.h"

static void do_nothing(int sig)
{
	(void)sig;
}

/*
 * A reader that went away (`| head`) and a file size limit are errors to handle, not deaths. Caught, not
 * ignored: a program that we start then has the action that we were started with.
 */
static void survive_write_signals(void)
{
	static const int signals[] = { SIGPIPE, SIGXFSZ };
	struct sigaction ours = { .sa_handler = do_nothing, .sa_flags = SA_RESTART }, old;
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &ours, NULL);
}

static bool wants_help(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--help"))
			return true;
	return false;
}

static struct wc_error *dispatch(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2)
		return wc_error_new(WC_EUSAGE, "nothing to do: name a command, or what to watch "
					       "(watchctl --help tells more)");
	if (!strcmp(argv[1], "--version")) {
		puts("watchctl " WATCHCTL_VERSION);
		return NULL;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		command_print_overview(stdout);
		return NULL;
	}
	if (argv[1][0] == '-') {
		c = &cmd_watch;
	} else {
		c = command_find(argv[1]);
		if (!c)
			return command_unknown(argv[1]);
		argc--;
		argv++;
	}
	if (wants_help(argc, argv)) {
		command_print_help(c, stdout);
		return NULL;
	}
	return c->run(argc, argv);
}

static bool reader_went_away(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP));
}

/* False: what the command printed did not all arrive. */
static bool finish_output(void)
{
	int err = fflush(stdout) ? errno : 0;

	if (!err && !ferror(stdout))
		return true;
	if (err != EPIPE && !reader_went_away())
		fprintf(stderr, "watchctl: cannot write to standard output%s%s\n", err ? ": " : "",
			err ? strerror(err) : "");
	return false;
}

int main(int argc, char **argv)
{
	struct wc_error *err;
	int status = 0;

	survive_write_signals();
	err = dispatch(argc, argv);
	if (!finish_output())
		status = WC_EFAIL;
	if (err) {
		fprintf(stderr, "watchctl: %s\n", err->text);
		status = err->kind;
		wc_error_free(err);
	}
	return status;
}
