#include "watchctl/cli/top/top_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/private_file.h"
#include "watchctl/monitor/live/live.h"

struct top_session {
	struct live *live;
	bool ended;
	enum session_end end;
	struct wc_error *err; /* of its end */
	bool err_taken;
};

static struct wc_error *open_output(const char *path, int *ret)
{
	*ret = -1;
	if (!path)
		return NULL;
	*ret = private_file_open(path, 0);
	if (*ret >= 0)
		fcntl(*ret, F_SETFL, O_APPEND);
	if (*ret < 0)
		return wc_error_errno(WC_EUSAGE, errno, "cannot write the program's output to %s", path);
	return NULL;
}

struct wc_error *top_session_start(const struct watch_ask *ask, const char *log, const char *output,
				   struct top_session **ret)
{
	scoped(top_session_closep) struct top_session *s = calloc(1, sizeof(*s));
	struct live_options o = { .monitor = ask->monitor,
				  .log = log,
				  .program_fd = { -1, -1, -1 },
				  .count = ask->count,
				  .time_ns = ask->time_ns,
				  .redact = redact_ask_rules(&ask->redact) };
	scoped(closep) int fd = -1;
	struct wc_error *err;

	if (!s)
		return &wc_enomem;
	err = open_output(output, &fd);
	if (err)
		return err;
	o.program_fd[1] = o.program_fd[2] = fd;
	err = live_start(&o, &s->live);
	if (err)
		return err;
	*ret = take_ptr(s);
	return NULL;
}

const char *top_session_log(const struct top_session *s)
{
	return live_log(s->live);
}

int top_session_fd(const struct top_session *s)
{
	return live_fd(s->live);
}

static void top_session_look(struct top_session *s)
{
	if (s->ended || live_state(s->live) != LIVE_ENDED)
		return;
	s->ended = true;
	s->err = live_end(s->live, &s->end);
}

const char *top_session_words(enum session_end end)
{
	static const char *const words[] = {
		[SESSION_STOPPED] = "the recording was stopped",
		[SESSION_COUNT] = "the requested number of accesses was reached",
		[SESSION_TIME] = "the time limit was reached",
		[SESSION_EXITED] = "the process has ended",
		[SESSION_EXECED] = "the process has executed another program",
		[SESSION_SUPPLANTED] = "another process now collects the captures",
		[SESSION_GAVE_UP] = "ended to protect the program",
	};

	return words[end];
}

const char *top_session_end(struct top_session *s)
{
	top_session_look(s);
	if (!s->ended)
		return NULL;
	return s->err ? s->err->text : top_session_words(s->end);
}

/* What `watchctl -v` says of such an end. */
static struct wc_error *verdict(const struct top_session *s)
{
	return watch_verdict(s->end, live_never_armed(s->live), live_never_collected(s->live));
}

struct wc_error *top_session_stop(struct top_session *s)
{
	struct wc_error *err = live_stop(s->live), *ended = NULL;

	top_session_look(s);
	if (s->ended && !s->err_taken) {
		s->err_taken = true;
		ended = s->err ? s->err : verdict(s);
	}
	return wc_error_first(ended, err);
}

void top_session_close(struct top_session *s)
{
	if (!s)
		return;
	if (!s->err_taken)
		wc_error_free(s->err);
	live_close(s->live);
	free(s);
}

void top_session_closep(struct top_session **s)
{
	top_session_close(*s);
}
