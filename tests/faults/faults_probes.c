/* faults_probes - what the scenarios that patch have a program call. */
#include <watchctl/probe.h>

PROBE(on_bump)
{
	probe_log("thread %d", probe_thread());
	probe_value(p->regs->rdi);
}
