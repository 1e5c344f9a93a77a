#include "watchctl/trace/calls/call_metadata.h"

#include "watchctl/trace/calls/call_format.h"
#include "watchctl/trace/log/tracelog_member.h"

struct wc_error *call_metadata_describe(int dir, const char *path, struct tracelog_identity *ret)
{
	const struct tracelog_stream calls = { CALL_STREAM_BEGIN, call_stream_text, "calls" };

	return tracelog_metadata_describe(dir, path, &calls, ret);
}
