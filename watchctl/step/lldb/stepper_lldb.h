/*
 * stepper_lldb - LLDB moves the program: its breakpoints at entries and returns, and with
 * stepper_options.instructions its instruction stepping. The same calls as the default stepper gives, at a
 * millisecond a stop: the comparison, and what an interactive LLDB uses for the process that it already has.
 *
 * stepper_options.host: NULL: the stepper attaches to the process, or takes it over, and leaves it running.
 * Else a struct lldb_process (lldb_shim_process.h) that is shared, on loan: the stepper leaves it standing
 * where it is, and gives way to its user's own breakpoints by STEP_PAUSED.
 *
 * What differs from the default stepper: a child that is not made by fork() (posix_spawn(), vfork()) is reported at
 * the next stop, if it is still there; who made a thread is known of those made by pthread_create(); job
 * control's SIGSTOP, and SIGTRAP, which LLDB keeps to itself, do not reach the program.
 */
#ifndef WATCHCTL_STEP_LLDB_STEPPER_LLDB_H
#define WATCHCTL_STEP_LLDB_STEPPER_LLDB_H

#include "watchctl/step/model/stepper.h"

extern const struct stepper_ops stepper_lldb;

#endif
