#include "watchctl/view/event/log_symbols.h"

#include <string.h>
#include <unistd.h>

bool log_symbols_report(struct symbolizer *s, const struct symbol_event *e)
{
	struct frame_name frame[SYMBOL_FUNCTIONS_MAX];
	struct symbol_reported reported = { .module = e->path,
					    .build_id = e->build_id,
					    .build_id_len = e->build_id_len,
					    .address = e->address,
					    .start = e->start,
					    .nframes = e->nfunctions,
					    .frame = frame };

	for (uint32_t i = 0; i < e->nfunctions; i++)
		frame[i] =
			(struct frame_name){ e->function[i].name, e->function[i].file, e->function[i].line };
	return symbolizer_report(s, &reported);
}

bool log_is_from_here(const struct process_event *p)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	return p->host && p->host[0] && strcmp(p->host, host) == 0;
}

bool log_symbols_process(struct symbolizer *s, const struct process_event *p, uint64_t until_ns)
{
	if (!p->realtime_ns || p->pid <= 0 || !log_is_from_here(p))
		return true;
	return symbolizer_add_process(s, p->pid, p->realtime_ns, until_ns);
}
