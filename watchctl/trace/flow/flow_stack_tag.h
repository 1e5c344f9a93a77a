/*
 * flow_stack_tag - where a log of the system's events has the stacks of long waits: in its events of tagged stacks (trace/event.h), as
 * captures under this tag. The time is one within the wait, the innermost frame where the thread goes on.
 *
 * The log is of many processes: each file that is a module has a place of its own in it, from FLOW_STACK_MODULES on, wherever
 * processes have mapped it, and addresses of frames are in these. Those in no file are as they were.
 */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_STACK_TAG_H
#define WATCHCTL_TRACE_FLOW_FLOW_STACK_TAG_H

#define FLOW_STACK_TAG "wait"
#define FLOW_STACK_MODULES 0x0100000000000000u /* no address of a program */

#endif
