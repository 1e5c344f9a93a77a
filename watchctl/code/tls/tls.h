/*
 * tls - where a thread keeps its own copy of a thread-local variable, and where threads begin.
 *
 * x86-64 has TLS variant II ("ELF Handling For Thread-Local Storage", U. Drepper, 2013; psABI 3.2.1): the
 * thread pointer is the base of fs. The block of the program lies right below it. The blocks of libraries
 * that came with the program lie further below, at offsets that the loader chose; those of libraries that
 * were loaded later are allocated when the thread first touches them, and found by the thread's vector (the
 * DTV).
 *
 * The loader's choices are read from the process, through the descriptors that glibc exports for debuggers
 * (_thread_db_*, nptl_db/structs.def): no offset of a glibc structure is built in.
 */
#ifndef WATCHCTL_CODE_TLS_TLS_H
#define WATCHCTL_CODE_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"

/* Where fields of glibc's structures lie, in bytes. */
struct tls_glibc {
	uint32_t map_offset, map_modid;		     /* struct link_map: l_tls_offset, l_tls_modid */
	uint32_t thread_dtv;			     /* struct pthread: the pointer to the vector */
	uint32_t dtv_stride, dtv_counter, dtv_value; /* dtv_t: its size, the generation, the block */
	uint32_t list_len, list_next, list_slots;    /* struct dtv_slotinfo_list */
	uint32_t slot_size, slot_generation;	     /* struct dtv_slotinfo */
	uint64_t list;				     /* runtime address of the pointer to the first list */
};

enum tls_library {
	TLS_LIBRARY_UNKNOWN, /* only the program's own variables can be found */
	TLS_LIBRARY_GLIBC,
	TLS_LIBRARY_MUSL,
};

/*
 * A thread-local variable, the same for all threads. Plain data, valid while the module stays where it is and
 * for any thread: locate() fills it in.
 */
struct tls_place {
	uint64_t start, bias;	/* of its module, as in struct module */
	uint64_t offset;	/* of the variable in its module's block */
	uint64_t program_block; /* the module is the program: its block begins so many bytes below the thread
				   pointer; 0: it is a library */
	uint64_t dynamic; /* runtime address of the module's dynamic section, by which the loader knows it */
	/* Runtime addresses of pointers to the loader's struct r_debug, or of that itself; 0: none. */
	uint64_t debug_pointer, debug;
	enum tls_library library;
	struct tls_glibc glibc;
	uint64_t musl_id; /* the number by which musl knows the module */
};

enum tls_result {
	TLS_OK,
	/*
	 * This thread has no copy yet: it has not touched the variables of that library, or is still being
	 * set up. Ask again later.
	 */
	TLS_NOT_ALLOCATED,
	TLS_UNREADABLE,	 /* memory that must hold the loader's lists could not be read, or makes no sense */
	TLS_UNSUPPORTED, /* a library's variable under a C library whose layout is not known */
	TLS_NOT_LOADED,	 /* the loader does not know the module (any more): locate() again */
};

/*
 * The runtime address of the copy that belongs to the thread whose fs base is @thread_pointer (0: it has none
 * yet). *@ret is written for TLS_OK only. Reads a few words of the process; the thread need not be stopped,
 * but if it runs, its answer may be out of date at once.
 */
enum tls_result tls_address(const struct tls_place *p, const struct memory_view *mem, uint64_t thread_pointer,
			    uint64_t *ret);

/*
 * Whether threads get their copies only when they first ask for them, as of a library that was loaded later: those pass
 * tls_copy_addresses(). False: they have them from their start on, or it is not known.
 */
bool tls_comes_on_demand(const struct tls_place *p, const struct memory_view *mem);

/* Why there is no address, as the end of a sentence: "the thread has not used it yet". Constant. */
const char *tls_result_text(enum tls_result r);

/*
 * The addresses at which new threads run their first user instruction: each follows a system call instruction
 * that clones with a stack for the child, in the C library, a statically linked program or Go's runtime. The
 * parent comes by there too, and so do children made by posix_spawn(). At most @cap are stored, lowest first;
 * returns how many there are. @mem (may be NULL) is used to make sure that the code is what the file says.
 */
size_t thread_start_addresses(const struct module_list *modules, const struct memory_view *mem, uint64_t *ret,
			      size_t cap);

/*
 * The addresses, in the loader, at which a thread may just have got its copy of a variable that comes on demand: it has
 * the copy, and no code but the loader's has its address yet. None where the loader's code does not show them (glibc
 * before 2.26), or in memory is not what its file has.
 */
size_t tls_copy_addresses(const struct module_list *modules, const struct memory_view *mem, uint64_t *ret,
			  size_t cap);

/*
 * The same as thread_start_addresses(), of the addresses at which the first thread of a statically linked
 * program has just got its thread pointer: from there on it has its copies, and none of its own code has run yet.
 * A program with a loader has none.
 */
size_t thread_pointer_addresses(const struct module_list *modules, const struct memory_view *mem,
				uint64_t *ret, size_t cap);

#endif
