/*
 * faults - the file that the preloaded library shares with the driver (tests/faults/driver.py), which knows
 * it by these offsets. Native byte order; the driver makes it, all zero but for what it asks.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdint.h>

#define FAULT_OTHER_PROGRAM 0x10000u
#define FAULTS_DEPTH 8
#define FAULTS_SITES 32768 /* a power of two */

/* One way of ours to one call: the function, what it is asked for, and the callers in our program. */
struct fault_site {
	uint64_t key;	   /* 0: free */
	uint32_t function; /* its place in faults_list.h; bit 16: the program is watchctl-step */
	uint32_t asked;	   /* the number of syscall(), the request of ptrace() and ioctl(); else 0 */
	uint64_t count;	   /* how often */
	uint64_t from[FAULTS_DEPTH]; /* offsets in the program, innermost first; 0: no more */
};

struct faults {
	/* What is to fail: the @nth call by the way @key, once. 0: none, all are counted. */
	uint64_t key;
	uint64_t nth;
	uint64_t depth; /* so many callers make a way, 1..FAULTS_DEPTH */
	/* What came of it. */
	uint64_t fired;	   /* 1: it did fail */
	uint64_t overflow; /* ways for which there was no room */
	struct fault_site site[FAULTS_SITES];
};

#endif
