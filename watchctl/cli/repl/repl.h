/*
 * repl - the session that a person, or a file of commands, leads: one target at a time, its watches by number, the events of
 * its log by number. What files of the REPL share.
 *
 *	repl.c		reads lines at a terminal, and prints what arrives above the one being typed
 *	repl_script.c	reads them from a file or a pipe
 *	repl_commands.c	the table of commands: finds and runs one
 *	repl_session.c	the session that goes on, which all of them look at
 *	repl_target.c	attach, run, detach, kill
 *	repl_watch.c	watch, enable, disable, delete, and their list
 *	repl_feed.c	events: follows the log, numbers and prints them
 *	repl_show.c	what is known of one event, values and memory of the process
 *	repl_child.c	other commands of ours, in processes of their own
 *	repl_complete.c	what a word can go on with
 */
#ifndef WATCHCTL_CLI_REPL_REPL_H
#define WATCHCTL_CLI_REPL_REPL_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/options/options.h"
#include "watchctl/cli/request/watch_request.h"
#include "watchctl/monitor/inspect/inspect.h"
#include "watchctl/monitor/live/live.h"

struct repl_feed;

/* A watch that was asked for: it stays, also without a target, until it is deleted. */
struct repl_watch {
	unsigned int number; /* 1.. */
	char *text;	     /* as it was typed */
	char **words;	     /* what the request points into; owned, ended by NULL */
	struct watch_request request;
	bool enabled;
	bool is_reported; /* the session has it, under the id: */
	uint32_t id;
};

struct repl {
	bool interactive; /* a person at a terminal */
	bool colour;
	enum insn_syntax syntax;
	bool keep_going;		    /* commands from files: also after an error */
	unsigned int depth;		    /* of sources */
	unsigned int mode;		    /* enum feed_mode */
	volatile sig_atomic_t *interrupted; /* set by Ctrl-C: what waits, ends */
	volatile sig_atomic_t *ended;	    /* the terminal is gone, or somebody asked us to end */
	bool quit;

	struct live *live; /* NULL: none yet; may have ended */
	bool live_over;	   /* its end has been reported */
	pid_t pid;	   /* of the process; 0: none */
	bool launched;
	char *log;		  /* the log that is read; NULL: none */
	char *run;		  /* the last run, as it was typed; NULL: none */
	struct inspect *inspect;  /* NULL: not asked yet */
	struct repl_feed *feed;	  /* NULL: none */
	uint64_t waited;	  /* events of the log that count for no wait any more */
	struct wc_error *failure; /* of the end of a session, for the exit status; NULL: none */

	struct repl_watch *watch;
	size_t nwatches, watch_cap;
	unsigned int last_number;
	struct examine examine;
};

void repl_init(struct repl *r);

/* Ends a session that still runs. How one failed to end well, if nobody at a terminal was informed. */
struct wc_error *repl_deinit(struct repl *r);

struct repl_command {
	const char *name;
	const char *args;	      /* what follows the name in the usage */
	const char *summary;	      /* one line, lower case, no full stop */
	const char *script;	      /* how a script does the same; NULL: it has no need to */
	const struct option *options; /* NULL: none */
	enum repl_operand {
		OPERAND_NONE,
		OPERAND_EXPRESSION,
		OPERAND_PID,
		OPERAND_FILE,
		OPERAND_PROGRAM, /* and then files */
		OPERAND_WATCH,	 /* numbers */
		OPERAND_COMMAND,
		OPERAND_WORDS, /* @words */
		OPERAND_CHILD, /* as the command of that name completes */
	} operand;
	const char *words;
	bool takes_rest;   /* argv[1] is the rest of the line as it is */
	bool takes_format; /* "name/4xw": argv[0] is what follows the slash, "" without */
	struct wc_error *(*run)(struct repl *r, int argc, char **argv);
};

/* Ended by an entry without a name. */
extern const struct repl_command repl_commands[];

/* By its name or a unique beginning of it; else WC_EUSAGE with near names. */
struct wc_error *repl_command_find(const char *name, const struct repl_command **ret);

/* Runs a line; empty ones and comments ("# ...") are fine. */
struct wc_error *repl_run_line(struct repl *r, const char *line);

/* An empty line at the prompt: goes on with what can go on. */
struct wc_error *repl_run_empty(struct repl *r);

/* Words of a line: separated by blanks, with '...', "..." and \ as a shell has them. */
struct repl_words {
	char **v; /* ended by NULL */
	bool *quoted;
	size_t n, cap, quoted_cap;
};

/* WC_EUSAGE: a quote is not closed; with @open that is none, and the last word goes as far as the text. */
struct wc_error *repl_split(const char *line, bool open, struct repl_words *ret);
void repl_words_deinit(struct repl_words *w);

/* Commands from @f, whose name for messages is @name, to its end or the first error. */
struct wc_error *repl_script(struct repl *r, FILE *f, const char *name);
struct wc_error *repl_source(struct repl *r, int argc, char **argv);
struct wc_error *repl_wait(struct repl *r, int argc, char **argv);

/* Reads what has come, prints it to @out, and reports the end of the session. For a few ms at most; true: there
 * is more. */
bool repl_poll(struct repl *r, FILE *out);

/* Waits a moment, or until something may have come. */
void repl_rest(struct repl *r);

/* Waits a moment for what the session says of the watches that it was just given, and prints it. */
void repl_hear(struct repl *r);

/* The target */
struct wc_error *repl_attach(struct repl *r, int argc, char **argv);
struct wc_error *repl_run_program(struct repl *r, int argc, char **argv);
struct wc_error *repl_open(struct repl *r, int argc, char **argv);
struct wc_error *repl_detach(struct repl *r, int argc, char **argv);
struct wc_error *repl_kill(struct repl *r, int argc, char **argv);
struct wc_error *repl_info(struct repl *r, int argc, char **argv);
extern const struct option repl_attach_options[];

/* A session goes on. */
bool repl_is_live(const struct repl *r);

/* Ends it, and forgets the process, the log and what is known of them. The watches stay. */
void repl_close_session(struct repl *r);

/* The process, to look at; WC_ETARGET: there is none. */
struct wc_error *repl_inspect(struct repl *r, struct inspect **ret);

/* Watches */
struct wc_error *repl_watch(struct repl *r, int argc, char **argv);
struct wc_error *repl_enable(struct repl *r, int argc, char **argv);
struct wc_error *repl_disable(struct repl *r, int argc, char **argv);
struct wc_error *repl_delete(struct repl *r, int argc, char **argv);
extern const struct option repl_watch_options[];
extern const struct option repl_wait_options[];

/* The enabled ones into @o, for a session that begins; WC_ESLOTS: too many. repl_watches_reported() when it has
 * begun. */
struct wc_error *repl_watches_give(struct repl *r, struct monitor_options *o);
void repl_watches_reported(struct repl *r);
void repl_watches_print(const struct repl *r, FILE *out);
void repl_watches_deinit(struct repl *r);

/* Events and values */
struct wc_error *repl_show(struct repl *r, int argc, char **argv);
struct wc_error *repl_bt(struct repl *r, int argc, char **argv);
struct wc_error *repl_regs(struct repl *r, int argc, char **argv);
struct wc_error *repl_list(struct repl *r, int argc, char **argv);
struct wc_error *repl_disassemble(struct repl *r, int argc, char **argv);
struct wc_error *repl_sites(struct repl *r, int argc, char **argv);
struct wc_error *repl_log(struct repl *r, int argc, char **argv);
/* What comes from the process, without what a terminal would obey; lines and tabs stay. */
void repl_print_clean(const char *text);

struct wc_error *repl_print(struct repl *r, int argc, char **argv);
struct wc_error *repl_examine(struct repl *r, int argc, char **argv);

/* Others */
struct wc_error *repl_child(struct repl *r, int argc, char **argv);
struct wc_error *repl_save(struct repl *r, int argc, char **argv);
struct wc_error *repl_help(struct repl *r, int argc, char **argv);

/*
 * The texts that may stand in place of @word, which stands in @line behind its first @start bytes; ended by
 * NULL, malloc'd as each is. *@files: names of files may, too. NULL: none.
 */
char **repl_complete(struct repl *r, const char *line, size_t start, const char *word, bool *files,
		     bool *unfinished);

/* At a terminal, until the user has enough. */
struct wc_error *repl_terminal(struct repl *r);

#endif
