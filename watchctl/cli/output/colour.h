/* colour - what a terminal is given: colours, by what the user said and NO_COLOR, and lines that fit it. */
#ifndef WATCHCTL_CLI_OUTPUT_COLOUR_H
#define WATCHCTL_CLI_OUTPUT_COLOUR_H

#include <stdbool.h>

#define COLOUR_WORDS "auto always never"

enum { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER }; /* in the order of COLOUR_WORDS */

bool colour_is_wanted(unsigned int when, int fd);

/* Columns of the terminal; 0: @fd is none. */
unsigned int terminal_width(int fd);

#endif
