/* call_probes - the probes of `watchctl trace`, which are a part of watchctl: no compiler is needed for them. */
#ifndef WATCHCTL_PATCH_PROBE_CALL_PROBES_H
#define WATCHCTL_PATCH_PROBE_CALL_PROBES_H

#include <stdbool.h>

#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_image.h"

/* Each records a PROBE_RECORD_CALL: without the registers that arguments are passed in, and with them. */
#define CALL_PROBE_PASSED "call_passed"
#define CALL_PROBE_ENTERED "call_entered"

/*
 * *@ret: probe_image_deinit(). Without @args, trampolines go to what records at once, and calls a probe only where it must: then no probe
 * may be asked for but CALL_PROBE_PASSED.
 */
struct wc_error *call_probes_image(bool args, struct probe_image *ret);

#endif
