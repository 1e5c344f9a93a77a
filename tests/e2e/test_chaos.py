# rooms: tests/chaos
"""Watchctl comes and goes in every way on a program that checks itself: a short run of `make chaos`, and what it has found."""
import json
import math
import os
import signal
import subprocess
import sys

import pytest

from conftest import ROOT, WAIT, WATCHCTL, wait_until

CHAOS = ROOT / "tests" / "chaos"
sys.path.append(str(CHAOS))
from heart import Heart  # noqa: E402
from odd import Odd  # noqa: E402


def compiled(folder, name):
    sources = [*CHAOS.glob(f"{name}_*.c"), *CHAOS.glob(f"{name}_*.S")]
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-pthread", f"-I{ROOT}", *map(str, sources), "-o",
                    str(folder / name)], check=True, timeout=WAIT)
    return str(folder / name)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("chaos"), "chaos")


@pytest.fixture(scope="session")
def odd(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("odd"), "odd")


def run_chaos(program, odd, result, *options):
    """What it found, and did; it must have found nothing."""
    r = subprocess.run([sys.executable, "-B", str(CHAOS / "chaos.py"), "--watchctl", WATCHCTL, "--program", program, "--odd", odd,
                        "--json", str(result), *options], capture_output=True, text=True, timeout=10 * WAIT)
    if r.returncode == 77:
        pytest.skip(r.stderr)
    assert r.returncode == 0, r.stderr
    return json.loads(result.read_text())


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts a small disk, and asks perf what is left")
def test_a_program_under_chaos_lives_finds_nothing_changed_and_is_left_as_it_was(program, odd, hardware, tmp_path):
    """Cycles of sessions that are ended, killed, stopped and starved; chaos.py says what each has to fulfil."""
    found = run_chaos(program, odd, tmp_path / "chaos.json", "--cycles", "25", "--seed", "71")
    assert found["cycles"] == 25 and found["counts"]["kills"] > 0 and found["program"]["checks"] > 0


ODD_KINDS = ["blocked_signals", "pages_that_go", "unread_output", "dispatching", "daemon_families", "first_of_namespace",
             "forking_server"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it asks perf what is left")
@pytest.mark.parametrize("kind", ODD_KINDS)
def test_a_program_that_is_hard_to_watch_lives_gets_on_and_is_left_as_it_was(program, odd, hardware, tmp_path, kind):
    """Nobody of it dies, stands still, or keeps anything of a watch; what it accessed is what was told."""
    found = run_chaos(program, odd, tmp_path / "chaos.json", "--cycles", "4", "--seed", "72", "--kinds", kind)
    assert found["kinds"][kind]["cycles"] == 4 and not found["findings"] and found["counts"]["checks of odd programs"] > 0


def test_chaos_sees_a_program_that_stands_still(odd, tmp_path):
    """The judge of freezes: one that is stopped has less than its share, one that nobody touches has not."""
    watched, control = (Odd(odd, str(tmp_path), "plain", "-", "default") for _ in range(2))
    try:
        heart = Heart(watched, control)
        wait_until(lambda: len(heart.freezes((math.inf, math.inf))) == 2)  # of both beats something can be said
        assert not heart.freezes((0.1, 0.1))
        os.kill(watched.pid, signal.SIGSTOP)
        wait_until(lambda: [f.beat for f in heart.freezes((0.5, 0.5))] == list(Heart.BEATS))
        os.kill(watched.pid, signal.SIGCONT)
        heart.stop()
    finally:
        watched.kill()
        control.kill()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the scheduler's trace says how long a thread stood still")
def test_a_program_with_many_mappings_is_not_held_up_longer_than_another(hardware, tmp_path):
    """What takes long where there are 61,000 mappings is done before a thread is stopped, not while it is."""
    program, result = tmp_path / "stalls", tmp_path / "stalls.json"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-g", "-pthread", f"-I{ROOT}", str(CHAOS / "stalls.c"), "-o", str(program)],
                   check=True, timeout=WAIT)
    r = subprocess.run([sys.executable, "-B", str(CHAOS / "stalls.py"), "--watchctl", WATCHCTL, "--program", str(program), "--threads",
                        "100", "--mappings", "61000", "--attaches", "3", "--json", str(result)], capture_output=True, text=True, timeout=5 * WAIT)
    assert result.exists(), r.stderr
    holds = json.loads(result.read_text())["holds"]
    if not holds:
        pytest.skip("the scheduler cannot be traced here")
    for what in ("attach", "detach"):  # the machine may be busy: once in three times it is not
        assert holds[what]["n"] and min(holds[what]["longest_of_each_ns"]) < 5e6, holds


def test_a_program_that_checks_its_alignment_survives_a_hit(victim, watch, before_and_after):
    """The kernel calls a handler with the alignment check on, and the handler's own accesses are not aligned."""
    v = victim("aligned")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w")
        assert v.tell("write 50") == "50"
        assert v.tell("raise") == "1 on"  # its own handler is called with the flag as it was
        w.end()
    assert w.summary()["recorded"] == 50 and w.balanced()



@pytest.mark.slow
@pytest.mark.parametrize("helper", ["tracer", "guard"])
def test_a_call_that_a_stop_would_interrupt_is_not_when_a_helper_of_the_ptrace_engine_is_killed(victim, watch, helper):
    """Who is left stops every thread to clear its registers: a recv() with a time-out would answer EINTR to that."""
    v = victim("aligned")
    for _ in range(5):
        w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "ptrace")
        v.send("wait 700")
        guard = children(w.process.pid)[0]
        os.kill(guard if helper == "guard" else children(guard)[0], signal.SIGKILL)
        assert v.process.stdout.readline().strip() == "ok timed out"
        w.end(expect=None)


def children(pid):
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(p) for p in text.split()]
