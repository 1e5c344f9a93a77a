# rooms: engine
"""Threads that are born and end by the thousand, in crowds and in odd ways, while each engine comes and goes."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, snapshot, wait_until
from test_ptrace import debug_registers

ENGINES = {
    "handler": ["--engine", "handler"],
    "handler -i": ["--engine", "handler", "-i", "2"],
    "ring": ["--engine", "ring"],
    "ptrace": ["--engine", "ptrace"],
}
each_engine = pytest.mark.parametrize("engine", ENGINES)
CROWD = 200


def counts(w):
    """Of perf or of the tracer; with -i nobody counts, and what was recorded is all that is known."""
    s = w.summary()
    return s.get("counted", s["recorded"]), s["recorded"] + s["lost"] + s["filtered"]


@pytest.fixture
def procs(victim):
    """The victim, after its first thread: libc installs a handler of its own with it."""

    def start():
        v = victim("resist_procs")
        v.tell("births 1 1 1")
        return v

    return start


def signals(pid):
    return snapshot(pid)["signals"]


def carries(pid):
    """The debug registers that the kernel keeps for each thread, by a tracer of our own."""
    return set(debug_registers(pid).values())


@each_engine
def test_threads_that_are_born_by_the_thousand_are_all_counted(procs, watch, engine):
    v = procs()
    before = signals(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine], "--no-stack", "-q")
    writes, per_second = map(int, v.tell("births 4 500 3").split())
    w.end()
    counted, accounted = counts(w)
    print(f"{engine}: {per_second} threads a second, {counted} of {writes} writes")
    assert writes == 6000 and counted == accounted
    if engine == "handler -i":
        assert counted <= writes  # a thread is armed within 50 ms, which few of these live
    else:
        assert counted == writes
    assert signals(v.pid) == before
    assert v.finish() == 0


@each_engine
def test_watches_come_and_go_while_threads_are_born_and_die(procs, watch, engine):
    v = procs()
    before = signals(v.pid)
    v.tell("churn 2 1")
    for _ in range(2):
        w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine], "--no-stack", "-q")
        armed = w.of("armed")[0]
        assert armed["threads_armed"] == armed["threads"]
        w.end()
        counted, accounted = counts(w)
        assert counted == accounted
    writes, per_second = map(int, v.tell("still").split())
    print(f"{engine}: {per_second} threads a second, with two watches that came and went")
    assert writes > 0
    assert v.tell("births 2 20 5").split()[0] == "200"  # none of the hits finds nobody
    assert signals(v.pid) == before
    assert v.finish() == 0


@each_engine
def test_each_of_200_threads_is_armed_and_none_keeps_anything(procs, watch, engine):
    v = procs()
    v.tell(f"crowd {CROWD}")
    before = signals(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
    assert w.of("armed")[0]["threads"] == w.of("armed")[0]["threads_armed"] == CROWD + 1
    assert v.tell("work 3") == str(3 * CROWD)
    w.end()
    assert counts(w) == (3 * CROWD, 3 * CROWD) and w.summary()["lost"] == 0
    by_thread = {a["tid"] for a in w.accesses}
    assert by_thread == {int(t) for t in os.listdir(f"/proc/{v.pid}/task")} - {v.pid}
    assert signals(v.pid) == before and carries(v.pid) == {0}
    assert v.tell("work 3") == str(3 * CROWD)
    assert v.finish() == 0


def test_threads_that_are_born_under_a_register_of_ones_choice_are_armed(procs, watch):
    """The kernel shows each new thread its maker's control register, although nothing is armed in it."""
    v = procs()
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES["handler -i"])
    v.tell("crowd 4")
    found = 0
    while found < 4:  # those that are armed by now write while the others are still to be found
        v.tell("work 1")
        assert w.process.poll() is None, w.stderr
        found = len({a["tid"] for a in w.accesses})
    w.end()
    assert v.finish() == 0


@pytest.mark.parametrize("engine", ["handler -i", "ptrace"])
def test_a_register_that_a_thread_has_inherited_in_name_only_is_not_listed_as_armed(procs, watch, run, engine):
    v = procs()
    w = watch("-p", v.pid, "-v", "flag", "-w", "-i", "2", *ENGINES[engine][:2])
    v.tell("churn 2 1")
    v.tell("still")
    w.end()
    v.tell("crowd 2")
    assert "DR2" not in run("list", "-p", v.pid).stdout
    assert "nothing to clear" in run("clear", "-p", v.pid).stdout
    v.tell("work 5")
    assert v.finish() == 0


ODD = ["vm", "vmvfork", "sighand", "files", "parent", "silent", "clear", "raw"]
SHARING = ("vm", "vmvfork", "sighand", "silent", "raw")  # it writes the same memory
TRAPPED = ("vm", "files")  # it has SIGTRAP actions of its own, and can be seen to die of the signal


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["handler", "handler -i", "ptrace"])  # the ring touches no task
def test_tasks_made_by_odd_flags_are_left_as_they_are(procs, watch, engine):
    """
    What clone(2) can make beside threads and forks: another process's accesses are its own (docs/limits.md), but it
    may run in the target's memory, with the target's handler, or a copy of its actions; and must find none of us left.
    """
    v = procs()
    v.tell("crowd 1")
    v.tell("odd vm 1")  # maps its stack, which stays
    v.tell("end")
    before = snapshot(v.pid)
    for kind in ODD:
        w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
        v.tell(f"odd {kind} 4")
        v.tell("write 2")
        w.end(expect=None)
        late = engine != "handler" and kind == "vmvfork"  # its maker cannot be stopped while it waits
        # Nobody can tell a child whose actions were cleared from one that has asked for ours and set its own.
        kept = kind == "clear" and "may restore watchctl's" in w.stderr
        assert w.process.returncode == 0 or (late and w.process.returncode in (1, 7)) or kept, (kind, w.stderr)
        assert counts(w)[0] == counts(w)[1]
        if engine != "handler -i":  # where the thread is armed within 50 ms
            assert counts(w)[0] == (6 if kind == "raw" else 2), kind
        v.tell("write 2")
        if kind in SHARING:
            v.tell("more 3")
        assert v.tell("trap" if kind in TRAPPED else "end") in ("5", "7", "0", "255"), kind
        if late:
            leave_it_all(v, watch)
        after = snapshot(v.pid)
        assert after["signals"] == before["signals"] and after["fds"] == before["fds"], kind
        assert [m for m in after["maps"] if "r-xp" in m] == [m for m in before["maps"] if "r-xp" in m], kind
    v.tell("write 2")
    assert v.finish() == 0


def leave_it_all(v, watch):
    """What stayed because a thread could not be stopped goes with the next clear."""
    tracer_gone = lambda: re.search(r"TracerPid:\s*0", Path(f"/proc/{v.pid}/status").read_text())
    wait_until(tracer_gone)
    subprocess.run([WATCHCTL, "clear", "-p", str(v.pid)], check=True, capture_output=True, timeout=WAIT)


@pytest.mark.parametrize("kind", TRAPPED)
def test_a_task_in_the_same_memory_dies_of_sigtrap_as_ever(procs, watch, kind):
    """It got a copy of the target's actions, which led to our handler: its own one is put back, too."""
    v = procs()
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "handler")
    v.tell(f"odd {kind} 4")
    w.end()
    assert v.tell("trap") == "5"
    assert v.finish() == 0
