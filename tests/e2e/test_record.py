# rooms: trace/log monitor/live view/trigger
"""watchctl record: the flight recorder's command, its bound, its triggers and what they save."""
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import tracelog_py
from conftest import ROOT, WAIT, WATCHCTL, wait_until


def report(run, log, *args):
    r = run("report", log, "--json", *args)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def of(objects, kind):
    return [o for o in objects if o["type"] == kind]


def size_of(log):
    total = 0
    for entry in os.scandir(log):
        try:
            total += entry.stat().st_size
        except FileNotFoundError:  # removed meanwhile
            pass
    return total


class BoundGuard(threading.Thread):
    """Looks at the size of a log, over and over, each time with its recorder stopped: it must not change meanwhile."""

    def __init__(self, pid, log):
        super().__init__()
        self.pid, self.log, self.most, self.looks, self.over = pid, log, 0, 0, False
        self.start()

    def run(self):
        while not self.over:
            os.kill(self.pid, signal.SIGSTOP)
            wait_until(lambda: " (watchctl) T " in Path(f"/proc/{self.pid}/stat").read_text())
            self.most = max(self.most, size_of(self.log))
            self.looks += 1
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.003)

    def end(self):
        self.over = True
        self.join()
        return self.most


def test_what_is_recorded_is_what_the_program_says(victim, watch, run, tmp_path):
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-rw", "-o", tmp_path / "log")
    v.tell("write 30")
    v.tell("read 20")
    w.end()
    assert w.of("recorder")[0]["ring_bytes"] == 1 << 30
    assert w.summary()["counted"] == w.summary()["recorded"] == 50
    assert not w.accesses and not w.of("site")
    kinds = [a["kind"] for a in of(report(run, tmp_path / "log"), "access")]
    assert kinds == ["write"] * 30 + ["read"] * 20


def test_reads_that_turn_out_to_be_writes_are_told_apart_in_the_balance(victim, watch, tmp_path):
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-r", "-o", tmp_path / "log")
    v.tell("write 30")
    v.tell("read 20")
    w.end()
    s = w.summary()
    assert (s["counted"], s["recorded"], s["filtered"]) == (50, 20, 30)


def test_the_ring_keeps_its_bound_and_the_newest(victim, watch, run, tmp_path):
    log = tmp_path / "log"
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-w", "--ring", "1M", "-o", log)
    guard = BoundGuard(w.process.pid, log)
    for _ in range(40):
        v.tell("write 1000")
    most = guard.end()
    v.tell("inc 7")
    w.end()
    assert guard.looks > 30
    assert 500_000 < most <= 1 << 20
    s = w.summary()
    assert s["counted"] == 40007 == s["recorded"] + s["lost"]
    objects = report(run, log)
    accesses = of(objects, "access")
    assert 1000 < len(accesses) < 40000
    assert [a["function"] for a in accesses[-7:]] == ["inc_flag"] * 7
    assert [a["time_ns"] for a in accesses] == sorted(a["time_ns"] for a in accesses)
    # all that is needed to understand them is there, though it was told at the very beginning
    assert {a["function"] for a in accesses} == {"write_flag", "inc_flag"}
    assert all(a["kind"] in ("write", "readwrite") and a["comm"] == "puppet" and a["stack"][-1]["function"]
               for a in accesses)
    assert of(objects, "armed")[0]["watch"] == "flag"


def test_whoever_has_the_manual_or_babeltrace2_reads_the_same_events(victim, watch, run, tmp_path):
    if not shutil.which("babeltrace2"):
        pytest.skip("no babeltrace2")
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-rw", "--ring", "1M", "-o", tmp_path / "log")
    for _ in range(10):
        v.tell("write 1000")
    w.end()
    events = tracelog_py.check_against_babeltrace(tmp_path / "log")
    assert {"process", "module", "watch", "code_again", "thread_again", "stack", "hit", "summary"} <= {e.name for e in events}
    ours = of(report(run, tmp_path / "log"), "access")
    hits = [(e.time_ns - e["before_ns"], hex(e["new_value"])) for e in events if e.name == "hit"]
    assert sorted(hits) == sorted((a["time_ns"], a["new"]) for a in ours)


def test_a_killed_recorder_leaves_a_log_and_the_program(victim, watch, run, tmp_path):
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-w", "--ring", "1M", "-o", tmp_path / "log")
    v.tell("write 500")
    wait_until(lambda: len(of(report(run, tmp_path / "log"), "access")) == 500)  # they are written
    w.end(signal.SIGKILL, expect=-signal.SIGKILL)
    v.tell("write 10")
    assert len(of(report(run, tmp_path / "log"), "access")) == 500


def test_a_trigger_can_end_the_recording(victim, watch, run, tmp_path):
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-w", "-o", tmp_path / "log", "--trigger", "flag == 5 && !caller inc_flag",
              "--on-trigger", "stop")
    v.tell("inc 9")  # 1 to 9: by the caller that does not count
    wait_until(lambda: len(of(report(run, tmp_path / "log"), "access")) == 9)
    assert w.process.poll() is None
    v.tell("write 9")  # 0 to 8
    w.end(sig=None)
    trigger = w.of("trigger")
    assert [t["action"] for t in trigger] == ["stop"] and trigger[0]["tid"] == v.pid
    notes = [n["text"] for n in of(report(run, tmp_path / "log"), "note")]
    assert any("flag == 5" in n and "write_flag" in n for n in notes)
    v.tell("write 1")


def test_a_trigger_saves_what_happened_and_the_recording_goes_on(victim, watch, run, tmp_path):
    log = tmp_path / "log"
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-w", "-o", log, "--trigger", "caller inc_flag", "--last", "all",
              "--snapshots", 2)
    v.tell("write 20")
    for i, expected in enumerate((1, 2, 2), 1):
        v.tell("inc 3")
        wait_until(lambda: len(w.of("trigger")) >= expected)
        wait_until(lambda: len(of(report(run, log), "access")) == 20 + 3 * i)
    v.tell("write 20")
    w.end()
    triggers = w.of("trigger")
    assert [t["done"] for t in triggers] == [True, True]
    assert [t["log"] for t in triggers] == [f"{log}.trigger-1", f"{log}.trigger-2"]
    assert "last of 2 snapshots" in w.stderr
    assert len(of(report(run, log), "access")) == 49
    first = of(report(run, f"{log}.trigger-1"), "access")
    assert len(first) >= 21 and first[20]["function"] == "inc_flag"
    assert len(of(report(run, f"{log}.trigger-2"), "access")) >= 24


def test_a_snapshot_that_is_due_at_the_end_is_saved(victim, watch, run, tmp_path):
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "flag", "-w", "-o", tmp_path / "log", "--trigger", "new == 3", "--after", "1h")
    v.tell("write 9")
    wait_until(lambda: len(of(report(run, tmp_path / "log"), "access")) == 9)
    w.end()
    assert [t["done"] for t in w.of("trigger")] == [True]
    assert len(of(report(run, tmp_path / "log.trigger-1"), "access")) == 9


def test_an_enumerator_in_a_trigger(victim, watch, run, tmp_path):
    v = victim("puppet")
    w = watch("record", "-p", v.pid, "-v", "v_colour", "-w", "-o", tmp_path / "log", "--trigger", "v_colour == BLUE",
              "--on-trigger", "stop")
    v.tell("types")
    w.end(sig=None)
    assert w.of("trigger")
    w = watch("record", "-p", v.pid, "-v", "v_colour", "-w", "-o", tmp_path / "log2", "--trigger", "v_colour == BLEU")
    v.tell("types")
    wait_until(lambda: of(report(run, tmp_path / "log2"), "access"))
    w.end()
    assert not w.of("trigger")
    assert '"BLEU"' in w.stderr and "never true" in w.stderr


@pytest.mark.parametrize("args,status,says", [
    (["-v", "flag"], 2, "-o LOG"),
    (["-v", "flag", "-o", "LOG", "--ring", "100K"], 2, "1M"),
    (["-v", "flag", "-o", "LOG", "--ring", "lots"], 2, "size like 2G"),
    (["-v", "flag", "-o", "LOG", "--ring", "99999999999T"], 2, "size like 2G"),
    (["-v", "flag", "-o", "LOG", "--keep", "soon"], 2, "time like 30s"),
    (["-v", "flag", "-o", "LOG", "--keep", "0s"], 2, "time like 30s"),
    (["-v", "flag", "-o", "LOG", "--unbounded", "--keep", "1h"], 2, "excludes"),
    (["-v", "flag", "-o", "LOG", "--after", "1s"], 2, "--trigger COND"),
    (["-v", "flag", "-o", "LOG", "--trigger", "flag = 1"], 2, "at column 6"),
    (["-v", "flag", "-o", "LOG", "--trigger", "flagg == 1"], 5, "neither a watch"),
    (["-o", "LOG"], 2, "what shall be watched"),
])
def test_bad_requests_are_refused_and_leave_no_log(victim, run, tmp_path, args, status, says):
    v = victim("puppet")
    args = [str(tmp_path / "log") if a == "LOG" else a for a in args]
    r = run("record", "-p", v.pid, *args)
    assert r.returncode == status
    assert says in r.stderr and r.stderr.startswith("watchctl: ")
    assert not (tmp_path / "log").exists()


def test_a_program_that_is_started_is_recorded_from_its_first_instruction(build, hardware, run, tmp_path):
    r = subprocess.run([WATCHCTL, "record", "-v", "flag", "-w", "-o", tmp_path / "log", "--keep", "1h", "--", build("puppet")],
                       input="write 5\nexit 0\n", capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0 and r.stdout.startswith("pid ")
    assert "recording into" in r.stderr
    assert len(of(report(run, tmp_path / "log"), "access")) == 5


def test_the_unit_of_systemd_is_one(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "watchctl-record@x.service"
    shutil.copy(ROOT / "examples" / "watchctl-record@.service", unit)
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=WAIT)
    assert "watchctl-record" not in r.stderr, r.stderr


@pytest.mark.parametrize("command", [[], ["record"], ["record", "--ring", "1M"]], ids=["watch", "record", "ring"])
def test_a_log_that_is_removed_while_it_is_written_ends_the_session_with_an_error(hardware, victim, tmp_path, command):
    """What is written to files without a name is lost: a summary that counts it as recorded would be untrue."""
    v = victim("beats", "write")
    log = tmp_path / "log"
    p = subprocess.Popen([WATCHCTL, *command, "-p", str(v.pid), "-v", "flag", "-w", "--engine", "handler", "-o", log], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: log.exists() and size_of(log) > 0)
    shutil.rmtree(log)
    _, said = p.communicate(timeout=WAIT)
    assert p.returncode == 8 and ("was removed while it was being written" in said or "cannot create" in said), said


# In place of a log that exists

def files_of(path):
    return {p.name: p.read_bytes() for p in path.iterdir()}


@pytest.mark.parametrize("words", [[], ["record"]])
def test_a_log_that_exists_is_replaced_only_by_force(victim, run, hardware, tmp_path, words):
    v = victim("hammer", 1, 100)
    ask = [*words, "-p", v.pid, "-v", "counter", "-n", 3, "-o", tmp_path / "log"]
    ask = list(map(str, ask))
    assert run(*ask, "--force").returncode == 0  # nothing is there: no error either
    old = files_of(tmp_path / "log")
    r = run(*ask)
    assert r.returncode == 8 and "exists already" in r.stderr and "--force replaces it" in r.stderr
    assert files_of(tmp_path / "log") == old
    # What comes to nothing leaves the old one.
    r = run(*[a if a != "counter" else "nosuchvariable" for a in ask], "--force")
    assert r.returncode != 0 and files_of(tmp_path / "log") == old
    assert run(*ask, "--force").returncode == 0
    new = files_of(tmp_path / "log")
    assert new != old and run("report", tmp_path / "log").returncode == 0
    assert os.listdir(tmp_path) == ["log"]


def test_force_replaces_only_a_log_and_none_that_is_recorded(victim, watch, run, hardware, tmp_path):
    v = victim("hammer", 1, 1000)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work").write_text("years of it")
    ask = ["-p", str(v.pid), "-v", "counter", "-n", "3", "--force", "-o"]
    r = run(*ask, str(tmp_path / "mine"))
    assert r.returncode == 8 and "is not replaced" in r.stderr and (tmp_path / "mine" / "work").exists()
    w = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "counter", "-o", tmp_path / "log"], stderr=subprocess.PIPE)
    wait_until(lambda: (tmp_path / "log" / ".recorder").exists())
    r = run(*ask, str(tmp_path / "log"), "-i", "3")
    assert r.returncode == 8 and "is being recorded" in r.stderr, r.stderr
    w.send_signal(signal.SIGINT)
    assert w.wait(WAIT) == 0
    r = run("-p", str(v.pid), "-v", "counter", "-n", "3", "--force")
    assert r.returncode == 2 and "--force goes with -o LOG" in r.stderr


def test_a_snapshot_is_replaced_only_by_force(victim, run, hardware, tmp_path):
    v = victim("hammer", 1, 100)
    assert run("-p", str(v.pid), "-v", "counter", "-n", "3", "-o", str(tmp_path / "log")).returncode == 0
    save = ["snapshot", str(tmp_path / "log"), "-o", str(tmp_path / "new")]
    assert run(*save).returncode == 0
    r = run(*save)
    assert r.returncode == 8 and "--force replaces it" in r.stderr
    assert run(*save, "--force").returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["log", "new"]
