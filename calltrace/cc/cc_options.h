/*
 * cc_options - options of calltrace-cc that are not clang's: settings, as --calltrace-filters-file=PATH. The pass, in the
 * compiler, finds them in its environment.
 */
#ifndef CALLTRACE_CC_CC_OPTIONS_H
#define CALLTRACE_CC_CC_OPTIONS_H

/* Takes them out of @argv. WC_EUSAGE: there is no such setting, or it has no value. */
struct wc_error *cc_options_take(int *argc, char **argv);

#endif
