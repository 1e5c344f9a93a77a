# rooms: cli/steprec step/lldb
"""The steprec commands inside an interactive LLDB, on a program that writes down its own calls (lldb_calls.c)."""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from conftest import BUILD, ROOT, WAIT, WATCHCTL, wait_until

LIBRARY = BUILD / "lib" / "libsteprec.so"
SCRIPT = ROOT / "lldb-scripts" / "steprec.lldb"
LLDB = next((p for p in map(shutil.which, [f"lldb-{n}" for n in (19, 18, 17, 16, 15, 14)] + ["lldb"]) if p), None)
ONLY = " ".join(f"--only {name}" for name in
                "leaf middle recurse begin finish sorts compare threads sleeps forks".split())

pytestmark = [
    pytest.mark.skipif(LLDB is None, reason="there is no lldb (package lldb-19)"),
    pytest.mark.skipif(not LIBRARY.exists(), reason="libsteprec.so was not built: there is no liblldb"),
]


@pytest.fixture
def victim_path(build):
    return build("lldb_calls")


@pytest.fixture(scope="module")
def python_in_lldb():
    probe = subprocess.run([LLDB, "-b", "-o", "script print(6 * 7)"], capture_output=True, text=True, timeout=WAIT)
    if "\n42" not in probe.stdout:
        pytest.skip("this LLDB has no Python, by which steprec.lldb finds the library")


def environment():
    return dict(os.environ, WATCHCTL_LIBSTEPREC=str(LIBRARY))


def lldb(*commands, target=None, cwd=None):
    """A batch session; what it printed."""
    line = [LLDB, "--no-lldbinit", "-b", "-o", f"plugin load {LIBRARY}"]
    for command in commands:
        line += ["-o", command]
    done = subprocess.run(line + ([target] if target else []), capture_output=True, text=True, timeout=WAIT,
                          stdin=subprocess.DEVNULL, cwd=cwd, env=environment())
    return done.stdout + done.stderr


def number(value):
    """A long of the log: 64-bit values are hex strings."""
    n = int(value, 16) if isinstance(value, str) else value
    return n - (1 << 64) if n >> 63 else n


def calls(log):
    """What the log says, in the words of the victim's account: call NAME ARG, return NAME RESULT."""
    text = subprocess.run([WATCHCTL, "report", str(log), "--json"], capture_output=True, text=True, timeout=WAIT,
                          check=True).stdout
    lines = []
    for o in map(json.loads, text.splitlines()):
        if o["type"] == "call":
            lines.append(f"call {o['function']} {number(o['args'][0]['value'])}")
        elif o["type"] == "return":
            value = number(o["ret"]["value"]) if "ret" in o else o["how"]
            lines.append(f"return {o['function']} {value}")
    return lines


def account(path):
    return path.read_text().splitlines()


def part(lines, first, last):
    """From the line @first to the first line @last after it."""
    at = lines.index(first)
    return lines[at:lines.index(last, at) + 1]


@pytest.mark.slow
def test_a_range_of_a_program_that_is_run_later(tmp_path, victim_path):
    log, written = tmp_path / "a.log", tmp_path / "account"
    out = lldb(f"steprec start --from begin --to finish --occurrence 2 {ONLY} -o {log}", "steprec status",
               f"run begin {written}", "steprec status", "steprec show 3", "continue", target=victim_path)
    assert "begins when the program is run" in out
    assert "recorded 1 times" in out
    assert "} begin = 16" in out
    assert "exited with status = 7" in out
    assert calls(log) == part(account(written), "call begin 2", "return begin 16")


def test_a_program_that_stands_already(tmp_path, victim_path):
    log, written = tmp_path / "a.log", tmp_path / "account"
    out = lldb("breakpoint set -n main", f"run recurse {written}", f"steprec start {ONLY} -o {log}", target=victim_path)
    assert "the process has ended" in out
    assert calls(log) == account(written)


@pytest.mark.slow
def test_the_users_breakpoint_pauses_and_continue_goes_on(tmp_path, victim_path):
    log, written = tmp_path / "a.log", tmp_path / "account"
    out = lldb("breakpoint set -n middle -c 'x == 2'", f"steprec start {ONLY} -o {log}", f"run begin {written}",
               "steprec status", "breakpoint list", "frame variable x", "continue", target=victim_path)
    assert out.count("the recording is paused") == 1
    assert "(long) x = 2" in out
    assert len(re.findall(r"^\d+: ", out, re.M)) == 1, "only the user's own breakpoint is listed"
    assert calls(log) == account(written)


@pytest.mark.slow
def test_stop_ends_it_where_it_is_and_the_program_goes_on(tmp_path, victim_path):
    log, written = tmp_path / "a.log", tmp_path / "account"
    out = lldb("breakpoint set -n finish", f"steprec start {ONLY} -o {log}", f"run begin {written}", "steprec stop",
               "breakpoint delete 1", "continue", target=victim_path)
    assert "it was stopped" in out
    assert "exited with status = 7" in out
    got = calls(log)
    assert got == part(account(written), "call begin 1", "return begin 5") + ["call finish 1", "return finish never"]


def test_attached_with_address_randomisation(tmp_path, victim_path):
    log, written = tmp_path / "a.log", tmp_path / "account"
    p = subprocess.Popen([victim_path, "loop", str(written)], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline().startswith("pid ")
        out = lldb(f"process attach -p {p.pid}", f"steprec start --from begin --to finish --count 3 {ONLY} -o {log}",
                   "process detach")
        assert "recorded in" in out
        got = calls(log)
        assert [line.split()[1] for line in got if line.startswith("call begin")] == ["begin"] * 3
        assert got[0].startswith("call begin") and got[-1].startswith("return begin")
        assert p.poll() is None, "it lives on"
        size = written.stat().st_size
        wait_until(lambda: written.stat().st_size > size, or_say=lambda: "and works on")
    finally:
        p.kill()
        p.wait()


@pytest.mark.slow
def test_a_hang_tells_where_it_stands(tmp_path, victim_path):
    log = tmp_path / "a.log"
    out = lldb(f"steprec start --from sleeps --stuck-after 1s {ONLY} -o {log}", f"run sleep {tmp_path}/account",
               "kill", target=victim_path)
    assert "nothing happened any more" in out
    text = subprocess.run([WATCHCTL, "report", str(log), "--json"], capture_output=True, text=True, check=True).stdout
    stood = [o for o in map(json.loads, text.splitlines()) if o["type"] == "stood"]
    assert [f["function"] for f in stood[0]["stack"]].index("sleeps") >= 1


@pytest.mark.slow
def test_mistakes_are_told_with_what_to_do(tmp_path, victim_path):
    log = tmp_path / "a.log"
    # A batch session ends with its first error.
    assert "nothing is being recorded" in lldb("steprec stop", target=victim_path)
    assert "nothing has been recorded yet" in lldb("steprec show", target=victim_path)
    assert "give a number from 1 to" in lldb("steprec start --depth 0", target=victim_path)
    assert '"--nonsense" is no option' in lldb("steprec start --nonsense", target=victim_path)
    out = lldb(f"steprec start --from nowhere_at_all -o {log}", "run begin", target=victim_path)
    assert "nowhere_at_all" in out.split("run begin")[1]
    assert not log.exists()
    assert "there is no program" in lldb("steprec start")


def test_command_files_load_the_library_and_record(tmp_path, victim_path, python_in_lldb):
    log, written = tmp_path / "a.log", tmp_path / "account"
    script = ROOT / "lldb-scripts" / "record-range.lldb"
    done = subprocess.run([LLDB, "--no-lldbinit", "-b", "-o", f"command source {script}", "-o",
                           f"command source {SCRIPT}", "-o", f"record-range recurse {log}", "-o",
                           f"run recurse {written}", "-o", "continue", victim_path],
                          capture_output=True, text=True, timeout=WAIT, env=environment(), stdin=subprocess.DEVNULL)
    assert "error" not in done.stderr
    names = [line for line in calls(log) if line.split()[1] == "recurse"]
    assert names == account(written)


class Dialogue:
    """An LLDB on a terminal."""

    def __init__(self, *args, cwd):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(cwd)
            os.environ["TERM"] = "dumb"
            os.execv(LLDB, [LLDB, "--no-lldbinit", "--no-use-colors", *args])
        self.text = ""

    def wait_for(self, what):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
            if re.search(what, self.text):
                seen, self.text = self.text, ""
                return seen
        raise AssertionError(f"no {what!r} in {self.text!r}")

    def send(self, text):
        os.write(self.fd, text.encode())

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.mark.slow
def test_ctrl_c_pauses_an_interactive_recording(tmp_path, victim_path):
    log = tmp_path / "a.log"
    d = Dialogue(victim_path, cwd=tmp_path)
    try:
        d.wait_for(r"\(lldb\) $")
        d.send(f"plugin load {LIBRARY}\n")
        d.wait_for(r"\(lldb\) $")
        d.send(f"steprec start {ONLY} -o {log}\n")
        d.wait_for("begins when the program is run")
        d.send(f"run loop {tmp_path}/account\n")
        d.wait_for("others are stepped over")
        for _ in range(60):  # on a busy machine a second is not much
            time.sleep(1)
            d.send("\x03")
            d.wait_for("the recording is paused")
            d.send("steprec status\n")
            first = int(re.search(r"(\d+) calls, ", d.wait_for(r"\d+ stops")).group(1))
            if first > 10:
                break
            d.send("continue\n")
        assert first > 10
        d.send("continue\n")
        time.sleep(1)
        d.send("\x03")
        d.wait_for("the recording is paused")
        d.send("steprec stop\n")
        d.wait_for("it was stopped")
        d.send("kill\n")
        d.wait_for("exited")
        d.send("quit\n")
    finally:
        d.close()
    got = calls(log)
    assert sum(line.startswith("call") for line in got) > first
