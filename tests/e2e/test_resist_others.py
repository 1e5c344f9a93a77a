# rooms: target engine
"""Others at the same program: debuggers and tracers before us, beside us and after us, and a crowd of watchctls."""
import random
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, snapshot, wait_until

PERM, SLOTS = 4, 6
ENGINES = {
    "handler": ["--engine", "handler"],
    "handler -i": ["--engine", "handler", "-i", "2"],
    "ring": ["--engine", "ring"],
    "ptrace": ["--engine", "ptrace"],
}
each_engine = pytest.mark.parametrize("engine", ENGINES)


def tracer(pid):
    return int(re.search(r"^TracerPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def code_of_ours(pid, before):
    executable = lambda maps: [m for m in maps if "r-xp" in m]
    return executable(snapshot(pid)["maps"]) != executable(before["maps"])


class Gdb:
    """gdb on a running program, which goes on under it."""

    def __init__(self, pid, *commands):
        first = ["set pagination off", "set confirm off", "set debuginfod enabled off", *commands]
        self.process = subprocess.Popen(["gdb", "-q", "-nx", *[x for c in first for x in ("-ex", c)], "-p", str(pid)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, bufsize=1)
        self.pid = pid

    def tell(self, *lines):
        for line in lines:
            self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def goes_on(self):
        self.tell("continue")
        wait_until(lambda: tracer(self.pid) == self.process.pid and state(self.pid) in "SR")

    def leave(self):
        """What it printed."""
        if tracer(self.pid) == self.process.pid and state(self.pid) != "t":
            self.process.send_signal(signal.SIGINT)
            wait_until(lambda: state(self.pid) == "t")
        self.tell("detach", "quit")
        return self.process.communicate(timeout=WAIT)[0]


class Strace:
    def __init__(self, pid, *_):
        self.process = subprocess.Popen(["strace", "-f", "-o", "/dev/stdout", "-p", str(pid)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.pid = pid

    def goes_on(self):
        wait_until(lambda: tracer(self.pid) == self.process.pid and state(self.pid) in "SR")

    def leave(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=WAIT)
        return out + err


@pytest.fixture
def attach():
    running = []

    def start(tool, pid, *commands):
        if not shutil.which(tool):
            pytest.skip(f"needs {tool}")
        running.append({"gdb": Gdb, "strace": Strace}[tool](pid, *commands))
        return running[-1]

    yield start
    for r in running:
        if r.process.poll() is None:
            r.process.kill()
        r.process.wait()


@pytest.fixture
def crowded(victim):
    v = victim("resist_procs")
    v.tell("crowd 2")
    return v


@pytest.mark.parametrize("tool", ["gdb", "strace"])
def test_beside_a_tracer_that_was_there_before_only_the_ring_works(crowded, attach, watch, run, tool):
    v = crowded
    t = attach(tool, v.pid)
    t.goes_on()
    for name, options in ENGINES.items():
        if name == "ring":
            continue
        r = run("-p", v.pid, "-v", "flag", "-w", *options)
        assert r.returncode == PERM and f"{tool} (process {t.process.pid})" in r.stderr, r.stderr
        assert "--engine ring" in r.stderr or "another engine" in r.stderr
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "ring")
    assert v.tell("work 3") == "6"
    w.end()
    assert w.summary()["recorded"] == 6 and w.balanced()
    seen = t.leave()
    assert "SIGTRAP" not in seen
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "handler")  # and after it, all is as ever
    assert v.tell("work 3") == "6"
    w.end()
    assert w.summary()["recorded"] == 6


@each_engine
def test_strace_beside_us_sees_our_signals_and_disturbs_neither(crowded, attach, watch, run, engine):
    v = crowded
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
    assert v.tell("work 2") == "4"
    t = attach("strace", v.pid)
    if engine == "ptrace":  # a process has one tracer
        assert "Operation not permitted" in t.process.communicate(timeout=WAIT)[1]
    else:
        t.goes_on()
    assert v.tell("work 3") == "6"
    seen = t.leave() if engine != "ptrace" else ""
    w.end()
    assert w.summary()["recorded"] == 10 and w.summary()["lost"] == 0
    assert seen.count("--- SIGTRAP") == (6 if engine.startswith("handler") else 0)
    assert snapshot(v.pid)["signals"] == before["signals"] and not code_of_ours(v.pid, before)


@each_engine
def test_gdb_that_comes_while_we_are_there_is_told_or_works(crowded, attach, watch, run, engine):
    """It takes SIGTRAP for its own: with the handler engine each hit stops it, and is lost, and counted as that."""
    v = crowded
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
    assert v.tell("work 2") == "4"
    g = attach("gdb", v.pid, "handle SIGTRAP nostop noprint pass")
    if engine == "ptrace":
        wait_until(lambda: "already traced" in g.process.stdout.readline())
        g.tell("quit")
    else:
        g.goes_on()
    assert v.tell("work 3") == "6"
    if engine != "ptrace":
        g.leave()
    w.end()
    summary = w.summary()
    if engine == "handler -i":  # gdb clears all debug registers when it comes
        assert summary["recorded"] in (4, 10)
        assert any(f"gdb (process {g.process.pid}) traces the program now" in n["text"] for n in w.of("note"))
    else:
        assert summary["recorded"] == summary["counted"] == 10, (summary, w.stderr)
    assert snapshot(v.pid)["signals"] == before["signals"] and not code_of_ours(v.pid, before)
    assert v.tell("work 1") == "2"


def test_what_gdb_swallows_is_lost_and_said_and_hurts_nobody(crowded, attach, watch, run):
    """By default gdb keeps a SIGTRAP to itself, and stops."""
    v = crowded
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "handler")
    assert v.tell("work 2") == "4"
    g = attach("gdb", v.pid)
    g.goes_on()
    v.send("work 1")
    wait_until(lambda: state(v.pid) == "t")
    assert "SIGTRAP" in g.leave()
    assert v.process.stdout.readline() == "ok 2\n"
    w.end()
    s = w.summary()
    assert s["counted"] == 6 and s["recorded"] + s["lost"] == 6 and s["recorded"] >= 4
    assert v.tell("work 1") == "2"


@each_engine
def test_a_tracer_that_is_still_there_when_we_leave(crowded, attach, watch, run, engine):
    """What cannot be taken out then is said, does nothing, and goes with the next clear."""
    if engine == "ptrace":
        pytest.skip("it is the tracer itself")
    v = crowded
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
    assert v.tell("work 2") == "4"
    t = attach("strace", v.pid)
    t.goes_on()
    w.end(expect=None)
    assert w.summary()["recorded"] == 4
    if engine == "ring":
        assert w.process.returncode == 0
    else:
        assert w.process.returncode in (1, PERM) and "left in p" in w.stderr and "watchctl clear" in w.stderr
    assert v.tell("work 2") == "4"
    t.leave()
    assert run("clear", "-p", v.pid).returncode == 0
    assert snapshot(v.pid)["signals"] == before["signals"] and not code_of_ours(v.pid, before)
    assert v.tell("work 2") == "4"


@pytest.mark.parametrize("engine", ["handler", "handler -i", "ring"])
def test_gdb_itself_is_watched_while_it_debugs(victim, build, attach, watch, engine):
    """A program that lives on SIGTRAP, SIGCHLD and ptrace stops of another one."""
    v = victim("resist_procs")
    g = attach("gdb", v.pid, "break write_flag")
    wait_until(lambda: tracer(v.pid) == g.process.pid)
    w = watch("-p", g.process.pid, "-v", "libc.so.6:main_arena.system_mem", "-rw", *ENGINES[engine])
    g.tell("continue")
    v.send("write 2")
    for i in range(2):
        wait_until(lambda: state(v.pid) == "t")
        g.tell(f"print i == {i}", "continue")
        wait_until(lambda: i == 1 or state(v.pid) == "t")
    assert v.process.stdout.readline() == "ok\n"
    w.end()
    assert w.balanced() if "counted" in w.summary() else True
    said = g.leave()
    assert said.count("Breakpoint 1, write_flag") == 2 and "$1 = 1" in said and "$2 = 1" in said, said
    assert v.tell("write 2") == ""


# A crowd of watchctls

@pytest.mark.slow
@each_engine
def test_of_16_watchctls_those_that_get_a_register_work_and_the_others_say_why(victim, run, engine):
    """
    There are four registers. Some of us are killed; nobody is harmed, and all four are free afterwards. Who ends while
    another's handler stands in front of its own leaves it mapped, and says so: the next `clear` takes it out.
    """
    v = victim("resist_procs")
    v.tell("crowd 2")
    before = snapshot(v.pid)
    rng = random.Random(engine)
    options = ["-q", "-p", str(v.pid), "-v", "flag", "-w", *ENGINES[engine]]
    for turn in range(1 if engine == "ring" else 2):  # whose programs take their time to be loaded
        crowd = [subprocess.Popen([WATCHCTL, *options, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) for _ in range(16)]
        lines = [p.stdout.readline() for p in crowd]  # the process, or nothing: it ended
        lines = [line and p.stdout.readline() for p, line in zip(crowd, lines)]
        at_work = [p for p, line in zip(crowd, lines) if '"armed"' in line]
        if engine in ("handler -i", "ptrace"):
            assert len(at_work) <= 1  # that register; that tracer
        if engine != "handler -i":  # each may find some of the threads taken by another, which does, too
            assert 1 <= len(at_work) <= 4
        for p in crowd:
            if p in at_work:
                continue
            _, err = p.communicate(timeout=WAIT)
            assert p.returncode in ((SLOTS, PERM, 7) if engine != "ring" else (SLOTS,)), err
            assert err.startswith("watchctl: ") and err.count("\n") == 1, err
        if turn == 0:
            assert v.tell("work 3") == "6"
        for p in at_work:
            if turn and engine != "handler -i" and rng.random() < 0.5:
                p.kill()
            else:
                p.send_signal(signal.SIGINT)
        for p, out in [(p, p.communicate(timeout=WAIT)) for p in at_work]:
            assert p.returncode in (0, -signal.SIGKILL) or "watchctl's is left mapped" in out[1], out
            if turn == 0:
                counted = re.search(r'"summary".*?"recorded":(\d+),"lost":(\d+)', out[0])
                assert 6 <= int(counted[1]) + int(counted[2]) < 6 + len(crowd), out  # the others' known accesses
    wait_until(lambda: tracer(v.pid) == 0)
    wait_until(lambda: run("clear", "-p", v.pid).returncode == 0)
    r = run("clear", "-p", v.pid)
    assert r.returncode == 0, r.stderr
    assert snapshot(v.pid)["signals"] == before["signals"] and not code_of_ours(v.pid, before)
    r = run("-p", v.pid, *[x for n in range(3) for x in ("-v", f"0x{address(v) + 8 * n:x}", "-s", "8")], "-t", "0.01",
            "--engine", "ring")
    assert r.returncode == 0, r.stderr
    assert v.tell("work 3") == "6" and v.finish() == 0


def test_one_watchctl_at_a_time_names_its_register_and_gets_all_that_hits_it(victim, watch, run):
    """Such a hit tells nobody whose it is: the last handler that was put there would take the others'."""
    v = victim("resist_procs")
    v.tell("crowd 2")
    w = watch("-p", v.pid, "-v", "flag", "-w", "-i", "2")
    for other in "1", "2":
        r = run("-p", v.pid, "-v", "flag", "-w", "-i", other)
        assert r.returncode == SLOTS and "another watchctl has a watch with -i" in r.stderr, r.stderr
    x = watch("-p", v.pid, "-v", f"0x{address(v):x}", "-s", "8", "-w")  # its handler is called first
    assert v.tell("work 3") == "6"
    x.end()
    assert v.tell("work 3") == "6"
    w.end()
    assert w.summary()["recorded"] == 12 and w.summary()["lost"] == 0
    w = watch("-p", v.pid, "-v", "flag", "-w", "-i", "1")
    w.process.kill()
    w.process.wait()
    r = run("-p", v.pid, "-v", "flag", "-w", "-i", "3")
    assert r.returncode == SLOTS and "debug register 1 of thread" in r.stderr, r.stderr
    assert run("clear", "-p", v.pid).returncode == 0
    w = watch("-p", v.pid, "-v", "flag", "-w", "-i", "3")
    assert v.tell("work 3") == "6"
    w.end()
    assert w.summary()["recorded"] == 6


def address(v):
    """Of memory of its own to watch: the beginning of its stack."""
    line = next(x for x in Path(f"/proc/{v.pid}/maps").read_text().splitlines() if x.endswith("[stack]"))
    return int(line.split("-")[0], 16)
