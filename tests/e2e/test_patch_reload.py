# rooms: patch/apply monitor/patch
"""watchctl patch and what of files is mapped when, and where: libraries that are unloaded and loaded again, pieces of a file that are mapped once more."""

import os
import shutil
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT, WATCHCTL  # noqa: E402
from test_patch_live import code_of, mappings, of_type, probes, report, wait_until  # noqa: E402, F401

PATTERN = ["--at", "entry *", "--function", "plugged", "--call", "value"]
ENOUGH_S = 0.5  # for what nothing says when it has happened: a module is looked for every 0.1 s


class Program:
    """reloads.c, told what to do line by line."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=WAIT)


def sum_of(n, factor=1):
    return str(sum((factor * i) ^ 5 for i in range(1, n + 1)))


@pytest.fixture
def program(build, tmp_path):
    shutil.copy(build("libplugged.so"), tmp_path / "libplugged.so")
    p = Program(build("reloads"))
    yield p
    p.process.kill()
    p.process.wait()


class Patched:
    """A session on it."""

    def __init__(self, program, probes, log, *words):
        self.log = str(log)
        self.process = subprocess.Popen([WATCHCTL, "patch", "-p", str(program.pid), *PATTERN, *words, probes, "-o", self.log],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: " in 1 module" in subprocess.run([WATCHCTL, "patch", "list", "-p", str(program.pid)], capture_output=True, text=True,
                                                      timeout=WAIT).stdout)

    def wait_until_counted(self, program):
        """Until it counts what the library does that has just been loaded: a moment after its jump is there. Calls it meanwhile."""
        wait_until(lambda: values(report(self.log))[-1:] == [10])  # of the one before all is written
        n = len(values(report(self.log)))
        wait_until(lambda: program.say("call 1") and len(values(report(self.log))) > n)

    def end(self, status=0):
        self.process.terminate()
        said = self.process.communicate(timeout=WAIT)[1]
        assert self.process.returncode == status, said
        return report(self.log)


def values(events):
    return [int(e["value"], 16) for e in of_type(events, "probe")]


def rounds(events):
    """The values without those of calls that were for waiting only: a 1 before another one."""
    told = values(events)
    return [v for v, after in zip(told, [*told[1:], None]) if (v, after) != (1, 1)]


def notes(events):
    return [e["text"] for e in of_type(events, "note") if "loaded again" in e["text"]]


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0, ENOUGH_S], ids=["at once", "after a while"])
def test_a_library_that_is_loaded_again_at_the_same_place_is_patched_again(program, probes, tmp_path, pause):  # noqa: F811
    library = tmp_path / "libplugged.so"
    at = program.say(f"open {library}")
    before, code = mappings(program.pid), code_of(program.pid)
    session = Patched(program, probes, tmp_path / "log")
    assert program.say("call 10") == sum_of(10)
    for _ in range(3):
        program.say("close")
        time.sleep(pause)
        assert program.say(f"open {library}") == at
        session.wait_until_counted(program)
        assert program.say("call 10") == sum_of(10)
    events = session.end()
    assert rounds(events) == list(range(1, 11)) * 4
    assert [t["count"] for t in of_type(events, "probe_total")] == [len(values(events))]
    assert len(notes(events)) == 3
    assert (mappings(program.pid), code_of(program.pid)) == (before, code)
    assert program.say("call 10") == sum_of(10)
    assert program.end() == 0


def test_another_version_of_the_library_at_the_same_place_is_patched_as_it_is(build, program, probes, tmp_path):  # noqa: F811
    library = tmp_path / "libplugged.so"
    program.say(f"open {library}")
    session = Patched(program, probes, tmp_path / "log")
    assert program.say("call 10") == sum_of(10)
    program.say("close")
    shutil.copy(build("libplugged_anew.so"), tmp_path / "new")
    os.rename(tmp_path / "new", library)
    program.say(f"open {library}")
    session.wait_until_counted(program)
    assert program.say("call 10") == sum_of(10, 3)
    events = session.end()
    assert rounds(events) == list(range(1, 11)) * 2
    assert sorted(t["count"] for t in of_type(events, "probe_total")) == [10, len(values(events)) - 10]
    assert program.say("call 10") == sum_of(10, 3)
    assert program.end() == 0


def test_what_has_taken_the_place_of_the_library_is_left_alone(program, probes, tmp_path):  # noqa: F811
    program.say(f"open {tmp_path}/libplugged.so")
    session = Patched(program, probes, tmp_path / "log")
    assert program.say("call 10") == sum_of(10)
    assert program.say("fill") == "filled"
    time.sleep(ENOUGH_S)
    assert values(session.end()) == list(range(1, 11))
    assert program.end() == 0


@pytest.mark.slow
def test_a_library_comes_and_goes_all_the_time_and_nothing_is_harmed(program, probes, tmp_path):  # noqa: F811
    library = tmp_path / "libplugged.so"
    program.say(f"open {library}")
    before, code = mappings(program.pid), code_of(program.pid)
    session = Patched(program, probes, tmp_path / "log")
    assert program.say("flip 20000") == "20000"
    wait_until(lambda: program.say("call 1") and values(report(session.log))[-2:] == [1, 1])  # no flip calls it twice with 1
    assert program.say("call 10") == sum_of(10)
    events = session.end()
    assert values(events)[-10:] == list(range(1, 11))
    assert (mappings(program.pid), code_of(program.pid)) == (before, code)
    assert program.end() == 0


def test_a_killed_session_does_not_count_as_there_when_the_library_has_been_loaded_again(build, program, probes, tmp_path):  # noqa: F811
    library = tmp_path / "libplugged.so"
    program.say(f"open {library}")
    before = mappings(program.pid)
    session = Patched(program, probes, tmp_path / "log")
    session.process.kill()
    session.process.wait()
    program.say("close")
    shutil.copy(build("libplugged_anew.so"), tmp_path / "new")
    os.rename(tmp_path / "new", library)
    program.say(f"open {library}")
    done = subprocess.run([WATCHCTL, "clear", "-p", str(program.pid)], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    assert len(mappings(program.pid)) == len(before)
    assert program.say("call 10") == sum_of(10, 3)
    assert program.end() == 0


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
def test_of_a_piece_of_its_own_file_that_node_maps_once_more_only_the_piece_is_looked_at(probes, tmp_path):  # noqa: F811
    script = tmp_path / "idle.js"
    script.write_text("setInterval(() => {}, 1000); console.log('ready');")
    p = subprocess.Popen(["node", str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        log = tmp_path / "log"
        done = subprocess.run([WATCHCTL, "patch", "-p", str(p.pid), "--at", "entry *", "--call", "nothing", probes, "-o", str(log), "-t", "0.1"],
                              capture_output=True, text=True, timeout=2 * WAIT, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        sites = of_type(report(log), "patch_site")
        assert len(sites) > 10000
        assert not [s for s in sites if "those of the file" in s.get("reason", "") or "be read" in s.get("reason", "")]
    finally:
        p.kill()
        p.wait()


# Who is at work


def clear(pid, *words):
    return subprocess.run([WATCHCTL, "clear", "-p", str(pid), *words], capture_output=True, text=True, timeout=WAIT)


def test_a_killed_session_that_its_parent_has_not_waited_for_is_not_at_work(program, probes, tmp_path):  # noqa: F811
    program.say(f"open {tmp_path}/libplugged.so")
    before, code = mappings(program.pid), code_of(program.pid)
    session = Patched(program, probes, tmp_path / "log")
    session.process.kill()
    wait_until(lambda: "State:\tZ" in open(f"/proc/{session.process.pid}/status").read())
    done = clear(program.pid)
    assert done.returncode == 0 and "took out 1 patch of 1 module" in done.stdout, (done.stdout, done.stderr)
    assert (mappings(program.pid), code_of(program.pid)) == (before, code)
    session.process.communicate()


def test_clear_says_whom_it_has_ended(program, probes, tmp_path):  # noqa: F811
    program.say(f"open {tmp_path}/libplugged.so")
    session = Patched(program, probes, tmp_path / "log")
    done = clear(program.pid, "--all")
    assert done.returncode == 0 and done.stdout == f"ended watchctl {session.process.pid}, which has taken out its 1 patch of 1 module\n", done.stderr
    session.process.communicate(timeout=WAIT)


def test_what_another_watchctl_has_patched_is_said_to_be_its(program, probes, tmp_path):  # noqa: F811
    program.say(f"open {tmp_path}/libplugged.so")
    session = Patched(program, probes, tmp_path / "log")
    done = subprocess.run([WATCHCTL, "patch", "-p", str(program.pid), *PATTERN, probes, "-t", "1"], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 7 and "another watchctl's" in done.stderr, done.stderr
    assert program.say("call 10") == sum_of(10)
    assert values(session.end()) == list(range(1, 11))
