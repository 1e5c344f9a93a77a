#include "watchctl/trace/calls/call_metadata.h"

#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/calls/call_format.h"
#include "watchctl/trace/log/tracelog_member.h"

struct wc_error *call_metadata_describe(int dir, const char *path, struct tracelog_identity *ret)
{
	scoped(freep) char *metadata = NULL;
	struct wc_error *err = tracelog_metadata_read(dir, path, ret, &metadata);
	int failed;

	if (err || !metadata || strstr(metadata, CALL_STREAM_BEGIN))
		return err;
	failed = tracelog_metadata_append(dir, metadata, call_stream_text);
	return failed ? wc_error_errno(WC_ELOG, failed, "cannot write calls to the log %s", path) : NULL;
}
