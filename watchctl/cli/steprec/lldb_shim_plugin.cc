/*
 * lldb_shim_plugin - libsteprec.so: the steprec commands of an interactive LLDB. What they do is steprec.h's;
 * here they meet LLDB's command interpreter.
 *
 * A recording moves the process while its user waits, as `continue` does: Ctrl-C, or a breakpoint of his own,
 * gives the process back, and `continue` goes on. Two of LLDB's commands are therefore looked at before they
 * run:
 *
 *	process launch		with a recording that was asked for and has no process yet: it begins at the
 *				program's first instruction
 *	process continue	with a recording that is paused: it goes on
 */
#include "watchctl/step/lldb/lldb_shim_objects.hh"
#include "watchctl/step/lldb/lldb_shim_process_objects.hh"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#define _Static_assert static_assert /* see lldb_shim_objects.hh */
#include "watchctl/base/error.h"
#include "watchctl/cli/steprec/steprec.h"
#undef _Static_assert

using lldb::SBCommandInterpreter;
using lldb::SBCommandReturnObject;
using lldb::SBDebugger;
using lldb::SBFile;
using lldb::SBProcess;
using lldb::SBStream;
using lldb::SBTarget;
using lldb::SBThread;

#define SHOW_LINES 20

namespace
{

/* Of one debugger. */
struct plugin {
	lldb::user_id_t id;
	bool has_options; /* of a recording that is wanted, or there is */
	struct steprec_options options;
	struct lldb_process *process;
	struct lldb_session *session;
	struct steprec *recording;
	std::string log, ended; /* of the last recording; what status says of it */
	bool ours;		/* the command that runs is one that we gave */
};

SBDebugger debugger_of(const struct plugin *p)
{
	return SBDebugger::FindDebuggerWithID((int)p->id);
}

SBProcess process_of(const struct plugin *p)
{
	return debugger_of(p).GetSelectedTarget().GetProcess();
}

void write_out(const struct plugin *p, const char *text, size_t len)
{
	SBFile out = debugger_of(p).GetOutputFile();
	size_t written;

	out.Write((const uint8_t *)text, len, &written);
	out.Flush();
}

void write_out(const struct plugin *p, const std::string &text)
{
	write_out(p, text.data(), text.size());
}

/* What the program prints comes by way of LLDB. */
void pass_output(const struct plugin *p)
{
	SBProcess process = process_of(p);
	char buf[4096];
	size_t n;

	while ((n = process.GetSTDOUT(buf, sizeof(buf))) > 0)
		write_out(p, buf, n);
	while ((n = process.GetSTDERR(buf, sizeof(buf))) > 0)
		write_out(p, buf, n);
}

void say(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void say(void *ctx, const char *fmt, ...)
{
	char *text = nullptr;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	write_out(static_cast<struct plugin *>(ctx), std::string("steprec: ") + text + "\n");
	free(text);
}

volatile sig_atomic_t ctrl_c;

void on_ctrl_c(int sig)
{
	(void)sig;
	ctrl_c = 1;
}

/*
 * While the process moves, Ctrl-C is ours: LLDB's handler gives it to whoever reads the terminal at that
 * moment, which between the many stops is now the program's input and now its command line, and then it is
 * lost.
 */
class catch_ctrl_c
{
      public:
	catch_ctrl_c()
	{
		struct sigaction ours = {};

		ctrl_c = 0;
		ours.sa_handler = on_ctrl_c;
		ours.sa_flags = SA_RESTART;
		sigaction(SIGINT, &ours, &old);
	}

	~catch_ctrl_c()
	{
		sigaction(SIGINT, &old, nullptr);
	}

      private:
	struct sigaction old;
};

/* The other ways are those of programs that LLDB is a part of. */
bool wants_out(void *ctx)
{
	return ctrl_c ||
	       debugger_of(static_cast<struct plugin *>(ctx)).GetCommandInterpreter().WasInterrupted();
}

void look_around(void *ctx)
{
	pass_output(static_cast<struct plugin *>(ctx));
}

struct wc_error *usage(const char *text)
{
	return wc_error_new(WC_EUSAGE, "%s", text);
}

/* Where the process stands, as LLDB reports after a stop. */
void show_place(const struct plugin *p)
{
	SBProcess process = process_of(p);
	SBStream text;

	if (process.GetState() != lldb::eStateStopped)
		return;
	for (uint32_t i = 0; i < process.GetNumThreads(); i++) {
		SBThread t = process.GetThreadAtIndex(i);

		if (t.GetStopReason() != lldb::eStopReasonNone &&
		    t.GetStopReason() != lldb::eStopReasonInvalid) {
			process.SetSelectedThread(t);
			break;
		}
	}
	process.GetSelectedThread().GetSelectedFrame().GetDescription(text);
	write_out(p, "process " + std::to_string(process.GetProcessID()) + " stands at\n  " +
			     std::string(text.GetData() ? text.GetData() : "", text.GetSize()));
}

/* The recording is over, or has failed: its log is closed, and LLDB's own again is all that it lent. */
struct wc_error *drop(struct plugin *p)
{
	struct wc_error *err = nullptr;

	if (p->recording) {
		char *text = steprec_status(p->recording);

		p->log = steprec_log(p->recording);
		p->ended = text ? text : "";
		free(text);
		err = steprec_close(p->recording);
	}
	p->recording = nullptr;
	err = wc_error_first(err, lldb_process_close(p->process));
	p->process = nullptr;
	lldb_session_close(p->session);
	p->session = nullptr;
	if (p->has_options)
		steprec_options_deinit(&p->options);
	p->has_options = false;
	return err;
}

struct wc_error *go_on(struct plugin *p)
{
	struct wc_error *err;

	{
		class catch_ctrl_c until_it_stops;

		err = steprec_run(p->recording);
	}
	pass_output(p);
	if (err || !steprec_is_paused(p->recording))
		err = wc_error_first(err, drop(p));
	else
		say(p, "the recording is paused: continue resumes it, steprec stop ends it");
	show_place(p);
	return err;
}

struct wc_error *begin(struct plugin *p)
{
	SBDebugger debugger = debugger_of(p);
	SBTarget target = debugger.GetSelectedTarget();
	struct steprec_user user = { say, wants_out, look_around, p };
	struct wc_error *err;

	p->process = lldb_process_of(debugger, target, target.GetProcess());
	p->session = lldb_session_of(debugger, target, target.GetProcess());
	err = p->process && p->session
		      ? steprec_open(&p->options, p->process, p->session, user, &p->recording)
		      : &wc_enomem;
	if (err) {
		wc_error_free(drop(p));
		return err;
	}
	return go_on(p);
}

int count(char **words)
{
	int n = 0;

	while (words && words[n])
		n++;
	return n;
}

/* The commands */

struct wc_error *start(struct plugin *p, char **words)
{
	lldb::StateType state = process_of(p).IsValid() ? process_of(p).GetState() : lldb::eStateInvalid;
	int n = count(words);
	struct wc_error *err;

	if (p->recording && n)
		return usage(
			"a recording is paused: steprec start (without options) resumes it, steprec stop ends it");
	if (p->recording)
		return go_on(p);
	if (!debugger_of(p).GetSelectedTarget().IsValid())
		return usage("there is no program: give one by target create, or attach to a process");
	if (p->has_options)
		steprec_options_deinit(&p->options);
	err = steprec_options_parse(n, words, &p->options);
	p->has_options = !err;
	if (err)
		return err;
	if (state == lldb::eStateStopped)
		return begin(p);
	if (lldb::SBDebugger::StateIsRunningState(state)) {
		wc_error_free(drop(p));
		return usage("the process is running: process interrupt stops it, then steprec start again");
	}
	say(p, "the recording begins when the program is run");
	return nullptr;
}

struct wc_error *stop(struct plugin *p, char **words)
{
	struct wc_error *err;

	(void)words;
	if (!p->recording && p->has_options) {
		say(p, "nothing will be recorded");
		return drop(p);
	}
	if (!p->recording)
		return usage("nothing is being recorded");
	err = steprec_finish(p->recording);
	return wc_error_first(err, drop(p));
}

struct wc_error *status(struct plugin *p, char **words)
{
	(void)words;
	if (p->recording) {
		char *text = steprec_status(p->recording);

		write_out(p, text ? text : "");
		free(text);
	} else if (p->has_options) {
		write_out(p, "the recording begins when the program is run\n");
	} else {
		write_out(p, p->ended.empty() ? "nothing is being recorded\n" : p->ended);
	}
	return nullptr;
}

struct wc_error *show(struct plugin *p, char **words)
{
	std::string log = p->recording ? steprec_log(p->recording) : p->log;
	char *end = nullptr, *text = nullptr;
	unsigned long n = SHOW_LINES;
	struct wc_error *err;

	if (count(words))
		n = strtoul(words[0], &end, 10);
	if ((end && *end) || !n || n > 1000000)
		return usage("steprec show N: how many lines, from 1 to 1000000?");
	if (log.empty())
		return usage("nothing has been recorded yet");
	err = steprec_show(log.c_str(), (unsigned int)n, &text);
	if (!err)
		write_out(p, text);
	free(text);
	return err;
}

struct wc_error *help(struct plugin *p, char **words)
{
	(void)words;
	write_out(p, std::string("steprec start [OPTIONS]   record the calls of a range into a log; goes on "
				 "after a pause\n") +
			     steprec_options_help() +
			     "steprec status            what has been recorded\n"
			     "steprec show [N]          the last N lines of the log (20)\n"
			     "steprec stop              end the recording; the process stays where it is\n"
			     "Ctrl-C, or a breakpoint of your own, pauses the recording; continue goes on.\n"
			     "watchctl report LOG and watchctl diff GOOD BAD read the log.\n");
	return nullptr;
}

typedef struct wc_error *(*verb)(struct plugin *p, char **words);

class command : public lldb::SBCommandPluginInterface
{
      public:
	command(struct plugin *plugin, verb what) : plugin(plugin), what(what)
	{
	}

	bool DoExecute(SBDebugger debugger, char **words, SBCommandReturnObject &result) override
	{
		struct wc_error *err;

		(void)debugger;
		try {
			err = what(plugin, words);
		} catch (...) {
			err = &wc_enomem;
		}
		if (!err) {
			result.SetStatus(lldb::eReturnStatusSuccessFinishResult);
			return true;
		}
		result.SetError(err->text);
		result.SetStatus(lldb::eReturnStatusFailed);
		wc_error_free(err);
		return false;
	}

      private:
	struct plugin *plugin;
	verb what;
};

/* What was done in place of a command of LLDB's: true, it is not carried out any more. */
bool instead(struct plugin *p, struct wc_error *err)
{
	if (!err)
		return true;
	write_out(p, std::string("error: ") + err->text + "\n");
	wc_error_free(err);
	return true;
}

/* The words of "process launch ..." after these two. */
const char **arguments(const char **argv)
{
	for (int i = 0; i < 2 && *argv; i++)
		argv++;
	return argv;
}

bool before_continue(void *baton, const char **argv)
{
	auto *p = static_cast<struct plugin *>(baton);

	if (!p->recording || p->ours || *arguments(argv))
		return false;
	return instead(p, go_on(p));
}

std::string quoted(const char *word)
{
	std::string text = word;

	if (text.find_first_of(" \t\"'\\") == std::string::npos && !text.empty())
		return text;
	word = text.c_str();
	std::string ret = "\"";
	for (; *word; word++) {
		if (*word == '"' || *word == '\\')
			ret += '\\';
		ret += *word;
	}
	return ret + "\"";
}

/* The same launch, but that the process stands before its first instruction. */
struct wc_error *launch_held(struct plugin *p, const char **argv)
{
	SBDebugger debugger = debugger_of(p);
	std::string line = "process launch --stop-at-entry";
	bool was_async = debugger.GetAsync();
	SBCommandReturnObject result;

	for (const char **word = arguments(argv); *word; word++)
		line += " " + quoted(*word);
	p->ours = true;
	debugger.SetAsync(false);
	debugger.GetCommandInterpreter().HandleCommand(line.c_str(), result);
	debugger.SetAsync(was_async);
	p->ours = false;
	if (!result.Succeeded())
		return wc_error_new(WC_ETARGET, "%s",
				    result.GetError() ? result.GetError() : "the program cannot be run");
	return nullptr;
}

bool before_launch(void *baton, const char **argv)
{
	auto *p = static_cast<struct plugin *>(baton);
	struct wc_error *err;

	if (p->ours || !p->has_options)
		return false;
	if (p->recording) { /* of the process that this one takes the place of */
		wc_error_free(stop(p, nullptr));
		return false;
	}
	err = launch_held(p, argv);
	return instead(p, err ? err : begin(p));
}

} // namespace

namespace lldb
{

__attribute__((visibility("default"))) bool PluginInitialize(SBDebugger debugger);

bool PluginInitialize(SBDebugger debugger)
{
	static const struct {
		const char *name;
		verb what;
		const char *help, *syntax;
	} verbs[] = {
		{ "start", start, "Record the calls of a range; without options, resume a paused recording.",
		  "steprec start [--from CODE] [--to CODE] [-o LOG] ... (steprec help)" },
		{ "stop", stop, "End the recording; the process stays where it is.", "steprec stop" },
		{ "status", status, "What has been recorded.", "steprec status" },
		{ "show", show, "The last N lines of the log.", "steprec show [N]" },
		{ "help", help, "The options of steprec start, and how it works.", "steprec help" },
	};
	SBCommandInterpreter interpreter = debugger.GetCommandInterpreter();
	SBCommand steprec = interpreter.AddMultiwordCommand(
		"steprec",
		"Step and record: each call of a range, with its parameters, result and stack, into a log.");
	auto *p = new plugin();

	if (!steprec.IsValid()) {
		delete p;
		return false;
	}
	p->id = debugger.GetID();
	/* They live as long as LLDB, which has no way to tell that a plugin is no longer needed. */
	for (const auto &v : verbs)
		steprec.AddCommand(v.name, new command(p, v.what), v.help, v.syntax);
	interpreter.SetCommandOverrideCallback("process launch", before_launch, p);
	interpreter.SetCommandOverrideCallback("process continue", before_continue, p);
	return true;
}

} // namespace lldb
