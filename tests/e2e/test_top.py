# rooms: cli/top view/table
"""watchctl top, in a terminal: what it shows against what the victim says of itself, its keys, its forms without
a screen, and that the terminal and the victim are left as they were whatever ends it."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte
import pytest

from conftest import WAIT, WATCHCTL, wait_until, wait_until_it_has_run

ROW = re.compile(r"^\s*([\d,]+)\s+[\d,.]+/s\s+(read|write|rw)\s+\d+\s+(counter|state)\s+(\S+)", re.M)
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?3[1-7](?:;[0-9;]*)?m")


class Terminal:
    """watchctl top in a terminal of its own; what it draws, as a person sees it."""

    def __init__(self, *args, rows=24, columns=80, env=None, unset=(), through=()):
        self.master, self.slave = pty.openpty()
        self.size(rows, columns)
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.before = termios.tcgetattr(self.slave)
        full = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", *unset)}
        full.update(LANG="C.UTF-8", **(env or {}))
        if "TERM" not in unset:
            full.setdefault("TERM", "xterm-256color")
            if "TERM" not in (env or {}):
                full["TERM"] = "xterm-256color"
        self.process = subprocess.Popen([*through, WATCHCTL, "top", *map(str, args)], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, env=full, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.size(rows, columns)

    def pump(self, seconds=0.1):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                data = os.read(self.master, 65536)
                self.raw += data
                self.stream.feed(data)

    def text(self):
        return "\n".join(self.screen.display)

    def sees(self, pattern):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if re.search(pattern, self.text(), re.M):
                self.pump(0.05)  # the rest of the picture
                return True
            self.pump(0.1)
            if self.process.poll() is not None and not select.select([self.master], [], [], 0)[0]:
                break
        raise AssertionError(f"{self.process.poll()}: no {pattern!r} on the screen:\n{self.text()}")

    def sees_no(self, pattern):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if not re.search(pattern, self.text(), re.M):
                return True
            self.pump(0.1)
        raise AssertionError(f"{pattern!r} stays on the screen:\n{self.text()}")

    def press(self, keys):
        os.write(self.master, keys.encode())
        return self

    def rows(self):
        return {(kind, watch, site.split("+")[0]): int(count.replace(",", ""))
                for count, kind, watch, site in ROW.findall(self.text())}

    def shows(self, rows):
        """A picture may come in several pieces: until it is whole."""
        end = time.monotonic() + WAIT
        while self.rows() != rows and time.monotonic() < end:
            self.pump(0.1)
        assert self.rows() == rows, self.text()

    def order(self):
        return [m[3] for m in ROW.findall(self.text())]

    def ended(self):
        end = time.monotonic() + WAIT
        while self.process.poll() is None and time.monotonic() < end:
            self.pump(0.05)
        assert self.process.poll() is not None, "it does not end:\n" + self.text()
        self.pump(0.2)
        return self.process.returncode

    def as_before(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for fd in (self.master, self.slave):
            if fd is not None:
                os.close(fd)


@pytest.fixture
def top(hardware):
    opened = []

    def start(*args, **kw):
        opened.append(Terminal(*args, **kw))
        return opened[-1]

    yield start
    for t in opened:
        t.close()


WATCHES = ["-v", "counter", "-rw", "-v", "state", "-w"]


def account(text):
    """What the victim says of itself."""
    return {name: int(n) for name, n in re.findall(r"^(bump|set_state|peek|only_once) (\d+)$", text, re.M)}


def expected(own):
    return {("read", "counter", "bump"): own["bump"], ("write", "counter", "bump"): own["bump"],
            ("read", "counter", "peek"): own["peek"], ("write", "state", "set_state"): own["set_state"],
            ("write", "state", "only_once"): own["only_once"]}


@pytest.fixture
def recorded(build, run, tmp_path, hardware):
    """A log, and what the program in it said of itself."""
    log = tmp_path / "log"
    done = run(*WATCHES, "-o", log, "--output", "/dev/null", "--", build("sites"), 3, 500, 400)
    assert done.returncode == 0, done.stderr
    return log, account(done.stdout)


def unwatched(pid):
    """Nobody holds a debug register of it any more."""
    probe = subprocess.run([WATCHCTL, "list", "-p", str(pid), "--json"], capture_output=True, text=True, timeout=WAIT)
    return probe.returncode == 0 and '"holder"' not in probe.stdout


# What it shows

@pytest.mark.slow
def test_counts_are_the_victims_own(top, build, tmp_path):
    out = tmp_path / "out"
    t = top(*WATCHES, "--program-output", out, "--", build("sites"), 3, 300, 1000)
    t.sees("ENDED: the process has ended")
    own = account(out.read_text())
    assert own["bump"] == 3000
    t.shows(expected(own))
    total = 2 * own["bump"] + own["peek"] + own["set_state"] + own["only_once"]
    t.sees(rf"{total:,} accesses, .* 0 lost, 5 sites")
    t.press("q")
    assert t.ended() == 0
    assert t.as_before()
    shown = re.sub(r"\s+", " ", t.text())
    assert f"counter: {2 * own['bump'] + own['peek']} accesses counted by the CPU" in shown
    assert f"state: {own['set_state'] + own['only_once']} accesses counted by the CPU" in shown


def test_a_log_shows_the_same(top, recorded):
    log, own = recorded
    t = top(log)
    t.sees("ENDED")
    t.shows(expected(own))
    t.press("q")
    assert t.ended() == 0


def test_a_log_that_is_being_recorded_is_followed(top, build, tmp_path):
    log = tmp_path / "log"
    recorder = subprocess.Popen([WATCHCTL, *WATCHES, "-o", log, "--output", "/dev/null", "--", build("sites"), "2", "1000",
                                 "2000"], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: list(log.glob("events*")))
    t = top(log)
    t.sees("RECORDING")
    first = t.rows()
    t.sees("ENDED")
    own = account(recorder.communicate(timeout=WAIT)[0])
    t.shows(expected(own))
    assert first != t.rows()
    assert "not whole" not in t.text() and "not read" not in t.text()


def test_an_attached_program_is_left_as_it_was(top, victim, before_and_after):
    v = victim("sites", 2, 2000)
    wait_until(lambda: len(os.listdir(f"/proc/{v.pid}/task")) == 3)
    wait_until_it_has_run(v.pid)  # its threads have made what they map
    with before_and_after(v.pid):
        t = top("-p", v.pid, *WATCHES)
        t.sees(r"write\s+2\s+counter\s+bump\+\d+\s+\d+ -> \d+")
        t.sees(r"^ sites/%d  RECORDING" % v.pid)
        t.press("q")
        assert t.ended() == 0
    assert t.as_before()
    assert v.alive()


# Keys

def test_rows_are_sorted_as_asked(top, recorded):
    t = top(recorded[0])
    t.sees("ENDED")
    t.sees("COUNTv")
    assert t.order()[-1] == "only_once"
    t.press("r").sees(r"COUNT\^")
    assert t.order()[0] == "only_once"
    t.press("s").sees("RATEv")
    t.press("s").sees("LASTv")
    assert t.order()[0] == "only_once"
    t.press("s").sees("SITEv")
    assert [o.split("+")[0] for o in t.order()] == ["bump", "bump", "only_once", "peek", "set_state"]
    t.press("s").sees("THRv")
    assert t.order()[-1] == "only_once"
    t.press("S").sees("SITEv")


def test_the_filter_finds_functions_watches_and_values(top, recorded):
    t = top(recorded[0])
    t.sees("set_state")
    t.press("/PEEK").sees("filter: PEEK")
    t.sees_no("set_state")
    t.shows({("read", "counter", "peek"): recorded[1]["peek"]})
    t.press("\x7f" * 4 + "closed").sees("filter: closed")
    t.sees_no("peek")
    t.shows({("write", "state", "only_once"): 1})
    t.press("\r").sees("filter closed")
    t.press("\x1b").sees("peek")
    t.press("/zzz").sees("none of the 5 sites passes")
    t.press("\x1b").sees("peek")
    t.press("/").press("état\r").sees("filter état")
    t.press("\x1b").sees("peek")
    t.press("q")
    assert t.ended() == 0


def test_one_watch_can_be_chosen(top, recorded):
    t = top(recorded[0])
    t.sees("set_state")
    t.press("w").sees_no("set_state")
    t.sees("^>counter")
    t.press("w").sees("set_state")
    t.sees_no("bump")
    t.press("w").sees("bump")


@pytest.mark.slow
def test_frozen_stands_still_while_counting_goes_on(top, victim):
    v = victim("sites", 2, 1000)
    t = top("-p", v.pid, *WATCHES)
    t.sees(r"\bbump\+")
    t.press("f").sees(r"FROZEN for [\d.]+ s, [1-9][\d,]* accesses since")
    t.pump(1)  # the rest of the picture
    held = t.rows()
    t.pump(1.5)
    assert t.rows() == held
    t.press(" ").sees("RECORDING")
    key = ("write", "counter", "bump")
    wait_until(lambda: t.pump(0.1) or t.rows().get(key, 0) > held[key])
    assert t.rows()[("write", "counter", "bump")] > held[("write", "counter", "bump")]


def test_a_site_opens_and_closes(top, recorded):
    log, own = recorded
    t = top(log, rows=70, columns=100)
    t.sees("set_state")
    t.press("/set_state\r").sees("filter set_state")
    t.press("\r").sees("STACKS")
    t.sees(rf"^ {own['set_state']:,} accesses .*by 3 threads")
    t.sees(rf"{own['set_state']:,} 100.0%")
    for function in ("work", "handle_request", "set_state"):
        t.sees(rf"^\s+(\|\s)?{function}\b")
    quarter = own["set_state"] // 4
    for name in ("READING", "WRITING", "IDLE"):
        t.sees(rf"^\s+{name}\s+{quarter:,}\s+25\.0%")
    t.sees(r"^\s*>\s+\d+\s+state = next\[i % 4\];")
    t.sees(r"^\s*>[0-9a-f]+  mov dword ptr \[rip.*# state")
    t.sees(r"^ rip     [0-9a-f]{16}|rip     [0-9a-f]{16}")
    assert t.text().index("work") < t.text().index("handle_request")
    t.press("t").sees("the access first")
    assert t.text().index("handle_request") < t.text().index(" work")
    t.press("q").sees("SITE")
    t.press("q")
    assert t.ended() == 0


def test_stacks_of_a_site_part_where_its_callers_do(top, recorded):
    log, own = recorded
    t = top(log, rows=60, columns=160)
    t.sees("bump")
    t.press("\r").sees("STACKS")
    t.sees(rf"{own['bump'] - own['peek']:,}\s+75\.0%  \+-handle_request")
    t.sees(rf"{own['peek']:,}\s+25\.0%  \+-reload")
    t.press("\x1b").sees("SITE")


def test_the_cursor_moves_and_help_opens(top, recorded):
    t = top(recorded[0])
    t.sees("only_once")
    t.press("jj\x1b[B\x1b[A\x1b[F").press("\r").sees("at only_once")
    t.press("\x1b").sees("SITE")
    t.press("\x1b[H\r").sees("at bump")
    t.press("?").sees("freeze the display")
    t.press("\x1b").sees("at bump")
    t.press("q").sees("SITE")


# Sizes

@pytest.mark.parametrize("rows, columns", [(24, 80), (10, 40), (40, 120), (60, 200)])
def test_any_size_shows_count_and_site(top, recorded, rows, columns):
    log, own = recorded
    t = top(log, rows=rows, columns=columns)
    t.sees(rf"{own['bump']:,}.*bump")
    t.sees(r"^\s*COUNTv")
    if columns >= 120:
        t.sees(r"sites\.c:\d+")
    t.sees(r"^ Enter site .*/ filter .*\? help")  # what helps on, at any width
    t.press("\r").sees("STACKS" if rows > 10 else "at bump")
    t.press("qq")
    assert t.ended() == 0


def test_it_follows_the_terminals_size(top, recorded):
    t = top(recorded[0])
    t.sees("set_state")
    assert "sites.c:" not in t.text()
    t.resize(40, 140)
    t.sees(r"sites\.c:\d+")
    t.resize(5, 20)
    t.sees("too small: 20x5")
    assert "bump" not in t.text()
    t.resize(24, 80)
    t.sees("set_state")
    t.press("q")
    assert t.ended() == 0


# Forms

@pytest.mark.parametrize("env, unset, why", [({"TERM": "dumb"}, (), 'TERM is "dumb"'), ({}, ("TERM",), "TERM is not set"),
                                             ({"TERM": "no-such-terminal"}, (), "unknown terminal")])
def test_without_a_screen_it_prints_lines_and_says_so(top, recorded, env, unset, why):
    log, own = recorded
    t = top(log, env=env, unset=unset, columns=120)
    assert t.ended() == 0
    assert f"plain lines instead of a screen, because {why}" in re.sub(r"\s*\n", "", t.text()) or why in t.text()
    assert b"\x1b" not in t.raw
    assert re.search(rf"^\s*{own['peek']:,} .* peek\b", t.text(), re.M)
    assert t.as_before()


def test_into_a_pipe_go_lines(run, recorded):
    log, own = recorded
    done = run("top", log)
    assert done.returncode == 0
    assert "plain lines instead of a screen, because standard output is no terminal" in done.stderr
    rows = {(kind, watch, site.split("+")[0]): int(count.replace(",", "")) for count, kind, watch, site in
            ROW.findall(done.stdout)}
    assert rows == expected(own)
    assert "counted by the CPU" in done.stdout


def test_json_is_an_object_a_line(run, recorded):
    log, own = recorded
    done = run("top", "--json", log)
    assert done.returncode == 0 and done.stderr == ""
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    last = [o for o in objects if o["type"] == "top"][-1]
    assert last["state"] == "ended"
    found = {(s["kind"], s["watch"], s["function"]): s["count"] for s in last["sites"]}
    assert found == expected(own)
    assert last["count"] == sum(found.values())
    assert {w["watch"]: w["count"] for w in last["watches"]} == {
        "counter": 2 * own["bump"] + own["peek"], "state": own["set_state"] + own["only_once"]}
    once = next(s for s in last["sites"] if s["function"] == "only_once")
    assert once["new"] == "0x9" and once["new_text"] == "CLOSED" and once["threads"] == 1
    assert [o["watch"] for o in objects if o["type"] == "summary"] == ["counter", "state"]


def test_json_of_a_running_program_comes_each_delay(build, hardware):
    done = subprocess.run([WATCHCTL, "top", "--json", "--delay", "0.3", "-t", "2", "-v", "counter", "-w", "--",
                           build("sites"), "1", "1000"], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    tops = [o for o in map(json.loads, done.stdout.splitlines()) if o["type"] == "top"]
    os.kill(tops[-1]["pid"], signal.SIGKILL)  # it lives on
    assert 2 <= len(tops) <= 9  # a busy machine may make them fewer, nothing more
    counts = [o["count"] for o in tops]
    assert counts == sorted(counts) and counts[-1] > counts[0]
    assert tops[-1]["end"] == "the time limit was reached"
    assert tops[-1]["elapsed_ns"] >= 1.9e9


@pytest.mark.parametrize("env, colours", [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)])
def test_colours_only_where_wanted(top, recorded, env, colours):
    t = top(recorded[0], env=env)
    t.sees("set_state")
    assert bool(COLOUR.search(t.raw)) == colours
    t.press("q")
    assert t.ended() == 0


def test_an_ascii_terminal_gets_ascii(top, recorded):
    t = top(recorded[0], env={"LC_ALL": "C"}, columns=120)
    t.sees("set_state")
    t.sees(r"#")
    t.press("\r").sees("STACKS")
    t.press("qq")
    assert t.ended() == 0
    assert all(byte < 0x80 for byte in t.raw)


# Endings

@pytest.mark.parametrize("sig, status", [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGSEGV, -signal.SIGSEGV),
                                         (signal.SIGKILL, -signal.SIGKILL)])
def test_killed_it_leaves_terminal_and_victim(top, victim, sig, status):
    v = victim("sites", 2, 2000)
    t = top("-p", v.pid, *WATCHES)
    t.sees(r"\bbump\+")
    assert not t.as_before() and not unwatched(v.pid)
    t.process.send_signal(sig)
    assert t.ended() == status
    if sig != signal.SIGKILL:
        assert t.as_before()
        assert b"\x1b[?1049l" in t.raw
    wait_until(lambda: unwatched(v.pid), or_say=lambda: "the watch stays")
    wait_until_it_has_run(v.pid)
    assert v.alive()
    v.process.send_signal(signal.SIGTERM)
    assert set(account(v.process.communicate(timeout=WAIT)[0])) == {"bump", "set_state", "peek", "only_once"}


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def test_that_its_session_was_killed_is_said_and_what_was_counted_stays(top, victim):
    v = victim("sites", 2, 2000)
    t = top("-p", v.pid, *WATCHES, columns=120)
    t.sees(r"\bbump\+")
    (session,) = children(t.process.pid)
    os.kill(session, signal.SIGKILL)
    t.sees(rf"ENDED: the session's process {session} was killed by signal 9")
    assert t.rows()[("write", "counter", "bump")] > 0
    # A handler that does nothing stays, see watchctl-list(1); no register does.
    wait_until(lambda: '"used":0' in subprocess.run([WATCHCTL, "list", "-p", str(v.pid), "--json"], timeout=WAIT,
                                                    capture_output=True, text=True).stdout)
    assert v.alive()
    t.press("q")
    assert t.ended() == 1
    assert t.as_before()


def test_when_the_terminal_goes_the_session_ends(top, victim):
    v = victim("sites", 2, 2000)
    t = top("-p", v.pid, *WATCHES)
    t.sees(r"\bbump\+")
    os.close(t.slave)
    os.close(t.master)
    t.master = t.slave = None
    t.process.wait(timeout=WAIT)
    wait_until(lambda: unwatched(v.pid), or_say=lambda: "the watch stays")
    assert v.alive()


# What a shell does: the program is the foreground group of a session whose leader waits for it. (Where nobody
# does, the kernel ignores SIGTSTP.)
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if not pid:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_stopped_it_gives_the_terminal_back_and_goes_on(top, victim):
    v = victim("sites", 2, 2000)
    t = top("-p", v.pid, *WATCHES, through=(sys.executable, "-c", SHELL))
    t.sees(r"\bbump\+")
    (pid,) = children(t.process.pid)
    t.press("\x1a")

    def stopped():
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"

    wait_until(lambda: t.pump(0.05) or stopped())
    assert t.as_before()
    count = t.rows()[("write", "counter", "bump")]
    t.screen.reset()
    os.kill(pid, signal.SIGCONT)
    t.sees(r"\bbump\+")
    wait_until(lambda: t.pump(0.05) or t.rows().get(("write", "counter", "bump"), 0) > count)
    t.press("q")
    assert t.ended() == 0
    assert t.as_before()


def test_the_screen_stays_when_the_program_ends(top, victim):
    v = victim("sites", 2, 2000)
    t = top("-p", v.pid, *WATCHES)
    t.sees(r"\bbump\+")
    v.process.send_signal(signal.SIGTERM)
    t.sees("ENDED: the process has ended")
    t.pump(1)
    assert t.process.poll() is None
    t.sees("only_once")
    t.press("q")
    assert t.ended() == 0
    assert t.as_before()


def test_a_limit_ends_the_recording(top, victim):
    v = victim("sites", 1, 1000)
    t = top("-p", v.pid, "-v", "counter", "-w", "-n", 50)
    t.sees("ENDED: the requested number of accesses was reached")
    t.press("q")
    assert t.ended() == 0
    assert v.alive()


def test_a_kept_recording_can_be_reported(top, victim, run, tmp_path):
    v = victim("sites", 1, 1000)
    log = tmp_path / "kept"
    t = top("-p", v.pid, "-v", "counter", "-w", "-o", log, "-n", 40)
    t.sees("ENDED")
    t.press("q")
    assert t.ended() == 0
    done = run("report", "--sites", log)
    assert done.returncode == 0 and re.search(r"^\s*4\d\s+counter\s+write\s+bump", done.stdout, re.M)


# Load

@pytest.mark.slow
def test_at_full_speed_all_that_was_recorded_is_counted(victim):
    v = victim("hammer", 2)
    done = subprocess.run([WATCHCTL, "top", "--json", "--delay", "0.5", "-t", "3", "-p", str(v.pid), "-v", "counter",
                           "-rw"], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    shown = [o for o in objects if o["type"] == "top"][-1]
    summary = [o for o in objects if o["type"] == "summary"][-1]
    assert "log_bytes_missed" not in shown
    assert shown["count"] == summary["recorded"] > 10000
    assert summary["recorded"] + summary["lost"] + summary["filtered"] == summary["counted"]
    assert v.alive()


@pytest.mark.slow
def test_what_a_ring_dropped_unread_is_said(top, victim, tmp_path):
    v = victim("hammer", 2, 20)
    log = tmp_path / "ring"
    recorder = subprocess.Popen([WATCHCTL, "record", "-p", str(v.pid), "-v", "counter", "-rw", "-o", str(log), "--ring",
                                 "1M"], stdout=subprocess.DEVNULL)
    wait_until(lambda: list(log.glob("events*")))
    t = top(log, columns=120)
    t.sees(r"\bbump\b")
    t.process.send_signal(signal.SIGSTOP)
    known = set(log.glob("events*"))
    wait_until(lambda: not known & set(log.glob("events*")))
    t.process.send_signal(signal.SIGCONT)
    t.sees(r"[1-9]\d* bytes of the log were not read: ")
    t.press("q")
    assert t.ended() == 0
    assert recorder.poll() is None, "the recording goes on"
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(timeout=WAIT) == 0


# Errors

@pytest.mark.parametrize("args, status, words", [
    ((), 2, "nothing to show"),
    (("-v", "x"), 2, "in which process"),
    (("-p", "1", "-v", "x", "--delay", "0"), 2, "--delay 0"),
    (("/nonexistent/log",), 8, "/nonexistent/log"),
    (("/nonexistent/log", "-p", "1"), 2, "as it is"),
    (("a", "b"), 2, "one too many"),
    (("-p", "999999999", "-v", "x"), 3, ""),
    (("-p", "1", "-v", "x", "--program-output", "f"), 2, "needs a program to launch"),
])
def test_errors_come_without_a_screen(top, args, status, words):
    t = top(*args, columns=200)
    assert t.ended() == status
    assert words in t.text() and "watchctl: " in t.text()
    assert b"\x1b" not in t.raw
    assert t.as_before()


def test_a_log_cut_short_is_shown_and_said(top, recorded):
    log, own = recorded
    events = log / "events"
    events.write_bytes(events.read_bytes()[:-1000])
    t = top(log)
    t.sees("the log is not whole")
    assert 0 < t.rows()[("write", "counter", "bump")] <= own["bump"]
    t.press("q")
    assert t.ended() == 8
    t.sees("is not whole: the last")
