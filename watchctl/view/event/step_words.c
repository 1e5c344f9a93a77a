#include "watchctl/view/event/step_words.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *text;
} hows[] = {
	[RETURN_RETURNED] = { "returned", NULL },
	[RETURN_EXCEPTION] = { "exception", "left by an exception" },
	[RETURN_LONGJMP] = { "longjmp", "left by longjmp" },
	[RETURN_THREAD_EXIT] = { "thread_exit", "its thread ended itself" },
	[RETURN_CANCELLED] = { "cancelled", "its thread was cancelled or killed" },
	[RETURN_PROCESS_EXIT] = { "process_exit", "the process ended" },
	[RETURN_EXEC] = { "exec", "another program was executed" },
	[RETURN_NEVER] = { "never", "still open when the recording ended" },
	[RETURN_UNKNOWN] = { "unknown", "ended in an unknown way" },
};

static const struct {
	const char *name, *text;
} ranges[] = {
	[RANGE_BEGIN] = { "begin", "it began" },
	[RANGE_REACHED] = { "reached", "its end was reached" },
	[RANGE_RETURNED] = { "returned", "the function in which it began has ended" },
	[RANGE_LIMIT] = { "limit", "the limit of events was reached" },
	[RANGE_STUCK] = { "stuck", "nothing more happened: stuck" },
	[RANGE_EXITED] = { "exited", "the process, or its thread, ended" },
	[RANGE_EXECED] = { "execed", "another program was executed" },
	[RANGE_STOPPED] = { "stopped", "the recording was stopped" },
};

const char *step_how_text(enum return_how how)
{
	return hows[how].text;
}

const char *step_how_name(enum return_how how)
{
	return hows[how].name;
}

const char *step_range_text(enum range_what what)
{
	return ranges[what].text;
}

const char *step_range_name(enum range_what what)
{
	return ranges[what].name;
}

void step_error_name(int error, char *buf, size_t cap)
{
	const char *name = error > 0 ? strerrorname_np(error) : NULL;

	if (name)
		snprintf(buf, cap, "%s", name);
	else
		snprintf(buf, cap, "error %d", error);
}

void step_signal_name(int number, char *buf, size_t cap)
{
	const char *name = number > 0 ? sigabbrev_np(number) : NULL;

	if (name)
		snprintf(buf, cap, "SIG%s", name);
	else
		snprintf(buf, cap, "signal %d", number);
}
