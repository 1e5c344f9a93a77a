/*
 * tsc_usable - whether times may be taken from the time stamp counter: it is constant, never stops, and is equal on all CPUs (Intel SDM
 * vol. 3, 18.17.1; AMD APM vol. 2, 13.2.4).
 *
 * So it is where the kernel has it as its clock source. In a virtual machine the kernel prefers a clock that the host makes of the counter
 * (kvm-clock, Hyper-V's, Xen's), and so has not looked: there the processor must say that it is invariant, and it must be found equal on
 * all CPUs. This is measured once in a process, by a thread of its own that visits each CPU (some 50 us for each).
 */
#ifndef WATCHCTL_BASE_TIME_TSC_USABLE_H
#define WATCHCTL_BASE_TIME_TSC_USABLE_H

#include <stdbool.h>

bool tsc_usable(void);

/* Says what is wrong with it, for people, as the end of a sentence; NULL: it is usable. */
const char *tsc_unusable_why(void);

#endif
