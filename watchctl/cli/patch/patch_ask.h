/* patch_ask - what the command line of `watchctl patch` asks for, and which of its commands does it. */
#ifndef WATCHCTL_CLI_PATCH_PATCH_ASK_H
#define WATCHCTL_CLI_PATCH_PATCH_ASK_H

#include "watchctl/cli/output/output.h"
#include "watchctl/cli/request/watch_request.h"
#include "watchctl/monitor/patch/patch_session.h"
#include "watchctl/patch/plan/patch_plan.h"

/* What is to run where the pattern of the same index fits. */
struct rule_ask {
	char *function; /* owned; NULL: not said */
	bool has_when;
	enum probe_when when;
};

struct patch_ask {
	bool plan, list, drop_in, json, sites, quiet, echo;
	bool after, instead, yes, pending;
	pid_t pid;	   /* 0: a file, or a program to launch */
	char *const *argv; /* the program to launch; NULL: none */
	const char *in;
	const char *library, *output_dir; /* NULL: no drop-in library is to be made */
	const char *call;		  /* the last --call */
	const char **word;		  /* operands: a file to plan for, or files of probes */
	size_t nwords, word_cap;
	struct patch_query query;
	struct rule_ask *rule; /* query.npatterns of them */
	size_t nrules, rule_cap;
	uint64_t count, time_ns;
	uint64_t buffer, stack;
	uint32_t frames;
	const char *cc;
	struct watch_ask watch; /* of variables, beside the probes: its watches, their filters, its engine */
	struct output_options output;
};

/* patch_plan_cmd.c: --plan. */
struct wc_error *patch_run_plan(struct patch_ask *q);

/* patch_live.c: into a process, or a program that is started. */
struct wc_error *patch_run_live(struct patch_ask *q);

/* ... `patch list`. */
struct wc_error *patch_run_list(struct patch_ask *q);

/* ... the functions of @q's rules, and where they run; @ret has room for q->nrules. WC_ENAME, WC_EUSAGE: there is none. */
struct wc_error *patch_make_rules(const struct patch_ask *q, const struct probe_image *i,
				  struct patch_rule *ret);

/* ... what a session is to have room for: slots, stack_bytes, frames of *@ret. */
void patch_size(const struct patch_ask *q, struct patch_session_options *ret);

/* patch_library.c: a drop-in library. */
struct wc_error *patch_run_library(struct patch_ask *q);

/* patch_drop_in.c: what drop-in libraries execute. */
struct wc_error *patch_run_drop_in(const struct patch_ask *q);

#endif
