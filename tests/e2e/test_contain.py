# rooms: tools/contain tests/e2e/conftest.py
"""tools/contain and the end of a test: of what a test has started nothing is left, however the test has ended."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, WAIT, wait_until

CONTAIN = str(ROOT / "tools" / "contain")
# Ignores what asks it to end, and has a session and a parent of its own; tells its pid and start time in a file.
STUBBORN = '''
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    sys.exit()
with open(sys.argv[1] + ".new", "w") as f:
    print(os.getpid(), file=f)
os.rename(sys.argv[1] + ".new", sys.argv[1])
signal.pause()
'''
TESTS = '''
import os, signal, subprocess, sys, time

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

def test_it():
    subprocess.Popen([sys.executable, "stubborn.py", "pid"])
    wait_for("pid")
    with open("tester.new", "w") as f:
        print(os.getpid(), file=f)
    os.rename("tester.new", "tester")
    HOW

def test_next():
    try:
        state = open(f"/proc/{open('pid').read().strip()}/stat").read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return
    assert state in "ZX"
'''
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_it.py"]
ALONE = ["-p", "no:xdist"]
WORKER = ["--dist", "load", "--max-worker-restart=0", "--tx", f"popen//python={CONTAIN} {sys.executable}"]


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture
def begin(tmp_path):
    """begin(how the test ends, command) -> the shell that has begun a pytest in its own folder, and waits for it."""
    def start(how, *options):
        (tmp_path / "stubborn.py").write_text(STUBBORN)
        (tmp_path / "test_it.py").write_text(TESTS.replace("HOW", how))
        env = {k: v for k, v in os.environ.items() if k not in ("E2E_FAILED", "PYTEST_XDIST_WORKER", "CONTAIN_PID")}
        env["PYTHONPATH"] = str(ROOT / "tests" / "e2e")
        shell = ["sh", "-c", '"$@"; exit $?', "sh"]
        with open(tmp_path / "said", "w") as said:
            command = [*shell, CONTAIN, *PYTEST, *options]
            return subprocess.Popen(command, cwd=tmp_path, env=env, stdout=said, stderr=said)
    return start


def told(path):
    return int(wait_until(lambda: path.exists() and path.read_text()))


@pytest.mark.parametrize("options", [ALONE, WORKER], ids=["alone", "a worker"])
def test_nothing_is_left_of_a_test_whose_pytest_is_killed(begin, tmp_path, options):
    p = begin("signal.pause()", *options)
    tester, stubborn = told(tmp_path / "tester"), told(tmp_path / "pid")
    assert runs(stubborn)
    os.kill(tester, signal.SIGKILL)
    assert p.wait(timeout=WAIT) != 0
    assert not runs(stubborn)


@pytest.mark.parametrize("options", [ALONE, WORKER], ids=["alone", "a worker"])
def test_nothing_is_left_when_the_one_is_killed_that_started_all(begin, tmp_path, options):
    p = begin("signal.pause()", *options)
    tester, stubborn = told(tmp_path / "tester"), told(tmp_path / "pid")
    assert runs(stubborn)
    p.kill()
    p.wait(timeout=WAIT)
    wait_until(lambda: not runs(stubborn) and not runs(tester))


@pytest.mark.parametrize("how, status", [("pass", 0), ("assert False", 1)])
def test_what_a_test_leaves_ends_with_the_run_whose_status_is_passed_on(begin, tmp_path, how, status):
    p = begin(how, *ALONE, "--deselect", "test_it.py::test_next")
    assert p.wait(timeout=WAIT) == status, (tmp_path / "said").read_text()
    assert not runs(told(tmp_path / "pid"))


@pytest.mark.parametrize("options", [ALONE, WORKER], ids=["alone", "a worker"])
def test_what_a_test_leaves_has_ended_when_the_next_one_begins(begin, tmp_path, options):
    p = begin("pass", *options, "-p", "conftest")
    assert p.wait(timeout=WAIT) == 0, (tmp_path / "said").read_text()


SERVER = '''
import os, signal
while True:
    worker = os.fork()
    if not worker:
        signal.pause()
    print(worker, flush=True)
    os.waitpid(worker, 0)
'''
USES_A_SERVER = '''
import os, signal, subprocess, sys
import pytest

@pytest.fixture(scope="module")
def server():
    p = subprocess.Popen([sys.executable, "server.py"], stdout=subprocess.PIPE, text=True)
    yield p
    p.kill()

workers = []

def test_its_worker_ends(server):
    os.kill(int(server.stdout.readline()), signal.SIGKILL)
    workers.append(int(server.stdout.readline()))

def test_the_next_one_is_there(server):
    os.kill(workers[0], 0)
'''


def test_a_server_of_several_tests_may_make_another_worker(begin, tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "test_server.py").write_text(USES_A_SERVER)
    p = begin("pass", *ALONE, "-p", "conftest", "--deselect", "test_it.py", "test_server.py")
    assert p.wait(timeout=WAIT) == 0, (tmp_path / "said").read_text()


def test_a_signal_that_asks_it_to_end_is_passed_on(tmp_path):
    """SIGINT, too: from a terminal COMMAND has it already."""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        script = "trap 'exit 5' INT TERM HUP; echo; while :; do sleep 600 & wait; done"
        p = subprocess.Popen([CONTAIN, "sh", "-c", script], stdout=subprocess.PIPE)
        p.stdout.readline()
        p.send_signal(sig)
        assert p.wait(timeout=WAIT) == 5


def test_a_command_that_cannot_be_run_is_said():
    r = subprocess.run([CONTAIN, "./nowhere"], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 127 and r.stderr == "contain: ./nowhere: No such file or directory\n"
