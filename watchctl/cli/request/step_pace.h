/* step_pace - how fast a recording goes, and what would make it faster: a sentence for people who wait for it. */
#ifndef WATCHCTL_CLI_REQUEST_STEP_PACE_H
#define WATCHCTL_CLI_REQUEST_STEP_PACE_H

#include <stdint.h>

#include "watchctl/step/model/step_session.h"

#define STEP_PACE_AFTER_NS 2000000000ull /* shorter recordings need no such sentence */

/*
 * "1,234,567 calls, 61,000/s; 71 % are of hash_step: --skip hash_step leaves it out". @ns: how long it has taken. Named are
 * functions that have at least a fifth of the calls; one without a name can be left out by its depth only. Malloc'd; NULL: no memory.
 */
char *step_pace_text(uint64_t calls, uint64_t ns, const struct step_most most[STEP_MOST]);

#endif
