# rooms: handler engine/handler
"""A watchctl that does not get on (stopped, blocked, not read) holds the program up once, for a moment, and never again."""
import contextlib
import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from conftest import WAIT, wait_until

# What makes threads of the program wait for us: arguments of the victim, and those that watch it.
HOOKS = {
    "pointer": ["-v", "head->len", "--follow"],
    "tls": ["-v", "mine"],
    "library": ["-v", "flag", "-w", "-v", "libnever.so:nothing", "--pending"],
    "write": ["-v", "flag", "-w", "--buffer", "64K"],
    "exec": ["-v", "flag", "-w", "--exec", "follow"],
}
ENGINES = {"handler": ["pointer", "tls", "library"], "ptrace": ["pointer", "tls", "library", "write", "exec"]}
CASES = [(engine, kind) for engine, kinds in ENGINES.items() for kind in kinds]
FIRST = 1.0  # s: what a thread may wait (0.3), and a busy machine may add
LONG = 2.0

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


def ptrace(request, pid):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


@contextlib.contextmanager
def stopped(w):
    w.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        w.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def blocked(w):
    """Its first thread alone, as a write to a disk that does not answer would: whatever else it has goes on."""
    done, begun = threading.Event(), threading.Event()

    def hold():
        ptrace(PTRACE_SEIZE, w.process.pid)
        ptrace(PTRACE_INTERRUPT, w.process.pid)
        os.waitpid(w.process.pid, 0x40000000)  # __WALL
        begun.set()
        done.wait()
        ptrace(PTRACE_DETACH, w.process.pid)

    holder = threading.Thread(target=hold)
    holder.start()
    assert begun.wait(WAIT)
    try:
        yield
    finally:
        done.set()
        holder.join()


def progress(v):
    return tuple(map(int, v.tell("").split()))


def paces(v, control, seconds):
    """The loops of both in the same time, and the longest of each: a busy machine is as busy for the one as for the other."""
    for p in v, control:
        p.tell("")
    time.sleep(seconds)
    (loops, gap), (usual, usual_gap) = progress(v), progress(control)
    return loops, gap, usual, usual_gap


def is_being_asked(v):
    """A thread of it is stopped for a moment, to tell its thread pointer: who is stopped just then holds it (docs/limits.md)."""
    try:
        return any(" t " in Path(t, "stat").read_text() for t in Path(f"/proc/{v.pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return True  # it has ended meanwhile: look again


def hold(stack, how, w, v, engine):
    """Until the end of @stack. The ptrace engine has a process of its own for what it has stopped."""
    def held():
        with contextlib.ExitStack() as attempt:
            attempt.enter_context(how(w))
            if engine != "ptrace" and is_being_asked(v):
                return False
            stack.push(attempt.pop_all())
            return True

    wait_until(held)


@pytest.mark.slow
@pytest.mark.parametrize("how", [stopped, blocked])
@pytest.mark.parametrize("engine,kind", CASES)
def test_who_waits_does_so_once_and_not_for_long(victim, watch, build, engine, kind, how):
    """
    Against a program of the same kind that nobody watches. Who waited at each hit would get 1 % of its loops done; at
    the ptrace engine's stops, on a busy machine, it may well be 10 %.
    """
    arguments = [kind, *([build("libplugin.so")] if kind == "library" else [])]
    v, control = victim("beats", *arguments), victim("beats", *arguments)
    w = watch("-p", v.pid, *HOOKS[kind], "--engine", engine, "--no-stack")
    with contextlib.ExitStack() as stack:
        hold(stack, how, w, v, engine)
        paces(v, control, FIRST)
        loops, gap, usual, usual_gap = paces(v, control, LONG)
        assert loops > usual / 20
        assert gap < 1000 * FIRST + 3 * usual_gap or engine == "ptrace"
    wait_until(lambda: kind == "write" or [n for n in w.of("note") if "did not wait" in n["text"]])
    n = len(w.accesses)
    wait_until(lambda: len(w.accesses) > n + 5)  # it has caught up
    w.end(expect=5 if kind == "library" else 0)
    assert w.balanced() and v.alive()
    loops, _, usual, _ = paces(v, control, 0.5)
    assert loops > usual / 2


def test_what_waited_when_a_pointer_had_moved_is_told_where_it_belongs(victim, watch):
    """The ring engine is told of moves afterwards: hundreds at once, when it goes on, and hits in between them."""
    v = victim("beats", "pointer")
    w = watch("-p", v.pid, *HOOKS["pointer"], "--engine", "ring", "--no-stack")
    moves = 0

    def has_moved_hundreds_of_times():
        nonlocal moves
        moves += progress(v)[0]
        return moves >= 1000

    with stopped(w):
        wait_until(has_moved_hundreds_of_times)
        n, told = len(w.accesses), len(w.of("note"))
    wait_until(lambda: len(w.accesses) > n and len(w.of("note")) > told + 200)
    w.end()
    assert w.balanced()
