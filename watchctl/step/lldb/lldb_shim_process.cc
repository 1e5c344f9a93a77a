/* The life of a process that LLDB moves, and its moving. Threads, registers, memory:
 * lldb_shim_process_state.cc. */
#include "watchctl/step/lldb/lldb_shim_process_objects.hh"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <chrono>

#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "watchctl/base/error.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/launch.h"
#include "watchctl/target/stop/run_to_entry.h"
#include "watchctl/target/stop/tracee.h"
}

using lldb::SBDebugger;
using lldb::SBError;
using lldb::SBProcess;
using lldb::SBTarget;
using lldb::SBThread;

#define SERVER_VARIABLE "LLDB_DEBUGSERVER_PATH"

template <typename Work> static struct wc_error *guarded(Work work)
{
	try {
		return work();
	} catch (...) {
		return &wc_enomem;
	}
}

static const char *reason(const SBError &e)
{
	const char *text = e.GetCString();

	return text && *text ? text : "no reason given";
}

/* The debug server: LLDB looks for it under a name that not every distribution gives it. */

static std::string major_version()
{
	std::string all = SBDebugger::GetVersionString();
	size_t at = all.find("version "), end;

	if (at == std::string::npos)
		return "";
	at += strlen("version ");
	end = all.find_first_not_of("0123456789", at);
	return all.substr(at, end - at);
}

static std::string in_path(const std::string &name)
{
	const char *path = getenv("PATH");
	std::string left = path ? path : "";

	while (!left.empty()) {
		size_t colon = left.find(':');
		std::string file = left.substr(0, colon) + "/" + name;

		if (access(file.c_str(), X_OK) == 0)
			return file;
		left = colon == std::string::npos ? "" : left.substr(colon + 1);
	}
	return "";
}

static std::string find_server()
{
	std::string n = major_version();
	char dir[4096] = "";

	lldb::SBHostOS::GetLLDBPath(lldb::ePathTypeSupportExecutableDir).GetPath(dir, sizeof(dir));
	for (const std::string &file :
	     { std::string(dir) + "/lldb-server", "/usr/lib/llvm-" + n + "/bin/lldb-server",
	       "/usr/bin/lldb-server-" + n })
		if (access(file.c_str(), X_OK) == 0)
			return file;
	n = in_path("lldb-server-" + n);
	return n.empty() ? in_path("lldb-server") : n;
}

/* For as long as it lives LLDB finds its server; the environment of what we start later stays as it was. */
struct server_place {
	bool set = false;

	struct wc_error *find()
	{
		std::string file;

		if (getenv(SERVER_VARIABLE))
			return nullptr;
		file = find_server();
		if (file.empty())
			return wc_error_new(WC_ENOTSUP,
					    "LLDB cannot run a program without lldb-server, which is "
					    "not installed (it is in the package lldb; " SERVER_VARIABLE
					    " says where it is)");
		set = setenv(SERVER_VARIABLE, file.c_str(), 1) == 0;
		return nullptr;
	}

	~server_place()
	{
		if (set)
			unsetenv(SERVER_VARIABLE);
	}
};

/* The runner */

static std::string carry_out(struct lldb_process *p, process_job job, ::pid_t tid)
{
	SBError e;

	if (job == process_job::go) {
		e = p->process.Continue();
	} else {
		SBThread t = p->process.GetThreadByID((lldb::tid_t)tid);

		if (!t.IsValid())
			return "the thread to be stepped is gone";
		t.StepInstruction(false, e);
	}
	return e.Fail() ? reason(e) : "";
}

static void run_jobs(struct lldb_process *p)
{
	std::unique_lock<std::mutex> held(p->lock);

	for (;;) {
		std::string failure;
		process_job job;

		p->wake.wait(held, [p] { return p->job != process_job::none; });
		job = p->job;
		if (job == process_job::quit)
			return;
		held.unlock();
		try {
			failure = carry_out(p, job, p->job_tid);
		} catch (...) {
			failure = "out of memory";
		}
		held.lock();
		p->failure = failure;
		p->job = process_job::none;
		p->wake.notify_all();
	}
}

static void give_job(struct lldb_process *p, process_job job, ::pid_t tid)
{
	std::lock_guard<std::mutex> held(p->lock);

	p->job = p->last_job = job;
	p->job_tid = tid;
	p->threads_known = false;
	p->interrupted = false;
	p->wake.notify_all();
}

static void hold_threads(struct lldb_process *p, const ::pid_t *tids, size_t n)
{
	for (::pid_t tid : p->held)
		p->process.GetThreadByID((lldb::tid_t)tid).Resume();
	p->held.assign(tids, tids + n);
	for (::pid_t tid : p->held)
		p->process.GetThreadByID((lldb::tid_t)tid).Suspend();
}

struct wc_error *lldb_process_go(struct lldb_process *p, const ::pid_t *held, size_t n)
{
	return guarded([&]() -> struct wc_error * {
		hold_threads(p, held, n);
		lldb_process_note_user_breaks(p);
		give_job(p, process_job::go, 0);
		return nullptr;
	});
}

struct wc_error *lldb_process_step(struct lldb_process *p, ::pid_t tid)
{
	return guarded([&]() -> struct wc_error * {
		hold_threads(p, nullptr, 0);
		lldb_process_note_user_breaks(p);
		give_job(p, process_job::step, tid);
		return nullptr;
	});
}

void lldb_process_interrupt(struct lldb_process *p)
{
	p->interrupted = true;
	p->process.SendAsyncInterrupt();
}

void lldb_process_ask_pause(struct lldb_process *p)
{
	p->pause_asked = true;
	lldb_process_interrupt(p);
}

bool lldb_process_take_pause(struct lldb_process *p)
{
	return p->pause_asked.exchange(false);
}

/* How it ended: the kernel reports it to the parent exactly; LLDB knows a code, and a signal by its description. */
static int end_status(struct lldb_process *p)
{
	siginfo_t info = {};
	const char *how;

	if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == p->pid)
		return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0)
						  : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
	how = p->process.GetExitDescription();
	if (how && strstr(how, "signal"))
		return p->process.GetExitStatus() & 0x7f;
	return W_EXITCODE(p->process.GetExitStatus() & 0xff, 0);
}

static struct wc_error *how_it_stands(struct lldb_process *p, enum lldb_state *ret)
{
	switch (p->process.GetState()) {
	case lldb::eStateStopped:
	case lldb::eStateCrashed:
	case lldb::eStateSuspended:
		if (!p->threads_known)
			lldb_process_look(p);
		p->threads_known = true;
		*ret = LLDB_STOPPED;
		return nullptr;
	case lldb::eStateExited:
		p->status = end_status(p);
		*ret = LLDB_ENDED;
		return nullptr;
	default:
		return wc_error_new(WC_ETARGET, "LLDB has lost process %d", p->pid);
	}
}

/* False: it still moves. */
static bool wait_for_runner(struct lldb_process *p, std::chrono::steady_clock::time_point end)
{
	std::unique_lock<std::mutex> held(p->lock);

	return p->wake.wait_until(held, end, [p] { return p->job == process_job::none; });
}

/* The stop for the SIGCONT of our own coming is not one that anybody has asked for. */
static bool goes_on_by_itself(struct lldb_process *p)
{
	if (!p->swallowed || p->interrupted)
		return false;
	p->swallowed = false;
	give_job(p, p->last_job, p->job_tid);
	return true;
}

struct wc_error *lldb_process_wait(struct lldb_process *p, int timeout_ms, enum lldb_state *ret)
{
	return guarded([&]() -> struct wc_error * {
		auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
		struct wc_error *err;

		do {
			if (!wait_for_runner(p, end)) {
				*ret = LLDB_RUNNING;
				return nullptr;
			}
			if (!p->failure.empty())
				return wc_error_new(WC_EFAIL, "LLDB cannot move process %d: %s", p->pid,
						    p->failure.c_str());
			err = how_it_stands(p, ret);
		} while (!err && goes_on_by_itself(p));
		return err;
	});
}

int lldb_process_status(const struct lldb_process *p)
{
	return p->status;
}

::pid_t lldb_process_pid(const struct lldb_process *p)
{
	return p->pid;
}

bool lldb_process_is_shared(const struct lldb_process *p)
{
	return p->shared;
}

/* Its life */

static struct lldb_process *make(SBDebugger debugger, SBTarget target)
{
	auto *p = new lldb_process();

	p->debugger = debugger;
	p->target = target;
	return p;
}

static void start_runner(struct lldb_process *p)
{
	sigset_t all, old;

	/* Signals are for whoever made us. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	p->runner = std::thread(run_jobs, p);
	pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

static void destroy(struct lldb_process *p)
{
	if (p->runner.joinable()) {
		give_job(p, process_job::quit, 0);
		p->runner.join();
	}
	lldb_guard_free(p->guard);
	if (!p->shared) {
		p->process = SBProcess();
		p->debugger.DeleteTarget(p->target);
		SBDebugger::Destroy(p->debugger);
	}
	delete p;
}

struct lldb_process *lldb_process_of(SBDebugger debugger, SBTarget target, SBProcess process)
{
	struct lldb_process *p = nullptr;

	(void)guarded([&]() -> struct wc_error * {
		p = make(debugger, target);
		p->shared = true;
		p->process = process;
		p->pid = (::pid_t)process.GetProcessID();
		start_runner(p);
		return nullptr;
	});
	return p;
}

static struct wc_error *attach_failed(::pid_t pid, const SBError &e)
{
	struct wc_error *err = proc_check(pid);

	if (err)
		return err;
	return wc_error_new(WC_EPERM, "LLDB cannot attach to process %d: %s", pid, reason(e));
}

static struct wc_error *initialize()
{
	SBError e = SBDebugger::InitializeWithErrorHandling();

	return e.Fail() ? wc_error_new(WC_ENOTSUP, "LLDB does not start: %s", reason(e)) : nullptr;
}

struct wc_error *lldb_process_attach(::pid_t pid, struct lldb_process **ret)
{
	return guarded([&]() -> struct wc_error * {
		struct server_place place;
		struct lldb_sockets before;
		lldb::SBAttachInfo info((lldb::pid_t)pid);
		struct lldb_process *p;
		SBDebugger debugger;
		struct wc_error *err = initialize();
		SBError e;

		err = err ? err : place.find();
		if (err)
			return err;
		lldb_sockets_look(&before);
		debugger = SBDebugger::Create(false);
		debugger.SetAsync(false);
		/* What names mean is the planner's job, from files; a process is quicker without. */
		debugger.HandleCommand("settings set target.preload-symbols false");
		/* Breakpoints of LLDB's own that the guard would not know of. */
		debugger.HandleCommand("settings set plugin.jit-loader.gdb.enable off");
		p = make(debugger, debugger.CreateTarget(""));
		p->pid = pid;
		p->process = p->target.Attach(info, e);
		if (e.Fail() || !p->process.IsValid()) {
			err = attach_failed(pid, e);
			destroy(p);
			return err;
		}
		lldb_process_choose_signals(p);
		p->guard = lldb_guard_new(pid, &before);
		start_runner(p);
		*ret = p;
		return nullptr;
	});
}

static bool is_stopped(::pid_t pid)
{
	struct proc_status status;

	for (int ms = 0; ms < 1000 && proc_status_read(pid, pid, &status); ms++) {
		if (status.state == 'T')
			return true;
		usleep(1000);
	}
	return false;
}

/*
 * One tracer lets go and the next takes hold, and the program does not run in between: it is stopped by job
 * control meanwhile. That has to end before LLDB lets it run, or it would stop again when LLDB leaves.
 */
struct wc_error *lldb_process_take_over(struct tracee *held, struct lldb_process **ret)
{
	::pid_t pid = held->pid;
	struct lldb_process *p = nullptr;
	struct wc_error *err;

	kill(pid, SIGSTOP);
	tracee_release(held);
	err = is_stopped(pid) ? lldb_process_attach(pid, &p)
			      : wc_error_new(WC_ETARGET, "process %d ended before LLDB had attached", pid);
	if (err)
		(void)tracee_stop(pid, pid, 1000, held);
	else
		p->swallow_cont = true;
	kill(pid, SIGCONT);
	if (!err)
		*ret = p;
	return err;
}

struct wc_error *lldb_process_launch(char *const argv[], struct lldb_process **ret)
{
	struct tracee held = {};
	struct wc_error *err = launch_start(argv, LAUNCH_RANDOM, &held);
	::pid_t pid = held.pid;

	if (err)
		return err;
	err = run_to_entry(&held);
	err = err ? err : lldb_process_take_over(&held, ret);
	if (!err)
		return nullptr;
	kill(pid, SIGKILL);
	if (held.tid)
		tracee_release(&held);
	waitpid(pid, nullptr, __WALL);
	return err;
}

void lldb_process_borrow(struct lldb_process *p)
{
	if (!p->shared || p->borrowed)
		return;
	p->borrowed = true;
	p->was_async = p->debugger.GetAsync();
	p->debugger.SetAsync(false);
	lldb_process_choose_signals(p);
	p->threads_known = p->user_breaks_known = false;
}

void lldb_process_give_back(struct lldb_process *p)
{
	if (!p->shared || !p->borrowed)
		return;
	p->borrowed = false;
	hold_threads(p, nullptr, 0);
	lldb_process_restore_signals(p);
	p->debugger.SetAsync(p->was_async);
}

/* LLDB 19 kills the program where it detaches with a watchpoint set. */
static struct wc_error *detach(struct lldb_process *p)
{
	SBError e;

	if (!p->process.IsValid() || p->process.GetState() == lldb::eStateExited)
		return nullptr;
	hold_threads(p, nullptr, 0);
	p->target.DeleteAllBreakpoints();
	p->target.DeleteAllWatchpoints();
	e = p->process.Detach(false);
	return e.Fail() ? wc_error_new(WC_EFAIL, "LLDB cannot detach from process %d: %s", p->pid, reason(e))
			: nullptr;
}

struct wc_error *lldb_process_close(struct lldb_process *p)
{
	struct wc_error *err = nullptr;

	if (!p)
		return nullptr;
	err = guarded([&]() -> struct wc_error * {
		if (!p->shared)
			return detach(p);
		lldb_process_give_back(p);
		for (const auto &b : p->breaks)
			p->target.BreakpointDelete(b.second);
		return nullptr;
	});
	destroy(p);
	return err;
}
