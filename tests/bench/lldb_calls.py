"""What a user of LLDB would write to record calls with parameters and results; run inside LLDB's Python.

usage: lldb_calls.py breakpoints|instructions PROGRAM CALLS      prints a JSON object: calls, seconds

`breakpoints`: one on each function's entry, one at its return address. `instructions`: every instruction is
stepped from the range's beginning to its end. Both read the parameters (after the prologue, as LLDB sets its
breakpoints), the callers and the result.
"""

import json
import os
import sys
import time

import lldb

FUNCTIONS = ("handle", "scale")


def parameters(frame):
    return [(v.GetName(), v.GetValue(), v.GetSummary(), [c.GetValue() for c in v.deref] if v.TypeIsPointerType() else None)
            for v in frame.GetVariables(True, False, False, True)]


def callers(thread):
    return [f.GetPC() for f in thread.frames]


def by_breakpoints(target, process, calls):
    for name in FUNCTIONS:
        target.BreakpointCreateByName(name)
    returns, records, done = {}, [], 0
    start = None
    while done < calls:
        process.Continue()
        thread = process.GetSelectedThread()
        if thread.GetStopReason() != lldb.eStopReasonBreakpoint:
            break
        frame = thread.GetFrameAtIndex(0)
        if start is None:
            start = time.monotonic()
        if frame.GetPC() in returns:
            records.append(frame.FindRegister("rax").GetValueAsUnsigned())
            done += 1
            continue
        records.append((frame.GetFunctionName(), parameters(frame), callers(thread)))
        back = thread.GetFrameAtIndex(1).GetPC()
        if back not in returns:
            returns[back] = target.BreakpointCreateByAddress(back)
    return done, time.monotonic() - start


def by_instructions(target, process, calls):
    target.BreakpointCreateByName("run")
    process.Continue()
    thread = process.GetSelectedThread()
    starts = {target.FindFunctions(n)[0].GetSymbol().GetStartAddress().GetLoadAddress(target): n for n in FUNCTIONS}
    open_calls, records, done = [], [], 0
    start = time.monotonic()
    while done < calls:
        thread.StepInstruction(False)
        frame = thread.GetFrameAtIndex(0)
        pc = frame.GetPC()
        if pc in starts:
            records.append((starts[pc], parameters(frame), callers(thread)))
            open_calls.append(thread.GetFrameAtIndex(1).GetPC())
        elif open_calls and pc == open_calls[-1]:
            records.append(frame.FindRegister("rax").GetValueAsUnsigned())
            open_calls.pop()
            done += 1
    return done, time.monotonic() - start


def main():
    how, program, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
    debugger = lldb.SBDebugger.Create()
    debugger.SetAsync(False)
    target = debugger.CreateTarget(program)
    info = lldb.SBLaunchInfo([str(calls)])
    info.SetLaunchFlags(lldb.eLaunchFlagStopAtEntry)
    info.AddOpenFileAction(1, os.devnull, False, True)
    error = lldb.SBError()
    process = target.Launch(info, error)
    if error.Fail():
        sys.exit(str(error))
    done, seconds = (by_breakpoints if how == "breakpoints" else by_instructions)(target, process, calls)
    process.Kill()
    print(json.dumps({"calls": done, "seconds": seconds}))
    lldb.SBDebugger.Destroy(debugger)


main()
