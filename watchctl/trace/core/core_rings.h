/*
 * core_rings - what libcalltrace had in the memory of a program that is dead (calltrace/runtime/memory_layout.h), from its
 * core: its threads, its tables of functions, its clocks. Copies, checked as far as one can be without another.
 */
#ifndef WATCHCTL_TRACE_CORE_CORE_RINGS_H
#define WATCHCTL_TRACE_CORE_CORE_RINGS_H

#include "calltrace/runtime/memory_layout.h"
#include "watchctl/base/error.h"
#include "watchctl/code/elf/core_file.h"

/* A module's table of functions. */
struct core_table {
	uint32_t low, size, base; /* as struct traced_module */
	uint64_t address;
	struct calltrace_function *record; /* NULL: neither the core nor the module's file has them */
	uint8_t *is_used;		   /* by functions */
};

struct core_rings {
	struct core_file *core;
	struct calltrace_memory memory;
	struct output_place place; /* of the log that the program wrote */
	struct core_table *table;
	size_t ntables, table_cap;
	struct thread
		*thread; /* their pointers are addresses in the core; those that have ended have no chunk */
	size_t nthreads, thread_cap;
	bool is_list_cut; /* there were more threads, which cannot be read */

	struct clock_point base; /* the last one that is known */
	uint64_t begin_ns;	 /* nothing was recorded before */
	double ns_per_cycle;
	uint64_t cycles; /* between the two points from which that follows; 0: it is a guess */
};

/*
 * Zero-initialise. WC_ELOG: it is no core, or the program was not traced, or recorded nothing when it died, or by another
 * version of libcalltrace, or its core lacks that. @core must outlive @ret.
 */
struct wc_error *core_rings_read(struct core_file *core, const char *path, struct core_rings *ret);
void core_rings_deinit(struct core_rings *r);

/* Of the function @id, the table and *@index in it; NULL: of none. */
struct core_table *core_rings_table(struct core_rings *r, uint32_t id, uint32_t *index);

/* CLOCK_MONOTONIC, not before recording began. */
uint64_t core_rings_time(const struct core_rings *r, uint64_t tsc);

/* By how many ns that may be wrong. */
uint64_t core_rings_error(const struct core_rings *r, uint64_t tsc);

/* A bool of the core, whatever byte it is. */
static inline bool core_flag(const void *flag)
{
	return *(const volatile unsigned char *)flag;
}

#endif
