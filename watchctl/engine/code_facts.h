/*
 * code_facts - what the handler cannot compute in a trap, computed here once per code address, and
 * published in the tables it looks into: unwind rules, and how an access at a trap's rip behaves.
 *
 * Also tells the sink about modules and code the first time they matter, before any event that refers
 * to them.
 */
#ifndef WATCHCTL_ENGINE_CODE_FACTS_H
#define WATCHCTL_ENGINE_CODE_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "stackwalk/access.h"
#include "stackwalk/memory_view.h"
#include "stackwalk/module.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/area.h"
#include "watchctl/trace/event.h"

struct code_facts;

/* @area, copied: where rules and facts are published; NULL: nowhere. */
struct code_facts *code_facts_new(pid_t pid, const struct wire_area *area, struct event_sink sink);
void code_facts_free(struct code_facts *f);

/*
 * Looks at the modules of the process again; tells the sink of those that came and went; withdraws what
 * was published about the latter. *changed may be NULL.
 */
struct wc_error *code_facts_refresh(struct code_facts *f, uint64_t now_ns, bool *changed);

/* Opens the unwind information of all modules, so that the first hit need not wait for it. */
void code_facts_warm_up(struct code_facts *f);

/* Those of the last look. */
const struct module_list *code_facts_modules(const struct code_facts *f);

/* True when a mapped module holds the address. */
bool code_facts_covers(const struct code_facts *f, uint64_t addr);

/* The fact about a trap's rip or a return address; told to the sink on first sight. Lives as long as @f. */
struct wc_error *code_facts_at(struct code_facts *f, uint64_t pc, uint64_t now_ns,
			       const struct code_fact **ret);

/*
 * Walks on from the frame that @regs are of, by CFI, reading stack through @mem, and publishes the rules of
 * all frames met; with @final also that there is none, where no module holds the address. @exact: that
 * frame's address is where it was interrupted, not a return address. Appends to @frame, which holds *n
 * frames (the last is that one's), up to @cap.
 */
enum walk_end code_facts_walk(struct code_facts *f, struct regs regs, bool exact,
			      const struct memory_view *mem, bool final, uint64_t *frame, unsigned int *n,
			      unsigned int cap);

#endif
