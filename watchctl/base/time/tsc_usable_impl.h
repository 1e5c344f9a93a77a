/* tsc_usable_impl - what tsc_usable.c finds of readings; here for its test. */
#ifndef WATCHCTL_BASE_TIME_TSC_USABLE_IMPL_H
#define WATCHCTL_BASE_TIME_TSC_USABLE_IMPL_H

#include <stddef.h>

#include "watchctl/base/time/tsc_clock.h"

/* One of each of @n CPUs, and @last, of the first one again, some time later. What is wrong, as tsc_unusable_why() has it; NULL: nothing. */
const char *tsc_readings_judge(const struct tsc_reading *r, size_t n, const struct tsc_reading *last);

#endif
