/*
 * code_modules_impl - what its files share:
 *
 *	code_modules.c		changes, in the order in which they are given out
 *	code_modules_reported.c	from what the kernel reports to changes
 *	code_modules_look.c	from what /proc/PID/maps shows to changes
 */
#ifndef WATCHCTL_ENGINE_INTAKE_CODE_MODULES_IMPL_H
#define WATCHCTL_ENGINE_INTAKE_CODE_MODULES_IMPL_H

#include "watchctl/engine/intake/code_modules.h"

/* A module as it is once all changes that wait have happened. */
struct latest_module {
	struct module m;
	pid_t pid;
	uint64_t came_ns;
};

struct waiting_change {
	bool came, at_once;
	pid_t pid;
	uint64_t time_ns;
	struct module m;
};

/* Between the two times, what walked code there may have known the one or the other. */
struct code_exchange {
	uint64_t start, end;
	uint64_t from_ns, to_ns;
	bool exact; /* from_ns is when the newcomer came */
};

/* Code that was reported, and whose file was another one by the time that we looked at it. */
struct unread_module {
	uint64_t start, end; /* of the mapping */
	uint64_t time_ns;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len; /* > 0 */
};

#define UNREAD_MAX 256u

struct child_module {
	pid_t pid;
	struct module m;
};

struct code_range {
	uint64_t start, end;
};

/* A module that only a child has. */
struct foreign_module {
	uint64_t start;
	pid_t pid;
};

struct code_modules {
	pid_t pid;
	struct code_modules_hooks hooks;
	uint64_t stack_start; /* of the program: another program has another one; 0: not known */
	int root_fd;
	bool family, over, wants_look;
	uint64_t print; /* of what is mapped as code, at the last look */
	struct map_events *events;
	struct module_list now;		/* as given out */
	struct module given;		/* that has gone: given out last */
	struct foreign_module *foreign; /* those in `now` that only a child has */
	size_t nforeign, foreign_cap;
	struct latest_module *latest;
	size_t nlatest, latest_cap;
	struct waiting_change *waiting; /* in the order of time */
	size_t nwaiting, waiting_cap;
	struct code_exchange *exchange;
	size_t nexchanges, exchange_cap;
	struct unread_module unread[UNREAD_MAX]; /* a ring */
	size_t nunread;				 /* ever */
	struct child_module *child;		 /* what children have mapped themselves, the latest last */
	size_t nchildren, child_cap;
	struct code_range *jit; /* executable memory without a file, as told */
	size_t njit, jit_cap;
};

/* As a program that goes on has it: a JIT's grows and shrinks. */
bool code_modules_same(const struct module *a, const struct module *b);

static inline bool code_ranges_overlap(uint64_t start, uint64_t end, uint64_t start2, uint64_t end2)
{
	return start < end2 && start2 < end;
}

/*
 * Module *@m, which is taken over whatever happens, came at @time_ns (@at_once: nobody knows when), and what
 * was in its place has gone. False: no memory.
 */
bool code_modules_came(struct code_modules *c, struct module *m, pid_t pid, uint64_t time_ns, bool at_once);

/* The @i-th of the latest has gone. */
bool code_modules_gone(struct code_modules *c, size_t i, uint64_t time_ns, bool at_once);

/* When *@m came, if that was reported while its file could not be read; 0: it was not. */
uint64_t code_modules_unread_since(const struct code_modules *c, const struct module *m);

/* Child @pid has *@m, which is taken over, since @time_ns, or since nobody knows when. */
bool code_modules_child_came(struct code_modules *c, struct module *m, pid_t pid, uint64_t time_ns,
			     bool at_once);

/* The @i-th of the latest is the target's, too. */
void code_modules_adopt(struct code_modules *c, size_t i);

/* Where @m was, other code may be: what was published about it is withdrawn, and doubted up to now. */
bool code_modules_exchanged(struct code_modules *c, const struct module *m, uint64_t from_ns, bool exact);

#endif
