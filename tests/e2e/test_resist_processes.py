# rooms: target engine
"""Forks, execs, ends, stops and parents: nobody around the watched program sees anything that would not have been."""
import contextlib
import os
import pty
import random
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, Victim, snapshot, wait_until

ENGINES = {
    "handler": ["--engine", "handler"],
    "handler -i": ["--engine", "handler", "-i", "2"],
    "ring": ["--engine", "ring"],
    "ptrace": ["--engine", "ptrace"],
}
each_engine = pytest.mark.parametrize("engine", ENGINES)
EXIT_CODES = (0, 1, 3, 4, 7)  # those of watchctl(1) that a target which ends or stops can lead to


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "-"


@each_engine
def test_a_storm_of_children_of_all_kinds_is_left_alone(victim, watch, engine):
    """fork, vfork, posix_spawn and clone: whoever has memory of its own checks what it wrote there."""
    v = victim("resist_procs")
    v.tell("processes 4 3")
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
    assert v.tell("processes 40 5") == "0"
    v.tell("write 7")
    w.end()
    assert w.summary()["recorded"] == 7 and w.summary()["lost"] == 0 and {a["pid"] for a in w.accesses} == {v.pid}
    v.send("processes 120 5")
    for _ in range(2):
        watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine], "-q").end()
    assert v.process.stdout.readline() == "ok 0\n"
    assert snapshot(v.pid) == before


def test_children_and_odd_tasks_meet_no_breakpoint_of_a_step_recording(victim, watch):
    """Each of them runs through the function that is recorded, in a copy of the memory or in the same."""
    v = victim("resist_procs")
    w = watch("step", "-p", v.pid, "--from", "write_flag", "--count", 1000000, wait=False)
    while not w.of("call"):
        v.tell("write 1")
        assert w.process.poll() is None, w.stderr
    assert v.tell("processes 8 5") == "0"
    for kind in ("vm", "vmvfork", "sighand", "files", "silent", "clear", "raw"):
        v.tell(f"odd {kind} 5")
        if kind not in ("files", "clear"):
            v.tell("more 2")
        assert v.tell("end") in ("7", "0"), kind
    v.tell("write 2")
    w.end()
    calls = w.of("call")
    assert all(o["tid"] == v.pid for o in calls if o["function"] == "usleep")  # while the range of another one is open
    assert {o["function"] for o in calls} - {"usleep"} == {"write_flag"}
    v.tell("write 2")
    assert v.tell("processes 8 5") == "0" and v.finish() == 0


@each_engine
@pytest.mark.parametrize("how", ["exec", "thread_exec"])
def test_a_program_that_executes_itself_is_let_go_and_goes_on(victim, watch, engine, how):
    """From a thread that is not the first, it takes over the first one's number; the others are gone."""
    v = victim("resist_procs")
    v.tell("crowd 3")
    w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
    v.tell("write 2")
    wait_until(lambda: len(w.accesses) == 2)
    v.send(f"{how} {v.process.args[0]}")
    line = v.process.stdout.readline()
    assert f"pid {v.pid}\n" in (line, v.process.stdout.readline() if line == "ok\n" else "")
    assert v.tell("write 3") == "" and v.tell("births 2 3 2").split()[0] == "12"
    w.end(sig=None, expect=3)
    assert w.summary()["recorded"] == 2 and "executed another program" in w.stderr
    assert snapshot(v.pid)["signals"][0] == ("TracerPid", "0")
    assert v.tell("write 3") == "" and v.finish() == 0


@each_engine
def test_a_program_may_end_or_execute_another_at_any_instant(build, hardware, engine):
    """While we attach, arm, watch, leave: it ends as it meant to, and watchctl says so, or is done already."""
    rng = random.Random(engine)
    ends = [("exit 5", 5), ("exec /bin/true", 0), ("thread_exec /bin/true", 0), (None, -signal.SIGKILL)]
    for i in range(12):
        v = Victim(build("resist_procs"))
        w = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "flag", "-w", "-q", "-t", "0.05", *ENGINES[engine]],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        command, code = ends[i % len(ends)]
        time.sleep(rng.choice([0, 0.03, 0.15]) * rng.random() * 2)
        if command:
            v.send(command)
        else:
            v.process.kill()
        assert v.process.wait(timeout=WAIT) == code, (i, command)
        out, err = w.communicate(timeout=WAIT)
        assert w.returncode in (0, 3, 5), (i, command, out, err)  # 5: there is no `flag` in /bin/true
        assert w.returncode == 0 or (err.startswith("watchctl: ") and err.endswith("\n")), err
        v.process.stdin.close()


# A parent

PARENT = """
import os, signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
p = subprocess.Popen(sys.argv[1:], preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD}))
names = {1: "exited", 2: "killed", 3: "dumped", 4: "trapped", 5: "stopped", 6: "continued"}
print("child", p.pid, file=sys.stderr, flush=True)
while True:
    info = signal.sigwaitinfo({signal.SIGCHLD})
    print("signal", names[info.si_code], info.si_status, file=sys.stderr, flush=True)
    while True:
        w = os.waitid(os.P_PID, p.pid, os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        if not w:
            break
        print("wait", names[w.si_code], w.si_status, file=sys.stderr, flush=True)
        if w.si_code in (1, 2, 3):
            sys.exit(0)
"""


class Child(Victim):
    """A victim whose parent tells each SIGCHLD that it gets, and all that wait(2) says."""

    def __init__(self, program):
        self.process = subprocess.Popen([sys.executable, "-c", PARENT, program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        self.seen = []
        self.pid = int(self.process.stderr.readline().split()[1])
        self.inner = int(self.process.stdout.readline().split()[1])
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.seen.append(line.strip())

    def saw(self, *what):
        wait_until(lambda: self.seen and self.seen[-1] == what[-1], or_say=lambda: self.seen)
        assert self.seen == list(what), self.seen
        self.seen.clear()

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)

    def go(self):
        os.kill(self.pid, signal.SIGCONT)

    def has_stopped(self):
        self.saw(f"signal stopped {int(signal.SIGSTOP)}", f"wait stopped {int(signal.SIGSTOP)}")

    def has_gone_on(self):
        self.saw(f"signal continued {int(signal.SIGCONT)}", f"wait continued {int(signal.SIGCONT)}")


@pytest.fixture
def child(build, hardware):
    made = []

    def start():
        made.append(Child(build("resist_procs")))
        return made[-1]

    yield start
    for c in made:
        c.process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(c.pid, signal.SIGKILL)
        c.process.wait()
        c.reader.join()


@each_engine
def test_a_parent_that_waits_for_stops_sees_its_own_and_no_other(child, watch, engine):
    c = child()
    c.tell("crowd 3")
    w = watch("-p", c.pid, "-v", "flag", "-w", *ENGINES[engine])
    c.tell("work 2")
    w.end()
    assert c.seen == []
    w = watch("-p", c.pid, "-v", "flag", "-w", *ENGINES[engine])
    c.stop()
    c.has_stopped()
    w.end()  # leaves what is stopped stopped
    time.sleep(0.05)
    assert c.seen == [] and state(c.pid) == "T"
    w = watch("-p", c.pid, "-v", "flag", "-w", *ENGINES[engine])  # and comes to what is
    assert c.seen == []
    wait_until(lambda: state(c.pid) in "Tt")
    c.go()
    c.has_gone_on()
    c.tell("work 2")
    w.end()
    assert w.summary()["recorded"] == 6 and c.seen == []
    w = watch("-p", c.pid, "-v", "flag", "-w", *ENGINES[engine])
    c.send("exit 9")
    c.saw("signal exited 9", "wait exited 9")
    w.end(sig=None)


@pytest.mark.slow_when("ring", "ptrace")
@each_engine
def test_a_stop_at_any_instant_of_our_coming_and_going_is_a_stop(child, hardware, engine):
    """Sent while we attach, arm or leave: it holds until SIGCONT, and the parent is told of both, once."""
    c = child()
    c.tell("crowd 2")
    rng = random.Random(engine + "stop")
    for _ in range(8):
        w = subprocess.Popen([WATCHCTL, "-p", str(c.pid), "-v", "flag", "-w", "-q", "-t", "0.02", *ENGINES[engine]],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(rng.choice([0.02, 0.1, 0.3]) * rng.random())
        c.stop()
        c.has_stopped()
        out, err = w.communicate(timeout=WAIT)  # none of it waits for SIGCONT
        assert w.returncode in EXIT_CODES, (out, err)
        assert c.seen == [] and state(c.pid) == "T", err
        c.go()
        c.has_gone_on()
        assert c.tell("work 2") == "4"
    c.send("exit 0")
    c.saw("signal exited 0", "wait exited 0")


@each_engine
def test_the_signal_of_a_parents_death_comes_when_the_parent_dies(child, watch, engine):
    """PR_SET_PDEATHSIG is about the real parent: not the tracer, not watchctl."""
    c = child()
    c.tell(f"pdeath {int(signal.SIGUSR1)}")
    for sig in (signal.SIGINT, signal.SIGKILL)[:1 if engine == "handler -i" else 2]:  # which leaves its register armed
        watch("-p", c.pid, "-v", "flag", "-w", *ENGINES[engine]).end(sig=sig, expect=None)
        wait_until(lambda: snapshot(c.pid)["signals"][0] == ("TracerPid", "0"))
        c.tell("write 1")
    w = watch("-p", c.pid, "-v", "flag", "-w", *ENGINES[engine])
    c.process.kill()
    wait_until(lambda: state(c.pid) in "-Z")
    w.end(sig=None)
    assert w.process.returncode == 0


# A shell

class Shell:
    """bash with job control on a terminal of its own."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.update(PS1="> ", TERM="dumb", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.text = ""
        self.wait("> ")

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, word):
        end = time.monotonic() + WAIT
        while word not in self.text:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {word!r} in {self.text!r}"
            self.text += os.read(self.fd, 65536).decode(errors="replace")
        before, self.text = self.text.split(word, 1)
        return before

    def close(self):
        os.close(self.fd)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@each_engine
def test_the_keys_and_jobs_of_a_shell_work_on_a_watched_program(build, watch, engine):
    shell = Shell()
    try:
        shell.type(build("resist_procs") + "\n")
        shell.wait("pid ")
        pid = int(shell.wait("\n"))
        w = watch("-p", pid, "-v", "flag", "-w", *ENGINES[engine])
        shell.type("write 2\n")
        shell.wait("ok")
        shell.type("\x1a")
        shell.wait("Stopped")
        wait_until(lambda: state(pid) in "Tt")
        shell.type("bg\n")  # it reads the terminal: SIGTTIN stops it again
        shell.wait("&")
        wait_until(lambda: state(pid) in "Tt")
        shell.type("fg\n")
        shell.wait("resist_procs")
        shell.type("write 3\n")
        shell.wait("ok")
        w.end()
        assert w.summary()["recorded"] == 5
        shell.type("\x1a")
        shell.wait("Stopped")
        w = watch("-p", pid, "-v", "flag", "-w", *ENGINES[engine])
        w.end()
        shell.type("fg\n")
        shell.wait("resist_procs")
        shell.type("exit 0\n")
        shell.wait("> ")
        wait_until(lambda: state(pid) == "-")
    finally:
        shell.close()


# A freezer

@pytest.fixture
def freezer():
    """freeze(pid) and thaw(), by whichever control group there is."""
    v2 = [p / f"watchctl-{os.getpid()}" for p in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
          if (p / "cgroup.subtree_control").exists()]
    v1 = Path("/sys/fs/cgroup/freezer")
    places = [(p, "cgroup.freeze", "1", "0") for p in v2]
    places += [(v1 / f"watchctl-{os.getpid()}", "freezer.state", "FROZEN", "THAWED")] if v1.exists() else []

    class Freezer:
        def __init__(self, place, file, on, off):
            self.place, self.file, self.on, self.off = place, file, on, off
            place.mkdir()

        def take(self, pid):
            (self.place / "cgroup.procs").write_text(str(pid))

        def freeze(self):
            (self.place / self.file).write_text(self.on)
            wait_until(self.is_frozen)

        def is_frozen(self):
            if self.file == "freezer.state":
                return (self.place / self.file).read_text() == "FROZEN\n"
            return "frozen 1" in (self.place / "cgroup.events").read_text()

        def thaw(self):
            (self.place / self.file).write_text(self.off)

    made = []
    for place in places:
        with contextlib.suppress(OSError):
            made.append(Freezer(*place))
    if not made:
        pytest.skip("no control group can be made here that freezes")
    yield made
    for f in made:
        f.thaw()
        wait_until(lambda: not (f.place / "cgroup.procs").read_text())
        f.place.rmdir()


@pytest.mark.slow
@each_engine
def test_a_frozen_program_neither_hangs_us_nor_is_harmed(victim, watch, run, freezer, engine):
    """Nobody can stop a thread that is frozen: we say so and end; what we armed in it is cleared later."""
    for f in freezer:
        v = victim("resist_procs")
        v.tell("crowd 2")
        before = snapshot(v.pid)
        f.take(v.pid)
        f.freeze()
        r = run("-p", v.pid, "-v", "flag", "-w", "-t", "0.1", *ENGINES[engine])
        assert r.returncode == 0 or (r.returncode in (1, 7) and "froze" in r.stderr), r.stderr
        for command in ("list", "clear"):
            assert run(command, "-p", v.pid).returncode in EXIT_CODES
        f.thaw()
        assert v.tell("work 2") == "4"
        w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
        assert v.tell("work 3") == "6"
        f.freeze()
        w.end(expect=None)
        code = w.process.returncode
        assert code == 0 or (code in (1, 7) and ("frozen" in w.stderr or "may still be pending" in w.stderr)), w.stderr
        assert w.summary()["recorded"] == 6 and w.balanced() if "counted" in w.summary() else True
        f.thaw()
        assert v.tell("work 2") == "4"
        wait_until(lambda: snapshot(v.pid)["signals"][0] == ("TracerPid", "0"))
        assert run("clear", "-p", v.pid).returncode == 0
        after = snapshot(v.pid)
        assert after["signals"] == before["signals"]
        assert [m for m in after["maps"] if "r-xp" in m] == [m for m in before["maps"] if "r-xp" in m]
        assert v.tell("work 2") == "4"
        v.process.kill()
        v.process.wait()
