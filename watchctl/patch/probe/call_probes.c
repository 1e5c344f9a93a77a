#include "watchctl/patch/probe/call_probes.h"

#include <stdint.h>

/* tools/probe.mk */
extern const uint8_t probe_calls[], probe_calls_end[];

static struct wc_error *read_between(const uint8_t *bytes, const uint8_t *end, struct probe_image *ret)
{
	return probe_image_read(bytes, (size_t)(end - bytes), "the probes of calls", ret);
}

struct wc_error *call_probes_image(struct probe_image *ret)
{
	struct wc_error *err = read_between(probe_calls, probe_calls_end, ret);

	if (!err)
		ret->entry_at = probe_image_function(ret, CALL_PROBE)->at;
	return err;
}
