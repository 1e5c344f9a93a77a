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

/* Where the parameters in @name begin; its end: it has none. */
static size_t params_at(const char *name)
{
	static const char operator_name[] = "operator";
	const char *last = strrchr(name, ')');
	size_t end = strlen(name), at, depth = 0;

	/* What may follow them: " const", " &&", " [clone .part.0]", but not more of the name. */
	if (!last || strchr(last, ':'))
		return end;
	for (at = (size_t)(last - name) + 1; at--;) {
		depth += name[at] == ')';
		if (name[at] == '(' && --depth == 0)
			break;
	}
	if (depth || !at || at == SIZE_MAX)
		return end;
	/* "operator()" is a name. */
	if (at >= sizeof(operator_name) - 1 &&
	    !memcmp(name + at - (sizeof(operator_name) - 1), operator_name, sizeof(operator_name) - 1) &&
	    last == name + at + 1)
		return end;
	return at;
}

char *step_bare_name(const char *name, char *buf, size_t cap)
{
	snprintf(buf, cap, "%.*s", (int)params_at(name), name);
	return buf;
}
