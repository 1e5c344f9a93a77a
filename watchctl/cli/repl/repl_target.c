#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/repl/repl_feed.h"

#define POLL_NS 20000000ull
#define FIRST_WORDS_NS 300000000ull

/* clang-format off */
const struct option repl_attach_options[] = {
	{ "--tags", NULL, NULL, "collect the tagged stacks that the program captures, see stackwalk(7)", 0, NULL },
	{ "-o", "--log", "LOG", "record into the new log LOG, which is kept; otherwise "
	  "the latest 256 MB are kept until the next session", COMPLETE_DIRECTORY, NULL },
	WATCH_ENGINE_OPTIONS,
	{ 0 },
};
/* clang-format on */

bool repl_is_live(const struct repl *r)
{
	return r->live && !r->live_over;
}

/* Nobody has seen its end: it still runs. */
static void stop_session(struct repl *r)
{
	struct wc_error *stop_err = live_stop(r->live);
	enum monitor_end end;

	r->failure = wc_error_first(r->failure, wc_error_first(live_end(r->live, &end), stop_err));
	r->live_over = true;
}

static void close_session(struct repl *r)
{
	if (repl_is_live(r))
		stop_session(r);
	feed_close(r->feed);
	inspect_close(r->inspect);
	live_close(r->live);
	free(r->log);
	r->feed = NULL;
	r->inspect = NULL;
	r->live = NULL;
	r->log = NULL;
	r->live_over = false;
	r->pid = 0;
	r->launched = false;
	r->waited = 0;
	r->examine.has_next = false;
	repl_watches_forget_session(r);
}

void repl_init(struct repl *r)
{
	*r = (struct repl){ .examine = { .count = 1, .format = 'x', .size = 'w' } };
}

struct wc_error *repl_deinit(struct repl *r)
{
	close_session(r);
	repl_watches_deinit(r);
	free(r->run);
	return take_ptr(r->failure);
}

static const char *ending_text(enum monitor_end end)
{
	switch (end) {
	case MONITOR_EXITED:
		return "the program has ended";
	case MONITOR_EXECED:
		return "the process has executed another program: the session ended there";
	case MONITOR_GAVE_UP:
		return "the session was ended to protect the program: see the note above";
	case MONITOR_SUPPLANTED:
		return "another process has begun to collect the captures: the session ended there";
	case MONITOR_STOPPED:
	case MONITOR_COUNT:
	case MONITOR_TIME:
		break;
	}
	return "the session has ended";
}

/* All of the log has been read, and nobody writes to it any more. */
static void report_end(struct repl *r, FILE *out)
{
	enum monitor_end end = MONITOR_STOPPED;
	struct wc_error *err = live_end(r->live, &end);

	r->live_over = true;
	feed_settle(r->feed, out);
	fprintf(out, "%s\n", err ? err->text : ending_text(end));
	if (r->interactive)
		wc_error_free(err);
	else
		r->failure = wc_error_first(r->failure, err);
	if (end == MONITOR_EXITED)
		r->pid = 0;
	inspect_close(r->inspect);
	r->inspect = NULL;
}

bool repl_poll(struct repl *r, FILE *out)
{
	enum feed_state state;
	struct wc_error *err;
	bool over;

	if (!r->feed)
		return false;
	over = repl_is_live(r) && live_state(r->live) == LIVE_ENDED;
	err = feed_pump(r->feed, POLL_NS, r->interactive ? terminal_width(STDOUT_FILENO) : 0, out, &state);
	if (err) {
		fprintf(out, "the events cannot be read any further: %s\n", err->text);
		wc_error_free(err);
		state = FEED_ENDED;
	}
	if (over && state != FEED_MORE)
		report_end(r, out);
	return state == FEED_MORE;
}

/* Whether the log has reported all watches that the session has. */
static bool all_reported(const struct repl *r)
{
	for (size_t i = 0; i < r->nwatches; i++)
		if (r->watch[i].is_reported && r->watch[i].enabled && !feed_watch(r->feed, r->watch[i].id))
			return false;
	return true;
}

/* What the session says first: what it armed. */
void repl_hear(struct repl *r)
{
	uint64_t end = monotonic_ns() + FIRST_WORDS_NS;

	while (!r->live_over && monotonic_ns() < end) {
		bool more = repl_poll(r, stdout);

		if (feed_has_begun(r->feed) && all_reported(r))
			break;
		if (!more)
			repl_rest(r);
	}
}

static struct wc_error *repl_target_begin(struct repl *r, struct live_options *o)
{
	struct wc_error *err = repl_watches_give(r, &o->monitor);
	struct live *live = NULL;

	if (err)
		return err;
	o->monitor.stop = r->interrupted;
	err = live_start(o, &live);
	if (err)
		return err;
	close_session(r); /* the one before is kept until there is another */
	r->live = live;
	r->pid = live_program(live);
	r->launched = o->monitor.argv != NULL;
	r->log = strdup(live_log(live));
	repl_watches_reported(r);
	err = r->log ? feed_open(r->log, r->colour, r->syntax, &r->feed) : &wc_enomem;
	if (!err)
		feed_set_mode(r->feed, (enum feed_mode)r->mode);
	if (err) {
		close_session(r);
		return err;
	}
	return NULL;
}

static struct wc_error *must_be_free(const struct repl *r)
{
	if (repl_is_live(r))
		return wc_error_new(WC_EUSAGE, "there is a session with process %d: detach from it first",
				    r->pid);
	return NULL;
}

/* The options up to the first operand, at argv[*@next]. */
static struct wc_error *repl_target_parse(int argc, char **argv, int *next, struct watch_ask *q,
					  struct live_options *o)
{
	struct option_scan scan = {
		.argc = argc, .argv = argv, .next = *next, .options = repl_attach_options
	};
	struct wc_error *err = NULL;
	bool taken;

	while (!err && scan.next < argc && argv[scan.next][0] == '-') {
		struct option_match m;

		err = option_next(&scan, &m);
		if (err || m.kind == OPTION_DASHES)
			break;
		if (option_is(&m, "-o"))
			o->log = m.value;
		else
			err = watch_ask_take(q, &m, &taken);
	}
	*next = scan.next;
	return err;
}

static struct wc_error *parse_attach(int argc, char **argv, struct watch_ask *q, struct live_options *o)
{
	static const struct option pid_option = { .name = "attach" };
	struct option_match m = { OPTION_FOUND, &pid_option, NULL };
	uint64_t pid = 0;
	int next = 1;
	struct wc_error *err = repl_target_parse(argc, argv, &next, q, o);

	if (err)
		return err;
	if (next == argc)
		return wc_error_new(WC_EUSAGE, "attach to which process? Give its PID");
	m.value = argv[next++];
	err = option_number(&m, 1, INT32_MAX, &pid);
	if (!err)
		err = repl_target_parse(argc, argv, &next, q, o); /* people write them behind it, too */
	if (err)
		return err;
	if (next != argc)
		return wc_error_new(WC_EUSAGE, "attach takes one PID, and \"%s\" is one too many",
				    argv[next]);
	if ((pid_t)pid == getpid())
		return wc_error_new(WC_EUSAGE, "process %d is watchctl itself", getpid());
	q->monitor.pid = (pid_t)pid;
	return NULL;
}

static struct live_options options_of(const struct watch_ask *q, const struct live_options *o)
{
	struct live_options all = *o;

	all.monitor = q->monitor;
	all.redact = redact_ask_rules(&q->redact);
	return all;
}

struct wc_error *repl_attach(struct repl *r, int argc, char **argv)
{
	struct live_options o = { .program_fd = { -1, -1, -1 } };
	struct wc_error *err = must_be_free(r);
	struct watch_ask q;

	watch_ask_init(&q);
	if (!err)
		err = parse_attach(argc, argv, &q, &o);
	if (err)
		return err;
	o = options_of(&q, &o);
	err = repl_target_begin(r, &o);
	if (!err)
		repl_hear(r);
	return err;
}

/* The files of the program. */
struct launch {
	int fd[3];
};

static void launch_deinit(struct launch *l)
{
	for (int i = 0; i < 3; i++)
		closep(&l->fd[i]);
}

/* "<FILE", ">FILE", ">>FILE", "2>FILE", with the name in the same word or in the next. False: it is none. */
static bool redirection(const char *word, int *fd, int *flags, const char **name)
{
	*fd = -1;
	if (word[0] >= '0' && word[0] <= '2' && (word[1] == '>' || word[1] == '<'))
		*fd = *word++ - '0';
	if (*word == '<') {
		*fd = *fd < 0 ? 0 : *fd;
		*flags = O_RDONLY;
		*name = word + 1;
		return true;
	}
	if (*word != '>')
		return false;
	*fd = *fd < 0 ? 1 : *fd;
	*flags = O_WRONLY | O_CREAT | (word[1] == '>' ? O_APPEND : O_TRUNC);
	*name = word + (word[1] == '>' ? 2 : 1);
	return true;
}

static struct wc_error *redirect(struct launch *l, int fd, int flags, const char *name)
{
	int file = open(name, flags | O_CLOEXEC | O_NOCTTY, 0666);

	if (file < 0)
		return wc_error_errno(WC_EUSAGE, errno, "cannot open %s for the program", name);
	closep(&l->fd[fd]);
	l->fd[fd] = file;
	return NULL;
}

/* Takes the redirections out of @argv, which is changed; what was quoted is none. */
static struct wc_error *take_redirections(struct launch *l, char **argv, const bool *quoted, int *argc)
{
	int from, to = 0, fd, flags;
	struct wc_error *err;
	const char *name;

	for (from = 0; from < *argc; from++) {
		if (quoted[from] || !redirection(argv[from], &fd, &flags, &name)) {
			argv[to++] = argv[from];
			continue;
		}
		if (!*name && ++from == *argc)
			return wc_error_new(WC_EUSAGE, "the file is missing after %s", argv[from - 1]);
		err = redirect(l, fd, flags, *name ? name : argv[from]);
		if (err)
			return err;
	}
	argv[to] = NULL;
	*argc = to;
	return NULL;
}

/* Where the program reads and writes if nothing was said: nothing, and what we write to. */
static void inherit(struct launch *l)
{
	if (l->fd[1] < 0)
		l->fd[1] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (l->fd[2] < 0)
		l->fd[2] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
}

static struct wc_error *repl_target_run(struct repl *r, int argc, char **argv, const bool *quoted)
{
	scoped(launch_deinit) struct launch l = { .fd = { -1, -1, -1 } };
	struct live_options o = { .program_fd = { -1, -1, -1 } };
	struct watch_ask q;
	int next = 1, n;
	struct wc_error *err;

	watch_ask_init(&q);
	err = repl_target_parse(argc, argv, &next, &q, &o);
	if (err)
		return err;
	o = options_of(&q, &o);
	n = argc - next;
	err = take_redirections(&l, argv + next, quoted + next, &n);
	if (err)
		return err;
	if (!n)
		return wc_error_new(WC_EUSAGE, "run what? Name a program: run ./server --port 80");
	inherit(&l);
	memcpy(o.program_fd, l.fd, sizeof(l.fd));
	o.monitor.argv = argv + next;
	fflush(stdout);
	err = repl_target_begin(r, &o);
	if (!err)
		repl_hear(r);
	return err;
}

struct wc_error *repl_run_program(struct repl *r, int argc, char **argv)
{
	struct wc_error *err = must_be_free(r);
	struct repl_words words = { 0 };
	char *line = NULL;

	if (err)
		return err;
	/* As a command line: the name of the command in front. */
	if (argc > 1 ? asprintf(&line, "run %s", argv[1]) < 0 : !r->run)
		return argc > 1 ? &wc_enomem
				: wc_error_new(WC_EUSAGE, "run what? Name a program: run ./server --port 80");
	if (line) {
		free(r->run);
		r->run = line;
	}
	err = repl_split(r->run, false, &words);
	if (err)
		return err;
	scoped(freep) char **list = calloc(words.n + 1, sizeof(*list)); /* its words are moved about */
	err = &wc_enomem;
	if (list) {
		memcpy(list, words.v, words.n * sizeof(*list));
		err = repl_target_run(r, (int)words.n, list, words.quoted);
	}
	repl_words_deinit(&words);
	return err;
}

struct wc_error *repl_open(struct repl *r, int argc, char **argv)
{
	struct wc_error *err = must_be_free(r);
	struct repl_feed *feed;
	char *log;

	if (!err && argc != 2)
		err = wc_error_new(WC_EUSAGE, "open takes one log");
	if (err)
		return err;
	log = strdup(argv[1]);
	if (!log)
		return &wc_enomem;
	err = feed_open(log, r->colour, r->syntax, &feed);
	if (err) {
		free(log);
		return err;
	}
	close_session(r);
	r->log = log;
	r->feed = feed;
	feed_set_mode(feed, (enum feed_mode)r->mode);
	while (repl_poll(r, stdout) && !*r->interrupted)
		;
	feed_settle(feed, stdout);
	r->waited = feed_count(feed);
	printf("%" PRIu64 " event%s\n", feed_count(feed), feed_count(feed) == 1 ? "" : "s");
	return NULL;
}

struct wc_error *repl_detach(struct repl *r, int argc, char **argv)
{
	struct wc_error *err;

	if (!repl_is_live(r))
		return wc_error_new(WC_ETARGET, "there is no session to end");
	err = live_stop(r->live);
	if (err)
		return err;
	while (repl_is_live(r) && (repl_poll(r, stdout) || !r->live_over) && !*r->interrupted)
		;
	return NULL;
}

static bool agrees(struct repl *r)
{
	char answer[16] = "";

	if (!r->interactive)
		return true;
	printf("kill process %d? (y or n) ", r->pid);
	fflush(stdout);
	return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

struct wc_error *repl_kill(struct repl *r, int argc, char **argv)
{
	if (!repl_is_live(r))
		return wc_error_new(WC_ETARGET, "there is no program to kill");
	if (!r->launched)
		return wc_error_new(
			WC_EUSAGE,
			"process %d was not started by run: use detach to leave it running, or kill(1) to "
			"end it",
			r->pid);
	if (!agrees(r))
		return NULL;
	if (kill(r->pid, SIGKILL))
		return wc_error_errno(WC_ETARGET, errno, "cannot kill process %d", r->pid);
	while (repl_is_live(r) && !*r->interrupted)
		if (!repl_poll(r, stdout))
			repl_rest(r);
	return NULL;
}

struct wc_error *repl_inspect(struct repl *r, struct inspect **ret)
{
	struct wc_error *err = NULL;

	if (!r->pid)
		return wc_error_new(WC_ETARGET, "there is no process to read: attach PID, or run PROGRAM");
	if (!r->inspect)
		err = inspect_open(r->pid, &r->inspect);
	if (!err)
		*ret = r->inspect;
	return err;
}

static struct wc_error *print_text_of(struct repl *r, struct wc_error *(*get)(struct inspect *i, char **ret))
{
	scoped(freep) char *text = NULL;
	struct inspect *i;
	struct wc_error *err = repl_inspect(r, &i);

	if (!err)
		err = get(i, &text);
	if (!err)
		repl_print_clean(text);
	return err;
}

static void print_target(const struct repl *r)
{
	if (repl_is_live(r))
		printf("process %d, %s\n", r->pid, r->launched ? "started from here" : "attached to");
	else if (r->pid)
		printf("process %d, detached from\n", r->pid);
	else
		puts("no process");
	if (r->log)
		printf("log %s, %" PRIu64 " event%s\n", r->log, feed_count(r->feed),
		       feed_count(r->feed) == 1 ? "" : "s");
}

static void print_engine(const struct repl *r)
{
	bool any = false;

	for (size_t i = 0; i < r->nwatches; i++) {
		const struct repl_watch *asked = &r->watch[i];
		const struct view_watch *w =
			r->feed && asked->is_reported ? feed_watch(r->feed, asked->id) : NULL;

		if (!w)
			continue;
		any = true;
		printf("%s: engine %s%s%s, %" PRIu32 " of %" PRIu32 " threads armed%s%s\n", w->e.name,
		       w->e.engine ? w->e.engine : "unknown", w->e.why ? ": " : "", w->e.why ? w->e.why : "",
		       w->e.threads_armed, w->e.threads, w->e.verified ? ", tested by a known access" : "",
		       w->e.kernel ? ", accesses by the kernel are seen" : "");
	}
	if (!any)
		puts("nothing is armed, so no engine is in use");
}

struct wc_error *repl_info(struct repl *r, int argc, char **argv)
{
	static const char *const what[] = { "watches", "threads", "modules", "engine", "target" };
	size_t i, n = sizeof(what) / sizeof(what[0]);

	if (argc == 1) {
		print_target(r);
		repl_watches_print(r, stdout);
		return NULL;
	}
	for (i = 0; i < n && strncmp(what[i], argv[1], strlen(argv[1])) != 0; i++)
		;
	switch (i) {
	case 0:
		repl_watches_print(r, stdout);
		return NULL;
	case 1:
		return print_text_of(r, inspect_threads);
	case 2:
		return print_text_of(r, inspect_modules);
	case 3:
		print_engine(r);
		return NULL;
	case 4:
		print_target(r);
		return NULL;
	default:
		return wc_error_new(WC_EUSAGE,
				    "info knows watches, threads, modules, engine and target, not \"%s\"",
				    argv[1]);
	}
}
