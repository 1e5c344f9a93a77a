# rooms: step/ptrace step/insn
"""A recorded program comes to no harm, whatever happens to the recorder: it runs on, right, without a breakpoint."""
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from conftest import WAIT, WATCHCTL, wait_until, wait_until_it_has_run

KILLS = 20


@pytest.fixture
def toil_program(build):
    return build("step_mover_toil")


class Toil:
    def __init__(self, *program):
        self.p = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.p.stdout.readline().split()[1])

    def account(self):
        self.p.stdin.write("?\n")
        self.p.stdin.flush()
        word, rounds, errors = self.p.stdout.readline().split()
        assert word == "ok"
        return int(rounds), int(errors)

    def works_on(self):
        """It does not only live: each of its threads does right what it has to do."""
        before, _ = self.account()
        wait_until(lambda: self.account()[0] >= before + 5)
        assert self.account()[1] == 0


@pytest.fixture
def toil(toil_program):
    t = Toil(toil_program)
    yield t
    t.p.kill()
    t.p.wait()


def code_differs(pid):
    """Bytes of mapped code that are not as in their file."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            words = line.split()
            if words[1] != "r-xp" or len(words) < 6 or not words[5].startswith("/"):
                continue
            start, end = (int(x, 16) for x in words[0].split("-"))
            mem.seek(start)
            now = mem.read(end - start)
            with open(words[5], "rb") as f:
                f.seek(int(words[2], 16))
                then = f.read(end - start)
            found += [start + i for i, (a, b) in enumerate(zip(now, then)) if a != b]
    return found


def tracers(pid):
    found = set()
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/status") as f:
                found |= {int(line.split()[1]) for line in f if line.startswith("TracerPid:")}
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found - {0}


def step_tracers(pid):
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/cmdline", "rb") as f:
                line = f.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if line.startswith(b"step-") and b" of process %d" % pid in line:
            found.append(int(p))
    return found


def foreign_code(pid):
    """Mappings of code that belong to no file."""
    with open(f"/proc/{pid}/maps") as maps:
        return [line for line in maps if " r-xp " in line and len(line.split()) < 6]


def unharmed(toil):
    wait_until(lambda: not tracers(toil.pid) and not step_tracers(toil.pid))
    assert toil.p.poll() is None
    assert code_differs(toil.pid) == []
    assert foreign_code(toil.pid) == []
    toil.works_on()


def record(toil, tmp_path, n, *args):
    return subprocess.Popen(
        [WATCHCTL, "step", "-q", "-o", str(tmp_path / f"log{n}"), "-p", str(toil.pid), *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_it_records(w):
    for line in w.stderr:
        if "recording process" in line:
            return
    raise AssertionError("it ended before it recorded")


@pytest.mark.slow
def test_a_recorder_that_is_killed_leaves_nothing(toil, tmp_path):
    rng = random.Random(5)
    recorded = 0
    for n in range(KILLS):
        w = record(toil, tmp_path, n)
        if n % 4:
            wait_until(lambda: tracers(toil.pid) or w.poll() is not None)
        time.sleep(rng.random() * 0.5)
        recorded += bool(tracers(toil.pid))
        w.send_signal(signal.SIGKILL)
        w.wait()
        w.stderr.close()
        unharmed(toil)
    assert recorded >= KILLS / 2, "the kills came before anything was recorded"


@pytest.mark.parametrize(
    "args",
    [["-t", "1"], ["--from", "sorts"], ["--from", "prints", "--count", "50"], ["--events", "500"], ["-t", "0.5", "--threads", "one", "--every-instruction"]],
    ids=lambda a: " ".join(a),
)
def test_a_recording_that_ends_leaves_nothing(toil, tmp_path, args):
    w = record(toil, tmp_path, 0, *args)
    _, err = w.communicate(timeout=WAIT)
    assert w.returncode == 0, err
    unharmed(toil)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_recording_that_is_interrupted_leaves_nothing(toil, tmp_path, sig):
    w = record(toil, tmp_path, 0)
    until_it_records(w)
    wait_until_it_has_run(toil.pid)
    w.send_signal(sig)
    _, err = w.communicate(timeout=WAIT)
    unharmed(toil)


def test_a_program_that_is_killed_while_recorded_ends_the_recording(toil, tmp_path):
    w = record(toil, tmp_path, 0)
    until_it_records(w)
    wait_until_it_has_run(toil.pid)
    toil.p.kill()
    w.communicate(timeout=WAIT)
    wait_until(lambda: not step_tracers(toil.pid))


@pytest.mark.slow
def test_a_program_that_ignores_sigtrap_and_is_sent_it_all_the_time_lives_on(toil_program, tmp_path):
    """A breakpoint makes the kernel forget that it is ignored. That is put back before anybody is let go of."""
    toil = Toil("sh", "-c", f"trap '' TRAP; exec {toil_program}")
    over = threading.Event()

    def send():
        while not over.is_set() and toil.p.poll() is None:
            toil.p.send_signal(signal.SIGTRAP)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for n in range(6):
            w = record(toil, tmp_path, n, "-t", "0.3")
            if n % 2:
                until_it_records(w)
                w.kill()
            _, err = w.communicate(timeout=WAIT)
            assert w.returncode == (-signal.SIGKILL if n % 2 else 0), err
            wait_until(lambda: not tracers(toil.pid) and not step_tracers(toil.pid))
            assert toil.p.poll() is None, n
            assert code_differs(toil.pid) == []
    finally:
        over.set()
        sender.join()
    unharmed(toil)
    toil.p.kill()
    toil.p.wait()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL])
def test_a_thread_that_blocks_sigtrap_while_the_recording_begins_may_unblock_it(victim, tmp_path, before_and_after, sig):
    """As inside its own SIGTRAP handler. SIGTRAP that stays blocked would make the kernel drop the handler at int3."""
    v = victim("puppet")
    v.tell("handler own")
    with before_and_after(v.pid):
        v.tell("block")
        w = record(v, tmp_path, 0, "--from", "write_flag", "--count", "0")
        wait_until(lambda: code_differs(v.pid))
        v.tell("unblock")
        v.tell("write 3")
        assert v.ask("int3") == "ok"
        w.send_signal(sig)
        w.communicate(timeout=WAIT)
        wait_until(lambda: not tracers(v.pid) and not step_tracers(v.pid))
    assert v.ask("int3") == "ok"
    assert v.tell("got") == "2"


def catches_trap(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("SigCgt")).split()[1], 16) >> (signal.SIGTRAP - 1) & 1


@pytest.mark.slow_when("raise-4", "int3-4", "wait-4")
@pytest.mark.parametrize("threads", ["1", "4"])
@pytest.mark.parametrize("how", ["raise", "int3", "wait", "wait-handler"])
def test_a_program_gets_its_own_sigtraps_as_if_it_were_not_recorded(build, tmp_path, how, threads):
    """Breakpoints in its handler, and in code that blocks the signal, would make the kernel remove handler and mask."""
    p = subprocess.Popen([build("trap_rounds"), how, "600", threads], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    before = catches_trap(p.pid)
    r = subprocess.run([WATCHCTL, "step", "-q", "-t", "0.5", "-o", str(tmp_path / "log"), "-p", str(p.pid)],
                       capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    assert catches_trap(p.pid) == before
    p.terminate()  # it ends its rounds
    out = p.communicate(timeout=WAIT)[0]
    assert p.returncode == 0 and out.startswith("ok "), out
    assert "SIGTRAP handler" not in r.stdout


@pytest.mark.slow
def test_a_signal_that_comes_while_a_recording_ends_is_not_lost(build, tmp_path):
    """The last thread takes our memory out of the program; at that moment it may be about to get one of its own."""
    p = subprocess.Popen([build("raise_rounds")], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    for n in range(40):
        r = subprocess.run([WATCHCTL, "step", "-q", "-t", "0.1", "-o", str(tmp_path / str(n)), "-p", str(p.pid)],
                           capture_output=True, text=True, timeout=WAIT)
        assert r.returncode == 0 and p.poll() is None, r.stderr
        with open(f"/proc/{p.pid}/maps") as f:
            assert not [line for line in f if re.match(r"\S+ ..x\S* 00000000 00:00 0 *$", line)], "memory of ours is left"
    p.terminate()
    assert p.communicate(timeout=WAIT)[0] == "ok\n"


@pytest.mark.parametrize("how", ["raise", "int3"])
def test_a_sigtrap_handler_that_a_recorded_program_installs_stays(build, tmp_path, how):
    r = subprocess.run([WATCHCTL, "step", "-q", "-o", str(tmp_path / "log"), "--", build("trap_rounds"), how, "1"],
                       capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0 and "\nok " in r.stdout, r.stdout


@pytest.mark.slow
def test_the_go_runtime_keeps_its_sigtrap_handler(tmp_path):
    """Its signal handlers, and what makes its threads, run with all signals blocked."""
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    (tmp_path / "main.go").write_text(GO)
    subprocess.run(["go", "build", "-o", "gothing", "main.go"], cwd=tmp_path, check=True, timeout=WAIT,
                   env={**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"})
    for n in range(3):
        p = subprocess.Popen([tmp_path / "gothing"], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "ready\n"
        r = subprocess.run([WATCHCTL, "step", "-q", "-t", "0.7", "-o", str(tmp_path / f"log{n}"), "-p", str(p.pid)],
                           capture_output=True, text=True, timeout=WAIT)
        assert r.returncode == 0, r.stderr
        assert catches_trap(p.pid)
        p.send_signal(signal.SIGTRAP)
        assert p.communicate(timeout=WAIT)[0] == "got SIGTRAP\n"
        assert p.returncode == 0


GO = """package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var n int

//go:noinline
func tick() { n++ }

func main() {
	got := make(chan os.Signal, 10)
	signal.Notify(got, syscall.SIGTRAP)
	go func() {
		for {
			tick()
			if n%100000 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	fmt.Println("ready")
	select {
	case <-got:
		fmt.Println("got SIGTRAP")
	case <-time.After(40 * time.Second):
		os.Exit(1)
	}
}
"""


@pytest.mark.parametrize("options", [[], ["--only", "usleep"]], ids=["all", "only"])
def test_a_sigtrap_handler_stays_where_breakpoints_are_in_a_signal_handler(build, options):
    p = subprocess.Popen([build("masked_handler"), "5"])
    try:
        wait_until(lambda: catches_trap(p.pid))
        r = subprocess.run([WATCHCTL, "step", "-t", "0.5", "-p", str(p.pid), *options], capture_output=True, text=True,
                           timeout=WAIT)
        assert r.returncode == 0 and catches_trap(p.pid), r.stdout
        assert "SIGTRAP handler" not in r.stdout
    finally:
        p.kill()
        p.wait()
