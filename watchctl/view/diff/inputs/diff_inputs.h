/*
 * diff_inputs - what came into two runs: what the user changed (arguments, environment, directory), and the first
 * difference of what files, pipes, sockets and the system delivered.
 *
 * Inputs are compared source by source, each as the sequence of bytes that the program asked for: a source that one
 * run reads in other pieces is the same. Where the runs go to other places in a file, or one of them stops reading,
 * the program has decided that: no difference of input is claimed from there on. Clocks, random numbers and files of
 * /proc and /sys are never the same in two runs: they are counted, not compared. Nor are the entries of directories,
 * whose order is the file system's.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_INPUTS_H
#define WATCHCTL_VIEW_DIFF_DIFF_INPUTS_H

#include "watchctl/base/map64.h"
#include "watchctl/trace/event.h"

/* One event, with copies of what it points to. */
struct diff_input {
	struct input_event e;
	uint64_t number; /* of all inputs of the log */
	uint64_t time_ns;
};

/* What inputs come from, in the order of their events. */
struct diff_source {
	enum input_kind kind;
	int32_t fd;	   /* of the first */
	char *name;	   /* "": none */
	uint64_t identity; /* the same in both runs, if they did the same */
	struct diff_input *input;
	size_t n, cap;
	bool has_mate;
};

/* Zero-initialised is empty. */
struct diff_inputs {
	enum recording_inputs recorded;
	char *directory; /* NULL: not known */
	uint8_t *arguments, *environment;
	size_t arguments_len, environment_len;
	bool withheld;
	struct diff_source *source;
	size_t n, cap;
	uint64_t count; /* events */
	uint64_t clocks, randoms,
		system; /* of them, those that are not compared: the last, of /proc and /sys */
};

/* WC_ENOMEM */
struct wc_error *diff_inputs_add(struct diff_inputs *in, const struct input_event *e, uint64_t time_ns);
void diff_inputs_deinit(struct diff_inputs *in);

enum diff_input_what {
	DIFF_INPUT_BYTES,  /* at @offset they differ */
	DIFF_INPUT_END,	   /* one ends at @offset, the other goes on */
	DIFF_INPUT_UNSEEN, /* they differ somewhere from @offset on: more bytes were not recorded */
	DIFF_INPUT_RESULT, /* the system call failed, or in another way */
	DIFF_INPUT_SIZE,   /* of a file, of which the contents were not compared */
	DIFF_INPUT_MODE,   /* ... or another kind of file */
};

#define DIFF_INPUT_SIDE 16 /* bytes on each side of the first one that differs */

struct diff_input_side {
	const struct diff_source *source;
	const struct diff_input *input;
	uint8_t bytes[2 * DIFF_INPUT_SIDE + 1];
	uint32_t len, at; /* bytes[at] is the first one that differs; at == len: the end */
	int64_t value;	  /* result, size or mode */
};

struct diff_input_difference {
	enum diff_input_what what;
	uint64_t offset; /* in the source */
	struct diff_input_side a, b;
};

/* An argument or variable that is not the same. NULL: that side has none. */
struct diff_change {
	const char *what; /* "argument", "variable", "directory" */
	size_t index;	  /* of an argument */
	const char *a, *b;
};

struct diff_input_result {
	bool compared;
	struct diff_input_difference first;
	bool differs;
	size_t sources;	 /* that differ */
	uint64_t unseen; /* bytes that both read, and that were neither recorded nor hashed alike */
	struct diff_change *change;
	size_t nchanges, changes_cap;
};

/* @noise: identities of sources that differ among good runs; may be NULL. @ret is zeroed. WC_ENOMEM. */
struct wc_error *diff_inputs_compare(struct diff_inputs *a, struct diff_inputs *b, const struct map64 *noise,
				     struct diff_input_result *ret);

/* The sources that differ are noise: adds their identities. False: no memory. */
bool diff_inputs_learn(struct diff_inputs *a, struct diff_inputs *b, struct map64 *noise, uint64_t *learned);

void diff_input_result_deinit(struct diff_input_result *r);

/* Words, as clean texts: of the difference, of one side, of a change. */
void diff_input_headline(const struct diff_input_difference *d, char *buf, size_t cap);
void diff_input_side_text(const struct diff_input_difference *d, const struct diff_input_side *s, char *buf,
			  size_t cap);
void diff_change_text(const struct diff_change *c, char *buf, size_t cap);
const char *diff_input_what_name(enum diff_input_what what);

#endif
