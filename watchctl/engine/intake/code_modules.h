/*
 * code_modules - which modules a process has mapped, as time goes by.
 *
 * Known in two ways. The kernel reports each mapping of code when it is made (map_events), with its time;
 * and /proc/PID/maps shows what there is at a look, as long as the process lives. What is judged is always a
 * record of some moment, and the modules of that moment are what is given out: of a library that has taken
 * another's place, both are known, and the newcomer waits until the records reach its time.
 *
 *	reported, nothing was there		it comes at once: nothing older can be about it
 *	reported, in another's place	both changes wait for their time
 *	a look misses one		it goes at the time of the look; where events are not complete, at
 * once, for nobody knows when it went
 *	a look finds one untold		it comes at once, and what it displaces goes
 *
 * Nothing is reported munmap(): a module that has gone stays until a look, or until another comes. No code
 * runs there meanwhile.
 *
 * Children that are followed begin with the target's modules. What they map themselves is known beside these,
 * where the target has nothing.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_CODE_MODULES_H
#define WATCHCTL_ENGINE_INTAKE_CODE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/engine/intake/map_events.h"

struct module_change {
	bool came;		     /* else it has gone */
	bool in_turn;		     /* at its time: what was recorded before is not about it */
	const struct module *module; /* until the next call */
	pid_t pid;		     /* whose: the target's, or of a child that has it alone */
	uint64_t time_ns;
};

struct code_modules;

struct code_modules_hooks {
	/* Other code is where [start, end) was, from now on: what handlers know of it is wrong. */
	void (*displaced)(void *ctx, uint64_t start, uint64_t end);
	/* MAP_EVENT_FORK, _NAME, _EXEC and _END; may be NULL. */
	void (*task)(void *ctx, const struct map_event *e);
	void *ctx;
};

/* NULL: no memory. Nothing is known before the first look. */
struct code_modules *code_modules_new(pid_t pid, const struct code_modules_hooks *hooks);
void code_modules_free(struct code_modules *c); /* accepts NULL */

/* Asks the kernel to tell from now on; of its children, too, with @family. False: it is not permitted. */
bool code_modules_listen(struct code_modules *c, bool family);

bool code_modules_are_reported(const struct code_modules *c); /* the kernel reports */

/* The process has executed another program, which is what matters from now on: all that is known goes. */
bool code_modules_restart(struct code_modules *c);

/* What was reported by now. False: no memory. */
bool code_modules_take(struct code_modules *c);

/*
 * Looks at the maps. @same_ns: up to then the same code was mapped as at the last look, as far as is known.
 * *ret_looked false: there is nothing to look at any more, the process has ended or executes another program.
 */
struct wc_error *code_modules_look(struct code_modules *c, uint64_t same_ns, bool *ret_looked);

/* Looks at the maps of child @pid, where it does not tell. */
struct wc_error *code_modules_look_at_child(struct code_modules *c, pid_t pid);

/*
 * Whether other code is mapped than at the last look: cheaper than that. False also where it cannot be known,
 * as of a process that has ended.
 */
bool code_modules_moved(const struct code_modules *c);

/* Something was told that only a look can make sense of, or was lost. */
bool code_modules_wants_look(const struct code_modules *c);

/* Whether the process is over, as far as looks have shown: its memory is gone, or another program's. */
bool code_modules_over(const struct code_modules *c);

/*
 * The next change up to @until_ns, which then has happened to the list below. False: there is none; or
 * (*ok false) no memory.
 */
bool code_modules_next(struct code_modules *c, uint64_t until_ns, struct module_change *ret, bool *ok);

/* As far as changes were given out. */
const struct module_list *code_modules_list(const struct code_modules *c);

/* A change waits, there: what the process has there now is not what the records are about. */
bool code_modules_changing(const struct code_modules *c, uint64_t addr);

/* Where code was exchanged, for a while what was published about it may have been used for the other. */
enum code_doubt {
	CODE_SURE,
	CODE_RULES_IN_DOUBT, /* which of the two was there at that time is known */
	CODE_IN_DOUBT,	     /* that is not known either */
};

enum code_doubt code_modules_doubt(const struct code_modules *c, uint64_t addr, uint64_t time_ns);

/* ... before the first one that process @pid, the target or a child, has other code at than the list says. */
unsigned int code_modules_shared(const struct code_modules *c, pid_t pid, const uint64_t *frame,
				 unsigned int n);

/* Whether children say what they map: then the above knows it. */
bool code_modules_hears_children(const struct code_modules *c);

#endif
