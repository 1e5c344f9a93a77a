/*
 * thread - what a thread has recorded: its chunk of slots, the calls that are open, its file.
 *
 *	chunk          + 64 KiB         + 128 KiB        + 192 KiB
 *	| slots        | slack          | slack's slack  |
 *
 * The turn is called behind the last slot of a multiple of 64 KiB. A signal may come between the instruction that takes
 * that slot and the turn: the events of its handler go into the slack, and where that ends a turn happens in the
 * handler, before which another signal may come.
 *
 * A slot that is taken and not written belongs to code that a signal has interrupted. The turn leaves it out, as
 * discarded, and begins the next chunk behind it, so that the late write hits a slot that was not given away; at the
 * turn after that it is forgotten.
 *
 * A turn runs with all signals blocked and under its thread's lock, under which other threads drain its chunk: from where
 * the last drain ended up to the first slot that is not written. Slots are zeroed as they are read, and only the thread
 * itself takes or gives back slots.
 */
#ifndef CALLTRACE_RUNTIME_THREAD_H
#define CALLTRACE_RUNTIME_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "calltrace/runtime/call_output.h"
#include "watchctl/trace/event.h"

struct thread;

/*
 * Once. NULL, or why nothing can be recorded: a phrase. @ring_chunks: a flight recorder, of so many chunks for each
 * thread, 2 or more; what is in them is written when it is flushed and when a thread ends. 0: all is written. @ended is
 * called in a thread that ends, before thread_finish().
 */
const char *threads_begin(struct output_place *place, uint32_t ring_chunks, void (*ended)(struct thread *t));

bool threads_have_begun(void);

/* False: not begun, or this process is a copy of the one that began. */
bool threads_are_ours(void);

/* Whose memory this is, if threads_are_ours(); 0 otherwise. */
pid_t threads_pid(void);

/* False: between logs, too. */
bool threads_are_recording(void);

/* In a fork's child, which has one thread: nothing is recorded, until threads_record(). Async-signal-safe. */
void threads_after_fork(void);

/*
 * A log's beginning, before modules are turned on: from now on turns write to the place, in which nobody is interested
 * between threads_finish() and this. Events that come late, of code that saw its module on before, are in this log.
 */
void threads_record(void);

/* Those below: with all signals blocked, while threads are recording. Of a flight recorder: while modules are off. */

/* All slots that are written, of all threads, are events in packets or files. */
void threads_drain(void);

/* The same, and all events are in files. 0, or the -errno of one that could not be written. */
long threads_flush(void);

/* Events that are not in files are gone, and not discarded. Calls whose entry is in a file end. */
void threads_clear(void);

/*
 * Flushes, for the last time: nothing is recorded any more. Threads keep their chunks, in which they may be writing.
 * Result as of threads_flush().
 */
long threads_finish(void);

/* Of the calling thread, which ends: @t is not to be used any more. Between logs, too. */
void thread_finish(struct thread *t);

/* Events of this log that were discarded up to now, by all threads. Also after threads_finish(). */
uint64_t threads_discarded(void);

/* The next thread after @t, NULL: the first one, that has not been given yet. NULL: there are no more. */
struct thread *threads_next_new(struct thread *t);

/* Its number, and its name as of its first turn. From now on it is not new. */
pid_t thread_introduce(struct thread *t, char comm[COMM_LEN]);

/*
 * As __calltrace_turn(), for code of C: the slot behind which the chunk ends has been written, @what and @frame are
 * its. Async-signal-safe.
 */
void calltrace_turn(uint32_t what, uint32_t frame) __attribute__((visibility("hidden")));

#endif
