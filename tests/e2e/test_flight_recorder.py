"""Logs of flight recorders, by a second writer and a second reader; and `watchctl snapshot`."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import tracelog_py as log

WATCHCTL = os.environ["WATCHCTL"]
GENERATOR = os.path.join(os.path.dirname(os.path.dirname(WATCHCTL)), "tests", "bench", "ring-gen")
TIMEOUT = 60
ADDR = 0x404010


def run(*args):
    return subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=TIMEOUT)


def objects(*args):
    r = run("report", "--json", *args)
    return r, [json.loads(line) for line in r.stdout.splitlines()]


def beginning(time_ns, again=False):
    told = [log.process(time_ns, 77, "app", 10**18 + time_ns), log.watch(time_ns, 0, "flag", ADDR)]
    return [log.retold(time_ns, 1), *told, log.retold(time_ns, 0)] if again else told


def thread_again(time_ns, tid, comm):
    return log.event(log.THREAD_AGAIN, time_ns, log.struct.pack("<ii", 77, tid) + log.text(comm)
                     + log.struct.pack("<iQQQ", 0, 0, 0, 0))


def part(time_ns, first, again=True):
    """Ten accesses, numbers from @first on, with all that they need."""
    comes = thread_again(time_ns, 78, "worker") if again else log.thread(time_ns, 77, 78, "worker")
    events = [*beginning(time_ns, again), comes, log.stack(time_ns, 0, [0x401010, 0x401020])]
    events += [log.hit(time_ns + 10 + i, 0, 78, 0, first + i - 1, first + i, 0, 0x401010) for i in range(10)]
    return log.packet2(events, time_ns, time_ns + 20)


@pytest.fixture()
def three(tmp_path):
    return log.write_ring(tmp_path / "ring", {n: [part(1000 * (n + 1), 10 * n + 1, n > 0)] for n in range(3)})


def values(found):
    return [int(o["new"], 16) for o in found if o["type"] == "access"]


def test_the_files_of_a_ring_are_one_log(three):
    r, found = objects(three)
    assert r.returncode == 0, r.stderr
    assert values(found) == list(range(1, 31))
    first = next(o for o in found if o["type"] == "access")
    assert first["comm"] == "worker" and first["pid"] == 77 and first["addr"] == hex(ADDR)
    assert len([o for o in found if o["type"] == "process"]) <= 1
    assert not [o for o in found if o["type"] == "note"]


def test_a_ring_that_has_lost_its_first_files_is_a_log(three):
    os.remove(three + "/events.0000000000")
    r, found = objects(three)
    assert r.returncode == 0, r.stderr
    assert values(found) == list(range(11, 31))
    assert [o for o in found if "recorded before is not in this log" in o.get("text", "")]
    assert {o["comm"] for o in found if o["type"] == "access"} == {"worker"}


def test_damage_in_a_file_costs_that_file_and_is_told(three):
    with open(three + "/events.0000000001", "r+b") as f:
        f.seek(300)
        f.write(b"\0" * 200)
    r, found = objects(three)
    assert values(found) == list(range(1, 11)) + list(range(21, 31))
    notes = [o for o in found if o["type"] == "note"]
    assert any("missing here" in o["text"] and "checksum" in o["text"] for o in notes), found


def test_a_file_that_is_missing_in_the_middle_is_told(three):
    os.remove(three + "/events.0000000001")
    r, found = objects(three)
    assert values(found) == list(range(1, 11)) + list(range(21, 31))
    assert any("missing here" in o.get("text", "") for o in found)


def test_the_end_of_the_last_file_is_cut_as_that_of_a_log(three):
    os.truncate(three + "/events.0000000002", 100)
    r, found = objects(three)
    assert r.returncode == 8 and "the last 100 bytes were ignored" in r.stderr
    assert values(found) == list(range(1, 21))


def test_only_metadata_or_nothing_at_all(tmp_path):
    empty = log.write_ring(tmp_path / "empty", {})
    r = run("report", empty)
    assert r.returncode == 8 and "has no file `events`" in r.stderr
    os.mkdir(tmp_path / "nothing")
    assert run("report", tmp_path / "nothing").returncode == 8
    newer = log.write_ring(tmp_path / "newer", {0: [part(1000, 1, False)]}, major=3)
    r = run("report", newer)
    assert r.returncode == 8 and "newer version" in r.stderr


# Against babeltrace2, event by event


def events_of_babeltrace(path):
    r = subprocess.run(["babeltrace2", "--clock-cycles", "--no-delta", "--names", "all", path], capture_output=True,
                       text=True, timeout=TIMEOUT)
    assert r.returncode == 0, r.stderr
    return r.stdout.splitlines()


def field(line, name):
    text = re.search(r"\b%s = (0x[0-9A-F]+|-?\d+)" % name, line)[1]
    return int(text, 16 if text.startswith("0x") else 10)


def accesses_of_babeltrace(path):
    """What our reader makes of a hit, made of babeltrace2's lines: stacks and watches as the file says so far."""
    stacks, watches, found = {}, {}, []
    for line in events_of_babeltrace(path):
        kind = re.search(r"name = (\w+), ", line)[1] if "name = " in line else ""
        if " name = stack," in line:
            stacks[field(line, "stack")] = [int(v, 16) for v in re.findall(r"\[\d+\] = (0x[0-9A-F]+)", line)]
        elif " name = watch," in line:
            watches[field(line, "watch")] = field(line, "addr")
        elif " name = hit," in line:
            time_ns = field(line, "timestamp") - field(line, "before_ns")
            line = line[line.index("{ watch = "):]  # behind the event's own size
            regs = {k: int(v, 16) for k, v in re.findall(r"(r\w+|fs_base) = (0x[0-9A-F]+)", line)}
            found.append({"time_ns": time_ns, "tid": field(line, "tid"), "addr": watches[field(line, "watch")] + field(line, "offset"),
                          "size": field(line, "size"), "old": field(line, "old_value"),
                          "new": field(line, "new_value"), "regs": regs, "stack": stacks[field(line, "stack")]})
        assert kind
    return found


def accesses_of_ours(path):
    r, found = objects("--regs", path)
    assert r.returncode == 0, r.stderr
    return [o for o in found if o["type"] == "access"]


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("ring") / "log"
    subprocess.run([GENERATOR, str(path), "1048576", "20000"], check=True, timeout=TIMEOUT)
    return str(path)


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="no babeltrace2")
def test_babeltrace2_agrees_on_every_access_of_a_ring_that_has_wrapped(wrapped):
    assert "events.0000000000" not in os.listdir(wrapped)
    theirs, ours = accesses_of_babeltrace(wrapped), accesses_of_ours(wrapped)
    assert len(theirs) == len(ours) > 1000
    for a, b in zip(theirs, ours):
        assert a["time_ns"] == b["time_ns"] and a["tid"] == b["tid"] and a["addr"] == int(b["addr"], 16) and a["size"] == b["size"]
        assert (a["old"], a["new"]) == (int(b["old"], 16), int(b["new"], 16))
        assert a["regs"] == {k: int(v, 16) for k, v in b["regs"].items()}
        assert len(a["stack"]) == len(b["stack"])
        assert a["stack"][1:] == [int(f["ip"], 16) for f in b["stack"]][1:]


def test_a_ring_stays_within_its_bound(wrapped):
    assert sum(os.path.getsize(os.path.join(wrapped, f)) for f in os.listdir(wrapped)) <= 1048576


# Snapshots


def snapshot(*args):
    r = run("snapshot", "--json", *args)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_a_snapshot_of_a_ring_is_a_log_with_the_same_events(wrapped, tmp_path):
    o = snapshot(wrapped, "-o", tmp_path / "new")
    ours = accesses_of_ours(wrapped)
    assert o["accesses"] == len(ours) and not o["recording"] and o["ring"] and o["missed"] == 0
    assert accesses_of_ours(tmp_path / "new") == ours
    assert os.stat(tmp_path / "new").st_mode & 0o7777 == 0o700
    r = run("snapshot", wrapped, "-o", tmp_path / "new")
    assert r.returncode == 8 and "exists already" in r.stderr


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="no babeltrace2")
def test_the_last_part_of_a_ring_is_valid_for_babeltrace2(wrapped, tmp_path):
    o = snapshot(wrapped, "-o", tmp_path / "new", "--last", "1ms")  # the generator's accesses are 1 us apart
    assert 1000 <= o["accesses"] < 2500
    assert len(accesses_of_babeltrace(str(tmp_path / "new"))) == o["accesses"]


def test_a_running_recorder_is_saved_again_and_again(tmp_path):
    ring = tmp_path / "log"
    recorder = subprocess.Popen([GENERATOR, str(ring), "1048576", "0"])
    try:
        until = time.monotonic() + 20
        while not os.path.exists(ring) or "events.0000000000" in os.listdir(ring) or len(os.listdir(ring)) < 5:
            assert time.monotonic() < until
            time.sleep(0.01)
        last = 0
        for i in range(5):
            o = snapshot(ring, "-o", tmp_path / f"new{i}")
            assert o["recording"] and o["flushed"] and o["missed"] == 0
            found = [int(a["new"], 16) for a in accesses_of_ours(tmp_path / f"new{i}")]
            assert found == list(range(found[0], found[-1] + 1)) and found[-1] > last
            last = found[-1]
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
        o = snapshot(ring, "-o", tmp_path / "dead")
        assert not o["recording"] and o["accesses"] > 0
    finally:
        recorder.kill()
        recorder.wait()


def test_a_plain_log_is_saved_whole_and_says_so(tmp_path):
    packets = [log.packet([log.process(1, 77, "app", 10**18), log.watch(1, 0, "flag", ADDR)])]
    plain = log.write_log(tmp_path / "plain", packets)
    r = run("snapshot", plain, "-o", tmp_path / "new", "--last", "10s")
    assert r.returncode == 0 and "from its beginning" in r.stdout
    assert run("report", tmp_path / "new").returncode == 0


@pytest.mark.parametrize("args, words", [
    ([], "needs a log"),
    (["log"], "needs a log"),
    (["log", "-o"], "-o"),
    (["none", "-o", "new"], "there is no log"),
    (["log", "-o", "new", "--last", "soon"], "--last"),
    (["a", "b", "c"], "one too many"),
])
def test_mistakes_are_explained(args, words):
    r = run("snapshot", *args)
    assert r.returncode in (2, 8) and words in r.stderr and r.stdout == ""


def test_a_full_disk_leaves_nothing(wrapped, tmp_path):
    new = tmp_path / "new"
    other = "/dev/shm" if os.stat("/dev/shm").st_dev != os.stat(wrapped).st_dev else None
    target = os.path.join(other, f"watchctl-test-{os.getpid()}") if other else str(new)
    r = subprocess.run(["bash", "-c", f"ulimit -f 20; exec {WATCHCTL} snapshot {wrapped} -o {target}"],
                       capture_output=True, text=True, timeout=TIMEOUT)
    assert r.returncode == 8 and "nothing of it is left" in r.stderr
    folder = os.path.dirname(target)
    assert not [f for f in os.listdir(folder) if os.path.basename(target) in f]
