# rooms: target
"""Programs whose first thread has ended while others go on: the kernel shows their memory under another number."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import WATCHCTL, wait_until

ENGINES = ["handler", "ring", "ptrace"]


def state_of(pid):
    return re.search(r"^State:\s*(\S)", Path(f"/proc/{pid}/status").read_text(), re.M)[1]


def code(pid):
    """Where a living thread's code lies: files and the vdso, and nothing of ours."""
    tid = max(map(int, os.listdir(f"/proc/{pid}/task")))
    lines = Path(f"/proc/{pid}/task/{tid}/maps").read_text().splitlines()
    # pthread_exit() loads libgcc_s
    return [line.split()[5:] for line in lines if "x" in line.split()[1] and "libgcc_s" not in line]


def functions(access):
    return [f.get("function") for f in access["stack"]]


@pytest.mark.parametrize("engine", ENGINES)
def test_it_can_be_watched(victim, watch, engine):
    v = victim("puppet")
    v.tell("lead")
    assert state_of(v.pid) == "Z"
    before = code(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-rw", "--engine", engine)
    v.tell("write 3")
    v.tell("read 2")
    v.tell("thread 2")
    w.end()
    assert [(a["kind"], a["function"]) for a in w.accesses] == (
        [("write", "write_flag")] * 3 + [("read", "read_flag")] * 2 + [("write", "write_flag")] * 2)
    assert [a["new"] for a in w.accesses[:3]] == ["0x0", "0x1", "0x2"]
    assert all("obey_all" in functions(a) for a in w.accesses[:5])
    assert w.balanced()
    v.tell("write 1")
    assert code(v.pid) == before
    assert v.finish() == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_thread_may_end_while_it_is_watched(victim, watch, engine):
    v = victim("puppet")
    before = code(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", engine)
    v.tell("write 2")
    v.tell("lead")
    v.tell("inc 2")
    v.tell("thread 2")
    w.end()
    assert [a["function"] for a in w.accesses] == ["write_flag"] * 2 + ["inc_flag"] * 2 + ["write_flag"] * 2
    assert w.balanced()
    assert code(v.pid) == before
    v.tell("write 1")
    assert v.finish() == 0


def test_its_calls_can_be_recorded(victim):
    v = victim("puppet")
    v.tell("lead")
    p = subprocess.Popen([WATCHCTL, "step", "-p", str(v.pid), "--from", "write_flag", "--count", "2", "--json"],
                         stdout=subprocess.PIPE, text=True)
    wait_until(lambda: v.tell("write 1") == "" and p.poll() is not None)
    calls = [o for o in map(json.loads, p.stdout) if o["type"] == "call"]
    assert p.returncode == 0
    assert [(o["function"], o["args"][0]["text"]) for o in calls] == [("write_flag", "0")] * 2
    assert all("obey_all" in functions(o) for o in calls)
    v.tell("write 1")
    assert v.finish() == 0


def test_what_has_ended_altogether_is_a_zombie(run):
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        r = run("-p", pid, "-v", "flag", "-t", "1")
        assert r.returncode == 3 and "is a zombie" in r.stderr
    finally:
        os.waitpid(pid, 0)
