/*
 * self_walk_scene - what the tests of self_walk have in common.
 */
#ifndef TESTS_UNIT_SELF_WALK_SCENE_H
#define TESTS_UNIT_SELF_WALK_SCENE_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>

#include <cmocka.h>

#include "stackwalk/self_walk.h"

#define DEPTH 128

/* Where this expands: rip, rsp and the registers that calls preserve. */
#define TAKE_HERE(r)                                                                        \
	__asm__ volatile("lea 0(%%rip), %%rax\nmov %%rax, 0(%0)\nmov %%rsp, 8(%0)\n"        \
			 "mov %%rbp, 16(%0)\nmov %%rbx, 24(%0)\nmov %%r12, 32(%0)\n"        \
			 "mov %%r13, 40(%0)\nmov %%r14, 48(%0)\nmov %%r15, 56(%0)" ::"r"(r) \
			 : "rax", "memory")

struct walk {
	uint64_t frame[DEPTH];
	uint32_t n;
	enum walk_end why;
};

static inline void print_walk(const char *name, const struct walk *w)
{
	print_message("%s, ended with %d:\n", name, w->why);
	for (uint32_t i = 0; i < w->n; i++) {
		Dl_info info = { .dli_sname = NULL };

		dladdr((void *)(uintptr_t)w->frame[i], &info);
		print_message("  %2u %#lx %s\n", i, w->frame[i], info.dli_sname ? info.dli_sname : "");
	}
}

#endif
