/* calls - the probes of `watchctl trace`, at the first instruction of functions and at those that leave them. */
#include "probe/probe.h"

PROBE(call_passed)
{
	probe_record_call(p, false);
}

PROBE(call_entered)
{
	probe_record_call(p, true);
}
