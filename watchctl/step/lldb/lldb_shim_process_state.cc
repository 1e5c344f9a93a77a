/* What a stopped process is like: why it stopped, signals, registers, memory; and breakpoints. */
#include "watchctl/step/lldb/lldb_shim_process_objects.hh"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "watchctl/base/error.h"

using lldb::SBBreakpoint;
using lldb::SBError;
using lldb::SBFrame;
using lldb::SBThread;
using lldb::SBUnixSignals;
using lldb::SBValue;

/* Signals */

static bool kept_from_program(int signo)
{
	return signo == SIGTRAP || signo == SIGSTOP;
}

void lldb_process_choose_signals(struct lldb_process *p)
{
	SBUnixSignals s = p->process.GetUnixSignals();
	int n = s.GetNumSignals();

	p->choices.clear();
	for (int i = 0; i < n; i++) {
		int signo = s.GetSignalAtIndex(i);

		p->choices.push_back({ signo, s.GetShouldStop(signo), s.GetShouldSuppress(signo),
				       s.GetShouldNotify(signo) });
		s.SetShouldStop(signo, true);
		if (!p->shared)
			s.SetShouldSuppress(signo, kept_from_program(signo));
	}
}

void lldb_process_restore_signals(struct lldb_process *p)
{
	SBUnixSignals s = p->process.GetUnixSignals();

	for (const struct signal_choice &c : p->choices) {
		s.SetShouldStop(c.signo, c.stop);
		s.SetShouldSuppress(c.signo, c.suppress);
		s.SetShouldNotify(c.signo, c.notify);
	}
	p->choices.clear();
}

static bool user_wants_signal(const struct lldb_process *p, int signo)
{
	return p->shared &&
	       std::any_of(p->choices.begin(), p->choices.end(),
			   [signo](const struct signal_choice &c) { return c.signo == signo && c.stop; });
}

/* Breakpoints */

struct wc_error *lldb_process_break(struct lldb_process *p, uint64_t address)
{
	try {
		SBBreakpoint b;
		uint8_t original;
		SBError e;

		if (p->breaks.count(address))
			return nullptr;
		if (p->guard && p->process.ReadMemory(address, &original, 1, e) == 1)
			lldb_guard_add(p->guard, address, original);
		b = p->target.BreakpointCreateByAddress(address);
		if (!b.IsValid() || !b.GetNumLocations() || !b.GetLocationAtIndex(0).IsResolved()) {
			if (b.IsValid())
				p->target.BreakpointDelete(b.GetID());
			return wc_error_new(WC_EFAIL, "LLDB cannot set a breakpoint at 0x%llx of process %d",
					    (unsigned long long)address, p->pid);
		}
		p->breaks[address] = b.GetID();
		return nullptr;
	} catch (...) {
		return &wc_enomem;
	}
}

void lldb_process_unbreak(struct lldb_process *p, uint64_t address)
{
	auto found = p->breaks.find(address);

	if (found == p->breaks.end())
		return;
	p->target.BreakpointDelete(found->second);
	p->breaks.erase(found);
	if (p->guard)
		lldb_guard_remove(p->guard, address);
}

static bool is_ours(const struct lldb_process *p, lldb::break_id_t id)
{
	return std::any_of(
		p->breaks.begin(), p->breaks.end(),
		[id](const std::pair<const uint64_t, lldb::break_id_t> &b) { return b.second == id; });
}

void lldb_process_note_user_breaks(struct lldb_process *p)
{
	if (!p->shared)
		return;
	if (!p->user_breaks_known) {
		p->user_breaks.clear();
		for (uint32_t i = 0; i < p->target.GetNumBreakpoints(); i++) {
			SBBreakpoint b = p->target.GetBreakpointAtIndex(i);

			if (!is_ours(p, b.GetID()))
				p->user_breaks.push_back({ b.GetID(), 0, 0 });
		}
		p->user_breaks_known = true;
	}
	for (struct user_break &u : p->user_breaks) {
		SBBreakpoint b = p->target.FindBreakpointByID(u.id);

		u.hits = b.GetHitCount();
		u.ignore = b.GetIgnoreCount();
	}
}

/*
 * Whether the user's breakpoint @id would have stopped the process without ours at the same place: it counts
 * a hit only if its condition held.
 */
static bool user_break_stops(struct lldb_process *p, lldb::break_id_t id)
{
	SBBreakpoint b = p->target.FindBreakpointByID(id);

	if (!b.IsValid() || b.IsInternal() || b.GetAutoContinue())
		return false;
	for (const struct user_break &u : p->user_breaks)
		if (u.id == id)
			return b.GetHitCount() > u.hits && !u.ignore;
	return true;
}

/* Threads */

static void look_at_signal(struct lldb_process *p, SBThread &t, struct lldb_thread *ret)
{
	int signo = (int)t.GetStopReasonDataAtIndex(0);
	SBValue info = t.GetSiginfo();
	int code = info.IsValid() ? (int)info.GetChildMemberWithName("si_code").GetValueAsSigned() : 0;

	ret->why = LLDB_WHY_SIGNAL;
	ret->signal = signo;
	ret->code = code;
	if (signo == SIGSTOP && p->interrupted) {
		ret->why = LLDB_WHY_INTERRUPT;
	} else if (signo == SIGCONT && p->swallow_cont) {
		p->swallow_cont = false;
		p->swallowed = true;
		ret->why = LLDB_WHY_OTHER;
	} else {
		ret->user = user_wants_signal(p, signo);
	}
}

static void look_at_break(struct lldb_process *p, SBThread &t, struct lldb_thread *ret)
{
	size_t n = t.GetStopReasonDataCount();

	ret->why = p->breaks.count(ret->pc) ? LLDB_WHY_BREAKPOINT : LLDB_WHY_OTHER;
	for (size_t i = 0; i + 1 < n && p->shared; i += 2) {
		auto id = (lldb::break_id_t)t.GetStopReasonDataAtIndex((uint32_t)i);

		if (id > 0 && !is_ours(p, id))
			ret->user |= user_break_stops(p, id);
	}
}

static struct lldb_thread look_at(struct lldb_process *p, SBThread &t)
{
	SBFrame f = t.GetFrameAtIndex(0);
	struct lldb_thread ret = {};

	ret.tid = (::pid_t)t.GetThreadID();
	ret.pc = f.GetPC();
	ret.sp = f.GetSP();
	switch (t.GetStopReason()) {
	case lldb::eStopReasonBreakpoint:
		look_at_break(p, t, &ret);
		break;
	case lldb::eStopReasonSignal:
		look_at_signal(p, t, &ret);
		break;
	case lldb::eStopReasonTrace:
	case lldb::eStopReasonPlanComplete:
		ret.why = LLDB_WHY_STEP;
		break;
	case lldb::eStopReasonExec:
		ret.why = LLDB_WHY_EXEC;
		break;
	case lldb::eStopReasonWatchpoint:
	case lldb::eStopReasonException:
		ret.why = LLDB_WHY_OTHER;
		ret.user = p->shared;
		break;
	case lldb::eStopReasonInvalid:
	case lldb::eStopReasonNone:
		break;
	default:
		ret.why = LLDB_WHY_OTHER;
		break;
	}
	return ret;
}

void lldb_process_look(struct lldb_process *p)
{
	uint32_t n = p->process.GetNumThreads();

	p->threads.clear();
	for (uint32_t i = 0; i < n; i++) {
		SBThread t = p->process.GetThreadAtIndex(i);

		if (t.IsValid())
			p->threads.push_back(look_at(p, t));
	}
}

const struct lldb_thread *lldb_process_threads(struct lldb_process *p, size_t *n)
{
	try {
		if (!p->threads_known)
			lldb_process_look(p);
		p->threads_known = true;
	} catch (...) {
		p->threads.clear();
	}
	*n = p->threads.size();
	return p->threads.data();
}

/* Registers */

static const char *const names[WREG_COUNT] = { "rax", "rdx", "rcx", "rbx",    "rsi",	"rdi", "rbp",
					       "rsp", "r8",  "r9",  "r10",    "r11",	"r12", "r13",
					       "r14", "r15", "rip", "rflags", "fs_base" };

static SBFrame frame_of(struct lldb_process *p, ::pid_t tid)
{
	return p->process.GetThreadByID((lldb::tid_t)tid).GetFrameAtIndex(0);
}

bool lldb_process_regs(struct lldb_process *p, ::pid_t tid, struct regs *ret)
{
	SBFrame f = frame_of(p, tid);
	struct regs regs = {};

	if (!f.IsValid())
		return false;
	for (int i = 0; i < WREG_COUNT; i++) {
		SBValue v = f.FindRegister(names[i]);
		SBError e;

		if (v.IsValid())
			regs.r[i] = v.GetValueAsUnsigned(e, 0);
		if ((!v.IsValid() || e.Fail()) && i != WREG_FS_BASE)
			return false;
	}
	*ret = regs;
	return true;
}

static bool read_register(struct lldb_process *p, ::pid_t tid, const char *set, unsigned int reg, void *ret,
			  size_t len)
{
	SBFrame f = frame_of(p, tid);
	char name[16];
	SBError e;

	snprintf(name, sizeof(name), "%s%u", set, reg);
	if (!f.IsValid())
		return false;
	SBValue v = f.FindRegister(name);
	return v.IsValid() && v.GetData().ReadRawData(e, 0, ret, len) == len && e.Success();
}

bool lldb_process_vector(struct lldb_process *p, ::pid_t tid, unsigned int reg, uint8_t ret[64])
{
	memset(ret, 0, 64);
	return read_register(p, tid, "ymm", reg, ret, 32) || read_register(p, tid, "xmm", reg, ret, 16);
}

bool lldb_process_x87(struct lldb_process *p, ::pid_t tid, unsigned int reg, uint8_t ret[10])
{
	return read_register(p, tid, "st", reg, ret, 10);
}

/* Memory */

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	auto *p = static_cast<struct lldb_process *>(ctx);
	SBError e;

	return p->process.ReadMemory(addr, buf, len, e) == len && e.Success();
}

struct memory_view lldb_process_memory(struct lldb_process *p)
{
	return { read_memory, p };
}
