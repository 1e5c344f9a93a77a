/*
 * patch_session_impl - what the files of patch_session.h share.
 *
 *	patch_session.c		the order of life
 *	patch_modules.c		the modules: whose sites are planned and patched
 *	patch_known.c		of these, those that were looked at, also after they were unloaded
 *	patch_areas.c		a module's sites: made into trampolines, applied
 *	patch_puns.c		of these, room for the trampolines of punned jumps
 *	patch_records.c		what probes record, as events
 *	patch_leavings.c	what others have left
 *	patch_heirs.c		children that outlive the program
 */
#ifndef WATCHCTL_MONITOR_PATCH_PATCH_SESSION_IMPL_H
#define WATCHCTL_MONITOR_PATCH_PATCH_SESSION_IMPL_H

#include <sys/types.h>
#include <time.h>

#include "watchctl/base/time/tsc_clock.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/engine/intake/code_facts.h"
#include "watchctl/engine/intake/exec_watch.h"
#include "watchctl/engine/intake/followed.h"
#include "watchctl/monitor/patch/patch_session.h"
#include "watchctl/patch/apply/patch_apply.h"
#include "watchctl/patch/probe/call_buffers.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/patch/probe/probe_rings.h"
#include "watchctl/target/stop/tracee.h"

/* A place where a pattern fits; its id is its index. */
struct session_site {
	uint64_t ip;
	unsigned int rule;
	uint32_t mark; /* the taker's */
	enum probe_tactic tactic;
	bool applied;
	char why[120];
	const char *why_short; /* the same for all sites alike; static */
	uint8_t ninsn, insn[16];
};

/* Of a file: another one under the same name has others. */
struct file_marks {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

/* A module that was looked at, whether or not anything fits there. */
struct session_module {
	struct module m; /* owned */
	struct file_marks file;
	struct probe_range area;  /* near it, with its patches; code_size 0: there are none */
	bool is_there;		  /* at the last look, with all of its patches */
	struct patch_again again; /* what became of them when it was loaded again */
	unsigned int tells;	  /* how often the same */
	/* One of its patches: where that is not, the module is another copy. len 0: none */
	struct probe_patch mark;
};

struct patch_session {
	struct patch_session_options options;
	struct event_sink sink;
	pid_t pid;
	bool launched;
	int wait_status; /* of a launched one that has ended; -1 */
	struct tracee held;
	bool stands; /* a launched one that has not begun, see options.hold */
	int pidfd;
	struct exec_watch exec;
	uint64_t stack_start; /* of the program that it executes */
	bool over;	      /* the program has ended, or executes another */
	int end_signal;	      /* that ended it; 0: none, or not known */
	enum session_end end;
	struct probe_place place;
	struct probe_rings *rings;
	struct call_buffers *buffers; /* NULL: there are none */
	uint32_t
		call_tid; /* of the event that was taken last from them, as the program numbers it; 0: none */
	pid_t call_thread; /* ... as we do */
	uint64_t swept_ns; /* when it was last looked for threads that have ended */
	struct code_facts *facts;
	struct followed who;
	struct tsc_clock clock;
	struct session_site *site;
	size_t nsites, site_cap;
	struct session_module *module;
	size_t nmodules, module_cap;
	size_t modules_with_sites;
	struct patch_hold_times holds;
	uint64_t modules_ns; /* of the last look whether others are there */
	uint64_t listed_ns;  /* of the last one at all of them */
	uint64_t taken_ns;   /* when records were last taken */
	uint64_t began_ns, recorded, limit;
	bool enough; /* the taker's word */
};

struct wc_error *session_put(struct patch_session *s, struct trace_event *e);
struct wc_error *session_note(struct patch_session *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The home, with room for the counters of @sites sites and some more. */
struct wc_error *session_place(struct patch_session *s, size_t sites);

/* Once the program has ended: of children that go on, a note. */
struct wc_error *session_report_heirs(struct patch_session *s);

/* The modules that were not looked at yet. @first: names in patterns must be somewhere. */
struct wc_error *session_patch_modules(struct patch_session *s, bool first);

/* That @rule calls. */
const struct probe_function *session_function(const struct patch_session *s, unsigned int rule);

/*
 * What is known of the modules, against those that are there now: of one that has gone the patches are forgotten, and so is one whose
 * place another has taken; one that is there again, or anew, has its patches written again.
 */
struct wc_error *session_look_at_known(struct patch_session *s, const struct module_list *now);

/* One has lost its patches: it was unloaded, and loaded again. Cheap. */
bool session_has_displaced(const struct patch_session *s);

bool session_is_known(const struct patch_session *s, const struct module *m);
bool session_know(struct patch_session *s, const struct module *m); /* false: no memory */

/* The patches of @m lie in @area; @mark is one of them, or NULL. */
void session_know_area(struct patch_session *s, const struct module *m, const struct probe_range *area,
		       const struct probe_patch *mark);
void session_forget_known(struct patch_session *s);

/* What was recorded up to now; @last: all, for nothing comes any more. *@more: there is more already. */
struct wc_error *session_take_records(struct patch_session *s, bool last, bool *more);

#endif
