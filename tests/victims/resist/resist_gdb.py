"""Run inside of gdb: a debugger that obeys and accounts, and has a program of its own that it stops, steps and watches."""
import ctypes
import os
import sys

import gdb

cell = ctypes.c_uint64(0)
rounds = errors = 0


def run(command):
    return gdb.execute(command, to_string=True)


def value(expression):
    return int(gdb.parse_and_eval(expression))


def check():
    """A breakpoint, single steps, a hardware watchpoint: all of its own program, and all as they should be."""
    global rounds, errors
    run("tbreak young")
    run("continue")
    right = gdb.selected_frame().name() == "young"
    for _ in range(5):
        run("stepi")
    run("tbreak computes")
    run("continue")
    watch = gdb.Breakpoint("rounds[1]", gdb.BP_WATCHPOINT, gdb.WP_WRITE)
    before = value("rounds[1]")
    for _ in range(3):
        run("continue")
    right = right and value("rounds[1]") == before + 3 and value("errors") == 0
    watch.delete()
    rounds += 1
    errors += not right


for line in ("set confirm off", "set pagination off", "set debuginfod enabled off", "handle SIGSEGV nostop noprint pass",
             "handle SIGALRM nostop noprint pass", "break main", "run alone </dev/null >/dev/null"):
    run(line)
print("pid", os.getpid(), hex(ctypes.addressof(cell)), flush=True)
for line in sys.stdin:
    verb, n = line.split()
    if verb == "hit":
        for _ in range(int(n)):
            cell.value += 1
        print("ok", cell.value, flush=True)
    elif verb == "check":
        check()
        print("ok", rounds, errors, flush=True)
    else:
        break
run("kill")
print("bye", cell.value, errors, flush=True)
gdb.execute("quit 7")
