/* step_recording - the event that says what a recording has: by what it was made, where it begins and ends, which functions and threads. */
#ifndef WATCHCTL_STEP_MODEL_STEP_RECORDING_H
#define WATCHCTL_STEP_MODEL_STEP_RECORDING_H

#include "watchctl/step/model/planner.h"
#include "watchctl/step/model/step_select.h"
#include "watchctl/step/model/stepper.h"

struct step_recording {
	const char *stepper, *planner; /* the planner's version */
	const struct step_selection *selection;
	const char *from, *to; /* NULL: none */
	uint32_t depth;	       /* 0: no limit */
	enum stepper_threads threads;
	const struct planner_options *plans;
	bool instructions;
	enum recording_inputs inputs;
	uint8_t changes; /* RECORDING_CHANGED_ */
};

struct wc_error *step_recording_put(const struct step_recording *r, uint64_t time_ns, struct event_sink sink);

#endif
