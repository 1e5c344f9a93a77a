"""watchctl's commands for lldb:  (lldb) command script import .../watchctl_lldb.py   or in ~/.lldbinit.

See watchctl_session.py.
"""
import os
import re
import sys

import lldb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import watchctl_session as session  # noqa: E402

WATCHES = session.Watches()
RED_ZONE = 128
LEAVING = {}  # breakpoint id -> (watch, the frame's CFA): see frame_left


def variable(target, frame, expr):
    """The variable or part of one that @expr names, else an invalid value; nothing is evaluated."""
    if frame.IsValid():
        found = frame.GetValueForVariablePath(expr)
        if found.IsValid() and found.GetError().Success():
            return found
    root, rest = re.fullmatch(r"((?:[A-Za-z_]\w*(?:::)?)*)(.*)", expr, re.S).groups()
    found = target.FindFirstGlobalVariable(root) if root else lldb.SBValue()
    return found.GetValueForExpressionPath(rest) if rest and found.IsValid() else found


def evaluated(context, expr):
    """LLDB runs the program for memory of its own; killed after that, it takes the program along: for what is left."""
    options = lldb.SBExpressionOptions()
    options.SetAllowJIT(False)
    found = context.EvaluateExpression(expr, options)
    if found.GetError().Fail():
        said = found.GetError().GetCString().strip()
        raise session.Trouble(re.sub(r"^error: (<user expression \d+>:\d+:\d+: )?|\n.*", "", said, flags=re.S))
    return found


def place(target, frame, expr):
    """(address, size) of what @expr is here and now; a bare address and code have no size."""
    if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", expr):
        return int(expr, 0), None
    found = variable(target, frame, expr)
    if not found.IsValid() or found.GetError().Fail():
        functions = target.FindFunctions(expr)
        if functions.GetSize() == 1:
            return functions.GetContextAtIndex(0).GetSymbol().GetStartAddress().GetLoadAddress(target), None
        found = evaluated(frame if frame.IsValid() else target, expr)
    address = found.GetLoadAddress()
    if address == lldb.LLDB_INVALID_ADDRESS:
        raise session.Trouble("%s is in a register here, or a value without a place: a debug register watches memory" % expr)
    return address, found.GetByteSize()


def caller_of(frame):
    """Not valid if there is none."""
    return frame.GetThread().GetFrameAtIndex(frame.GetFrameID() + 1) if frame.IsValid() else frame


def is_local(frame, address):
    """In the selected frame's part of the stack, or below it, where a function that calls none may put its own?"""
    caller = caller_of(frame)
    if not caller.IsValid():
        return False
    low = frame.GetSP() - (RED_ZONE if frame.GetFrameID() == 0 else 0)
    return low <= address < caller.GetSP()


def frame_left(frame, location, extra, internal_dict):
    """At the return address of the frame that a watched local variable lives in. False: go on."""
    breakpoint = location.GetBreakpoint()
    watch, stack_pointer = LEAVING[breakpoint.GetID()]
    if frame.GetSP() < stack_pointer:  # of a deeper call of the same function
        return False
    if watch.is_running():
        watch.frame_left = True
        watch.stop()
    breakpoint.SetEnabled(False)
    return False


def stop_with_frame(target, frame, watch):
    caller = caller_of(frame)
    breakpoint = target.BreakpointCreateByAddress(caller.GetPC())
    breakpoint.SetThreadID(frame.GetThread().GetThreadID())
    LEAVING[breakpoint.GetID()] = (watch, caller.GetSP())
    breakpoint.SetScriptCallbackFunction("watchctl_lldb.frame_left")


def arm(debugger, text):
    expr, options = session.split(text)
    target = debugger.GetSelectedTarget()
    process = target.GetProcess()
    if not process.IsValid() or process.GetState() in (lldb.eStateExited, lldb.eStateDetached):
        raise session.Trouble("no process is being debugged: run or attach first")
    if process.GetState() != lldb.eStateStopped:
        raise session.Trouble("the process must be stopped to be asked where the variable is: process interrupt")
    frame = process.GetSelectedThread().GetSelectedFrame()
    where = place(target, frame, expr)
    watch = WATCHES.arm(process.GetProcessID(), expr, where, options)
    said = "%s\n    %s, log %s\n" % (watch.title, watch.threads, watch.log)
    if is_local(frame, where[0]):
        stop_with_frame(target, frame, watch)
        said += "    a local variable: until its frame is left\n"
    return said


def settled(debugger):
    """An exit is not announced to scripts: watches that ended with it are waited for here."""
    process = debugger.GetSelectedTarget().GetProcess()
    if not process.IsValid() or process.GetState() == lldb.eStateExited:
        return WATCHES.process_ended()
    return ""


COMMANDS = {
    "watchctl-arm": (arm, "Record every access to EXPR while the program runs on: watchctl-arm EXPR [-r|-w|-rw] "
                          "[watchctl's options]"),
    "watchctl-disarm": (lambda debugger, text: WATCHES.disarm(text), "End watch N, or all: watchctl-disarm [N]"),
    "watchctl-sites": (lambda debugger, text: settled(debugger) + WATCHES.sites(text),
                       "The places that accessed the variable, counted: watchctl-sites [N]"),
    "watchctl-events": (lambda debugger, text: settled(debugger) + WATCHES.events(text),
                        "Each recorded access, with its stack: watchctl-events [N] [options of watchctl report]"),
}


def command(name):
    def run(debugger, text, context, result, internal_dict):
        try:
            result.Print(COMMANDS[name][0](debugger, text))
        except session.Trouble as e:
            result.SetError("%s: %s" % (name, e))
    return run


def __lldb_init_module(debugger, internal_dict):
    for name, (_, words) in COMMANDS.items():
        function = name.replace("-", "_")
        setattr(sys.modules[__name__], function, command(name))
        debugger.HandleCommand('command script add -o -h "%s" -f %s.%s %s' % (words, __name__, function, name))
