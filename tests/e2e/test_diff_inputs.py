# rooms: view/diff step
"""watchctl diff: what came in differently is named first, with its place; what is the same is no difference."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, heard, wait_until
from test_ready import begun

TEXT = b"".join(b"line %d of the input\n" % i for i in range(12))
AT = 101


@pytest.fixture(scope="module")
def victim(build):
    return str(build("inputs"))


def changed(at=AT):
    return TEXT[:at] + b"#" + TEXT[at + 1:]


def record(log, command, options=(), stdin=subprocess.DEVNULL, env=None, cwd=None, data=None):
    given = {"input": data} if data is not None else {"stdin": stdin}
    r = subprocess.run([WATCHCTL, "step", "-q", "--program-output", os.devnull, *options, "-o", str(log), "--",
                        *command], capture_output=True, env=env, cwd=cwd, timeout=WAIT, **given)
    if b"no LLDB" in r.stderr:
        pytest.skip("this machine has no LLDB")
    assert log.is_dir(), r.stderr
    return log


def diff(good, bad, *options):
    r = subprocess.run([WATCHCTL, "diff", "--json", *options, str(good), str(bad)], capture_output=True, text=True,
                       timeout=WAIT)
    assert r.returncode in (0, 1, 3), r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def of(objects, kind):
    return [o for o in objects if o["type"] == kind]


def first(objects):
    found = of(objects, "difference")[0]
    assert found["kind"] == "input", found
    return found


PROGRAMS = [
    ["bc", "-q", "{}"], ["gzip", "-1c", "{}"], ["sed", "-n", "$p", "{}"], ["grep", "-c", "zzz", "{}"],
    ["awk", "/zzz/", "{}"], ["sort", "-c", "{}"], ["wc", "-l", "{}"], ["cksum", "{}"],
    ["xz", "-0c", "{}"], ["bzip2", "-c", "{}"], ["tail", "-n1", "{}"], ["od", "-N1", "-j{at}", "{}"],
]


@pytest.mark.parametrize("command", PROGRAMS, ids=lambda c: c[0])
def test_one_byte_of_a_file(tmp_path, command):
    if not shutil.which(command[0]):
        pytest.skip(command[0] + " is not installed")
    logs = []
    for which, data in ("good", TEXT), ("bad", changed()):
        (tmp_path / which).mkdir()
        (tmp_path / which / "in").write_bytes(data)
        words = [w.format("in", at=AT) for w in command]
        logs.append(record(tmp_path / (which + ".log"), words, cwd=tmp_path / which))
    found = first(diff(*logs))
    assert found["what"] == "bytes"
    assert found["name"].endswith("bad/in")
    assert found["offset"] == AT
    assert bytes.fromhex(found["good"]["bytes"])[found["good"]["at"]] == TEXT[AT]
    assert bytes.fromhex(found["bad"]["bytes"])[found["bad"]["at"]] == ord("#")


@pytest.mark.parametrize("how", ["read", "pread", "readv", "mmap"])
def test_every_way_to_read_a_file(tmp_path, victim, how):
    for which, data in ("good", TEXT), ("bad", changed()):
        (tmp_path / which).write_bytes(data)
        record(tmp_path / (which + ".log"), [victim, how, str(tmp_path / which)])
    objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    assert [c["index"] for c in of(objects, "changed")] == [2]
    assert first(objects)["offset"] == AT
    assert first(objects)["name"] == str(tmp_path / "bad")


def test_pipe(tmp_path, victim):
    good = record(tmp_path / "good", [victim], data=TEXT)
    found = first(diff(good, record(tmp_path / "bad", [victim], data=changed())))
    assert found["input"] == "stream" and found["name"].startswith("pipe:") and found["offset"] == AT
    assert not of(diff(good, record(tmp_path / "again", [victim], data=TEXT)), "difference")


@pytest.mark.parametrize("how", ["read", "recv", "recvmsg"])
def test_socket(tmp_path, victim, how):
    for which, data in ("good", TEXT), ("bad", changed()):
        ours, its = socket.socketpair()
        ours.sendall(data)
        ours.close()
        record(tmp_path / which, [victim, how], stdin=its)
        its.close()
    found = first(diff(tmp_path / "good", tmp_path / "bad"))
    assert found["name"].startswith("socket:") and found["offset"] == AT


def test_a_file_that_ends_earlier(tmp_path, victim):
    for which, data in ("good", TEXT), ("bad", TEXT[:AT]):
        (tmp_path / which).write_bytes(data)
        record(tmp_path / (which + ".log"), [victim, "read"], stdin=open(tmp_path / which))
    found = first(diff(tmp_path / "good.log", tmp_path / "bad.log"))
    assert (found["what"], found["offset"]) == ("end", AT)


def test_what_was_not_recorded_is_only_known_to_differ(tmp_path, victim):
    for which, data in ("good", TEXT), ("bad", changed(70)):
        (tmp_path / which).write_bytes(data)
        record(tmp_path / (which + ".log"), [victim, "read"], ["--bytes", "2"], stdin=open(tmp_path / which))
    found = first(diff(tmp_path / "good.log", tmp_path / "bad.log"))
    assert (found["what"], found["offset"]) == ("unseen", 66)


def test_environment_is_named_and_is_no_difference(tmp_path, victim):
    logs = [record(tmp_path / value, [victim], env=dict(os.environ, COLOUR=value)) for value in ("red", "blue")]
    objects = diff(*logs)
    assert [(c["what"], c["good"], c["bad"]) for c in of(objects, "changed")] == [
        ("variable", "COLOUR=red", "COLOUR=blue")]
    assert not of(objects, "difference")


def test_without_inputs_nothing_is_claimed(tmp_path, victim):
    for which, data in ("good", TEXT), ("bad", changed()):
        record(tmp_path / which, [victim], ["--no-inputs"], data=data)
    objects = diff(tmp_path / "good", tmp_path / "bad")
    assert not any(d["kind"] == "input" for d in of(objects, "difference"))
    assert of(objects, "summary")[0]["inputs_compared"] is False
    assert any("inputs were not compared" in n["text"] for n in of(objects, "note"))


def test_redacted_inputs_are_not_in_the_log(tmp_path, victim):
    log = record(tmp_path / "log", [victim], ["--redact", "no_such_function"], data=TEXT)
    assert b"line 3 of the input" not in b"".join(f.read_bytes() for f in log.iterdir() if f.is_file())
    objects = diff(log, record(tmp_path / "bad", [victim], data=changed()))
    assert any("inputs are withheld" in n["text"] for n in of(objects, "note"))


def test_report_shows_them(tmp_path, victim):
    log = record(tmp_path / "log", [victim], data=TEXT)
    text = subprocess.run([WATCHCTL, "report", "--calls", str(log)], capture_output=True, text=True,
                          timeout=WAIT).stdout
    assert 'at 0: 64 bytes, "line 0 of the input\\n' in text
    lines = subprocess.run([WATCHCTL, "report", "--json", str(log)], capture_output=True, text=True,
                           timeout=WAIT).stdout.splitlines()
    reads = [o for o in map(json.loads, lines) if o["type"] == "input" and o["kind"] == "stream"]
    assert b"".join(bytes.fromhex(o.get("bytes", "")) for o in reads) == TEXT
    assert [o["offset"] for o in reads] == [min(64 * i, len(TEXT)) for i in range(len(reads))]


def tracer_of(pid):
    return int(re.search(r"^TracerPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def echoed(cat, lines):
    for i in range(lines):
        line = b"line %d\n" % i
        cat.stdin.write(line)
        cat.stdin.flush()
        assert cat.stdout.readline() == line


@pytest.mark.parametrize("when", ["while it attaches", 0, 1, 40])
def test_a_killed_recorder_leaves_the_reads_as_they_are(tmp_path, when):
    """The program stands at a system call, or waits in one, and goes on as if nobody had looked.

    @when: so many lines after it was ready."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        recorder, fd = begun("step", "-q", "-o", tmp_path / "log", "-p", cat.pid)
        if when == "while it attaches":
            wait_until(lambda: tracer_of(cat.pid) or recorder.poll() is not None)
        elif heard(fd):
            echoed(cat, when)
        recorder.kill()
        said = recorder.communicate(timeout=WAIT)[1]
        if "no LLDB" in said:
            pytest.skip("this machine has no LLDB")
        assert recorder.returncode == -signal.SIGKILL, said
        echoed(cat, 50)
        cat.stdin.close()
        assert cat.stdout.read() == b""
        assert cat.wait(timeout=WAIT) == 0


@pytest.mark.slow
def test_a_running_program_has_the_inputs_of_its_range(tmp_path):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        log = tmp_path / "log"
        recorder, fd = begun("step", "-q", "-o", log, "-p", cat.pid)
        if heard(fd):
            echoed(cat, 10)
        cat.stdin.close()
        assert cat.wait(timeout=WAIT) == 0
        said = recorder.communicate(timeout=WAIT)[1]
    if "no LLDB" in said:
        pytest.skip("this machine has no LLDB")
    assert recorder.returncode == 0, said
    text = subprocess.run([WATCHCTL, "report", "--calls", str(log)], capture_output=True, text=True,
                          timeout=WAIT).stdout
    assert all(f"line {i}\\n" in text for i in range(1, 10))  # it may have waited for the first when it was attached to


def test_a_page_says_what_was_changed_and_which_input_differs_first(tmp_path):
    logs = []
    for which, data in ("good", TEXT), ("bad", changed()):
        (tmp_path / which).write_bytes(data)
        logs.append(record(tmp_path / (which + ".log"), ["wc", "-l", str(tmp_path / which)]))
    page = tmp_path / "page.html"
    r = subprocess.run([WATCHCTL, "diff", "-q", "--html", str(page), *map(str, logs)], capture_output=True, text=True,
                       timeout=WAIT)
    assert r.returncode == 1, r.stderr
    text = page.read_text()
    start, found = text.index("<h2>Started differently</h2>"), text.index("<h2>First difference of input: ")
    assert start < found < text.index("<h2>First difference of values") if "difference of values" in text else start < found
    assert str(tmp_path / "bad") in text[start:found] and f", byte {AT}</h2>" in text[found:]
    assert "No input" not in text
