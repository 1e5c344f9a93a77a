# rooms: patch monitor
"""Probes in a program and watches of its variables at the same time."""

import os
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT, WATCHCTL  # noqa: E402
from test_leaderless import state_of  # noqa: E402
from test_patch_live import of_type, report, wait_until  # noqa: E402

PROBES = """
#include <watchctl/probe.h>
PROBE(value) { probe_value(p->regs->rdi); }
"""
N = 300


@pytest.fixture
def probes(tmp_path):
    path = tmp_path / "probes.c"
    path.write_text(PROBES)
    return str(path)


def check(events):
    """Of add() @N times and of add_to() as often, as the program counts itself: each call and each write, in the order they came in."""
    values = [int(e["value"], 16) for e in of_type(events, "probe")]
    accesses = of_type(events, "access")
    assert values == list(range(N))
    assert [int(a["new"], 16) for a in accesses[1::2]] == [i * (i + 1) // 2 + i + 1 for i in range(N)]
    order = [e["type"] for e in events if e["type"] in ("probe", "access")]
    assert order == ["probe", "access", "access"] * N
    watch, calls = of_type(events, "summary")
    assert (watch["counted"], watch["recorded"], watch["lost"]) == (2 * N, 2 * N, 0)
    assert (calls["reached"], calls["recorded"], calls["lost"]) == (N, N, 0)
    assert len(of_type(events, "process")) == 1


@pytest.mark.parametrize("engine", ["handler", "ring"])
def test_a_running_program_is_watched_and_probed_into_one_log(build, probes, tmp_path, hardware, engine):
    log = tmp_path / "log"
    p = subprocess.Popen([build("summed"), str(N), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        w = subprocess.Popen([WATCHCTL, "patch", "-p", str(p.pid), "--at", "entry add", "--call", "value", probes, "-v", "total", "-w", "--engine",
                              engine, "-o", str(log), "-t", "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "watching total" not in w.stdout.readline():
            pass
        print("go", file=p.stdin, flush=True)
        assert p.stdout.readline() == f"{N * (N - 1) // 2 + N}\n"
        print("end", file=p.stdin, flush=True)
        assert p.wait(WAIT) == 0
        assert w.wait(WAIT) == 0, w.stderr.read()
    finally:
        p.kill()
    check(report(log))


def test_a_thread_keeps_its_name_where_its_probes_are_read_after_its_end(build, probes, tmp_path, hardware):
    """watchctl stands while the program leaves: nobody can be asked for the name then, and the watch has it from before."""
    log = tmp_path / "log"
    p = subprocess.Popen([build("summed"), str(N), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    w = None
    try:
        assert p.stdout.readline() == "ready\n"
        w = subprocess.Popen([WATCHCTL, "patch", "-p", str(p.pid), "--at", "entry _exit", "--in", "libc.so.6", "--call", "value", probes, "-v", "total",
                              "-w", "-o", str(log), "-t", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while "watching total" not in w.stdout.readline():
            pass
        print("go", file=p.stdin, flush=True)
        assert p.stdout.readline() == f"{N * (N - 1) // 2 + N}\n"
        wait_until(lambda: len(of_type(report(log), "access")) == 2 * N)
        os.kill(w.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(w.pid) == "T")
        print("end", file=p.stdin, flush=True)
        assert p.wait(WAIT) == 0
        os.kill(w.pid, signal.SIGCONT)
        assert w.wait(WAIT) == 0, w.stderr.read()
    finally:
        p.kill()
        if w:
            w.kill()
    events = report(log)
    assert [e["comm"] for e in of_type(events, "access")] == ["summed"] * 2 * N
    assert [e["comm"] for e in of_type(events, "probe")] == ["summed"]


def test_a_launched_program_is_both_from_its_first_instruction_on(build, probes, tmp_path, hardware):
    log = tmp_path / "log"
    done = subprocess.run([WATCHCTL, "patch", "--at", "entry add", "--call", "value", probes, "-v", "total", "-w", "-o", str(log), "--", build("summed"),
                           str(N)], capture_output=True, text=True, timeout=WAIT)
    assert (done.returncode, done.stdout) == (0, f"{N * (N - 1) // 2 + N}\n"), done.stderr
    check(report(log))


def told(log):
    """Of each access, where it was made, how, with which values, and from where it was called."""
    return [(a["function"], a["offset"], a["kind"], a["old"], a["new"], a["insn"], [(f["function"], f["offset"]) for f in a["stack"]])
            for a in of_type(report(log), "access")]


@pytest.mark.parametrize("engine", ["handler", "ring"])
@pytest.mark.parametrize("pattern", ["reads [*]", "writes [*]", "add *, *", "@ret"])
def test_an_access_by_a_moved_instruction_is_told_as_if_it_stood_where_it_was(build, probes, tmp_path, hardware, engine, pattern):
    """The same program without probes is the oracle."""
    plain, patched = tmp_path / "plain", tmp_path / "patched"
    watch = ["-v", "total", "-rw", "--engine", engine]
    for words in (["-o", str(plain)], ["-o", str(patched)]):
        extra = ["patch", "--at", pattern, "--function", "add*", "--call", "value", probes] if words[1] == str(patched) else []
        done = subprocess.run([WATCHCTL, *extra, *watch, *words, "--", build("summed"), "4"], capture_output=True, text=True, timeout=WAIT)
        assert done.returncode == 0, done.stderr
    assert len(told(plain)) == 17
    assert told(patched) == told(plain)


def test_another_watchctl_tells_accesses_by_moved_instructions_too(build, probes, tmp_path, hardware):
    p = subprocess.Popen([build("summed"), str(N), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        w = subprocess.Popen([WATCHCTL, "patch", "-p", str(p.pid), "--at", "entry add_to", "--call", "value", probes, "-t", "30"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert "process" in w.stdout.readline()
        while "0 sites" in (listed := subprocess.run([WATCHCTL, "patch", "list", "-p", str(p.pid)], capture_output=True, text=True, timeout=WAIT).stdout):
            assert w.poll() is None, listed
        log = tmp_path / "log"
        v = subprocess.Popen([WATCHCTL, "-p", str(p.pid), "-v", "total", "-w", "-o", str(log), "-n", str(2 * N)], stdout=subprocess.PIPE, text=True)
        while "watching total" not in v.stdout.readline():
            pass
        print("go", file=p.stdin, flush=True)
        assert p.stdout.readline() == f"{N * (N - 1) // 2 + N}\n"
        assert v.wait(WAIT) == 0
        w.terminate()
        assert w.wait(WAIT) == 0
    finally:
        p.kill()
        p.wait()
    accesses = of_type(report(log), "access")
    assert [(a["function"], a["insn"]) for a in accesses] == [("add", accesses[0]["insn"]), ("add_to", "mov qword ptr [rdi], rax")] * N


@pytest.mark.parametrize("words, says", [
    (["-v", "add", "-x"], "a probe runs at every execution"),
    (["-v", "no_such"], "no_such"),
    (["--engine", "ring"], "name one with -v"),
    (["-w"], "put it after the -v EXPR"),
])
def test_what_does_not_go_together_is_said_and_nothing_is_started(build, probes, tmp_path, hardware, words, says):
    done = subprocess.run([WATCHCTL, "patch", "--at", "entry add", "--call", "value", probes, *words, "-o", str(tmp_path / "log"), "--", build("summed"),
                           "3"], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode != 0 and says in done.stderr, done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "log").exists()
