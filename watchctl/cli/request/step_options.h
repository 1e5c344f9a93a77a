/* step_options - the command line of `watchctl step`, shared by the command's help and by watchctl-step. */
#ifndef WATCHCTL_CLI_REQUEST_STEP_OPTIONS_H
#define WATCHCTL_CLI_REQUEST_STEP_OPTIONS_H

#include "watchctl/cli/options/options.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/output/ready_options.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/step/model/step_session.h"

#define STEP_PATTERNS 32u

enum step_stepper_choice { STEP_STEPPER_PTRACE, STEP_STEPPER_LLDB, STEP_STEPPER_PATCH };

struct step_command {
	struct step_request request; /* its lists point to the arrays below */
	struct session_limits limits;
	struct output_options output;
	struct redact_ask redact;
	struct ready_ask ready;
	enum step_stepper_choice stepper;
	char *const *argv;	/* NULL: attach */
	const char *from_watch; /* a log to take the range from; NULL: none */
	bool quiet, echo, verbose, aslr;
	char *only[STEP_PATTERNS + 1], *modules[STEP_PATTERNS + 1], *over[STEP_PATTERNS + 1],
		*into[STEP_PATTERNS + 1], *skip[STEP_PATTERNS + 1];
};

extern const struct option step_options[];

/* @ret must not move afterwards. */
struct wc_error *step_options_parse(int argc, char **argv, struct step_command *ret);

#endif
