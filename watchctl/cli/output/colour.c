#include "watchctl/cli/output/colour.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool colour_is_wanted(unsigned int when, int fd)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

	if (when != COLOUR_AUTO)
		return when == COLOUR_ALWAYS;
	/* no-color.org: set and not empty. */
	return isatty(fd) && !(no_colour && *no_colour) && !(term && !strcmp(term, "dumb"));
}

unsigned int terminal_width(int fd)
{
	struct winsize size;

	return isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) ? size.ws_col : 0;
}
