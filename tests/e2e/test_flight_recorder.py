# rooms: trace/log
"""Logs of flight recorders, by a second writer and a second reader; and `watchctl snapshot`."""

import json
import os
import shutil
import signal
import subprocess

import pytest
import tracelog_py as log
from waiting import WAIT, wait_until

WATCHCTL = os.environ["WATCHCTL"]
GENERATOR = os.path.join(os.path.dirname(os.path.dirname(WATCHCTL)), "tests", "bench", "ring-gen")
ADDR = 0x404010


def run(*args):
    return subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)


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


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_the_summary_says_what_the_log_still_holds(tmp_path, removed):
    """Beside what the CPU counted in all: also with --sites, where the table has what is still there."""
    files = {n: [part(1000 * (n + 1), 10 * n + 1, n > 0)] for n in range(3)}
    files[2].append(log.packet2([log.summary(3100, 0, 30, 30)], 3100, 3100))
    ring = log.write_ring(tmp_path / "ring", files)
    for n in range(removed):
        os.remove(f"{ring}/events.{n:010d}")
    for args in ([], ["--sites"]):
        r, found = objects(*args, ring)
        summary, = [o for o in found if o["type"] == "summary"]
        assert r.returncode == 0 and summary["recorded"] == summary["counted"] == 30 and summary["complete"]
        assert summary.get("held") == (30 - 10 * removed if removed else None)
        assert not [o for o in found if o["type"] == "missing"]
        text = run("report", *args, ring).stdout
        said = f"; this log still holds {30 - 10 * removed} of them\n"
        assert "flag: 30 accesses counted by the CPU: 30 recorded, 0 lost" in text and (said in text) == (removed > 0)
        if args:
            assert sum(o["count"] for o in found if o["type"] == "site") == 30 - 10 * removed


def test_a_damaged_log_says_what_it_still_holds(tmp_path):
    events = [*beginning(1000), log.thread(1000, 77, 78, "worker"), log.stack(1000, 0, [0x401010])]
    hits = [[log.hit(2000 + 10 * i + k, 0, 78, 0, k, k + 1, 0, 0x401010) for k in range(10)] for i in range(3)]
    packets = [log.packet2(events), *map(log.packet2, hits), log.packet2([log.summary(4000, 0, 30, 30)])]
    packets[2] = packets[2][:-1] + bytes([packets[2][-1] ^ 1])
    path = log.write_log(tmp_path / "log", packets, major=2)
    r, found = objects("--sites", path)
    summary, = [o for o in found if o["type"] == "summary"]
    assert r.returncode == 8 and (summary["recorded"], summary["held"]) == (30, 20)


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


# Against a reader made from the manual, and babeltrace2, event by event

NEEDS_BABELTRACE = pytest.mark.skipif(not shutil.which("babeltrace2"), reason="no babeltrace2")


class Seen:
    """What the manual says that the events of a log tell: as the objects of `report --json` have it."""

    def __init__(self, events):
        self.stacks, self.watches, self.tags, self.processes = {}, {}, {}, {}
        self.accesses, self.captures, self.calls, self.returns, self.steps = [], [], [], [], []
        for e in events:
            if hasattr(self, e.name):
                getattr(self, e.name)(e)

    def retold(self, e):
        if e["what"] == 1:
            self.stacks = {}  # numbers begin anew in each file

    def stack(self, e):
        self.stacks[e["stack"]] = [hex(ip) for ip in e["frame"]]

    def watch(self, e):
        self.watches[e["watch"]] = e["addr"]

    def tag(self, e):
        self.tags[e["tag"]] = e["name"]

    def thread(self, e):
        self.processes[e["tid"]] = e["pid"]

    tag_again, thread_again, thread_process = tag, thread, thread

    def common(self, e, earlier=0):
        return {"time_ns": e.time_ns - earlier, "pid": self.processes[e["tid"]], "tid": e["tid"]}

    def hit(self, e):
        old, new = [hex(e[k]) if e["flags"] & bit else None for k, bit in (("old_value", 1), ("new_value", 2))]
        self.accesses.append(self.common(e, e["before_ns"]) | {
            "addr": hex(self.watches[e["watch"]] + (e["flags"] >> 3)), "size": e["size"], "old": old, "new": new,
            "regs": {k: hex(e[k]) for k in log.REGISTERS}, "stack": self.stacks[e["stack"]]})

    def capture(self, e):
        value = {"value": hex(e["value"])} if e.name == "capture_value" else {}
        self.captures.append(self.common(e, e["before_ns"]) | value | {"tag": self.tags[e["tag"]],
                                                                       "stack": self.stacks[e["stack"]]})

    capture_value = capture

    def call(self, e):
        assert e["values"][0] == 0  # a number of four bytes
        self.calls.append(self.common(e) | {"call": e["call"], "sp": hex(e["sp"]), "stack": self.stacks[e["stack"]],
                                            "args": [hex(int.from_bytes(bytes(e["values"][1:]), "little"))]})

    def step(self, e):
        self.steps.append(self.common(e) | {"call": e["call"], "ip": hex(e["ip"])})

    def return_error(self, e):
        self.returns.append(self.common(e) | {"call": e["call"]} | ({"errno_number": e["error"]} if "error" in e.fields else {}))


setattr(Seen, "return", Seen.return_error)


def of(found, kind, *keys):
    """The objects of a kind, of which the keys that are given; a stack as its addresses, arguments as their values."""
    picked = []
    for o in found:
        if o["type"] == kind:
            o = {k: o.get(k) for k in ("time_ns", "pid", "tid") + keys if k in o or k in ("old", "new")}
            for key, inner in (("stack", "ip"), ("args", "value")):
                if key in o:
                    o[key] = [part[inner] for part in o[key]]
            picked.append(o)
    return picked


def accesses_of_ours(path):
    r, found = objects("--regs", path)
    assert r.returncode == 0, r.stderr
    return [o for o in found if o["type"] == "access"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A ring that has wrapped, with hits, captures, calls, returns and instructions; and its end as a snapshot."""
    path = tmp_path_factory.mktemp("ring") / "log"
    subprocess.run([GENERATOR, str(path), "1048576", "20000", "all"], check=True, timeout=WAIT)
    assert "events.0000000000" not in os.listdir(path)
    end = path.parent / "end"
    o = snapshot(path, "-o", end, "--last", "1ms")  # the generator's accesses are 1 us apart
    assert 1000 <= o["accesses"] < 2500 and o["captures"] and o["calls"]
    return {"ring": str(path), "snapshot": str(end)}


@NEEDS_BABELTRACE
@pytest.mark.parametrize("kind", ["ring", "snapshot"])
def test_babeltrace2_agrees_on_every_field_of_every_event(everything, kind):
    names = {e.name for e in log.check_against_babeltrace(everything[kind])}
    assert names >= {"hit", "stack", "capture", "capture_value", "call", "step", "return", "return_error", "thread_again",
                     "tag_again", "retold", "watch", "function", "type", "recording"}


@pytest.mark.parametrize("kind", ["ring", "snapshot"])
def test_watchctl_tells_what_the_manual_says_is_there(everything, kind):
    seen = Seen(log.read_log(everything[kind]))
    r, found = objects("--regs", everything[kind])
    assert r.returncode == 0, r.stderr
    assert len(seen.accesses) >= 1000 and len(seen.captures) == len(seen.calls) == len(seen.returns) >= 100
    by_time = lambda events: sorted(events, key=lambda o: o["time_ns"])
    assert of(found, "access", "addr", "size", "old", "new", "regs", "stack") == by_time(seen.accesses)
    assert of(found, "stack", "tag", "value", "stack") == by_time(seen.captures)
    assert of(found, "call", "call", "sp", "stack", "args") == seen.calls
    assert of(found, "return", "call", "errno_number") == seen.returns
    assert of(found, "step", "call", "ip") == seen.steps


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("ring") / "log"
    subprocess.run([GENERATOR, str(path), "1048576", "20000"], check=True, timeout=WAIT)
    return str(path)


def test_a_ring_stays_within_its_bound(wrapped):
    assert "events.0000000000" not in os.listdir(wrapped)
    assert sum(os.path.getsize(os.path.join(wrapped, f)) for f in os.listdir(wrapped)) <= 1048576


# Snapshots


def snapshot(*args, cut=False):
    """@cut: its recorder was killed, and may have been writing a packet at that moment."""
    r = run("snapshot", "--json", *args)
    assert r.returncode == 0 or cut and r.returncode == 8 and "is not whole" in r.stderr, r.stderr
    return json.loads(r.stdout)


def test_a_snapshot_of_a_ring_is_a_log_with_the_same_events(wrapped, tmp_path):
    o = snapshot(wrapped, "-o", tmp_path / "new")
    ours = accesses_of_ours(wrapped)
    assert o["accesses"] == len(ours) and not o["recording"] and o["ring"] and o["missed"] == 0
    assert accesses_of_ours(tmp_path / "new") == ours
    assert os.stat(tmp_path / "new").st_mode & 0o7777 == 0o700
    r = run("snapshot", wrapped, "-o", tmp_path / "new")
    assert r.returncode == 8 and "exists already" in r.stderr


def test_a_running_recorder_is_saved_again_and_again(tmp_path):
    ring = tmp_path / "log"
    recorder = subprocess.Popen([GENERATOR, str(ring), "1048576", "0"])
    try:
        wait_until(lambda: os.path.exists(ring) and "events.0000000000" not in os.listdir(ring) and len(os.listdir(ring)) >= 5)
        last = 0
        for i in range(5):
            o = snapshot(ring, "-o", tmp_path / f"new{i}")
            assert o["recording"] and o["flushed"] and o["missed"] == 0
            found = [int(a["new"], 16) for a in accesses_of_ours(tmp_path / f"new{i}")]
            assert found == list(range(found[0], found[-1] + 1)) and found[-1] > last
            last = found[-1]
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
        o = snapshot(ring, "-o", tmp_path / "dead", cut=True)
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


def test_a_recorder_whose_disk_is_full_says_so_and_leaves_what_fits(tmp_path):
    """On a file system of its own, where the recorder runs until there is no room for a packet, or for a file."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=700k tmpfs {disk}"
    unshare = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*unshare, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    r = subprocess.run([*unshare, "sh", "-c", f"{mount} && ({GENERATOR} {disk}/log 1048576 0; echo status $? >&2); "
                        f"{WATCHCTL} report --json {disk}/log"], capture_output=True, text=True, timeout=WAIT)
    assert "cannot write the log" in r.stderr and "No space left on device" in r.stderr and "status 1" in r.stderr
    found = values([json.loads(line) for line in r.stdout.splitlines()])
    assert r.returncode == 0 and len(found) > 1000 and found == list(range(1, len(found) + 1))


def test_a_full_disk_leaves_nothing(wrapped, tmp_path):
    new = tmp_path / "new"
    other = "/dev/shm" if os.stat("/dev/shm").st_dev != os.stat(wrapped).st_dev else None
    target = os.path.join(other, f"watchctl-test-{os.getpid()}") if other else str(new)
    r = subprocess.run(["bash", "-c", f"ulimit -f 20; exec {WATCHCTL} snapshot {wrapped} -o {target}"],
                       capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 8 and "nothing of it is left" in r.stderr
    folder = os.path.dirname(target)
    assert not [f for f in os.listdir(folder) if os.path.basename(target) in f]
