/*
 * translated - programs whose own instructions no CPU executes: a translator in the same process runs a copy that it
 * makes of them. What is patched into such code is not executed, or is copied and executed after it was taken out.
 */
#ifndef WATCHCTL_TARGET_PROC_TRANSLATED_H
#define WATCHCTL_TARGET_PROC_TRANSLATED_H

#include <sys/types.h>

#include "watchctl/base/error.h"

/*
 * NULL, or WC_ENOTSUP that names the translator, known by what is mapped: Valgrind, QEMU, DynamoRIO, Pin. @wanted
 * follows "so that": "nothing is patched".
 */
struct wc_error *proc_check_translated(pid_t pid, const char *wanted);

#endif
