/* flow_rules_impl - what the files of flow_rules share. */
#ifndef WATCHCTL_FLOW_RULES_FLOW_RULES_IMPL_H
#define WATCHCTL_FLOW_RULES_FLOW_RULES_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/rules/flow_rules.h"

/* Where a thread waits: system calls by number, then the waits that are in none. */
enum flow_place {
	PLACE_CALLS = 512, /* FLOW_*.call has 9 bits */
	PLACE_FAULT = PLACE_CALLS,
	PLACE_BLOCKED,
	PLACE_STOPPED,
	PLACE_NO_CALL,
	PLACE_NO_WORK,
	PLACES,
};

/* The object that it waits on: enum flow_kind, then those of futexes. A futex is of the first one that fits. */
enum flow_column {
	COLUMN_FUTEXES = FLOW_KIND_SEMAPHORE + 1,
	COLUMN_MUTEX = COLUMN_FUTEXES,
	COLUMN_PI,
	COLUMN_CONTENDED,
	COLUMN_MONOTONIC,
	COLUMN_WORD,
	COLUMNS,
};

#define ALL_COLUMNS ((1u << COLUMNS) - 1)
#define FUTEX_COLUMNS (ALL_COLUMNS & ~((1u << COLUMN_FUTEXES) - 1))

enum rule_verb {
	RULE_INSIDE,
	RULE_IDLE,
	RULE_KEEP,
	RULE_BEGIN,
	RULE_END,
	RULE_FALSE,
	RULE_TRUE,
	RULE_JOIN, /* of a statement; in the table it is two: */
	RULE_JOIN_FROM,
	RULE_JOIN_TO,
};

#define JOINS_MOST 15 /* a number has four bits, 0 is none */

#define NO_TEST UINT16_MAX

enum name_of { NAME_OF_PROCESS, NAME_OF_THREAD, NAME_OF_EITHER };

/* A pattern for names. */
struct test {
	enum name_of of;
	char *glob;
};

struct rule {
	enum rule_verb verb;
	uint16_t place;		  /* of a wait or a return */
	uint16_t process, thread; /* tests, or NO_TEST */
	uint16_t outer;		  /* of the `use` that the rule came by, likewise */
	uint16_t from, to;	  /* of a connection, likewise */
	uint32_t columns;	  /* bits */
	uint32_t edges;		  /* bits, of a connection */
	uint8_t join;		  /* number, from 1 */
};

struct flow_rules {
	struct test *test;
	size_t ntests, tests_cap;
	struct rule *rule;
	size_t nrules, rules_cap;
	struct flow_profile **profile;
	size_t nprofiles, profiles_cap;
	uint8_t join_edge[JOINS_MOST + 1]; /* enum flow_edge_kind, by number */
	uint8_t njoins;
	bool has_false;
};

/* flow_rules_words.c: the words of the language. The functions that find one tell -1 where there is none. */
int flow_rules_place(const char *word, size_t len);
const char *flow_rules_place_name(int place); /* or NULL */
int flow_rules_column(const char *word, size_t len);
const char *flow_rules_column_name(int column);
int flow_rules_edge(const char *word, size_t len);

/* flow_rules_parse.c: adds the rules of @text to @r. */
struct wc_error *flow_rules_parse(struct flow_rules *r, const char *name, const char *text);

/* flow_rules_sets.c: of the shipped set of that name, or NULL. */
const char *flow_rules_set_text(const char *name, size_t len);
const char *flow_rules_set_name(const char *text); /* back again */

#endif
