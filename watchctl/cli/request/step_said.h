/* step_said - what is said of a step recording's range once it is over, the same for every stepper. */
#ifndef WATCHCTL_CLI_REQUEST_STEP_SAID_H
#define WATCHCTL_CLI_REQUEST_STEP_SAID_H

#include "watchctl/session/session.h"
#include "watchctl/step/model/step_session.h"
#include "watchctl/target/inject/same_addresses.h"

struct step_range_said {
	const struct step_request *request;
	uint64_t from_seen, to_seen;
	uint64_t occurrences, recorded; /* that have begun; of these, those that were recorded */
	enum session_end end;
};

/* NULL: it was recorded; where its end was not reached, that is said. WC_ETARGET: it was never entered, or ended by an exec. */
struct wc_error *step_range_verdict(const struct step_range_said *s);

/* Where a launched program's addresses are not what was wanted. */
void step_said_addresses(enum same_addresses addresses);

#endif
