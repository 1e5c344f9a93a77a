# rooms: cli/output base session
"""Nobody reads what is printed: the program, the recording and its log go on, and nothing of it is lost in silence."""
import fcntl
import json
import os
import signal
import subprocess

import pytest
from as_found import snapshot
from conftest import WAIT, WATCHCTL, wait_until

WATCHES = {"follow": ("pointer", ["-v", "head->len", "--follow"]), "thread-local": ("tls", ["-v", "mine"]),
           "plain": ("write", ["-v", "flag", "-w"])}
CASES = [(engine, kind) for engine in ("handler", "ptrace") for kind in WATCHES] + [("ring", "plain")]
UNREAD = 300  # accesses, at 1000 bytes and more: far more than the pipe and a buffer of ours take


class Unread:
    """A watchctl that prints to a pipe of one page."""

    def __init__(self, *args):
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        self.process = subprocess.Popen([WATCHCTL, *map(str, args)], stdout=write_end, stderr=subprocess.PIPE, text=True)
        os.close(write_end)
        self.out = os.fdopen(read_end)

    def read(self):
        """All that it prints, and what it says at the end."""
        lines = self.out.readlines()
        self.stderr = self.process.communicate(timeout=WAIT)[1]
        return lines

    def objects(self):
        return [json.loads(line) for line in self.read()]


@pytest.fixture
def unread(hardware):
    started = []

    def start(*args):
        started.append(Unread(*args))
        return started[-1]

    yield start
    for u in started:
        u.out.close()
        if u.process.poll() is None:
            u.process.kill()
            u.process.wait()


def in_log(log):
    r = subprocess.run([WATCHCTL, "report", log, "--json"], capture_output=True, text=True, timeout=WAIT)
    return [json.loads(line) for line in r.stdout.splitlines()]


def signals(pid):
    """Other than before where a tracer or a handler of ours is in the program."""
    now = dict(snapshot(pid)["signals"])
    return int(now["SigCgt"], 16) & 1 << signal.SIGTRAP - 1, now["TracerPid"]


def accesses(objects):
    return sum(o["type"] == "access" for o in objects)


@pytest.mark.parametrize("engine,kind", CASES)
def test_the_recording_goes_on_and_all_can_be_read_later(victim, unread, tmp_path, engine, kind):
    how, watch = WATCHES[kind]
    v = victim("beats", how)
    before = signals(v.pid)
    u = unread("-p", v.pid, *watch, "--engine", engine, "--json", "--regs", "-o", tmp_path / "log", "--echo")
    wait_until(lambda: (tmp_path / "log").exists() and accesses(in_log(tmp_path / "log")) >= UNREAD)
    u.process.send_signal(signal.SIGINT)
    wait_until(lambda: signals(v.pid) == before)
    assert u.process.poll() is None  # it has left the program, and waits for its reader
    printed = u.objects()
    assert u.process.returncode == 0 and u.stderr == ""
    recorded = sum(o["recorded"] for o in printed if o["type"] == "summary")
    assert accesses(printed) == recorded == accesses(in_log(tmp_path / "log")) >= UNREAD
    assert v.alive()


@pytest.mark.slow
def test_what_is_more_than_the_queue_holds_is_counted_and_in_the_log(victim, unread, tmp_path):
    v = victim("hammer", 1, 10)
    before = signals(v.pid)
    n = 40000  # of more than 1000 bytes each
    u = unread("-p", v.pid, "-v", "counter", "--engine", "handler", "--json", "--regs", "-o", tmp_path / "log", "--echo", "-n", n)
    wait_until(lambda: signals(v.pid) != before)
    wait_until(lambda: signals(v.pid) == before)
    printed = u.objects()
    missing = sum(o["lines"] for o in printed if o["type"] == "not_printed")
    assert u.process.returncode == 0
    assert f"watchctl: {missing} lines were not printed: the output was not read (the log has everything)" in u.stderr
    logged = in_log(tmp_path / "log")
    assert missing > 0 and accesses(logged) >= n
    assert len([o for o in printed if o["type"] in ("access", "lost", "note")]) + missing >= n


def test_who_waits_for_the_reader_ends_at_the_next_signal(victim, unread):
    v = victim("beats", "write")
    before = signals(v.pid)
    u = unread("-p", v.pid, "-v", "flag", "-w", "--engine", "handler", "-n", UNREAD)
    wait_until(lambda: signals(v.pid) != before)
    wait_until(lambda: signals(v.pid) == before)
    assert u.process.poll() is None

    def ended():
        u.process.send_signal(signal.SIGINT)  # the first may still find it leaving the program
        return u.process.poll() is not None

    assert wait_until(ended) and u.process.returncode == 1
    assert "not printed: the output was not read" in u.process.stderr.read()
    assert v.alive()


def test_messages_and_what_is_printed_keep_their_order(victim, hardware):
    """Both go to one pipe, as to a terminal: what was said while the watch was prepared comes before it begins."""
    v = victim("beats", "write")
    r = subprocess.run([WATCHCTL, "--verbose", "-p", str(v.pid), "-v", "flag", "-w", "-n", "20"], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=WAIT)
    lines = r.stdout.splitlines()
    said = [i for i, line in enumerate(lines) if line.startswith("watchctl: ")]
    assert r.returncode == 0 and said and not [line for line in lines if "watchctl: " in line[1:]]
