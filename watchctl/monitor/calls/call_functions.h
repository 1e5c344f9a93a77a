/*
 * call_functions - the functions that are traced: which are wanted, by module, source file, name and size, or as `watchctl step` chooses them; where
 * they are entered and left; what becomes of the patches there. Reads the plan of watchctl/patch, and knows no records.
 */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_FUNCTIONS_H
#define WATCHCTL_MONITOR_CALLS_CALL_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/code_source.h"
#include "watchctl/monitor/calls/call_choice.h"
#include "watchctl/patch/plan/patch_plan.h"

/* Which functions. Globs as code_image_name_fits() has them. */
struct call_selection {
	const char **module; /* as module_by_name() takes them; none: the program itself */
	size_t nmodules;
	const char **function; /* none: all */
	size_t nfunctions;
	const char **without;
	size_t nwithout;
	const char *const *
		source; /* globs of source files, see code_source.h; none: any, and no debug information is read */
	size_t nsources;
	uint64_t min_size; /* bytes; 0: any */
};

/* A module that has traced functions. */
struct call_file {
	struct module m; /* owned */
	bool is_selected; /* it was asked for; else only functions that leave otherwise than by returning are traced in it */
	struct code_source_ranges *
		sources; /* what selection.source chooses of it; owned; NULL: nothing, or all where none is given */
};

struct call_function {
	uint32_t file;	     /* index of its struct call_file */
	uint64_t addr, size; /* of the file; size 0: not known */
	char *name;	     /* for people; owned; NULL: only the unwind tables know it */
	uint8_t leaves;	     /* enum track_leaves */
	bool jumps_away;     /* it may end in a jump to another function: a tail call */
	bool loops_to_start; /* a jump of its own leads to where it begins */
	bool entry_refused;
	bool exit_refused; /* of one of its ends */
	bool reported;
	bool is_extra; /* nobody asked for it: it is traced because it leaves otherwise than by returning, see track.h */
	/* Of a choice: */
	bool is_over; /* stepped over: a call of it is recorded if it comes from recorded code, and its end where that goes on */
	bool is_hidden; /* never told: the range begins or ends in it; or it is what a call by a pointer may lead to */
	uint64_t address;     /* in the process, of its point; 0: it has none */
	uint64_t passed_over; /* entries of it that are no calls to be recorded */
	bool is_off;	      /* too hot, see call_trace */
	bool ends_off;	      /* ... and its ends are only counted any more */
	uint32_t open;	      /* recorded calls of it that have not ended */
	uint64_t in_second;   /* calls that were recorded in the second from ... on */
	uint64_t second_ns;
	uint64_t recorded,
		loops; /* of what its entry has recorded: calls, and jumps of its own to where it begins */
	uint64_t without_end;		  /* recorded calls that have surely not come to an end of it */
	const struct function_plan *plan; /* of its values; NULL: none are recorded */
	struct probe_counter *at;	  /* of its entry; NULL: it is not patched */
	uint32_t entry;			  /* its site, where it is patched */
};

/* What a site is of its function. */
enum call_place {
	CALL_ENTRY,
	CALL_WHOLE, /* ... which is a return */
	CALL_STUB,  /* ... which is a jump to a function that is not traced */
	CALL_RETURN,
	CALL_JUMP,    /* to a function that is not traced */
	CALL_LANDING, /* of a choice: behind a call (patch_landings.h); of the hidden function */
	CALL_MARK,    /* of a choice: an end of the range, and nothing else */
};

static inline bool call_place_is_entry(enum call_place p)
{
	return p <= CALL_STUB;
}

struct call_site {
	uint32_t function;
	enum call_place place;
	bool begins, ends; /* the range, here */
	bool lands;	   /* a call returns to it */
	uint64_t ip;	   /* in the process */
	uint64_t callee;   /* of a landing: the point that is called there; 0: it is not known */
	const struct function_plan *plan; /* of the values there; NULL: none are recorded */
	enum call_place values;		  /* ... as which kind of place they are fetched */
	struct probe_counter *counter;	  /* NULL: nothing runs there */
	uint64_t seen;			  /* recorded: the counter has what was switched off, or lost */
};

/* Places of a function that was asked for, and that cannot be patched for the same reason. */
struct call_refused {
	uint32_t function; /* index */
	bool at_end;	   /* they leave it; else they are where it is entered */
	uint32_t places;   /* at least 1 */
	const char *why;   /* static */
};

#define CALL_RESTORERS 16u /* more than there are C libraries in a process */

struct call_functions {
	struct call_selection selection;
	struct call_choice *choice; /* in place of the selection; not owned; NULL: the selection it is */
	uint32_t any; /* of a choice: the hidden function that landings are of; made with the first */
	bool has_any;
	uint64_t *callee; /* of landings, until they are placed; owned */
	size_t ncallees, callee_cap;
	size_t landings_refused;
	bool begins_at_entry; /* the range, of a function */
	struct map64 landing; /* addresses in the process where one is patched -> anything */
	struct call_file *file;
	size_t nfiles, file_cap;
	struct call_function *function;
	size_t n, cap;
	struct map64 by_addr;	/* file and address -> index plus 1 */
	struct call_site *site; /* by the session's numbers */
	size_t nsites, site_cap;
	uint64_t restorer[CALL_RESTORERS]; /* in the process: where signal handlers return to */
	size_t nrestorers;
	struct call_refused *refused; /* those of a function stand together; owned */
	size_t nrefused, refused_cap;
	struct code_source_choice *sources; /* owned; NULL: none yet */
	struct wc_error *err; /* of reading which sources a module has; owned, or taken by who reports it */
	bool *module_found;   /* of each of selection.module; owned; NULL: none yet */
	char why[120];	      /* of the first refusal */
	bool failed;	      /* memory ran out */
	/* Of the last function that was asked for: */
	const struct map_function *last;
	bool last_wanted, last_extra;
	uint32_t last_file;
	const struct patch_module *last_module; /* that it is in */
	/* ... and of the last one whose landings were: address of the file -> the callee in the process; 1: not known */
	const struct map_function *landed;
	struct map64 called;
};

void call_functions_deinit(struct call_functions *f); /* accepts zeros but for the selection */

/* One of selection.module that is not in the process; NULL: all are. */
const char *call_functions_missing_module(const struct call_functions *f);

/* See struct patch_taker. A module whose source files are not known, though they are chosen by, sets @f->err if that is NULL. */
bool call_functions_wants_module(struct call_functions *f, const struct module_list *all,
				 const struct module *m);
bool call_functions_wants(struct call_functions *f, const struct patch_site *site, uint32_t *mark);

/* Of which function a site with this mark is. */
uint32_t call_functions_marked(const struct call_functions *f, uint32_t mark);

/* @counter: NULL where nothing runs there: @why, and @why_short, static, for totals. False: no memory. */
bool call_functions_placed(struct call_functions *f, uint32_t site, uint64_t ip, uint32_t mark,
			   struct probe_counter *counter, const char *why, const char *why_short);

/* Of a choice: whether the return of a call to @address, of the process, will be seen there. */
bool call_functions_lands(const struct call_functions *f, uint64_t address);

/* Whether @r tells something: of a function that is not traced, its ends do not matter. */
bool call_functions_refusal_counts(const struct call_functions *f, const struct call_refused *r);

/* How often a site that is patched was passed. */
uint64_t call_site_passed(const struct call_site *s);

/* Whether @address, of the process, is where signal handlers return to. */
bool call_functions_is_restorer(const struct call_functions *f, uint64_t address);

#endif
