#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/repl/repl_feed.h"

/* What attach and run are asked for. */
struct request {
	struct watch_ask ask;
	struct live_options live;
};

const struct option repl_attach_options[] = {
	{ "--tags", NULL, NULL, "collect the tagged stacks that the program captures, see stackwalk(7)", 0,
	  NULL, OPTION_FLAG(struct request, ask.monitor.tags) },
	{ "-o", "--log", "LOG",
	  "record into the new log LOG, which is kept; otherwise the latest 256 MB are kept until the next session",
	  COMPLETE_DIRECTORY, NULL, OPTION_TEXT(struct request, live.log) },
	OPTIONS_IN(struct request, ask, watch_engine_options),
	{ 0 },
};

struct wc_error *repl_deinit(struct repl *r)
{
	repl_close_session(r);
	repl_watches_deinit(r);
	free(r->run);
	return take_ptr(r->failure);
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
	repl_close_session(r); /* the one before is kept until there is another */
	r->live = live;
	r->pid = live_program(live);
	r->launched = o->monitor.argv != NULL;
	r->log = strdup(live_log(live));
	repl_watches_reported(r);
	err = r->log ? feed_open(r->log, r->colour, r->syntax, &r->feed) : &wc_enomem;
	if (!err)
		feed_set_mode(r->feed, (enum feed_mode)r->mode);
	if (err) {
		repl_close_session(r);
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
static struct wc_error *repl_target_parse(int argc, char **argv, int *next, struct request *q)
{
	struct option_scan scan = {
		.argc = argc, .argv = argv, .next = *next, .options = repl_attach_options
	};
	struct wc_error *err = NULL;

	while (!err && scan.next < argc && argv[scan.next][0] == '-') {
		struct option_match m;

		err = option_next(&scan, &m);
		if (err || m.kind == OPTION_DASHES)
			break;
		err = option_set(&m, q);
	}
	*next = scan.next;
	return err;
}

static struct wc_error *parse_attach(int argc, char **argv, struct request *q)
{
	static const struct option pid_option = { .name = "attach" };
	struct option_match m = { .kind = OPTION_FOUND, .option = &pid_option };
	uint64_t pid = 0;
	int next = 1;
	struct wc_error *err = repl_target_parse(argc, argv, &next, q);

	if (err)
		return err;
	if (next == argc)
		return wc_error_new(WC_EUSAGE, "attach to which process? Give its PID");
	m.value = argv[next++];
	err = option_number(&m, 1, INT32_MAX, &pid);
	if (!err)
		err = repl_target_parse(argc, argv, &next, q); /* people write them behind it, too */
	if (err)
		return err;
	if (next != argc)
		return wc_error_new(WC_EUSAGE, "attach takes one PID, and \"%s\" is one too many",
				    argv[next]);
	if ((pid_t)pid == getpid())
		return wc_error_new(WC_EUSAGE, "process %d is watchctl itself", getpid());
	q->ask.monitor.pid = (pid_t)pid;
	return NULL;
}

static void request_init(struct request *q)
{
	*q = (struct request){ .live = { .program_fd = { -1, -1, -1 } } };
	watch_ask_init(&q->ask);
}

static struct wc_error *begin_and_hear(struct repl *r, struct request *q)
{
	struct wc_error *err = ready_check(&q->ask.ready);

	if (err)
		return err;
	q->live.monitor = q->ask.monitor;
	q->live.redact = redact_ask_rules(&q->ask.redact);
	err = repl_target_begin(r, &q->live);
	if (err)
		return err;
	repl_hear(r);
	ready_tell(&q->ask.ready);
	return err;
}

struct wc_error *repl_attach(struct repl *r, int argc, char **argv)
{
	struct wc_error *err = must_be_free(r);
	struct request q;

	request_init(&q);
	if (!err)
		err = parse_attach(argc, argv, &q);
	return err ? err : begin_and_hear(r, &q);
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
	struct request q;
	int next = 1, n;
	struct wc_error *err;

	request_init(&q);
	err = repl_target_parse(argc, argv, &next, &q);
	if (err)
		return err;
	n = argc - next;
	err = take_redirections(&l, argv + next, quoted + next, &n);
	if (err)
		return err;
	if (!n)
		return wc_error_new(WC_EUSAGE, "run what? Name a program: run ./server --port 80");
	inherit(&l);
	memcpy(q.live.program_fd, l.fd, sizeof(l.fd));
	q.ask.monitor.argv = argv + next;
	fflush(stdout);
	return begin_and_hear(r, &q);
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
	repl_close_session(r);
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
