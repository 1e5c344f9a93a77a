# rooms: flow/kernel flow/graph flow/rules monitor/flow trace/flow cli/flow
"""`watchctl flow record`, and what `flow graph` and `flow path` say of such logs."""
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, WAIT, WATCHCTL
from hang_scenes import NO_BPF
from waiting import ready, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for BPF programs of the whole system")

# System calls that return: told of those processes alone that were asked for. Waits are told of all.
CALLS = ("call", "call_on", "call_futex", "call_big", "call_on_big")

Pipeline = collections.namedtuple("Pipeline", "log said first middle last")
Summary = collections.namedtuple("Summary", "recorded lost bytes")


def flow(*words, prefix=(), **kw):
    return subprocess.run([*prefix, WATCHCTL, "flow", *map(str, words)], capture_output=True, text=True, timeout=WAIT, check=False, **kw)


def summary(r):
    """The last line of a recording, in numbers."""
    found = re.search(r": (\d+) events? of \d+ CPUs? in [\d.]+ s, ([\d.]+) MB.*; (\d+) lost", r.stderr)
    assert found, r.stderr
    return Summary(int(found[1]), int(found[3]), float(found[2]))


def recorded(log, *words, program=("true",)):
    r = flow("record", "-o", log, "--json", *words, "--", *program)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout.splitlines()[-1])


def as_babeltrace_reads_it(log):
    return subprocess.run(["babeltrace2", str(log)], capture_output=True, text=True, timeout=WAIT, check=True).stdout.splitlines()


def kind(line):
    """The name of the event: what stands before the first ": " behind the time."""
    return line.split(") ", 1)[1].split(": ", 1)[0].split()[-1]


def system_events(lines):
    return [x for x in lines if "packet = " in x and kind(x) != "time"]


def graph(log, *words):
    r = flow("graph", log, *words)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def path(log, to):
    r = flow("path", log, "--to", to, "--json")
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def programs_of(pid):
    """The numbers of the BPF programs that it has open."""
    found = set()
    for f in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            found |= set(map(int, re.findall(r"prog_id:\t(\d+)", f.read_text(encoding="ascii"))))
    return found


def all_programs():
    out = subprocess.run(["bpftool", "prog", "list", "--json"], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    return {x["id"] for x in json.loads(out)}


def on_disk(log):
    return sum(f.stat().st_size for f in log.iterdir() if f.name.startswith("flow."))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """A log of a pipeline, its summary, and the names of its three programs, which no other in the system has."""
    folder = tmp_path_factory.mktemp("pipeline")
    names = [f"{word}-{os.getpid()}" for word in ("zeros", "pass", "count")]
    for name, program in zip(names, ("head", "cat", "wc")):
        (folder / name).symlink_to(shutil.which(program))
    first, middle, last = names
    said = recorded(folder / "log", program=("sh", "-c", f"cd {folder}; ./{first} -c 300000 /dev/zero | ./{middle} | ./{last} -c"))
    return Pipeline(folder / "log", said, *names)


@pytest.fixture
def running():
    """Programs that are ended with the test."""
    all_of_them = []

    def start(*command, **popen):
        all_of_them.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **popen))
        return all_of_them[-1]

    yield start
    for p in all_of_them:
        p.kill()
        p.wait(timeout=WAIT)


# Scopes: whose calls are recorded


def test_it_ends_with_its_program_and_says_how_much_it_recorded(tmp_path):
    log = tmp_path / "log"
    r = flow("record", "-o", log, "--", "sh", "-c", "echo seen; exit 0")
    assert (r.returncode, r.stdout) == (0, "seen\n")
    said = summary(r)
    assert said.recorded > 0
    assert {"metadata", "events"} < {f.name for f in log.iterdir()}


def test_the_program_notices_nothing(tmp_path):
    """Its output, its exit status, and whether it is traced are those without a recorder."""
    inside = "grep TracerPid /proc/self/status; trap 'echo ended' EXIT; cat; exit 3"
    alone = subprocess.run(["sh", "-c", inside], input="typed\n", capture_output=True, text=True, timeout=WAIT, check=False)
    both = flow("record", "-o", tmp_path / "log", "--", "sh", "-c", f"({inside}); echo status $?", input="typed\n")
    assert alone.stdout == "TracerPid:\t0\ntyped\nended\n" and alone.returncode == 3
    assert both.stdout == alone.stdout + "status 3\n"


def test_a_program_that_fails_is_no_failure_of_the_recording(tmp_path):
    """As `watchctl trace -- false`."""
    assert flow("record", "-o", tmp_path / "log", "--", "false").returncode == 0
    assert flow("record", "-o", tmp_path / "killed", "--", "sh", "-c", "kill -KILL $$").returncode == 0


def test_babeltrace_reads_as_many_events_as_the_summary_says(pipeline):
    assert len(system_events(as_babeltrace_reads_it(pipeline.log))) == pipeline.said["recorded"] > 0
    assert pipeline.said["bytes"] == on_disk(pipeline.log)


def test_what_connects_a_pipeline_is_in_the_log(pipeline):
    kinds = collections.Counter(map(kind, system_events(as_babeltrace_reads_it(pipeline.log))))
    assert {"switch", "waking", "fork", "name", "exec", "exit", "call_on"} <= set(kinds), kinds


def test_names_of_what_there_was_before_are_known(pipeline):
    names = [x for x in as_babeltrace_reads_it(pipeline.log) if kind(x) == "name"]
    mine = f"tid = {os.getpid()},"
    assert [x for x in names if mine in x], f"no name of {mine}"


def who_called(lines):
    """Threads that events of system calls are of: those that ran on the CPU then, and have a name (they did not end as the recording began)."""
    who, named, runs, packets = set(), set(), {}, {}
    for line in lines:
        cpu, tid, packet = (int(re.search(rf"\b{f} = (\d+)", line)[1]) for f in ("cpu", "tid", "packet"))
        if packets.get(cpu) != packet:
            packets[cpu], runs[cpu] = packet, tid
        if kind(line) in CALLS:
            who.add(runs[cpu])
        fields = line.split("}, {")[-1]
        if kind(line) == "name":
            named.add(int(re.search(r"\btid = (\d+)", fields)[1]))
        if found := re.search(r"\bnext = (\d+)", fields):
            runs[cpu] = int(found[1])
        elif kind(line) == "name" and '"exec"' in fields:
            runs[cpu] = int(re.search(r"\btid = (\d+)", fields)[1])
    return who & named


def descendants(lines, pids):
    """@pids, and what they forked while it was recorded."""
    family = set(pids)
    for line in lines:
        if kind(line) == "name":
            tid, pid, parent = (int(re.search(rf"\b{f} = (\d+)", line.split("}, {")[-1])[1]) for f in ("tid", "pid", "parent"))
            if pid in family or parent in family:
                family.add(tid)
    return family


@pytest.fixture
def two_busy(running):
    """Two programs of many system calls, the same."""
    return [running("sh", "-c", "while :; do head -c 1000 /dev/zero | cat; done", start_new_session=True) for _ in range(2)]


def calls_of(log):
    lines = system_events(as_babeltrace_reads_it(log))
    return who_called(lines), lines


# A program that ends after the busy ones have worked for a while: they start programs again and again.
A_WHILE = ("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do date | cat | wc -c; done")


def test_all_of_the_system_is_recorded_if_nothing_else_is_said(two_busy, tmp_path):
    recorded(tmp_path / "log", program=A_WHILE)
    who, _ = calls_of(tmp_path / "log")
    assert {p.pid for p in two_busy} <= who


def test_with_a_pid_system_calls_of_it_and_its_children_alone_are_told(two_busy, tmp_path):
    mine, _ = two_busy
    recorded(tmp_path / "log", "-p", mine.pid, program=A_WHILE)
    who, lines = calls_of(tmp_path / "log")
    assert mine.pid in who and not who - descendants(lines, [mine.pid])
    assert len(who) > 1, "none of its children"


def test_a_recording_of_processes_ends_when_all_of_them_have_ended(two_busy, tmp_path):
    first, second = two_busy
    recorder = ready(WATCHCTL, "flow", "record", "-o", tmp_path / "log", "-p", str(first.pid), "-p", str(second.pid), stderr=subprocess.DEVNULL)
    first.kill()
    first.wait(WAIT)
    assert recorder.poll() is None
    second.kill()
    assert recorder.wait(WAIT) == 0
    assert graph(tmp_path / "log")


@pytest.mark.usefixtures("two_busy")
def test_only_the_program(tmp_path):
    log = tmp_path / "log"
    r = flow("record", "-o", log, "--only", "--", "sh", "-c", "echo $$; date | cat >/dev/null; :")
    assert r.returncode == 0, r.stderr
    who, lines = calls_of(log)
    pid = int(r.stdout)
    assert pid in who and not who - descendants(lines, [pid])


def cgroup2():
    """Where cgroups of version 2 are; None: nowhere."""
    for line in Path("/proc/self/mounts").read_text(encoding="ascii").splitlines():
        _, where, what, *_ = line.split()
        if what == "cgroup2":
            return Path(where)
    return None


@pytest.fixture
def cgroup():
    where = cgroup2()
    if not where:
        pytest.skip("there is no cgroup2 here")
    made = where / f"watchctl-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as e:
        pytest.skip(f"no cgroup can be made: {e}")
    yield made

    def is_gone():
        with contextlib.suppress(OSError):
            made.rmdir()
        return not made.exists()

    (made / "cgroup.kill").write_text("1", encoding="ascii")
    wait_until(is_gone)


def test_of_a_cgroup_alone(cgroup, two_busy, tmp_path):
    mine, _ = two_busy
    (cgroup / "cgroup.procs").write_text(str(mine.pid), encoding="ascii")
    before = descendants_now(mine.pid)
    recorded(tmp_path / "log", "--cgroup", cgroup, program=A_WHILE)
    who, lines = calls_of(tmp_path / "log")
    assert mine.pid in who and not who - descendants(lines, [mine.pid]) - before


def descendants_now(pid):
    found = {pid}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            with contextlib.suppress(OSError):
                found |= descendants_now(int(child))
    return found


# How a recording ends


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(tmp_path, sign):
    log = tmp_path / "log"
    recorder = ready(WATCHCTL, "flow", "record", "-o", log, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    held = programs_of(recorder.pid)
    recorder.send_signal(sign)
    out, err = recorder.communicate(timeout=WAIT)
    assert (recorder.returncode, out) == (0, "") and " lost" in err, err
    assert held
    wait_until(lambda: not held & all_programs())
    flow_events = int(re.search(r": (\d+) events?", err)[1])
    assert len(system_events(as_babeltrace_reads_it(log))) == flow_events


def test_the_program_outlives_a_recorder_that_is_asked_to_stop(tmp_path):
    recorder = subprocess.Popen([WATCHCTL, "flow", "record", "-o", tmp_path / "log", "--", "cat"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    recorder.stdin.write("seen\n")
    recorder.stdin.flush()
    assert recorder.stdout.readline() == "seen\n"
    recorder.send_signal(signal.SIGINT)
    wait_until(lambda: recorder.poll() is not None)
    recorder.stdin.write("still here\n")
    recorder.stdin.close()
    assert recorder.stdout.read() == "still here\n" and recorder.returncode == 0


def test_a_recorder_that_is_killed_leaves_what_it_wrote_and_no_programs_in_the_kernel(tmp_path, running):
    running("sh", "-c", "while :; do head -c 1000 /dev/zero | cat; done", start_new_session=True)
    log = tmp_path / "log"
    recorder = ready(WATCHCTL, "flow", "record", "-o", log, stderr=subprocess.DEVNULL)
    held = programs_of(recorder.pid)
    wait_until(lambda: on_disk(log) > 200_000)
    recorder.kill()
    recorder.wait(timeout=WAIT)
    assert held
    wait_until(lambda: not held & all_programs())
    assert len(system_events(as_babeltrace_reads_it(log))) > 1000
    assert [x for x in graph(log) if x["type"] == "edge" and x["strong"]]


def test_a_full_disk_is_told_and_what_fits_is_there(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=500k none {disk}"
    unshare = ["unshare", "--mount"]
    if subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    busy = "while dd if=/dev/zero bs=1 count=10000 2>/dev/null | dd bs=1 of=/dev/null 2>/dev/null && test ! -e $0; do :; done"
    over = tmp_path / "over"
    r = subprocess.run([*unshare, "sh", "-c",
                        f"{mount} && {WATCHCTL} flow record -o {disk}/log -- sh -c '{busy}' {over} >&2; echo status $? >&2; touch {over}; "
                        f"{WATCHCTL} flow graph {disk}/log"], capture_output=True, text=True, timeout=WAIT, check=False)
    assert "No space left on device" in r.stderr and "status 8" in r.stderr, r.stderr
    # How many units and edges there are in what fits depends on how often the two are switched.
    kinds = {json.loads(line)["type"] for line in r.stdout.splitlines()}
    assert r.returncode == 0 and {"node", "edge"} <= kinds, r.stderr


def test_a_ring_keeps_its_bound_while_a_program_is_busy(tmp_path):
    bound, log = 4 << 20, tmp_path / "log"
    work = "dd if=/dev/zero bs=1 count=400000 2>/dev/null | dd bs=1 of=/dev/null 2>/dev/null"
    recorder = subprocess.Popen([WATCHCTL, "flow", "record", "-o", log, "--ring", "4M", "--json", "--", "sh", "-c", work],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    largest = 0

    def look():
        nonlocal largest
        with contextlib.suppress(OSError):
            largest = max(largest, on_disk(log))
        return recorder.poll() is not None

    wait_until(look)
    said = json.loads(recorder.stdout.read())
    assert recorder.returncode == 0 and said["bytes"] > bound >= largest > bound // 2
    assert said["recorded"] > len(system_events(as_babeltrace_reads_it(log))) > 0
    assert [x for x in graph(log) if x["type"] == "edge" and x["strong"]]
    assert min(int(re.match(r"flow\.(\d+)-", f.name)[1]) for f in log.iterdir() if f.name.startswith("flow.")) > 0


# Refusals


@pytest.mark.parametrize("words,status,sentence", [
    (["record"], 2, "-o LOG"),
    (["record", "again"], 2, "takes options only"),
    (["record", "-o", "log", "-p", "4194304"], 3, "no process 4194304"),
    (["record", "-o", "log", "-p", "1", "--cgroup", "/"], 2, "exclude each other"),
    (["record", "-o", "log", "--all", "-p", "1"], 2, "--all is the whole system"),
    (["record", "-o", "log", "--cgroup", "/none"], 2, "there is no cgroup /none"),
    (["record", "-o", "log", "--cgroup", "/proc"], 2, "is no cgroup of version 2"),
    (["record", "-o", "log", "--cgroup", "/etc/passwd"], 2, "is no cgroup of version 2"),
    (["record", "-o", "log", "--ring", "1M"], 2, "4M and more"),
    (["record", "-o", "log", "--buffer", "100000"], 2, "power of two"),
    (["record", "-o", "log", "--only"], 2, "--only goes with a program"),
    (["record", "-o", "log", "--around", "12:00"], 2, "--around goes with flow graph"),
    (["record", "-o", "log", "--to", "json"], 2, "--to goes with"),
    (["record", "-o", "log", "--utc"], 2, "--utc goes with"),
    (["record", "-o", "log", "--", "/none"], 2, "cannot run /none"),
    (["record", "-o", "none/log", "-t", "1"], 8, "does not exist"),
    (["explain", "-p", "1", "--", "true"], 2, "flow record alone"),
    (["graph"], 2, "graph of which log?"),
    (["graph", "none"], 8, "none"),
    (["graph", "."], 8, "not a log"),
    (["graph", "log", "--ring", "4M"], 2, "--ring goes with flow record"),
    (["graph", "log", "-p", "1"], 2, "--process NAME"),
    (["graph", "log", "--all"], 2, "--all goes with flow explain and flow record"),
    (["graph", "log", "--window", "1s"], 2, "--window goes with --around"),
    (["graph", "log", "--to", "svg"], 2, "json, dot or html"),
    (["graph", "log", "more"], 2, "one too many"),
    (["path", "log"], 2, "path to where?"),
    (["path", "log", "--to", "sh", "--process", "sh"], 2, "--process goes with flow graph"),
])
def test_what_cannot_be_is_refused(tmp_path, words, status, sentence):
    r = flow(*words, cwd=tmp_path)
    assert (r.returncode, r.stdout) == (status, "") and sentence in r.stderr, r.stderr
    assert not list(tmp_path.iterdir())


def test_without_the_right_to_it_one_sentence_says_so(tmp_path):
    r = flow("record", "-o", tmp_path / "log", "--", "echo", "started", prefix=NO_BPF)
    assert (r.returncode, r.stdout) == (4, "") and "CAP_BPF" in r.stderr and r.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_log_that_is_there_stays_unless_it_is_replaced(tmp_path):
    log = tmp_path / "log"
    recorded(log)
    old = (log / "metadata").read_bytes()
    r = flow("record", "-o", log, "--", "echo", "started")
    assert (r.returncode, r.stdout) == (8, "") and "--force" in r.stderr
    assert flow("record", "-o", log, "--force", "--", "/none").returncode == 2
    assert flow("record", "-o", log, "--force", "-t", "1", prefix=NO_BPF).returncode == 4
    assert (log / "metadata").read_bytes() == old and [f.name for f in tmp_path.iterdir()] == ["log"]
    recorded(log, "--force")
    assert (log / "metadata").read_bytes() != old and [f.name for f in tmp_path.iterdir()] == ["log"]


# The graph and a path in it


def test_the_graph_is_whole(pipeline):
    """Each edge leads between nodes that are printed, in the order of time, and inside them."""
    lines = graph(pipeline.log)
    nodes = {x["id"]: x for x in lines if x["type"] == "node"}
    edges = [x for x in lines if x["type"] == "edge"]
    assert {x["type"] for x in lines} == {"node", "edge"} and edges
    for e in edges:
        assert e["to"]["node"] in nodes and nodes[e["to"]["node"]]["tid"] == e["to"]["tid"]
        assert e["from"]["time_ns"] <= e["to"]["time_ns"]
        assert e["kind"] == "wait_for" or e["from"]["node"] in nodes
        assert e["strong"] == (e["kind"] != "weak")


def test_who_started_whom_and_whose_end_ended_the_wait(pipeline):
    lines = graph(pipeline.log)
    nodes = {x["id"]: x for x in lines if x["type"] == "node"}
    spawned = [e for e in lines if e["type"] == "edge" and e["kind"] == "spawn" and nodes[e["to"]["node"]].get("comm") in pipeline]
    parents = {nodes[e["from"]["node"]]["tid"] for e in spawned}
    assert len(spawned) == 3 and len(parents) == 1
    ended = {e["from"]["tid"] for e in lines if e["type"] == "edge" and e["kind"] == "exit" and e["to"]["tid"] in parents}
    assert ended & {e["to"]["tid"] for e in spawned}


def test_of_one_process_alone(pipeline):
    everything, lines = graph(pipeline.log), graph(pipeline.log, "--process", pipeline.last)
    mine = {x["tid"] for x in lines if x["type"] == "node" and x.get("comm") == pipeline.last}
    assert len(mine) == 1 and 0 < len(lines) < len(everything)
    ends = [{e["to"]["tid"], e["from"].get("tid")} for e in lines if e["type"] == "edge"]
    assert ends and any(tids & mine for tids in ends)
    assert lines == graph(pipeline.log, "--process", f"{pipeline.last}/{mine.copy().pop()}")


def test_dot_is_read_by_graphviz_and_has_the_same_nodes(pipeline):
    out = flow("graph", pipeline.log, "--process", pipeline.last, "--to", "dot").stdout
    assert out.startswith("digraph") and out.endswith("}\n")
    ids = {int(x) for x in re.findall(r"^\tn(\d+) \[", out, re.M)}
    assert ids == {x["id"] for x in graph(pipeline.log, "--process", pipeline.last) if x["type"] == "node"}


def test_a_path_leads_back_from_a_program_to_who_started_it(pipeline):
    links = path(pipeline.log, pipeline.last)
    assert [x["n"] for x in links] == list(range(1, len(links) + 1))
    assert links[0]["to"]["comm"] == pipeline.last
    for a, b in zip(links, links[1:]):
        assert a["from"]["id"] == b["to"]["id"] and a["edge"]["strong"]
    assert "edge" not in links[-1] and "from" not in links[-1]
    assert "sh" in [x["to"].get("comm") for x in links]


def test_in_words_a_path_says_the_same(pipeline):
    links, words = path(pipeline.log, pipeline.last), flow("path", pipeline.log, "--to", pipeline.last).stdout.splitlines()
    threads = [f"{x['to'].get('comm', '?')}/{x['to']['tid']}" for x in links]
    assert [re.search(r"  (\S.*/\d+)  ", x)[1] for x in words if re.match(r"[\d+]", x)] == threads
    assert words[-1].endswith(".")


def test_without_events_of_the_system_it_says_what_the_log_has(tmp_path):
    log = tmp_path / "log"
    subprocess.run([WATCHCTL, "trace", "-o", str(log), "--", "true"], capture_output=True, timeout=WAIT, check=True)
    for words in ["graph", log], ["path", log, "--to", "true"]:
        r = flow(*words)
        assert (r.returncode, r.stdout) == (8, "") and "has no system events" in r.stderr and "watchctl report" in r.stderr


@pytest.mark.parametrize("words,status,sentence", [
    (["path", "--to", "nosuchthing"], 5, "watchctl flow graph prints all"),
    (["path", "--to", "{mistyped}"], 5, "did you mean {last}"),
    (["path", "--to", "{last}/4194304"], 5, "did you mean {last}"),
    (["path", "--to", ""], 2, "NAME/NUMBER"),
    (["path", "--to", "{last} at noon"], 2, "wants a time"),
    (["path", "--to", "{last} at +86400s"], 2, "outside the log"),
    (["path", "--to", "{last} at 1000"], 2, "outside the log"),
    (["path", "--to", "{last} at +0"], 5, "did nothing yet"),
    (["graph", "--process", "{mistyped}"], 5, "did you mean {last}"),
    (["graph", "--process", ""], 2, "NAME/NUMBER"),
    (["graph", "--around", "noon"], 2, "wants a time"),
    (["graph", "--around", "+86400s"], 2, "outside the log"),
])
def test_what_is_not_in_the_log_is_told(pipeline, words, status, sentence):
    names = {"last": pipeline.last, "mistyped": pipeline.last.replace("count", "cuont")}
    r = flow(words[0], pipeline.log, *(w.format(**names) for w in words[1:]))
    assert (r.returncode, r.stdout) == (status, "") and sentence.format(**names) in r.stderr, r.stderr


def test_a_time_and_a_window_choose(pipeline):
    everything = graph(pipeline.log)
    some = graph(pipeline.log, "--around", "+10ms", "--window", "1ms")
    assert 0 < len(some) < len(everything) and all(x in everything for x in some)


def test_a_damaged_log_is_told_and_the_rest_is_read(pipeline, tmp_path):
    log = tmp_path / "log"
    subprocess.run(["cp", "-r", str(pipeline.log), str(log)], check=True)
    largest = max((f for f in log.iterdir() if f.name.startswith("flow.")), key=lambda f: f.stat().st_size)
    with open(largest, "r+b") as f:
        f.seek(largest.stat().st_size // 2)
        f.write(b"\xff" * 64)
    r = flow("graph", log)
    assert r.returncode == 0 and "are damaged" in r.stderr and r.stdout


def test_edges_are_those_that_the_program_tells(build, tmp_path):
    """A sample of `make flow-proof`, which judges the shares: on a busy machine few takers sleep, and what they read from a pty is not matched."""
    r = subprocess.run([sys.executable, str(ROOT / "tests" / "proof" / "flow.py"), "--watchctl", WATCHCTL, "--causes", build("causes"),
                        "--programs", "2", "--steps", "200", "--precision", "95", "--recall", "80", "--keep", str(tmp_path)], capture_output=True, text=True, timeout=4 * WAIT, check=False,
                       start_new_session=True)  # it ends its whole group where it cannot go on
    assert r.returncode == 0, r.stdout + r.stderr
