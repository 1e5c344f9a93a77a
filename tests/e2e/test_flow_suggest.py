# rooms: flow/graph flow/rules
"""`watchctl flow suggest`: rules that a log gives reason for, as a file of rules."""
import json
import re
import subprocess
import sys

import pytest

from conftest import WAIT, WATCHCTL

# The server finds its messages after naps: of naps the defaults say nothing.
SERVER = """import os, time
get, put = os.pipe()
os.set_blocking(get, False)
def take():
    try:
        return len(os.read(get, 1))
    except BlockingIOError:
        return 0
take()
for i in range(4):
    if not os.fork():
        for _ in range(10):
            os.write(put, b"m")
        os._exit(0)
got = 0
open("/proc/self/comm", "w").write("napper 1")
while got < 40:
    got += take()
    time.sleep(0.001)
for i in range(4):
    os.wait()
"""


def flow(*words):
    return subprocess.run([WATCHCTL, "flow", *map(str, words)], capture_output=True, text=True, timeout=WAIT, check=False)


def units_of(log, *words):
    r = flow("graph", log, "--process", "napper 1", *words)
    assert r.returncode == 0, r.stderr
    objects = [json.loads(line) for line in r.stdout.splitlines()]
    return sum(o["type"] == "node" and o.get("comm") == "napper 1" for o in objects)


@pytest.fixture
def log(build, tmp_path):
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    r = flow("record", "-o", tmp_path / "log", "--", sys.executable, script)
    assert r.returncode == 0, r.stderr
    return tmp_path / "log"


def test_the_wait_of_a_loop_is_suggested_once(log, tmp_path):
    first = flow("suggest", log, "--process", "napper 1")
    assert first.returncode == 0, first.stderr
    rules = [line for line in first.stdout.splitlines() if line and not line.startswith("#")]
    assert rules == ['idle process "napper 1" thread "napper 1" clock_nanosleep on none'], first.stdout
    # A thread of the kernel or of the recorder may have woken it, too.
    counted = re.search(r"(\d+) messages from (\d+) threads in one unit of ", first.stdout)
    assert counted and int(counted[1]) >= 40 and int(counted[2]) >= 4, first.stdout

    file = tmp_path / "napper.rules"
    file.write_text(first.stdout)
    assert units_of(log, "--rules", file) >= units_of(log) + 39

    second = flow("suggest", log, "--process", "napper 1", "--rules", file)
    assert second.returncode == 0, second.stderr
    assert second.stdout.startswith("# No rule is suggested")
    file.write_text(second.stdout)
    assert flow("graph", log, "--rules", file, "--process", "napper 1").returncode == 0


def test_options_of_others_are_refused(tmp_path):
    for words in (["--json"], ["--utc"], ["--to", "app"], ["--around", "12:00:00"]):
        r = flow("suggest", tmp_path, *words)
        assert r.returncode == 2, (words, r.stderr)
    assert flow("suggest").returncode == 2
    assert flow("path", tmp_path, "--process", "app", "--to", "app").returncode == 2
