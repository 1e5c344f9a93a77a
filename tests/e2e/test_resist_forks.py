# rooms: target/inject
"""Servers that fork while a watch comes and goes: nothing of us is left in any child, or it is said in which, and why."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, Victim, wait_until

UNSAFE, DENIED = 7, 4
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

KINDS = "plain threads stopped session parent vm namespace user"
RESTLESS = ["busy", "breeder", "hopper"]  # few of these
ENGINES = {
    "handler": ["--engine", "handler"],
    "handler, follow": ["--engine", "handler", "--fork", "follow"],
    "handler, private": ["--engine", "handler", "--private-buffer"],
    "handler -i": ["--engine", "handler", "-i", "2"],
}


def family(exe):
    """Processes that run the victim, whoever their parents are now."""
    found = []
    for p in Path("/proc").iterdir():
        try:
            if p.name.isdigit() and os.readlink(p / "exe") == exe:
                found.append(int(p.name))
        except OSError:
            continue
    return found


def carries(pid):
    """What of a handler is in a process that has none by itself: code of no file, shared memory, an action for SIGTRAP."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    found = [line for line in maps if re.search(r"^\S+ (r-xp \S+ \S+ 0 *$|rw-s .*/dev/zero)", line)]
    caught = re.search(r"^SigCgt:\s*(\S+)", status, re.M)
    if caught and int(caught[1], 16) >> (signal.SIGTRAP - 1) & 1:
        found.append("SIGTRAP is caught")
    return found


def carriers(exe):
    return {pid: found for pid in family(exe) if (found := carries(pid))}


@pytest.fixture
def server(build):
    """A forking server of its own, in a folder that all may read; what is left of it is killed, also what has stopped itself."""
    folder = Path(tempfile.mkdtemp(prefix="forker-"))
    folder.chmod(0o755)
    exe = str(shutil.copy(build("forker"), folder))
    started = []

    def start(*before):
        started.append(Victim(before[0], *before[1:], exe) if before else Victim(exe))
        return started[-1]

    start.exe, start.folder = exe, folder
    yield start
    for pid in family(exe):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for v in started:
        v.process.wait()
    shutil.rmtree(folder)


def end(v):
    """None is ended otherwise than by the SIGTRAP that it is sent at last."""
    lived, otherwise = map(int, v.tell("end").split())
    assert otherwise == 0
    assert v.finish() == 0
    return lived


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_left_in_children_that_are_forked_while_watches_come_and_go(server, hardware, engine):
    """Of a server every fifth child of which lives on, in any way that a process may live."""
    v = server()
    for kind in RESTLESS:
        v.tell(f"one {kind}")
    v.tell(f"storm 150 15 {KINDS}")
    for _ in range(2):
        r = subprocess.run([WATCHCTL, "-p", str(v.pid), "-v", "flag", "-w", *ENGINES[engine], "-q", "-t", "0.2"], capture_output=True,
                           text=True, timeout=2 * WAIT)
        assert not carriers(server.exe) and r.returncode == 0, r.stderr
    forked, rate = v.tell("still").split()
    lived = end(v)
    print(f"{engine}: {forked} forked, {rate} a second; {lived} lived on")
    assert lived > 5


def ignores_trap(pid):
    ignored = re.search(r"^SigIgn:\s*(\S+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(ignored[1], 16) >> (signal.SIGTRAP - 1) & 1


@pytest.mark.parametrize("follow", ["ignore", "follow"])
def test_children_of_a_program_that_ignores_sigtrap_ignore_it_too(server, watch, follow):
    """A hit by the ptrace engine makes the kernel forget that until the watch ends: those that are forked meanwhile, for ever."""
    v = server("env", "--ignore-signal=TRAP")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "ptrace", "--fork", follow)
    v.tell("write 3")
    children = [int(v.tell("one plain")) for _ in range(5)]
    assert not ignores_trap(v.pid)
    assert follow == "follow" or wait_until(lambda: all(map(ignores_trap, children)))  # each as it is let go of
    w.end()
    assert w.summary()["recorded"] == 3
    assert all(map(ignores_trap, [v.pid, *children]))


def test_children_that_cannot_let_go_are_named_and_are_cleared_when_they_can(server, hardware, watch, run):
    """One is under seccomp, one waits for a child in vfork: a system call of ours could kill the one, the other cannot stop."""
    v = server()
    w = watch("-p", v.pid, "-v", "flag", "-w")
    filtered, waiting, other = (int(v.tell(f"one {kind}")) for kind in ("seccomp", "vfork", "plain"))
    wait_until(lambda: len(family(server.exe)) == 5)
    in_vfork = next(pid for pid in family(server.exe) if pid not in (v.pid, filtered, waiting, other))
    w.end(expect=UNSAFE)  # within a bound, though two of them never let go
    left = set(carriers(server.exe))
    assert {filtered, waiting} <= left <= {filtered, waiting, in_vfork}
    assert re.search(rf"left in {len(left)} processes forked by process {v.pid}", w.stderr), w.stderr
    assert all(str(pid) in w.stderr for pid in left) and f"clear -p {v.pid} --children" in w.stderr
    os.kill(in_vfork, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{in_vfork}/maps").read_text())
    r = run("clear", "-p", v.pid, "--children")
    assert r.returncode == UNSAFE and "1 process that" in r.stdout and set(carriers(server.exe)) == {filtered}, (r.stdout, r.stderr)
    os.kill(filtered, signal.SIGKILL)
    assert "nothing to clear" in run("clear", "-p", v.pid, "--children").stdout
    assert v.finish() == 0


@pytest.mark.slow
def test_what_a_killed_watchctl_left_in_children_is_taken_out_at_once(server, hardware, watch, run):
    """Also when the server has ended, and also in those that were forked when another one had come after it."""
    v = server()
    v.tell("storm 50 5 plain threads session")
    watch("-p", v.pid, "-v", "flag", "-w").end(signal.SIGKILL, expect=None)
    wait_until(lambda: len(carriers(server.exe)) > 5)
    time.sleep(1.2)  # it must have been silent for a second
    w = watch("-p", v.pid, "-v", "flag", "-w")  # takes over, and takes out, what is left
    wait_until(lambda: carriers(server.exe))  # who is forked now inherits what is new
    w.end()
    assert not carriers(server.exe)
    v.tell("still")
    watch("-p", v.pid, "-v", "flag", "-rw").end(signal.SIGKILL, expect=None)
    for _ in range(5):
        v.tell("one stopped")  # the others end with the server
    os.kill(v.pid, signal.SIGKILL)
    v.process.wait()
    wait_until(lambda: len(family(server.exe)) == 5)
    assert len(carriers(server.exe)) == 5
    objects = [json.loads(line) for line in run("clear", "-p", v.pid, "--children", "--json").stdout.splitlines()]
    assert [(o.get("what"), o.get("processes")) for o in objects] == [("children", 5)] and not carriers(server.exe), objects


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes root and setpriv")
def test_a_child_that_a_plain_user_may_not_look_at_is_named(server, hardware, run):
    """It has made itself undumpable: root takes it out. One that has executed another program has nothing of ours."""
    v = server(*NOBODY)
    ours = str(shutil.copy(WATCHCTL, server.folder))
    w = subprocess.Popen([*NOBODY, ours, "-p", str(v.pid), "-v", "flag", "-w", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    assert any('"armed"' in line for line in w.stdout)
    hidden = int(v.tell("one undumpable"))
    v.tell("one plain")
    wait_until(lambda: Path(f"/proc/{hidden}/maps").stat().st_uid == 0)
    w.send_signal(signal.SIGINT)
    said = w.communicate(timeout=WAIT)[1]
    assert w.returncode == DENIED and f"({hidden})" in said and "run as root" in said, said
    assert set(carriers(server.exe)) == {hidden}
    assert run("clear", "-p", v.pid, "--children").returncode == 0 and not carriers(server.exe)
    assert end(v) == 2
