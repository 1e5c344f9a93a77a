/* probe_build - compiles a file of probe functions with the user's C compiler, and links it with the runtime. */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_BUILD_H
#define WATCHCTL_PATCH_PROBE_PROBE_BUILD_H

#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_image.h"

struct probe_build_request {
	const char *const *source; /* paths of the user's files: C and objects, or one shared object */
	size_t nsources;
	const char *cc; /* the compiler; NULL: $CC, or cc */
	int stderr_fd;	/* where the compiler's own words go; -1: to ours */
};

/*
 * Leaves nothing behind: what it makes lies in a folder of its own below $TMPDIR, which goes. WC_EUSAGE: no such file, no
 * compiler, it does not compile, or it uses what a probe may not (each named); see probe_image_open().
 */
struct wc_error *probe_build(const struct probe_build_request *q, struct probe_image *ret);

/* The same, and the shared object that was read, whose bytes are the caller's, aligned to 8. */
struct wc_error *probe_build_object(const struct probe_build_request *q, struct probe_image *ret,
				    uint8_t **bytes, size_t *size);

#endif
