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
 * Once, before a module is turned on: turns write to @place from now on. NULL, or why nothing can be recorded: a phrase.
 * @ring_chunks: a flight recorder, of so many chunks for each thread, 2 or more; what is in them is written when it is
 * flushed and when a thread ends. 0: all is written. @ended is called in a thread that ends, before thread_finish().
 */
const char *threads_begin(struct output_place *place, uint32_t ring_chunks, void (*ended)(struct thread *t));

/* False: not begun, over, or this process is a copy of the one that began. */
bool threads_are_recording(void);

/* Turns write nothing any more, from now on. Async-signal-safe. */
void threads_forget(void);

/* Those below: with all signals blocked, while threads are recording. Of a flight recorder: while modules are off. */

/* All slots that are written, of all threads, are events in packets or files. */
void threads_drain(void);

/* The same, and all events are in files. 0, or the -errno of one that could not be written. */
long threads_flush(void);

/* Flushes, for the last time: later events are lost. */
void threads_finish(void);

/* Of the calling thread, which ends: @t is not to be used any more. */
void thread_finish(struct thread *t);

/* Events that were discarded up to now, by all threads. */
uint64_t threads_discarded(void);

/* The next thread after @t, NULL: the first one, that has not been given yet. NULL: there are no more. */
struct thread *threads_next_new(struct thread *t);

/* Its number, and its name as of its first turn. From now on it is not new. */
pid_t thread_introduce(struct thread *t, char comm[COMM_LEN]);

#endif
