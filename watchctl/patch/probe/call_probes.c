#include "watchctl/patch/probe/call_probes.h"

#include <stdint.h>

/* tools/probe.mk */
extern const uint8_t probe_calls[], probe_calls_end[];

struct wc_error *call_probes_image(struct probe_image *ret)
{
	struct wc_error *err = probe_image_read(probe_calls, (size_t)(probe_calls_end - probe_calls),
						"the probes of calls", ret);

	if (!err)
		ret->entry_at = probe_image_function(ret, CALL_PROBE)->at;
	return err;
}
