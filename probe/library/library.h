/* library - what watchctl and the code of a drop-in library agree on. */
#ifndef PROBE_LIBRARY_LIBRARY_H
#define PROBE_LIBRARY_LIBRARY_H

#include <stdint.h>

#define LIBRARY_OUTPUT "WATCHCTL_OUTPUT" /* names the log; without it nothing is done */
#define LIBRARY_READY_FD 3		 /* of the collector: to it, a byte when all is patched */

/* Lies behind the code, on a page of its own. Texts end in a 0. */
struct library_settings {
	char watchctl[4096]; /* what is executed to collect: "watchctl patch drop-in PID ADDRESS LOG" */
	char name[256];	     /* of the library, for messages */
};

#endif
