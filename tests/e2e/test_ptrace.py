# rooms: engine/ptrace target/stop
"""--engine ptrace: every access by a stop, the program otherwise undisturbed, alive whatever is killed."""
import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, wait_until
from test_moving import in_time, late, said_of_thread_locals

PROGRAMS = ["puppet", "puppet_fp", "puppet_nopie", "puppet_static", "puppet_musl"]
HELPERS = ("dregs-tracer", "dregs-guard")

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PEEKUSER, DETACH, SEIZE, INTERRUPT = 3, 17, 0x4206, 0x4207
U_DEBUGREG = 848  # offsetof(struct user, u_debugreg)


def debug_registers(pid):
    """DR7 of each thread, asked for by a tracer of our own."""
    answers = {}

    def ask(tid):
        assert libc.ptrace(SEIZE, tid, None, None) == 0, os.strerror(ctypes.get_errno())
        libc.ptrace(INTERRUPT, tid, None, None)
        os.waitpid(tid, 0x40000000)
        answers[tid] = libc.ptrace(PEEKUSER, tid, U_DEBUGREG + 7 * 8, None)
        libc.ptrace(DETACH, tid, None, None)

    for tid in map(int, os.listdir(f"/proc/{pid}/task")):
        ask(tid)
    return answers


def comm(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def helpers(target):
    """The keeper and the guard of the process @target."""
    found = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        if comm(p) in HELPERS:
            try:
                line = Path(f"/proc/{p}/cmdline").read_bytes()
            except OSError:
                continue
            if re.search(rb"process %d\b" % target, line):
                found[comm(p)] = int(p)
    return found


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def tracer_of(pid):
    return int(re.search(r"^TracerPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


def settled(v):
    return wait_until(lambda: not v.alive() or (tracer_of(v.pid) == 0 and not helpers(v.pid)))


@pytest.fixture
def trace(watch):
    def start(*args, **kw):
        return watch(*args, "--engine", "ptrace", **kw)

    return start


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_access_is_recorded_with_kind_value_and_function(victim, trace, name):
    v = victim(name)
    w = trace("-p", v.pid, "-v", "flag", "-rw")
    v.tell("write 10")
    v.tell("read 7")
    v.tell("inc 5")
    v.tell("same 3")
    w.end()
    assert w.of("armed")[0]["engine"] == "ptrace"
    assert w.balanced() and w.summary()["recorded"] == 25 and w.summary()["lost"] == 0
    functions = [a.get("function") for a in w.accesses]
    assert functions == ["write_flag"] * 10 + ["read_flag"] * 7 + ["inc_flag"] * 5 + ["write_flag"] * 3
    assert [a["kind"] for a in w.accesses] == ["write"] * 10 + ["read"] * 7 + ["readwrite"] * 5 + ["write"] * 3
    values = [int(a["new"], 16) for a in w.accesses]
    assert values == list(range(10)) + [9] * 7 + [10, 11, 12, 13, 14] + [5, 5, 5]
    assert [int(a["old"], 16) for a in w.accesses] == [0] + values[:-1]
    for a in w.accesses:
        assert a["tid"] == v.pid and "main" in [f.get("function") for f in a["stack"]]


def test_a_read_watch_drops_and_counts_pure_writes(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-r")
    v.tell("write 40")
    v.tell("read 8")
    v.tell("inc 3")
    w.end()
    assert [a["kind"] for a in w.accesses] == ["read"] * 8 + ["readwrite"] * 3
    assert w.balanced() and w.summary()["filtered"] == 40


def test_accesses_by_the_kernel_are_said_not_to_be_seen(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-rw")
    v.tell("kernel 5")
    w.end()
    assert not w.of("armed")[0].get("kernel") and not w.accesses
    assert any("accesses by the kernel are not seen" in n["text"] for n in w.of("note"))


def test_an_execute_watch_sees_each_run_once_and_before_it(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "write_flag", "-x", "--regs")
    v.tell("write 20")
    v.tell("read 5")
    w.end()
    assert w.balanced() and w.summary()["recorded"] == 20
    assert {a["kind"] for a in w.accesses} == {"execute"} and {a["offset"] for a in w.accesses} == {0}
    assert [int(a["regs"]["rdi"], 16) for a in w.accesses] == list(range(20))


def test_new_threads_are_armed_before_they_run(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    assert v.tell("storm 200 5") == "1000"
    w.end()
    assert w.balanced() and w.summary()["recorded"] == 1000
    by_thread = {}
    for a in w.accesses:
        by_thread[a["tid"]] = by_thread.get(a["tid"], 0) + 1
    assert set(by_thread.values()) == {5} and len(by_thread) == 200


def test_threads_born_and_dying_while_we_attach_are_all_caught(victim, trace):
    v = victim("puppet")
    worker = threading.Thread(target=lambda: v.tell("storm 1500 1"))
    worker.start()
    wait_until(lambda: len(os.listdir(f"/proc/{v.pid}/task")) > 1 or not worker.is_alive())
    w = trace("-p", v.pid, "-v", "flag", "-w")
    worker.join()
    assert w.of("armed")[0]["threads_armed"] == w.of("armed")[0]["threads"]
    before = len(w.accesses)
    assert v.tell("storm 40 5") == "200"
    w.end()
    assert w.balanced() and len(w.accesses) >= before + 200
    assert sum(1 for n in count_by_thread(w).values() if n == 5) == 40


def count_by_thread(w):
    counts = {}
    for a in w.accesses:
        counts[a["tid"]] = counts.get(a["tid"], 0) + 1
    return counts


def test_several_watches_hit_by_one_instruction_are_each_told(victim, trace):
    v = victim("puppet_nopie")
    nm = subprocess.run(["nm", v.process.args[0]], capture_output=True, text=True).stdout
    addr = int(re.search(r"^(\w+) \w flag$", nm, re.M).group(1), 16)
    w = trace("-p", v.pid, "-v", "flag", "-w", "-v", hex(addr + 4), "-s", "4", "-w", "-v", "flag", "-s", "2", "-rw")
    v.tell("wide 6")
    v.tell("write 3")
    v.tell("read 2")
    w.end()
    assert w.balanced()
    assert [s["recorded"] for s in w.of("summary")] == [9, 6, 11]


def test_a_full_buffer_makes_the_program_wait_for_a_moment_and_what_is_lost_then_is_counted(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w", "--buffer", "64K", "--no-stack")
    v.tell("write 5000")
    wait_until(lambda: len(w.accesses) == 5000)  # whoever is slow loses nothing
    w.process.send_signal(signal.SIGSTOP)
    v.tell("write 5000")
    w.process.send_signal(signal.SIGCONT)
    written = 10000

    def has_caught_up():
        nonlocal written
        v.tell("write 10")
        written += 10
        return [int(a["new"], 16) for a in w.accesses[-10:]] == list(range(10))

    wait_until(has_caught_up)
    w.end()
    s = w.summary()
    assert w.balanced() and s["counted"] == written and s["lost"] > 1000
    assert [n["why"] for n in w.of("lost")] == ["the event buffer was full (a larger --buffer loses fewer)"]


@pytest.mark.parametrize("name", ["puppet", "puppet_static", "puppet_musl"])
def test_nothing_of_us_is_left(victim, trace, before_and_after, name):
    v = victim(name)
    v.tell("write 1")
    with before_and_after(v.pid):
        w = trace("-p", v.pid, "-v", "flag", "-w", "-v", "untouched", "-rw")
        assert set(helpers(v.pid)) == set(HELPERS)
        v.tell("write 200")
        w.end()
        assert w.balanced()
    assert set(debug_registers(v.pid).values()) == {0}
    assert not helpers(v.pid)
    v.tell("write 5")


def test_threads_of_the_target_are_undisturbed(victim, trace):
    """hammer checks registers, vector registers, red zone, errno, its mask, and that no sleep was cut short."""
    v = victim("hammer", 4, 300)
    for _ in range(10):
        trace("-p", v.pid, "-v", "counter", "-rw", "-t", "0.1", "-q").end(sig=None)
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def test_sigtraps_of_the_programs_own_reach_it_and_no_other(victim, trace, before_and_after):
    v = victim("own_handler")
    assert v.tell("go") == "10 10 10 0"
    with before_and_after(v.pid):
        w = trace("-p", v.pid, "-v", "flag", "-w")
        assert v.tell("go") == "20 20 20 0"
        w.end()
        assert w.summary()["recorded"] == 20 and w.balanced()
    assert v.tell("go") == "30 30 30 0"


def test_single_steps_and_breakpoints_of_the_programs_own_reach_it(victim, trace):
    v = victim("own_traps")
    steps, breakpoints, _ = map(int, v.tell("go").split())
    if breakpoints < 0:
        pytest.skip("the victim may not open perf events")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    assert v.tell("go") == f"{2 * steps} {2 * breakpoints} 0"
    w.end()
    assert w.balanced() and [int(a["new"], 16) for a in w.accesses] == [1, 2, 4]


def test_the_default_action_still_kills(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 3")
    v.send("raise")
    assert v.process.wait(timeout=WAIT) == -signal.SIGTRAP
    w.end(sig=None)
    assert w.summary()["recorded"] == 3


def test_a_thread_that_blocks_sigtrap_blocks_it_ever_after(victim, trace, before_and_after):
    """The kernel unblocks SIGTRAP for a debug exception; its mask is put back."""
    v = victim("puppet")
    v.tell("block")
    with before_and_after(v.pid):
        w = trace("-p", v.pid, "-v", "flag", "-w")
        v.tell("write 10")
        w.end()
    assert w.summary()["recorded"] == 10 and w.balanced()


def notes_about_sigtrap(w):
    return [n["text"] for n in w.of("note") if "SIGTRAP" in n["text"]]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_thread_that_blocks_sigtrap_while_the_watch_begins_may_unblock_it(victim, trace, before_and_after, end):
    """As inside its own SIGTRAP handler. SIGTRAP that stays blocked would make the kernel drop the handler at int3."""
    v = victim("puppet")
    v.tell("handler own")
    with before_and_after(v.pid):
        v.tell("block")
        w = trace("-p", v.pid, "-v", "flag", "-w")
        v.tell("unblock")
        v.tell("write 3")
        assert v.ask("int3") == "ok"
        w.end(sig=end, expect=None if end == signal.SIGKILL else 0)
        assert settled(v)
    assert v.ask("int3") == "ok"
    assert v.tell("got") == "2"
    assert not notes_about_sigtrap(w)


@pytest.mark.parametrize("when", ["before", "while"])
@pytest.mark.parametrize("trap", ["raise", "int3"])
def test_an_access_while_sigtrap_is_blocked_leaves_the_programs_handler(victim, trace, before_and_after, when, trap):
    """It makes the kernel remove that: then the next SIGTRAP would end the program."""
    v = victim("puppet")
    v.tell("handler own")
    with before_and_after(v.pid):
        if when == "before":
            v.tell("block")
        w = trace("-p", v.pid, "-v", "flag", "-w")
        v.tell("block")
        v.tell("write 3")
        v.tell("unblock")
        assert v.ask(trap) == "ok"
        w.end()
    assert v.ask(trap) == "ok" and v.tell("got") == "2"
    assert w.summary()["recorded"] == 3 and w.balanced() and not notes_about_sigtrap(w)


def test_the_handler_that_is_left_is_the_one_that_the_program_has_set_last(victim, trace):
    v = victim("puppet")
    v.tell("handler own")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 1")
    v.tell("handler default")
    v.tell("write 1")
    v.send("raise")
    assert v.process.wait(timeout=WAIT) == -signal.SIGTRAP
    w.end(sig=None)


def test_a_launched_program_keeps_its_handler_from_its_first_hit_on(trace, build, tmp_path):
    p = subprocess.run([WATCHCTL, "-v", "flag", "-w", "--engine", "ptrace", "-q", "--", build("puppet")], capture_output=True,
                       text=True, input="handler own\nwrite 3\nblock\nwrite 3\nunblock\nraise\ngot\n", timeout=WAIT)
    assert p.returncode == 0 and p.stdout.split()[-1] == "1", (p.stdout, p.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("how", ["raise", "int3", "wait", "wait-handler"])
def test_each_sigtrap_of_the_programs_own_comes_whatever_is_hit(build, hardware, how, threads):
    """In its handler, behind it, and while the signal waits, blocked: the victim checks that it comes, its mask and its action."""
    p = subprocess.Popen([build("trap_rounds"), how, "3", str(threads)], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    r = subprocess.run([WATCHCTL, "-p", str(p.pid), "-v", "rounds", "-w", "--engine", "ptrace", "-t", "1.5", "--json"],
                       capture_output=True, text=True, timeout=WAIT)
    out, _ = p.communicate(timeout=WAIT)
    assert p.returncode == 0 and out.startswith("ok "), (p.returncode, out)
    events = [json.loads(line) for line in r.stdout.splitlines()]
    assert r.returncode == 0 and sum(e["type"] == "access" for e in events) > 50
    assert not any("SIGTRAP" in e["text"] for e in events if e["type"] == "note")


@pytest.mark.slow
def test_a_busy_machine_does_not_let_a_sigtrap_of_the_programs_own_kill_it(build, hardware):
    """A hit of another thread takes the handler away until its thread goes on: a stop has to be waited for, however busy the processors are."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        programs = [subprocess.Popen([build("trap_rounds"), "int3", "8", "4"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert [p.stdout.readline() for p in programs] == ["ready\n"] * 2
        watches = [subprocess.Popen([WATCHCTL, "-p", str(p.pid), "-v", "rounds", "-w", "--engine", "ptrace", "-t", "5", "-q"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for p in programs]
        for p in programs:
            out, _ = p.communicate(timeout=2 * WAIT)
            assert p.returncode == 0 and out.startswith("ok "), (p.returncode, out)
        for w in watches:
            assert "SIGTRAP handler" not in w.communicate(timeout=2 * WAIT)[1]
    finally:
        for p in hogs:
            p.kill()
            p.wait()


def test_an_ignored_sigtrap_stays_ignored(victim, trace, before_and_after):
    """The kernel makes a process that is hit forget that it ignores SIGTRAP; nobody shall notice."""
    v = victim("puppet")
    v.tell("handler ignore")
    with before_and_after(v.pid):
        w = trace("-p", v.pid, "-v", "flag", "-w")
        v.tell("write 3")
        v.tell("raise")
        v.tell("write 3")
        v.tell("raise")
        w.end()
    v.tell("raise")
    assert v.alive() and w.summary()["recorded"] == 6


@pytest.mark.slow
def test_a_program_that_ignores_sigtrap_is_sent_it_all_the_time(victim, trace, before_and_after):
    """Also in the moment when it is let go of."""
    v = victim("puppet")
    v.tell("handler ignore")
    over = threading.Event()

    def send():
        while not over.is_set():
            os.kill(v.pid, signal.SIGTRAP)

    sender = threading.Thread(target=send)
    with before_and_after(v.pid):
        sender.start()
        try:
            for i in range(8):
                w = trace("-p", v.pid, "-v", "flag", "-w", "-q")
                v.tell("write 3")
                w.end(sig=signal.SIGINT if i % 2 else signal.SIGKILL, expect=0 if i % 2 else None)
                assert settled(v)
        finally:
            over.set()
            sender.join()
    assert v.alive()


def test_an_ignored_sigtrap_stays_ignored_when_watchctl_is_killed(victim, trace, before_and_after):
    v = victim("puppet")
    v.tell("handler ignore")
    with before_and_after(v.pid):
        w = trace("-p", v.pid, "-v", "flag", "-w")
        v.tell("write 3")
        w.end(sig=signal.SIGKILL, expect=None)
        assert settled(v)
    v.tell("raise")
    assert v.alive()


def test_job_control_is_the_programs_parents(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 2")
    wait_until(lambda: len(w.accesses) == 2)
    os.kill(v.pid, signal.SIGSTOP)
    _, status = os.waitpid(v.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGSTOP
    v.send("write 3")
    time.sleep(0.2)
    assert len(w.accesses) == 2
    os.kill(v.pid, signal.SIGCONT)
    assert os.WIFCONTINUED(os.waitpid(v.pid, os.WCONTINUED)[1])
    assert v.process.stdout.readline().strip() == "ok"
    w.end()
    assert w.summary()["recorded"] == 5


def test_a_stopped_process_is_armed_and_stays_stopped(victim, trace):
    v = victim("puppet")
    os.kill(v.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(v.pid) == "T")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    v.send("write 4")
    time.sleep(0.2)
    assert not w.accesses
    w.end()
    wait_until(lambda: state_of(v.pid) == "T")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    os.kill(v.pid, signal.SIGCONT)
    assert v.process.stdout.readline().strip() == "ok"
    w.end()
    assert w.summary()["recorded"] == 4


SLEEPER = """
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
ep = libc.epoll_create1(0)
buf = ctypes.create_string_buffer(64)
libc.epoll_ctl(ep, 1, 0, ctypes.create_string_buffer(12))
print('pid', libc.getpid(), flush=True)
r = libc.epoll_wait(ep, buf, 1, 600000)
print('result', r, ctypes.get_errno(), flush=True)
"""


def sleeper(program="exec /usr/bin/python3 -c"):
    p = subprocess.Popen(["sh", "-c", f'{program} "$0"', SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = int(p.stdout.readline().split()[1])
    wait_until(lambda: sleeps_on(pid))
    return p, pid


def sleeps_on(pid):
    """It sleeps in its epoll_wait, and has been told of every signal."""
    return state_of(pid) == "S" and not deliverable(pid) and Path(f"/proc/{pid}/syscall").read_text().startswith("232 ")


def deliverable(pid):
    """The signals that have been sent to it, that it does not block, and that it has not yet been told of."""
    status = Path(f"/proc/{pid}/status").read_text()
    waiting, for_all, blocked = (int(re.search(rf"^{name}:\s*(\w+)", status, re.M)[1], 16) for name in ("SigPnd", "ShdPnd", "SigBlk"))
    return (waiting | for_all) & ~blocked


def test_arming_does_not_end_a_sleeping_system_call(trace):
    p, pid = sleeper()
    for _ in range(5):
        trace("-p", pid, "-v", "libc.so.6:main_arena.system_mem", "-w", "-t", "0.1").end(sig=None)
    p.stdin.close()
    assert p.stdout.readline().split() == ["result", "1", "0"]
    p.wait()


def test_a_signal_that_the_program_ignores_does_not_end_a_sleeping_system_call(trace):
    """To a traced process the kernel delivers even ignored signals; epoll_wait would return EINTR."""
    p, pid = sleeper("trap '' TRAP; exec /usr/bin/python3 -c")
    w = trace("-p", pid, "-v", "libc.so.6:main_arena.system_mem", "-w")
    for sig in (signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG, signal.SIGCONT, signal.SIGPIPE, signal.SIGTRAP):
        os.kill(pid, sig)
        wait_until(lambda: sleeps_on(pid))
    p.stdin.close()
    assert p.stdout.readline().split() == ["result", "1", "0"]
    p.wait()
    w.end(sig=None)


def test_threads_and_processes_that_end_and_begin_in_unusual_ways(victim, trace):
    v = victim("lifecycle")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 2")
    assert v.tell("vfork") == "0" and v.tell("spawn") == "0"
    v.tell("orphan")
    assert v.tell("fork 3") == "0"
    assert v.tell("grandchild 3") == "0"
    v.tell("leader")
    v.tell("write 4")
    v.send("exit 5")
    assert v.process.wait(timeout=WAIT) == 5
    w.end(sig=None)
    # vfork's child shares the memory but is another process; orphan's thread writes once
    assert w.balanced() and w.summary()["recorded"] == 2 + 1 + 4


def test_forked_children_are_followed_when_asked_for(victim, trace):
    v = victim("lifecycle")
    w = trace("-p", v.pid, "-v", "flag", "-w", "--fork", "follow")
    v.tell("write 2")
    assert v.tell("fork 3") == "0"
    assert v.tell("grandchild 4") == "0"
    assert v.tell("vfork") == "0"
    v.tell("write 1")
    w.end()
    assert w.balanced() and w.summary()["recorded"] == 2 + 3 + 4 + 1 + 1
    assert [int(a["new"], 16) for a in w.accesses] == [0, 1, 0, 1, 2, 0, 1, 2, 3, 77, 0]
    # each process has a memory of its own: the child began with what its parent had
    assert [int(a["old"], 16) for a in w.accesses if a["pid"] == v.pid] == [0, 0, 77]
    assert len({a["pid"] for a in w.accesses}) == 4
    assert {a["function"] for a in w.accesses} == {"write_flag", "by_vfork"}


@pytest.mark.slow
def test_exec_ends_the_watch_and_the_program_runs_on(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 2")
    v.send("exec")
    w.end(sig=None, expect=3)
    assert len(w.accesses) == 2 and "executed another program" in w.stderr
    assert v.process.wait(timeout=WAIT) == 0


def test_exec_by_a_thread_that_is_not_the_first_is_followed(victim, trace):
    v = victim("lifecycle")
    w = trace("-p", v.pid, "-v", "flag", "-w", "--exec", "follow")
    v.tell("write 2")
    assert v.tell("reexec 5") == str(v.pid)
    assert v.tell("reexec 3") == str(v.pid)
    v.tell("write 4")
    w.end()
    assert [int(a["new"], 16) for a in w.accesses] == [0, 1, 0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3]
    assert {a["pid"] for a in w.accesses} == {v.pid}
    assert w.balanced()


@pytest.mark.parametrize("how", [[], ["late"]])
def test_a_sandboxed_program_is_watched(victim, trace, how):
    v = victim("sandboxed", *how)
    w = trace("-p", v.pid, "-v", "flag", "-w")
    for i in range(5):
        assert v.tell("go") == str(i + 1)
    w.end()
    assert [int(a["new"], 16) for a in w.accesses] == [1, 2, 3, 4, 5] and w.balanced()


def test_it_works_where_perf_events_are_forbidden(victim, build, hardware):
    v = victim("puppet")
    r = subprocess.Popen([build("noperf"), "1", WATCHCTL, "-p", str(v.pid), "-v", "flag", "-w", "-n", "3", "--json",
                          "--engine", "ptrace"], stdout=subprocess.PIPE, text=True)
    while '"armed"' not in r.stdout.readline():
        assert r.poll() is None
    v.tell("write 3")
    out = r.stdout.read()
    assert r.wait(timeout=WAIT) == 0 and out.count('"type":"access"') == 3


def test_a_process_that_is_traced_already_is_refused_with_the_tracers_name(hardware, victim, run):
    v = victim("puppet")
    gdb = subprocess.Popen(["gdb", "-q", "-batch", "-p", str(v.pid), "-ex", "shell cat"],
                           stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: tracer_of(v.pid) != 0)
        r = run("-p", v.pid, "-v", "flag", "--engine", "ptrace")
        assert r.returncode == 4 and f"gdb (process {tracer_of(v.pid)})" in r.stderr, r.stderr
        assert tracer_of(v.pid) == gdb.pid
    finally:
        gdb.stdin.close()
        gdb.kill()
        gdb.wait()


def test_a_process_that_another_watchctl_traces_is_refused(victim, trace, run):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    r = run("-p", v.pid, "-v", "v_ll", "--engine", "ptrace")
    assert r.returncode == 4 and "another watchctl with --engine ptrace" in r.stderr, r.stderr
    v.tell("write 3")
    w.end()
    assert w.summary()["recorded"] == 3


def test_a_register_of_ones_choice_is_used_and_one_in_use_refused(victim, trace, run):
    v = victim("hammer", 3, 2000)
    w = trace("-p", v.pid, "-v", "counter", "-w", "-i", "2", "-n", "100").end(sig=None)
    assert w.of("armed")[0]["slot"] == 2 and w.of("armed")[0]["threads_armed"] == 4
    assert len({a["tid"] for a in w.accesses}) == 3
    r = run("-p", v.pid, "-v", "counter", "-i", "2", "-v", "scratch", "-s", "8", "-i", "2", "--engine", "ptrace")
    assert r.returncode == 6 and "debug register 2 is in use" in r.stderr, r.stderr
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def test_registers_that_perf_holds_are_respected(victim, watch, run):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w", "-v", "v_ll", "-v", "v_uint", "-v", "v_short", "--engine", "handler")
    r = run("-p", v.pid, "-v", "untouched", "--engine", "ptrace")
    assert r.returncode == 6 and "perf events of another watchctl" in r.stderr, r.stderr
    v.tell("write 5")
    w.end()
    assert w.summary()["recorded"] == 5


def test_beside_a_handler_of_another_watchctl(victim, watch, trace):
    v = victim("puppet")
    a = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "handler")
    b = trace("-p", v.pid, "-v", "v_ll", "-w")
    v.tell("write 10")
    v.tell("types")
    b.end()
    v.tell("write 3")
    a.end()
    assert a.summary()["recorded"] == 13 and b.summary()["recorded"] == 1
    assert a.balanced() and b.balanced()


def test_beside_a_handler_for_the_same_variable(victim, watch, trace):
    """The kernel merges the two SIGTRAPs of one access: the tracer gets it, and the handler counts it as lost."""
    v = victim("puppet")
    a = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "handler")
    b = trace("-p", v.pid, "-v", "flag", "-rw")
    v.tell("write 10")
    v.tell("read 4")
    b.end()
    v.tell("write 3")
    a.end()
    assert b.summary()["recorded"] == 14 and b.balanced()
    assert a.summary()["counted"] == 13 and a.summary()["recorded"] >= 3 and a.balanced()


@pytest.mark.parametrize("name", ["puppet", "puppet_static", "puppet_musl"])
def test_a_launched_program_is_watched_from_its_first_instruction(build, hardware, tmp_path, name):
    out = tmp_path / "out"
    r = subprocess.run([WATCHCTL, "-v", "flag", "-rw", "--engine", "ptrace", "--json", "--output", str(out), "--",
                        build(name)], input="write 3\nread 2\nexit 0\n", capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0 and r.stdout.startswith("pid "), r.stderr
    text = out.read_text()
    assert re.findall(r'"type":"access".*?"kind":"(\w+)"', text) == ["write"] * 3 + ["read"] * 2


def test_relocations_by_the_loader_are_seen(build, hardware, tmp_path):
    out = tmp_path / "out"
    subprocess.run([WATCHCTL, "-v", "stats.head", "-w", "--engine", "ptrace", "--json", "--output", str(out), "--",
                    build("puppet")], input="exit 0\n", capture_output=True, text=True, timeout=WAIT, check=True)
    accesses = [line for line in out.read_text().splitlines() if '"type":"access"' in line]
    assert len(accesses) == 1 and "ld-linux" in accesses[0]


def test_a_library_that_comes_later_is_armed_before_its_constructors(build, hardware, tmp_path):
    out = tmp_path / "out"
    subprocess.run([WATCHCTL, "-v", "libplugin.so:plugin_state", "-w", "--engine", "ptrace", "--json", "--output",
                    str(out), "--", build("linked"), build("libplugin.so"), "5"], capture_output=True, text=True,
                   timeout=WAIT, check=True)
    functions = re.findall(r'"type":"access".*?"function":"(\w+)"', out.read_text())
    assert functions == ["plugin_start"] + ["plugin_touch"] * 5


@pytest.mark.parametrize("name", ["mover", "mover_static"])
def test_each_thread_is_watched_on_its_own_copy_from_its_birth(victim, trace, name):
    def session():
        v = victim(name)
        w = trace("-p", v.pid, "-v", "mine")
        v.tell("tls 2")
        tid = int(v.tell("tlsthread 3"))
        assert v.tell("tlsstorm 50 4") is not None
        w.end()
        return None if late(w) and count_by_thread(w).get(tid) != 3 else (w, v, tid)

    w, v, tid = wait_until(session)
    assert [(a["tid"], int(a["old"], 16), int(a["new"], 16)) for a in w.accesses[:5]] == [
        (v.pid, 7, 1), (v.pid, 1, 2), (tid, 7, 1), (tid, 1, 2), (tid, 2, 3)]
    per_thread = count_by_thread(w)
    assert w.balanced() and (per_thread.pop(v.pid), per_thread.pop(tid)) == (2, 3)
    assert 50 - late(w) <= sum(n == 4 for n in per_thread.values()) <= 50
    assert w.of("armed")[0]["per_thread"] and not helpers(v.pid)
    assert set(debug_registers(v.pid).values()) == {0}


def test_a_thread_local_variable_before_the_program_starts(build, hardware):
    said = said_of_thread_locals(build("mover"), "--engine", "ptrace")
    assert said.count('"type":"access"') == 5, said


def test_the_watch_moves_with_the_pointer_before_the_next_access(victim, trace):
    def session():
        v = victim("mover")
        w = trace("-p", v.pid, "-v", "list.head->len", "--follow")
        for line in ("len 5", "lenof b 50", "head b", "len 6", "lenof a 60", "head null", "lenof b 70", "head a", "len 7"):
            v.tell(line)
        return (w.end(),)

    w, = in_time(session)
    assert [(int(a["old"], 16), int(a["new"], 16)) for a in w.accesses] == [(1, 5), (50, 6), (60, 7)]


def test_as_a_plain_user_on_his_own_process(build, hardware, tmp_path):
    if os.geteuid():
        pytest.skip("is run as one anyway")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    folder = Path("/tmp") / f"watchctl-ptrace-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        for name, source in (("watchctl", WATCHCTL), ("puppet", build("puppet"))):
            shutil.copy(source, folder / name)
            (folder / name).chmod(0o755)
        v = subprocess.Popen([*nobody, folder / "puppet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pid = int(v.stdout.readline().split()[1])
        w = subprocess.Popen([*nobody, folder / "watchctl", "-p", str(pid), "-v", "flag", "-w", "-n", "4", "--json",
                              "--engine", "ptrace"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while '"armed"' not in w.stdout.readline():
            assert w.poll() is None, w.stderr.read()
        v.stdin.write("write 4\nexit 7\n")
        v.stdin.flush()
        out, err = w.communicate(timeout=WAIT)
        assert w.returncode == 0 and out.count('"type":"access"') == 4, err
        assert v.wait(timeout=WAIT) == 7
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP, signal.SIGTSTP,
                                 signal.SIGQUIT, signal.SIGPIPE])
def test_the_helpers_take_no_notice_of_signals(victim, trace, sig):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    there = helpers(v.pid)
    assert set(there) == set(HELPERS)
    for name, pid in there.items():
        if not (name == "dregs-guard" and sig == signal.SIGSTOP):
            os.kill(pid, sig)
    wait_until(lambda: not any(deliverable(pid) for pid in there.values()))
    v.tell("write 5")
    assert helpers(v.pid) == there
    w.end()
    assert w.summary()["recorded"] == 5


def test_the_helpers_hold_none_of_our_files(victim, trace):
    v = victim("puppet")
    w = trace("-p", v.pid, "-v", "flag", "-w")
    for pid in helpers(v.pid).values():
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert set(links) <= {"/dev/null", "anon_inode:[pidfd]", "/memfd:watchctl-tracer (deleted)",
                              "anon_inode:[signalfd]"}, links
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
    w.end()


@pytest.mark.slow
@pytest.mark.parametrize("pause_us", [0, 200])
def test_150_kills_at_random_instants_leave_the_program_alive(victim, hardware, pause_us):
    """SIGKILL of watchctl while its threads hammer the variable: arming, recording, detaching."""
    v = victim("hammer", 2, pause_us)
    rng = random.Random(pause_us + 7)
    for i in range(150):
        w = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "scratch", "-s", "8", "-w", "-q", "--engine", "ptrace"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.choice([0.02, 0.04, 0.1]) * rng.random())
        w.send_signal(signal.SIGKILL if i % 5 else signal.SIGINT)
        if not i % 5:
            time.sleep(0.05 * rng.random())
            w.kill()
        w.wait()
        assert settled(v), f"kill {i}: still traced"
        assert v.alive(), f"the program died at kill {i}: {v.process.returncode}"
        assert state_of(v.pid) in "RS", f"kill {i} left the program in state {state_of(v.pid)}"
        if i % 10 == 0:
            assert set(debug_registers(v.pid).values()) == {0}, i
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


@pytest.mark.slow
@pytest.mark.parametrize("who", [["watchctl"], ["dregs-guard"], ["watchctl", "dregs-guard"]])
def test_kills_of_what_does_not_trace_leave_a_busy_program_alive(victim, trace, who):
    v = victim("hammer", 2, 0)
    for i in range(20):
        w = trace("-p", v.pid, "-v", "scratch", "-s", "8", "-w", "-q")
        pids = {**helpers(v.pid), "watchctl": w.process.pid}
        time.sleep(0.01 * (i % 3))
        for name in who:
            os.kill(pids[name], signal.SIGKILL)
        w.end(sig=None, expect=None if "watchctl" in who else 7)
        assert settled(v) and v.alive(), v.process.returncode
        assert set(debug_registers(v.pid).values()) == {0}
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


@pytest.mark.slow_when("who2")
@pytest.mark.parametrize("who", [["dregs-tracer"], ["dregs-tracer", "watchctl"], ["dregs-tracer", "dregs-guard"]])
def test_when_the_tracer_is_killed_the_registers_are_cleared_before_the_next_hit(victim, trace, who):
    v = victim("puppet")
    for _ in range(10):
        w = trace("-p", v.pid, "-v", "flag", "-w")
        v.tell("write 3")
        pids = {**helpers(v.pid), "watchctl": w.process.pid}
        for name in who:
            os.kill(pids[name], signal.SIGKILL)
        w.end(sig=None, expect=None if "watchctl" in who else 7)
        assert settled(v)
        v.tell("write 3")
        assert v.alive() and set(debug_registers(v.pid).values()) == {0}
        assert state_of(v.pid) in "RS"
        if "watchctl" not in who:
            assert any("was killed" in n["text"] for n in w.of("note"))


DIE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
long ptrace(int request, ...)
{
	static long (*real)(int, ...);
	static long n;
	char name[16];
	va_list ap;
	if (!real)
		real = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
	va_start(ap, request);
	pid_t pid = va_arg(ap, pid_t);
	void *a = va_arg(ap, void *), *b = va_arg(ap, void *);
	va_end(ap);
	prctl(PR_GET_NAME, name);
	if (!strcmp(name, getenv("DIE_WHO")) && ++n == atol(getenv("DIE_AT")))
		kill(getpid(), SIGKILL);
	return real(request, pid, a, b);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ptrace", "handler", "ring"])
def test_it_ends_when_it_is_asked_to_though_who_reads_is_slower_than_the_hits_come(victim, hardware, engine):
    """There is always one more to be told."""
    v = victim("hammer", 1, 0)
    w = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "counter", "-w", "--engine", engine, "--json", "--buffer", "256K"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end, asked, text = time.monotonic() + WAIT, None, b""
    while chunk := os.read(w.stdout.fileno(), 16384 if not asked else 65536):  # up to 32 MB wait to be printed
        assert time.monotonic() < end, "it goes on and on"
        text += chunk
        time.sleep(0.01)
        if not asked and len(text) > 1 << 20:
            asked = True
            w.send_signal(signal.SIGINT)
    code, said = w.wait(timeout=WAIT), w.stderr.read()
    assert code == (1 if b"not printed: the output was not read" in said else 0), said
    summary = json.loads(text.splitlines()[-1])
    assert summary["type"] == "summary" and summary["recorded"] + summary["lost"] + summary["filtered"] == summary["counted"]
    assert v.alive()


@pytest.mark.slow
def test_a_kill_of_the_tracer_at_each_of_its_steps(victim, hardware, tmp_path):
    """A library that kills the keeper at its n-th ptrace call, for every n there is in a short session."""
    source, library = tmp_path / "die.c", tmp_path / "die.so"
    source.write_text(DIE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", str(source), "-o", str(library), "-ldl"], check=True)
    v = victim("hammer", 2, 900000)  # two threads asleep
    for at in range(1, 500):
        env = dict(os.environ, DIE_AT=str(at), DIE_WHO="dregs-tracer", LD_PRELOAD=str(library),
                   ASAN_OPTIONS="verify_asan_link_order=0")
        r = subprocess.run([WATCHCTL, "-p", str(v.pid), "-v", "stop", "-w", "-q", "-t", "0.01", "--engine", "ptrace"],
                           env=env, capture_output=True, timeout=WAIT)
        assert settled(v) and v.alive(), f"killed at step {at}, the program died: {v.process.wait()}"
        assert state_of(v.pid) in "RS" and set(debug_registers(v.pid).values()) == {0}, at
        if r.returncode == 0:
            break
    assert 20 < at < 499
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def naps(v):
    """How often each thread but the first, which sleeps for good, has gone to sleep; of a program that has died, nothing."""
    found = {}
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{v.pid}/task").iterdir():
            if task.name != str(v.pid):
                found[task.name] = int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.M)[1])
    return found


@pytest.mark.slow
@pytest.mark.alone
def test_a_killed_tracer_seldom_costs_a_program_that_hits_now_and_then(victim, trace):
    """Two threads, 20 hits a second: what is in the open is some 0.2 ms (see ptrace_guard.h), so 1 in 250."""
    deaths = 0
    for i in range(12):
        v = victim("hammer", 2, 100000)
        w = trace("-p", v.pid, "-v", "scratch", "-s", "8", "-w", "-q")
        time.sleep(0.01 * i)
        os.kill(helpers(v.pid)["dregs-tracer"], signal.SIGKILL)
        w.end(sig=None, expect=None)
        settled(v)
        so_far = naps(v)
        # Each has gone on to its next hits.
        wait_until(lambda: not v.alive() or all(n > so_far.get(tid, 0) + 2 for tid, n in naps(v).items()))
        deaths += not v.alive()
        v.process.kill()
    assert deaths <= 2
