#include "watchctl/cli/output/ending.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/memory.h"
#include "watchctl/base/read_failure.h"

static const char no_memory[] =
	"memory ran out for a moment: what was printed or written may lack something; "
	"try again with more of it";

static int stdout_error;

static void do_nothing(int sig)
{
	(void)sig;
}

/* Caught, not ignored: see the header. */
void survive_write_signals(void)
{
	static const int signals[] = { SIGPIPE, SIGXFSZ };
	struct sigaction ours = { .sa_handler = do_nothing, .sa_flags = SA_RESTART }, old;
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &ours, NULL);
}

void stdout_has_failed(int sys_errno)
{
	stdout_error = sys_errno;
}

static bool reader_went_away(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP));
}

/* False: what the command printed did not all arrive, though somebody wants it: `| head` has what it wants. */
static bool finish_output(void)
{
	int err = fflush(stdout) ? errno : stdout_error;

	if (!err && !ferror(stdout))
		return true;
	if (err == EPIPE || reader_went_away())
		return true;
	fprintf(stderr, "watchctl: cannot write to standard output%s%s\n", err ? ": " : "",
		err ? strerror(err) : "");
	return false;
}

struct wc_error *end_of_log(const char *log, const struct log_damage *d)
{
	if (fflush(stdout))
		stdout_has_failed(errno);
	if (d->why_names)
		fprintf(stderr,
			"watchctl: some of the names that were added to the log %s cannot be read, because %s: "
			"watchctl symbolize makes them anew\n",
			log, d->why_names);
	return log_damage_error(log, d);
}

int end_with(struct wc_error *err)
{
	int status = finish_output() ? 0 : WC_EFAIL;
	char why[1024];

	/* Where one part was left out for want of memory, another one may have been printed. */
	if (memory_ran_out() && !err && !status)
		err = wc_error_new(WC_EFAIL, "%s", no_memory);
	else if (memory_ran_out() && err != &wc_enomem)
		fprintf(stderr, "watchctl: %s\n", no_memory);
	if (read_failure_describe(why, sizeof(why))) {
		/* Names of files are the target's: an error's text is fit for a terminal. */
		struct wc_error *lack =
			wc_error_new(WC_EFAIL, "some names may be missing: cannot read %s", why);

		fprintf(stderr, "watchctl: %s\n", lack->text);
		wc_error_free(lack);
	}
	if (err) {
		fprintf(stderr, "watchctl: %s\n", err->text);
		status = err->kind;
		wc_error_free(err);
	}
	return status;
}
