/* privilege - of what root, or a file with capabilities, has given us, only what tracing takes is kept. */
#ifndef WATCHCTL_BASE_PRIVILEGE_H
#define WATCHCTL_BASE_PRIVILEGE_H

/*
 * For the calling thread, once the target is open and armed. New threads, libraries and programs of the
 * target take the capabilities to trace and to look for as long as it is watched; the others (to
 * administrate, to load modules, to become another user, network, raw devices ...) are given up for good. A
 * program that this process executes later has what its own file and user give it.
 */
void privilege_keep_for_tracing(void);

#endif
