/* colour - whether to use colours on a terminal: what the user said, NO_COLOR, and what is a terminal. */
#ifndef WATCHCTL_CLI_COLOUR_H
#define WATCHCTL_CLI_COLOUR_H

#include <stdbool.h>

#define COLOUR_WORDS "auto always never"

enum { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER }; /* in the order of COLOUR_WORDS */

bool colour_is_wanted(unsigned int when, int fd);

#endif
