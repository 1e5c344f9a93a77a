# rooms: flow/blame flow/graph flow/rules trace/flow cli/flow
"""`watchctl flow explain LOG`: recorded hangs of known cause, and what a log of a good time says of one."""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import WAIT, WATCHCTL
from hang_scenes import Hang, blamed, of_type
from waiting import wait_until

# That hang without a step between "ready" and their last wait that no condition shows.
SCENES = {"mutex_sleep": "sleeps", "self_lock": "deadlock", "owner_ended": "nobody", "join_spinner": "busy", "rpc_circle": "likely_deadlock",
          "tcp_peer": "sleeps", "child_sleeps": "sleeps", "vfork_child": "sleeps"}

SHOP = """import os, sys, time
jobs, made, told = os.pipe(), os.pipe(), os.pipe()
rounds, mood, whose = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def begin(name):
    pid = os.fork()
    if not pid:
        open("/proc/self/comm", "w").write(name + whose)
    return pid
worker = begin("worker")
while not worker:
    if os.read(made[0], 1) == b"q":
        sys.exit()
    os.write(told[1], b"a")
dispatch = begin("dispatch")
while not dispatch:
    job = os.read(jobs[0], 1)
    if mood == "stuck":
        print("stuck", os.getpid(), flush=True)
        time.sleep(100000)
    if mood == "slow" and job != b"q":
        time.sleep(0.3)
    os.write(made[1], job)
    if job == b"q":
        sys.exit()
open("/proc/self/comm", "w").write("client" + whose)
for i in range(rounds):
    os.write(jobs[1], b"j")
    os.read(told[0], 1)
os.write(jobs[1], b"q")
os.wait(), os.wait()
"""


# Another test may record the same shop at the same time. By digits alone names would not differ to a baseline.
WHOSE = "".join("abcdefghij"[int(digit)] for digit in str(os.getpid()))
CLIENT, WORKER, DISPATCH = (name + WHOSE for name in ("client", "worker", "dispatch"))


class Recording:
    """The system's events, from when it has begun to the end of the block."""

    def __init__(self, log, *options):
        ready, told = os.pipe()
        with open(ready, "rb") as f:
            self.process = subprocess.Popen([WATCHCTL, "flow", "record", *options, "-o", log, "--ready-fd", str(told)], pass_fds=[told],
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            os.close(told)
            assert f.read(1), self.process.communicate()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=WAIT)
        assert self.process.returncode == 0, err


def run(*words):
    return subprocess.run([WATCHCTL, "flow", "explain", *map(str, words)], capture_output=True, text=True, timeout=WAIT, check=False)


def explain_log(*words):
    r = run(*words, "--json")
    assert r.returncode == 0, r.stderr
    lines = [json.loads(line) for line in r.stdout.splitlines()]
    assert lines[0]["type"] == "answer"
    return lines


def functions(o):
    return [f.get("function") for f in o["stack"]]


def has_stack_with(log, function, tid):
    """Of that thread, by now, while it is recorded."""
    r = subprocess.run([WATCHCTL, "report", "--tag", "wait", "--thread", str(tid), "--json", log], capture_output=True, text=True, timeout=WAIT, check=False)
    return f'"function":"{function}"' in r.stdout


def rest_of(pid):
    """Its threads, their states, and how often each has waited; None: one ended meanwhile."""
    seen = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
            seen.append((task.name, status["State"], status["voluntary_ctxt_switches"]))
    except OSError:
        return None
    return sorted(seen)


def await_rest(pid):
    """Until no thread of it begins another wait: seen the same many times, as one may be on its way."""
    end, before, same = time.monotonic() + WAIT, None, 0
    while same < 50 and time.monotonic() < end:
        now = rest_of(pid)
        same = same + 1 if now and now == before else 0
        before = now
        time.sleep(0.005)


@pytest.fixture
def shop(tmp_path):
    """Records a run of it."""
    script = tmp_path / "shop.py"
    script.write_text(SHOP)
    running = []

    def start(log, rounds, mood):
        with Recording(tmp_path / log):
            p = subprocess.Popen([sys.executable, script, str(rounds), mood, WHOSE], stdout=subprocess.PIPE, text=True, start_new_session=True)
            running.append(p)
            if mood == "stuck":
                word, pid = p.stdout.readline().split()
                assert word == "stuck"
                await_rest(pid)
            else:
                p.wait(timeout=WAIT)
        return tmp_path / log

    yield start
    for p in running:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait(timeout=WAIT)


@pytest.mark.parametrize("scene", SCENES)
def test_the_culprit_of_a_recorded_hang(build, tmp_path, scene):
    program = build("hangs")
    with Recording(tmp_path / "log"):
        hang = Hang(program, scene)
        await_rest(hang.ask)
    with hang:
        lines = explain_log(tmp_path / "log", "--to", hang.ask)
    assert blamed(lines) in hang.culprits, lines
    assert lines[0]["verdict"] == SCENES[scene]
    links = of_type(lines, "link")
    assert [x["n"] for x in links] == list(range(1, len(links) + 1))
    for a, b in zip(links, links[1:]):
        assert a["waits_for"]["tid"] == b["waiter"]["tid"]


def test_the_stacks_say_in_which_functions_they_hang(build, tmp_path):
    log = tmp_path / "log"
    with Recording(log, "--stacks"):
        hang = Hang(build("hangs"), "mutex_sleep")
        (_, holder), = hang.culprits
        wait_until(lambda: has_stack_with(log, "holds_and_sleeps", holder))
        wait_until(lambda: has_stack_with(log, "lock_table", hang.ask))
    with hang:
        lines = explain_log(log, "--to", hang.ask)
        told = run(log, "--to", hang.ask).stdout
    first, link = of_type(lines, "culprit")[0], of_type(lines, "link")[0]
    assert blamed(lines) in hang.culprits
    assert {"sleep_forever", "holds_and_sleeps"} <= set(functions(first)) and first["stack_end"], first
    assert first["function"] in ("sleep_forever", "holds_and_sleeps")
    assert link["waiter"]["tid"] == hang.ask and "lock_table" in functions(link) and link["stack_end"], link
    assert not [f for o in (first, link) for f in o["stack"] if "module" in f and "ip" in f]
    assert f"(in {first['function']})" in lines[0]["text"] and "(in lock_table)" in lines[0]["text"]
    sentence, rest = told.split("\n", 1)
    assert "(in lock_table)" in sentence
    assert re.search(r"culprit 1.*#\d+ +holds_and_sleeps\S* .*link 1:.*#\d+ +lock_table", rest, re.DOTALL), told


def test_a_baseline_says_where_the_chain_is_cut(shop):
    good, bad = shop("good", 20, "well"), shop("bad", 20, "stuck")
    lines = explain_log(bad, "--to", WORKER, "--baseline", good)
    assert of_type(lines, "culprit")[0]["comm"] == DISPATCH, lines
    told = lines[0]["baseline"]
    assert 0 < told["ended"] <= told["waits"] and told["happened"] < told["links"]
    assert DISPATCH in told["text"]


def test_a_baseline_says_what_grew(shop):
    good, bad = shop("good", 20, "well"), shop("slow", 10, "slow")
    lines = explain_log(bad, "--to", DISPATCH, "--baseline", good)
    first = of_type(lines, "culprit")[0]
    assert lines[0]["verdict"] == first["verdict"] == "slower"
    assert first["comm"] == DISPATCH and "clock_nanosleep" in first["why"]
    assert first["median_ns"] > first["baseline_ns"]


def test_a_process_that_had_ended_before_and_was_not_waited_for_is_not_in_the_log(tmp_path):
    name = "ended" + WHOSE
    script = f"""import os; open("/proc/self/comm", "w").write("{name}")"""
    with subprocess.Popen([sys.executable, "-c", script]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        with Recording(tmp_path / "log"):
            pass
    r = run(tmp_path / "log", "--to", name)
    assert r.returncode == 5 and "no thread" in r.stderr, (r.stdout, r.stderr)


def test_what_was_slow_on_the_way_to_an_answer(shop):
    log = shop("slow", 5, "slow")
    lines = explain_log(log, "--to", CLIENT)
    first = of_type(lines, "culprit")[0]
    assert lines[0]["verdict"] == first["verdict"] == "slow"
    assert first["comm"] == DISPATCH and "clock_nanosleep" in first["why"]


def test_a_wait_that_goes_on_is_told_as_open(shop, tmp_path):
    bad = shop("bad", 20, "stuck")
    r = subprocess.run([WATCHCTL, "flow", "graph", bad, "--process", DISPATCH], capture_output=True, text=True, timeout=WAIT, check=True)
    edges = [json.loads(line) for line in r.stdout.splitlines() if '"edge"' in line]
    assert any(x.get("open") and x["kind"] == "wait_for" and "nanosleep" in x["evidence"] for x in edges)
    r = subprocess.run([WATCHCTL, "flow", "path", bad, "--to", DISPATCH], capture_output=True, text=True, timeout=WAIT, check=True)
    assert "goes on at the end of the log" in r.stdout
    r = run(bad, "--to", "nobody-of-that-name")
    assert r.returncode == 5 and "no thread" in r.stderr
    r = run(bad, "-p", "1")
    assert r.returncode == 2 and "-p" in r.stderr
    r = run("-p", "1", "--baseline", bad)
    assert r.returncode == 2 and "--baseline goes with flow explain LOG" in r.stderr
    assert run(tmp_path / "none").returncode == 8
