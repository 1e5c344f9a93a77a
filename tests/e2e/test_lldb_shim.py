# rooms: step/lldb
"""LLDB moves the program: the same calls, parameters and returns as the default mover gives, and no harm."""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import BUILD, WAIT, WATCHCTL, wait_until

STEP = BUILD / "bin" / "watchctl-step"

pytestmark = pytest.mark.skipif(not (BUILD / "lib" / "libsteprec.so").exists(),
                                reason="built without LLDB: there is no mover that it could be compared with")


@pytest.fixture
def victim_path(build):
    return build("lldb_calls_agree")


def record(log, mover, *argv, options=()):
    subprocess.run([str(STEP), "--stepper", mover, "-o", str(log), "-q", *options, "--", *argv], check=True,
                   timeout=WAIT, stdin=subprocess.DEVNULL, capture_output=True)
    done = subprocess.run([WATCHCTL, "report", str(log), "--json"], check=True, timeout=WAIT, capture_output=True,
                          text=True)
    return list(map(json.loads, done.stdout.splitlines()))


def told(value):
    """A value without addresses and pids, which differ from run to run; what pointers point to stays."""
    if isinstance(value, dict) and value.get("type") in ("pid_t", "pthread_t"):
        return value["type"]
    if isinstance(value, dict):
        return {k: told(v) for k, v in value.items()}
    if isinstance(value, list):
        return [told(v) for v in value]
    return re.sub(r"0x[0-9a-f]{9,12}\b", "pointer", value) if isinstance(value, str) else value


def threads(objects):
    """Of each thread its calls and returns, and the functions on their stacks."""
    lines = {}
    for o in objects:
        if o["type"] not in ("call", "return"):
            continue
        line = [o["type"], o["function"]]
        if o["type"] == "call":
            line += [o["depth"], told(o["args"]), [f.get("function") for f in o.get("stack", [])]]
        else:
            line += [o.get("how"), told(o.get("ret")), o.get("errno")]
        lines.setdefault(o["tid"], []).append(line)
    return sorted(lines.values(), key=str)


def first_difference(a, b):
    for thread, (x, y) in enumerate(itertools.zip_longest(a, b, fillvalue=[])):
        for place, (one, other) in enumerate(itertools.zip_longest(x, y)):
            if one != other:
                return thread, place, one, other
    return None


@pytest.mark.parametrize("what", ["begin", "recurse", "longjmp", "signal", "qsort", "threads", "fork"])
def test_both_movers_tell_the_same(tmp_path, victim_path, what):
    options = ["--step-over", "write_down"]
    got = [threads(record(tmp_path / f"{mover}.log", mover, victim_path, what, str(tmp_path / "account"), options=options))
           for mover in ("ptrace", "lldb")]
    assert got[0] and first_difference(*got) is None


@pytest.mark.slow_when("qsort", "recurse")
@pytest.mark.parametrize("what", ["recurse", "qsort", "longjmp"])
def test_instructions_do_not_change_the_calls(tmp_path, victim_path, what):
    plain = record(tmp_path / "plain.log", "ptrace", victim_path, what, str(tmp_path / "account"))
    each = {mover: record(tmp_path / f"{mover}.log", mover, victim_path, what, str(tmp_path / "account"),
                          options=["--every-instruction"]) for mover in ("ptrace", "lldb")}
    steps = {mover: [o["module_offset"] for o in objects if o["type"] == "step"]
             for mover, objects in each.items()}
    for mover, objects in each.items():
        assert first_difference(threads(plain), threads(objects)) is None, mover
    assert steps["lldb"] and first_difference([steps["ptrace"]], [steps["lldb"]]) is None


def events_in(log):
    """How many bytes of them it holds by now."""
    return (log / "events").stat().st_size if (log / "events").exists() else 0


@pytest.mark.slow
def test_a_recorder_that_is_killed_leaves_the_program_running(tmp_path, victim_path):
    written = tmp_path / "account"
    p = subprocess.Popen([victim_path, "loop", str(written)], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline().startswith("pid ")
        for i in range(4):
            log = tmp_path / f"{i}.log"
            recorder = subprocess.Popen([str(STEP), "--stepper", "lldb", "-p", str(p.pid), "-o", str(log), "-q"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(lambda: events_in(log) > 5000 * (i + 1))
            recorder.kill()
            recorder.wait()
            size = written.stat().st_size
            wait_until(lambda: p.poll() is not None or written.stat().st_size > size)
            assert p.poll() is None, f"the program was killed by signal {-p.returncode}"
    finally:
        p.kill()
        p.wait()


@pytest.mark.slow
def test_a_launched_program_keeps_its_files_and_its_exit_status(tmp_path):
    argv = [str(STEP), "--stepper", "lldb", "-o", str(tmp_path / "a.log"), "-q", "--"]
    done = subprocess.run([*argv, "/bin/sh", "-c", "cat; echo $MARK >&2; exit 3"], input="in and out\n", text=True,
                          capture_output=True, timeout=WAIT, env=dict(os.environ, MARK="environment"))
    assert done.stdout == "in and out\n"
    assert "environment\n" in done.stderr
    assert "LLDB_DEBUGSERVER_PATH" not in done.stderr


def test_ctrl_c_ends_the_recording_and_not_the_program(tmp_path, victim_path):
    p = subprocess.Popen([victim_path, "loop", str(tmp_path / "account")], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline().startswith("pid ")
        recorder = subprocess.Popen([str(STEP), "--stepper", "lldb", "-p", str(p.pid), "-o", str(tmp_path / "a.log"), "-q"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: events_in(tmp_path / "a.log") > 5000)
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(timeout=WAIT) == 0
        assert p.poll() is None
        size = (tmp_path / "account").stat().st_size
        wait_until(lambda: (tmp_path / "account").stat().st_size > size)
    finally:
        p.kill()
        p.wait()


def test_without_a_debug_server_it_says_what_is_missing(tmp_path, victim_path):
    env = dict(os.environ, LLDB_DEBUGSERVER_PATH=str(tmp_path / "nothing"))
    if not shutil.which("true"):
        pytest.skip("there is no true")
    done = subprocess.run([str(STEP), "--stepper", "lldb", "-q", "-o", str(tmp_path / "a.log"), "--", "true"],
                          capture_output=True, text=True, timeout=WAIT, env=env)
    assert done.returncode in (4, 7)
    assert "LLDB" in done.stderr
