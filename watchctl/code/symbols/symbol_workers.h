/*
 * symbol_workers - resolves many addresses at once, in processes of its own: several at a time, and whatever
 * a damaged file makes of the libraries that read it, the caller lives on; private to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_SYMBOLS_SYMBOL_WORKERS_H
#define WATCHCTL_CODE_SYMBOLS_SYMBOL_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/symbols/symbol_file.h"

struct symbol_job {
	struct symbol_file *file;
	uint64_t vaddr;
	struct symbol_answer *answer; /* in @pool, when symbol_workers_run() returns */
	void *owner;		      /* the caller's */
};

/*
 * Sorts @job and answers all. A file that makes a worker crash, or spend @stall_ms of CPU time on one
 * address, has done harm, and is marked so. The files are not opened in this process. False: no memory.
 */
bool symbol_workers_run(struct symbol_job *job, size_t n, struct strings *pool, unsigned int stall_ms,
			const struct symbol_progress *progress);

#endif
