# rooms: target
"""Programs that dispatch their system calls themselves (Wine, Proton): one of ours could end them by SIGSYS."""
import os

import pytest
from conftest import snapshot

NOTSUP = 7
KINDS = ["selector", "range"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for BPF")
pytestmark = pytest.mark.skipif(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 4),
                                reason="the kernel tells of dispatch from Linux 6.4 on")


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_dispatches_is_watched_without_a_system_call_of_ours(victim, watch, run, kind):
    v = victim("resist_dispatch", kind)
    assert v.ask("w 0") == "ok 0"
    before = snapshot(v.pid)
    r = run("-p", v.pid, "-v", "flag", "-w", "--engine", "handler")
    assert r.returncode == NOTSUP and "dispatches system calls itself" in r.stderr and "--engine ring" in r.stderr
    n = 0
    for options, engine in (["--engine", "auto"], "ring"), (["--engine", "ring"], "ring"), (["--engine", "ptrace"], "ptrace"):
        w = watch("-p", v.pid, "-v", "flag", "-w", *options)
        n += 3
        assert v.ask("w 3") == f"ok {n}"
        w.end()
        assert w.of("armed")[0]["engine"] == engine and w.summary()["counted"] == 3 and w.balanced()
    assert snapshot(v.pid) == before
    assert v.ask("w 1") == f"ok {n + 1}"


def test_one_thread_that_dispatches_is_enough(victim, watch, run):
    v = victim("resist_dispatch", "selector", "thread")
    assert v.ask("w 1") == "ok 1"
    r = run("-p", v.pid, "-v", "flag", "-w", "--engine", "handler")
    assert r.returncode == NOTSUP and "dispatches system calls itself" in r.stderr
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "auto")
    assert v.ask("w 3") == "ok 4"
    w.end()
    assert w.of("armed")[0]["engine"] == "ring" and w.summary()["counted"] == 3 and w.balanced()


@needs_root
@pytest.mark.parametrize("how", ["late", "thread"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_begins_to_dispatch_while_watched_is_let_go_unharmed(victim, watch, kind, how):
    """
    From its first hit on the guard records in the handler's place, and loses none. Where a thread is free, or the
    program allows all system calls while it waits, the handler is taken out; else it stays, and does nothing.
    """
    v = victim("resist_dispatch", kind, how)
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "handler", "--verbose")
    answer = v.ask("w 5")
    w.end(sig=None, expect=None)
    if "guard against a replaced SIGTRAP handler: in place" not in w.stderr:
        pytest.skip("this kernel's BPF cannot hold a signal back (Linux 6.11 can)")
    assert answer == "ok 5" and w.process.returncode == NOTSUP
    assert 0 < w.summary()["recorded"] == w.summary()["counted"] and w.summary()["lost"] == 0
    assert "has begun to dispatch system calls itself" in w.of("note")[-1]["text"]
    assert v.ask("w 2") == "ok 7"
    if (kind, how) == ("range", "late"):
        assert "the handler is left in process" in w.stderr and "dispatches system calls itself" in w.stderr
    else:
        ours = [m for m in snapshot(v.pid)["maps"] if "r-xp" in m]
        assert ours == [m for m in before["maps"] if "r-xp" in m]
    assert v.ask("w 1") == "ok 8"


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_of_a_program_that_dispatches_are_recorded(victim, watch, kind):
    """Or that is refused: whatever is done, it does right."""
    v = victim("resist_dispatch", kind)
    w = watch("step", "-p", v.pid, "--from", "write_flag", "--count", 3, wait=False)
    writes = 0
    while w.process.poll() is None:
        writes += 1
        assert v.ask("w 1") == f"ok {writes}"
    w.end(sig=None)
    assert [o["function"] for o in w.of("call")] == ["write_flag"] * 3
    assert v.ask("w 1") == f"ok {writes + 1}"
