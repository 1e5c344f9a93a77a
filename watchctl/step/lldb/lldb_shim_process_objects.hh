/*
 * lldb_shim_process_objects - what struct lldb_process is; only lldb_shim_process*.cc and the plugin know.
 *
 *	caller				runner (a thread of ours)
 *	go(), step()	-- job -->	SBProcess::Continue(), SBThread::StepInstruction(): synchronous, so
 * that wait()		<-- idle --	nothing of it reaches an interactive LLDB's own event thread
 *
 * While a job is at work LLDB holds the target's lock: the caller touches no SB object of it but for
 * SendAsyncInterrupt(), which takes none.
 */
#ifndef WATCHCTL_STEP_LLDB_LLDB_SHIM_PROCESS_OBJECTS_HH
#define WATCHCTL_STEP_LLDB_LLDB_SHIM_PROCESS_OBJECTS_HH

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <lldb/API/LLDB.h>

extern "C" {
#include "watchctl/step/lldb/lldb_guard.h"
#include "watchctl/step/lldb/lldb_shim_process.h"
}

enum class process_job { none, go, step, quit };

struct signal_choice {
	int signo;
	bool stop, suppress, notify;
};

/* A breakpoint of an interactive LLDB's user, as it was when the process began to run. */
struct user_break {
	lldb::break_id_t id;
	uint32_t hits, ignore;
};

struct lldb_process {
	lldb::SBDebugger debugger;
	lldb::SBTarget target;
	lldb::SBProcess process;
	::pid_t pid;
	bool shared;
	bool borrowed;
	bool was_async;
	bool swallowed;	   /* it stopped for that, and for nothing else */
	bool swallow_cont; /* the SIGCONT that ended the stop before LLDB came */
	std::vector<struct signal_choice> choices;
	std::vector<struct user_break> user_breaks;
	bool user_breaks_known; /* since the process was borrowed */
	std::unordered_map<uint64_t, lldb::break_id_t> breaks;
	struct lldb_guard *guard; /* of one that is not shared; nullptr: none could be had */
	std::vector<::pid_t> held;
	std::vector<struct lldb_thread> threads;
	bool threads_known;
	int status;
	std::atomic<bool> interrupted;
	std::atomic<bool> pause_asked;
	/* The runner: */
	std::thread runner;
	std::mutex lock; /* of what follows */
	std::condition_variable wake;
	process_job job, last_job;
	::pid_t job_tid;
	std::string failure; /* of the last job; "": none */
};

/* On the process of an interactive LLDB, which stands still and outlives it. NULL: no memory. */
struct lldb_process *lldb_process_of(lldb::SBDebugger debugger, lldb::SBTarget target,
				     lldb::SBProcess process);

/* Who stopped why, into p->threads. */
void lldb_process_look(struct lldb_process *p);

/* The user's breakpoints, before the process runs. */
void lldb_process_note_user_breaks(struct lldb_process *p);

/* Which signals stop the process and which reach the program; and back to what they were. */
void lldb_process_choose_signals(struct lldb_process *p);
void lldb_process_restore_signals(struct lldb_process *p);

#endif
