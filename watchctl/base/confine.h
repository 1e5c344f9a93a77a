/*
 * confine - for a process of ours that reads what may have been made to harm its reader, and has nothing else
 * to do: from here on it has no privilege but to read, and whoever takes it over can do no more.
 *
 * No capability but CAP_DAC_READ_SEARCH, where it had that: it may be needed to read the file. No new
 * privileges. Files are opened for reading only, nothing is made, renamed, removed or changed; no program is
 * executed, no other process is looked into, signalled or traced; there is no network.
 */
#ifndef WATCHCTL_BASE_CONFINE_H
#define WATCHCTL_BASE_CONFINE_H

#include <stdbool.h>

/*
 * For the calling thread, which must be the only one. @fetches: it may have to fetch files from a server and
 * keep them, so network and files of its own stay. What this kernel does not offer is left out: there is
 * nothing that a caller could do about it.
 */
void confine_reader(bool fetches);

#endif
