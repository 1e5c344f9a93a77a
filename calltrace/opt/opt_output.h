/* opt_output - a file that is there whole, or as it was. */
#ifndef CALLTRACE_OPT_OPT_OUTPUT_H
#define CALLTRACE_OPT_OPT_OUTPUT_H

#include <stddef.h>

/* Writes @bytes to @path ("-": standard output), in place of what is there. WC_EFAIL: it cannot. */
struct wc_error *opt_output_write(const char *path, const void *bytes, size_t len);

#endif
