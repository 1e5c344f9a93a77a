"""
Runs in gdb, on a program that it was given: stops it at many moments, steps on from each by single instructions,
and hands registers and gdb's own stack of each stop to a judge (stack_judge.c), which walks the same thread.

From the environment: JUDGE, the judge's command line; STOPS, how many stops; BURST, how many of them follow
each other by single instructions; PLACES, functions at which every other burst begins (separated by blanks).
"""
import os
import random
import re
import shlex
import struct
import subprocess
import time

import gdb

DEPTH = 256  # as in walkers.h
REGISTERS = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *[f"r{i}" for i in range(8, 16)], "rip"]
STOPS = int(os.environ["STOPS"])
BURST = int(os.environ.get("BURST", "40"))
PLACES = os.environ.get("PLACES", "").split()
TIMERS = ("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1")
# Made up by gdb from debug information: not on the stack.
DERIVED = (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME)


def quiet(command):
    return gdb.execute(command, False, True)


class Judge:
    """Each question is answered by a byte, so that the program does not run on while its stack is read."""

    def __init__(self):
        self.process = subprocess.Popen(shlex.split(os.environ["JUDGE"]), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)

    def ask(self, kind, pid, argument=0, payload=b""):
        self.process.stdin.write(struct.pack("<4i", kind, pid, argument, len(payload)) + payload)
        if self.process.stdout.read(1) != b".":
            raise gdb.GdbError("the judge is gone")

    def new_burst(self, pid):
        self.ask(1, pid)

    def interrupt_later(self, pid, microseconds):
        self.ask(2, pid, microseconds)

    def stop(self, pid, registers, frames):
        self.ask(3, pid, len(frames), struct.pack(f"<{len(REGISTERS) + len(frames)}Q", *registers, *frames))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def stack_of(frame):
    frames = []
    try:
        while frame is not None and len(frames) < DEPTH:
            if frame.type() not in DERIVED:
                frames.append(frame.pc())
            frame = frame.older()
    except gdb.error:  # memory that cannot be read: gdb's stack ends there
        pass
    return frames


MASK = (1 << 64) - 1


def judge_selected_thread(judge, pid):
    frame = gdb.newest_frame()
    registers = [int(frame.read_register(name)) & MASK for name in REGISTERS]
    judge.stop(pid, registers, stack_of(frame))


def alive():
    return bool(gdb.selected_inferior().pid)


def is_syscall(address):
    try:
        return bytes(gdb.selected_inferior().read_memory(address, 2)) == b"\x0f\x05"
    except gdb.error:
        return False


def may_step():
    """A system call may take for ever: it may wait for a thread that does not run."""
    pc = gdb.newest_frame().pc()
    return not is_syscall(pc) and not is_syscall(pc - 2)


def judge_all_threads(judge, pid):
    """Leaves one selected that runs, if there is any. Returns how many there are."""
    threads = gdb.selected_inferior().threads()
    running = []
    for thread in threads:
        thread.switch()
        judge_selected_thread(judge, pid)
        if may_step():
            running.append(thread)
    if running:
        running[-1].switch()
    return len(threads)


def go_on(judge, pid, rng):
    """To another moment: a place of our choice, or wherever it is after a while."""
    place = rng.choice(PLACES) if PLACES and rng.random() < 0.3 else None
    breakpoint = None
    if place:
        try:
            breakpoint = gdb.Breakpoint(place, temporary=True, internal=True)
        except gdb.error:
            pass
    for timer in TIMERS:  # where it stops, the steps go on in the handler
        quiet(f"handle {timer} {'stop' if rng.random() < 0.3 else 'nostop'} pass")
    judge.interrupt_later(pid, rng.randrange(500, 8000) * (20 if breakpoint else 1))
    quiet("continue")
    if breakpoint and breakpoint.is_valid():
        breakpoint.delete()
    # Not where the signal came in only, nor always at a function's beginning.
    for _ in range(rng.choice((0, 0, 20, 100, 300))):
        if not alive() or not may_step():
            break
        quiet("stepi")


def run(judge):
    rng = random.Random(1)
    quiet("starti")
    pid = gdb.selected_inferior().pid
    stops = 0
    end = time.monotonic() + float(os.environ.get("SECONDS", "300"))
    # Below the loader's first instructions gdb takes what the kernel put on the stack for return addresses.
    entry = int(re.search(r"Entry point: (0x[0-9a-f]+)", quiet("info files")).group(1), 16)
    if gdb.newest_frame().pc() != entry:  # of a static program it is there
        gdb.Breakpoint(f"*{entry:#x}", temporary=True, internal=True)
        quiet("continue")
    while stops < STOPS and time.monotonic() < end:
        go_on(judge, pid, rng)
        if not alive():
            return
        judge.new_burst(pid)
        stops += judge_all_threads(judge, pid)
        for _ in range(BURST):
            if not may_step():
                break
            quiet("stepi")
            if not alive():
                return
            judge_selected_thread(judge, pid)
            stops += 1


for setting in ("confirm off", "pagination off", "backtrace past-main on", "backtrace past-entry on", "width 0",
                "debuginfod enabled off", "print inferior-events off", "print thread-events off",
                "scheduler-locking step", "max-completions 0", "auto-load no"):
    try:
        quiet("set " + setting)
    except gdb.error:
        pass
quiet("handle all nostop noprint pass")
quiet("handle SIGINT stop nopass")
quiet("handle SIGTRAP stop nopass")
court = Judge()
try:
    run(court)
finally:
    if alive():
        quiet("kill")
    court.close()
