# rooms: code/tls engine
"""A thread-local variable of a library that was loaded later: each thread's copy comes into being when it is first used."""
import collections
import re
from pathlib import Path

import pytest
from waiting import wait_until

ENGINES = ["handler", "ptrace"]


def writes(w, name="late"):
    """How many of each thread."""
    return sorted(collections.Counter(a["tid"] for a in w.accesses if a["watch"].split(":")[-1] == name).values())


def expect(w, counts):
    w.end()
    assert w.balanced()
    if w.unheld():
        assert sum(writes(w)) <= sum(counts)
    else:
        assert writes(w) == sorted(counts), (w.of("note"), w.stderr)


@pytest.mark.parametrize("library", ["libtls_late.so", "libtls_late_gnu2.so"])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_write_of_a_copy_that_came_after_the_watch_is_recorded(victim, watch, build, engine, library):
    v = victim("tls_late")
    v.tell(f"load {build(library)}")
    w = watch("-p", v.pid, "-v", f"{library}:late", "-w", "--engine", engine)
    v.tell("tick 20")
    for _ in range(3):
        v.tell("born 5")
    v.tell("tick 1")
    expect(w, [21] * 4 + [5] * 3)
    assert v.finish() == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_that_a_thread_has_already_is_counted_once(victim, watch, build, engine):
    v = victim("tls_late")
    v.tell(f"load {build('libtls_late.so')}")
    v.tell("tick 1")
    w = watch("-p", v.pid, "-v", "late", "-w", "--engine", engine)
    v.tell("tick 3")
    v.tell("born 2")
    expect(w, [3] * 4 + [2])


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_are_seen_beside_those_of_another_library(victim, watch, build, engine):
    """Its coming makes the vectors of all threads out of date, also of those that have their copy already."""
    v = victim("tls_late")
    v.tell(f"load {build('libtls_late.so')}")
    w = watch("-p", v.pid, "-v", "late", "-v", "errno", "-w", "--engine", engine)
    v.tell(f"load {build('libtls_other.so')}")
    v.tell("tick 7")
    v.tell("born 7")
    v.tell(f"load {build('libtls_late.so')}")
    v.tell("tick 2")
    v.tell("born 2")
    w.end()
    assert w.balanced()
    assert writes(w) == [2] * 5 or w.unheld(), w.of("note")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_library_may_come_after_the_watch(victim, watch, build, run, engine):
    v = victim("tls_late")
    w = watch("-p", v.pid, "-v", "libtls_late.so:late", "-w", "--pending", "--engine", engine, wait=False)
    wait_until(lambda: '"used":1' in run("list", "-p", v.pid, "--json").stdout)  # in the loader
    v.tell(f"load {build('libtls_late.so')}")
    v.tell("tick 4")
    v.tell("born 4")
    expect(w, [4] * 5)


def test_it_is_said_where_no_thread_can_be_made_to_wait(victim, watch, build):
    v = victim("tls_late")
    v.tell(f"load {build('libtls_late.so')}")
    w = watch("-p", v.pid, "-v", "late", "-w", "--engine", "ring")
    v.tell("tick 1")
    w.end()
    assert [n for n in w.of("note") if "copies of a library's variables that threads get from now on" in n["text"]]


def test_a_thread_that_has_no_copy_is_stopped_once_and_not_again(victim, watch, build):
    """A sleep with a time limit would begin anew each time, or end with EINTR."""
    def turns():
        tasks = [Path(task) for task in Path(f"/proc/{v.pid}/task").iterdir()]
        return {task.name: re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text())[1]
                for task in tasks if int(task.name) != v.pid}

    v = victim("tls_late")
    v.tell(f"load {build('libtls_late.so')}")
    w = watch("-p", v.pid, "-v", "late", "-w", "--engine", "handler")
    v.tell("born 1")
    before = turns()
    for _ in range(10):  # each makes watchctl look for new copies
        v.tell("born 1")
    assert turns() == before
    expect(w, [1] * 11)
