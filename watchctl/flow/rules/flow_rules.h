/*
 * flow_rules - which waits end a thread's unit of work, which returns of system calls begin or end one, and which connections are none:
 * rules in texts, by the names of processes and threads, not code. The language is that of watchctl-flow-rules(5). The defaults and the
 * shipped sets (flow/rules/default.rules, flow/rules/sets/) are such texts in the program.
 *
 * Threads whose names fit the same patterns have the same profile: a table with an answer for every call on every kind of object. A look
 * into it takes nanoseconds; only a thread's new name is compared with patterns.
 */
#ifndef WATCHCTL_FLOW_RULES_FLOW_RULES_H
#define WATCHCTL_FLOW_RULES_FLOW_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/rules/flow_edge_kind.h"
#include "watchctl/trace/flow/flow_reader.h"

enum flow_wait_class {
	FLOW_WAIT_NONE, /* it could go on */
	FLOW_WAIT_IDLE, /* for more to do: the unit ends here */
	FLOW_WAIT_OUT,	/* in a unit, for something that the unit needs */
};

enum flow_return {
	FLOW_RETURN_PLAIN,
	FLOW_RETURN_BEGINS, /* a unit, unless the unit that goes on has not taken one yet */
	FLOW_RETURN_ENDS,
};

struct flow_rules;
struct flow_profile;

/*
 * The defaults, then @asked, each the name of a shipped set or else of a file, in this order: later rules win. WC_EUSAGE: malformed, with the
 * line and a caret; WC_ENAME: neither such a set nor such a file; WC_EFAIL: it cannot be read.
 */
struct wc_error *flow_rules_new(const char *const *asked, size_t n, struct flow_rules **ret);

/* Likewise, then @text, which errors call @name. */
struct wc_error *flow_rules_new_text(const char *name, const char *text, struct flow_rules **ret);
void flow_rules_free(struct flow_rules *r); /* accepts NULL */
void flow_rules_freep(struct flow_rules **r);

/* Of a thread of that name, in a process of that name. Valid as long as @r; NULL: no memory. */
const struct flow_profile *flow_rules_profile(struct flow_rules *r, const char *process, const char *thread);

/* Of a switch or a wait. @locks: a futex is one of a mutex that another thread has. */
enum flow_wait_class flow_rules_wait(const struct flow_profile *p, const struct flow_event *e, bool locks);

/*
 * Does a rule `idle` or `inside` say something of waits in that call on that kind of object? Of futexes, whose kinds are not told apart
 * here: of some.
 */
bool flow_rules_names_wait(const struct flow_profile *p, int call, int object_kind);

/* The names that rules have for a call, and for an enum flow_kind; of a call NULL where it has none. */
const char *flow_rules_call_name(int call);
const char *flow_rules_kind_name(int object_kind);

/* Of a FLOW_CALL, _ON or _FUTEX that did something: of one that failed, or got nothing, the answer means nothing. */
enum flow_return flow_rules_return(const struct flow_profile *p, const struct flow_event *e);

/*
 * Does the call of such a return give something that another one gets, by a rule `join`? Numbers from 1, 0 is none. A call may do both,
 * for two rules.
 */
struct flow_join {
	uint8_t gives, gets;
};

struct flow_join flow_rules_join(const struct flow_profile *p, const struct flow_event *e);

/* Of the edge that rule number @join makes. */
enum flow_edge_kind flow_rules_join_edge(const struct flow_rules *r, uint8_t join);

/* Is any connection called none? */
bool flow_rules_have_false(const struct flow_rules *r);

/* Is this one? @object_kind: an enum flow_kind, FLOW_KIND_NONE where there is no object. */
bool flow_rules_false(const struct flow_rules *r, enum flow_edge_kind kind, int object_kind,
		      const struct flow_profile *from, const struct flow_profile *to);

/* The shipped sets, the defaults ("default") first: false when there are only @i. */
bool flow_rules_set(size_t i, const char **name, const char **text);

#endif
