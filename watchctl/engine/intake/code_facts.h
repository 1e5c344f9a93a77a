/*
 * code_facts - what the handler cannot compute in a trap, computed here once per code address, and
 * published in the tables it looks into: unwind rules, and how an access at a trap's rip behaves.
 *
 * Also reports the sink about modules and code the first time they matter, before any event that refers
 * to them.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_CODE_FACTS_H
#define WATCHCTL_ENGINE_INTAKE_CODE_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/insn/access.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/engine/intake/code_modules.h"
#include "watchctl/engine/plan/area.h"
#include "watchctl/trace/event.h"

struct code_facts;

/* @area, copied: where rules and facts are published; NULL: nowhere. */
struct code_facts *code_facts_new(pid_t pid, const struct wire_area *area, struct event_sink sink);
/*
 * A program can have, or claim, code at any number of addresses: where facts are kept of too many, all are
 * forgotten, and re-emitted. None that was given out is valid then.
 */
void code_facts_bound(struct code_facts *f);
void code_facts_free(struct code_facts *f);

struct code_facts_hooks {
	/* What is queued is reported now: it refers to what is about to be reported anew. */
	struct wc_error *(*flush)(void *ctx);
	/* A child has a module of its own, which is about to be reported. */
	struct wc_error *(*child)(void *ctx, pid_t pid, uint64_t time_ns);
	void (*task)(void *ctx, const struct map_event *e); /* births, ends, names, programs executed */
	void *ctx;
};

/*
 * The kernel reports what is mapped from now on, and with @family of what forked children map, too. Each
 * hook may be NULL. False: it is not permitted; only looks tell then.
 */
bool code_facts_listen(struct code_facts *f, bool family, const struct code_facts_hooks *hooks);
bool code_facts_are_reported(const struct code_facts *f);
bool code_facts_hear_children(const struct code_facts *f);

/* Takes what the kernel shows, so that what is known of code that was exchanged is withdrawn. */
struct wc_error *code_facts_hear(struct code_facts *f);

/*
 * What is known becomes that of the time @until_ns: records up to there are to be judged now. Reports the sink
 * of modules that came and went; withdraws what was published about the latter.
 */
struct wc_error *code_facts_catch_up(struct code_facts *f, uint64_t until_ns, bool *changed);

/*
 * Looks at the modules of the process itself. What is not known by its time comes and goes at once. @same_ns:
 * up to then the same code was mapped as at the last look, as far as is known.
 */
struct wc_error *code_facts_refresh(struct code_facts *f, uint64_t same_ns, bool *changed);

/* ... and those that only child @pid has, which does not tell. */
struct wc_error *code_facts_look_at_child(struct code_facts *f, pid_t pid, bool *changed);

/* There is nobody to look at any more, as far as looks have shown. */
bool code_facts_over(const struct code_facts *f);

/* Only a look can say what has changed. */
bool code_facts_want_look(const struct code_facts *f);

/* The process executes another program, whose modules matter from now on. */
struct wc_error *code_facts_restart(struct code_facts *f, bool *changed);

/*
 * Whether other code is mapped than at the last look: cheaper than that. False also where it cannot be known,
 * as of a process that has ended.
 */
bool code_facts_moved(struct code_facts *f);

/* Whether what was published about code at @addr may have been another's at that time. */
enum code_doubt code_facts_doubt(const struct code_facts *f, uint64_t addr, uint64_t time_ns);

/*
 * How many of the @n frames come before the first one that lies in code which process @pid, the target or a
 * child, does not have.
 */
unsigned int code_facts_shared(const struct code_facts *f, pid_t pid, const uint64_t *frame, unsigned int n);

/* Opens the unwind information of all modules, so that the first hit need not wait for it. */
void code_facts_warm_up(struct code_facts *f);

/* Those of the time that is judged. */
const struct module_list *code_facts_modules(const struct code_facts *f);

/*
 * @pc: behind an instruction. Where a patch has it run as a copy: the address behind it in the program's own code; else 0. Facts, and
 * the code that is read, are of the program as it is without patches.
 */
uint64_t code_facts_original(struct code_facts *f, uint64_t pc);

/* True when a mapped module holds the address. */
bool code_facts_covers(const struct code_facts *f, uint64_t addr);

/*
 * The fact about a trap's rip or a return address; reported to the sink on first sight, and again where a JIT has
 * written other code there. Lives as long as @f; what it says, until the next call.
 */
struct wc_error *code_facts_at(struct code_facts *f, uint64_t pc, uint64_t now_ns,
			       const struct code_fact **ret);

/*
 * Walks on from the frame that @regs are of, by CFI, or by frame pointers in code of a JIT, reading stack
 * through @mem, and publishes the rules of all frames met; with @final also that there is none, where no
 * module holds the address. @exact: that frame's address is where it was interrupted, not a return address.
 * Appends to @frame, which holds *n frames (the last is that one's), up to @cap.
 */
enum walk_end code_facts_walk(struct code_facts *f, struct regs regs, bool exact,
			      const struct memory_view *mem, bool final, uint64_t *frame, unsigned int *n,
			      unsigned int cap);

/*
 * Of @n frames that were walked by rules published before, and ended with *why: drops those behind a frame of
 * JIT code whose frame pointer led to no code, or to code that no call returns to, and says so in *why.
 */
void code_facts_check(struct code_facts *f, const uint64_t *frame, unsigned int *n, enum walk_end *why);

/* Whether one of the two above has met an address that no module holds since it was asked last. */
bool code_facts_met_unknown(struct code_facts *f);

#endif
